"""How what was said is read: within a public radius, and, if members agreed so, robustly against a liar among them.

The loop reads the inbox here before `listen` gets it, in a simulation and on a network alike; no method knows of it.
Everything here is a function of what was said, so it is post-processing: it costs no privacy.

*Robust* reading limits what a member can do to the others' models by saying something false. It is for methods in which
everybody speaks to all neighbours, and needs rows: secret-shared sums have none. With V neighbours,

    clipping   every row is moved towards the listener's own until it is no farther away than the median neighbour
               (self-centred clipping: He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via
               ClippedGossip", 2022; there the radius is a parameter that nobody knows)
    trimmed    coordinate by coordinate, of the V neighbours and the listener itself, the mean without the largest and
               the smallest quarter (at least one each) takes the place of every row
    median     the same with the median

A liar stays below half of a listener's neighbours in the first and the last, below a quarter (but at least one) in
the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit.errors import InputError
from tacit.release import Inbox

_LEAST = 2  # neighbours without which there is no majority to listen to


class Heard(NamedTuple):
    """What a listener goes on with."""

    inbox: Inbox
    moved: np.ndarray  # (rows heard,) how far each row was moved, in the order of `inbox.indices` as it arrived


def _clipping(own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(V, d) the rows, none farther from `own` than the one in the middle."""
    away = rows - own
    distance = np.linalg.norm(away, axis=1, keepdims=True)
    radius = np.sort(distance[:, 0])[(len(rows) - 1) // 2]
    return own + away * np.minimum(1.0, radius / np.maximum(distance, np.finfo(float).tiny))


def _trimmed(own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(V, d) V times the mean without both ends."""
    cut = max(1, len(rows) // 4)
    kept = np.sort(np.vstack([own, rows]), axis=0)[cut:-cut]
    return np.broadcast_to(kept.mean(axis=0), rows.shape)


def _median(own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(V, d) V times the median."""
    return np.broadcast_to(np.median(np.vstack([own, rows]), axis=0), rows.shape)


ROBUST: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
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


def heard(inbox: Inbox, radius: float, robust: str | None = None, own: np.ndarray | None = None) -> Heard:
    """What was said, within the radius and read as agreed; `own`, (n, d), is what the listeners themselves said.

    >>> said = Inbox(np.array([[1.0], [2.0], [1e300]]), indptr=[0, 3])
    >>> heard(said, radius=100.0).inbox.rows.tolist()
    [[1.0], [2.0], [100.0]]
    >>> heard(said, radius=100.0, robust="clipping", own=np.array([[0.0]])).inbox.rows.tolist()
    [[1.0], [2.0], [2.0]]
    """
    bounded = inbox.within(radius)
    if robust is None or own is None:
        return Heard(bounded, inbox.distances(bounded))
    rows, indptr = bounded.rows[bounded.indices], bounded.indptr
    read = ROBUST[robust]
    parts = [
        read(mine, rows[lo:hi]) if hi - lo >= _LEAST else rows[lo:hi]
        for mine, lo, hi in zip(own, indptr[:-1], indptr[1:], strict=True)
    ]
    found = Inbox(np.concatenate([rows[:0], *parts]), indptr)
    return Heard(found, inbox.distances(found))
