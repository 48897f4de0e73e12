"""The edges of a graph: one array, which reads like a tuple of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tacit.errors import GraphError

MOST_AGENTS = 2**31 - 1  # ids have 32 bits
_SHOWN = 100  # edges that a printed graph lists


class Edges(Sequence[tuple[int, int]]):
    """Each edge once, smaller end first, sorted. `pairs` is the array, (E, 2); equal edges are equal and hash alike.

    >>> edges = Edges.tidy(3, [(2, 1), (0, 1), (1, 2)])
    >>> edges, edges[0], (1, 2) in edges, edges == ((0, 1), (1, 2))
    (((0, 1), (1, 2)), (0, 1), True, True)
    """

    def __init__(self, pairs: np.ndarray) -> None:
        self.pairs = pairs
        pairs.setflags(write=False)

    @classmethod
    def tidy(cls, agents: int, given: Iterable[tuple[int, int]] | np.ndarray) -> Edges:
        """From pairs of agents in any order, twice or once; what is no edge between two of the agents is refused."""
        ends = whole_numbers(given)
        low, high = np.minimum(*ends.T), np.maximum(*ends.T)
        bad = (low < 0) | (high >= agents) | (low == high)
        if bad.any():
            a, b = ends[int(bad.argmax())].tolist()
            if a == b and 0 <= a < agents:
                raise GraphError(f"agent {a} cannot be its own neighbour")
            raise GraphError(f"edge {a}-{b} names an agent that is not one of 0 to {agents - 1}")
        key = low.astype(np.int64) * agents + high.astype(np.int64)  # with unsigned numbers, the sum would be a float
        if not (key[1:] > key[:-1]).all():
            key.sort()
            key = key[np.concatenate([[True], key[1:] > key[:-1]])]
            low, high = key // agents, key % agents
        pairs = np.empty((len(key), 2), dtype=np.int32)
        pairs[:, 0], pairs[:, 1] = low, high
        return cls(pairs)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy from another process is read-only, too
        return Edges, (self.pairs,)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return Edges(self.pairs[k])
        a, b = self.pairs[k].tolist()
        return a, b

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for first in range(0, len(self.pairs), 65536):  # numbers of Python, a few at a time
            yield from map(tuple, self.pairs[first : first + 65536].tolist())

    def __contains__(self, edge: object) -> bool:
        if not (isinstance(edge, tuple) and len(edge) == 2):
            return False
        low, high = (
            np.searchsorted(self.pairs[:, 0], edge[0], "left"),
            np.searchsorted(self.pairs[:, 0], edge[0], "right"),
        )
        return bool((self.pairs[low:high, 1] == edge[1]).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.pairs, dtype=dtype) if copy else np.asarray(self.pairs, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Edges):
            return np.array_equal(self.pairs, other.pairs)
        return isinstance(other, tuple) and len(other) == len(self) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))  # as the tuple that it equals

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return repr(tuple(self))
        return f"({', '.join(map(repr, self[:3]))}, ... {len(self)} edges)"


def whole_numbers(given: Iterable[tuple[int, int]] | np.ndarray) -> np.ndarray:
    """Pairs as an array of whole numbers, (E, 2)."""
    try:
        ends = np.asarray(given if isinstance(given, np.ndarray | Edges) else list(given))
    except ValueError:  # pairs and longer tuples
        raise GraphError("an edge is a pair of agents") from None
    if ends.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise GraphError("an edge is a pair of agents")
    if ends.dtype.kind in "iu":
        return ends
    try:
        whole = [(int(a), int(b)) for a, b in ends.tolist()]
        if ends.dtype.kind == "f" and (np.array(whole, dtype=float) != ends).any():
            raise ValueError("a fraction")
        return np.array(whole)  # object, where a number has more than 64 bits
    except (TypeError, ValueError, OverflowError):
        raise GraphError("the ends of an edge are whole numbers, the agents' ids") from None
