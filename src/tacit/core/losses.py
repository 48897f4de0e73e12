"""Losses of a linear prediction z = f.x against a target y, and the bounds that privacy proofs need of them.

For labels y in {-1, +1} each is the L(y f.x) of the papers. The formulas stand once, as scalar kernels, and
serve both the compiled solvers and numpy callers.

>>> import numpy as np
>>> loss = Logistic()
>>> float(loss.value(np.array([0.0]), np.array([1.0]))[0]) == float(np.log(2))
True
>>> loss.max_slope, loss.max_curvature
(1.0, 0.25)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.core.jit import entry, kernel
from tacit.errors import InputError

__all__ = ["HuberHinge", "Logistic", "Loss", "Squared"]

# Which loss a compiled kernel is to use: an integer, because numba caches no kernel that takes a function.
_LOGISTIC, _SQUARED, _HUBER_HINGE = 0, 1, 2


@kernel
def value(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """L(z, y)."""
    width, offset = shape
    z += offset
    m = y * z
    if kind == _LOGISTIC:  # log(1 + exp(-m)) without overflow
        return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))
    if kind == _SQUARED:
        return 0.5 * (z - y) ** 2
    if m >= 1.0 + width:
        return 0.0
    if m <= 1.0 - width:
        return 1.0 - m
    return (1.0 + width - m) ** 2 / (4.0 * width)


@kernel
def slope(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """dL/dz."""
    width, offset = shape
    z += offset
    if kind == _LOGISTIC:
        return -y / (1.0 + math.exp(y * z))
    if kind == _SQUARED:
        return z - y
    m = y * z
    if m >= 1.0 + width:
        return 0.0
    if m <= 1.0 - width:
        return -y
    return -y * (1.0 + width - m) / (2.0 * width)


@kernel
def curvature(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """d2L/dz2 (for the Huber hinge, of its middle piece on the closed interval)."""
    width, offset = shape
    z += offset
    if kind == _LOGISTIC:
        e = math.exp(-abs(y * z))
        return e / (1.0 + e) ** 2
    if kind == _SQUARED:
        return 1.0
    return 1.0 / (2.0 * width) if abs(1.0 - y * z) <= width else 0.0


@entry
def _each(which, kind, width, z, y, out):  # type: ignore[no-untyped-def]
    for r in range(len(z)):
        if which == 0:
            out[r] = value(kind, width, z[r], y[r])
        elif which == 1:
            out[r] = slope(kind, width, z[r], y[r])
        else:
            out[r] = curvature(kind, width, z[r], y[r])


class _Loss:
    """The numpy face of the kernels above, shared by the three losses."""

    kind: ClassVar[int]
    width: float = 0.0
    offset: float = 0.0

    @property
    def shape(self) -> tuple[float, float]:
        return float(self.width), float(self.offset)

    def _apply(self, which: int, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        z, y = np.broadcast_arrays(np.asarray(z, float), np.asarray(y, float))
        out = np.empty(z.shape)
        _each(which, self.kind, self.shape, z.ravel(), y.ravel(), out.reshape(-1))
        return out

    def worst_record(self, noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """max over z of noise |L'(z)| + ln(1 + curvature L''(z)): what one record can tell by noise and Jacobian.

        In general the two are bounded apart; a loss that is never steep and curved at once can do better.
        """
        return noise * self.max_slope + np.log1p(curvature * self.max_curvature)  # type: ignore[attr-defined]

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """L(z, y), element by element."""
        return self._apply(0, z, y)

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """dL/dz, element by element."""
        return self._apply(1, z, y)

    def curvature(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d2L/dz2, element by element."""
        return self._apply(2, z, y)


@dataclass(frozen=True)
class Logistic(_Loss):
    """L = log(1 + exp(-y z)): |L'| <= 1, 0 < L'' <= 1/4."""

    offset: float = 0.0
    kind: ClassVar[int] = _LOGISTIC
    max_slope: ClassVar[float] = 1.0
    max_curvature: ClassVar[float] = 0.25

    def worst_record(self, noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """max over q of noise q + ln(1 + curvature q (1 - q)): where |L'| = q, L'' = q (1 - q).

        It is concave in q. The derivative vanishes at the root of a q^2 - (a - 2) q - (1 + a/b) = 0, a and b being
        the two arguments; where a >= b that lies beyond 1, and the curvature costs nothing.

        >>> Logistic().worst_record(np.array([3.0]), np.array([2.0])).tolist()
        [3.0]
        """
        a, b = np.broadcast_arrays(np.asarray(noise, float), np.asarray(curvature, float))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where a >= b, q is 1
            half, rest = a / 2 - 1, 1 + a / b
            root = np.hypot(half, np.sqrt(a) * np.sqrt(rest))
            q = np.where(half > 0, (half + root) / a, rest / (root - half))  # without cancellation or overflow
        q = np.where(a >= b, 1.0, np.clip(q, 0.0, 1.0))
        return a * q + np.log1p(b * q * (1 - q))


@dataclass(frozen=True)
class Squared(_Loss):
    """L = (z - y)^2 / 2, which for y = +-1 is (1 - y z)^2 / 2: |L'| unbounded, L'' = 1. Any real target."""

    kind: ClassVar[int] = _SQUARED
    max_slope: ClassVar[float] = math.inf
    max_curvature: ClassVar[float] = 1.0


@dataclass(frozen=True)
class HuberHinge(_Loss):
    """The hinge 1 - y z with its corner rounded over |1 - y z| <= width: |L'| <= 1, L'' <= 1/(2 width).

    Chaudhuri, Monteleoni, Sarwate, JMLR 12 (2011). It is neither strictly convex nor twice differentiable at the
    corners, so theorems that assume either do not cover it.

    >>> HuberHinge(width=0.25).max_curvature
    2.0
    """

    width: float = 0.5
    offset: float = 0.0
    kind: ClassVar[int] = _HUBER_HINGE
    max_slope: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not (self.width > 0 and math.isfinite(self.width)):
            raise InputError(f"HuberHinge needs a positive width, not {self.width}")

    @property
    def max_curvature(self) -> float:
        """The bound on L''."""
        return 1.0 / (2.0 * self.width)


Loss = Logistic | Squared | HuberHinge
