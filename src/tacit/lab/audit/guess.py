"""Guess from a transcript which of two data sets it comes from, and say what the errors show.

The guess knows nothing about the method. Pilot runs fix it: a linear discriminant on all released numbers, the
difference of the two means by the inverse of the common covariance. Fresh runs then give two lower bounds, each with
half of the error that the confidence allows, and the audit reports the larger one:

*distribution-free*: ln((P - delta)/P') for an event {discriminant above a threshold} that the pilot runs have fixed.
It assumes nothing: whatever the code does, (epsilon, delta) with a smaller epsilon is false.

*Gaussian*: the rate of errors at the middle of the two means gives a lower bound on mu (`mu_lower_bound`), and mu an
epsilon at delta. It tests the claim that the release is a Gaussian mechanism which costs at most (epsilon, delta). That
is what `Gaussian` and `SharedGaussian` events say. An `ObjectiveGaussian` event says so where the loss is a straight
line at both records, as it is in `tacit.lab.audit.named`: then the two Hessians are equal and the minimiser is an
affine function of the noise. If this bound is above the claim, the code is not what its proof is about; but another
kind of mechanism with the same errors could still be (epsilon, delta)-private.

Where it is known how far apart correct code brings the two data sets, too many errors are a failure as well
(`tacit.lab.audit.expected`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.engines import Local, Workers
from tacit.errors import number
from tacit.lab.audit.expected import most_wrong
from tacit.lab.audit.lower_bounds import (
    CONFIDENCE,
    Audited,
    BothDataSets,
    best_event,
    check_samples,
    epsilon_lower_bound,
    mu_lower_bound,
)
from tacit.privacy.formulas.closed_forms import gaussian_epsilon

Transcripts = Callable[[int, int], np.ndarray]  # which data set, 0 or 1, and which batch -> (runs, numbers)
Progress = Callable[[int, int], None]  # batches done, batches in all

_FLOOR = 1e-10  # the least deviation that the discriminant believes, over the largest: beyond lie rounding errors
_TINY = 1e-100  # instead of zero, if no number ever changes
_PILOTS = 0.2  # the share of the runs, or of the time, that fixes the guess


class Discriminant(NamedTuple):
    """Fisher's linear discriminant. It is high for the first data set."""

    centre: np.ndarray  # (p,)
    unit: np.ndarray  # (p,) numbers are measured in this
    axes: np.ndarray  # (p, q) to coordinates of unit covariance
    towards: np.ndarray  # (q,) the difference of the means in them

    @classmethod
    def fitted(cls, first: np.ndarray, second: np.ndarray) -> Discriminant:
        """From the transcripts of pilot runs, (runs, p) each.

        Some numbers of a transcript are functions of others, up to a mask that is far smaller than the noise. That is
        where a leak can hide, so directions of small deviation are kept: by a singular value decomposition of the
        transcripts, whose errors are much smaller than those of their covariance. No deviation counts as less than
        1e-10 of the largest.
        """
        means = first.mean(axis=0), second.mean(axis=0)
        within = np.concatenate([first - means[0], second - means[1]])
        apart = means[0] - means[1]
        unit = np.sqrt((within**2).mean(axis=0) + apart**2)
        unit[unit == 0] = 1.0  # a number that never changes
        _, deviation, axes = np.linalg.svd(within / unit / math.sqrt(len(within)), full_matrices=False)
        white = axes.T / np.maximum(deviation, max(_FLOOR * deviation[0], _TINY))
        return cls((means[0] + means[1]) / 2, unit, white, (apart / unit) @ white)

    def score(self, transcripts: np.ndarray) -> np.ndarray:
        """(runs,): zero in the middle of the two means."""
        return np.asarray(((transcripts - self.centre) / self.unit) @ self.axes @ self.towards)


