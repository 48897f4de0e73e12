"""The only place where a `Release` is made: each function states what leaving costs.

**What was heard is not trusted.** `linear`, `centre`, `towards` and `at` are public numbers that neighbours had a say
in. They are clipped to public bounds before a record is looked at, noise is added to them exactly, and what rounding
can do to the rest is in every sensitivity (`tacit.core.rounding`). So no cost, no noise and no failure depends on them.

Two laws of noise protect an objective or its minimiser: `Spherical`, with a density proportional to exp(-rate ||e||),
costs a `Pure` event; `Normal`, independent N(0, deviation^2), costs an event of Renyi divergences. Outputs may have
`TwoSided` noise, too, a Laplace mechanism on every coordinate. A method names the law itself (the papers' way), or what
a step may cost, and gets the law from `law_within`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.core.problem import ROUNDING, Problem
from tacit.core.release import Release, clipped
from tacit.core.rounding import Solved, gradient_error, most_pull
from tacit.errors import InputError, TacitError
from tacit.privacy.events import (
    Event,
    Free,
    Gaussian,
    Laplace,
    LaplaceVector,
    ObjectiveGaussian,
    Pure,
    SampledGaussian,
    Unprotected,
)  # fmt: skip
from tacit.privacy.noise import Law as LawName
from tacit.privacy.noise import Noise, coarse_enough, largest_draw

_POST_PROCESSING = Free("post-processing: computed from released values only")
_INDEPENDENT = Free("random numbers, which do not depend on the data")
_LAYER = Free("coordinates of a step whose first coordinate has paid for all of them")
_FOR_INEXACTNESS = 1e-3  # the share of a step's cost that pays for a minimiser that is not exact

_MOST_STEPS = 1e7  # of the slow solver that cannot fail

Budget = Pure | Gaussian  # what one noisy step may cost


class BudgetTooSmall(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """What a step may cost does not even pay for the curvature of the loss."""


class NoRoom(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """Double precision has not enough digits for these settings: rounding would tell, or a solver take too long."""


class Spherical(NamedTuple):
    """Noise with a density proportional to exp(-rate ||e||)."""

    rate: np.ndarray  # (n, 1)


class Normal(NamedTuple):
    """Noise with independent entries N(0, deviation^2)."""

    deviation: np.ndarray  # (n, 1)


class TwoSided(NamedTuple):
    """Noise with independent entries of density proportional to exp(-rate |e|): Laplace's."""

    rate: np.ndarray  # (n, 1)


Law = Spherical | Normal
OutputLaw = Spherical | Normal | TwoSided


def unprotected(value: np.ndarray, silent: np.ndarray | None = None) -> Release:
    """The exact value leaves, without any protection: for the non-private methods. So does the fact of being silent.

    >>> unprotected(np.zeros((2, 1))).events
    (Unprotected(), Unprotected())
    """
    return _release(value, [Unprotected()] * len(value))._replace(silent=silent)


def post_processed(value: np.ndarray) -> Release:
    """A value computed from released values alone, without another look at the data: it costs nothing."""
    return _release(value, [_POST_PROCESSING] * len(value))


def independent(value: np.ndarray) -> Release:
    """Random numbers leave that were drawn without a look at the data."""
    return _release(value, [_INDEPENDENT] * len(value))


def instead(release: Release, value: np.ndarray) -> Release:
    """A value leaves in the place of a release, computed from it and from what is known without the data, or was
    released before: it costs what the release costs."""
    return _release(value, list(release.events))


