"""Real numbers as integers modulo 2^bits, so that sums can be decoded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tacit.errors import InputError, number


@dataclass(frozen=True)
class FixedPoint:
    """x is encoded as the integer nearest to x 2^f, modulo p = 2^bits; a sum is decoded from [-p/2, p/2).

    f is the largest number of fractional bits for which a sum of `members` entries of size `bound` fits, that is
    p > 2 max|sum| 2^f, so the modulus is large enough by construction. (Paper 003 takes real numbers modulo p, which is
    undefined, with p > max|sum|, which loses signs.) Every entry is off by at most 2^-(f+1), a sum of n of them by
    n 2^-(f+1), and by the 2^-53 |sum| of a float when it comes back.

    One word is enough: if even f = 0 does not fit into 64 bits, a float has lost all digits of the addends anyway.

    >>> point = FixedPoint(bound=65536.0, members=10)
    >>> point.fraction_bits, point.decode(point.encode(np.array([-1.5])) + point.encode(np.array([0.25]))).tolist()
    (43, [-1.25])
    """

    bound: float  # no entry is larger in absolute value; public
    members: int  # the largest number of addends in a sum
    bits: int = 64

    def __post_init__(self) -> None:
        number("bound", self.bound)
        if self.fraction_bits < 0:
            raise InputError(
                f"entries up to {self.bound:g} of {self.members} members are too large for the modulus 2^{self.bits}: "
                "give a smaller bound"
            )

    @cached_property
    def fraction_bits(self) -> int:
        """f, the number of fractional bits."""
        room = Fraction(2 ** (self.bits - 1) - 1, self.members) / Fraction(float(self.bound))  # 2^f at most
        f = min(int(room).bit_length() - 1, 1000)  # 2^f must be a float
        while f >= 0 and self.members * round(Fraction(float(self.bound)) * 2**f) > 2 ** (self.bits - 1) - 1:
            f -= 1
        return f

    @property
    def mask(self) -> np.uint64:
        """p - 1: the bits that count in arithmetic of 64 bits."""
        return np.uint64(2**self.bits - 1)

    def error(self, members: int) -> float:
        """The largest rounding error of a sum of so many entries, beside 2^-53 |sum|."""
        return math.ldexp(members, -self.fraction_bits - 1)

    def bounded(self, rows: np.ndarray) -> np.ndarray:
        """The rows with every entry cut to the bound. For rows released with noise: changing those costs nothing."""
        return np.clip(rows, -self.bound, self.bound)

    def encode(self, row: np.ndarray) -> np.ndarray:
        """(d,) the integers. Errors do not show the values, which must stay hidden."""
        row = np.asarray(row, dtype=float)
        if not np.abs(row).max(initial=0.0) <= self.bound:  # refuses not-a-number, too
            if not np.all(np.isfinite(row)):
                raise InputError("a row for a secret-shared sum has entries that are not finite numbers")
            raise InputError(
                f"a row for a secret-shared sum has values too large for the modulus: give a bound above {self.bound:g}"
            )
        scaled = row * 2.0**self.fraction_bits
        words = np.rint(scaled, out=scaled).astype(np.int64).view(np.uint64)
        words &= self.mask
        return words

    def decode(self, words: np.ndarray) -> np.ndarray:
        """(d,) the numbers of a sum."""
        unused = 64 - self.bits
        lifted = (words << np.uint64(unused)).view(np.int64) >> unused if unused else words.view(np.int64)
        return lifted * 2.0**-self.fraction_bits
