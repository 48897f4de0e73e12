"""The loss of labels with several classes, and the bounds that privacy proofs need of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.core.losses import Loss
from tacit.errors import InputError, whole

_MOST_CLASSES = 2**16


@dataclass(frozen=True, repr=False)
class Multinomial(Loss):
    """L(z, y) = ln sum_k exp(z_k) - z_y for a score z_k of each of the K `classes`, y in {0, ..., K-1}.

    With p the softmax of z, the gradient is p - e_y, of norm at most sqrt(2); the Hessian is diag(p) - p p^T, of norm
    at most 1/2. So a record x adds at most sqrt(2) ||x|| to the gradient of a model, however many classes there are.
    One against the rest, class by class, would add up to sqrt(K) ||x||. (Each times the largest weight.)

    `offset` and `weights` have a number for each class; see `centred`.

    >>> Multinomial(3).probability(np.zeros((1, 3))).round(4).tolist()
    [[0.3333, 0.3333, 0.3333]]
    """

    classes: int
    offset: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        whole("classes", self.classes, 2)
        if self.classes > _MOST_CLASSES:
            raise InputError(f"a label has at most {_MOST_CLASSES:,} classes, not {self.classes:,}")
        for name, usual in (("offset", 0.0), ("weights", 1.0)):
            given = tuple(float(v) for v in getattr(self, name)) or (usual,) * self.classes
            if len(given) != self.classes or not all(map(math.isfinite, given)) or (usual and min(given) <= 0):
                raise InputError(f"{name} has a number for each of {self.classes} classes, not {given}")
            object.__setattr__(self, name, given)

    def __repr__(self) -> str:
        chosen = [f"{self.classes}"]
        chosen += [f"offset={self.offset}"] if any(self.offset) else []
        chosen += [f"weights={self.weights}"] if set(self.weights) != {1.0} else []
        return f"Multinomial({', '.join(chosen)})"

    @property
    def farthest_offset(self) -> float:  # type: ignore[override]
        """How far from zero the prediction of a model of zeros lies."""
        return max(map(abs, self.offset))

    @property
    def max_slope(self) -> float:
        """The bound on the norm of the gradient."""
        return math.sqrt(2.0) * (1 + 2.0**-50) * max(self.weights)

    @property
    def max_curvature(self) -> float:
        """The bound on the norm of the Hessian."""
        return 0.5 * max(self.weights)

    @property
    def roundings(self) -> int:
        """In the evaluation of a slope, at most: K terms are added up."""
        return 16 + self.classes

    @property
    def more_sums(self) -> int:
        """The offset, and the largest score, which is subtracted from all. (What errors d_k of the scores do to p is at
        most max |d_k|, in the Euclidean norm, too.)"""
        return 4 + math.isqrt(self.classes)

    def most_bent(self, curvature: np.ndarray) -> np.ndarray:
        """(K - 1) ln(1 + curvature/K), times the largest weight inside: det(I + t (diag(p) - p p^T)) is a sum of
        elementary symmetric polynomials of p, all of which are largest where all classes are equally likely.

        >>> Multinomial(3).most_bent(np.array([3.0])).tolist() == [2 * math.log(2)]
        True
        """
        return (self.classes - 1) * np.log1p(max(self.weights) * np.asarray(curvature, float) / self.classes)

    def worst_record(self, noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """At least the largest of noise ||p - e_y|| + ln det(I + curvature (diag(p) - p p^T)) over all p.

        With u = 1 - p_y the slope is at most sqrt(2) u, and the determinant largest where the other classes share u
        equally. What remains is a concave function of u, with v = 1/(K - 1), a and t the two arguments:

            sqrt(2) a u + (K - 2) ln(1 + t v u) + ln(1 + t (1 + v) u (1 - u))

        Its largest value lies below its tangents at both ends of an interval in which the slope changes its sign.
        """
        heavier, v = max(self.weights), 1 / (self.classes - 1)
        a, t = np.broadcast_arrays(self.max_slope * np.asarray(noise, float), heavier * np.asarray(curvature, float))

        def at(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """The function and its slope."""
            others, own = 1 + t * v * u, 1 + t * (1 + v) * u * (1 - u)
            value = a * u + (self.classes - 2) * np.log(others) + np.log(own)
            return value, a + (self.classes - 2) * t * v / others + t * (1 + v) * (1 - 2 * u) / own

        low, high = np.zeros(a.shape), np.ones(a.shape)
        for _ in range(50):
            middle = (low + high) / 2
            rises = at(middle)[1] > 0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        (left, up), (right, down) = at(low), at(high)
        beyond = np.where(down >= 0, right, np.minimum(left + up * (high - low), right - down * (high - low)))
        return np.minimum(beyond, a + self.most_bent(curvature))

    def centred(self, shares: Sequence[float]) -> Multinomial:
        """The same loss with the offsets at which a model of zeros predicts these shares of the classes."""
        whole_of_them = len(shares) == self.classes and abs(sum(shares) - 1) < 1e-6
        if not whole_of_them or not all(0 < share < 1 for share in shares):
            raise InputError(f"{self.classes} shares are needed that add up to 1, one for each class, not {shares}")
        return replace(self, offset=tuple(math.log(s * w) for s, w in zip(shares, self.weights, strict=True)))

    def scores(self, X: Any, F: np.ndarray) -> np.ndarray:
        """z of every row, (rows, K), for a model F, (K, d)."""
        return np.asarray(X @ F.T) + np.asarray(self.offset)

    def probability(self, z: np.ndarray) -> np.ndarray:
        """Of each class, (rows, K), for scores without the offset."""
        log_p = np.asarray(z) + np.asarray(self.offset) - np.log(self.weights)
        p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)
