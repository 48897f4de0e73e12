"""Decentralised gradient descent as papers analyse it: mix what was said, and step by the gradient at the old point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import relative
from tacit.core.algorithm import Traits, always, never
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import Noise

_STEEPEST = 32.0  # to this power every number of rounds is a double


class State(NamedTuple):
    """Everything an agent keeps from one round to the next."""

    x: np.ndarray  # (n, d) x_i
    gradient: np.ndarray  # (n, d) grad O_i(x_i), taken when x_i was said
    spread: np.ndarray  # (n, 1) how far the neighbours' models are from it, relative
    moved: np.ndarray  # (n, 1) how far the last round moved it, relative


@dataclass(frozen=True, kw_only=True)
class DGD:
    """DGD: Yuan, Ling, Yin (2016; paper 002's [12]), (4) there. With a_k = step/(k+1)^decay, k = 0, 1, ...

        x_i^{k+1} = sum_j w_ij x_j^k - a_k grad O_i(x_i^k),          w_ij = mixing for a neighbour j,

    w_ii = 1 - V_i mixing and 0 for the others. The agents need no more than their own degree for these weights and one
    number in common: below 2/(largest eigenvalue of the Laplacian), as `Graph.mixing` is; 1/N always is.

    A constant step ends at a distance from the optimum in proportion to it, for step <= (1 + least eigenvalue of W)/L;
    with a decay in (0, 1] the distance goes to zero, slowly. `GradientDescent` steps before it speaks, so that noise on
    the gradient protects all that leaves: x^{k+1} = W (x^k - a grad), another sequence.
    """

    traits: ClassVar[Traits] = Traits(draws=never, sums=always)

    step: float
    mixing: float
    decay: float = 0.0

    def __post_init__(self) -> None:
        hyper.number("step", self.step)
        hyper.number("mixing", self.mixing, zero=True)
        hyper.number("decay", self.decay, zero=True)
        if self.decay > _STEEPEST:
            raise InputError(f"decay must be {_STEEPEST:g} at most, not {self.decay:g}: the steps would end at once")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is the start."""
        unknown = np.full((len(start), 1), np.nan)
        return State(start, np.zeros_like(start), unknown, unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """x_i leaves; its gradient stays."""
        return s._replace(gradient=problem.gradient(s.x)), unprotected(s.x)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The step."""
        pull = inbox.sum() - view.degree * s.x
        x = s.x + self.mixing * pull - self.step / (t + 1) ** self.decay * s.gradient
        return State(x, s.gradient, relative(pull, view.degree * s.x), relative(x - s.x, x))

    def estimate(self, s: State) -> np.ndarray:
        """x_i."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement, and the last round's move, both relative. With a constant step the first stays above zero."""
        return s.spread[:, 0], s.moved[:, 0]
