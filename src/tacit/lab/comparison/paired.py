"""The difference of two methods that ran with the same seeds: its mean, and a confidence interval.

Methods that share a seed share test rows, the division of the training rows and the draws of the noise. So a seed that
is hard for one is hard for the other, and the differences vary less than the values do. With n differences of mean m
and standard deviation s (divided by n - 1), Student's interval is

    m -+ t s/sqrt(n),    t the 97.5 % quantile of Student's distribution with n - 1 degrees of freedom.

It assumes that the differences are independent, which seeds make them, and about normal. It covers the mean over all
seeds *on these records*: it says nothing about other records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95


class Difference(NamedTuple):
    """The mean of the differences, and the ends of its interval; one seed has none."""

    mean: float
    low: float | None
    high: float | None


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Ours minus theirs, seed by seed.

    >>> found = difference([0.20, 0.22, 0.21], [0.10, 0.13, 0.11])
    >>> [round(value, 4) for value in found]
    [0.0967, 0.0823, 0.111]
    >>> difference([0.5], [0.25])
    Difference(mean=0.25, low=None, high=None)
    """
    each = np.subtract(ours, theirs)
    mean, n = float(each.mean()), len(each)
    if n < 2:
        return Difference(mean, None, None)
    reach = float(stdtrit(n - 1, (1 + LEVEL) / 2) * each.std(ddof=1) / math.sqrt(n))
    return Difference(mean, mean - reach, mean + reach)
