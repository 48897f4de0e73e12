"""`PrivateFusedLogisticRegression` with its defaults on Adult, 40,000 records to train on and 5,222 to test.

    python benchmarks/fused_lasso.py [SEEDS]

Mean test error over seeds (5 by default), each a division of the records and a draw of noise, for three graphs of
features and three budgets. At epsilon = 10,000 there is hardly any noise: what is left is the optimisation's error.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import tacit
from tacit.estimators import PrivateFusedLogisticRegression

GRAPHS: dict[str, Any] = {"`None`": None, '`"path"`, the default': "path", '`"private"`': "private"}


def main() -> None:
    """Prints the table."""
    data = tacit.data.adult()
    splits = [data.split(train=40_000, seed=seed) for seed in range(int(sys.argv[1]) if sys.argv[1:] else 5)]
    print("| epsilon | graph | rounds | edges | test error | range |\n| --- | --- | --- | --- | --- | --- |")
    for epsilon in (1.0, 0.1, 1e4):
        for name, graph in GRAPHS.items():
            errors, edges = [], []
            for seed, (train, test) in enumerate(splits):
                model = PrivateFusedLogisticRegression(epsilon, 1e-5, classes=[-1, 1], graph=graph, random_state=seed)
                errors.append(1 - model.fit(train.X, train.y).score(test.X, test.y))
                edges.append(0 if model.feature_graph_ is None else len(model.feature_graph_.edges()))
            spread = f"{min(errors):.4f} - {max(errors):.4f}"
            print(
                f"| {epsilon:g} | {name} | {model.n_iter_} | {np.mean(edges):.0f} | {np.mean(errors):.4f} | {spread} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
