"""Models of every kind of label: exact and private, beside what a user would pick instead.

    python benchmarks/labels.py [SET ...]

Five members on a ring with equal shares of the records; one tenth is held out. Five seeds choose the division and the
noise. `tacit` trains apart; scikit-learn and diffprivlib (pip install diffprivlib 'scikit-learn<1.7'; left out if it is
missing) get the pooled records, encoded in the same way. Sets: adult; rare (6% positives), wards (six classes) and stay
(a number), which are made up, 40,000 records each; digits and diabetes are scikit-learn's, with few records.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression

import tacit
from tacit.data import Category, Classes, Dataset, Label, Multiclass, Number, Schema, Target, partition
from tacit.run.budget import Budget
from tacit.run.metrics import Metrics, Numbers, TwoClasses, numbers, several_classes, two_classes
from tacit.run.recipes import recommended
from tacit.run.request import Request
from tacit.run.training import hold_out, train, train_privately

SEEDS, AGENTS, DELTA, RECORDS = 5, 5, 1e-5, 40_000


class Records(NamedTuple):
    """Encoded records, and how they were encoded."""

    data: Dataset
    schema: Schema


def made_up(label: Label, y: Callable[[np.ndarray, np.random.Generator], np.ndarray], seed: int = 7) -> Records:
    """Eight numbers and two categories of five values each; `y` makes labels of a score and a generator."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{k}": rng.random(RECORDS) for k in range(8)})
    score = frame.to_numpy() @ rng.normal(0, 1.5, size=8)
    for name in ("town", "ward type"):
        chosen = rng.integers(5, size=RECORDS)
        frame[name] = np.array(list("abcde"))[chosen]
        score = score + rng.normal(0, 0.7, size=5)[chosen]
    frame[label.column] = y((score - score.mean()) / score.std(), rng)
    columns = [*(Number(f"x{k}", bounds=(0, 1)) for k in range(8))]
    categories = [Category(name, categories=tuple("abcde")) for name in ("town", "ward type")]
    schema = Schema(label=label, columns=(*columns, *categories), intercept=True, row_norm=1.0)
    return Records(schema.encode(frame), schema)


