"""How the benchmarks measure time, and what they report.

`make bench` runs every module that has `figures()` (see speed.py) with one thread a program.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One measured figure. `ours`, `peer` and `limit` have the same unit, in which less is better."""

    name: str
    unit: str
    ours: float
    limit: float  # what the machine allows: nobody can be faster
    bound: str  # what `limit` is the time of
    peer: float | None = None  # the best peer under its best settings; None, if there is none or it is not installed
    against: str = ""  # which peer, with which settings
    plot: str = ""  # the picture that it is a point of
    at: float = 0.0  # its place on the horizontal axis

    @property
    def ratio(self) -> float | None:
        """How many times slower the peer is."""
        return None if self.peer is None else self.peer / self.ours


def interleaved(
    times: int, *works: Callable[[], object], of: Callable[[list[float]], float] = statistics.median
) -> list[float]:
    """The median seconds (or `of`) of each piece of work. They run in turns: a busy machine slows all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, seconds in zip(works, taken, strict=True):
            begin = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begin)
    return [of(seconds) for seconds in taken]


def read_once(*arrays: np.ndarray) -> Callable[[], object]:
    """Work that reads every byte of the arrays once, as fast as numpy adds numbers."""
    words = [np.frombuffer(each.tobytes()[: each.nbytes // 8 * 8], dtype=np.uint64) for each in arrays]
    return lambda: [each.sum() for each in words]
