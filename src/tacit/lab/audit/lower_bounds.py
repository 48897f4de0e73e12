"""From counts to bounds: what runs under two neighbouring data sets show, with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincinv, ndtri

from tacit.engines import Local, Workers
from tacit.errors import InputError

CONFIDENCE = 0.999
Sampler = Callable[[int, int], np.ndarray]  # (which data set: 0 or 1, which batch) -> (samples,) of a statistic


@dataclass(frozen=True)
class BothDataSets:
    """One batch of runs on each of the two data sets."""

    sample: Sampler

    def __call__(self, batch: int) -> tuple[np.ndarray, np.ndarray]:
        return self.sample(0, batch), self.sample(1, batch)


def seeded_bytes(seed: int, which: int, batch: int) -> Callable[[int], bytes]:
    """The bits that the noise of a batch is made of. Each batch has its own, so it does not matter where it runs, or
    which batch came before."""
    return np.random.default_rng([seed, which, batch]).bytes


@dataclass(frozen=True)
class Audited:
    """What an audit found: its bounds, and its wrong guesses."""

    claimed: float  # epsilon
    lower: float  # epsilon is at least this, with the confidence
    confidence: float
    samples: int  # under each data set, after the event was fixed
    threshold: float  # the event: the statistic is above it (below it, if negated)
    negated: bool
    delta: float = 0.0  # of an (epsilon, delta) claim
    against: str = ""  # who attacks, where the claim depends on it
    distribution_free: float | None = None  # the part of `lower` that assumes nothing about the mechanism
    gaussian: float | None = None  # the part that assumes a Gaussian mechanism, as the claim says
    wrong: float | None = None  # the share of guesses that were wrong
    most_wrong: float | None = None  # that of correct code exceeds this with a probability of FALSE_ALARM
    least: float | None = None  # `gaussian` at that share: correct code shows so much
    scores: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False, compare=False)  # of the fresh runs

    @property
    def ratio(self) -> float:
        """The bound over the claim: near 1 if the audit is sharp, above 1 if the claim is false."""
        return self.lower / self.claimed

    @property
    def caught(self) -> bool:
        """Whether the claim is false."""
        return self.lower > self.claimed

    @property
    def short(self) -> bool:
        """Whether the runs tell less than those of correct code: then it is not what its proof is about, either."""
        return self.wrong is not None and self.most_wrong is not None and self.wrong > self.most_wrong

    @property
    def failed(self) -> bool:
        """Whether something is wrong with the code."""
        return self.caught or self.short


def epsilon_lower_bound(
    hits: int, others: int, samples: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """ln((P - delta)/P') at its least, from `hits` and `others` out of `samples` each (Clopper and Pearson).

    >>> epsilon_lower_bound(0, 0, 1000)
    0.0
    >>> 0.9 < epsilon_lower_bound(500_000, 183_940, 1_000_000) < 1.0
    True
    """
    miss = (1 - confidence) / 2  # either of the two bounds may fail
    least = (float(betaincinv(hits, samples - hits + 1, miss)) if hits else 0.0) - delta
    most = float(betaincinv(others + 1, samples - others, 1 - miss)) if others < samples else 1.0
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def audit(
    sample: Sampler,
    claimed: float,
    batches: int,
    delta: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
) -> Audited:
    """Fixes the event on the first batches (a fifth), then tests it on fresh ones."""
    pilots = max(1, batches // 5)
    with Local(1).open() if workers is None else nullcontext(workers) as at:
        drawn = at.map(BothDataSets(sample), range(batches), progress)
    pilot, (first, second) = (
        [np.concatenate(parts) for parts in zip(*some, strict=True)] for some in (drawn[:pilots], drawn[pilots:])
    )
    threshold, negated = best_event(*pilot, delta=delta)
    hits, others = (int(((-x if negated else x) > threshold).sum()) for x in (first, second))
    lower = epsilon_lower_bound(hits, others, len(first), delta)
    return Audited(
        claimed,
        lower,
        CONFIDENCE,
        len(first),
        threshold,
        negated,
        delta,
        distribution_free=lower,
        scores=(first, second),
    )


def best_event(first: np.ndarray, second: np.ndarray, *, delta: float) -> tuple[float, bool]:
    """The threshold, and whether the statistic is negated, with which pilot runs show the largest epsilon."""
    best = (-1.0, 0.0, False)
    for negated in (False, True):
        a, b = (-x if negated else x for x in (first, second))
        for threshold in np.quantile(np.concatenate([a, b]), np.linspace(0.5, 0.999, 60)):
            found = epsilon_lower_bound(int((a > threshold).sum()), int((b > threshold).sum()), len(a), delta)
            best = max(best, (found, float(threshold), negated))
    return best[1], best[2]


def mu_lower_bound(wrong: int, guesses: int, confidence: float = CONFIDENCE) -> float:
    """How far apart two data sets are at least, from how often a guess was wrong: half of the guesses under either.

    A release is mu-Gaussian-private if telling two neighbours apart is as hard as telling N(0, 1) from N(mu, 1): then
    no guess, fixed beforehand, has error rates under the two data sets with a sum below 2 Phi(-mu/2). The bound of
    Clopper and Pearson holds for the mean of the two rates: the number of errors in independent trials with different
    rates has tails no heavier than the binomial of their mean (Hoeffding 1956, Theorem 4).

    >>> mu_lower_bound(500, 1000)
    0.0
    >>> 0.9 < mu_lower_bound(308_538, 1_000_000) < 1.0
    True
    """
    if wrong >= guesses:
        return 0.0
    return max(0.0, -2 * float(ndtri(betaincinv(wrong + 1, guesses - wrong, confidence))))


def batches_of(samples: int) -> tuple[int, int]:
    """How many runs go into a batch, and how many batches there are, with those that fix the event."""
    check_samples(samples)
    size = min(2000, samples // 5)
    return size, math.ceil(samples / size) + max(1, samples // size // 4)


def check_samples(samples: int) -> None:
    """Refuses so few runs that they show nothing."""
    if samples < 1000:
        raise InputError(f"an audit needs at least 1000 samples, not {samples}")
