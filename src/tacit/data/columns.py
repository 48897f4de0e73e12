"""How one column of a file becomes features, or the label: the parts of a schema.

Every kind gives a row at most one non-zero feature (a number its value, bands and categories a one). So a column of n
cells is encoded as n positions and n values.
"""

import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.data.table import CellError, Cells
from tacit.errors import InputError


class Encoded(NamedTuple):
    """n cells as features: of the column's features, the one at `position` has `value`, the others are zero."""

    position: np.ndarray  # (n,) of int
    value: np.ndarray  # (n,) of float
    outside: np.ndarray  # (n,) of bool: the cell lay outside the public bounds and was clipped to them


@dataclass(frozen=True)
class Number:
    """One feature in [0, 1]: linear, (v - lo) / (hi - lo), or log, log1p(v - lo) / log1p(hi - lo).

    >>> Number("hours", bounds=(0, 100)).features
    ('hours',)
    """

    name: str
    bounds: tuple[float, float]
    scale: str = "linear"
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _bounds(self.bounds, f"column {self.name!r}"))
        if self.scale not in ("linear", "log"):
            raise InputError(
                f'scale must be "linear" or "log"; column {self.name!r} has {self.scale!r}; choose one of them'
            )

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return (self.name,)

    def encode(self, cells: Cells) -> Encoded:
        """Values clipped to the bounds, then scaled."""
        (lo, hi), numbers = self.bounds, cells.numbers()
        above = np.clip(numbers, lo, hi) - lo
        value = above / (hi - lo) if self.scale == "linear" else np.log1p(above) / math.log1p(hi - lo)
        return Encoded(np.zeros(len(numbers), dtype=np.int32), value, (numbers < lo) | (numbers > hi))


@dataclass(frozen=True)
class Bands:
    """One feature for each half-open interval [edges[k], edges[k+1]): one where the value lies, else zero.

    A value below the first or not below the last edge counts as clipped and falls into the band nearest to it.

    >>> Bands("age", edges=(17, 25, 65, 100)).features
    ('age=17..25', 'age=25..65', 'age=65..100')
    """

    name: str
    edges: tuple[float, ...]
    kind: ClassVar[str] = "bands"

    def __post_init__(self) -> None:
        edges = _numbers(self.edges, f"edges of column {self.name!r}")
        if len(edges) < 2 or any(lo >= hi for lo, hi in pairwise(edges)):
            raise InputError(
                f"edges must be two or more rising numbers; column {self.name!r} has {list(self.edges)}; sort them"
            )
        object.__setattr__(self, "edges", edges)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(f"{self.name}={plain(lo)}..{plain(hi)}" for lo, hi in pairwise(self.edges))

    def encode(self, cells: Cells) -> Encoded:
        """The band of each value."""
        numbers = cells.numbers()
        band = np.searchsorted(self.edges, numbers, side="right") - 1
        outside = (band < 0) | (band >= len(self.edges) - 1)
        return Encoded(np.clip(band, 0, len(self.edges) - 2), np.ones(len(numbers)), outside)


@dataclass(frozen=True)
class Category:
    """One feature for each category, in the order given; what happens to any other value says `unknown` in the schema.

    >>> Category("sex", categories=("Female", "Male")).features
    ('sex=Female', 'sex=Male')
    """

    name: str
    categories: tuple[str, ...]
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", _strings(self.categories, f"categories of column {self.name!r}"))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, cells: Cells) -> Encoded:
        """The place of each value among the categories."""
        place = {category: k for k, category in enumerate(self.categories)}
        position = _look_up(
            place, cells, "one of the column's categories", 'add it to the schema, or set unknown = "zero" there'
        )
        return Encoded(position, np.ones(len(position)), np.zeros(len(position), dtype=bool))


