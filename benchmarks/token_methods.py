"""Speed of a tick of incremental ADMM, against the bare arithmetic in the same run.

    python benchmarks/token_methods.py

Ridge regression of paper 002 (N = 100 agents with 30 rows in two dimensions, penalty 10), exact updates. "Bare" is the
same method in a loop of plain numpy calls without a class, a check or a count. The compiled loop serves runs without
random numbers; a run that is overheard or perturbed goes tick by tick. All run in turns; times are medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.progress import Progress
from timing import interleaved

import tacit
from tacit.algorithms import Between, IncrementalADMM
from tacit.core.hamiltonian import hamiltonian_cycle
from tacit.core.losses import Squared

N, ROWS, D, RHO, TICKS, LONG = 100, 30, 2, 10.0, 2_000, 100_000


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


def main() -> None:
    """Prints microseconds a tick."""
    rng = np.random.default_rng(0)
    parts = [(rng.uniform(size=(ROWS, D)), rng.uniform(size=ROWS)) for _ in range(N)]
    problem = tacit.Problem(parts, loss=Squared(), scale=2.0)
    graph = tacit.Graph.random_with_cycle(N, int(0.3 * N * (N - 1) / 2), seed=0)
    order = hamiltonian_cycle(graph)
    plain, perturbed = IncrementalADMM(penalty=RHO), IncrementalADMM(penalty=RHO, gamma=Between(0.9, 1.1))
    noise = tacit.SeededNoise(0)

    def simulated(algorithm: IncrementalADMM = plain, **how: object) -> tacit.Run:
        return tacit.simulate(algorithm, problem, graph, rounds=TICKS, measure_every=TICKS, **how)  # type: ignore[arg-type]

    apart = np.abs(simulated().estimate - bare(parts, order, TICKS)).max()
    print(f"after {TICKS:,} ticks the models differ by {apart:.1e}")
    works: list[Callable[[], object]] = [
        lambda: bare(parts, order, TICKS),
        simulated,
        lambda: simulated(overheard=lambda t, turn, release: None),
        lambda: simulated(perturbed, noise=noise),
    ]
    names = ["bare numpy", "tacit, compiled", "tacit, tick by tick", "tacit, with random step sizes"]
    seconds = interleaved(7, *works)
    for name, s in zip(names, seconds, strict=True):
        print(f"{name:32} {s / TICKS * 1e6:7.1f} us a tick   {(s - seconds[0]) / TICKS * 1e6:+7.1f}")
    begin = time.perf_counter()
    with Progress() as bar:
        task = bar.add_task(f"{LONG:,} ticks", total=LONG)
        tacit.simulate(
            plain, problem, graph, rounds=LONG, measure_every=1000, progress=lambda t: bar.update(task, completed=t)
        )
    print(f"{LONG:,} ticks, measured a hundred times: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
