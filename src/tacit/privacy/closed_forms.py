"""What events of one kind cost, by formulas from the literature: Renyi divergences, the least epsilon at a delta."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp

from tacit.privacy import blurred
from tacit.privacy.events import (
    ZCDP,
    BlurredLaplace,
    Event,
    Free,
    Gaussian,
    Laplace,
    LaplaceVector,
    ObjectiveGaussian,
    Pure,
    SampledGaussian,
    SharedGaussian,
)


def renyi_divergence(event: Event, order: np.ndarray) -> np.ndarray:
    """An upper bound on the Renyi divergence of each order > 1 between neighbours.

    >>> renyi_divergence(Gaussian(2.0), np.array([4.0]))
    array([0.5])
    """
    a = np.asarray(order, dtype=float)
    if isinstance(event, Free):
        return np.zeros_like(a)
    if isinstance(event, ZCDP):
        return event.xi + event.rho * a
    if isinstance(event, SharedGaussian):
        event = event.gaussian
    if isinstance(event, Gaussian | SampledGaussian):  # the divergence is quasi-convex: a sample costs no more
        return a * square(1 / event.multiplier) / 2
    if isinstance(event, ObjectiveGaussian):
        x = event.curvature
        # (1 + x)/((1 + a x)(1 - (a-1) x)) = 1 / (1 - a (a-1) x^2 / (1 + x)): no cancellation for small x.
        beyond = a * (a - 1) * x * (x / (1 + x))
        jacobian = -np.log1p(-np.minimum(beyond, 1.0)) / (a - 1)
        return np.where((a - 1) * x < 1, a * square(1 / event.multiplier) / 2 + jacobian, math.inf)
    if isinstance(event, Pure):
        # That of randomised response, the worst of all pure mechanisms: P = (e^eps, 1)/(1 + e^eps), Q its mirror image;
        # the moment is cosh((a - 1/2) eps) / cosh(eps/2).
        e = event.epsilon
        return (_log_cosh((a - 0.5) * e) - _log_cosh(e / 2)) / (a - 1)
    if isinstance(event, LaplaceVector):  # equal moves are the worst: docs/privacy.md
        d = event.coordinates
        return renyi_divergence(Laplace(event.multiplier * math.sqrt(d), d), a)
    if isinstance(event, BlurredLaplace):  # without its uniform number it would be a Laplace mechanism
        return np.minimum(blurred.renyi_divergence(event, a), renyi_divergence(Laplace(event.multiplier), a))
    if isinstance(event, Laplace):
        # Mironov (2017), Proposition 6: the moment is a/(2a-1) exp((a-1) e) + (a-1)/(2a-1) exp(-a e) with e the
        # sensitivity in units of the noise's scale. Its terms of first order in e cancel, which needs care for small e.
        e = 1 / event.multiplier
        up, down = a / (2 * a - 1), (a - 1) / (2 * a - 1)
        large = np.logaddexp(np.log(up) + (a - 1) * e, np.log(down) - a * e)
        small = np.log1p(up * _exp_beyond_line(np.minimum((a - 1) * e, 1)) + down * _exp_beyond_line(-a * e))
        return event.coordinates * np.where((a - 1) * e < 1, small, large) / (a - 1)
    return np.full_like(a, math.inf)


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """The least epsilon of one Gaussian mechanism: Balle and Wang (2018), Theorem 8, solved for epsilon.

    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    s = 1 / multiplier

    def log_delta(e: float) -> float:
        gain, loss = float(log_ndtr(s / 2 - e / s)), float(e + log_ndtr(-s / 2 - e / s))
        rounding = 1e-15 * (10 + abs(gain))  # of the difference: delta is rounded up
        return gain + math.log(rounding - math.expm1(min(loss - gain, 0.0)))

    return _least_epsilon(log_delta, math.log(delta) - 1e-9)


def objective_epsilon(event: ObjectiveGaussian, delta: float) -> float:
    """The epsilon of a single minimiser with a Gaussian linear term: ln(1 + x) more than the Gaussian mechanism has at
    delta/2, or than sqrt(3)/m + 1/(2 m^2), above which that is proved (docs/privacy.md).

    >>> round(objective_epsilon(ObjectiveGaussian(4.0, 0.1), 1e-5), 4)
    1.0638
    """
    if delta / 2 == 0:
        return math.inf
    s = 1 / event.multiplier
    least = math.sqrt(3) * s + square(s) / 2
    return math.log1p(event.curvature) + max(gaussian_epsilon(event.multiplier, delta / 2), least)


def pure_epsilon(one: float, count: int, delta: float) -> float:
    """The least epsilon of `count` pure events of epsilon `one`: Kairouz, Oh and Viswanath (2015), Theorem 3.3.

    >>> round(pure_epsilon(0.1, 100, 1e-5), 4)
    4.3068
    """
    from scipy.stats import binom  # half a second to import: only where it is used

    # Of `count` randomised responses j speak against D: the loss is (count - 2j) one, with a binomial law.
    j = np.arange(count // 2 + 1)
    log_mass = binom.logpmf(j, count, expit(-one))
    losses = (count - 2 * j) * one

    def log_delta(e: float) -> float:
        above = losses > e
        return float(logsumexp(log_mass[above] + np.log(-np.expm1(e - losses[above])))) if above.any() else -math.inf

    return _least_epsilon(log_delta, math.log(delta) - 1e-9)


def _least_epsilon(log_delta: Callable[[float], float], target: float) -> float:
    """Where a falling log_delta(epsilon) meets the target, from above."""
    if log_delta(0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while log_delta(high) > target:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if log_delta(middle) <= target else (middle, high)
    return high


def _log_cosh(x: np.ndarray | float) -> np.ndarray:
    x = np.abs(x)
    return np.where(x < 1, np.log1p(2 * np.sinh(np.minimum(x, 1) / 2) ** 2), x + np.log1p(np.exp(-2 * x)) - math.log(2))


def _exp_beyond_line(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1 - x, without cancellation near zero."""
    series = x**2 / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7)))))
    return np.where(np.abs(x) < 0.01, series, np.expm1(x) - x)


def square(x: float) -> float:
    """x^2: infinity, not an exception, where x is too large."""
    return x * x
