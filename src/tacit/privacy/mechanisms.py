"""The only module that makes a `Release`: each function states what the release costs.

**What was heard is not trusted.** `linear`, `centre`, `towards` and `at` are public numbers that neighbours can
influence. They are clipped to public bounds before a record is read, noise is added to them exactly, and every
sensitivity includes what rounding can do (`tacit.core.rounding`). So no cost, no noise and no failure depends on them.

The parameters that the mechanisms share:

    problem    the local objectives of the agents of a block
    noise      the source of noise, such as `SecureNoise()`
    law        how the noise is distributed (`tacit.privacy.laws`); or `budget`, what the release may cost
    row_norm   a bound on the norm of a row; a longer row is refused
    ids, t     the ids of the agents and the tick, which select the stream of random numbers
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit.core.alike import Alike
from tacit.core.problem import ROUNDING, Problem
from tacit.core.release import Release, clipped
from tacit.core.rounding import Solved, most_pull
from tacit.errors import TacitError
from tacit.privacy.events import (
    Event,
    Free,
    Gaussian,
    Pure,
    SampledGaussian,
    SharedGaussian,
    Unprotected,
)
from tacit.privacy.laws import (
    FOR_INEXACTNESS,
    Law,
    Normal,
    OutputLaw,
    Spherical,
    TwoSided,
    events_of,
    named,
    normal_cost,
    spherical_cost,
)
from tacit.privacy.noise import Noise, coarse_enough, largest_draw
from tacit.privacy.sensitivity import (
    SHARE_GRID,
    convexity_of,
    gradient_reach,
    gradient_sensitivity,
    layer_sensitivity,
    require_one_score,
    require_room,
    require_shares,
    slope_change,
    solved,
)

__all__ = [
    "charged",
    "coordinate_step_perturbed",
    "gradient_perturbed",
    "independent",
    "instead",
    "minimiser_perturbed",
    "noisy_gradient",
    "objective_perturbed",
    "post_processed",
    "private_argmin",
    "second_moment_perturbed",
    "step_perturbed",
    "unprotected",
]

_POST_PROCESSING = Free("post-processing: computed from released values only")
_INDEPENDENT = Free("random numbers, which do not depend on the data")
_LAYER = Free("coordinates of a step whose first coordinate has paid for all of them")


def unprotected(value: np.ndarray, silent: np.ndarray | None = None) -> Release:
    """The exact value leaves, without any protection: for methods that are not private. So does `silent`, which agents
    are silent.

    >>> unprotected(np.zeros((2, 1))).events
    (Unprotected(), Unprotected())
    """
    return _release(value, Alike.same(Unprotected(), len(value)))._replace(silent=silent)


def post_processed(value: np.ndarray) -> Release:
    """A value leaves that is computed from released values alone, not from the data: it costs nothing."""
    return _release(value, Alike.same(_POST_PROCESSING, len(value)))


def independent(value: np.ndarray) -> Release:
    """Random numbers leave that do not depend on the data."""
    return _release(value, Alike.same(_INDEPENDENT, len(value)))


def instead(release: Release, value: np.ndarray) -> Release:
    """A value leaves in place of a release. It is computed from the release, from earlier releases and from what is
    known without the data, so it costs what the release costs."""
    return _release(value, release.events)


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
    steep and curved at once; normal noise costs `ObjectiveGaussian`. With K classes a record adds a matrix of rank
    K - 1 in place of a x x^T: the logarithm is (K - 1) ln(1 + C_i/(K B_i mu_i)), and the event that of so many classes.
    docs/privacy.md has the proofs.

    *Inexactness.* Our minimiser has a gradient norm of at most tau, rounding included, so it lies within tau/mu_i. A
    mask goes on top, of the same law: given f, it hides a shift of at most 2 tau/mu_i, and it is chosen to cost a
    thousandth of the rest. The public part of the linear term is clipped (`most_pull`) and the noise added to it
    exactly, so that tau does not depend on what was heard.

    Rows longer than 1 and losses without bounds are refused.
    """
    problem.require_row_norm(1.0)
    moved, mu = slope_change(problem), convexity_of(problem, weight)  # refuses a loss without bounds
    name, scale = named(law)
    most = most_pull(problem, mu)
    farthest = most + factor * scale * largest_draw(name, problem.dimension)
    grid = coarse_enough(noise.grid, farthest)
    rounded = grid * math.sqrt(problem.dimension) / 2
    sure = Solved(problem, mu, farthest + rounded)
    tau = sure.tau + rounded  # rounding makes the linear term inexact, too
    require_room(2 * (sure.rounding + rounded) / math.sqrt(FOR_INEXACTNESS), moved, sure)
    b = noise.perturb(name, clipped(linear - 2 * weight * centre, most), factor, scale, ids, t, grid)
    f = problem.sure_argmin(b, mu, start, sure)
    if isinstance(law, Spherical):
        cost = spherical_cost(problem, law.rate / factor, mu)
        kappa = FOR_INEXACTNESS * cost * mu / (2 * tau)
        events = Alike.by(Pure, (cost * (1 + FOR_INEXACTNESS))[:, 0])
        return _release(noise.mask("spherical", f, 1 / kappa, ids, t), events)
    multiplier = law.deviation * factor / moved
    mask = 2 * tau / mu * multiplier / math.sqrt(FOR_INEXACTNESS)  # 1/multiplier^2 grows by that share
    multiplier = multiplier / math.sqrt(1 + FOR_INEXACTNESS)
    return _release(noise.mask("gaussian", f, mask, ids, t), normal_cost(problem, multiplier, mu))


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
    rho = convexity_of(problem, weight)
    sure = solved(problem, rho, row_norm)  # a refusal comes before any record is read
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
    """f_i + e_i leaves, where f_i is what `private_argmin` gives, and `moved`, (n, 1), its sensitivity
    Delta from `minimiser_sensitivity`.

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
    coordinate: int | np.ndarray,
    step: np.ndarray,
    *,
    charge: bool,
    row_norm: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """at_i leaves with one coordinate moved, or a block of them, by -step_i (grad O_i(at_i))_l + e_il; `at` is made of
    released values.

    A *layer* is a set of such releases with one law and step, in which no coordinate occurs twice. Between neighbours
    with the records z, z', coordinate l moves by at most step g C/B (|z_l| + |z'_l|), wherever its gradient is taken:
    all of a layer together by 2 g r C/B step, in whatever blocks. So a layer costs what one step in all coordinates
    costs. Its first release is made with `charge`, and pays for all of them; the others cost nothing.
    """
    problem.require_row_norm(row_norm)
    moved = step * layer_sensitivity(problem, row_norm)
    point, moving = clipped(at, problem.radius), np.atleast_1d(coordinate)
    public = at[:, moving] - step * problem.l2 * point[:, moving]
    name, scale = named(law)
    value = at.copy()
    value[:, moving] = noise.add(name, -step * problem.data_gradient(point)[:, moving], scale, ids, t, onto=public)
    return _release(value, events_of(law, moved, problem.dimension) if charge else Alike.same(_LAYER, len(value)))


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
    return _release(noise.add("gaussian", value, deviation, ids, t, onto=public), Alike.same(budget, len(f)))


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
        return _release(released, Alike.by(Gaussian, multiplier[:, 0]))
    chosen = noise.choose(rate, int(problem.sizes.max()), ids, t)
    value = problem.sampled_data_gradient(at, chosen, rate)
    released = noise.add("gaussian", value, deviation, ids, t, onto=problem.l2 * at)
    return _release(released, Alike.by(lambda m: SampledGaussian(m, rate), multiplier[:, 0]))


def gradient_share(
    problem: Problem,
    noise: Noise,
    deviation: float,
    f: np.ndarray,
    *,
    members: int,
    colluders: int,
    dropouts: int,
    row_norm: float = 1.0,
    ids: np.ndarray,
    t: int,
) -> Release:
    """One member's part of a sum leaves: grad O_i(f_i) + e_i, rounded to a grid, where f_i is made of released values
    and e_i, of the given deviation, is the member's *share* of the noise.

    Alone it would not be protected enough. It must leave in a sum over all members (`tacit.exchange.totals`), of which
    nobody sees a part; every other way of delivery refuses the event. Whoever hears the sums and knows the rows and the
    noise of at most `colluders` members, with at most `dropouts` members away, sees the Gaussian mechanism with the
    noise of all the others: rounding the addends of a sum is as good as rounding the sum, up to a probability below
    e^-20000, if a share is at least 64 steps of the grid wide (docs/privacy.md). So is the modulus of the exchange.

    On the grid, every sum of rows as large as these can be is a double: members that add in different orders get the
    same bits.
    """
    problem.require_row_norm(row_norm)
    at = clipped(f, problem.radius)
    moved = gradient_sensitivity(problem, row_norm)
    reach = gradient_reach(problem, row_norm) + deviation * largest_draw("gaussian", problem.dimension)
    require_shares(deviation, reach, members)
    if noise.grid not in (0.0, SHARE_GRID):
        raise TacitError(f"shares of noise lie on the grid of {SHARE_GRID}, not on one of {noise.grid}")
    exact = noise.add("gaussian", problem.data_gradient(at), deviation, ids, t, onto=problem.l2 * at)
    value = np.round(exact / SHARE_GRID) * SHARE_GRID  # secure noise lies there already
    events = Alike.by(lambda m: SharedGaussian(m, members, colluders, dropouts), (deviation / moved)[:, 0])
    return _release(value, events)


def second_moment_perturbed(
    problem: Problem, noise: Noise, budget: Gaussian, *, row_norm: float = 1.0, ids: np.ndarray, t: int
) -> Release:
    """The upper triangle, row by row, of 1/B_i sum_n x_n x_n^T plus noise leaves, (n, d(d+1)/2).

    ||x x^T - x' x'^T||_F^2 = |x|^4 + |x'|^4 - 2 (x.x')^2 <= 2 r^4 for rows of norm at most r: replacing a record moves
    the matrix by at most sqrt(2) r^2/B_i. The Gaussian mechanism acts on the vector of the diagonal and of sqrt(2)
    times the rest of the triangle, which has the same Euclidean norm, so entries off the diagonal get less noise.
    """
    require_one_score(problem)
    problem.require_row_norm(row_norm)
    i, j = np.triu_indices(problem.dimension)
    weight = np.where(i == j, 1.0, math.sqrt(2))
    B = problem.sizes[:, None]
    moved = math.sqrt(2) * row_norm**2 * (1 + ROUNDING) ** 3 / B + 2 * (B + 8) * 2.0**-52 * row_norm**2  # and rounding
    value = weight * problem.second_moment()[:, i, j]
    released = noise.add("gaussian", value, budget.multiplier * moved, ids, t) / weight
    return _release(released, Alike.same(budget, len(released)))


def charged(value: np.ndarray, event: Event) -> Release:
    """A value leaves that was made before the run at the given cost; the run pays for it now."""
    return _release(value, Alike.same(event, len(value)))


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
    name, scale = named(law)
    return _release(noise.add(name, value, scale, ids, t, onto=onto), events_of(law, moved, value.shape[1]))


def _release(value: np.ndarray, events: Sequence[Event]) -> Release:
    if not np.isfinite(value).all():
        agent = int(np.argwhere(~np.isfinite(value))[0][0])
        raise TacitError(f"row {agent} of a release is not finite: the method has diverged; nothing was sent")
    return Release(value, events)