def objective_perturbed(
    problem: Problem,
    noise: Noise,
    law: Law,
    *,
    linear: np.ndarray,
    weight: np.ndarray,
    centre: np.ndarray,
    start: np.ndarray,
    factor: np.ndarray,
    ids: np.ndarray,
    t: int,
) -> Release:
    """The minimiser of O_i(f) + <linear_i + factor_i e_i, f> + weight_i ||f - centre_i||^2 leaves; e_i is drawn here.

    With g the largest slope of the loss, c its largest curvature, C_i the scale, B_i the rows, rows of norm at most 1,
    mu_i = l2 + 2 weight_i, and f the exact minimiser:

    *Noise.* f determines e = -(gradient without noise)/factor. Replacing a record moves that gradient at f by at most
    2 g C_i/B_i, so it moves e by at most that over factor_i.

    *Jacobian.* The two Hessians are H_0 + a x x^T and H_0 + a' x' x'^T with H_0 >= mu_i and 0 <= a, a' <= c C_i/B_i.

    Spherical noise then costs rate C_i/(B_i factor_i) 2g + ln(1 + c C_i/(B_i mu_i)), or less where the loss is never
    steep and curved at once; normal noise costs `ObjectiveGaussian`. docs/privacy.md has both proofs.

    *Inexactness.* Our minimiser has a gradient norm of at most tau, rounding included, so it lies within tau/mu_i. A
    mask goes on top, of the same law: given f, it hides a shift of at most 2 tau/mu_i, and it is chosen to cost a
    thousandth of the rest. The public part of the linear term is clipped (`most_pull`) and the noise added to it
    exactly, so that tau depends on nothing that was heard.

    Rows longer than 1 and losses without bounds are refused.
    """
    problem.require_row_norm(1.0)
    one, mu = _record(problem), _convexity(problem, weight)
    name, scale = _named(law)
    most = most_pull(problem, mu)
    farthest = most + factor * scale * largest_draw(name, problem.dimension)
    grid = coarse_enough(noise.grid, farthest)
    rounded = grid * math.sqrt(problem.dimension) / 2
    sure = Solved(problem, mu, farthest + rounded)
    tau = sure.tau + rounded  # a rounded linear term is inexact, too
    _require_room(2 * (sure.rounding + rounded) / math.sqrt(_FOR_INEXACTNESS), _slope_change(problem), sure.steps)
    b = noise.perturb(name, clipped(linear - 2 * weight * centre, most), factor, scale, ids, t, grid)
    f = problem.sure_argmin(b, mu, start, sure)
    if isinstance(law, Spherical):
        cost = _spherical_cost(problem, law.rate / factor, mu)
        kappa = _FOR_INEXACTNESS * cost * mu / (2 * tau)
        events = [Pure(float(e)) for e in (cost * (1 + _FOR_INEXACTNESS))[:, 0]]
        return _release(noise.mask("spherical", f, 1 / kappa, ids, t), list(events))
    multiplier = law.deviation * factor / _slope_change(problem)
    mask = 2 * tau / mu * multiplier / math.sqrt(_FOR_INEXACTNESS)  # 1/multiplier^2 grows by that share
    multiplier = multiplier / math.sqrt(1 + _FOR_INEXACTNESS)
    ratio = problem.loss.max_curvature * one / mu
    return _release(
        noise.mask("gaussian", f, mask, ids, t),
        [ObjectiveGaussian(float(m), float(x)) for m, x in zip(multiplier[:, 0], ratio[:, 0], strict=True)],
    )


def private_argmin(
    problem: Problem,
    *,
    linear: np.ndarray | float,
    weight: np.ndarray,
    centre: np.ndarray,
    start: np.ndarray,
    row_norm: float = 1.0,
) -> np.ndarray:
    """(n, d): the minimiser of O_i(f) + <linear_i, f> + weight_i ||f - centre_i||^2, as `minimiser_perturbed` takes it.

    The linear term is clipped, which brings the terms of two neighbouring data sets no further apart, and the minimiser
    is off by what `minimiser_sensitivity` counts.
    """
    rho = _convexity(problem, weight)
    sure = _solved(problem, rho, row_norm)  # refuses, if it does, before a record is looked at
    b = clipped(linear - 2 * weight * centre, most_pull(problem, rho, row_norm))
    return problem.sure_argmin(b, rho, start, sure)


