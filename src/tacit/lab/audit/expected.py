"""What correct code shows: how often a guess that pilot runs have fixed is wrong, if the claim is exactly true.

A lower bound far below the claim is a failure, too. Noise that is used twice, for example, says no more than once as
long as the record says the same in every round: the two data sets are then *harder* to tell apart than they should be.

Let correct code be as hard to tell apart as N(0, I) and N(d, I) in p dimensions, with |d| = mu. The discriminant takes
w = S^-1 d', from n pilot runs on each data set: d' is normal around d with covariance 2/n I, and S a covariance with
v = 2n - 2 degrees of freedom. Guesses by w are those of mu cos(w, d), which has a known law:

    cos(d', d)      from d' itself
    cos(w, d')^2    Beta((v - p + 2)/2, (p - 1)/2), independent of d' (Reed, Mallett, Brennan 1974, for real numbers),
                    in a uniform direction around d'

The middle between the two means is off by N(0, 1/(2n)). Draws from this law give the number of wrong guesses that
correct code exceeds with a probability of `FALSE_ALARM`: it is a quantile of 100,000 draws, with 100 beyond it, so the
probability is known to about a tenth. All numbers of a transcript count as dimensions; if some of them are functions of
others, correct code is wrong less often still.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

FALSE_ALARM = 0.001
_DRAWS = 100_000


def most_wrong(mu: float, numbers: int, pilots: int, samples: int) -> int:
    """How many guesses correct code gets wrong at most, of `samples` under each data set.

    mu        how far apart the two data sets are
    numbers   in a transcript
    pilots    runs on each data set that fix the guess

    >>> most_wrong(1.0, numbers=1, pilots=10_000, samples=10_000)  # Phi(-1/2) of 20,000 is 6171
    6373
    """
    rng, n, p = np.random.default_rng(0), pilots, numbers
    along = mu + math.sqrt(2 / n) * rng.standard_normal(_DRAWS)
    across = math.sqrt(2 / n) * np.sqrt(rng.chisquare(p - 1, _DRAWS)) if p > 1 else np.zeros(_DRAWS)
    angle = np.arctan2(across, along)
    cosine = np.cos(angle)
    if p > 1:
        free = 2 * n - 2 - p + 2
        found = rng.beta(free / 2, (p - 1) / 2, _DRAWS) if free > 0 else np.zeros(_DRAWS)
        one = rng.standard_normal(_DRAWS)
        rest = rng.chisquare(p - 2, _DRAWS) if p > 2 else 0.0
        cosine = np.sqrt(found) * cosine + np.sqrt(1 - found) * np.sin(angle) * one / np.sqrt(one**2 + rest)
    middle = rng.standard_normal(_DRAWS) / math.sqrt(2 * n)
    wrong = sum(rng.binomial(samples, ndtr(-mu * cosine / 2 + off)) for off in (middle, -middle))
    return int(np.quantile(wrong, 1 - FALSE_ALARM, method="higher"))
