"""A column of strings in little memory: distinct texts and which of them each cell is, or bytes one behind the other.

What is asked of a column (is it missing, which number is it, which category) is asked of each text once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

MOST_DISTINCT = 4096  # texts of a column that are kept as Python's strings, with a code for each cell


class Pool(Protocol):
    """k texts. `at` are the indices of those that are meant; None: all."""

    def __len__(self) -> int: ...

    def texts(self, at: np.ndarray | None) -> np.ndarray:
        """(n,) of str, dtype object."""
        ...

    def numbers(self, at: np.ndarray | None) -> np.ndarray:
        """(n,) of float64, as `float` reads them; not a number where it cannot."""
        ...

    def is_one_of(self, wanted: frozenset[str], at: np.ndarray | None) -> np.ndarray:
        """(n,) of bool."""
        ...


class Texts:
    """Python's own strings."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def texts(self, at: np.ndarray | None) -> np.ndarray:
        return self._array if at is None else self._array[at]

    def numbers(self, at: np.ndarray | None) -> np.ndarray:
        texts = self.texts(at)
        try:
            return texts.astype(np.float64)
        except ValueError:
            return np.array([as_number(text) for text in texts], dtype=np.float64)

    def is_one_of(self, wanted: frozenset[str], at: np.ndarray | None) -> np.ndarray:
        texts = self.texts(at)
        return np.fromiter(map(wanted.__contains__, texts), dtype=bool, count=len(texts))


class TypedNumbers:
    """Numbers of a typed column, whose texts are those that Python writes; "" where there is none."""

    def __init__(self, values: np.ndarray, null: np.ndarray) -> None:
        self._values, self._null = values, null  # int64, uint64 or float64; bool

    def __len__(self) -> int:
        return len(self._values)

    def texts(self, at: np.ndarray | None) -> np.ndarray:
        values, null = (self._values, self._null) if at is None else (self._values[at], self._null[at])
        found = np.empty(len(values), dtype=object)
        found[:] = list(map(str, values.tolist()))
        found[null] = ""
        return found

    def numbers(self, at: np.ndarray | None) -> np.ndarray:
        values, null = (self._values, self._null) if at is None else (self._values[at], self._null[at])
        numbers = values.astype(np.float64)
        numbers[null] = np.nan
        return numbers

    def is_one_of(self, wanted: frozenset[str], at: np.ndarray | None) -> np.ndarray:
        numbers = self.numbers(at)
        found = np.zeros(len(numbers), dtype=bool)
        for text in wanted:
            # Different integers may have one float, and 1 has the spellings 1 and 1.0: the text decides.
            like = np.flatnonzero(np.isnan(numbers) if text == "" else numbers == as_number(text))
            if len(like):
                texts = self.texts(like if at is None else at[like])
                found[like] = np.fromiter((each == text for each in texts), dtype=bool, count=len(like))
        return found


