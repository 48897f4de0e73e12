"""Secret-shared sums against plain sums: ten agents on a complete graph, 100,000 numbers each.

    python benchmarks/secret_sharing.py

Both run in turns, in one process that does the work of all agents; times are medians. The plain sum is `Inbox.sum` for
all agents. The secret-shared sum is measured twice: as in a simulation, where agents with the same neighbourhood share
one sum; and with the work of ten processes together, where each of them opens and adds for itself.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from timing import interleaved

from tacit.core.graph import Graph
from tacit.core.schedule import Broadcast
from tacit.exchange import Plain, SecretSharedSums
from tacit.exchange.secret_shared import shared_sum
from tacit.exchange.sharing import Group
from tacit.privacy.mechanisms import unprotected

AGENTS, DIMENSION, PASSES = 10, 100_000, 21


def main() -> None:
    """Prints one line a figure."""
    graph = Graph.complete(AGENTS)
    turn, rounds = Broadcast(graph).turn(0), count()
    release = unprotected(np.random.default_rng(0).normal(size=(AGENTS, DIMENSION)))
    plain, shared, apart = Plain().open(graph), SecretSharedSums().open(graph), SecretSharedSums().open(graph)
    keys = dict(shared.sent)
    everybody = tuple(range(AGENTS))
    sharings = {i: apart.members[i].in_group(Group(everybody, everybody)) for i in everybody}

    def everybodys_work() -> None:
        said = dict(enumerate(release.value))
        done = shared_sum(sharings, said, next(rounds), lambda i, j, message: message, listeners=everybody)
        for i, total in done.totals.items():
            sharings[i].heard(total)

    (opening,) = interleaved(PASSES, lambda: SecretSharedSums().open(graph))
    a, b, c = interleaved(
        PASSES,
        lambda: plain.deliver(release, turn, 0).sum(),
        lambda: shared.deliver(release, turn, next(rounds)).sum(),
        everybodys_work,
    )
    plain_bytes, shared_bytes = plain.sent["bytes"] / PASSES, (shared.sent["bytes"] - keys["bytes"]) / PASSES
    off = np.abs(plain.deliver(release, turn, 0).sum() - shared.deliver(release, turn, next(rounds)).sum()).max()
    print(f"{AGENTS} agents, d={DIMENSION}: plain sums for everybody {1e3 * a:.1f} ms, {plain_bytes / 1e6:.2f} MB")
    print(f"secret-shared / plain, time: {b / a:.1f}, with every agent's work {c / a:.1f} (limit 20)")
    print(f"secret-shared / plain, bytes: {shared_bytes / plain_bytes:.4f} (limit 10)")
    print(f"keys, once a run: {1e3 * opening:.1f} ms, {keys['messages']} messages, {keys['bytes']} bytes")
    print(f"largest difference of the sums: {off:.1e}")


if __name__ == "__main__":
    main()
