"""How messages are read: within a public radius, and, if members agreed so, robustly against members that lie.

The loop reads every inbox here before `listen` gets it, in a simulation and on a network; methods do not know about it.
Everything here is a function of the messages, so it is post-processing: it costs no privacy. Totals have bounds of
their own (`tacit.exchange.total_bounds`): one beyond them is not used.

*Robust* reading limits how far a member that lies can move the others' models. It is for methods in which every member
speaks to all neighbours, and it needs rows: secret-shared sums have none. A private row is mostly noise: at a single
tick an honest row can be as far from a listener's own row as a false one. But a liar that always leans to the same side
moves everybody, above all where a dual variable adds up what was heard. Noise averages out over the ticks and a lie
does not. So the listener reads, for each neighbour j, what j has said *so far*: c_j, the sum over the ticks of j's row
minus its own. If an iteration of the method has several ticks (`Broadcast.period`), each has its own sum: otherwise a
liar could take back at one of them what it says at another, and move what depends on only one of them. Of V neighbours
the listener believes

    clipping   c_j, moved towards zero until it is no longer than the median neighbour's: self-centred clipping (He,
               Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", 2022) of sums
    trimmed    for all of them alike, coordinate by coordinate, the mean of the c_j and of its own zero without the
               largest and the smallest quarter (at least one each)
    median     the same with the median

and uses its own row plus what it believes now, minus what it has used before. This change is cut to the distance of the
median neighbour's row of this tick from the listener's own: otherwise a liar could lean to one side for the whole run,
and to the other at its end. Fewer than half of a listener's neighbours may lie with clipping, half of them with the
median, a quarter (but at least one) with trimming. docs/evidence/accuracy.md measures all three: clipping costs the
least, the median the most.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tacit.core.release import Inbox, clipped
from tacit.errors import InputError
from tacit.exchange.total_bounds import TotalBounds

_LEAST = 2  # neighbours that a comparison needs


class ReadInbox(NamedTuple):
    """The messages as listeners use them."""

    inbox: Inbox
    moved: np.ndarray  # (rows heard,) how far each row (or sum) was moved, in the order in which they were heard


def _middle(rows: np.ndarray) -> float:
    """The median of the rows' norms."""
    return float(np.sort(np.linalg.norm(rows, axis=1))[(len(rows) - 1) // 2])


def _clipping(so_far: np.ndarray) -> np.ndarray:
    """(V, d): the rows, none longer than the median one."""
    return clipped(so_far, _middle(so_far))


def _trimmed(so_far: np.ndarray) -> np.ndarray:
    """(V, d): V times the trimmed mean."""
    cut = max(1, len(so_far) // 4)
    kept = np.sort(np.vstack([np.zeros_like(so_far[:1]), so_far]), axis=0)[cut:-cut]
    return np.broadcast_to(kept.mean(axis=0), so_far.shape)


def _median(so_far: np.ndarray) -> np.ndarray:
    """(V, d): V times the median."""
    return np.broadcast_to(np.median(np.vstack([np.zeros_like(so_far[:1]), so_far]), axis=0), so_far.shape)


ROBUST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "clipping": _clipping,
    "trimmed": _trimmed,
    "median": _median,
}


def check_robust(robust: str | None, least_degree: int | None = None) -> None:
    """Refuses an unknown name, and a graph in which a member has too few neighbours."""
    if robust is None:
        return
    if robust not in ROBUST:
        raise InputError(f"robust is one of {', '.join(ROBUST)}; not {robust!r}")
    if least_degree is not None and least_degree < _LEAST:
        raise InputError(
            f"robust listening needs {_LEAST} neighbours or more for every member, to have something to compare with; "
            f"one has {least_degree}: take another graph, such as ring or complete"
        )


class Listening:
    """Reads the inboxes of a block of listeners, tick after tick. Its `memory`, (2, period, rows heard, d), is what was
    said so far, and what the listeners have used of it. `bounds` are those of totals, where members share their noise.

    >>> alone = Listening(radius=100.0)
    >>> said = Inbox(np.array([[1.0], [2.0], [1e300]]), indptr=[0, 3])
    >>> alone.read(said, own=np.array([[0.0]]), t=0).inbox.rows.tolist()
    [[1.0], [2.0], [100.0]]
    >>> Listening(radius=100.0, robust="clipping").read(said, np.array([[0.0]]), 0).inbox.rows.tolist()
    [[1.0], [2.0], [2.0]]
    """

    def __init__(
        self,
        radius: float,
        robust: str | None = None,
        period: int = 1,
        memory: np.ndarray | None = None,
        *,
        bounds: TotalBounds | None = None,
    ) -> None:
        check_robust(robust)
        self.bounds = bounds
        self.radius, self.robust, self._period, self.memory = radius, robust, period, memory

    def read(self, inbox: Inbox, own: np.ndarray, t: int) -> ReadInbox:
        """The messages of tick t, within the radius and read as agreed; `own`, (n, d), is what the listeners
        themselves said."""
        bounded = inbox.within(self.radius) if self.bounds is None else self.bounds.read(inbox)
        if self.robust is None:
            return ReadInbox(bounded, inbox.distances(bounded))
        rows, indptr = bounded.rows[bounded.indices], bounded.indptr
        mine = np.repeat(own, np.diff(indptr), axis=0)
        if self.memory is None:
            self.memory = np.zeros((2, self._period, *rows.shape))
        self.memory = self.memory.copy()  # an earlier one may have been saved
        said, used = self.memory[:, t % self._period]
        apart = rows - mine
        said += apart
        for lo, hi in pairwise(indptr):
            if hi > lo:
                believed = ROBUST[self.robust](said[lo:hi])
                used[lo:hi] += (change := clipped(believed - used[lo:hi], _middle(apart[lo:hi])))
                mine[lo:hi] += change
        found = Inbox(mine, indptr).within(self.radius)
        return ReadInbox(found, inbox.distances(found))
