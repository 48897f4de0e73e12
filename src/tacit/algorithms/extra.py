"""Decentralised gradient descent with the correction that makes it exact."""

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
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next."""

    x: np.ndarray  # (n, d) x_i^k
    gradient: np.ndarray  # (n, d) grad O_i(x_i), taken when x_i was said
    last: np.ndarray  # (n, d) [(I + W)/2 x^{k-1}]_i - a grad O_i(x_i^{k-1}); x_i^0 at first
    spread: np.ndarray  # (n, 1) how far the neighbours' models are from it, relative
    moved: np.ndarray  # (n, 1) how far the last round moved it, relative


@dataclass(frozen=True, kw_only=True)
class EXTRA:
    """EXTRA: Shi, Ling, Wu, Yin (2015; paper 002's [13]), Algorithm 1 there, with (I + W)/2 for the second matrix:

        x^1     = W x^0 - a grad(x^0)
        x^{k+2} = (I + W) x^{k+1} - (I + W)/2 x^k - a [grad(x^{k+1}) - grad(x^k)]

    with a the `step`, grad(x) the agents' gradients and W the weights of `DGD`. Both lines are the step of DGD plus
    x^k - `last`. It reaches the optimum with a constant step, below (1 + least eigenvalue of W)/L.
    """

    traits: ClassVar[Traits] = Traits(draws=never, sums=always)

    step: float
    mixing: float

    def __post_init__(self) -> None:
        hyper.number("step", self.step)
        hyper.number("mixing", self.mixing, zero=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """Every x_i^0 is the public start."""
        unknown = np.full((len(start), 1), np.nan)
        return State(start, np.zeros_like(start), start, unknown, unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """x_i leaves; its gradient stays."""
        return s._replace(gradient=problem.gradient(s.x)), unprotected(s.x)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The step with what the neighbours have said."""
        pull = inbox.sum() - view.degree * s.x
        mixed, descent = s.x + self.mixing * pull, self.step * s.gradient
        x = (mixed - descent) + (s.x - s.last)
        spread = relative(pull, view.degree * s.x)
        return State(x, s.gradient, (s.x + mixed) / 2 - descent, spread, relative(x - s.x, x))

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model, x_i."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement, and the last round's move, both relative."""
        return s.spread[:, 0], s.moved[:, 0]
