"""ADMM on a token that visits one agent after the other: on a cycle or at random, plain or perturbed."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import needed, relative
from tacit.algorithms.incremental_loop import handed_on, visits
from tacit.core.algorithm import Traits
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Prepared, RandomWalk, Schedule, way
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.privacy.laws import Law, Normal, output_law_within
from tacit.privacy.mechanisms import (
    independent,
    instead,
    minimiser_perturbed,
    private_argmin,
    step_perturbed,
    unprotected,
)
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import gradient_sensitivity, minimiser_sensitivity


class State(NamedTuple):
    """Everything an agent keeps from one visit of the token to the next."""

    x: np.ndarray  # (n, d) x_i
    y: np.ndarray  # (n, d) y_i
    token: np.ndarray  # (n, d) z as the agent saw it last
    change: np.ndarray  # (n, d) by how much the last visit changed y_i


@dataclass(frozen=True)
class Between:
    """A step size gamma, uniform between two numbers, or between two for each agent."""

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            low, high = np.asarray(self.low, dtype=float), np.asarray(self.high, dtype=float)
            between = low.shape == high.shape and bool(np.all((low > 0) & (low <= high) & np.isfinite(high)))
        except (TypeError, ValueError):
            between = False
        if not between:
            raise InputError(f"a step size lies between two positive numbers, not between {self.low} and {self.high}")

    def drawn(self, noise: Noise, ids: np.ndarray, k: int) -> np.ndarray:
        """(n, 1), by each agent from its own law."""
        low, high = (hyper.of(x, ids) for x in (self.low, self.high))
        return low + noise.draw("uniform", 1.0, 1, ids, k) * (high - low)


def _draws(method: IncrementalADMM) -> bool:
    return bool(method._prepares or method.gamma is not None or method._noisy)


def _strides(method: IncrementalADMM) -> bool:
    return not _draws(method)


@dataclass(frozen=True, kw_only=True)
class IncrementalADMM:
    """I-ADMM: Ye, Chen, Xiao, Skoglund, Poor (paper 002), Algorithm 1. The token z^k reaches agent i = i_k, which does

        x_i = argmin f_i(x) + rho/2 ||z^k - x + y_i/rho||^2                                                     (4a)
              or, if not `exact`, z^k + y_i/rho - 1/rho grad f_i(x_i^k)                                           (8)
        y_i = y_i^k + rho (z^k - x_i)                                                                            (4b)
        z^{k+1} = z^k + 1/N [(x_i - y_i/rho) - (x_i^k - y_i^k/rho)]                                               (5)

    and hands z^{k+1} on. f_i is O_i, rho is `penalty`. `order` is a cycle through all agents, by default one that is
    found in the graph, or a `RandomWalk`. An eavesdropper knows the token, so it knows S_i = x_i - y_i/rho,
    by (4b) x_i and y_i, and by (4a) y_i = grad f_i(x_i). Against that the paper has

    *random starts* (Algorithm 2): x_i^0 = v, y_i^0 = rho v with v uniform on (0, `initial`)^d. The paper prints
    -rho v, with which the method ends at a wrong point (`as_printed`): sum_i (x_i^0 - y_i^0/rho) must be N z^0 = 0.

    *step sizes* (PI-ADMM1, Algorithm 3): rho `gamma` takes the place of rho in (4a), (8) and (4b), not in (5).

    *noise on x_i* (PI-ADMM2, Algorithm 4) before it goes into (4b) and (5), of a given `deviation` or of what a visit
    may cost, `budget`.

    Only the last is differentially private: a Gaussian mechanism on the minimiser, for losses of bounded slope and
    rows of norm at most `row_norm`; otherwise its cost is infinite, and charged so. The others keep the eavesdropper
    from an exact solution of its equations, not from a good one (`tacit.lab.attacks`), and are charged as unprotected.
    Beyond the paper, a secret `offset` on S_i^0 hides y_i behind rho S_i^0: before the first visit each agent sends
    its neighbours, over links that the eavesdropper does not hear, r_i uniform on (-`offset`, `offset`)^d, and
    S_i^0 = V_i r_i - sum_j r_j, which sums up to zero.
    """

    traits: ClassVar[Traits] = Traits(
        token=True,
        multiclass=True,
        released=True,
        laws=(Gaussian,),
        draws=_draws,
        strides=_strides,
    )

    penalty: float = 1.0
    exact: bool = True
    order: tuple[int, ...] | RandomWalk | None = None
    initial: float = 0.0
    offset: float = 0.0
    gamma: Between | None = None
    deviation: float | None = None
    budget: Gaussian | None = None
    row_norm: float = 1.0
    as_printed: bool = False

    def __post_init__(self) -> None:
        hyper.number("penalty", self.penalty)
        hyper.number("initial", self.initial, zero=True)
        hyper.number("offset", self.offset, zero=True)
        if self.deviation is not None:
            hyper.number("deviation", self.deviation)
        if self.row_norm != math.inf:
            hyper.number("row_norm", self.row_norm)
        if self.gamma is not None and not isinstance(self.gamma, Between):
            raise InputError(f"gamma is Between two numbers, not {self.gamma!r}")
        if self.budget is not None and not isinstance(self.budget, Gaussian):
            raise InputError(f"a visit's budget is Gaussian(multiplier), not {self.budget!r}")
        if self.budget is not None and not math.isfinite(self.row_norm):
            raise InputError("a budget needs a bound on the rows: a finite row_norm")
        if sum(x is not None for x in (self.gamma, self.deviation, self.budget)) > 1:
            raise InputError("perturb by gamma, by deviation or by budget: one of them")

    @property
    def _prepares(self) -> bool:
        """Whether there is a tick before the token starts, in which each agent draws its start."""
        return self.initial > 0 or self.offset > 0

    @property
    def _noisy(self) -> bool:
        return self.deviation is not None or self.budget is not None

    def schedule(self, graph: Graph) -> Schedule:
        """The token's path, after the preparation, if there is one."""
        if graph.agents < 3 and (self._prepares or self.gamma is not None):
            raise InputError(
                f"{graph.agents} agents hide nothing from each other: random starts and steps need at least three"
            )
        token = way(graph, self.order)
        return Prepared(graph, token, aloud=self.offset > 0) if self._prepares else token

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """The preparation, if there is one; and all visits."""
        return np.minimum(np.arange(rounds), int(self._prepares))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is the start, y_i^0 = rho x_i^0, z^0 = 0."""
        # L depends on the records: where noise hides them, no warning may reveal it.
        if not self._noisy and np.any(self.penalty <= (smoothness := problem.smoothness())):
            warnings.warn(
                f"the penalty {self.penalty:g} is not above L = {smoothness.max():.4g}, which bounds the curvature of "
                "every agent's objective: the method may not converge",
                stacklevel=3,
            )
        return State(start, self._sign * self.penalty * start, np.zeros_like(start), np.full(start.shape, np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """(4a) or (8), (4b), (5)."""
        if self._prepares and t == 0:
            return self._prepared(s, view, needed(noise))
        k = t - self._prepares
        gamma = np.ones((len(s.x), 1)) if self.gamma is None else self.gamma.drawn(needed(noise), view.ids, k)
        rho = self.penalty * gamma
        # Where the noise lies on a grid, all that agents remember does, too: else its last digits would reveal what the
        # noise hides. N z and S_i lie on multiples of twice the grid, x_i on the grid.
        grid = 0.0 if noise is None or not self._noisy else 2 * noise.grid
        centre = _rounded(s.token + s.y / rho, grid)
        release = self._released(s.x, centre, problem, rho, view, noise, k)
        x = release.value
        change, y, token = handed_on(x, centre, s.x, s.y, s.token, rho, self.penalty, view.network)
        token = _rounded(view.network * token, grid) / view.network
        return State(x, y, token, change), instead(release, token)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The token arrives; or, in the preparation, the neighbours' parts of the offset."""
        if self._prepares and t == 0:
            return s._replace(y=s.y + self.penalty * inbox.sum())
        return s._replace(token=inbox.only())

    def stride(self, s: State, problem: Problem, holders: np.ndarray) -> State:
        """What `speak` and `listen` do while the token goes from holder to holder, with all agents in one block."""
        after = State(*(array.copy() for array in s))
        visits(holders, problem, self.penalty, self.exact, after)
        return after

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model, x_i."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the token is from x_i, and how much the last visit changed y_i, both relative."""
        return relative(s.token - s.x, s.x)[:, 0], relative(s.change, s.y)[:, 0]

    @property
    def _sign(self) -> float:
        return -1.0 if self.as_printed else 1.0

    def _prepared(self, s: State, view: View, noise: Noise) -> tuple[State, Release]:
        """Algorithm 2's start, and this agent's part of the offset."""
        d = s.x.shape[1]
        drawn = noise.draw("uniform", 1.0, 2 * d, view.ids, 0)
        x = s.x + self.initial * drawn[:, :d]
        r = self.offset * (2 * drawn[:, d:] - 1)
        return s._replace(x=x, y=self.penalty * (self._sign * x - view.degree * r)), independent(r)

    def _released(
        self,
        x: np.ndarray,
        centre: np.ndarray,
        problem: Problem,
        rho: np.ndarray,
        view: View,
        noise: Noise | None,
        k: int,
    ) -> Release:
        """(4a) or (8), as it goes into the token: exact, or with noise."""
        unbounded = self.budget is None and not math.isfinite(problem.loss.max_slope * self.row_norm)
        if not self._noisy or unbounded:
            if self.exact:
                x = problem.argmin(linear=0.0, weight=rho / 2, centre=centre, start=x)
            else:
                x = centre - problem.gradient(x) / rho
            if self.deviation is not None:
                x = needed(noise).add("gaussian", x, self.deviation, view.ids, k)
            return unprotected(x)
        row_norm, ids = self.row_norm, view.ids
        if not self.exact:
            law = self._law(gradient_sensitivity(problem, row_norm) / rho)
            return step_perturbed(problem, needed(noise), law, centre, x, 1 / rho, row_norm=row_norm, ids=ids, t=k)
        moved = minimiser_sensitivity(problem, rho + problem.l2, rho / 2, row_norm)
        x = private_argmin(problem, linear=0.0, weight=rho / 2, centre=centre, start=x, row_norm=row_norm)
        return minimiser_perturbed(problem, needed(noise), self._law(moved), x, moved, row_norm=row_norm, ids=ids, t=k)

    def _law(self, moved: np.ndarray) -> Law:
        """The noise on x_i, which a record moves by `moved`."""
        if self.budget is not None:
            return output_law_within(self.budget, moved)
        return Normal(np.full_like(moved, self.deviation))


def _rounded(x: np.ndarray, grid: float) -> np.ndarray:
    return np.round(x / grid) * grid if grid else x
