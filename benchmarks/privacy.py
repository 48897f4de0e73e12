"""Speed of the privacy core: noise in coordinates per second, the ledger in durable releases per second.

    python benchmarks/privacy.py

Medians of several passes. The ledger is as fast as its disk: each release is two synchronous commits.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.privacy.events import Pure
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.noise import LawName, SecureNoise, SeededNoise

D = 104


def rate(work: Callable[[], int], passes: int = 7) -> float:
    """The median of (the number that `work` returns) / (the seconds it takes)."""
    found = []
    for _ in range(passes):
        begin = time.perf_counter()
        done = work()
        found.append(done / (time.perf_counter() - begin))
    return float(np.median(found))


def main() -> None:
    """Prints one line a figure."""
    laws: tuple[LawName, ...] = ("spherical", "gaussian", "laplace")
    for law in laws:
        secure, seeded = SecureNoise(), SeededNoise(0)
        few, many = np.arange(40), np.arange(4000)
        exact = rate(lambda law=law, s=secure, ids=few: s.draw(law, 1.0, D, ids, 0).size)  # type: ignore[misc]
        quick = rate(lambda law=law, s=seeded, ids=many: s.draw(law, 1.0, D, ids, 0).size)  # type: ignore[misc]
        print(f"{law} noise, d={D}: secure {exact:.1e} coordinates/s (at least 3e4), seeded {quick:.1e} (at least 1e7)")

    rounds = 300
    with tempfile.TemporaryDirectory(dir=".") as folder:
        ledger = Ledger.open(Path(folder) / "ledger", population="benchmark", cost=epsilon)
        ledger.set_cap(Cap(1e3, 1e-6))
        tick = 0

        def releases() -> int:
            nonlocal tick
            ledger.reserve_run("benchmark", {t: Pure(0.01) for t in range(tick, tick + rounds)})
            for _ in range(rounds):
                ledger.reserve("benchmark", tick, Pure(0.01))
                ledger.store("benchmark", tick, os.urandom(8 * D))
                tick += 1
            return rounds

        print(f"ledger: {rate(releases, passes=3):.0f} durable releases/s (at least 200)")
        ledger.close()


if __name__ == "__main__":
    main()
