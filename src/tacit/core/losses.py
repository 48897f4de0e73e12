"""Losses of a linear prediction z = f.x against a target y, and the bounds that privacy proofs need of them.

For labels y in {-1, +1} each is the L(y f.x) of the papers. Each formula is written once, as a scalar kernel,
for the compiled solvers and for numpy callers.

>>> import numpy as np
>>> loss = Logistic()
>>> float(loss.value(np.array([0.0]), np.array([1.0]))[0]) == float(np.log(2))
True
>>> loss.max_slope, loss.max_curvature
(1.0, 0.25)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from tacit.core.jit import call_at, entry, kernel
from tacit.errors import InputError

__all__ = ["HuberHinge", "Logistic", "Loss", "PseudoHuber", "Squared"]

# Which loss a compiled kernel is to use: an integer, because numba caches no kernel that takes a function. Any larger
# one is the address of the compiled function of a `CustomLoss`: the same kernels serve it, and none is compiled again.
_LOGISTIC, _SQUARED, _HUBER_HINGE, _PSEUDO_HUBER = 0, 1, 2, 3
VALUE, SLOPE, CURVATURE = 0, 1, 2
Shape = tuple[float, float, float, float]  # width, offset, weight of labels below zero, weight of those above


@kernel
def value(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """L(z, y)."""
    if kind > _PSEUDO_HUBER:
        return call_at(kind, VALUE, z, y)
    width, offset, below, above = shape
    weight = above if y > 0.0 else below
    z += offset
    m = y * z
    if kind == _LOGISTIC:  # log(1 + exp(-m)) without overflow
        return weight * (max(-m, 0.0) + math.log1p(math.exp(-abs(m))))
    if kind == _SQUARED:
        return 0.5 * (z - y) ** 2
    if kind == _PSEUDO_HUBER:  # width^2 (sqrt(1 + r^2) - 1) without cancellation or overflow
        r = (z - y) / width
        return width * (z - y) * (r / (1.0 + math.hypot(1.0, r)) if abs(r) < 1e300 else math.copysign(1.0, r))
    if m >= 1.0 + width:
        return 0.0
    if m <= 1.0 - width:
        return weight * (1.0 - m)
    return weight * (1.0 + width - m) ** 2 / (4.0 * width)


@kernel
def slope(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """dL/dz."""
    if kind > _PSEUDO_HUBER:
        return call_at(kind, SLOPE, z, y)
    width, offset, below, above = shape
    weight = above if y > 0.0 else below
    z += offset
    if kind == _LOGISTIC:
        return -weight * y / (1.0 + math.exp(y * z))
    if kind == _SQUARED:
        return z - y
    if kind == _PSEUDO_HUBER:  # r/hypot(1, r) times the width, without overflow
        r = (z - y) / width
        return width * (r / math.hypot(1.0, r) if abs(r) < 1e300 else math.copysign(1.0, r))
    m = y * z
    if m >= 1.0 + width:
        return 0.0
    if m <= 1.0 - width:
        return -weight * y
    return -weight * y * (1.0 + width - m) / (2.0 * width)


@kernel
def curvature(kind, shape, z, y):  # type: ignore[no-untyped-def]
    """d2L/dz2 (for the Huber hinge, of its middle piece on the closed interval)."""
    if kind > _PSEUDO_HUBER:
        return call_at(kind, CURVATURE, z, y)
    width, offset, below, above = shape
    weight = above if y > 0.0 else below
    z += offset
    if kind == _LOGISTIC:
        e = math.exp(-abs(y * z))
        return weight * e / (1.0 + e) ** 2
    if kind == _SQUARED:
        return 1.0
    if kind == _PSEUDO_HUBER:
        return math.hypot(1.0, (z - y) / width) ** -3.0
    return weight / (2.0 * width) if abs(1.0 - y * z) <= width else 0.0


@entry
def _each(which, kind, shape, z, y, out):  # type: ignore[no-untyped-def]
    for r in range(len(z)):
        if which == VALUE:
            out[r] = value(kind, shape, z[r], y[r])
        elif which == SLOPE:
            out[r] = slope(kind, shape, z[r], y[r])
        else:
            out[r] = curvature(kind, shape, z[r], y[r])


class Loss(ABC):
    """What every loss has: the kernels above for numpy arrays, and the bounds that privacy proofs need."""

    width: float = 0.0
    offset: Any = 0.0
    weights: Any = (1.0, 1.0)
    farthest_offset: float = 0.0  # how far from zero the prediction of a model of zeros lies

    @property
    def kind(self) -> int:
        """Which formula the kernels compute."""
        raise NotImplementedError

    @property
    def numbers(self) -> bool:
        """Whether targets are any numbers, not the labels -1 and +1."""
        return False

    @property
    @abstractmethod
    def max_slope(self) -> float:
        """The bound on |L'|."""

    @property
    @abstractmethod
    def max_curvature(self) -> float:
        """The bound on L''."""

    @property
    def roundings(self) -> int:
        """In the evaluation of a slope, at most."""
        return 8

    @property
    def shape(self) -> Shape:
        """The parameters as the kernels take them."""
        below, above = self.weights
        return float(self.width), float(self.offset), below, above

    def __repr__(self) -> str:
        # Only what was chosen: a loss without offset and weights is that of the papers, and is called the same.
        shown = ((f.name, getattr(self, f.name), f.default) for f in fields(self))  # type: ignore[arg-type]
        chosen = ", ".join(f"{name}={v!r}" for name, v, default in shown if name == "width" or v != default)
        return f"{type(self).__name__}({chosen})"

    def _apply(self, which: int, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        z, y = (np.array(v, dtype=float) for v in np.broadcast_arrays(z, y))  # copies: numpy 1 warns of the views
        out = np.empty(z.shape)
        _each(which, self.kind, self.shape, z.ravel(), y.ravel(), out.reshape(-1))
        return out

    @property
    def more_sums(self) -> int:
        """How many roundings a margin gets besides those of x.f."""
        return 1 if self.farthest_offset else 0

    def worst_record(self, noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """max over z of noise |L'(z)| + ln(1 + curvature L''(z)): what one record can reveal by noise and Jacobian.

        In general the two are bounded separately; a loss that is never steep and curved at once can do better.
        """
        return noise * self.max_slope + self.most_bent(curvature)

    def most_bent(self, curvature: np.ndarray) -> np.ndarray:
        """max over z of ln det(I + curvature L''(z)): what one record can reveal by the Jacobian alone."""
        return np.log1p(curvature * self.max_curvature)

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """L(z, y), element by element."""
        return self._apply(VALUE, z, y)

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """dL/dz, element by element."""
        return self._apply(SLOPE, z, y)

    def curvature(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d2L/dz2, element by element."""
        return self._apply(CURVATURE, z, y)

    def probability(self, z: np.ndarray) -> np.ndarray | None:
        """P(y = +1) that a prediction z stands for: that of which z is the best prediction. None if there is none."""
        return None


class _ForClasses(Loss):
    """A loss of labels -1 and +1, weighted by class, around a public `offset`: L = weight_y l(y (z + offset)).

    A model of zeros predicts the offset. With the offset of `centred` that is the share of positives, so that what is
    learnt, and what noise hides, is how records differ from each other. It changes no bound, so it costs nothing.
    A weight multiplies slope and curvature, and with them the noise. Offset and weights must be public: those that are
    computed from records reveal something of them.
    """

    offset: float
    weights: tuple[float, float]

    @property
    def farthest_offset(self) -> float:  # type: ignore[override]
        """How far from zero the prediction of a model of zeros lies."""
        return abs(self.offset)

    @property
    def max_slope(self) -> float:
        """The bound on |L'|."""
        return max(self.weights)

    def _check(self) -> None:
        if not math.isfinite(self.offset):
            raise InputError(f"the offset of a loss is a number, not {self.offset}")
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        if len(self.weights) != 2 or not all(w > 0 and math.isfinite(w) for w in self.weights):
            raise InputError(f"weights are two positive numbers, of labels -1 and +1, not {self.weights}")

    def centred(self: Chosen, share: float) -> Chosen:
        """The same loss with the offset at which a model of zeros predicts this share of positives.

        >>> loss = Logistic().centred(0.06)
        >>> loss.probability(np.zeros(1)).round(12).tolist()
        [0.06]
        """
        if not 0 < share < 1:
            raise InputError(f"a share of positives lies between 0 and 1, not at {share}")
        below, above = self.weights
        weighted = above * share / (above * share + below * (1 - share))
        return replace(self, offset=self._prediction(weighted))  # type: ignore[type-var]

    def probability(self, z: np.ndarray) -> np.ndarray | None:
        q = self._share(np.asarray(z, float) + self.offset)
        below, above = self.weights
        return None if q is None else q * below / (q * below + (1 - q) * above)

    @abstractmethod
    def _share(self, z: np.ndarray) -> np.ndarray | None:
        """q of which z minimises q l(z) + (1 - q) l(-z)."""

    @abstractmethod
    def _prediction(self, q: float) -> float:
        """z of which that is the share."""


Chosen = TypeVar("Chosen", bound=_ForClasses)


@dataclass(frozen=True, repr=False)
class Logistic(_ForClasses):
    """L = log(1 + exp(-y z)): |L'| <= 1, 0 < L'' <= 1/4 (each times the larger weight)."""

    offset: float = 0.0
    weights: tuple[float, float] = (1.0, 1.0)  # of labels -1 and +1
    kind: ClassVar[int] = _LOGISTIC

    def __post_init__(self) -> None:
        self._check()

    @property
    def max_curvature(self) -> float:
        """The bound on L''."""
        return 0.25 * max(self.weights)

    def _share(self, z: np.ndarray) -> np.ndarray:
        return np.exp(-np.logaddexp(0.0, -z))

    def _prediction(self, q: float) -> float:
        return math.log(q) - math.log1p(-q)

    def worst_record(self, noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """max over q of noise q + ln(1 + curvature q (1 - q)): where |L'| = q, L'' = q (1 - q).

        It is concave in q. The derivative vanishes at the root of a q^2 - (a - 2) q - (1 + a/b) = 0, a and b being
        the two arguments; where a >= b that lies beyond 1, and the curvature costs nothing.

        >>> Logistic().worst_record(np.array([3.0]), np.array([2.0])).tolist()
        [3.0]
        """
        heavier = max(self.weights)  # multiplies slope and curvature
        a, b = np.broadcast_arrays(heavier * np.asarray(noise, float), heavier * np.asarray(curvature, float))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where a >= b, q is 1
            half, rest = a / 2 - 1, 1 + a / b
            root = np.hypot(half, np.sqrt(a) * np.sqrt(rest))
            q = np.where(half > 0, (half + root) / a, rest / (root - half))  # without cancellation or overflow
        q = np.where(a >= b, 1.0, np.clip(q, 0.0, 1.0))
        return a * q + np.log1p(b * q * (1 - q))


@dataclass(frozen=True)
class Squared(Loss):
    """L = (z - y)^2 / 2, which for y = +-1 is (1 - y z)^2 / 2: |L'| unbounded, L'' = 1. Any real target."""

    kind: ClassVar[int] = _SQUARED
    numbers: ClassVar[bool] = True
    max_slope: ClassVar[float] = math.inf
    max_curvature: ClassVar[float] = 1.0


@dataclass(frozen=True, repr=False)
class PseudoHuber(Loss):
    """L = width^2 (sqrt(1 + r^2) - 1), r = (z - y)/width: |L'| <= width, 0 < L'' <= 1. Any real target.

    The squared loss for errors far below the width, the absolute error for those far above: regression with a slope
    that privacy can bound.

    >>> PseudoHuber(width=0.5).slope(np.array([0.0, 1e9]), np.array([0.0, 0.0])).round(6).tolist()
    [0.0, 0.5]
    """

    width: float = 0.5
    kind: ClassVar[int] = _PSEUDO_HUBER
    numbers: ClassVar[bool] = True
    max_curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check_width(self)

    @property
    def max_slope(self) -> float:
        """The bound on |L'|."""
        return self.width


@dataclass(frozen=True, repr=False)
class HuberHinge(_ForClasses):
    """The hinge 1 - y z with its corner rounded over |1 - y z| <= width: |L'| <= 1, L'' <= 1/(2 width) (each times the
    larger weight).

    Chaudhuri, Monteleoni, Sarwate, JMLR 12 (2011). It is neither strictly convex nor twice differentiable at the
    corners, so theorems that assume either do not cover it.

    From a width of 1 on the best prediction rises strictly with the probability of +1, so that predictions stand for
    probabilities. With q the larger of the two shares: q = 1/2 + |z|/(2 (1 + width)) where both z and -z lie on the
    parabola, q = 2 width/(3 width + 1 - |z|) where one lies on the straight piece.

    >>> HuberHinge(width=0.25).max_curvature
    2.0
    >>> HuberHinge(width=1.0).probability(np.array([-2.0, 0.0, 1.0])).round(4).tolist()
    [0.0, 0.5, 0.6667]
    """

    width: float = 0.5
    offset: float = 0.0
    weights: tuple[float, float] = (1.0, 1.0)  # of labels -1 and +1
    kind: ClassVar[int] = _HUBER_HINGE

    def __post_init__(self) -> None:
        _check_width(self)
        self._check()

    @property
    def max_curvature(self) -> float:
        """The bound on L''."""
        return max(self.weights) / (2.0 * self.width)

    def _share(self, z: np.ndarray) -> np.ndarray | None:
        w = self.width
        if w < 1:
            return None  # the best prediction jumps at 1/2: those between stand for nothing
        size = np.minimum(np.abs(z), 1 + w)
        larger = np.where(size <= w - 1, 0.5 + size / (2 * (1 + w)), 2 * w / (3 * w + 1 - size))
        return np.where(z >= 0, larger, 1 - larger)

    def _prediction(self, q: float) -> float:
        w = self.width
        if w < 1:
            raise InputError(f"a Huber hinge of width {w:g} has no probabilities: it needs a width of 1 or more")
        larger = max(q, 1 - q)
        size = (2 * larger - 1) * (1 + w) if larger <= w / (1 + w) else 3 * w + 1 - 2 * w / larger
        return math.copysign(size, q - 0.5)


def _check_width(loss: PseudoHuber | HuberHinge) -> None:
    if not (loss.width > 0 and math.isfinite(loss.width)):
        raise InputError(f"{type(loss).__name__} needs a positive width, not {loss.width}")
