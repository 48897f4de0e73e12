"""Sequences with many equal items, each kept once: a million agents mostly differ in nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

Item = TypeVar("Item")
Other = TypeVar("Other")
_SHOWN = 100  # items that a printed sequence lists


class Alike(Sequence[Item], Generic[Item]):
    """A sequence to read: item k is `items[which[k]]`, and everyone of `items` occurs. Equal items are one object.

    >>> events = Alike(["a", "b"], np.array([0, 1, 0]))
    >>> events, events[2], len(events), events.map(str.upper) == ("A", "B", "A")
    (('a', 'b', 'a'), 'a', 3, True)
    """

    def __init__(self, items: Sequence[Item], which: np.ndarray) -> None:
        self.items, self.which = items, which

    @classmethod
    def same(cls, item: Item, count: int) -> Alike[Item]:
        """So many times the same item."""
        return cls([item] if count else [], np.zeros(count, dtype=np.int32))

    @classmethod
    def by(cls, make: Callable[..., Item], *columns: np.ndarray) -> Alike[Item]:
        """Item k is make(x[k], y[k], ...), called once for equal numbers.

        >>> Alike.by(complex, np.array([1.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.0])).items
        [(1+0j), (2+0j)]
        """
        which, first = numbered(*columns)
        return cls([make(*(column[k].item() for column in columns)) for k in first], which)

    @classmethod
    def gather(cls, items: Iterable[Item], key: Callable[[Item], Hashable]) -> Alike[Item]:
        """The same sequence, with one item for equal keys."""
        if isinstance(items, Alike):
            return items
        known: dict[Hashable, int] = {}
        kept: list[Item] = []
        which = []
        for item in items:
            k = known.setdefault(key(item), len(known))
            if k == len(kept):
                kept.append(item)
            which.append(k)
        return cls(kept, np.array(which, dtype=np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Iterable[Item]]) -> Alike[Item]:
        """One sequence after the other; their items can be hashed.

        >>> Alike.joined([Alike.same("a", 2), ["b", "a"]]).items
        ['a', 'b']
        """
        each = [cls.gather(part, lambda item: item) for part in parts]
        found = cls.gather([item for part in each for item in part.items], lambda item: item)
        ends = np.cumsum([len(part.items) for part in each])
        which = [found.which[end - len(part.items) + part.which] for part, end in zip(each, ends, strict=True)]
        return cls(found.items, np.concatenate(which))

    def map(self, function: Callable[[Item], Other]) -> Alike[Other]:
        """The sequence of what a function gives, called once for equal items."""
        return Alike([function(item) for item in self.items], self.which)

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            which, first = numbered(self.which[k])
            return Alike([self.items[self.which[k][i]] for i in first], which)
        return self.items[self.which[k]]

    def __iter__(self) -> Iterator[Item]:
        return map(self.items.__getitem__, self.which.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        if isinstance(other, Alike):
            _, first = numbered(self.which, other.which)
            return all(self[k] == other[k] for k in first)
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return repr(tuple(self))
        return f"({', '.join(map(repr, self[:3]))}, ... {len(self)} in all)"


def distinct(items: Iterable[Item]) -> Iterable[Item]:
    """The items of a sequence, equal ones once where they are kept once."""
    return items.items if isinstance(items, Alike) else items


def numbered(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For arrays of equal length, (n,): which of the distinct rows (x, y, ...) is the k-th, counted in the order of
    their first appearance, and where each of them appears first.

    >>> [found.tolist() for found in numbered(np.array([5, 3, 5, 5]), np.array([0, 0, 0, 1]))]
    [[0, 1, 0, 2], [0, 1, 3]]
    """
    n = len(columns[0])
    which, first = np.zeros(n, dtype=np.int64), np.arange(min(1, n))
    for column in columns:
        if (column == column[:1]).all():
            continue
        code = _code(column)
        code = which * (int(code.max()) + 1) + code
        if int(code.max()) >= 4 * n:  # so many that most do not occur
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
        place = np.full(int(code.max()) + 1, -1)  # where each code appears first: of several, the last to be written
        place[code[::-1]] = np.arange(n - 1, -1, -1)
        present = np.flatnonzero(place >= 0)
        order = np.argsort(place[present])
        first = place[present[order]]
        place[present[order]] = np.arange(len(order))
        which = place[code]
    return which.astype(np.int32), first


def _code(column: np.ndarray) -> np.ndarray:
    """Whole numbers from zero that are equal where the items of a column are."""
    if column.dtype.kind in "iu":
        low = int(column.min())
        if int(column.max()) - low < 4 * len(column):
            return column.astype(np.int64) - low
    return np.unique(column, return_inverse=True)[1].reshape(-1)
