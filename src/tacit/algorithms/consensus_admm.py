"""Decentralised consensus ADMM, without any privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import TINY, centre_of, dual_step, residual_norms
from tacit.core.algorithm import Traits, always, never
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.privacy.mechanisms import unprotected


class State(NamedTuple):
    """Everything an agent keeps from one round to the next."""

    f: np.ndarray  # (n, d) f_i(t)
    dual: np.ndarray  # (n, d) lambda_i(t)
    centre: np.ndarray  # (n, d) mean over the neighbours j of (f_i(t) + f_j(t))/2
    imbalance: np.ndarray  # (n, d) grad O_i(f_i) + 2 lambda_i
    pull: np.ndarray  # (n, 1) ||grad O_i(0)||: what the dual residual is measured by
    size: np.ndarray  # (n, 1) the largest ||f_i|| so far: what the primal residual is measured by


@dataclass(frozen=True, kw_only=True)
class ConsensusADMM:
    """Consensus ADMM on a graph: Zhang, Khalili, Liu, "Recycled ADMM", (8)-(9); Zhang and Zhu (2017), (10)-(11).

    With eta the penalty, V_i the degree and lambda_i(0) = 0:

        f_i(t+1)      = argmin O_i(f) + 2 lambda_i(t).f + eta sum_j ||(f_i(t) + f_j(t))/2 - f||^2       (8)
        lambda_i(t+1) = lambda_i(t) + eta/2 sum_j (f_i(t+1) - f_j(t+1))                                 (9)

    The sum of squares in (8) is V_i ||f - centre_i||^2 up to a constant, with centre_i the mean of its points.

    Residuals. By (8) and (9), grad O_i(f_i) + 2 lambda_i = 2 eta V_i (centre_i(t) - centre_i(t+1)) after every
    round, and the lambda_i sum to zero. So when the centres rest and neighbours agree, f is optimal (the pair
    (30), (31) of the paper): those two are what `residuals` gives.
    """

    traits: ClassVar[Traits] = Traits(draws=never, sums=always)

    penalty: float = 1.0  # eta

    def __post_init__(self) -> None:
        hyper.number("penalty", self.penalty)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_i(0) is given and known to the neighbours; lambda_i(0) = 0."""
        zero = np.zeros_like(start)
        return State(
            f=start,
            dual=zero,
            centre=centre_of(start, heard.sum(), view.degree),
            imbalance=np.full_like(start, np.nan),  # not known before the first round
            pull=np.linalg.norm(problem.gradient(zero), axis=1, keepdims=True),
            size=np.linalg.norm(start, axis=1, keepdims=True),
        )

    def speak(self, s: State, problem: Problem, view: View, noise: Any, t: int) -> tuple[State, Release]:
        """The primal step (8)."""
        f = problem.argmin(linear=2 * s.dual, weight=self.penalty * view.degree, centre=s.centre, start=s.f)
        size = np.maximum(s.size, np.linalg.norm(f, axis=1, keepdims=True))
        return s._replace(f=f, size=size), unprotected(f)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The dual step (9), and the centre for the next (8)."""
        return dual_step(s, s.f, inbox.sum(), view.degree, self.penalty, self.penalty)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model, f_i."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Primal ||f_i - mean of neighbours|| relative to the largest ||f_i|| so far; dual ||grad O_i + 2 lambda_i||
        relative to the larger of ||2 lambda_i|| and ||grad O_i(0)||. No change of units changes them.

        Both are local. On a long path neighbours agree long before the ends do: ask for less there.
        """
        primal, dual = residual_norms(s, s.f, view.degree)
        return (
            primal / np.maximum(s.size[:, 0], TINY),
            dual / np.maximum(np.maximum(np.linalg.norm(2 * s.dual, axis=1), s.pull[:, 0]), TINY),
        )