def rare() -> Records:
    """Six in a hundred are positive; the best possible AUC is about 0.8."""

    def ill(score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noisy = score + rng.logistic(scale=0.6, size=len(score))
        return np.where(noisy > np.quantile(noisy, 0.94), "yes", "no")

    return made_up(Classes("ill", positive=("yes",), negative=("no",), positive_share=0.06), ill)


def wards() -> Records:
    """Six classes, along two directions."""
    names = tuple("ABCDEF")

    def ward(score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        at = np.digitize(score + 0.3 * rng.normal(size=len(score)), [-1.2, -0.5, 0.1, 0.6, 1.3])
        return np.array(names)[at]

    return made_up(Multiclass("ward", classes=names), ward)


def stay() -> Records:
    """Days in hospital, between 0 and 30."""

    def days(score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.clip(12 + 5 * score + 3 * rng.normal(size=len(score)), 0, 30)

    return made_up(Target("days", bounds=(0, 30)), days)


def _shipped(bunch: Any, bounds: Callable[[np.ndarray], tuple[float, float]], label: Label) -> Records:
    frame = pd.DataFrame(bunch.data, columns=[f"f{k}" for k in range(bunch.data.shape[1])])
    columns = tuple(Number(name, bounds=bounds(bunch.data)) for name in frame)
    frame[label.column] = bunch.target if isinstance(label, Target) else bunch.target.astype(str)
    schema = Schema(label=label, columns=columns, intercept=True, row_norm=1.0)
    return Records(schema.encode(frame), schema)


def digits() -> Records:
    """1,797 images of 8 x 8 pixels, ten classes."""
    return _shipped(load_digits(), lambda X: (0, 16), Multiclass("digit", classes=tuple("0123456789")))


def diabetes() -> Records:
    """442 patients, ten measurements that scikit-learn has scaled to about 0.05, a number between 25 and 346."""
    return _shipped(load_diabetes(), lambda X: (-0.2, 0.2), Target("progress", bounds=(0, 350)))


def adult() -> Records:
    """UCI Adult."""
    return Records(tacit.data.adult(), tacit.data.adult_schema())


SETS = {each.__name__: each for each in (adult, rare, wards, stay, digits, diabetes)}


def shown(found: list[Any]) -> str:
    """The mean of the main figures over the seeds."""
    miss = float(np.mean([m.miss for m in found]))
    if isinstance(found[0], TwoClasses):
        return f"error {miss:.4f}, AUC {np.mean([m.auc for m in found]):.4f}"
    if isinstance(found[0], Numbers):
        return f"RMSE {miss:.4g}, R^2 {np.mean([m.r2 for m in found]):.3f}"
    return f"error {miss:.4f}"


def of_peer(model: Any, label: Label, fit: Dataset, test: Dataset) -> Metrics:
    """A model of scikit-learn or diffprivlib, by the same measures."""
    assert test.y is not None
    seen, new = (data.X if isinstance(data.X, np.ndarray) else data.X.toarray() for data in (fit, test))
    model.fit(seen, fit.y)
    if isinstance(label, Target):
        lo, hi = label.bounds
        scaled = np.clip(model.predict(new), -1, 1)
        return numbers(lo + (test.y + 1) / 2 * (hi - lo), lo + (scaled + 1) / 2 * (hi - lo))
    if isinstance(label, Multiclass):
        return several_classes(test.y, model.predict(new), model.predict_proba(new))
    scores = model.decision_function(new)
    return two_classes(test.y, scores, scores > 0)


def peers(label: Label, epsilon: float | None) -> Any | None:
    """scikit-learn's model without a budget, diffprivlib's with one; None if there is none."""
    if epsilon is None:
        return LinearRegression() if isinstance(label, Target) else LogisticRegression(C=1e3, max_iter=5000)
    try:
        from diffprivlib import models
    except ImportError:
        return None
    if isinstance(label, Target):
        return models.LinearRegression(epsilon=epsilon, bounds_X=(0, 1), bounds_y=(-1, 1), fit_intercept=False)
    return models.LogisticRegression(epsilon=epsilon, data_norm=1.0, max_iter=1000, fit_intercept=False)


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    print("| records | method | exact | (1, 1e-5) | (0.1, 1e-5) |\n| --- | --- | --- | --- | --- |")
    for name in sys.argv[1:] or SETS:
        data, schema = SETS[name]()
        label, graph = schema.label, tacit.Graph.ring(AGENTS)
        found: dict[tuple[str, float | None], list[Metrics]] = {}
        for seed in range(SEEDS):
            parts, held = hold_out(partition.equal(len(data), AGENTS, seed), 0.1, seed)
            fit, test = data.take(np.concatenate(parts)), data.take(held)
            plain = replace(label, positive_share=None) if isinstance(label, Classes) else label
            exact = Request().on(replace(schema, label=plain), parts, graph)
            together = train(exact, data, schema, parts, test=test).together.measured
            assert together is not None
            found.setdefault(("five members, tacit", None), []).append(together)
            for epsilon in (1.0, 0.1):
                setting = Request(Budget(epsilon, DELTA), method=recommended(label)).on(schema, parts, graph)
                trained = train_privately(setting, data, schema, parts, noise=tacit.SeededNoise(seed), test=test)
                assert trained.measured is not None
                found.setdefault(("five members, tacit", epsilon), []).append(trained.measured)
            for budget in (None, 1.0, 0.1):
                if (model := peers(label, budget)) is not None:
                    who = "pooled, scikit-learn and diffprivlib"
                    found.setdefault((who, budget), []).append(of_peer(model, label, fit, test))
        for who in dict.fromkeys(who for who, _ in found):
            cells = [shown(found[who, e]) if (who, e) in found else "-" for e in (None, 1.0, 0.1)]
            print(f"| {name}, {len(data):,} | {who} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
