"""ADMM with random penalties: each agent moves towards a random point between its model and its neighbours' mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.aggregation import (
    Protection,
    bounded_gradient,
    checked_weights,
    drawn_weights,
    neighbours_mean,
    onto_ball,
    proximal_step,
    require_stable,
    require_whole_space,
    warn_of_curvature,
)
from tacit.algorithms.consensus import relative
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    x: np.ndarray  # (n, d) x_i^k, as released
    dual: np.ndarray  # (n, d) lambda_i^k
    near: np.ndarray  # (n, d) the mean of the neighbours' x_j^k
    moved: np.ndarray  # (n, 1) how far the last step moved x_i, relative


def _draws(method: RandomAggregationADMM) -> bool:
    return method.own[0] < method.own[1] or method.beta is not None or method.budget is not None


@dataclass(frozen=True, kw_only=True)
class RandomAggregationADMM:
    """Modified ADMM: Xiao, Ye, Devadas (paper 003), Algorithm 1, on any connected graph:

        x_i^{k+1} = w x_i^k + (1 - w) mean_j x_j^k - 1/D_i grad f_i(x_i^k) + 1/D_i lambda_i^k + Delta_i           (6)
        lambda_i^{k+1} = lambda_i^k + zeta sum_j (x_j^{k+1} - x_i^{k+1})

    f_i is O_i, D_i is `penalty`, one number or one for each agent, and zeta is `dual_step`, D/N by default. w, the
    paper's Gamma_i/D_i, is drawn for each coordinate, agent and round, uniformly from `own`; equal ends fix it. The
    paper prints lambda_i - zeta sum_j, which diverges: A_i^T times the update of (12) has the sign above. `exact`
    minimises f_i in place of its tangent, (12).

    Delta_i has the density exp(-beta |z|) in each coordinate: `beta` is a rate, beta_{k+1} at round k = 0, 1, ...
    `budget` states the cost instead: `Pure(e)` is the Laplace noise with which a round costs e, all coordinates
    together, `Gaussian(m)` normal noise. Without either, nothing is private. Recorded noise stands for Delta_i, and
    recorded uniform numbers for where w lies between the ends of `own`.

    `ball` makes C the ball of that radius around zero: x_i^{k+1} is projected onto it, with its noise. As the penalties
    of (6) add up to D_i/2 ||x||^2, that is the minimiser within C; that of (12) is another, so not with `exact`.

    The cost of a round takes no credit for the random weights, because their effect depends on what was released: see
    `tacit.privacy.transcript`.
    """

    traits: ClassVar[Traits] = Traits(released=True, laws=(Pure, Gaussian), draws=_draws, sums=always)

    penalty: float | tuple[float, ...] = 1.0  # D_i
    dual_step: float | None = None  # zeta
    own: tuple[float, float] = (0.0, 1.0)
    exact: bool = False
    beta: Hyper | None = None
    budget: Budgets | None = None
    row_norm: float = 1.0
    ball: float | None = None  # the radius of C

    def __post_init__(self) -> None:
        if self.ball is not None:
            hyper.number("ball", self.ball)
            if self.exact:
                raise InputError("a projection is for the first-order step (6): not with exact")
        hyper.each("penalty", self.penalty)
        hyper.number("row_norm", self.row_norm)
        if self.dual_step is not None:
            hyper.number("dual_step", self.dual_step)
        checked_weights("own", self.own)
        hyper.freeze(self, "beta")
        hyper.noise_checked(self.beta, self.budget, name="beta", varies=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, beta=self.beta)
        hyper.fits_each(graph, "penalty", self.penalty)
        require_stable(
            self._zeta(graph.agents),
            float(np.min(self.penalty)),
            largest=graph.largest_eigenvalue,
            contraction=(1 - sum(self.own) / 2) * graph.largest_normalised_eigenvalue,
        )
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Rounds with the same settings cost the same."""
        return hyper.kinds(np.arange(rounds), self.beta, self.budget)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is given and known to the neighbours; lambda_i^0 = 0."""
        if not self.exact:
            warn_of_curvature(problem, hyper.of(self.penalty, view.ids), self.row_norm)
        return State(start, np.zeros_like(start), neighbours_mean(heard, start), np.full((len(start), 1), np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The step from a random point: (6), or (12)."""
        w = drawn_weights(self.own, noise, problem.dimension, view.ids, t)
        release = proximal_step(
            problem,
            Protection(noise, self.beta, self.budget, self.row_norm, view.ids, t),
            D=hyper.of(self.penalty, view.ids),
            pull=s.dual,
            towards=w * s.x + (1 - w) * s.near,
            at=s.x,
            exact=self.exact,
        )
        release = onto_ball(release, self.ball)
        return s._replace(x=release.value, moved=relative(s.x - release.value, release.value)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The dual step, from what was released."""
        near = neighbours_mean(inbox, s.x)
        return s._replace(near=near, dual=s.dual + self._zeta(view.network) * view.degree * (near - s.x))

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: x_i, as it was released."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the neighbours' mean is, and how far the last step went, both relative: at zero x is optimal."""
        return relative(s.near - s.x, s.x)[:, 0], s.moved[:, 0]

    def interval(self, s: State, problem: Problem, view: View, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ends of the interval in which the random weights put x_i^{k+1} before the noise, (n, d) each, and the
        step 1/D_i, (n, 1)."""
        if self.exact:
            raise InputError("the minimiser of (12) is not uniform on an interval: only (6) is")
        require_whole_space(self.ball)
        step = 1 / hyper.of(self.penalty, view.ids) * np.ones_like(view.degree)
        rest = step * (s.dual - bounded_gradient(problem, s.x))
        return *(w * s.x + (1 - w) * s.near + rest for w in self.own), step

    def _zeta(self, network: int) -> float:
        return float(np.min(self.penalty)) / network if self.dual_step is None else self.dual_step
