"""What events of one kind cost, by formulas from the literature: Renyi divergences, the least epsilon at a delta."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp


def pure_renyi(epsilon: float, order: np.ndarray) -> np.ndarray:
    """The Renyi divergences of randomised response, the worst of all pure mechanisms: P = (e^eps, 1)/(1 + e^eps), Q its
    mirror image; the moment is cosh((a - 1/2) eps) / cosh(eps/2).

    >>> pure_renyi(1.0, np.array([1e6])).round(4).tolist()
    [1.0]
    """
    a = order
    return (_log_cosh((a - 0.5) * epsilon) - _log_cosh(epsilon / 2)) / (a - 1)


def laplace_renyi(multiplier: float, coordinates: int, order: np.ndarray) -> np.ndarray:
    """The Renyi divergences of so many numbers with Laplace noise. Mironov (2017), Proposition 6: the moment of one is
    a/(2a-1) exp((a-1) e) + (a-1)/(2a-1) exp(-a e) with e the sensitivity in units of the noise's scale. Its terms of
    first order in e cancel, which needs care for small e."""
    a, e = order, 1 / multiplier
    up, down = a / (2 * a - 1), (a - 1) / (2 * a - 1)
    large = np.logaddexp(np.log(up) + (a - 1) * e, np.log(down) - a * e)
    small = np.log1p(up * _exp_beyond_line(np.minimum((a - 1) * e, 1)) + down * _exp_beyond_line(-a * e))
    return coordinates * np.where((a - 1) * e < 1, small, large) / (a - 1)


def objective_renyi(multiplier: float, curvature: float, order: np.ndarray) -> np.ndarray:
    """The Renyi divergences of a minimiser with a Gaussian linear term: those of `ObjectiveGaussian`."""
    a, x, s = order, curvature, 1 / multiplier
    # (1 + x)/((1 + a x)(1 - (a-1) x)) = 1 / (1 - a (a-1) x^2 / (1 + x)): no cancellation for small x.
    beyond = a * (a - 1) * x * (x / (1 + x))
    jacobian = -np.log1p(-np.minimum(beyond, 1.0)) / (a - 1)
    return np.where((a - 1) * x < 1, a * (s * s) / 2 + jacobian, math.inf)


def classes_renyi(multiplier: float, curvature: float, classes: int, order: np.ndarray) -> np.ndarray:
    """The Renyi divergences of a minimiser with a Gaussian linear term, if a record adds to the Hessian a matrix of
    rank `classes` - 1 and of Frobenius norm at most x mu: those of `ObjectiveGaussianClasses`."""
    a, x, s = order, curvature, 1 / multiplier
    c, rank, half = a - 1, classes - 1, a * x * x / 2
    # Both terms are about half. Where that is less than the digits of a logarithm, it is taken with what lies beyond.
    each, bent = x / math.sqrt(rank), c * x
    old = rank * (np.log1p(each) - np.log1p(c * each / (1 + each)) / c)
    old = np.where(a * each < 1e-6, half, np.minimum(old * (1 + 1e-9), half))
    new = -np.log1p(x) - np.log1p(-np.minimum(bent, 1.0)) / c
    new = np.where(a * x < 1e-6, half * (1 + 1e-5), np.maximum(new * (1 + 1e-9), half))
    return np.where(bent < 1, a * (s * s) / 2 + old + new, math.inf)


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


def objective_epsilon(multiplier: float, curvature: float, delta: float, classes: int = 2) -> float:
    """The epsilon of a single minimiser with a Gaussian linear term: ln(1 + x) more than the Gaussian mechanism has at
    delta/2, or than sqrt(3)/m + 1/(2 m^2), above which that is proved (docs/privacy.md). With K classes, it is
    (K - 1) ln(1 + 2x/K) more, and delta/2 is divided by the square of K(K - 1)/2, the number of pairs of classes.

    >>> round(objective_epsilon(4.0, 0.1, 1e-5), 4)
    1.0638
    """
    part = delta / 2 / math.comb(classes, 2) ** 2
    if part == 0:
        return math.inf
    s = 1 / multiplier
    least = math.sqrt(3) * s + s * s / 2
    bent = (classes - 1) * math.log1p(curvature * 2 / classes)
    return bent + max(gaussian_epsilon(multiplier, part), least)


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
