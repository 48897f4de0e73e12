"""An audit: run the real code on two neighbouring data sets, and bound from below what it gives away.

An event E of the output is fixed first, on samples of its own; then fresh samples count how often E happens under
either data set. If a mechanism is epsilon-differentially private, P(E) <= exp(epsilon) P'(E); bounds of Clopper and
Pearson on both frequencies turn that into a lower bound on epsilon that holds with the stated confidence, whatever the
mechanism does inside. An audit can only ever show that a claim is false.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from tacit.algorithms import DualPerturbedADMM
from tacit.errors import InputError
from tacit.graph import View
from tacit.losses import Logistic
from tacit.noise import SeededNoise
from tacit.problem import Problem
from tacit.release import Inbox

CONFIDENCE = 0.999
Sampler = Callable[[int, int], np.ndarray]  # (which data set: 0 or 1, first tick) -> (samples,) of a statistic


@dataclass(frozen=True)
class Audited:
    """What an audit found."""

    claimed: float  # epsilon
    lower: float  # epsilon is at least this, with the confidence
    confidence: float
    samples: int  # under each data set, after the event was fixed
    threshold: float  # the event: the statistic is above it (below it, if negated)
    negated: bool

    @property
    def caught(self) -> bool:
        """Whether the claim is false."""
        return self.lower > self.claimed


def epsilon_lower_bound(hits: int, others: int, samples: int) -> float:
    """ln(P/P') at its least, from `hits` and `others` out of `samples` each (Clopper and Pearson).

    >>> epsilon_lower_bound(0, 0, 1000)
    0.0
    >>> 0.9 < epsilon_lower_bound(500_000, 183_940, 1_000_000) < 1.0
    True
    """
    miss = (1 - CONFIDENCE) / 2  # either of the two bounds may fail
    least = float(beta.ppf(miss, hits, samples - hits + 1)) if hits else 0.0
    most = float(beta.ppf(1 - miss, others + 1, samples - others)) if others < samples else 1.0
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def audit(sample: Sampler, claimed: float, batches: int) -> Audited:
    """Fixes the event on the first batches (a fifth), then tests it on fresh ones."""
    pilots = max(1, batches // 5)
    pilot = [np.concatenate([sample(which, t) for t in range(pilots)]) for which in (0, 1)]
    best = (-1.0, 0.0, False)
    for negated in (False, True):
        a, b = (-x if negated else x for x in pilot)
        for threshold in np.quantile(np.concatenate([a, b]), np.linspace(0.5, 0.999, 60)):
            found = epsilon_lower_bound(int((a > threshold).sum()), int((b > threshold).sum()), len(a))
            best = max(best, (found, float(threshold), negated))
    _, threshold, negated = best
    hits, samples = [0, 0], 0
    for t in range(pilots, batches):
        for which in (0, 1):
            x = sample(which, t)
            hits[which] += int(((-x if negated else x) > threshold).sum())
        samples += len(x)
    lower = epsilon_lower_bound(hits[0], hits[1], samples)
    return Audited(claimed, lower, CONFIDENCE, samples, threshold, negated)


def audit_dual_perturbed(
    epsilon: float, *, as_printed: bool = False, seed: int = 0, samples: int = 1_000_000
) -> Audited:
    """One step of DVP at alpha = epsilon, where a record tells most.

    The neighbours have pulled the model far out, to (0, -R), where both possible records u = (c, s) and u' = (-c, s),
    labelled +1, are badly misclassified. Their gradients -u and -u' then differ by 2c, almost the 2 of the proof.
    """
    if samples < 1000:
        raise InputError(f"an audit needs at least 1000 samples, not {samples}")
    size, far, s = min(20_000, samples // 5), 200.0, 0.1
    c = math.sqrt(1 - s * s)
    algorithm = DualPerturbedADMM(penalty=50.0, alpha=epsilon, as_printed=as_printed)
    noise = SeededNoise(seed)
    view = View(np.arange(size), np.ones((size, 1)))
    where = np.tile([0.0, -far], (size, 1))
    problems = [Problem([(np.array([[sign * c, s]]), [1.0])] * size, loss=Logistic(), l2=1e-3) for sign in (1, -1)]
    states = [algorithm.init(p, view, where, Inbox(where, np.arange(size + 1))) for p in problems]

    def sample(which: int, t: int) -> np.ndarray:
        # Streams of the two data sets must not coincide: even and odd ticks.
        _, release = algorithm.speak(states[which], problems[which], view, noise, 2 * t + which)
        return release.value[:, 0]

    return audit(sample, epsilon, math.ceil(samples / size) + max(1, samples // size // 4))


AUDITS: dict[str, Callable[..., Audited]] = {
    "dvp": audit_dual_perturbed,
}
