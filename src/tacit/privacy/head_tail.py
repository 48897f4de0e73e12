"""Numbers of 76 bits and more in two doubles, for whole arrays, with proven bounds on every error.

A number is `head + tail`. The head has at most 26 significant bits, so that a product of two heads is exact in a double
(Dekker 1971). The tail is an ordinary double, below 2^-20 of the number or so: its rounding errors, 2^-53 of it, are
2^-73 of the number. So most of the work is ordinary arithmetic on tails.

The proofs need nothing but additions, products, quotients and square roots that are rounded to the nearest double,
which IEEE 754 demands and `rounds_to_nearest` checks. No function of a C library is used: logarithms, sines and cosines
come from tables that Arb computes, and short polynomials. numpy runs one operation after the other, so nothing is fused
or reordered. A processor that flushes denormal numbers to zero, which another library may have asked for, changes no
number here by more than 2^-1022.

In the proofs, u = 2^-53: a double operation is off by at most u times its result. Numbers below 2^k that are multiples
of 2^(k - 53) are doubles: sums and products are exact if they are such. "Sterbenz": the difference of two doubles
within a factor of 2 of each other is exact.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from flint import arb

from tacit.privacy.precision import precision

_TABLE = 4096  # entries; 12 bits
_ONE = np.ones(2)
_SURE = 2.0**-100  # an entry of a table is known better than this, which is nothing beside the errors of a pair


class Pair(NamedTuple):
    """The number head + tail, or an array of them."""

    head: np.ndarray
    tail: np.ndarray


class Words(NamedTuple):
    """Uniform numbers, of which 96 bits are known: those of three words of 32 bits, highest first.

    The number lies anywhere between first 2^-32 + second 2^-64 + third 2^-96 and 2^-96 above that.
    """

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


def rounds_to_nearest() -> bool:
    """Whether additions are rounded to the nearest double now: a processor can be told otherwise."""
    down, up = _ONE + np.array([1.0, 1.5]) * 2.0**-53
    return bool(down == 1.0 and up > 1.0)


def cut(x: np.ndarray) -> np.ndarray:
    """x without what lies below its first 26 bits: a head; the rest is below 2^-25 |x|, and exact."""
    return (x.view(np.int64) & -(1 << 27)).view(np.float64)


def nearest(x: np.ndarray, k: int) -> np.ndarray:
    """The multiple of 2^k that is nearest to x, for x below 2^(k + 51): such is the last place of what is added."""
    return (x + 1.5 * 2.0 ** (52 + k)) - 1.5 * 2.0 ** (52 + k)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and the error of that: exact together (Knuth)."""
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


def product(a: Pair, b: Pair) -> tuple[np.ndarray, np.ndarray]:
    """a b as a double and a small rest, off by at most 2^-74.5 |a b| for tails below 2^-24 of the numbers.

    The product of heads is exact. The two terms of the rest are below 2^-23.9 |a b| together: their four operations and
    that of b.head + b.tail are off by 5 u 2^-24 at most.
    """
    return a.head * b.head, a.head * b.tail + a.tail * (b.head + b.tail)


def pair(p: np.ndarray, q: np.ndarray) -> Pair:
    """p + q as a pair, off by at most 2^-77 |p + q| if |q| < |p|/4: p - head is exact (Sterbenz), and the tail, below
    2^-24.9 |p + q|, is rounded once. For a larger q it is off by at most 2 u |q|: p - head is no larger than 1.01 |q|.
    """
    head = cut(p + q)
    return Pair(head, (p - head) + q)


def times(a: Pair, b: Pair) -> Pair:
    """a b, off by at most 2^-74 |a b| for tails below 2^-24 of the numbers."""
    return pair(*product(a, b))


def root(head: np.ndarray, tail: np.ndarray) -> Pair:
    """r = sqrt(x) for x = head + tail with head any double and |tail| < head/4; off by at most 2^-75 r.

    s = sqrt(x)(1 + e) with |e| < 1.6 u. Its first bits are h, and r - h = (x - h^2)/(r + h), which is below 2^-25 r.
    h^2 and head - h^2 are exact (52 bits; Sterbenz). The remaining operations: x - h^2, u 2^-24 x, makes u 2^-25 r; s
    in place of r, s + h and the quotient, (0.8 + 1 + 1) u 2^-25 r. Together below 4 u 2^-25 r = 2^-76 r.
    """
    s = np.sqrt(head + tail)
    h = cut(s)
    return Pair(h, ((head - h * h) + tail) / (s + h))


