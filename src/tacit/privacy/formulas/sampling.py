"""What a Gaussian mechanism on a secret sample costs: its dominating pair, and that pair's privacy-loss distribution.

Let every record join the sample with probability q, let D, D' differ in one record, and fix the rest of the sample. In
units of Delta, what leaves has the laws P = (1-q) N(v) + q N(v+a) and Q = (1-q) N(v) + q N(v+b), with |a|, |b| <= 1/2
and a deviation of m in every entry. docs/privacy.md proves that for all of these, and all s > 0, the integral of
(P - s Q)_+ is at most that for a = 1/2 and b = -1/2 in one dimension. So this pair,

    P* = (1-q) N(0, m^2) + q N(1/2, m^2),      Q* = (1-q) N(0, m^2) + q N(-1/2, m^2),

dominates the mechanism, as its compositions do the mechanism's (Zhu, Dong, Wang 2022); and it is one of the pairs.
It is its own mirror image, so one loss distribution serves both orders of the neighbours. With x = m z the loss
ln(P*/Q*) grows in z, and takes the value e at

    z(e) = m e + 2 m asinh( (1-q)/q exp(1/(8 m^2)) sinh(e/2) )
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

    from tacit.privacy.events import SampledGaussian

_MOST_CELLS = 400_000  # of one event's loss distribution


def profile(event: SampledGaussian, epsilon: np.ndarray) -> np.ndarray:
    """delta at each epsilon, of either sign, of one release.

    >>> from tacit.privacy.events import SampledGaussian
    >>> profile(SampledGaussian(1.0, 1.0), np.array([0.0])).round(4).tolist()  # 2 Phi(1/2) - 1
    [0.3829]
    """
    e, q, half = np.asarray(epsilon, dtype=float), event.rate, 0.5 / event.multiplier
    z = _place(event, e)
    # P*(above) - s Q*(above), with the part that is the same in both taken out
    s_minus_1 = np.expm1(np.minimum(e, 700.0))
    shifted = _between(z - half, z + half) - s_minus_1 * ndtr(-z - half)
    return np.maximum(q * shifted - (1 - q) * s_minus_1 * ndtr(-z), 0.0)


def largest_loss(event: SampledGaussian, tail: float) -> float:
    """An epsilon at which delta is at most `tail`."""
    high = 1e-12
    while profile(event, np.array([high]))[0] > tail:
        high *= 1.5
    return high


def spread(event: SampledGaussian) -> float:
    """Roughly the variance of the privacy loss: the total of many is that of a Gaussian."""
    return 4 * event.rate**2 * math.sinh(min(event.multiplier**-2 / 4, 50.0))


def loss_distribution(
    event: SampledGaussian, interval: float, largest: float
) -> privacy_loss_distribution.PrivacyLossDistribution:
    """The privacy-loss distribution on a grid, rounded up (Doroshenko et al. 2022). Losses above `largest` count as
    infinite, but for the part that the last point of the grid can stand for.

    Between two points of the grid, with ratios s < s' of the densities, let the pair have the masses A and B. They go
    to the two points such that both stay the same: (A - s B)/(s' - s) of B goes up. That replaces the profile by its
    chords, which lie above it.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # a second to import: only where it is used

    steps = max(1, math.ceil(largest / interval))
    grid = np.arange(-steps, steps + 1) * interval
    first, second = _masses(event, _place(event, grid))  # also below the first point and above the last one
    ratio = np.exp(grid)
    A, B = first[1:-1], second[1:-1]
    up = np.clip((A - ratio[:-1] * B) / (ratio[:-1] * np.expm1(interval)), 0.0, B)
    mass = np.zeros(len(grid))
    mass[:-1] += ratio[:-1] * (B - up)
    mass[1:] += ratio[1:] * up
    mass[0] += first[0]
    beyond = max(0.0, float(first[-1] - ratio[-1] * second[-1]))
    mass[-1] += first[-1] - beyond
    return privacy_loss_distribution.PrivacyLossDistribution(
        pld_pmf.DensePLDPmf(interval, -steps, mass, beyond, pessimistic_estimate=True)
    )


def finest(largest: float) -> float:
    """The finest grid for losses up to this."""
    return 2 * largest / _MOST_CELLS


def _place(event: SampledGaussian, epsilon: np.ndarray) -> np.ndarray:
    """z(epsilon) of the docstring above."""
    m, q = event.multiplier, event.rate
    if q == 1:
        return m * epsilon
    steep = math.log1p(-q) - math.log(q) + 0.125 / m / m
    with np.errstate(divide="ignore", over="ignore"):
        log = steep + np.log(2 * np.abs(np.sinh(np.clip(epsilon, -600, 600) / 2)))  # of twice what asinh is taken of
    size = np.where(log > 40, log, np.arcsinh(np.exp(np.minimum(log, 40.0)) / 2))
    return m * epsilon + 2 * m * np.sign(epsilon) * size


def _masses(event: SampledGaussian, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What P* and Q* have below z[0], between the z and above z[-1]."""
    q, half = event.rate, 0.5 / event.multiplier
    edges = np.concatenate([[-np.inf], z, [np.inf]])

    def law(shift: float) -> np.ndarray:
        moved = edges - shift
        return (1 - q) * _between(edges[:-1], edges[1:]) + q * _between(moved[:-1], moved[1:])

    return law(half), law(-half)


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The standard normal mass between, from the tail that is the shorter one: to full relative precision there."""
    right = low > 0
    return ndtr(np.where(right, -low, high)) - ndtr(np.where(right, -high, low))
