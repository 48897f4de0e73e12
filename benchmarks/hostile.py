"""What one lying member does to the models of the others, without and with robust listening.

docs/evidence/accuracy.md keeps the table.

    python benchmarks/hostile.py [SEEDS]

Adult, five members on a complete graph, (1, 1e-5) for every record, the recommended method. Each entry is the
mean over the seeds of the honest members' test error, each with its own model.
"""

from __future__ import annotations

import sys

import numpy as np

import tacit
from tacit.exchange.listening import ROBUST
from tacit.lab.comparison.trials import run_setting, trial
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES, recommended
from tacit.run.trust import Trust
from tacit.simulation.hostile import KINDS


def main(seeds: int = 5, method: str | None = None) -> None:
    """Prints the table."""
    data, schema, graph = tacit.data.adult(), tacit.data.adult_schema(), tacit.Graph.complete(5)
    method = method or recommended(schema.label)

    def divide(train: tacit.data.Dataset, seed: int) -> list[np.ndarray]:
        return tacit.data.partition.equal(len(train), 5, seed)

    trials = [trial(data, schema, divide, seed) for seed in range(seeds)]
    recipe, sizes = RECIPES[method].for_label(schema.label), trials[0].sizes
    settings = {
        robust: recipe.setting(sizes, schema.model_dimension, graph, Budget(1.0, 1e-5), Trust(robust=robust))
        for robust in (None, *ROBUST)
    }
    print(f"{method}, {seeds} seeds, radius {settings[None].facts.radius:g}\n")
    print("| one of five members | in the open | " + " | ".join(f"`--robust {name}`" for name in ROBUST) + " |")
    print("| --- |" + " --- |" * (1 + len(ROBUST)))
    for kind in (None, *KINDS):
        cells = []
        for robust in (None, *ROBUST):
            hostile, setting = None if kind is None else f"{kind}:1", settings[robust]
            runs = [run_setting(each, setting, delta=1e-5, hostile=hostile, members=True) for each in trials]
            models = [run.models for run in runs]
            errors = [[m.measured(each.test).miss for m in own] for own, each in zip(models, trials, strict=True)]
            cells.append(np.mean(errors))
        name = "is honest, like the others" if kind is None else f"`--hostile {kind}:1`"
        print(f"| {name} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else None)
