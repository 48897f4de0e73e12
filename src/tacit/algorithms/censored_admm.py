"""Consensus ADMM in which an agent is silent while its model hardly moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import centre_of, dual_step, relative_residuals
from tacit.core.algorithm import Traits, always, never
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next."""

    f: np.ndarray  # (n, d) x_i
    said: np.ndarray  # (n, d) xhat_i: what the neighbours have of it
    dual: np.ndarray  # (n, d) lambda_i/2
    centre: np.ndarray  # (n, d) mean over the neighbours j of (xhat_i + xhat_j)/2
    imbalance: np.ndarray  # (n, d) grad O_i + lambda_i


@dataclass(frozen=True, kw_only=True)
class CensoredADMM:
    """COCA: Liu, Xu, Wu, Tian, Ling (2019; paper 002's [20]). With c the penalty, at round k = 1, 2, ...

        x_i      = argmin O_i(x) + <lambda_i, x> + c sum_j ||x - (xhat_i + xhat_j)/2||^2
                   or, if not `exact`, with O_i's linear part at the x_i before in its place
        xhat_i   = x_i if ||xhat_i - x_i|| >= alpha ratio^k; otherwise it stays, and the agent is silent
        lambda_i = lambda_i + c sum_j (xhat_i - xhat_j).

    So it is `ConsensusADMM` on what was said, with lambda_i twice the one there; with alpha = 0 it is that method. The
    neighbours of a silent agent go on with the xhat_j that they have. Silence reveals that x_i has hardly moved: it
    protects nothing.
    """

    traits: ClassVar[Traits] = Traits(draws=never, sums=always)

    penalty: float = 1.0
    alpha: float = 1.0
    ratio: float = 0.85
    exact: bool = True

    def __post_init__(self) -> None:
        hyper.number("penalty", self.penalty)
        hyper.number("alpha", self.alpha, zero=True)
        hyper.number("ratio", self.ratio)
        if self.ratio >= 1:
            raise InputError(f"the threshold must fall to zero: a ratio below 1, not {self.ratio}")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents may speak to all their neighbours in every round."""
        if graph.agents == 1 and not self.exact:
            raise InputError("a first-order step needs neighbours: at least two agents")
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """xhat_i^0 is the start, which the neighbours know; lambda_i^0 = 0."""
        unknown = np.full_like(start, np.nan)
        return State(start, start, np.zeros_like(start), centre_of(start, heard.sum(), view.degree), unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """x_i, and whether it is worth a message."""
        weight = self.penalty * view.degree
        if self.exact:
            f = problem.argmin(linear=2 * s.dual, weight=weight, centre=s.centre, start=s.f)
        else:
            f = s.centre - (problem.gradient(s.f) + 2 * s.dual) / (2 * weight)
        silent = np.linalg.norm(s.said - f, axis=1) < self.alpha * self.ratio ** (t + 1)
        said = np.where(silent[:, None], s.said, f)
        return s._replace(f=f, said=said), unprotected(said, silent=silent)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """lambda_i, and the centre for the next x_i."""
        V, c = view.degree, self.penalty
        new = dual_step(s, s.said, inbox.sum(), V, c, c)
        return new._replace(imbalance=new.imbalance - 2 * c * V * (s.f - s.said))  # the step was to x_i, not to xhat_i

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model, x_i."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """||x_i - what the neighbours have||, and ||grad O_i + lambda_i||, the gradient where the step took it: both
        relative, to ||x_i|| and ||lambda_i||."""
        return relative_residuals(s, s.f, view.degree)
