"""One row of noisy values, exactly: the real-valued noise is enclosed in balls (Arb's interval arithmetic).

What is computed is a function of infinitely many uniform bits, of which each uniform number has the first `bits` here,
as the whole number `word`. The unknown ones make a ball around each number. Where the balls leave a rounding open, None
is the answer, and more bits are needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb

from tacit.privacy.precision import precision

END = 2**53  # the grid has so many steps to either side


def rounded(
    law: str, words: list[int], bits: int, value: np.ndarray, base: np.ndarray, scale: float, step: float
) -> np.ndarray | None:
    """(d,) round((base + value + Z) / step) * step, no further than the grid's end; None if the bits do not decide
    it."""
    with precision(bits + 32):
        half = arb((1, -bits - 1))
        uniforms = [arb(arb((2 * word + 1, -bits - 1)), half) for word in words]  # the words and all beyond
        unit, middle, grid = arb(scale) / arb(step), arb(0.5), arb(step)
        noise = _SHAPES[law](uniforms, len(value))
        whole = [
            ((arb(v) + arb(w)) / grid + z * unit + middle).floor().unique_fmpz()
            for v, w, z in zip(value.tolist(), base.tolist(), noise, strict=True)
        ]
    points = [min(max(int(n), -END), END) for n in whole if n is not None]
    return np.array(points, dtype=float) * step if len(points) == len(whole) else None


def _normals(uniforms: list[arb], d: int) -> list[arb]:
    """d independent standard normals from 2 * ceil(d/2) uniforms (Box and Muller)."""
    out = []
    for u, v in zip(uniforms[0::2], uniforms[1::2], strict=True):
        radius = (u.log() * -2).sqrt()
        sine, cosine = (v * 2).sin_cos_pi()
        out += [radius * cosine, radius * sine]
    return out[:d]


def _spherical(uniforms: list[arb], d: int) -> list[arb]:
    """Radius -log(U_1 ... U_d), which is Gamma(d), times a normal vector over its norm."""
    product = arb(1)
    for u in uniforms[:d]:
        product *= u
    normals = _normals(uniforms[d:], d)
    squares = arb(0)
    for z in normals:
        squares += z * z
    factor = -product.log() / squares.sqrt()
    return [z * factor for z in normals]


def _laplaces(uniforms: list[arb], d: int) -> list[arb]:
    """The difference of two independent exponentials."""
    return [v.log() - u.log() for u, v in zip(uniforms[0::2], uniforms[1::2], strict=True)]


_SHAPES: dict[str, Callable[[list[arb], int], list[arb]]] = {
    "spherical": _spherical,
    "gaussian": _normals,
    "laplace": _laplaces,
    "uniform": lambda uniforms, d: uniforms,
}
UNIFORMS: dict[str, Callable[[int], int]] = {  # how many uniform numbers a row of d takes
    "spherical": lambda d: d + 2 * ((d + 1) // 2),
    "gaussian": lambda d: 2 * ((d + 1) // 2),
    "laplace": lambda d: 2 * d,
    "uniform": lambda d: d,
}
