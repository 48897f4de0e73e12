"""How the benchmarks measure time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def interleaved(times: int, *works: Callable[[], object]) -> list[float]:
    """Median seconds of each piece of work, run in turn, so that a busy machine slows all of them alike."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, seconds in zip(works, taken, strict=True):
            begin = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begin)
    return [float(np.median(seconds)) for seconds in taken]
