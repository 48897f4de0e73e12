"""How the benchmarks measure time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


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
