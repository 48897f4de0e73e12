"""Gradient descent in one random coordinate a round, which all agents know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.aggregation import stated_law
from tacit.algorithms.consensus import needed, relative
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.laws import Budget
from tacit.privacy.mechanisms import coordinate_step_perturbed, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import layer_sensitivity


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    x: np.ndarray  # (n, d) as released
    mean: np.ndarray  # (n, d) of the models of the agent and its neighbours, from which the next step goes
    model: np.ndarray  # (n, d) that mean; the agent's own start before the first round
    moved: np.ndarray  # (n, 1) how far the last step moved from that mean, relative


@dataclass(frozen=True, kw_only=True)
class RandomCoordinateDescent:
    """Random coordinate descent: Xiao, Ye, Devadas (paper 003), (72), from the mean over the closed neighbourhood:

        x_i^{k+1} = mean_j x_j^k,  but for coordinate l = l_{k+1}:  x_i^{k+1}[l] = mean_j x_j^k[l] - eta g[l] + Delta_i

    with g = grad f_i(mean_j x_j^k) and f_i = O_i. For an agent alone this is (72), on a complete graph (72) for the
    average of the f_i, which the mean follows to the optimum; on other graphs agents end near it. l is uniform on the
    coordinates, the same for all agents, and public: every agent draws it from `seed`. eta is `step`, by default the
    paper's 1/M^ with the public bound M^ = (largest curvature) C row_norm^2 + l2; it must be one number for all,
    or another point is reached. So agents of different scales C_i have to agree on a step.

    *Cost.* The j-th visits to all coordinates are a *layer*, and a layer costs what a full gradient step costs
    (`mechanisms.coordinate_step_perturbed`). So K rounds cost as many steps as the most visited coordinate has visits,
    K/d if K is large: the true counts, where the paper has a bound on them that fails with some probability. The first
    release of a layer pays for it. `beta` is the rate of Laplace noise, `budget` what a layer may cost.
    """

    step: float | None = None
    seed: int = 0
    beta: float | None = None
    budget: Budget | None = None
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        hyper.number("row_norm", self.row_norm)
        for name in ("step", "beta"):
            if getattr(self, name) is not None:
                hyper.number(name, getattr(self, name))
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"the seed of the coordinates is a whole number, 0 or more, not {self.seed!r}")
        hyper.noise_checked(self.beta, self.budget, name="beta")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        return Broadcast(graph)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is given and known to the neighbours."""
        if self.step is None and np.ptp(problem.scale) > 0:
            raise InputError("agents of different scales need one step in common: give it")
        return State(start, heard.with_own(start).mean(), start, np.full((len(start), 1), np.nan))

    def coordinates(self, dimension: int, rounds: int) -> np.ndarray:
        """l_1, ..., l_rounds: a longer sequence begins with a shorter one."""
        return np.random.default_rng(self.seed).integers(dimension, size=rounds)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """(72)."""
        visits = self.coordinates(problem.dimension, t + 1)
        coordinate, eta = int(visits[-1]), self._eta(problem)
        if self.beta is None and self.budget is None:
            x = s.mean.copy()
            x[:, [coordinate]] -= eta * problem.gradient(s.mean)[:, [coordinate]]
            release = unprotected(x)
        else:
            moved = eta * layer_sensitivity(problem, self.row_norm)
            law = stated_law(self.beta, self.budget, moved, problem.dimension, view.ids, t)
            counts = np.bincount(visits[:-1], minlength=problem.dimension)
            release = coordinate_step_perturbed(
                problem,
                needed(noise),
                law,
                s.mean,
                coordinate,
                eta,
                charge=counts[coordinate] == counts.max(),
                row_norm=self.row_norm,
                ids=view.ids,
                t=t,
            )
        return s._replace(x=release.value, moved=relative(s.mean - release.value, release.value)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The mean, of released values."""
        mean = inbox.with_own(s.x).mean()
        return s._replace(mean=mean, model=mean)

    def estimate(self, s: State) -> np.ndarray:
        """The neighbourhood's mean, which steps from different agents have moved alike."""
        return s.model

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the agent's own step has led from the mean, and how far the step went, both relative. The step went
        in one coordinate, so that a small one says little."""
        return relative(s.x - s.mean, s.mean)[:, 0], s.moved[:, 0]

    def _eta(self, problem: Problem) -> np.ndarray:
        if self.step is not None:
            return np.full((problem.agents, 1), self.step)
        return 1 / (problem.loss.max_curvature * problem.scale[:, None] * self.row_norm**2 + problem.l2)
