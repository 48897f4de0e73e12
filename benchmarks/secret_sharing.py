"""Secret-shared sums beside plain ones: ten agents on a complete graph, 100,000 numbers each.

    python benchmarks/secret_sharing.py

Both run interleaved, in one process that does the work of all agents; medians. The plain sum is `Inbox.sum` for
everybody. The secret-shared one is given twice: as a simulation does it, where agents with the same neighbourhood share
one sum, and with all that ten processes would do together, where each of them opens and adds for itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tacit.exchange import Plain, SecretSharedSums
from tacit.exchange.member import Group
from tacit.exchange.secret_shared import SecretSharedLink, shared_sum
from tacit.graph import Graph
from tacit.schedule import Broadcast

AGENTS, DIMENSION, PASSES = 10, 100_000, 21


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Prints one line a figure."""
    graph = Graph.complete(AGENTS)
    turn = Broadcast(graph).turn(0)
    rows = np.random.default_rng(0).normal(size=(AGENTS, DIMENSION))
    everybody = tuple(range(AGENTS))

    opening = np.median([seconds(lambda: SecretSharedSums().open(graph)) for _ in range(PASSES)])
    plain, shared, apart = Plain().open(graph), SecretSharedSums().open(graph), SecretSharedSums().open(graph)
    keys = dict(shared.sent)

    def of_all(link: SecretSharedLink, t: int) -> None:
        seats = {i: link.members[i].seat(Group(everybody, everybody)) for i in everybody}
        said = dict(zip(everybody, rows, strict=True))
        done = shared_sum(seats, said, t, lambda i, j, message: message, listeners=everybody)
        for i, total in done.totals.items():
            seats[i].heard(total)

    times = np.array(
        [
            [
                seconds(lambda t=t: plain.deliver(rows, turn, t).sum()),  # type: ignore[misc]
                seconds(lambda t=t: shared.deliver(rows, turn, t).sum()),  # type: ignore[misc]
                seconds(lambda t=t: of_all(apart, t)),  # type: ignore[misc]
            ]
            for t in range(PASSES)
        ]
    )
    a, b, c = np.median(times, axis=0)
    plain_bytes, shared_bytes = plain.sent["bytes"] / PASSES, (shared.sent["bytes"] - keys["bytes"]) / PASSES
    off = np.abs(plain.deliver(rows, turn, PASSES).sum() - shared.deliver(rows, turn, PASSES).sum()).max()
    print(f"{AGENTS} agents, d={DIMENSION}: plain sums for everybody {1e3 * a:.1f} ms, {plain_bytes / 1e6:.2f} MB")
    print(f"secret-shared / plain, time: {b / a:.1f}, with every agent's work {c / a:.1f} (limit 20)")
    print(f"secret-shared / plain, bytes: {shared_bytes / plain_bytes:.4f} (limit 10)")
    print(f"keys, once a run: {1e3 * opening:.1f} ms, {keys['messages']} messages, {keys['bytes']} bytes")
    print(f"largest difference of the sums: {off:.1e}")


if __name__ == "__main__":
    main()
