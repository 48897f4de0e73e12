"""Real numbers as integers modulo 2^bits, such that sums come back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tacit.errors import InputError, number


@dataclass(frozen=True)
class FixedPoint:
    """x is the integer nearest to x 2^f, modulo p = 2^bits; of a sum, the centred lift to [-p/2, p/2) is taken.

    f is the largest number of fractional bits for which a sum of `members` entries of size `bound` fits, that is
    p > 2 max|sum| 2^f, so the modulus is large enough by construction. (Paper 003 takes real numbers modulo p, which is
    undefined, with p > max|sum|, which loses signs.) Every entry is off by at most 2^-(f+1), a sum of n of them by
    n 2^-(f+1), and by the 2^-53 |sum| of a float when it comes back.

    One word is enough: where even f = 0 does not fit 64 bits, the sum has lost all that a float knows of its addends.

    >>> point = FixedPoint(bound=65536.0, members=10)
    >>> point.fraction_bits, point.decode(point.encode(np.array([-1.5])) + point.encode(np.array([0.25]))).tolist()
    (43, [-1.25])
    """

    bound: float  # no entry is larger in absolute value; public
    members: int  # no sum has more addends
    bits: int = 64

    def __post_init__(self) -> None:
        number("bound", self.bound)
        if self.fraction_bits < 0:
            raise InputError(
                f"entries up to {self.bound:g} of {self.members} members are too large for the modulus 2^{self.bits}: "
                "state a smaller bound"
            )

    @cached_property
    def fraction_bits(self) -> int:
        """f."""
        room = Fraction(2 ** (self.bits - 1) - 1, self.members) / Fraction(float(self.bound))  # 2^f at most
        f = min(int(room).bit_length() - 1, 1000)  # 2^f is to be a float
        while f >= 0 and self.members * round(Fraction(float(self.bound)) * 2**f) > 2 ** (self.bits - 1) - 1:
            f -= 1
        return f

    @property
    def mask(self) -> np.uint64:
        """p - 1: what arithmetic of 64 bits, which wraps around, has to be cut to."""
        return np.uint64(2**self.bits - 1)

    def error(self, members: int) -> float:
        """How far a sum of so many entries can be from the sum of the numbers, 2^-53 |sum| apart."""
        return math.ldexp(members, -self.fraction_bits - 1)

    def bounded(self, rows: np.ndarray) -> np.ndarray:
        """The rows with no entry above the bound: for what was released with noise, where moving it costs nothing."""
        return np.clip(rows, -self.bound, self.bound)

    def encode(self, row: np.ndarray) -> np.ndarray:
        """(d,) the integers. Values are not shown in errors: they are what is to be hidden."""
        row = np.asarray(row, dtype=float)
        if not np.abs(row).max(initial=0.0) <= self.bound:  # nor is not-a-number
            if not np.all(np.isfinite(row)):
                raise InputError("a row to be summed in secret has entries that are not finite numbers")
            raise InputError(
                f"a row to be summed in secret has values too large for the modulus: state a bound above {self.bound:g}"
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
