"""How much privacy to buy: the design problem (28) of paper 004 (Zhang, Zhu).

    min over alpha of  J(alpha) = L_acc(alpha) - U(alpha),    0 < alpha <= alpha_U,  L_acc(alpha) <= c3
    L_acc(alpha) = c4 exp(-c5 alpha) + c6                     the loss, fitted to measured pairs
    U(alpha) = w1 ln(w2 / (w3 alpha + w4 alpha^2))            the utility of privacy

L_acc falls with alpha (the paper calls it increasing) and J is not convex. **J goes to minus infinity as alpha -> 0**,
because U goes to infinity and L_acc stays below c4 + c6. So a minimum exists only if the accuracy that is asked for
keeps alpha away from 0, which is if c3 < c4 + c6; at c3 = c4 + c6 every alpha > 0 is still allowed. There has to be an
allowed alpha too: c3 > c6, and alpha_low = ln(c4/(c3 - c6))/c5 <= alpha_U.

J' = 0 means c4 c5 alpha exp(-c5 alpha) = w1 (r + 2 alpha)/(r + alpha) with r = w3/w4. The logarithm of left over right
side has the derivative g(alpha) - c5 with g = 1/alpha - r/((r + alpha)(r + 2 alpha)), which falls from infinity to 0
(g' < 0 is r(3r + 4 alpha) alpha^2 < (r + alpha)^2 (r + 2 alpha)^2). So it rises, then falls, and J' has at most two
zeros: J rises, may fall, and rises again. The minimum over [alpha_low, alpha_U] is at an end or at the second zero, and
all three are compared: no search that could miss it.

**The points say which alphas are accurate enough, not the curve.** Measured losses fall more slowly than an
exponential, so a fitted c6 can lie far above the loss at the largest alpha. `measured_limit` gives the least alpha that
reaches c3 by the points, and `optimal_alpha` takes it as `alpha_low`. `misfit` says how far the curve is from the
points. The paper does not fit c6: it takes it from the losses over time. `fit_curve(..., c6=...)` does the same.

The measured losses are of private data. A curve fitted to them, and an alpha chosen by it, leak what no ledger has
charged: fit on public or synthetic data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning
from scipy.optimize import OptimizeWarning, brentq, curve_fit, minimize_scalar, nnls

from tacit.errors import InputError, number

__all__ = [
    "Curve",
    "Design",
    "Measured",
    "Utility",
    "designed",
    "fit_curve",
    "local_minimum",
    "measured_limit",
    "misfit",
    "optimal_alpha",
]

_FLAT = "the losses do not fall as alpha grows, so c4 exp(-c5 alpha) + c6 has nothing to fit"


@dataclass(frozen=True)
class Curve:
    """L_acc(alpha) = c4 exp(-c5 alpha) + c6.

    >>> Curve(c4=0.2, c5=25.0, c6=0.4)(0.0)
    0.6000000000000001
    """

    c4: float
    c5: float
    c6: float

    def __post_init__(self) -> None:
        for name in ("c4", "c5"):
            number(name, getattr(self, name))
        number("c6", self.c6, zero=True)

    def __call__(self, alpha: float) -> float:
        return self.c4 * math.exp(-self.c5 * alpha) + self.c6


@dataclass(frozen=True)
class Utility:
    """U(alpha) = w1 ln(w2/(w3 alpha + w4 alpha^2)), by default with the weights of the paper's experiment.

    >>> round(Utility()(0.1), 6)
    0.037721
    """

    w1: float = 0.02
    w2: float = 6.0
    w3: float = 9.0
    w4: float = 1.0

    def __post_init__(self) -> None:
        for name in ("w1", "w2", "w3", "w4"):
            number(name, getattr(self, name))

    def __call__(self, alpha: float) -> float:
        return self.w1 * math.log(self.w2 / (self.w3 * alpha + self.w4 * alpha**2))


@dataclass(frozen=True)
class Design:
    """A solution of problem (28)."""

    alpha: float
    objective: float  # J there
    loss: float  # L_acc there
    where: str  # "interior", "at the accuracy limit c3" or "at alpha_U"

    def __str__(self) -> str:
        return (
            f"alpha = {self.alpha:.6g} ({self.where}) minimises L_acc - U: {self.objective:.6g}, "
            f"with a fitted loss of {self.loss:.6g}. This is the cost of a step, not of the run."
        )


class Measured(NamedTuple):
    """Measured pairs of alpha and loss, and what (28) asks of alpha."""

    alphas: np.ndarray
    losses: np.ndarray
    largest_alpha: float = 1.0  # alpha_U
    worst_loss: float | None = None  # c3; by default halfway down the measured losses
    floor: float | None = None  # c6; fitted by default
    utility: Utility = Utility()  # U


def designed(measured: Measured) -> str:
    """(28) in words: the points say which alphas are accurate enough, the fitted curve which of them is best.

    >>> alphas = np.array([0.01, 0.05, 0.1, 0.5, 1.0])
    >>> print(designed(Measured(alphas, 0.2 * np.exp(-25 * alphas) + 0.4)))  # doctest: +ELLIPSIS
    L_acc(alpha) = 0.2 exp(-25 alpha) + 0.4, ... alpha of 0.04164 and more reaches c3 = 0.4779. alpha = 0.142228 ...
    """
    alphas, losses, largest, worst, floor, utility = measured
    curve = fit_curve(alphas, losses, floor)
    limit = float(losses.min() + losses.max()) / 2 if worst is None else worst
    low = measured_limit(alphas, losses, limit)
    found = optimal_alpha(curve, utility, alpha_U=largest, c3=limit, alpha_low=low)
    off = misfit(curve, alphas, losses)
    return (
        f"L_acc(alpha) = {curve.c4:.4g} exp(-{curve.c5:.4g} alpha) + {curve.c6:.4g}, which misses the measured losses "
        f"by up to a factor of {off:.3g}; by these, alpha of {low:.4g} and more reaches c3 = {limit:.4g}. {found}"
    )


def fit_curve(
    alphas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray, c6: float | None = None
) -> Curve:
    """L_acc by least squares with c4, c5, c6 >= 0: a grid over c5 for the start, then `scipy.optimize.curve_fit`. With
    `c6` given, c4 and c5 alone are fitted.

    >>> alphas = [0.01, 0.05, 0.1, 0.5, 1.0]
    >>> curve = fit_curve(alphas, [Curve(0.2, 25.0, 0.4)(a) for a in alphas])
    >>> round(curve.c4, 6), round(curve.c5, 6), round(curve.c6, 6)
    (0.2, 25.0, 0.4)
    """
    x, y = _points(alphas, losses)
    if c6 is not None:
        return _fit_with_floor(x, y, c6)
    unit = float(y.max()) or 1.0
    y = y / unit  # the solver's tolerances are absolute
    if len(np.unique(x)) < 3:
        raise InputError(f"three constants need at least three different alphas, not {len(np.unique(x))}")

    def linear(c5: float) -> tuple[float, np.ndarray]:
        weights, misfit = nnls(np.stack([np.exp(-c5 * x), np.ones_like(x)], axis=1), y)
        return float(misfit), weights

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # where exp(-c5 x) is nearly constant: no place to start from
        warnings.simplefilter("ignore", OptimizeWarning)  # three points give no covariance, which is not used
        grid = np.geomspace(0.01 / x.max(), 30 / x.min(), 200)
        start = float(min(grid, key=lambda c5: linear(c5)[0]))
        c4, floor = linear(start)[1]
        if c4 <= 1e-9:
            raise InputError(_FLAT)
        found, _ = curve_fit(
            lambda alpha, c4, c5, c6: c4 * np.exp(-c5 * alpha) + c6,
            x,
            y,
            p0=(c4, start, floor),
            bounds=(0, np.inf),
            x_scale=(c4, start, max(floor, c4)),
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
            max_nfev=10_000,
        )
    c4, c5, floor = (float(c) for c in found)
    _require_fall(c4, c5, x)
    return Curve(c4 * unit, c5, floor * unit)


def _fit_with_floor(x: np.ndarray, y: np.ndarray, c6: float) -> Curve:
    """c4 and c5 by least squares. For each c5 the best c4 is <E, y - c6>/<E, E> with E = exp(-c5 x): one number is left
    to be searched for, on a grid and then between the grid's neighbours of its best point."""
    number("c6", c6, zero=True)
    if len(np.unique(x)) < 2:
        raise InputError("c4 and c5 need at least two different alphas")
    above = y - c6

    def best(log_c5: float) -> tuple[float, float]:
        E = np.exp(-math.exp(log_c5) * x)
        c4 = max(float(E @ above) / float(E @ E), 0.0)
        return float(np.sum((c4 * E - above) ** 2)), c4

    grid = np.log(np.geomspace(0.01 / x.max(), 30 / x.min(), 400))
    place = int(np.argmin([best(c)[0] for c in grid]))
    if place == 0:  # the slower the fall the better
        raise InputError(_FLAT)
    low, high = grid[place - 1], grid[min(place + 1, len(grid) - 1)]
    log_c5 = float(
        minimize_scalar(lambda c: best(c)[0], bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    )
    c4, c5 = best(log_c5)[1], math.exp(log_c5)
    unit = float(y.max()) or 1.0
    _require_fall(c4 / unit, c5, x)
    return Curve(c4, c5, float(c6))


def _points(
    alphas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(alphas, dtype=float), np.asarray(losses, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"a loss for each alpha is needed: shapes {x.shape} and {y.shape} differ or are not flat")
    if not (np.all(x > 0) and np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise InputError("alphas must be positive, and alphas and losses finite")
    if np.any(y < 0):
        raise InputError(f"a loss cannot be negative, as {float(y.min()):.6g} is")
    return x, y


def _require_fall(c4: float, c5: float, x: np.ndarray) -> None:
    if c4 * (math.exp(-c5 * x.min()) - math.exp(-c5 * x.max())) <= 1e-9:  # a fall before the first was not measured
        raise InputError(_FLAT)


def misfit(curve: Curve, alphas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray) -> float:
    """The largest factor by which the curve is off at a measured point, up or down.

    >>> round(misfit(Curve(0.2, 25.0, 0.4), [1.0], [0.2]), 9)
    2.0
    """
    x, y = _points(alphas, losses)
    ratios = [curve(a) / loss if loss > 0 else math.inf for a, loss in zip(x, y, strict=True)]
    return float(max(max(ratio, 1 / ratio) for ratio in ratios))


def measured_limit(alphas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray, c3: float) -> float:
    """The alpha from which on the measured losses are at most c3; losses at the same alpha are averaged. Between two
    points the loss is a straight line, which lies above a curve that is convex. An `InputError` where no measured alpha
    reaches c3, where all of them do, or where the largest does not and a smaller one does.

    >>> round(measured_limit([0.1, 0.3, 1.0], [0.9, 0.5, 0.3], c3=0.7), 6)
    0.2
    """
    number("c3", c3)
    given, values = _points(alphas, losses)
    x, place = np.unique(given, return_inverse=True)
    y = np.bincount(place, weights=values) / np.bincount(place)
    if y.min() > c3:
        raise InputError(f"no measured alpha is accurate enough: the least loss is {y.min():.6g}, and c3 is {c3:.6g}")
    if y[-1] > c3:
        raise InputError(
            f"the losses do not fall: alpha = {x[int(np.argmin(y))]:.6g} reaches c3 = {c3:.6g} and the largest, "
            f"{x[-1]:.6g}, does not; measure with more runs"
        )
    above = np.flatnonzero(y > c3)
    if not len(above):
        raise InputError(
            f"(28) has no minimum: it falls without bound as alpha goes to 0, and every measured alpha reaches c3 = "
            f"{c3:.6g}; ask for a loss below {float(y.max()):.6g}, or measure at smaller alphas"
        )
    last = int(above[-1])
    share = (y[last] - c3) / (y[last] - y[last + 1])
    return float(x[last] + share * (x[last + 1] - x[last]))


def local_minimum(curve: Curve, utility: Utility) -> float | None:
    """The alpha at which J has its only local minimum, the second zero of J'; None where J only rises.

    >>> round(local_minimum(Curve(0.2, 25.0, 0.4), Utility()), 4)
    0.1422
    """
    r = utility.w3 / utility.w4

    def log_ratio(alpha: float) -> float:  # of the two sides of J' = 0: positive where J falls
        left = math.log(curve.c4 * curve.c5) + math.log(alpha) - curve.c5 * alpha
        return left - math.log(utility.w1) - math.log((r + 2 * alpha) / (r + alpha))

    def slope(alpha: float) -> float:
        return 1 / alpha - r / ((r + alpha) * (r + 2 * alpha)) - curve.c5

    # r/((r + alpha)(r + 2 alpha)) lies between 0 and 1/(3 alpha): the zero lies between 2/3 and 1 of 1/c5.
    peak = brentq(slope, 0.5 / curve.c5, 2.0 / curve.c5, xtol=1e-300, rtol=1e-15)
    if log_ratio(peak) <= 0:
        return None
    beyond = 2 * peak
    while log_ratio(beyond) > 0:
        beyond *= 2
    return float(brentq(log_ratio, peak, beyond, xtol=1e-300, rtol=1e-14))


def optimal_alpha(
    curve: Curve, utility: Utility, *, alpha_U: float, c3: float, alpha_low: float | None = None
) -> Design:
    """The minimiser of (28); an `InputError` where there is none. `alpha_low` is the least alpha that reaches c3, by
    the measured points (`measured_limit`); by default the curve says.

    >>> print(optimal_alpha(Curve(0.2, 25.0, 0.4), Utility(), alpha_U=1.0, c3=0.45))  # doctest: +ELLIPSIS
    alpha = 0.142... (interior) minimises L_acc - U: ...
    >>> optimal_alpha(Curve(0.2, 25.0, 0.4), Utility(), alpha_U=1.0, c3=0.6)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.errors.InputError: (28) has no minimum: ...
    """
    number("alpha_U", alpha_U)
    number("c3", c3)
    if alpha_low is None:
        alpha_low = _limit_of_curve(curve, c3)
    if alpha_low > alpha_U:
        raise InputError(
            f"no alpha is both private and accurate enough: a loss of c3 = {c3:.6g} needs alpha of at least "
            f"{alpha_low:.6g}, and alpha_U is {alpha_U:.6g}"
        )

    def objective(alpha: float) -> float:
        return curve(alpha) - utility(alpha)

    candidates = {"at the accuracy limit c3": alpha_low, "at alpha_U": alpha_U}
    stationary = local_minimum(curve, utility)
    if stationary is not None and alpha_low < stationary < alpha_U:
        candidates["interior"] = stationary
    where = min(candidates, key=lambda name: objective(candidates[name]))
    alpha = candidates[where]
    return Design(alpha, objective(alpha), curve(alpha), where)


def _limit_of_curve(curve: Curve, c3: float) -> float:
    if c3 <= curve.c6:
        raise InputError(f"no alpha is accurate enough: the loss stays above c6 = {curve.c6:.6g}, and c3 is {c3:.6g}")
    if c3 - curve.c6 >= curve.c4 * (1 - 1e-9):  # closer to c4 + c6 than that is rounding
        raise InputError(
            f"(28) has no minimum: it falls without bound as alpha goes to 0, and c3 = {c3:.6g} allows every alpha; "
            f"ask for a loss below c4 + c6 = {curve.c4 + curve.c6:.6g}"
        )
    return math.log(curve.c4 / (c3 - curve.c6)) / curve.c5
