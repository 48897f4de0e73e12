"""What leaves an agent, and what arrives: `Release` and `Inbox`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from tacit.core.alike import distinct
from tacit.errors import InputError
from tacit.privacy.events import Event, known


class _Release(NamedTuple):
    value: np.ndarray  # (n, d)
    events: Sequence[Event]  # one a row
    silent: np.ndarray | None = None  # (n,) of bool, for methods in which agents may be silent


class Release(_Release):
    """The rows that leave the agents of a block, and for each row the privacy event that its leaving costs.

    Only `tacit.privacy.mechanisms` makes one: no number leaves without its cost. An agent that is `silent` sends
    nothing. Its neighbours go on with the row that they have, which is the one here. Silence is a message, too, and
    costs what its event says. What is no event, or one that no accountant knows, is refused here.
    """

    __slots__ = ()

    def __new__(cls, value: np.ndarray, events: Sequence[Event], silent: np.ndarray | None = None) -> Self:
        return cls._make((value, events, silent))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # for mypy it is no class method there
        """Checks a release, also one that `_replace` makes."""
        found = super()._make(iterable)
        if len(found.events) != len(found.value):
            raise InputError(
                f"each row of a release has its event: {len(found.value)} rows, {len(found.events)} events"
            )
        for event in distinct(found.events):
            known(event)
        return found


class Inbox:
    """What the neighbours said: for each listener k, the rows `rows[indices[indptr[k]:indptr[k+1]]]`.

    One implementation serves N agents of one process, which share `rows`, and one agent on a network, whose
    `rows` are its messages in the order of the senders' ids.

    >>> inbox = Inbox(np.array([[1.0], [2.0], [4.0]]), indptr=[0, 2, 3], indices=[1, 2, 0])
    >>> inbox.sum().tolist(), inbox.mean().tolist(), inbox.max().tolist()
    ([[6.0], [1.0]], [[3.0], [1.0]], [[4.0], [1.0]])
    """

    def __init__(self, rows: np.ndarray, indptr: np.ndarray, indices: np.ndarray | None = None) -> None:
        self.rows = np.asarray(rows, dtype=float)
        self.indptr = np.asarray(indptr)
        self.indices = np.arange(len(self.rows)) if indices is None else np.asarray(indices)

    @property
    def counts(self) -> np.ndarray:
        """How many rows each listener has, (n, 1)."""
        return np.diff(self.indptr)[:, None]

    def with_own(self, own: np.ndarray) -> Inbox:
        """The same, and after it each listener's own row: its closed neighbourhood."""
        mine = len(self.rows) + np.arange(len(own))
        indices = np.insert(self.indices, self.indptr[1:], mine)
        return Inbox(np.concatenate([self.rows, own]), self.indptr + np.arange(len(self.indptr)), indices)

    def within(self, radius: float) -> Inbox:
        """The same with every row clipped to norm at most `radius`: what is heard is bounded, whatever was said."""
        if radius == np.inf or not self.rows.any():  # in a plan all rows are zero, tick after tick
            return self
        return Inbox(clipped(self.rows, radius), self.indptr, self.indices)

    def distances(self, other: Inbox) -> np.ndarray:
        """How far each row heard is from that of another inbox for the same listeners, (rows heard,)."""
        if other is self:
            return np.zeros(len(self.indices))
        with np.errstate(over="ignore"):  # infinity is a good enough answer for huge numbers
            return np.linalg.norm(self.rows[self.indices] - other.rows[other.indices], axis=1)

    def sum(self) -> np.ndarray:
        """The sum of each listener's rows, (n, d); zero for a listener that heard nothing."""
        shape = (len(self.indptr) - 1, len(self.rows))
        return scipy.sparse.csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=shape) @ self.rows

    def only(self) -> np.ndarray:
        """Each listener's one row, (n, d): a token."""
        if (self.indptr[1:] - self.indptr[:-1] != 1).any():
            raise InputError(f"a token comes from one agent; listeners heard {self.counts[:, 0].tolist()}")
        return self.rows[self.indices]

    def mean(self) -> np.ndarray:
        """The mean of each listener's rows, (n, d)."""
        return self.sum() / self._nonempty()

    def min(self) -> np.ndarray:
        """The least of each coordinate over each listener's rows, (n, d)."""
        self._nonempty()
        return np.minimum.reduceat(self.rows[self.indices], self.indptr[:-1])

    def max(self) -> np.ndarray:
        """The greatest of each coordinate over each listener's rows, (n, d)."""
        self._nonempty()
        return np.maximum.reduceat(self.rows[self.indices], self.indptr[:-1])

    def farthest_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """For each listener the two of its rows that are farthest apart in the 1-norm, (n, d) each."""
        self._nonempty()
        pairs = []
        for lo, hi in zip(self.indptr[:-1], self.indptr[1:], strict=True):
            rows = self.rows[self.indices[lo:hi]]
            apart = [np.abs(rows[k + 1 :] - rows[k]).sum(axis=1).max(initial=-1.0) for k in range(len(rows))]
            a = int(np.argmax(apart))
            pairs.append((rows[a], rows[np.argmax(np.abs(rows - rows[a]).sum(axis=1))]))
        first, second = zip(*pairs, strict=True)
        return np.array(first), np.array(second)

    def _nonempty(self) -> np.ndarray:
        counts = self.counts
        if not np.all(counts):
            raise InputError(f"listener {int(np.argmin(counts))} heard nothing; only sum() is defined then")
        return counts


def clipped(rows: np.ndarray, radius: np.ndarray | float) -> np.ndarray:
    """Each row, (n, d), or the nearest one of norm at most the radius, a number or (n, 1); the rows are finite.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4], [3e300, 4e300]]), 1.0).round(12).tolist()
    [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]]
    """
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    direction = rows / np.where(largest > 0, largest, 1.0)  # has a norm between 1 and sqrt(d): no square overflows
    length = np.maximum(np.linalg.norm(direction, axis=-1, keepdims=True), 1.0)
    # Zero and what is nearly zero lie inside: a radius over a small number may be infinite.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(length > radius / largest, direction * (radius / length), rows)
