"""By how much replacing one record moves what an agent computes, rounding in double precision included.

Every bound comes from public numbers: the loss, the number of rows, the scale, the radius. Rows have norm at most r.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.core.multinomial import Multinomial
from tacit.core.problem import ROUNDING, Problem
from tacit.core.rounding import Solved, gradient_error, most_pull
from tacit.errors import InputError

_MOST_STEPS = 1e7  # of the slow solver that cannot fail
SHARE_GRID = 2.0**-36  # the step of the grid on which shares of noise lie: that of `SecureNoise`
LARGEST_TOTAL = 2.0**17  # no sum over all members is larger, entry by entry: on the grid it is a double
_STEPS, _MEMBERS = 64, 2**20  # the least deviation of a share, in steps of the grid; and the most members


class NoRoom(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """Double precision has too few digits for these settings: rounding would leak, or a solver would take too long."""


def gradient_sensitivity(problem: Problem, row_norm: float = 1.0, rate: float = 1.0) -> np.ndarray:
    """2 g r C_i/(B_i rate), (n, 1): by how much replacing a record of norm at most r moves the computed gradient, in
    which each record counts for 1/rate; and four times what rounding does to it. Twice would be enough without samples.
    With samples, taking a record out must not move the gradient by more than half of this."""
    exact, error = slope_change(problem, row_norm), 4 * gradient_error(problem, problem.radius, row_norm)
    require_room(error, exact)
    return (exact + error) / rate


def gradient_reach(problem: Problem, row_norm: float = 1.0) -> np.ndarray:
    """g r C_i + l2 R, (n, 1): no gradient that is computed at a point within the radius R is longer, whatever the
    records; rounding included. A mean of B_i slopes of size at most g, times rows of norm at most r, times C_i."""
    data = problem.loss.max_slope * row_norm * problem.scale[:, None] * (1 + ROUNDING) ** 2
    return data + problem.l2 * problem.radius * (1 + ROUNDING) + gradient_error(problem, problem.radius, row_norm)


def layer_sensitivity(problem: Problem, row_norm: float = 1.0) -> np.ndarray:
    """The same for the coordinates of gradients that are taken one at a time, each at its own point. The rounding
    errors of one gradient are together as large as those of one coordinate can be; d coordinates have d of those."""
    require_one_score(problem)
    error = 2 * math.sqrt(problem.dimension) * gradient_error(problem, problem.radius, row_norm)
    exact = slope_change(problem, row_norm)
    require_room(error, exact)
    return exact + error


def minimiser_sensitivity(
    problem: Problem, convexity: np.ndarray, weight: np.ndarray, row_norm: float = 1.0
) -> np.ndarray:
    """(2 g r C_i/B_i + 2 tau)/m, (n, 1): by how much replacing a record moves a computed minimiser."""
    sure = solved(problem, convexity_of(problem, weight), row_norm)
    return (slope_change(problem, row_norm) + 2 * sure.tau) / convexity


def solved(problem: Problem, rho: np.ndarray, row_norm: float) -> Solved:
    """How well `private_argmin` solves, if double precision has enough digits."""
    exact = slope_change(problem, row_norm)  # refuses a loss without bounds
    sure = Solved(problem, rho, most_pull(problem, rho, row_norm), row_norm)
    require_room(2 * sure.rounding, exact, sure)
    return sure


def slope_change(problem: Problem, row_norm: float = 1.0) -> np.ndarray:
    """2 g r C_i/B_i, (n, 1): by how much replacing a record moves the true gradient."""
    return 2 * problem.loss.max_slope * row_norm * record_weight(problem)


def record_weight(problem: Problem) -> np.ndarray:
    """C_i/B_i, (n, 1): by how much one record counts, and a little more for rows whose norm was computed."""
    if not math.isfinite(problem.loss.max_slope):
        raise InputError(f"{type(problem.loss).__name__} has no bound on its slope: no noise can protect its minimiser")
    return problem.row_weight * (1 + ROUNDING) ** 2 * (1 + problem.dimension * 2.0**-52)


def require_one_score(problem: Problem) -> None:
    """Refuses several classes where a proof is about one score of a record."""
    if isinstance(problem.loss, Multinomial):
        raise InputError(
            "this method is proved private for one score of a record, not for several classes: take primal "
            "perturbation (pvp), recycled ADMM (mr-admm), the incremental method (pi-admm) or gradient descent"
        )


def convexity_of(problem: Problem, weight: np.ndarray) -> np.ndarray:
    """mu_i, (n, 1), by which the objectives are strongly convex whatever the data."""
    mu = problem.l2 + 2 * weight
    if not np.all(mu > 0):
        raise InputError("a private step needs a strongly convex objective: l2 above zero, or neighbours and a penalty")
    return mu


def require_room(rounding: np.ndarray, moved: np.ndarray, sure: Solved | None = None) -> None:
    """Refuses, from public numbers and before any noise is drawn, settings that double precision cannot carry:
    rounding larger than what one record moves, or a solver (`sure`) whose guaranteed descent would take too long."""
    if np.any(rounding > moved):
        i = int(np.argmax(rounding / moved))
        penalty = "" if sure is None else f", or {'lower' if sure.stiff[i, 0] else 'raise'} the penalty"
        raise NoRoom(
            f"rounding in double precision can move what agent {i} computes by {rounding[i, 0]:.2g}, more than one "
            f"record does ({moved[i, 0]:.2g}): lower the radius or the number of rows{penalty}"
        )
    if sure is not None and np.any(sure.steps > _MOST_STEPS):
        raise NoRoom(
            f"a minimiser may take {np.max(sure.steps):.2g} gradients, and a private one must not fail: raise l2 "
            "or the penalty"
        )


def require_shares(deviation: float, reach: np.ndarray, members: int) -> None:
    """Refuses, from public numbers, shares of noise that are too narrow for the grid, or rows up to `reach`, (n, 1),
    that are too large for it: their sum must be a double."""
    if deviation < _STEPS * SHARE_GRID:
        raise NoRoom(
            f"a share of the noise has a deviation of {deviation:.2g}, below {_STEPS} steps of the grid: there are so "
            "many records that fixed-point numbers have too few digits; lower epsilon or the number of rows"
        )
    if members > _MEMBERS or np.any(members * reach > LARGEST_TOTAL):
        raise NoRoom(
            f"rows of {members} members, each up to {np.max(reach):.2g}, have a sum above {LARGEST_TOTAL:g}: raise "
            "epsilon or the number of rows"
        )
