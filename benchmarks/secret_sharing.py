"""Secret-shared sums against plain sums, and totals with shared noise against both.

    python benchmarks/secret_sharing.py [sums] [totals] [bytes] [run]          # all four by default

**sums.** Ten agents on a complete graph, 100,000 numbers each. Both run in turns, in one process that does the work of
all agents; times are medians. The plain sum is `Inbox.sum` for all agents. The secret-shared sum is measured twice: as
in a simulation, where agents with the same neighbourhood share one sum; and with the work of ten processes together,
where each of them opens and adds for itself.

**totals.** A tick of `SecretSharedTotals` against one of `SecretSharedSums`, as in a simulation, in turns, on the same
complete graph of ten; and its time on a sparse graph of a hundred. Once without noise, and once with the noise that is
drawn for the tick from the operating system's generator: a member's whole noise for a sum, its share for a total, the
same number of draws. For 100,000 numbers the noise takes so much longer than either that only the rest is compared.

**bytes.** What a member sends at a tick of a total, in rows of 104 numbers: the seeds of its shares, its sum up the
tree, and the total down to its children.

**run.** A private run of a hundred members, from synthetic records to a model, with all of its cryptography.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy comes
import sys
import time
from itertools import count

import numpy as np
from timing import interleaved

from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Release
from tacit.core.schedule import Broadcast
from tacit.exchange import Exchange, IdealTotals, Plain, SecretSharedSums, SecretSharedTotals
from tacit.exchange.secret_shared import shared_sum
from tacit.exchange.sharing import Group
from tacit.exchange.totals import SHARE_BYTES
from tacit.exchange.tree import Tree
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import SecureNoise
from tacit.privacy.sensitivity import SHARE_GRID
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.trust import Trust
from tacit.simulation.simulate import simulate

AGENTS, DIMENSION, PASSES = 10, 100_000, 21
SMALL = 104  # the features of Adult
MANY, NEIGHBOURS = 100, 6


def sums() -> None:
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


class Tick:
    """What all agents of a graph do at one tick: draw noise, and exchange rows on the grid of shares."""

    def __init__(self, exchange: Exchange, graph: Graph, dimension: int) -> None:
        self.link, self.turn, self.rounds = exchange.open(graph), Broadcast(graph).turn(0), count()
        rows = np.random.default_rng(0).normal(size=(graph.agents, dimension))
        self.rows, self.ids = np.round(rows / SHARE_GRID) * SHARE_GRID, np.arange(graph.agents)
        self.source = SecureNoise()

    def deliver(self) -> None:
        """Without noise."""
        self._deliver(unprotected(self.rows))

    def noise(self) -> np.ndarray:
        """The noise alone."""
        return self.source.add("gaussian", self.rows, 0.1, self.ids, 0)

    def whole(self) -> None:
        """With noise."""
        self._deliver(unprotected(self.noise()))

    def _deliver(self, release: Release) -> None:
        self.link.deliver(release, self.turn, next(self.rounds)).sum()


def totals() -> None:
    """Time of a tick."""
    graph = Graph.complete(AGENTS)
    one, all_ = Tick(SecretSharedSums(), graph, SMALL), Tick(SecretSharedTotals(), graph, SMALL)
    a, b, c, d, e = interleaved(PASSES, one.deliver, all_.deliver, one.whole, all_.whole, one.noise)
    print(
        f"{AGENTS} agents, d={SMALL}: secret-shared sums {1e3 * a:.1f} ms, totals {1e3 * b:.1f} ms, "
        f"noise of all agents {1e3 * e:.1f} ms"
    )
    print(f"total / sum, time of a tick: {b / a:.2f} without noise, {d / c:.2f} with noise on both (limit 3)")
    print(f"total with noise / sum without: {d / a:.2f} (limit 3)")
    one, all_ = Tick(SecretSharedSums(), graph, DIMENSION), Tick(SecretSharedTotals(), graph, DIMENSION)
    a, b = interleaved(PASSES, one.deliver, all_.deliver)
    print(f"{AGENTS} agents, d={DIMENSION}: secret-shared sums {1e3 * a:.0f} ms, totals {1e3 * b:.0f} ms")
    print(f"total / sum, time of a tick: {b / a:.2f} without noise (limit 3)")
    sparse = Graph.regular(MANY, NEIGHBOURS)
    ideal, real = Tick(IdealTotals(), sparse, SMALL), Tick(SecretSharedTotals(), sparse, SMALL)
    a, b, c = interleaved(PASSES, ideal.deliver, real.deliver, real.whole)
    print(
        f"{MANY} agents with {NEIGHBOURS} neighbours each, d={SMALL}: totals {1e3 * b:.1f} ms, with noise "
        f"{1e3 * c:.1f} ms; without cryptography {1e3 * a:.2f} ms"
    )


def sent(graph: Graph, t: int, dimension: int) -> np.ndarray:
    """(N,) the bytes that each member sends at tick t."""
    tree = Tree.of(graph, t)
    rows = [(parent is not None) + len(tree.children(i)) for i, parent in enumerate(tree.parent)]
    return graph.degree * SHARE_BYTES + 8 * dimension * np.array(rows)


def bytes_of_members() -> None:
    """Over the N ticks in which everybody is the root of the tree once."""
    for graph, name in (
        (Graph.complete(AGENTS), "complete"),
        (Graph.regular(MANY, NEIGHBOURS), f"{NEIGHBOURS} neighbours each"),
        (Graph.regular(MANY, MANY // 3 + 1), f"{MANY // 3 + 1} neighbours each"),
    ):
        found = np.array([sent(graph, t, SMALL) for t in range(graph.agents)]) / (8 * SMALL)
        tick = Tick(IdealTotals(), graph, SMALL)
        before = tick.link.sent["bytes"]
        tick.deliver()
        assert round(found[0].sum() * 8 * SMALL) == tick.link.sent["bytes"] - before
        print(
            f"{graph.agents} agents, {name}: rows a member sends at a tick: mean {found.mean():.1f}; the largest "
            f"mean of a member {found.mean(axis=0).max():.1f}; the most at one tick {found.max():.1f} (limit 30)"
        )


def run() -> None:
    """The recipe shared-descent."""
    graph, rng = Graph.regular(MANY, NEIGHBOURS), np.random.default_rng(0)
    X = rng.normal(size=(40_000, SMALL))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    y = np.where(X @ rng.normal(size=SMALL) > 0, 1.0, -1.0)
    begin = time.perf_counter()
    setting = RECIPES["shared-descent"].setting(
        [40_000 // MANY] * MANY, SMALL, graph, Budget(1.0, 1e-5), Trust(NEIGHBOURS - 1)
    )
    planned = time.perf_counter() - begin
    facts = setting.facts
    parts = list(zip(np.split(X, MANY), np.split(y, MANY), strict=True))
    problem = Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
    for exchange in (SecretSharedTotals(), IdealTotals()):
        begin = time.perf_counter()
        done = simulate(
            setting.algorithm, problem, graph, rounds=setting.rounds, noise=SecureNoise(), exchange=exchange
        )
        seconds = time.perf_counter() - begin
        print(
            f"{MANY} members, {len(y):,} records, {setting.rounds} rounds, {type(exchange).__name__}: {seconds:.1f} s "
            f"(and {planned:.1f} s to calibrate), private={done.private}, {np.mean(X @ done.model * y > 0):.1%} right"
        )


PARTS = {"sums": sums, "totals": totals, "bytes": bytes_of_members, "run": run}


def main() -> None:
    """The parts that are named, or all."""
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
