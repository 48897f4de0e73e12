"""Which method with local noise, and which graph, suit how many members: on the synthetic records of `tuning.py`.

    python benchmarks/tuning_members.py [MEMBERS ...]

40,000 records in all, in equal parts, or 8,000 where a line says so. It prints the mean test error over two data sets
and two draws of noise at epsilon = 1 and 0.1, delta = 1e-5; nan where a method cannot keep the budget, or where the
graph has no cycle for its token. `recommended` in `tacit.workflows.recommendation` and the graph "auto" follow from it.
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse
from tuning import AGENTS, ROWS, records

import tacit
from tacit.workflows.recipes import RECIPES

TOTAL = AGENTS * ROWS
MEMBERS = (3, 5, 10, 20, 50, 100)
LOCAL = ("mr-admm", "pi-admm", "gradient-descent", "pvp", "one-shot")
DATA_SETS, NOISES = 2, 2


def graphs(members: int) -> dict[str, tacit.Graph]:
    """The graphs to try."""
    found = {"ring": tacit.Graph.ring(members)}
    for degree in (4, 8):
        if degree < members - 1:
            found[f"regular:{degree}"] = tacit.Graph.regular(members, degree)
    return found | ({"complete": tacit.Graph.complete(members)} if 3 < members <= 50 else {})


def error(
    name: str, graph: tacit.Graph, sets: list[tuple[np.ndarray, np.ndarray]], rows: int, epsilon: float
) -> tuple[float, int]:
    """The mean test error, and the messages of a run."""
    n, errors, messages = graph.agents, [], 0
    try:
        setting = RECIPES[name].setting([rows] * n, sets[0][0].shape[1], graph, epsilon, 1e-5)
    except tacit.InputError:
        return float("nan"), 0
    facts = setting.facts
    for X, y in sets:
        mine = scipy.sparse.csr_array(X[: n * rows])
        parts = [(mine[i * rows : (i + 1) * rows], y[i * rows : (i + 1) * rows]) for i in range(n)]
        problem = tacit.Problem(parts, loss=facts.loss, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
        for seed in range(NOISES):
            run = tacit.simulate(
                setting.algorithm,
                problem,
                graph,
                rounds=setting.rounds,
                noise=tacit.SeededNoise(seed),
                measure_every=setting.rounds,
            )
            errors.append(np.mean(np.sign(X[TOTAL:] @ run.model) != y[TOTAL:]))
            messages = int(run.history["messages"][-1])
    return float(np.mean(errors)), messages


def main() -> None:
    """Prints a line for every number of members, graph and method."""
    sets = [records(seed) for seed in range(DATA_SETS)]
    print("members  rows each  graph       method            error at epsilon 1   at 0.1  messages")
    for members in map(int, sys.argv[1:] or MEMBERS):
        for total in (TOTAL, TOTAL // 5) if members <= 20 else (TOTAL,):
            for kind, graph in graphs(members).items():
                for name in LOCAL:
                    rows = total // members
                    (one, messages), (tenth, _) = (error(name, graph, sets, rows, e) for e in (1.0, 0.1))
                    line = f"{members:7} {rows:10}  {kind:11} {name:17} {one:18.4f} {tenth:8.4f} {messages:9,}"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
