"""What the methods with random aggregators share: the random weights, the noise, the proximal step, stability.

The steps take the rate `beta` of Laplace noise or the `budget` of a step (neither: no noise), the bound `row_norm` on
the norm of rows, the `view` with the agents' ids, and the number k of the step."""

from __future__ import annotations

import warnings

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import needed
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.graph import View
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


def stated_law(
    beta: Hyper | None, budget: Budgets | None, moved: np.ndarray, dimension: int, ids: np.ndarray, k: int
) -> Normal | TwoSided:
    """The law of the noise of step k: by the rate `beta` of Laplace noise, or by its cost `budget`, for a value that a
    record moves by `moved`, (n, 1)."""
    if budget is not None:
        return coordinate_law_within(hyper.budget_at(budget, k), moved, dimension)
    if beta is None:
        raise InputError("a method without noise has no law of noise")
    return TwoSided(hyper.at("beta", beta, k, ids))


def gradient_step(
    problem: Problem,
    noise: Noise | None,
    *,
    towards: np.ndarray,
    at: np.ndarray,
    step: np.ndarray,
    beta: Hyper | None,
    budget: Budgets | None,
    row_norm: float,
    view: View,
    k: int,
) -> Release:
    """towards_i - step_i grad f_i(at_i), leaves, with noise if there is any."""
    if beta is None and budget is None:
        return unprotected(towards - step * problem.gradient(at))
    law = stated_law(beta, budget, step * gradient_sensitivity(problem, row_norm), problem.dimension, view.ids, k)
    return step_perturbed(problem, needed(noise), law, towards, at, step, row_norm=row_norm, ids=view.ids, t=k)


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
    noise: Noise | None,
    *,
    D: np.ndarray,
    pull: np.ndarray,
    towards: np.ndarray,
    at: np.ndarray,
    exact: bool,
    beta: Hyper | None,
    budget: Budgets | None,
    row_norm: float,
    view: View,
    k: int,
) -> Release:
    """argmin f_i(x) - <pull_i, x> + D_i/2 ||x - towards_i||^2 leaves, or, if not `exact`, the same with f_i's tangent
    at at_i in place of f_i; with noise if there is any."""
    D = np.broadcast_to(D, (len(at), 1))
    if not exact:
        return gradient_step(
            problem,
            noise,
            towards=towards + pull / D,
            at=at,
            step=1 / D,
            beta=beta,
            budget=budget,
            row_norm=row_norm,
            view=view,
            k=k,
        )
    where = {"linear": -pull, "weight": D / 2, "centre": towards, "start": at}
    if beta is None and budget is None:
        return unprotected(problem.argmin(**where))
    x = private_argmin(problem, row_norm=row_norm, **where)
    moved = minimiser_sensitivity(problem, D + problem.l2, D / 2, row_norm)
    law = stated_law(beta, budget, moved, problem.dimension, view.ids, k)
    return minimiser_perturbed(problem, needed(noise), law, x, moved, row_norm=row_norm, ids=view.ids, t=k)


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
