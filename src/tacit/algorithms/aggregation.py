"""What the methods with random aggregators share: the random weights, the noise, the proximal step, stability."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import needed
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release, clipped
from tacit.errors import InputError
from tacit.privacy.laws import Normal, TwoSided, coordinate_law_within
from tacit.privacy.mechanisms import instead, minimiser_perturbed, private_argmin, step_perturbed, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import gradient_sensitivity, minimiser_sensitivity


def drawn_weights(
    ends: tuple[float, float], noise: Noise | None, dimension: int, ids: np.ndarray, k: int
) -> np.ndarray | float:
    """A weight for each agent and coordinate, (n, d), uniform between the ends; a number where they are equal."""
    low, high = ends
    if low == high:
        return low
    if noise is None:
        raise InputError("random weights need noise: SecureNoise(), or SeededNoise(seed) to experiment")
    return low + noise.draw("uniform", 1.0, dimension, ids, k) * (high - low)


def checked_weights(name: str, ends: tuple[float, float]) -> None:
    """Refuses what is not a range within 0 and 1."""
    if not (isinstance(ends, tuple) and len(ends) == 2 and 0 <= ends[0] <= ends[1] <= 1):
        raise InputError(f"{name} is a range of weights, two numbers from 0 to 1, not {ends}")


class Protection(NamedTuple):
    """How the release of noisy step k is protected: by Laplace noise of the rate `beta`, by noise that costs `budget`,
    or not at all. Rows have norms of at most `row_norm`."""

    noise: Noise | None
    beta: Hyper | None
    budget: Budgets | None
    row_norm: float
    ids: np.ndarray
    k: int

    @property
    def none(self) -> bool:
        """Whether there is no noise."""
        return self.beta is None and self.budget is None

    def law(self, moved: np.ndarray, dimension: int) -> Normal | TwoSided:
        """The law of the noise for a value that a record moves by `moved`, (n, 1)."""
        if self.budget is not None:
            return coordinate_law_within(hyper.budget_at(self.budget, self.k), moved, dimension)
        if self.beta is None:
            raise InputError("a method without noise has no law of noise")
        return TwoSided(hyper.at("beta", self.beta, self.k, self.ids))

    @property
    def where(self) -> dict[str, Any]:
        """What every mechanism needs to know."""
        return {"row_norm": self.row_norm, "ids": self.ids, "t": self.k}


def gradient_step(
    problem: Problem, how: Protection, *, towards: np.ndarray, at: np.ndarray, step: np.ndarray
) -> Release:
    """towards_i - step_i grad f_i(at_i), leaves, with noise if there is any."""
    if how.none:
        return unprotected(towards - step * problem.gradient(at))
    law = how.law(step * gradient_sensitivity(problem, how.row_norm), problem.dimension)
    return step_perturbed(problem, needed(how.noise), law, towards, at, step, **how.where)


def bounded_gradient(problem: Problem, at: np.ndarray) -> np.ndarray:
    """grad f_i as a private step takes it: at the nearest point within the radius."""
    return problem.gradient(clipped(at, problem.radius))


def onto_ball(release: Release, radius: float | None) -> Release:
    """What leaves is the nearest point of C, the ball of that radius around zero; all of R^d if it is None. The cost
    stays: the projection sees nothing but what would have left."""
    return release if radius is None else instead(release, clipped(release.value, radius))


def require_whole_space(ball: float | None) -> None:
    """Refuses to say where a released value lies in its interval if it was projected."""
    if ball is not None:
        raise InputError("a projected value does not show where it lay in its interval: only without a ball")


def proximal_step(
    problem: Problem,
    how: Protection,
    *,
    D: np.ndarray,
    pull: np.ndarray,
    towards: np.ndarray,
    at: np.ndarray,
    exact: bool,
) -> Release:
    """argmin f_i(x) - <pull_i, x> + D_i/2 ||x - towards_i||^2 leaves, or, if not `exact`, the same with f_i's tangent
    at at_i in place of f_i; with noise if there is any."""
    D = np.broadcast_to(D, (len(at), 1))
    if not exact:
        return gradient_step(problem, how, towards=towards + pull / D, at=at, step=1 / D)
    where = {"linear": -pull, "weight": D / 2, "centre": towards, "start": at}
    if how.none:
        return unprotected(problem.argmin(**where))
    x = private_argmin(problem, row_norm=how.row_norm, **where)
    moved = minimiser_sensitivity(problem, D + problem.l2, D / 2, how.row_norm)
    law = how.law(moved, problem.dimension)
    return minimiser_perturbed(problem, needed(how.noise), law, x, moved, **how.where)


def require_stable(dual_step: float, D: float, *, largest: float, contraction: float) -> None:
    """Refuses a dual step with which the method diverges, whatever the objectives.

    Without them, and with the mean of the random weights, a mode of x in which the constraint (the graph's Laplacian)
    has the eigenvalue s follows z^2 - (1 + r - zeta s/D) z + r = 0, where r is what the aggregator makes of the mode:
    stable if |r| < 1 and zeta s < 2 D (1 + r). `largest` is the largest s, 1 - `contraction` the least r. For D_i and
    modes that differ this is a practical test, not a theorem. The theorem, (48) of paper 003, has no solution at the
    paper's own settings (docs/errata.md).
    """
    r = 1 - contraction
    if not r > -1 + 1e-9:  # eigenvalues are computed
        raise InputError(
            f"the aggregator overshoots: it multiplies some disagreement by {r:.3g}, which has to be above -1; "
            "let agents keep a larger share of their own models, or lower the penalties rho"
        )
    limit = 2 * D * (1 + r)
    if not dual_step * largest < limit:
        raise InputError(
            f"the dual step {dual_step:g} is too large for this graph: times the largest eigenvalue {largest:.4g} it "
            f"has to be below 2 D (1 + {r:.3g}) = {limit:.4g}; take less than {limit / largest:.4g}, such as D/N"
        )


def warn_of_curvature(problem: Problem, D: np.ndarray, row_norm: float) -> None:
    """Warns if D_i is not above f_i's curvature, as a step along f_i's tangent needs: M in (48), which is at most
    C (largest curvature) row_norm^2 + l2."""
    curvature = problem.scale[:, None] * problem.loss.max_curvature * (row_norm * row_norm) + problem.l2
    if np.any(curvature >= D):
        warnings.warn(
            f"the penalty D = {np.min(D):g} is not above {curvature.max():.4g}, which bounds the curvature of an "
            "agent's objective: the method may not converge",
            stacklevel=4,
        )


def neighbours_mean(inbox: Inbox, own: np.ndarray) -> np.ndarray:
    """The mean of what the neighbours said, (n, d); an agent alone has its own."""
    return np.where(inbox.counts > 0, inbox.sum() / np.maximum(inbox.counts, 1), own)