class Strings:
    """(n,) strings.

    >>> ages = Strings.of(["39", "?", "39"])
    >>> len(ages), ages[1], ages.tolist(), ages.numbers().tolist(), ages.is_one_of(["?", ""]).tolist()
    (3, '?', ['39', '?', '39'], [39.0, nan, 39.0], [False, True, False])
    """

    def __init__(self, pool: Pool, codes: np.ndarray | None = None) -> None:
        self.pool = pool
        self.codes = codes  # (n,) which text of the pool each string is; None: string k is text k

    @classmethod
    def of(cls, values: Strings | np.ndarray | Sequence[str]) -> Strings:
        """Strings from an array or a list of them."""
        if isinstance(values, Strings):
            return values
        array = np.empty(len(values), dtype=object)
        array[:] = list(values)
        return cls(Texts(values if isinstance(values, np.ndarray) and values.dtype == object else array))

    def __len__(self) -> int:
        return len(self.pool) if self.codes is None else len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __getitem__(self, at: Any) -> Any:
        """One string, or some of them."""
        if isinstance(at, int | np.integer):
            index = range(len(self))[int(at)]
            code = index if self.codes is None else int(self.codes[index])
            return self.pool.texts(np.array([code]))[0]
        if self.codes is not None:
            return Strings(self.pool, self.codes[at])
        if isinstance(at, slice) and at == slice(None):
            return self
        return Strings(self.pool, np.arange(len(self))[at])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self._of_each(self.pool.texts)
        return found.astype(dtype) if dtype is not None else found.copy() if copy else found

    def tolist(self) -> list[str]:
        """A list of Python's strings."""
        return self._of_each(self.pool.texts).tolist()

    def numbers(self) -> np.ndarray:
        """(n,) of float64, as `float` reads them; not a number where it cannot."""
        return self._of_each(self.pool.numbers)

    def is_one_of(self, values: Sequence[str] | frozenset[str]) -> np.ndarray:
        """(n,) of bool: whether each is one of these."""
        wanted = frozenset(values)
        return self._of_each(lambda at: self.pool.is_one_of(wanted, at))

    def places(self, place: Mapping[str, int]) -> np.ndarray:
        """(n,) of int32: what `place` has for each string; -1 where it has nothing."""

        def look_up(at: np.ndarray | None) -> np.ndarray:
            texts = self.pool.texts(at)
            return np.fromiter((place.get(text, -1) for text in texts), dtype=np.int32, count=len(texts))

        return self._of_each(look_up)

    def distinct(self) -> tuple[list[str], np.ndarray]:
        """The distinct strings in the order in which they come, and (n,) which of them each string is.

        >>> texts, which = Strings.of(["b", "a", "b"]).distinct()
        >>> texts, which.tolist()
        (['b', 'a'], [0, 1, 0])
        """
        place: dict[str, int] = {}

        def number(at: np.ndarray | None) -> np.ndarray:
            texts = self.pool.texts(at)
            return np.fromiter((place.setdefault(text, len(place)) for text in texts), np.int64, count=len(texts))

        which = self._of_each(number)
        # A pool may hold texts that no string is any more, and in another order.
        used, first, which = np.unique(which, return_index=True, return_inverse=True)
        order = np.argsort(first)
        texts = list(place)
        return [texts[used[k]] for k in order], np.argsort(order)[which]

    def _of_each(self, ask: Callable[[np.ndarray | None], np.ndarray]) -> np.ndarray:
        """What is asked of a text, for each string: of every text of the pool once, if that is less work."""
        if self.codes is None:
            return ask(None)
        return ask(None)[self.codes] if len(self.pool) <= len(self.codes) else ask(self.codes)


class StringsCollector:
    """Collects the cells of a column and strips them. As long as their texts are few, it keeps a code for each cell.

    >>> column = StringsCollector()
    >>> column.add(["39", " ?", "39 "])
    >>> column.strings().tolist()
    ['39', '?', '39']
    """

    def __init__(self) -> None:
        self._place: dict[str, int] = {}  # of each cell, and of its stripped text: which text it is
        self._texts: list[str] = []
        self._codes: list[np.ndarray] = []
        self._more: list[str] = []  # once there are too many texts

    def add(self, cells: Sequence[str]) -> None:
        """Some cells: a few thousand, of which all may differ."""
        if len(self._texts) > MOST_DISTINCT:
            self._more += [cell.strip() for cell in cells]
            return
        place = self._place
        for cell in dict.fromkeys(cells):
            if cell not in place:
                text = cell.strip()
                if text not in place:
                    place[text] = len(self._texts)
                    self._texts.append(text)
                place[cell] = place[text]
        self._codes.append(np.fromiter(map(place.__getitem__, cells), dtype=np.uint16, count=len(cells)))

    def strings(self) -> Strings:
        """All of them."""
        texts = np.array([*self._texts, ""], dtype=object)
        codes = np.concatenate([np.zeros(0, dtype=np.uint16), *self._codes])
        if not self._more:
            return Strings(Texts(texts), codes)
        return Strings(Texts(np.concatenate([texts[codes], np.array(self._more, dtype=object)])))


def as_number(text: str) -> float:
    """What `float` reads; not a number if it cannot."""
    try:
        return float(text)
    except ValueError:
        return np.nan