@dataclass(frozen=True)
class Classes:
    """A label of two classes: +1 for the strings in `positive`, -1 for those in `negative`.

    `positive_share` and `weights` must be public. They say how rare the positives are, and how much a record counts,
    negative and positive: see `Logistic.centred` and `tacit.losses`.
    """

    column: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    positive_share: float | None = None
    weights: tuple[float, float] | None = None  # of negative and positive records
    kind: ClassVar[str] = "classes"
    outputs: ClassVar[int] = 1  # scores of a model

    def __post_init__(self) -> None:
        positive = _strings(self.positive, f"positive of label {self.column!r}")
        negative = _strings(self.negative, f"negative of label {self.column!r}")
        both = sorted(set(positive) & set(negative))
        if both:
            raise InputError(
                f"a label is positive or negative; {both[0]!r} of label {self.column!r} is both; take it out of one"
            )
        object.__setattr__(self, "positive", positive)
        object.__setattr__(self, "negative", negative)
        if self.positive_share is not None:
            (share,) = _shares([self.positive_share], f"positive_share of label {self.column!r}")
            object.__setattr__(self, "positive_share", share)
        if self.weights is not None:
            weights = _weights(self.weights, ("negative", "positive"), self.column)
            object.__setattr__(self, "weights", weights)

    def encode(self, cells: Cells) -> Encoded:
        """+1 or -1; the position has no meaning here."""
        place = dict.fromkeys(self.positive, 1) | dict.fromkeys(self.negative, 0)
        sign = 2.0 * _look_up(place, cells, "a positive or negative label", "add it to one of them in [label]") - 1.0
        return Encoded(np.zeros(len(sign), dtype=np.int32), sign, np.zeros(len(sign), dtype=bool))


@dataclass(frozen=True)
class Multiclass:
    """A label of three or more classes: 0, 1, ... in the order given.

    `shares` and `weights` must be public. They say how frequent each class is, and how much its records count.

    >>> Multiclass("ward", classes=("surgery", "medicine", "eyes")).outputs
    3
    """

    column: str
    classes: tuple[str, ...]
    shares: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None
    kind: ClassVar[str] = "multiclass"

    def __post_init__(self) -> None:
        classes = _strings(self.classes, f"classes of label {self.column!r}")
        if len(classes) < 3:
            raise InputError(
                f"a label of kind 'multiclass' has three classes or more; label {self.column!r} has {len(classes)}; "
                "for two, write positive and negative instead"
            )
        object.__setattr__(self, "classes", classes)
        if self.shares is not None:
            shares = _shares(self.shares, f"shares of label {self.column!r}")
            if len(shares) != len(classes) or abs(sum(shares) - 1) > 1e-6:
                raise InputError(
                    f"shares must be {len(classes)} numbers that add up to 1, one for each class; label "
                    f"{self.column!r} has {len(shares)} that add up to {sum(shares):g}; correct them"
                )
            object.__setattr__(self, "shares", shares)
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, classes, self.column))

    @property
    def outputs(self) -> int:
        """Scores of a model: one for each class."""
        return len(self.classes)

    def encode(self, cells: Cells) -> Encoded:
        """The place of each label among the classes; the position has no meaning here."""
        place = {name: k for k, name in enumerate(self.classes)}
        found = _look_up(place, cells, "one of the label's classes", "add it to the classes in [label]").astype(float)
        return Encoded(np.zeros(len(found), dtype=np.int32), found, np.zeros(len(found), dtype=bool))


@dataclass(frozen=True)
class Target:
    """A numeric label, clipped to public bounds and scaled to [-1, 1]."""

    column: str
    bounds: tuple[float, float]
    kind: ClassVar[str] = "number"
    outputs: ClassVar[int] = 1  # scores of a model

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _bounds(self.bounds, f"label {self.column!r}"))

    def encode(self, cells: Cells) -> Encoded:
        """2 (v - lo) / (hi - lo) - 1."""
        unit = Number(self.column, self.bounds).encode(cells)
        return unit._replace(value=2.0 * unit.value - 1.0)


