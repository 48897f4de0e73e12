"""What a Gaussian mechanism on a secret sample costs: its privacy profile, and its privacy-loss distribution.

Let every record join the sample with probability q, let D, D' differ in one record, and fix the rest of the sample.
What leaves has the laws P = (1-q) N(v) + q N(v+a) and Q = (1-q) N(v) + q N(v+b), with |a|, |b|, |a-b| <= Delta. For
s >= 1, s' = 1 + q (s-1) and b' = s'/s, with H_s(P|Q) = integral of (P - s Q)_+, advanced joint convexity (Balle,
Barthe, Gaboardi 2018, Theorem 2) says that

    H_s'(P|Q) = q H_s(N(v+a) | (1-b') N(v) + b' N(v+b)) <= q H_s(N(Delta) | N(0))

by convexity in the second argument, since H_s between Gaussians grows with their distance. The rest of the sample has
one law under D and D', so averaging over it keeps the bound. Neighbours are symmetric: for s' < 1, H_s'(P|Q) = 1 - s' +
s' H_1/s'(Q|P) turns it into a bound, too. Together the two are a convex profile: at s' = 1 the slope from the left is
-1 + q (1-2F) + F and from the right -F, with F = Phi(-1/(2m)) <= 1/2, and the left one is no larger. So it is the
profile of some pair of laws (Zhu, Dong, Wang 2022), which dominates the mechanism, as its compositions do the
mechanism's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from tacit.privacy.events import SampledGaussian

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

_TAIL = 1e-25  # a delta beyond which the loss counts as infinite


def profile(event: SampledGaussian, epsilon: np.ndarray) -> np.ndarray:
    """An upper bound on delta at each epsilon, of either sign, of one release.

    >>> profile(SampledGaussian(1.0, 1.0), np.array([0.0])).round(4).tolist()  # 2 Phi(1/2) - 1
    [0.3829]
    """
    e, q, half = np.abs(np.asarray(epsilon, dtype=float)), event.rate, 0.5 / event.multiplier
    whole = np.log1p(np.expm1(e) / q)  # the epsilon of the Gaussian without sampling
    gain, loss = log_ndtr(half - whole * event.multiplier), whole + log_ndtr(-half - whole * event.multiplier)
    delta = -q * np.exp(gain) * np.expm1(np.minimum(loss - gain, 0.0))
    return np.where(np.asarray(epsilon) >= 0, delta, -np.expm1(-e) + np.exp(-e) * delta)


def largest_loss(event: SampledGaussian) -> float:
    """An epsilon at which delta is negligible."""
    high = 1.0
    while profile(event, np.array([high]))[0] > _TAIL:
        high *= 1.5
    return high


def spread(event: SampledGaussian) -> float:
    """Roughly the variance of the privacy loss: the total of many is that of a Gaussian."""
    return event.rate**2 * math.expm1(min(event.multiplier**-2, 50.0))


def loss_distribution(event: SampledGaussian, interval: float) -> privacy_loss_distribution.PrivacyLossDistribution:
    """The privacy-loss distribution of the profile, on a grid, rounded up (Doroshenko et al. 2022)."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # a second to import: only where it is used

    steps = math.ceil(largest_loss(event) / interval)
    grid = np.arange(-steps, steps + 1)
    delta = np.minimum.accumulate(np.clip(profile(event, grid * interval), 0.0, 1.0))
    return privacy_loss_distribution.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, delta)
    )
