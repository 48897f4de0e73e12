"""Functions g with a closed-form proximal operator, prox(v, step) = argmin_y g(y) + ||y - v||^2 / (2 step).

Each is a frozen dataclass that works row by row on arrays (n, m); `step` is a number or (n, 1). `size` is the m that g
is made for, None for any.

>>> L1(0.5).prox(np.array([[2.0, -0.3]]), 1.0).tolist()
[[1.5, 0.0]]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tacit.errors import InputError

Step = float | np.ndarray


class Proximable(Protocol):
    """What a method needs of g."""

    @property
    def size(self) -> int | None:
        """The length of the vectors that g is for; None for any."""
        ...

    def value(self, y: np.ndarray, /) -> np.ndarray:
        """g of each row, (n,)."""
        ...

    def prox(self, v: np.ndarray, step: Step, /) -> np.ndarray:
        """argmin_y g(y) + ||y - v||^2 / (2 step) for each row, (n, m)."""
        ...


@dataclass(frozen=True)
class L1:
    """g(y) = strength ||y||_1."""

    strength: float
    size: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        _not_negative(self, "strength")

    def value(self, y: np.ndarray) -> np.ndarray:
        return self.strength * np.abs(y).sum(axis=1)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        """Soft thresholding of every entry."""
        return _shrunk(v, step * self.strength)


@dataclass(frozen=True)
class SquaredL2:
    """g(y) = strength/2 ||y||^2."""

    strength: float
    size: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        _not_negative(self, "strength")

    def value(self, y: np.ndarray) -> np.ndarray:
        return self.strength / 2 * (y**2).sum(axis=1)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        return v / (1 + step * self.strength)


@dataclass(frozen=True)
class ElasticNet:
    """g(y) = l1 ||y||_1 + l2/2 ||y||^2."""

    l1: float
    l2: float
    size: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        _not_negative(self, "l1")
        _not_negative(self, "l2")

    def value(self, y: np.ndarray) -> np.ndarray:
        return self.l1 * np.abs(y).sum(axis=1) + self.l2 / 2 * (y**2).sum(axis=1)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        return _shrunk(v, step * self.l1) / (1 + step * self.l2)


@dataclass(frozen=True)
class GroupL1:
    """g(y) = strength sum over groups of ||y_G||_2; `labels` names the group of each coordinate, negative for none.

    >>> GroupL1(1.0, (0, 0, 1, -1)).prox(np.array([[3.0, 4.0, 0.5, 7.0]]), 1.0).round(12).tolist()
    [[2.4, 3.2, 0.0, 7.0]]
    """

    strength: float
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        _not_negative(self, "strength")
        if not self.labels or not all(isinstance(label, int | np.integer) for label in self.labels):
            raise InputError(f"GroupL1 needs one whole number for each coordinate as labels, not {self.labels!r}")
        object.__setattr__(self, "labels", tuple(int(label) for label in self.labels))

    @property
    def size(self) -> int | None:
        """As many as there are labels."""
        return len(self.labels)

    def value(self, y: np.ndarray) -> np.ndarray:
        names, _, norms = self._norms(y)
        return self.strength * norms[:, names >= 0].sum(axis=1)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        """Every group is shortened by step * strength, at most to zero."""
        names, place, norms = self._norms(v)
        kept = np.maximum(norms - step * self.strength, 0.0) / np.where(norms > 0, norms, 1.0)
        kept[:, names < 0] = 1.0
        return v * kept[:, place]

    def _norms(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        names, place = np.unique(np.array(self.labels), return_inverse=True)
        squares = np.zeros((len(names), len(y)))
        np.add.at(squares, place, (y**2).T)
        return names, place, np.sqrt(squares.T)


@dataclass(frozen=True)
class Box:
    """g(y) = 0 where lower <= y <= upper in every coordinate, infinite elsewhere."""

    lower: float = -math.inf
    upper: float = math.inf
    size: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not self.lower <= self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise InputError(f"Box needs lower <= upper, not {self.lower} and {self.upper}")

    def value(self, y: np.ndarray) -> np.ndarray:
        return np.where(np.all((y >= self.lower) & (y <= self.upper), axis=1), 0.0, math.inf)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        """The nearest point of the box."""
        return np.clip(v, self.lower, self.upper)


@dataclass(frozen=True)
class Stacked:
    """g(y) = g_1(y_1) + g_2(y_2) + ... for the parts of y, one after the other: `parts` has the length of each, and its
    function.

    >>> Stacked(((1, L1(1.0)), (2, Box(0.0, 0.0)))).prox(np.array([[3.0, 5.0, -5.0]]), 1.0).tolist()
    [[2.0, 0.0, 0.0]]
    """

    parts: tuple[tuple[int, Proximable], ...]

    def __post_init__(self) -> None:
        for length, g in self.parts:
            if length < 1 or g.size not in (None, length):
                raise InputError(f"a part of {length} coordinates does not fit {g!r}")

    @property
    def size(self) -> int | None:
        """The number of entries of all parts together."""
        return sum(length for length, _ in self.parts)

    def value(self, y: np.ndarray) -> np.ndarray:
        return np.sum([g.value(part) for g, part in self._split(y)], axis=0)

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        return np.concatenate([g.prox(part, step) for g, part in self._split(v)], axis=1)

    def _split(self, y: np.ndarray) -> list[tuple[Proximable, np.ndarray]]:
        ends = np.cumsum([length for length, _ in self.parts])
        return [(g, y[:, end - length : end]) for (length, g), end in zip(self.parts, ends, strict=True)]


@dataclass(frozen=True)
class Nothing:
    """g = 0: no second term."""

    size: ClassVar[int | None] = None

    def value(self, y: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))

    def prox(self, v: np.ndarray, step: Step) -> np.ndarray:
        return v


def _shrunk(v: np.ndarray, by: Step) -> np.ndarray:
    return v - np.clip(v, -by, by)


def _not_negative(g: Any, name: str) -> None:
    value = getattr(g, name)
    if not (isinstance(value, int | float) and value >= 0 and math.isfinite(value)):
        raise InputError(f"{type(g).__name__} needs {name} of zero or more, not {value!r}")
