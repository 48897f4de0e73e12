"""Blocks of noisy values, exactly: what `exact_noise` computes with balls, for whole arrays in pairs of doubles.

It is the same function of the same uniform bits. Every number carries a bound on its error, for the rounding of doubles
(`head_tail`) and for the bits that are not known. Where that bound leaves a rounding open, the row is reported as open,
and `exact_noise` decides it: from the same bits and, if it must, from more. So a result does not depend on which of the
two found it. With a grid of 2^-36 and a scale of 1, one number in 2^32 is too close to the middle between two points of
the grid, and one uniform number in 2^20 is too close to 0 or 1, for the bounds here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit.privacy.exact_noise import END
from tacit.privacy.head_tail import (
    Pair,
    Words,
    cut,
    minus_log,
    nearest,
    over,
    pair,
    product,
    root,
    times,
    turned,
    two_sum,
)

BITS = 96  # of a uniform number
_SMALL = 2.0**-20  # nothing is known of square roots and quotients of smaller numbers
_FAR = 2.0**100  # nor of larger numbers of steps
_MOST = 2**20  # terms of a sum


class Steps(NamedTuple):
    """Noise in steps of the grid, (n, d): head + tail, within `error`. The head is any double, the tail small."""

    head: np.ndarray
    tail: np.ndarray
    error: np.ndarray


def rounded(
    law: str, raw: bytes, value: np.ndarray, base: np.ndarray, scale: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) round((base + value + Z) / step) * step, no further than the grid's end; and (n,) which rows are certain.

    `raw` has BITS bits for each uniform number; `scale` and `step` are (n, 1). A step is a power of two (a row with
    another one is not certain), so v = (value + base)/step is a sum of two doubles, exactly. v's and x's heads are
    added exactly; v + x is then a whole number and a small rest, w. Its rounding errors are at most u times the
    absolute values of w, of w + 1/2 and of the terms that w is made of: less than 2^-50 (1 + |w|) and what x's bound
    has to spare. If w + 1/2 is further away than both from every whole number, its floor is certain. Numbers far beyond
    the grid's end need no such care.
    """
    n, d = value.shape
    words = Words(*np.frombuffer(raw, dtype=">u4").reshape(n, -1, 3).transpose(2, 0, 1).astype(np.int64, order="C"))
    with np.errstate(all="ignore"):  # in numbers that are reported as open
        unit = scale / step
        x = _LAWS[law](words, d, Pair(cut(unit), unit - cut(unit)))
        high, low = two_sum(value / step, base / step)
        near, rest = two_sum(high, x.head)
        whole = np.rint(near)
        w = (near - whole) + ((low + rest) + x.tail)
        error = x.error + 2.0**-50 * (1 + np.abs(w))
        above = w + 0.5
        floor = np.floor(above)
        part = above - floor
        decided = (part > error) & (part < 1 - error)
        beyond = (np.abs(near) >= 2.0 * END) & (np.abs(w) + error <= END / 2)
        usual = (np.abs(high) <= _FAR) & (unit <= _FAR) & (unit >= 1 / _FAR)
        usual &= (np.frexp(step)[0] == 0.5) & (step >= 1 / _FAR)  # denormal numbers are nothing beside such a step
        points = np.clip(whole + floor, -END, END) * step + 0.0  # no -0.0
    return points, np.all(usual & (decided | beyond), axis=1)


class _Polar(NamedTuple):
    """Pairs of normals R cos A and R sin A, (n, m) each, within `error`."""

    squares: tuple[np.ndarray, np.ndarray, np.ndarray]  # R^2/2: head, tail, error
    radius: Pair
    cosine: Pair
    sine: Pair
    error: np.ndarray


def _polar(words: Words) -> _Polar:
    """Box and Muller: R^2/2 = -log U and A = 2 pi V.

    R^2/2 is off by e = LOG_ERROR, so R is by less than 1.01 e/R, and by 2^-75 R. The cosine is off by TURN_ERROR =
    2^-71. With 2^-74 R for a product with a factor, and 2^-74 R for that with the cosine (whose tail is below 2^-25), a
    normal is off by less than 2^-70 R + 2 e/R.
    """
    head, tail, error = squares = minus_log(_every_other(words, 0))
    radius = root(2 * head, 2 * tail)
    error = np.where(head >= _SMALL, 2.0**-70 * radius.head + 2 * error / radius.head, np.inf)
    return _Polar(squares, radius, *turned(_every_other(words, 1)), error)


def _gaussian(words: Words, d: int, unit: Pair) -> Steps:
    return _spread(_polar(words), unit, 0.0, d)


