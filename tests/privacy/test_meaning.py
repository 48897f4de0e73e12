"""What epsilon means to somebody who guesses: the bound holds, is reached by a mechanism, and is never rounded down."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.privacy.accounting import rounded_up
from tacit.privacy.meaning import best_guess, in_words, percent


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_a_mechanism_reaches_the_bound(epsilon, delta):
    """With probability delta the record itself, otherwise randomised response."""
    keep = 1 / (1 + math.exp(-epsilon))
    first = np.array([delta, 0.0, (1 - delta) * keep, (1 - delta) * (1 - keep)])
    second = np.array([0.0, delta, (1 - delta) * (1 - keep), (1 - delta) * keep])
    for p, q in ((first, second), (second, first)):  # it is (epsilon, delta)-private
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta + 1e-12
    assert np.maximum(first, second).sum() / 2 == pytest.approx(best_guess(epsilon, delta), rel=1e-12)


def test_no_private_mechanism_passes_it():
    """Random pairs of laws, with the least delta that makes them private at some epsilon."""
    rng = np.random.default_rng(0)
    for p, q in rng.dirichlet([0.3] * 6, size=(300, 2)):
        for epsilon in (0.0, 0.5, 2.0):
            delta = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
            assert np.maximum(p, q).sum() / 2 <= best_guess(epsilon, delta) + 1e-12


def test_it_is_never_rounded_down():
    for epsilon in np.geomspace(1e-4, 15, 500):
        share = best_guess(epsilon, 1e-6)
        shown = Fraction(percent(share).removesuffix("%")) / 100
        assert Fraction(share) * (1 - Fraction(1, 10**14)) <= shown < Fraction(share) + Fraction(1, 9999)


def test_neither_is_an_epsilon():
    for epsilon in np.geomspace(1e-5, 900, 500):
        assert epsilon * (1 - 1e-14) <= rounded_up(epsilon) <= epsilon * (1 + 1.001e-3)


def test_in_words():
    assert in_words(1.0, 0.0).endswith("can improve a guess about one record from 50% to at most 73.11%.")
    assert in_words(0.0, 0.0).endswith("from 50% to at most 50%.")
    assert "no useful bound" in in_words(math.inf, 1e-5)
