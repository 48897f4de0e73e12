"""How the recipes were chosen: on synthetic records, never on the data that results are reported for.

    python benchmarks/tuning.py [METHOD ...] [--jobs N]

Records with eight categorical attributes of 2 to 40 values (shares by a Dirichlet law) and four numbers, labels from a
logistic model with a quarter of positives, rows of norm at most 1: like a census, but made up. Five agents with 8,000
rows each on a random graph with six edges, or, for a token, on a ring. Every method has a grid of losses, noisy steps
and reach. It prints the mean test error over data sets and noise seeds at epsilon = 1 and 0.1, delta = 1e-5.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import scipy.sparse

import tacit
from tacit.core.losses import HuberHinge
from tacit.engines import Local
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES, Recipe

AGENTS, ROWS, TEST = 5, 8000, 5000
DATA_SETS, NOISES = 2, 4
GRIDS = {
    "one-shot": ([1], [0.25, 0.5, 1.0]),
    "gradient-descent": ([50], [0.5, 0.7, 1.0]),
    "dvp": ([16, 32], [0.5, 0.7, 1.0]),
    "pvp": ([48, 96], [0.7, 1.0]),
    "m-admm": ([16, 32], [0.5, 0.7, 1.0]),
    "r-admm": ([16, 32], [1.0, 1.4, 2.0]),
    "mr-admm": ([16, 32], [1.0, 1.4, 2.0]),
    "pi-admm": ([32, 64], [1.0, 1.4, 2.0]),
}
GRAPHS = {"pi-admm": tacit.Graph.ring(AGENTS)}  # a token needs a cycle, which the random graph does not have


def records(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up census records: rows of norm at most 1, labels -1 and +1."""
    rng = np.random.default_rng(seed)
    n = AGENTS * ROWS + TEST
    columns, weights = [], []
    for values in (6, 8, 7, 14, 6, 5, 2, 40):
        chosen = rng.choice(values, size=n, p=rng.dirichlet(np.full(values, 0.5)))
        columns.append(np.eye(values)[chosen])
        weights.append(rng.normal(size=values))
    for _ in range(4):
        columns.append(rng.beta(2, 3, size=(n, 1)))
        weights.append(rng.normal(0, 3, size=1))
    X = np.hstack(columns)
    score = X @ np.concatenate(weights)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-1.6 * (score - np.quantile(score, 0.76)))), 1.0, -1.0)
    X = np.hstack([X, np.ones((n, 1))])
    return X / np.linalg.norm(X, axis=1).max(), y


def error(recipe: Recipe, graph: tacit.Graph, sets: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> float:
    """The mean test error."""
    try:
        setting = recipe.setting([ROWS] * AGENTS, sets[0][0].shape[1], graph, Budget(epsilon, 1e-5))
    except tacit.InputError:
        return float("nan")
    facts, errors = setting.facts, []
    for X, y in sets:
        rows = scipy.sparse.csr_array(X[: AGENTS * ROWS])
        parts = [(rows[i * ROWS : (i + 1) * ROWS], y[i * ROWS : (i + 1) * ROWS]) for i in range(AGENTS)]
        problem = tacit.Problem(parts, loss=facts.loss, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
        for seed in range(NOISES):
            noise = tacit.SeededNoise(seed)
            run = tacit.simulate(setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise)
            errors.append(np.mean(np.sign(X[AGENTS * ROWS :] @ run.model) != y[AGENTS * ROWS :]))
    return float(np.mean(errors))


def tried(sets: list[tuple[np.ndarray, np.ndarray]], what: tuple[str, float, int, float]) -> list[float]:
    """The mean test errors of one point of a grid at both budgets."""
    name, width, solves, reach = what
    graph = GRAPHS.get(name, tacit.Graph.random(AGENTS, 6, seed=0))
    recipe = replace(RECIPES[name], loss=HuberHinge(width), solves=solves, reach=reach)
    return [error(recipe, graph, sets, epsilon) for epsilon in (1.0, 0.1)]


def main() -> None:
    """Prints the grids."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("methods", nargs="*", metavar="METHOD", help=f"by default all: {', '.join(GRIDS)}")
    options.add_argument("--jobs", type=int, help="how many processes work at once; by default one for each core")
    given = options.parse_args()
    sets = [records(seed) for seed in range(DATA_SETS)]
    print("method            loss width  noisy steps  reach   error at epsilon 1   at 0.1")
    with Local(given.jobs).open() as workers:
        for name in given.methods or GRIDS:
            grid = [(name, width, solves, reach) for width in (1.0, 2.0) for solves, reach in product(*GRIDS[name])]
            for (_, width, solves, reach), found in zip(grid, workers.map(partial(tried, sets), grid), strict=True):
                print(f"{name:17} {width:10} {solves:12} {reach:6} {found[0]:20.4f} {found[1]:8.4f}", flush=True)


if __name__ == "__main__":
    main()