def over(head: np.ndarray, tail: np.ndarray, b: Pair) -> Pair:
    """c = a/b for a = head + tail with head any double and |tail| < 2^-24 |head|; off by at most 2^-74 c.

    h has the first bits of the rounded quotient; c - h = (a - h b)/b, below 2^-24.9 c. h b.head is exact, and so is
    head - h b.head (Sterbenz). h b.tail is below 2^-24 a, its difference to that below 2^-23 a, and the last sum below
    2^-24.9 a: u (2^-24 + 2^-23 + 2^-24.9) a. The quotient and its two operands make 3 u 2^-24.9 c: together below
    7 u 2^-24 c.
    """
    whole = b.head + b.tail
    h = cut((head + tail) / whole)
    return Pair(h, (((head - h * b.head) - h * b.tail) + tail) / whole)


LOG_ERROR = 2.0**-73  # of `minus_log`
_LEAST = 2**12  # of the first word: nothing is known of the logarithm of numbers below 2^-20


def minus_log(words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-log U as head, tail and a bound on the error, whatever the unknown bits are: LOG_ERROR, or infinity for U below
    2^-20. The head is a multiple of 2^-38, below 16 in size, and the tail is below 2^-23.

    U = 2^e (m + l), with m in [1, 2) of 53 bits and l < 2^-32. A table has c, a multiple of 2^-14 near 1/m, and log c:

        -log U = -e log 2 + log c - log(1 + r),     r = (m + l) c - 1,     |r| < 1.3 2^-13

    m = n + (m - n), where n has 24 bits after the point. a = n c - 1 is a multiple of 2^-38, and exact, as is the
    product of m - n and c. The errors:

        q, the rest of r: a sum below 2^-23.9, and l c below 2^-32                        u 2^-23.9 + u 2^-32
        log(1 + r) - r, below 2^-26: r off by u, its square by 2 u + u, two more          5 u 2^-26
          the series ends with a remainder of |r|^7/6 < 2^-90
        the head is a sum of multiples of 2^-38: of log 2, log c and a                    exact
        the tail: those of log 2 and log c, below 2^-34; two sums below 2^-23.5           u 2^-22.5 + 3 u 2^-34
        the unknown bits, 2^-97 on either side of what l has in their place, over U       2^-76.9

    Together they are below 2^-74 + 2^-76.9.
    """
    table = _logarithms()
    hi = np.maximum(words.first, _LEAST) * 2.0**-32 + (words.second >> 11) * 2.0**-53
    lo = (words.second & 0x7FF) * 2.0**-64 + (words.third + 0.5) * 2.0**-96  # 44 bits: exact
    bits = hi.view(np.int64)
    exponent = (bits >> 52) - 1023
    m = ((bits & ((1 << 52) - 1)) | (1023 << 52)).view(np.float64)
    n = (m.view(np.int64) & -(1 << 28)).view(np.float64)
    entry = (bits >> 40) & (_TABLE - 1)
    c, e = table.inverse.take(entry), exponent.astype(np.float64)
    a = n * c - 1.0
    q = (m - n) * c + lo * ((1023 - exponent) << 52).view(np.float64) * c
    r = a + q
    curved = r * r * (r * (1 / 3 + r * (r * (1 / 5 + r * (-1 / 6)) - 1 / 4)) - 0.5)
    head = (table.head.take(entry) - e * table.log2.head) - a
    tail = (table.tail.take(entry) - e * table.log2.tail) - (q + curved)
    return head, tail, np.where(words.first >= _LEAST, LOG_ERROR, np.inf)


TURN_ERROR = 2.0**-71  # of `turned`


def turned(words: Words) -> tuple[Pair, Pair]:
    """cos(2 pi V) and sin(2 pi V), each off by at most TURN_ERROR. Heads are multiples of 2^-26, at most 1 in size;
    tails are below 2^-25.

    The first 12 bits of V choose an angle A from a table of C = cos A and S = sin A. V is in the middle of its piece
    but for t, |t| <= 2^-13, and the angle is A + 2 pi t = A + x, |x| <= 2^-10.3. With y = sin x and g = cos x - 1,

        cos(A + x) = C + C g - S y,     sin(A + x) = S + S g + C y.

    t = t1 + t2, where t1 has 26 bits. The head of y is x cut at a multiple of 2^-36. The heads of C and S are multiples
    of 2^-26, so that their products with it are multiples of 2^-62 and exact, and so is the difference of C's head, the
    new head, which is within 2^-9 of it, and such a product. The errors:

        t2, below 2^-38, and the unknown bits                                             u 2^-38 + 2^-97
        x = 2 pi t: the product of heads is exact; the rest is below 2^-34.8              5 u 2^-34.8
        y's tail, x's rest - x^3/6 + x^5/120, is below 2^-32.9                            10 u 2^-32.9
          the series ends with a remainder of |x|^7/5040 < 2^-84
        g, below 2^-21.6: x off by u, its square by 2 u + u, bracket and product by u     5 u 2^-21.6
        C g takes two operations, and its sum with C's tail and smaller terms one         3 u 2^-21.6
        smaller terms, below 2^-26, and the last sum, below 2^-25                         4 u 2^-25

    Together they are below 2^-71.3.
    """
    table = _circle()
    entry = words.first >> 20
    t1 = ((((words.first & 0xFFFFF) << 6) | (words.second >> 26)) - 2**25) * 2.0**-38
    t2 = (words.second & 0x3FFFFFF) * 2.0**-64 + (words.third + 0.5) * 2.0**-96
    p = table.turn.head * t1
    y1 = nearest(p, -36)
    x2 = (p - y1) + (table.turn.tail * t1 + (table.turn.head + table.turn.tail) * t2)
    x = y1 + x2
    xx = x * x
    y2 = x2 - x * xx * (1 / 6 - xx * (1 / 120))
    g = xx * (xx * (1 / 24 - xx * (1 / 720)) - 0.5)
    y = y1 + y2
    c = Pair(table.cosine.head.take(entry), table.cosine.tail.take(entry))
    s = Pair(table.sine.head.take(entry), table.sine.tail.take(entry))
    return (
        _moved(c, g, -s.head * y1, -(s.head * y2 + s.tail * y)),
        _moved(s, g, c.head * y1, c.head * y2 + c.tail * y),
    )


def _moved(a: Pair, g: np.ndarray, exact: np.ndarray, small: np.ndarray) -> Pair:
    """a + a g + exact + small, with a head that is a multiple of 2^-26."""
    middle = (a.head + a.tail) * g
    rest = middle + (a.tail + small)
    head = nearest((a.head + exact) + middle, -26)
    return Pair(head, ((a.head - head) + exact) + rest)


class _Logarithms(NamedTuple):
    inverse: np.ndarray  # c, near 1/m for an m whose first bits after the point are the index
    head: np.ndarray  # of log c
    tail: np.ndarray
    log2: Pair


class _Circle(NamedTuple):
    cosine: Pair
    sine: Pair
    turn: Pair  # 2 pi; its head has 26 bits


@functools.cache
def _logarithms() -> _Logarithms:
    inverse = np.round(2.0**14 / (1 + (np.arange(_TABLE) + 0.5) / _TABLE)) / 2.0**14
    with precision(128):
        log = _pairs([arb(c).log() for c in inverse.tolist()], 38)
        log2 = _pairs([arb(2).log()], 38)
    return _Logarithms(inverse, log.head, log.tail, Pair(log2.head[0], log2.tail[0]))


@functools.cache
def _circle() -> _Circle:
    with precision(128):
        points = [(arb(2 * j + 1) / _TABLE).sin_cos_pi() for j in range(_TABLE)]
        turn = _pairs([2 * arb.pi()], 23)
        return _Circle(
            cosine=_pairs([cosine for _, cosine in points], 26),
            sine=_pairs([sine for sine, _ in points], 26),
            turn=Pair(turn.head[0], turn.tail[0]),
        )


def _pairs(exact: list[arb], bits: int) -> Pair:
    """Each number as the nearest multiple of 2^-bits, and the rest as a double."""
    whole = [(x * 2**bits + arb(0.5)).floor().unique_fmpz() for x in exact]
    heads = [float(n) * 2.0**-bits for n in whole if n is not None]
    tails = [x - arb(h) for x, h in zip(exact, heads, strict=False)]
    if len(heads) < len(exact) or max(float(tail.rad()) for tail in tails) > _SURE:
        raise RuntimeError("another library has changed the precision of flint in another thread: draw noise alone")
    return Pair(np.array(heads), np.array([float(tail) for tail in tails]))
