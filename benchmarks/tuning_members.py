"""Which method with local noise, and which graph, suit how many members: on the synthetic records of `tuning.py`.

    python benchmarks/tuning_members.py [MEMBERS ...]
    python benchmarks/tuning_members.py few       # few members with many records, four data sets and four draws
    python benchmarks/tuning_members.py shared    # shared noise, five members, one colluder: momentum, rounds and reach

40,000 records in all, in equal parts, or 8,000 where a line says so. It prints the mean test error over two data sets
and two draws of noise at epsilon = 1 and 0.1, delta = 1e-5; nan where a method cannot keep the budget, or where the
graph has no cycle for its token. `recommended` in `tacit.run.recipes` and the graph "auto" follow from it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import scipy.sparse
from tuning import AGENTS, ROWS, records

import tacit
from tacit.run import recipes
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES, Recipe
from tacit.run.trust import Reserve, Trust

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


Sets = list[tuple[np.ndarray, np.ndarray]]


def error(
    recipe: Recipe,
    graph: tacit.Graph,
    sets: Sets,
    rows: int,
    epsilon: float,
    *,
    noises: int = NOISES,
    reserve: Reserve | None = None,
) -> tuple[float, int, int]:
    """The mean test error, and the messages and rounds of a run."""
    n, errors, messages = graph.agents, [], 0
    try:
        setting = recipe.setting([rows] * n, sets[0][0].shape[1], graph, Budget(epsilon, 1e-5), Trust.of(reserve))
    except tacit.TacitError:
        return float("nan"), 0, 0
    facts = setting.facts
    for X, y in sets:
        mine = scipy.sparse.csr_array(X[: n * rows])
        parts = [(mine[i * rows : (i + 1) * rows], y[i * rows : (i + 1) * rows]) for i in range(n)]
        problem = tacit.Problem(parts, loss=facts.loss, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
        for seed in range(noises):
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
    return float(np.mean(errors)), messages, setting.rounds


def few() -> None:
    """Prints a line for few members with many records, on a ring."""
    sets = [records(seed) for seed in range(4)]
    print("members  rows each  method            error at epsilon 1   at 0.1")
    for members, rows in ((5, 8000), (3, 13333), (5, 4000)):
        for name in ("mr-admm", "pvp", "gradient-descent"):
            ring = tacit.Graph.ring(members)
            one, tenth = (error(RECIPES[name], ring, sets, rows, e, noises=4)[0] for e in (1.0, 0.1))
            print(f"{members:7} {rows:10}  {name:17} {one:18.4f} {tenth:8.4f}", flush=True)


def shared() -> None:
    """Prints a line for every setting of shared noise."""
    sets = [records(seed) for seed in range(4)]
    print("momentum  steps  reach  error at epsilon 1  rounds   at 0.1  rounds")
    usual = RECIPES["shared-descent"]
    for momentum, steps, reach in (
        (0.9, 64, 0.7),
        (0.0, 64, 0.7),
        (0.9, 64, 1.0),
        (0.9, 64, 0.5),
        (0.8, 64, 0.7),
        (0.9, 128, 0.7),
        (0.9, 32, 0.7),
    ):
        recipes._MOMENTUM = momentum
        recipes._CALIBRATED.clear()  # it does not know of this constant
        recipe, all_with_all = replace(usual, solves=steps, reach=reach), tacit.Graph.complete(5)
        (one, _, rounds), (tenth, _, fewer) = (
            error(recipe, all_with_all, sets, 8000, e, noises=4, reserve=Reserve(1)) for e in (1.0, 0.1)
        )
        print(f"{momentum:8} {steps:6} {reach:6} {one:19.4f} {rounds:7} {tenth:8.4f} {fewer:7}", flush=True)


def main() -> None:
    """Prints a line for every number of members, graph and method."""
    if sys.argv[1:] in (["few"], ["shared"]):
        return {"few": few, "shared": shared}[sys.argv[1]]()
    sets = [records(seed) for seed in range(DATA_SETS)]
    print("members  rows each  graph       method            error at epsilon 1   at 0.1  messages")
    for members in map(int, sys.argv[1:] or MEMBERS):
        for total in (TOTAL, TOTAL // 5) if members <= 20 else (TOTAL,):
            for kind, graph in graphs(members).items():
                for name in LOCAL:
                    rows = total // members
                    (one, messages, _), (tenth, _, _) = (error(RECIPES[name], graph, sets, rows, e) for e in (1.0, 0.1))
                    line = f"{members:7} {rows:10}  {kind:11} {name:17} {one:18.4f} {tenth:8.4f} {messages:9,}"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