def minimiser_perturbed(
    problem: Problem,
    noise: Noise,
    law: OutputLaw,
    f: np.ndarray,
    moved: np.ndarray,
    *,
    row_norm: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """f_i + e_i leaves, where f_i is what `private_argmin` gives, and `moved`, (n, 1), what `minimiser_sensitivity`
    says of it, Delta.

    With rows of norm at most r, two neighbours' objectives differ in their gradients by at most 2 g r C_i/B_i, so the
    exact minimisers by that over the convexity m, and what our solver gives by Delta = (2 g r C_i/B_i + 2 tau)/m.
    Spherical noise costs rate Delta, normal noise is the Gaussian mechanism, two-sided noise the Laplace mechanism.
    """
    problem.require_row_norm(row_norm)
    return _perturbed(noise, law, f, moved, ids, t)


def step_perturbed(
    problem: Problem,
    noise: Noise,
    law: OutputLaw,
    towards: np.ndarray,
    at: np.ndarray,
    step: np.ndarray,
    *,
    row_norm: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """towards_i - step_i grad O_i(at_i) + e_i leaves, where `at` is made of released values, and `towards` of those and
    of random numbers that do not depend on the data. Replacing a record moves it by at most step_i 2 g r C_i/B_i."""
    problem.require_row_norm(row_norm)
    at = clipped(at, problem.radius)
    moved = step * gradient_sensitivity(problem, row_norm)
    public, value = towards - step * problem.l2 * at, -step * problem.data_gradient(at)
    return _perturbed(noise, law, value, moved, ids, t, onto=public)


def coordinate_step_perturbed(
    problem: Problem,
    noise: Noise,
    law: Normal | TwoSided,
    at: np.ndarray,
    coordinate: int,
    step: np.ndarray,
    *,
    charge: bool,
    row_norm: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """at_i leaves with one coordinate moved, by -step_i (grad O_i(at_i))_l + e_i; `at` is made of released values.

    A *layer* is a set of such releases with one law and step and with different coordinates. Between neighbours with
    the records z, z', that of coordinate l moves by at most step g C/B (|z_l| + |z'_l|), wherever it is taken: all of
    a layer together by 2 g r C/B step. So a layer costs what one step in all coordinates costs. Whoever makes its
    first release lets it `charge` that, and the others nothing.
    """
    problem.require_row_norm(row_norm)
    moved = step * layer_sensitivity(problem, row_norm)
    point = clipped(at, problem.radius)
    public = at[:, [coordinate]] - step * problem.l2 * point[:, [coordinate]]
    name, scale = _named(law)
    value = at.copy()
    value[:, [coordinate]] = noise.add(
        name, -step * problem.data_gradient(point)[:, [coordinate]], scale, ids, t, onto=public
    )
    return _release(value, _events(law, moved, problem.dimension) if charge else [_LAYER] * len(value))


def gradient_perturbed(
    problem: Problem,
    noise: Noise,
    budget: Gaussian,
    f: np.ndarray,
    step: float,
    *,
    ids: np.ndarray,
    t: int,
) -> Release:
    """f_i - step (grad O_i(f_i) + e_i) leaves, with normal noise e_i, where f_i is made of released values.

    Replacing a record moves the gradient by at most 2 g C_i/B_i: the Gaussian mechanism.
    """
    problem.require_row_norm(1.0)
    at = clipped(f, problem.radius)
    deviation = step * gradient_sensitivity(problem) * budget.multiplier
    public, value = f - step * problem.l2 * at, -step * problem.data_gradient(at)
    return _release(noise.add("gaussian", value, deviation, ids, t, onto=public), [budget] * len(f))


def noisy_gradient(
    problem: Problem,
    noise: Noise,
    multiplier: np.ndarray,
    f: np.ndarray,
    *,
    row_norm: float = 1.0,
    rate: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """grad O_i(f_i) + e_i leaves, where f_i is made of released values: the Gaussian mechanism, e_i with a deviation of
    multiplier_i, (n, 1), times the gradient's sensitivity. Rows longer than `row_norm` are refused.

    At a rate below 1 the gradient is that of a secret sample, which each record joins with that probability, and counts
    for 1/rate: replacing one moves it by as much more, taking one out by half of that.
    """
    problem.require_row_norm(row_norm)
    at = clipped(f, problem.radius)
    deviation = multiplier * gradient_sensitivity(problem, row_norm, rate)
    if rate >= 1:
        released = noise.add("gaussian", problem.data_gradient(at), deviation, ids, t, onto=problem.l2 * at)
        return _release(released, [Gaussian(float(m)) for m in multiplier[:, 0]])
    chosen = noise.choose(rate, int(problem.sizes.max()), ids, t)
    value = problem.sampled_data_gradient(at, chosen, rate)
    released = noise.add("gaussian", value, deviation, ids, t, onto=problem.l2 * at)
    return _release(released, [SampledGaussian(float(m), rate) for m in multiplier[:, 0]])


def gradient_sensitivity(problem: Problem, row_norm: float = 1.0, rate: float = 1.0) -> np.ndarray:
    """2 g r C_i/(B_i rate), (n, 1): by how much replacing a record of norm at most r moves the computed gradient, in
    which each record counts for 1/rate; and four times what rounding does to it. Twice would do, but for samples:
    there, taking a record out has to move the gradient by no more than half of this."""
    exact, error = _slope_change(problem, row_norm), 4 * gradient_error(problem, problem.radius, row_norm)
    _require_room(error, exact)
    return (exact + error) / rate


def layer_sensitivity(problem: Problem, row_norm: float = 1.0) -> np.ndarray:
    """The same for the coordinates of gradients that are taken one at a time, each at a point of its own: rounding
    errors of one gradient are together as large as those of one coordinate can be, d coordinates have d of those."""
    error = 2 * math.sqrt(problem.dimension) * gradient_error(problem, problem.radius, row_norm)
    exact = _slope_change(problem, row_norm)
    _require_room(error, exact)
    return exact + error


def minimiser_sensitivity(
    problem: Problem, convexity: np.ndarray, weight: np.ndarray, row_norm: float = 1.0
) -> np.ndarray:
    """(2 g r C_i/B_i + 2 tau)/m, (n, 1): by how much replacing a record moves a computed minimiser."""
    sure = _solved(problem, _convexity(problem, weight), row_norm)
    return (_slope_change(problem, row_norm) + 2 * sure.tau) / convexity


def _solved(problem: Problem, rho: np.ndarray, row_norm: float) -> Solved:
    """How well `private_argmin` solves, if double precision has room for it."""
    exact = _slope_change(problem, row_norm)  # refuses a loss without bounds
    sure = Solved(problem, rho, most_pull(problem, rho, row_norm), row_norm)
    _require_room(2 * sure.rounding, exact, sure.steps)
    return sure


def _slope_change(problem: Problem, row_norm: float = 1.0) -> np.ndarray:
    """2 g r C_i/B_i, (n, 1): by how much replacing a record moves the true gradient."""
    return 2 * problem.loss.max_slope * row_norm * _record(problem)


def _require_room(rounding: np.ndarray, moved: np.ndarray, steps: np.ndarray | float = 0.0) -> None:
    """Refuses, from public numbers and before any noise is drawn, what double precision cannot carry: rounding that is
    not small against what a record moves, or a solver whose sure way would take too long."""
    if np.any(rounding > moved):
        i = int(np.argmax(rounding / moved))
        raise NoRoom(
            f"rounding in double precision can move what agent {i} computes by {rounding[i, 0]:.2g}, more than one "
            f"record does ({moved[i, 0]:.2g}): lower the radius or the number of rows, or raise the penalty"
        )
    if np.any(steps > _MOST_STEPS):
        raise NoRoom(
            f"a minimiser may take {np.max(steps):.2g} gradients, and a private one must not fail: raise l2 or the "
            "penalty"
        )


def second_moment_perturbed(
    problem: Problem, noise: Noise, budget: Gaussian, *, row_norm: float = 1.0, ids: np.ndarray, t: int
) -> Release:
    """The upper triangle, row by row, of 1/B_i sum_n x_n x_n^T plus noise leaves, (n, d(d+1)/2).

    ||x x^T - x' x'^T||_F^2 = |x|^4 + |x'|^4 - 2 (x.x')^2 <= 2 r^4 for rows of norm at most r: replacing a record moves
    the matrix by at most sqrt(2) r^2/B_i. The Gaussian mechanism acts on the vector of the diagonal and of sqrt(2)
    times the rest of the triangle, which has the same Euclidean norm, so entries off the diagonal get less noise.
    """
    problem.require_row_norm(row_norm)
    i, j = np.triu_indices(problem.dimension)
    weight = np.where(i == j, 1.0, math.sqrt(2))
    B = problem.sizes[:, None]
    moved = math.sqrt(2) * row_norm**2 * (1 + ROUNDING) ** 3 / B + 2 * (B + 8) * 2.0**-52 * row_norm**2  # and rounding
    value = weight * problem.second_moment()[:, i, j]
    released = noise.add("gaussian", value, budget.multiplier * moved, ids, t) / weight
    return _release(released, [budget] * len(released))


def charged(value: np.ndarray, event: Event) -> Release:
    """A value that was made at the given cost before the run, which pays for it now."""
    return _release(value, [event] * len(value))


def law_within(problem: Problem, budget: Budget, weight: np.ndarray, factor: np.ndarray) -> Law:
    """The law of noise with which `objective_perturbed` costs exactly what the budget says."""
    one, mu = _record(problem), _convexity(problem, weight)
    if isinstance(budget, Gaussian):
        return Normal(budget.multiplier * math.sqrt(1 + _FOR_INEXACTNESS) * _slope_change(problem) / factor)
    target = budget.epsilon / (1 + _FOR_INEXACTNESS)
    low, high = np.zeros_like(mu), target / (problem.loss.max_slope * one)  # the cost is at least rate g C/B
    if np.any(np.log1p(problem.loss.max_curvature * one / mu) >= target):
        raise BudgetTooSmall(
            f"a step at {budget} cannot even pay for the curvature of the loss: raise l2, the penalty or the budget"
        )
    for _ in range(60):
        middle = (low + high) / 2
        fits = _spherical_cost(problem, middle, mu) <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return Spherical(low * (1 - ROUNDING) * factor)  # rounding must not carry the cost above the budget


def output_law_within(budget: Budget, moved: np.ndarray) -> Law:
    """The law of noise with which a value that moves by `moved`, (n, 1), costs exactly what the budget says."""
    return Spherical(budget.epsilon / moved) if isinstance(budget, Pure) else Normal(budget.multiplier * moved)


def coordinate_law_within(budget: Budget, moved: np.ndarray, dimension: int) -> Normal | TwoSided:
    """The law of independent noise on each coordinate with which a value that moves by `moved`, (n, 1), in the
    Euclidean norm costs exactly what the budget says."""
    if isinstance(budget, Pure):
        return TwoSided(budget.epsilon / (math.sqrt(dimension) * moved))
    return Normal(budget.multiplier * moved)


def _record(problem: Problem) -> np.ndarray:
    """C_i/B_i, (n, 1): by how much one record counts, and a little more for rows whose norm was computed."""
    if not math.isfinite(problem.loss.max_slope):
        raise InputError(f"{type(problem.loss).__name__} has no bound on its slope: no noise can protect its minimiser")
    return problem.row_weight * (1 + ROUNDING) ** 2 * (1 + problem.dimension * 2.0**-52)


def _convexity(problem: Problem, weight: np.ndarray) -> np.ndarray:
    """mu_i, (n, 1), by which the objectives are strongly convex whatever the data."""
    mu = problem.l2 + 2 * weight
    if not np.all(mu > 0):
        raise InputError("a private step needs a strongly convex objective: l2 above zero, or neighbours and a penalty")
    return mu


def _perturbed(
    noise: Noise,
    law: OutputLaw,
    value: np.ndarray,
    moved: np.ndarray,
    ids: np.ndarray,
    t: int,
    onto: np.ndarray | None = None,
) -> Release:
    """A value leaves with noise on it, which neighbours move by at most `moved`, (n, 1), in the Euclidean norm; `onto`
    is public and added to it."""
    name, scale = _named(law)
    return _release(noise.add(name, value, scale, ids, t, onto=onto), _events(law, moved, value.shape[1]))


def _named(law: OutputLaw) -> tuple[LawName, np.ndarray]:
    """As a source of noise calls it, and its scale."""
    if isinstance(law, Spherical):
        return "spherical", 1 / law.rate
    return ("laplace", 1 / law.rate) if isinstance(law, TwoSided) else ("gaussian", law.deviation)


def _events(law: OutputLaw, moved: np.ndarray, dimension: int) -> list[Event]:
    """What noise of the law costs on a value of which neighbours differ by at most `moved` in the Euclidean norm."""
    if isinstance(law, Spherical):
        return [Pure(float(e)) for e in (law.rate * moved)[:, 0]]
    if isinstance(law, Normal):
        return [Gaussian(float(m)) for m in (law.deviation / moved)[:, 0]]
    multipliers = (1 / (law.rate * moved))[:, 0]
    if dimension == 1:
        return [Laplace(float(m)) for m in multipliers]
    return [LaplaceVector(float(m), dimension) for m in multipliers]


def _spherical_cost(problem: Problem, rate: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Of a linear term with a density exp(-rate ||e||). One of the two records can be anything, at slope g; the other
    one's slope and curvature enter together."""
    one = _record(problem)
    return rate * problem.loss.max_slope * one + problem.loss.worst_record(rate * one, one / mu)


def _release(value: np.ndarray, events: list[Event]) -> Release:
    if not np.isfinite(value).all():
        agent = int(np.argwhere(~np.isfinite(value))[0][0])
        raise TacitError(f"row {agent} of a release is not finite: the method has diverged; nothing was sent")
    return Release(value, tuple(events))
