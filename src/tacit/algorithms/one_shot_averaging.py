"""One private solve each, then the average of what was released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import mixed, needed
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.laws import Budget, law_within
from tacit.privacy.mechanisms import instead, objective_perturbed, post_processed, unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    f: np.ndarray  # (n, d) the agent's share of the average
    spread: np.ndarray  # (n, 1) how far the neighbours' shares are from it, relative


@dataclass(frozen=True, kw_only=True)
class OneShotAveraging:
    """Every agent releases the minimiser of its own objective once, and all later rounds average what was released:

        f_i(1)   = scale_i argmin O_i(f) + e_i.f
        f_i(t+1) = f_i(t) + mixing sum_j (f_j(t) - f_i(t))

    The averaging is post-processing: it costs messages, and no privacy. It tends to the mean over agents of
    scale_i f_i, in which every record counts alike where scale_i = B_i/mean(B), at the rate of the graph
    (`Graph.mixing` is the best step). All of the budget is in one noisy step, so a method with several of them has to
    beat this one; where the agents' data are alike, none does.
    """

    traits: ClassVar[Traits] = Traits(multiclass=True, laws=(Pure, Gaussian), draws=given("budget"), sums=always)

    mixing: float
    budget: Budget | None = None

    def __post_init__(self) -> None:
        hyper.noise_checked(None, self.budget)
        hyper.number("mixing", self.mixing, zero=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.mixes(graph, self.mixing)
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """The first round, and all others."""
        return np.minimum(np.arange(rounds), 1)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """The start is only where the solver starts."""
        return State(start, np.full((len(start), 1), np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The minimiser first, then the present average."""
        if t > 0:
            return s, unprotected(s.f) if self.budget is None else post_processed(s.f)
        zero = np.zeros_like(view.degree)
        if problem.l2 <= 0:
            raise InputError("a local minimiser needs l2 > 0 to be unique")
        where = {"linear": np.zeros_like(s.f), "weight": zero, "centre": np.zeros_like(s.f), "start": s.f}
        if self.budget is None:
            release = unprotected(problem.argmin(**where))
        else:
            law = law_within(problem, self.budget, zero, zero + 1)
            release = objective_perturbed(problem, needed(noise), law, factor=zero + 1, ids=view.ids, t=t, **where)
        weighted = instead(release, problem.scale[:, None] * release.value)
        return s._replace(f=weighted.value), weighted

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """A step towards the neighbours' mean."""
        return State(*mixed(s.f, inbox, view.degree, self.mixing))

    def estimate(self, s: State) -> np.ndarray:
        """The average of the released models so far."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement; there is nothing else to converge."""
        spread = s.spread[:, 0] * (view.degree[:, 0] > 0)
        return spread, np.where(np.isnan(spread), np.nan, 0.0)
