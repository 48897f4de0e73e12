"""What (epsilon, delta) means, in plain words: how much better somebody can guess.

Let A know everything about a record but which of two values it has, and let both be equally likely. Before a release A
guesses right with probability 1/2. Afterwards A says "the first" if the release lies in some set. Let a and b be the
probabilities that A is right if the first, or the second, is true. By the definition of differential privacy,

    a <= e^epsilon (1 - b) + delta    and    b <= e^epsilon (1 - a) + delta.

Add both: (a + b) (1 + e^epsilon) <= 2 e^epsilon + 2 delta. So A is right with probability

    (a + b) / 2 <= (e^epsilon + delta) / (1 + e^epsilon),

whatever A computes. No smaller bound holds for all mechanisms: one that shows the value with probability delta, and
otherwise answers by randomised response, reaches it. (Kairouz, Oh and Viswanath 2017 have the region of all a and b.)
"""

from __future__ import annotations

import math

__all__ = ["EVERYBODY", "best_guess", "in_words", "percent"]

EVERYBODY = "somebody who sees everything that left, and knows every other record,"
_HUNDREDTHS = 1e4  # of a per cent, in one


def best_guess(epsilon: float, delta: float) -> float:
    """The largest probability to guess right which of two equally likely values a record has.

    >>> best_guess(0.0, 0.0), round(best_guess(1.0, 1e-5), 6), best_guess(math.inf, 1e-5)
    (0.5, 0.731061, 1.0)
    """
    less = math.exp(-epsilon)  # e^epsilon would overflow
    return min(1.0, (1 + delta * less) / (1 + less))


def percent(share: float) -> str:
    """A probability for people to read, never rounded down.

    >>> percent(0.5), percent(best_guess(1.0, 1e-5)), percent(0.99991)
    ('50%', '73.11%', '100%')
    """
    # Rounding in the arithmetic above is no reason for one more hundredth.
    hundredths = math.ceil(share * _HUNDREDTHS * (1 - 1e-15))
    return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".") + "%"


def in_words(epsilon: float, delta: float, who: str = EVERYBODY) -> str:
    """One sentence for a person who does not know what epsilon is. `who` begins it.

    >>> in_words(1.0, 1e-5, "anybody")
    'Anybody can improve a guess about one record from 50% to at most 73.11%.'
    >>> in_words(20.0, 1e-5, "anybody")
    'Anybody may be able to find out everything about one record: there is no useful bound.'
    """
    who, best = who[0].upper() + who[1:], percent(best_guess(epsilon, delta))
    if best == "100%":
        return f"{who} may be able to find out everything about one record: there is no useful bound."
    return f"{who} can improve a guess about one record from 50% to at most {best}."