def _spherical(words: Words, d: int, unit: Pair) -> Steps:
    """Radius -log(U_1 ... U_d) times normals over their norm, whose square is the sum of all R^2, but for a last normal
    without a partner.

    The radius and the squared norm are sums within their errors, far below themselves. Their quotient is off by the sum
    of both relative errors, and by 2^-72 for root, quotient and product.
    """
    polar = _polar(Words(*(part[:, d:] for part in words)))
    radius, rest, radius_error = _total(*minus_log(Words(*(part[:, :d] for part in words))))
    pairs = d // 2
    head, tail, error = _total(*(part[:, :pairs] for part in polar.squares))
    head, tail, error = 2 * head, 2 * tail, 2 * error
    if d % 2:
        z = pair(*product(*(Pair(a.head[:, -1:], a.tail[:, -1:]) for a in (polar.radius, polar.cosine))))
        R, off = polar.radius.head[:, -1:], polar.error[:, -1:]
        head, lost = two_sum(head, z.head * z.head)
        tail = tail + (lost + (2 * z.head + z.tail) * z.tail)  # below 2^-22 R^2
        error = error + 2.5 * R * off  # of z^2, and roundings of 2^-73 R^2
    norm = root(head, tail)
    relative = 1.01 * (radius_error / radius + error / head) + 2.0**-72
    known = (radius >= _SMALL) & (head >= _SMALL) & (np.abs(rest) < 2.0**-24 * radius) & (np.abs(tail) < head / 4)
    return _spread(polar, times(over(radius, rest, norm), unit), np.where(known, relative, np.inf), d)


def _spread(polar: _Polar, unit: Pair, relative: np.ndarray | float, d: int) -> Steps:
    """The normals times a unit that is known up to its relative error."""
    scaled, m = times(polar.radius, unit), polar.error.shape[1]
    steps = Steps(*(np.empty((len(polar.error), m, 2)) for _ in range(3)))
    for k, turn in enumerate((polar.cosine, polar.sine)):
        steps.head[:, :, k], steps.tail[:, :, k] = product(scaled, turn)
    steps.error[:] = (1.01 * (unit.head * polar.error + scaled.head * relative))[:, :, None]
    return Steps(*(part.reshape(len(part), 2 * m)[:, :d] for part in steps))


def _laplace(words: Words, d: int, unit: Pair) -> Steps:
    """The difference of two exponentials. Heads are exact. Tails are below 2^-22: their difference is off by 2^-75, the
    pair by 2^-74, and all by the errors of both; the product with the unit by less than 2^-74 of it."""
    (p, q, e), (p_, q_, e_) = (minus_log(_every_other(words, k)) for k in (0, 1))
    head, tail = product(pair(p - p_, q - q_), unit)
    return Steps(head, tail, 1.01 * (unit.head * (e + e_ + 2.0**-73) + 2.0**-74 * np.abs(head)))


def _uniform(words: Words, d: int, unit: Pair) -> Steps:
    """The number itself: 53 bits, the 43 next and half of what is unknown. As a pair it is off by 2^-77, times the unit
    by 2^-74."""
    hi = words.first * 2.0**-32 + (words.second >> 11) * 2.0**-53
    head, tail = product(pair(hi, (words.second & 0x7FF) * 2.0**-64 + (words.third + 0.5) * 2.0**-96), unit)
    return Steps(head, tail, np.broadcast_to(unit.head * 2.0**-73, head.shape))


def _every_other(words: Words, first: int) -> Words:
    return Words(*(part[:, first::2] for part in words))


def _total(head: np.ndarray, tail: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, 1) sums over rows of k <= 2^20 numbers as `minus_log` gives them.

    Each is cut into a multiple of 2^-20 below 2^5, one of 2^-50 below 2^-20.5, and a rest below 2^-51. The sums of the
    first two are exact, in any order; that of the rest is off by k^2 u 2^-51, and so is, at most, what follows.
    """
    k = head.shape[1]
    first, second = nearest(head, -20), nearest(tail, -50)
    sums = (first, (head - first) + second, tail - second, error)
    a, b, c, e = (part.sum(axis=1, keepdims=True) for part in sums)
    total, rest = two_sum(a, b)
    return total, rest + c, e + (k * k * 2.0**-99 if k <= _MOST else np.inf)


_LAWS: dict[str, Callable[[Words, int, Pair], Steps]] = {
    "spherical": _spherical,
    "gaussian": _gaussian,
    "laplace": _laplace,
    "uniform": _uniform,
}
