"""Speed of a tick of incremental ADMM, against the bare arithmetic in the same run.

    python benchmarks/speed.py token_methods

Ridge regression of paper 002 (N = 100 agents with 30 rows in two dimensions, penalty 10), exact updates. "Bare" is the
same method in a loop of plain numpy calls without a class, a check or a count. The compiled loop serves runs without
random numbers; a run that is overheard or perturbed goes tick by tick. All run in turns; times are medians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from timing import Figure, interleaved, read_once

import tacit
from tacit.algorithms import Between, IncrementalADMM
from tacit.core.hamiltonian import hamiltonian_cycle
from tacit.core.losses import Squared

N, ROWS, D, RHO, TICKS = 100, 30, 2, 10.0, 2_000


def bare(parts: list[tuple[np.ndarray, np.ndarray]], order: tuple[int, ...], ticks: int) -> np.ndarray:
    """(4a), (4b) and (5) of paper 002 for (22); what does not change is computed once."""
    hessians = [2 / ROWS * o.T @ o + RHO * np.eye(D) for o, _ in parts]
    linear = [2 / ROWS * o.T @ t for o, t in parts]
    x, y, z = np.zeros((N, D)), np.zeros((N, D)), np.zeros(D)
    for k in range(ticks):
        i = order[k % N]
        new = np.linalg.solve(hessians[i], linear[i] + RHO * z + y[i])
        dual = y[i] + RHO * (z - new)
        z = z + ((new - dual / RHO) - (x[i] - y[i] / RHO)) / N
        x[i], y[i] = new, dual
    return x


def figures() -> Iterator[Figure]:
    """Microseconds a tick, and a long run."""
    rng = np.random.default_rng(0)
    parts = [(rng.uniform(size=(ROWS, D)), rng.uniform(size=ROWS)) for _ in range(N)]
    problem = tacit.Problem(parts, loss=Squared(), scale=2.0)
    graph = tacit.Graph.random_with_cycle(N, int(0.3 * N * (N - 1) / 2), seed=0)
    order = hamiltonian_cycle(graph)
    plain, perturbed = IncrementalADMM(penalty=RHO), IncrementalADMM(penalty=RHO, gamma=Between(0.9, 1.1))
    noise = tacit.SeededNoise(0)

    def simulated(algorithm: IncrementalADMM = plain, **how: object) -> tacit.Run:
        return tacit.simulate(algorithm, problem, graph, rounds=TICKS, measure_every=TICKS, **how)  # type: ignore[arg-type]

    np.testing.assert_allclose(simulated().estimate, bare(parts, order, TICKS), atol=1e-10)  # the same method
    works: list[Callable[[], object]] = [
        read_once(*(each for part in parts for each in part)),
        lambda: bare(parts, order, TICKS),
        simulated,
        lambda: simulated(overheard=lambda t, turn, release: None),
        lambda: simulated(perturbed, noise=noise),
    ]
    names = ["a plain run", "a run that is overheard", "a run with random step sizes"]
    read, peer, *ours = (1e6 * seconds / TICKS for seconds in interleaved(7, *works))
    read *= TICKS / N  # all rows once, over the agents that have them
    for name, each in zip(names, ours, strict=True):
        bound = "reading the holder's rows once"
        yield Figure(f"{name}, a tick", "us", each, read, bound, peer, "the bare arithmetic in numpy")
