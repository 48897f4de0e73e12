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

The measured losses are of private data. A curve fitted to them, and an alpha chosen by it, leak what no ledger has
charged: fit on public or synthetic data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgWarning
from scipy.optimize import OptimizeWarning, brentq, curve_fit, nnls

from tacit.errors import InputError

__all__ = ["Curve", "Design", "Utility", "fit_curve", "local_minimum", "optimal_alpha"]

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
            _positive(name, getattr(self, name))
        if not (self.c6 >= 0 and math.isfinite(self.c6)):
            raise InputError(f"c6 must be zero or a positive number, not {self.c6}")

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
            _positive(name, getattr(self, name))

    def __call__(self, alpha: float) -> float:
        return self.w1 * math.log(self.w2 / (self.w3 * alpha + self.w4 * alpha**2))


@dataclass(frozen=True)
class Design:
    """The solution of (28)."""

    alpha: float
    objective: float  # J there
    loss: float  # L_acc there
    where: str  # "interior", "at the accuracy limit c3" or "at alpha_U"

    def __str__(self) -> str:
        return (
            f"alpha = {self.alpha:.6g} ({self.where}) minimises L_acc - U: {self.objective:.6g}, "
            f"with a fitted loss of {self.loss:.6g}. This is the cost of a step, not of the run."
        )


def fit_curve(alphas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray) -> Curve:
    """L_acc by least squares with c4, c5, c6 >= 0: a grid over c5 for the start, then `scipy.optimize.curve_fit`.

    >>> alphas = [0.01, 0.05, 0.1, 0.5, 1.0]
    >>> curve = fit_curve(alphas, [Curve(0.2, 25.0, 0.4)(a) for a in alphas])
    >>> round(curve.c4, 6), round(curve.c5, 6), round(curve.c6, 6)
    (0.2, 25.0, 0.4)
    """
    x, y = np.asarray(alphas, dtype=float), np.asarray(losses, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"a loss for each alpha is needed: shapes {x.shape} and {y.shape} differ or are not flat")
    if not (np.all(x > 0) and np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise InputError("alphas must be positive, and alphas and losses finite")
    if np.any(y < 0):
        raise InputError(f"a loss cannot be negative, as {float(y.min()):.6g} is")
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
        c4, c6 = linear(start)[1]
        if c4 <= 1e-9:
            raise InputError(_FLAT)
        found, _ = curve_fit(
            lambda alpha, c4, c5, c6: c4 * np.exp(-c5 * alpha) + c6,
            x,
            y,
            p0=(c4, start, c6),
            bounds=(0, np.inf),
            x_scale=(c4, start, max(c6, c4)),
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
            max_nfev=10_000,
        )
    c4, c5, c6 = (float(c) for c in found)
    fall = c4 * (math.exp(-c5 * x.min()) - math.exp(-c5 * x.max()))
    if fall <= 1e-9:  # a fall before the first alpha was not measured
        raise InputError(_FLAT)
    return Curve(c4 * unit, c5, c6 * unit)


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


def optimal_alpha(curve: Curve, utility: Utility, *, alpha_U: float, c3: float) -> Design:
    """The minimiser of (28); an `InputError` where there is none.

    >>> print(optimal_alpha(Curve(0.2, 25.0, 0.4), Utility(), alpha_U=1.0, c3=0.45))  # doctest: +ELLIPSIS
    alpha = 0.142... (interior) minimises L_acc - U: ...
    >>> optimal_alpha(Curve(0.2, 25.0, 0.4), Utility(), alpha_U=1.0, c3=0.6)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.errors.InputError: (28) has no minimum: ...
    """
    _positive("alpha_U", alpha_U)
    _positive("c3", c3)
    if c3 <= curve.c6:
        raise InputError(f"no alpha is accurate enough: the loss stays above c6 = {curve.c6:.6g}, and c3 is {c3:.6g}")
    if c3 - curve.c6 >= curve.c4 * (1 - 1e-9):  # closer to c4 + c6 than that is rounding
        raise InputError(
            f"(28) has no minimum: it falls without bound as alpha goes to 0, and c3 = {c3:.6g} allows every alpha; "
            f"ask for a loss below c4 + c6 = {curve.c4 + curve.c6:.6g}"
        )
    alpha_low = math.log(curve.c4 / (c3 - curve.c6)) / curve.c5
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


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{name} must be positive and finite, not {value}")
