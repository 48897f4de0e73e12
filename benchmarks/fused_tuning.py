"""How the defaults of `PrivateFusedLogisticRegression` were chosen: on synthetic records, never on Adult.

    python benchmarks/fused_tuning.py [NAME ...]

Three kinds of records. "census": the 40,000 of `benchmarks/tuning.py`, without its intercept. "sparse": 8,000 rows of
20 normal numbers, half of which do not matter. "alike": 8,000 rows of 40 normal numbers, whose true weights come in
runs of eight equal ones, as the path of the fused lasso assumes. Each constant of `tacit.run.composite_pace`,
and the method, has a grid, with the others as they are. It prints the mean test error over data sets and noise seeds at
epsilon = 1 and 0.1, delta = 1e-5.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse
import tuning

from tacit.estimators import PrivateFusedLogisticRegression
from tacit.run import composite_pace

DATA_SETS, NOISES, TEST = 2, 3, 5000
GRIDS: dict[str, list[Any]] = {
    "NOISE": [0.25, 0.35, 0.5, 0.7, 1.0, 1.4],
    "INTERCEPT": [0.1, 0.2, 0.3, 0.5, 1.0],
    "STRENGTH": [0.05, 0.1, 0.2, 0.4, 0.8],
    "PENALTY": [0.05, 0.25, 1.0],
    "average": [False, True],
    "graph": [None, "path", "private"],
}
Records = tuple[Any, np.ndarray]


def census(seed: int) -> Records:
    """Attributes with few values, one feature each value."""
    X, y = tuning.records(seed)
    X = X[:, :-1]
    return scipy.sparse.csr_array(X / np.linalg.norm(X, axis=1).max()), y


def numbers(seed: int, weights: np.ndarray, shift: float) -> Records:
    """Normal numbers, rows of norm 1 or so, labels from a logistic model."""
    rng, d = np.random.default_rng(seed), len(weights)
    X = rng.normal(size=(8000 + TEST, d))
    return X / np.sqrt(d), np.where(rng.random(len(X)) < 1 / (1 + np.exp(shift - 2 * X @ weights)), 1.0, -1.0)


def sparse(seed: int) -> Records:
    """Half of the features do not matter."""
    rng = np.random.default_rng(100 + seed)
    return numbers(seed, rng.normal(size=20) * (rng.random(20) < 0.5), 1.0)


def alike(seed: int) -> Records:
    """Neighbours on the path have the same weight."""
    return numbers(seed, np.repeat(np.random.default_rng(200 + seed).normal(size=5), 8) / 2, 1.0)


def error(sets: list[Records], epsilon: float, **settings: Any) -> float:
    """The mean test error."""
    errors = []
    for X, y in sets:
        n = X.shape[0] - TEST
        for seed in range(NOISES):
            model = PrivateFusedLogisticRegression(epsilon, 1e-5, random_state=seed, **settings).fit(X[:n], y[:n])
            errors.append(1 - model.score(X[n:], y[n:]))
    return float(np.mean(errors))


def main() -> None:
    """Prints the grids."""
    kinds = {f.__name__: [f(seed) for seed in range(DATA_SETS)] for f in (census, sparse, alike)}
    print("setting              " + "".join(f"{kind + ', ' + e:>13}" for kind in kinds for e in ("1", "0.1")))
    for name in sys.argv[1:] or GRIDS:
        usual = getattr(composite_pace, name, None)
        for value in GRIDS[name]:
            settings = {name: value} if usual is None else {}
            if usual is not None:
                setattr(composite_pace, name, value)
            found = [error(sets, epsilon, **settings) for sets in kinds.values() for epsilon in (1.0, 0.1)]
            print(f"{name:10} {value!s:10}" + "".join(f"{x:13.4f}" for x in found), flush=True)
        if usual is not None:
            setattr(composite_pace, name, usual)


if __name__ == "__main__":
    main()
