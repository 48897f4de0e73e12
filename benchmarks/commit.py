"""How long an agent's commit takes: a state of five arrays, as recycled ADMM has, and a message.

python benchmarks/commit.py [DIMENSION]
"""

import statistics
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tacit.agent.heard import MessageChain
from tacit.agent.store import Store
from tacit.privacy.events import Pure

ARRAYS, COMMITS = 5, 40


def main(dimension: int) -> None:
    """Prints the median, the mean and the largest time of a commit, on the clock and of the processor."""
    rng, clock, processor = np.random.default_rng(0), [], []
    with (
        TemporaryDirectory(dir=".") as folder,
        closing(Store(Path(folder) / "x.store", "ab" * 32, "x", COMMITS)) as store,
    ):
        for tick in range(COMMITS):
            state = {f"array {k}": rng.standard_normal((1, dimension)) for k in range(ARRAYS)}
            message = rng.standard_normal(dimension).tobytes()
            began = time.perf_counter(), time.process_time()
            store.commit(tick, state, message, Pure(0.1), {"y": MessageChain(tick, bytes(32))})
            clock.append(time.perf_counter() - began[0])
            processor.append(time.process_time() - began[1])
    for what, times in (("clock", clock), ("processor", processor)):
        found = ", ".join(f"{1e3 * f(times):.1f}" for f in (statistics.median, statistics.mean, max))
        print(f"{what}: median, mean, largest: {found} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
