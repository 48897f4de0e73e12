"""What one lying member does to the models of the others, without and with robust listening (docs/results.md).

    python benchmarks/hostile.py [SEEDS]

Adult, five members on a complete graph, (1, 1e-5) for every record, the recommended method. Each entry is the
mean over the seeds of the honest members' test error, each with its own model.
"""

from __future__ import annotations

import sys

import numpy as np

import tacit
from tacit.attacks.poisoning import KINDS
from tacit.cli.compare import trial
from tacit.exchange.listening import ROBUST
from tacit.workflows.comparison import Trial, Trust, _error, _run
from tacit.workflows.recipes import RECIPES, RECOMMENDED


def main(seeds: int = 5, method: str = RECOMMENDED) -> None:
    """Prints the table."""
    data, graph = tacit.data.adult(), tacit.Graph.complete(5)
    trials = [trial(data, lambda train, s: tacit.data.partition.equal(len(train), 5, s), seed) for seed in range(seeds)]
    setting = RECIPES[method].setting(trials[0].sizes, trials[0].dimension, graph, 1.0, 1e-5)
    print(f"{method}, {seeds} seeds, radius {setting.facts.radius:g}, majority {_majority(trials):.4f}\n")
    print("| one of five members | in the open | " + " | ".join(f"`--robust {name}`" for name in ROBUST) + " |")
    print("| --- |" + " --- |" * (1 + len(ROBUST)))
    for kind in (None, *KINDS):
        cells = []
        for robust in (None, *ROBUST):
            trust = Trust(robust, None if kind is None else f"{kind}:1")
            models = [np.asarray(_run(each, graph, setting, 1e-5, trust=trust, members=True).models) for each in trials]
            cells.append(np.mean([_error(m, each.test) for m, each in zip(models, trials, strict=True)]))
        name = "is honest, like the others" if kind is None else f"`--hostile {kind}:1`"
        print(f"| {name} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |", flush=True)


def _majority(trials: list[Trial]) -> float:
    shares = [float(np.mean(each.test.y > 0)) for each in trials if each.test.y is not None]
    return float(np.mean([min(share, 1 - share) for share in shares]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else RECOMMENDED)
