"""How what was said is read: within a public radius, and, if members agreed so, robustly against a liar among them.

The loop reads every inbox here before `listen` gets it, in a simulation and on a network alike; no method knows of it.
Everything here is a function of what was said, so it is post-processing: it costs no privacy.

*Robust* reading limits what a member can do to the others' models by saying something false. It is for methods in which
everybody speaks to all neighbours, and needs rows: secret-shared sums have none. A private row is mostly noise: at a
single tick an honest one lies as far from a listener's own as a liar's may, and a liar that always leans to the same
side moves everybody, above all where a dual variable adds up what was heard. Noise averages out over the ticks and a
lie does not. So the listener reads, for each neighbour j, what j has said *so far*: c_j, the sum over the ticks of j's
row less its own. Where an iteration of the method has several ticks (`Broadcast.period`), each has a sum of its own: or
a liar could take back at one of them what it says at another, and move what only one of them goes into. Of V neighbours
the listener believes

    clipping   c_j, moved towards zero until it is no longer than the median neighbour's: self-centred clipping (He,
               Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", 2022) of sums
    trimmed    for all of them alike, coordinate by coordinate, the mean of the c_j and of its own zero without the
               largest and the smallest quarter (at least one each)
    median     the same with the median

and goes on with its own row plus what it believes now, less what it has gone on with before. That change is no longer
than the row of this tick of the median neighbour is away from the listener's own: or a liar could lean to one side for
the whole run, and to the other at its end. Fewer than half of a listener's neighbours may lie with clipping, half of
them with the median, a quarter (but one at least) with trimming. docs/results.md measures all three: clipping costs the
least, the median the most.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tacit.core.release import Inbox, clipped
from tacit.errors import InputError

_LEAST = 2  # neighbours without which there is nobody to compare with


class Heard(NamedTuple):
    """What listeners go on with."""

    inbox: Inbox
    moved: np.ndarray  # (rows heard,) how far each row was moved, in the order in which they were heard


def _middle(rows: np.ndarray) -> float:
    """How long the row in the middle is."""
    return float(np.sort(np.linalg.norm(rows, axis=1))[(len(rows) - 1) // 2])


def _clipping(so_far: np.ndarray) -> np.ndarray:
    """(V, d): none longer than the one in the middle."""
    return clipped(so_far, _middle(so_far))


def _trimmed(so_far: np.ndarray) -> np.ndarray:
    """(V, d): V times the mean without both ends."""
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
    """Refuses a name that is none, and a graph in which somebody has too few neighbours."""
    if robust is None:
        return
    if robust not in ROBUST:
        raise InputError(f"robust is one of {', '.join(ROBUST)}; not {robust!r}")
    if least_degree is not None and least_degree < _LEAST:
        raise InputError(
            f"robust listening needs {_LEAST} neighbours or more for everybody, to have something to compare with; "
            f"somebody has {least_degree}: take another graph, such as ring or complete"
        )


class Listening:
    """Reads the inboxes of a block of listeners, tick after tick. Its `memory`, (2, period, rows heard, d), is what was
    said so far, and what of it the listeners went on with.

    >>> alone = Listening(radius=100.0)
    >>> said = Inbox(np.array([[1.0], [2.0], [1e300]]), indptr=[0, 3])
    >>> alone.read(said, own=np.array([[0.0]]), t=0).inbox.rows.tolist()
    [[1.0], [2.0], [100.0]]
    >>> Listening(radius=100.0, robust="clipping").read(said, np.array([[0.0]]), 0).inbox.rows.tolist()
    [[1.0], [2.0], [2.0]]
    """

    def __init__(
        self, radius: float, robust: str | None = None, period: int = 1, memory: np.ndarray | None = None
    ) -> None:
        check_robust(robust)
        self.radius, self.robust, self._period, self.memory = radius, robust, period, memory

    def read(self, inbox: Inbox, own: np.ndarray, t: int) -> Heard:
        """What was said at tick t, within the radius and read as agreed; `own`, (n, d), is what the listeners
        themselves said."""
        bounded = inbox.within(self.radius)
        if self.robust is None:
            return Heard(bounded, inbox.distances(bounded))
        rows, indptr = bounded.rows[bounded.indices], bounded.indptr
        mine = np.repeat(own, np.diff(indptr), axis=0)
        if self.memory is None:
            self.memory = np.zeros((2, self._period, *rows.shape))
        self.memory = self.memory.copy()  # an earlier one may have been saved
        said, gone_on_with = self.memory[:, t % self._period]
        apart = rows - mine
        said += apart
        for lo, hi in pairwise(indptr):
            if hi > lo:
                believed = ROBUST[self.robust](said[lo:hi])
                gone_on_with[lo:hi] += (change := clipped(believed - gone_on_with[lo:hi], _middle(apart[lo:hi])))
                mine[lo:hi] += change
        found = Inbox(mine, indptr).within(self.radius)
        return Heard(found, inbox.distances(found))
