"""How the losses for numbers and for several classes were chosen: on the made-up records of benchmarks/tuning.py.

    python benchmarks/tuning_labels.py [numbers] [classes]

The same features; the label is a number in [-1, 1] (a linear score plus noise, scaled so that 2% of the labels are cut
off), or one of six classes of unequal shares. It prints the mean over data sets and noise seeds of the RMSE, relative
to that of the mean label, or of the error, at epsilon = 1 and 0.1, delta = 1e-5.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import scipy.sparse
from tuning import AGENTS, ROWS, records

import tacit
from tacit.core.losses import PseudoHuber
from tacit.core.multinomial import Multinomial
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES, Recipe

DATA_SETS, NOISES, CLASSES = 2, 2, 6
GRAPH = tacit.Graph.random(AGENTS, 6, seed=0)


def labelled(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1, and labels."""
    X, _ = records(seed)
    rng = np.random.default_rng(100 + seed)
    if kind == "numbers":
        score = X @ rng.normal(size=X.shape[1])
        noisy = score + 0.7 * score.std() * rng.normal(size=len(X))
        lo, hi = np.quantile(noisy, [0.01, 0.99])
        return X, np.clip(2 * (noisy - lo) / (hi - lo) - 1, -1, 1)
    scores = 12 * X @ rng.normal(size=(X.shape[1], CLASSES)) + rng.normal(size=CLASSES)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(float)


def measured(recipe: Recipe, sets: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> float:
    """The mean relative RMSE, or the mean error."""
    several = isinstance(recipe.loss, Multinomial)
    dimension = sets[0][0].shape[1] * (CLASSES if several else 1)
    try:
        setting = recipe.setting([ROWS] * AGENTS, dimension, GRAPH, Budget(epsilon, 1e-5))
    except tacit.InputError:
        return float("nan")
    facts, found, n = setting.facts, [], AGENTS * ROWS
    for X, y in sets:
        rows = scipy.sparse.csr_array(X[:n])
        parts = [(rows[i * ROWS : (i + 1) * ROWS], y[i * ROWS : (i + 1) * ROWS]) for i in range(AGENTS)]
        problem = tacit.Problem(parts, loss=facts.loss, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
        for seed in range(NOISES):
            run = tacit.simulate(
                setting.algorithm,
                problem,
                GRAPH,
                rounds=setting.rounds,
                noise=tacit.SeededNoise(seed),
                measure_every=setting.rounds,
            )
            if several:
                found.append(np.mean((X[n:] @ run.model.reshape(CLASSES, -1).T).argmax(axis=1) != y[n:]))
            else:
                miss = np.clip(X[n:] @ run.model, -1, 1) - y[n:]
                found.append(np.sqrt(np.mean(miss**2)) / np.std(y[n:]))
    return float(np.mean(found))


def main() -> None:
    """Prints the grids."""
    wanted = sys.argv[1:] or ["numbers", "classes"]
    if "numbers" in wanted:
        sets = [labelled("numbers", seed) for seed in range(DATA_SETS)]
        print("method            width   reach   RMSE at epsilon 1   at 0.1")
        for name in ("pvp",):
            for width in (0.1, 0.25, 0.5):
                for reach in (1.4, 2.8, 5.6, 11.2):
                    recipe = replace(RECIPES[name], loss=PseudoHuber(width), reach=reach)
                    both = [measured(recipe, sets, epsilon) for epsilon in (1.0, 0.1)]
                    print(f"{name:17} {width:5} {reach:7} {both[0]:19.4f} {both[1]:8.4f}", flush=True)
    if "classes" in wanted:
        sets = [labelled("classes", seed) for seed in range(DATA_SETS)]
        print("method            noisy steps  reach   error at epsilon 1   at 0.1")
        steps_of = {"pvp": 32, "gradient-descent": 50, "dvp": 32, "m-admm": 32, "r-admm": 32, "mr-admm": 32}
        for name, steps in steps_of.items():
            for reach in (0.35, 0.7, 1.4):
                recipe = replace(RECIPES[name], loss=Multinomial(CLASSES), solves=steps, reach=reach)
                both = [measured(recipe, sets, epsilon) for epsilon in (1.0, 0.1)]
                print(f"{name:17} {steps:11} {reach:6} {both[0]:20.4f} {both[1]:8.4f}", flush=True)


if __name__ == "__main__":
    main()