@dataclass(frozen=True)
class _Scores:
    transcripts: Transcripts
    discriminant: Discriminant

    def __call__(self, which: int, batch: int) -> np.ndarray:
        return self.discriminant.score(self.transcripts(which, batch))


def audit_transcripts(
    transcripts: Transcripts,
    *,
    size: int,
    epsilon: float,
    delta: float,
    samples: int,
    minutes: float | None = None,
    progress: Progress | None = None,
    against: str = "",
    mu: float | None = None,
    gaussian: bool = True,
    workers: Workers | None = None,
) -> Audited:
    """Fixes a guess on pilot runs and tests it on fresh ones.

    transcripts  makes a batch of `size` fresh runs on one of the two data sets
    epsilon      the claim, at delta; with delta = 0 it is not that of a Gaussian mechanism
    gaussian     whether it is, with another delta
    mu           how far apart the two data sets are with correct code, if that is known
    samples      fresh runs under each data set; a quarter as many go before
    minutes      or about how long it may take: the pilot runs show how many fresh runs fit in
    progress     is called with the number of batches done and of all
    against      who attacks, where the claim depends on it
    workers      where the runs happen; by default in this process
    """
    check_samples(samples)
    if minutes is not None:
        number("minutes", minutes)
    tested = math.ceil(samples / size)
    pilots = max(1, math.ceil(tested * _PILOTS / (1 - _PILOTS)))
    begin, pairs, pilot_batch = time.monotonic(), [], BothDataSets(transcripts)

    def told(before: int) -> Progress | None:
        return None if progress is None else lambda k, of: progress(before + k, pilots + tested)

    with Local(1).open() if workers is None else nullcontext(workers) as at:
        if minutes is None:
            pairs = at.map(pilot_batch, range(pilots), told(0))
        else:
            least = math.ceil(1000 / size)
            while len(pairs) < least or time.monotonic() - begin < 60 * minutes * _PILOTS:
                pairs += at.map(pilot_batch, range(len(pairs), len(pairs) + at.jobs), told(len(pairs)))
            # Fixed before any of the fresh runs is made: to stop by what they show would spoil the confidence.
            pilots, one = len(pairs), (time.monotonic() - begin) / len(pairs)
            tested = max(least, math.floor((60 * minutes - (time.monotonic() - begin)) / one))
        pilot = [np.concatenate(parts) for parts in zip(*pairs, strict=True)]
        discriminant = Discriminant.fitted(*pilot)
        threshold, negated = best_event(*(discriminant.score(each) for each in pilot), delta=delta)
        fresh = at.map(BothDataSets(_Scores(transcripts, discriminant)), range(pilots, pilots + tested), told(pilots))
    first, second = (np.concatenate(parts) for parts in zip(*fresh, strict=True))
    gaussian = gaussian and delta > 0
    each = 1 - (1 - CONFIDENCE) / (2 if gaussian else 1)
    hits, others = (int(((-x if negated else x) > threshold).sum()) for x in (first, second))
    free = epsilon_lower_bound(hits, others, len(first), delta, each)
    wrong, most = int((first <= 0).sum() + (second > 0).sum()), None
    if mu is not None:
        most = most_wrong(mu, pilot[0].shape[1], len(pilot[0]), len(first))

    def by_errors(count: int | None) -> float | None:
        if count is None or not gaussian:
            return None
        shown = mu_lower_bound(count, 2 * len(first), each)
        return gaussian_epsilon(1 / shown, delta) if shown > 0 else 0.0

    by_mu = by_errors(wrong)
    return Audited(
        claimed=epsilon,
        lower=max(free, by_mu or 0.0),
        confidence=CONFIDENCE,
        samples=len(first),
        threshold=threshold,
        negated=negated,
        delta=delta,
        against=against,
        distribution_free=free,
        gaussian=by_mu,
        wrong=wrong / (2 * len(first)),
        most_wrong=None if most is None else most / (2 * len(first)),
        least=by_errors(most),
        scores=(first, second),
    )
