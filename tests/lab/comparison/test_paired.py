"""The interval of a paired difference covers as often as it says, and a wrong one is caught."""

import math

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from tacit.lab.comparison.paired import LEVEL, difference

REPEATS, SEEDS, TRUE = 40_000, 5, 0.3
FALSE_ALARM = 1e-6  # of a correct interval, in `covers_as_it_says`


def pairs():
    """Two methods on the same seeds: what a seed does to both is larger than what it does to each."""
    rng = np.random.default_rng(8)
    both = 3.0 * rng.normal(size=(REPEATS, SEEDS))
    ours, theirs = (both + rng.normal(size=both.shape) for _ in range(2))
    return ours + TRUE, theirs


def covers_as_it_says(interval):
    """Whether the share of intervals that cover the truth is 95 %, as far as a binomial count can say: a count of a
    correct interval lies farther off with a probability of `FALSE_ALARM`."""
    ours, theirs = pairs()
    covered = sum(low <= TRUE <= high for _, low, high in map(interval, ours, theirs))
    deviation = math.sqrt(REPEATS * LEVEL * (1 - LEVEL))
    return abs(covered - REPEATS * LEVEL) <= -ndtri(FALSE_ALARM / 2) * deviation


def with_reach(reach):
    def interval(ours, theirs):
        mean = float(np.mean(ours - theirs))
        return mean, mean - reach(ours, theirs), mean + reach(ours, theirs)

    return interval


T = float(stdtrit(SEEDS - 1, (1 + LEVEL) / 2))


def test_an_interval_covers_the_true_difference_as_often_as_it_says():
    assert covers_as_it_says(difference)


@pytest.mark.parametrize(
    "reach",
    [
        # as if the seeds were not the same
        lambda a, b: float(stdtrit(2 * SEEDS - 2, 0.975)) * math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / SEEDS),
        # one degree of freedom too many
        lambda a, b: float(stdtrit(SEEDS, 0.975)) * (a - b).std(ddof=1) / math.sqrt(SEEDS),
        # divided by n, not by n - 1
        lambda a, b: T * (a - b).std() / math.sqrt(SEEDS),
        # the normal quantile
        lambda a, b: 1.96 * (a - b).std(ddof=1) / math.sqrt(SEEDS),
        # one-sided
        lambda a, b: float(stdtrit(SEEDS - 1, 0.95)) * (a - b).std(ddof=1) / math.sqrt(SEEDS),
    ],
    ids=["unpaired", "degrees of freedom", "divided by n", "normal", "one-sided"],
)
def test_a_wrong_interval_is_caught(reach):
    assert not covers_as_it_says(with_reach(reach))


def test_the_check_passes_the_right_formula():
    """It is the formula that is caught above, not the way in which the test computes it."""
    assert covers_as_it_says(with_reach(lambda a, b: T * (a - b).std(ddof=1) / math.sqrt(SEEDS)))


def test_differences_that_do_not_vary_have_an_interval_of_no_length():
    assert difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]) == (1.0, 1.0, 1.0)


def test_values_of_different_seeds_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        difference([1.0, 2.0, 3.0], [1.0, 2.0])
