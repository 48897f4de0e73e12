"""Speed of the privacy core: noise in coordinates per second, its share of a run, the ledger's durable releases.

    OMP_NUM_THREADS=1 python benchmarks/privacy.py

Medians of several passes, which alternate between what is compared. Noise is measured in seconds of the processor, one
thread. The ledger is as fast as its disk: each release is two synchronous commits.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import Figure, interleaved

import tacit
from tacit.algorithms import Geometric, RecycledADMM
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.exact_noise import UNIFORMS
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.noise import LawName, Noise, SecureNoise, SeededNoise

D = 104


BALLS = 88  # bits that are not those of `fast_noise`: every row is computed in balls, of 120 bits


def rate(work: Callable[[], int], passes: int = 7, clock: Callable[[], float] = time.perf_counter) -> float:
    """The median of (the number that `work` returns) / (the seconds it takes)."""
    found = []
    for _ in range(passes):
        begin = clock()
        done = work()
        found.append(done / (clock() - begin))
    return float(np.median(found))


def noise() -> None:
    """Coordinates a second: in pairs of doubles, in balls and seeded, in turns."""
    laws: tuple[LawName, ...] = ("spherical", "gaussian", "laplace")
    few, many = np.arange(40), np.arange(4000)
    sources = ((SecureNoise(), many), (SecureNoise(bits=BALLS), few), (SeededNoise(0), many))
    for law in laws:

        def draw(source: Noise, ids: np.ndarray, law: LawName = law) -> float:
            return rate(lambda: source.draw(law, 1.0, D, ids, 0).size, passes=1, clock=time.process_time)

        turns = np.array([[draw(*source) for source in sources] for _ in range(8)])[1:]  # the first fills tables
        secure, balls, seeded = np.median(turns, axis=0)
        ratio = np.median(turns[:, 0] / turns[:, 1])
        print(
            f"{law} noise, d={D}: secure {secure:.1e} coordinates/s, in balls alone {balls:.1e}, "
            f"ratio {ratio:.0f} (at least 10); seeded {seeded:.1e} (at least 1e7)"
        )


class Timed(SecureNoise):
    """Secure noise that adds up the time it takes."""

    seconds = 0.0

    def _rounded(self, *how: Any) -> np.ndarray:
        begin = time.process_time()
        found = super()._rounded(*how)
        self.seconds += time.process_time() - begin
        return found


def run(agents: int = 5000, rows: int = 20, d: int = 50) -> None:
    """The share of the noise in a private run of many agents, and what it takes to measure all of them every round."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(agents, rows, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    parts = [(x, np.sign(x[:, 0] + 0.1 * rng.normal(size=rows))) for x in X]
    problem, graph = tacit.Problem(parts, l2=0.1), tacit.Graph.ring(agents)
    method = RecycledADMM(penalty=Geometric(0.8, 1.05), budget=Gaussian(5.0))

    def once(bits: int, rounds: int, every: int) -> tuple[float, float]:
        source, begin = Timed(bits=bits), time.process_time()
        tacit.simulate(method, problem, graph, rounds=rounds, noise=source, measure_every=every)
        return (time.process_time() - begin) / rounds, source.seconds / rounds

    once(96, 1, 1)  # compiles
    turns = [[once(96, 20, 20), once(96, 20, 1), once(BALLS, 4, 4)] for _ in range(3)]
    (whole, part), (measured, _), (old, balls) = np.median(turns, axis=0)
    print(
        f"mr-admm, {agents:,} agents, d={d}: {whole:.2f} s a round, noise {part / whole:.0%} of it; "
        f"in balls alone {old:.2f} s, noise {balls / old:.0%}; measured in every round {measured:.2f} s"
    )


def figures() -> Iterator[Figure]:
    """Nanoseconds a coordinate, beside OpenDP, if it is installed: its noise is exact, too."""
    laws: tuple[LawName, ...] = ("gaussian", "laplace", "spherical")
    ids, source = np.arange(500), SecureNoise()
    for law in laws:
        peers = list(_peers(law))
        size = 12 * len(ids) * UNIFORMS[law](D)  # 96 bits for each uniform number
        source.draw(law, 1.0, D, ids, 0)  # fills tables
        draw, words = partial(source.draw, law, 1.0, D, ids, 0), partial(os.urandom, size)
        ours, random, *others = interleaved(7, draw, words, *(work for _, work in peers))
        each = 1e9 / (len(ids) * D)
        best = min(zip(others, peers, strict=True), default=None)
        beside = {} if best is None else {"peer": best[0] * 1e9 / PEER_DRAWS, "against": best[1][0]}
        name = f"secure {law} noise, d = {D}, a number"
        yield Figure(name, "ns", ours * each, random * each, "the operating system's random bytes", **beside)  # type: ignore[arg-type]


PEER_DRAWS = 2000


def _peers(law: LawName) -> Iterator[tuple[str, Callable[[], object]]]:
    """OpenDP, with what draws PEER_DRAWS numbers; it has no spherical noise."""
    with suppress(ImportError):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
        if law == "laplace":
            made = dp.m.make_laplace(*space, scale=1.0)
            yield "OpenDP", lambda: made([0.0] * PEER_DRAWS)
        if law == "gaussian":
            normal = dp.m.make_gaussian(space[0], dp.l2_distance(T=float), scale=1.0)
            yield "OpenDP", lambda: normal([0.0] * PEER_DRAWS)


def main() -> None:
    """Prints one line a figure."""
    noise()
    run()
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