Label = Classes | Multiclass | Target


@dataclass(frozen=True)
class Sites:
    """The organisations that hold the records: the column that names them, and all their names, which are public.

    >>> Sites("hospital", names=("alder", "birch")).names
    ('alder', 'birch')
    """

    column: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise InputError(f"column in [sites] must be a string; got {self.column!r}; put it in quotes")
        object.__setattr__(self, "names", _strings(self.names, "names in [sites]"))

    def place(self, cells: Cells) -> np.ndarray:
        """(n,) which of the names each cell holds; any other name is refused."""
        place = {name: k for k, name in enumerate(self.names)}
        return _look_up(place, cells, "one of the schema's sites", "add it to the names in [sites]")


def plain(number: float) -> str:
    """A number as a person writes it; TOML reads it back exactly.

    >>> plain(17.0), plain(0.1), plain(1e300)
    ('17', '0.1', '1e+300')
    """
    # Above 2^53 an integer literal would be read as another float, or overflow TOML's 64 bits.
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _look_up(place: dict[str, int], cells: Cells, needed: str, remedy: str) -> np.ndarray:
    if cells.column in cells.table.booleans:
        # A boolean of a data frame is "True" or "False" here, and whatever the schema writes for it: libraries differ.
        place = {value.capitalize(): k for value, k in place.items()}
    found = cells.values.places(place)
    if len(found) and found.min() < 0:
        raise CellError(
            cells, np.flatnonzero(found < 0), f"a value must be {needed}", f"correct it, or {remedy}", place
        )
    return found


def _numbers(values: Any, what: str) -> tuple[float, ...]:
    listed = list(values) if isinstance(values, list | tuple) else [values]
    for value in listed:
        # In Python a bool is an int, but `true` as a bound is a mistake. The comparison also refuses nan, and integers
        # too large for a float.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and abs(value) <= sys.float_info.max):
            raise InputError(f"{what} must be finite numbers; got {value!r}; write numbers")
    return tuple(float(value) for value in listed)


def _shares(values: Any, what: str) -> tuple[float, ...]:
    shares = _numbers(values, what)
    if not all(0 < share < 1 for share in shares):
        wrong = next(share for share in shares if not 0 < share < 1)
        raise InputError(f"{what} must be above 0 and below 1, not {wrong:g}; for 6% write 0.06")
    return shares


def _weights(values: Any, classes: tuple[str, ...], column: str) -> tuple[float, ...]:
    weights = _numbers(values, f"weights of label {column!r}")
    if len(weights) != len(classes) or not all(1e-6 <= weight <= 1e6 for weight in weights):
        raise InputError(
            f"weights must be {len(classes)} positive numbers, of {', '.join(classes)} records, from 1e-6 to 1e6; "
            f"label {column!r} has {list(weights)}; correct them"
        )
    return weights


def _bounds(values: Any, what: str) -> tuple[float, float]:
    numbers = _numbers(values, f"bounds of {what}")
    if len(numbers) != 2 or not 0 < numbers[1] - numbers[0] < math.inf:
        raise InputError(
            f"bounds must be [lo, hi], lo < hi, at a finite distance; {what} has {list(numbers)}; correct them"
        )
    return numbers[0], numbers[1]


def _strings(values: Any, what: str) -> tuple[str, ...]:
    listed = list(values) if isinstance(values, list | tuple) else [values]
    for k, value in enumerate(listed):
        if not isinstance(value, str) or value != value.strip():
            raise InputError(
                f"{what} must be a list of strings without outer spaces; got {value!r}; "
                "write them as they are in the file, in quotes"
            )
        if value in listed[:k]:
            raise InputError(f"{what} must differ; {value!r} is there twice; remove one")
    if not listed or isinstance(values, str):
        raise InputError(f"{what} must be a list of at least one string; got {values!r}; list them in [ ]")
    return tuple(listed)
