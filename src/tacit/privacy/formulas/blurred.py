"""A Laplace mechanism whose value is blurred by a secret uniform number: densities, divergences, amplification.

A number x leaves, x = value + u + z, with z of density exp(-|z|)/2 (the noise's scale is the unit of everything here)
and u uniform on an interval of length w = 2h, which is known; let its middle be 0. Without the value x has the density

    p(x) = [2 - e^-(h+x) - e^-(h-x)] / (4h)  for |x| <= h,    p(x) = (1 - e^-2h) e^-(|x|-h) / (4h)  beyond,

symmetric and, as a convolution of such, log-concave: ln p(x) - ln p(x - t) falls in x for t > 0. Everything below uses
that. Xiao, Ye, Devadas (paper 003) draw u by random weights between models that were released: section 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.privacy.events import BlurredLaplace

_FAR = 40.0  # from the ends of the interval: e^-40 is negligible
_CELLS = 400
_ROUNDING = 1e-8  # what rounding can take away from a divergence, relative
_GRID = 2.0**-36  # of SecureNoise
_TINY_SHIFT = 1e-4  # below which the blur is given no credit: rounding would matter


def log_density(x: np.ndarray, half: np.ndarray | float) -> np.ndarray:
    """ln p(x) for an interval of length 2 half; Laplace's at a half of 0.

    >>> log_density(np.array([0.0, 3.0]), 0.0).round(4).tolist()
    [-0.6931, -3.6931]
    """
    x, h = np.abs(x), np.asarray(half, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = -np.expm1(-(h + np.minimum(x, h))) - np.expm1(-(h - np.minimum(x, h)))
        beyond = np.where(h > 0, np.log(-np.expm1(-2 * h) / (4 * h)), -math.log(2))
        return np.where(x < h, np.log(inside / (4 * h)), beyond - (x - h))


def cdf(x: np.ndarray, half: float) -> np.ndarray:
    """The integral of p up to x; the interval has a length above 0."""
    lower = -np.abs(x)  # the upper half by symmetry
    within = np.maximum(lower, -half)
    body = (2 * (within + half) + np.expm1(-(half + within)) - np.expm1(-(half - within))) / (4 * half)
    below = body * np.exp(lower - within)
    return np.where(np.asarray(x) > 0, 1 - below, below)


def loss(x: np.ndarray, half: np.ndarray | float, shift: np.ndarray | float) -> np.ndarray:
    """The largest |ln p(x) - ln p(x - t)| over |t| <= shift: the paper's (10), in the noise's units. Never above shift.

    ln p is concave and symmetric: it falls most away from the middle, by a whole shift.
    """
    return log_density(x, half) - log_density(np.abs(x) + shift, half)


def amplification(width: float, shift: float) -> float:
    """gamma, the mean of `loss` over its bound, the shift: exactly, by integration.

    >>> amplification(0.0, 0.1), round(amplification(10.0, 0.01), 4)
    (1.0, 0.1993)
    """
    _checked(width, shift)
    h = width / 2
    if h == 0:
        return 1.0

    def density_of_loss(x: float) -> float:
        return float(np.exp(log_density(np.array(x), h)) * loss(np.array(x), h, shift)) / shift

    kinks = [k for k in (h - shift, h - _FAR) if 0 < k < h]
    from scipy.integrate import quad  # takes a fifth of a second to import, and only this function needs it

    within = quad(density_of_loss, 0, h, points=kinks or None, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
    return float(2 * (within + cdf(np.array(-h), h)))


def printed_amplification(width: float, shift: float) -> float:
    """The bound on gamma that (11) prints; below the exact gamma it is no bound (docs/errata.md)."""
    _checked(width, shift)
    if not width > shift:
        raise InputError(f"(11) is for an interval longer than the shift, not for {width} and {shift}")
    h = width / 2
    lower, middle, moved, end = cdf(np.array([-h, -shift / 2, shift / 2, shift - h]), h)
    return math.log(math.exp(shift) * (1 - 2 * (middle - lower)) + 2 * (moved - end)) / shift


def renyi_divergence(event: BlurredLaplace, order: np.ndarray) -> np.ndarray:
    """An upper bound on the Renyi divergence of each order a > 1 between p and p moved by 1/multiplier.

    With P and Q the two laws and R = p(x)/q(x), the moment is E_Q[R^a]. R falls in x: on a cell of the line it lies
    between its values at the ends, and its mean is P(cell)/Q(cell). R^a is convex, so on every cell the chord between
    the ends, at that mean, is an upper bound; outside [-h, h + shift] R is constant. Nothing is integrated numerically.
    Uniform numbers on a grid of g, as secure noise draws them, move either density by a factor of e^(w g/2) at most.
    """
    a, h, shift = np.asarray(order, dtype=float), event.width / 2, 1 / event.multiplier
    if h == 0 or shift < _TINY_SHIFT:
        return np.full_like(a, math.inf)  # `BlurredLaplace` has Laplace's, too
    near = min(2 * h + shift, _FAR) * np.linspace(0, 1, _CELLS // 2 + 1) ** 2  # R changes most near the two ends
    x = np.unique(np.concatenate([-h + near, h + shift - near, [min(h, shift - h), max(h, shift - h)]]))
    x = x[(x >= -h) & (x <= h + shift)]
    L = np.clip(log_density(x, h) - log_density(x - shift, h), -shift, shift)
    P, Q = (np.diff(cdf(x - s, h), prepend=0.0, append=1.0) for s in (0.0, shift))  # with the two tails
    high, low = np.concatenate([[shift], L]), np.concatenate([L, [-shift]])
    keep = Q > 0
    P, Q, high, low = P[keep], Q[keep], high[keep], low[keep]
    apart = np.exp(high) - np.exp(low)
    chord = np.divide(P / Q - np.exp(low), apart, out=np.ones_like(P), where=apart > 0)
    chord = np.clip(chord, 0.0, 1.0)[:, None]
    weight, high, low = Q[:, None], high[:, None], low[:, None]

    def beyond_tangent(L: np.ndarray, a: np.ndarray) -> np.ndarray:  # R^a - 1 - a (R - 1), of which E_Q is M - 1
        return np.expm1(np.minimum(a * L, 1.0)) - a * np.expm1(L)

    flat = a.reshape(-1)
    with np.errstate(divide="ignore"):
        ends = np.logaddexp(np.log(chord) + flat * high, np.log1p(-chord) + flat * low)
        large = logsumexp(ends, axis=0, b=weight)
    small = np.log1p(
        (weight * (chord * beyond_tangent(high, flat) + (1 - chord) * beyond_tangent(low, flat))).sum(axis=0)
    )
    log_moment = np.where(flat * shift < 1, small, large)
    gridded = (2 * flat - 1) * event.width * _GRID / 2
    return ((log_moment * (1 + _ROUNDING) + gridded) / (flat - 1)).reshape(a.shape)


def _checked(width: float, shift: float) -> None:
    if not (width >= 0 and shift > 0 and math.isfinite(width) and math.isfinite(shift)):
        raise InputError(f"an interval has a length of 0 or more and a shift is positive, not {width} and {shift}")
