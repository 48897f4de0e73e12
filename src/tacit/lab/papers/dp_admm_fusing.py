"""Does fusing help on real data? The graph-guided term of paper 001 beside the lasso, on ordered features.

A number becomes bands of about as many rows each, one column for a band, and neighbouring bands belong together: that
is public, and W costs nothing. The pixels of the digits belong together with those beside and below. Data sets: the
embedded Adult, and three that come with scikit-learn, where that is installed. Without noise: the question is whether
the term gains anything that noise could take away. Each term has the best of five strengths by a third of the rows,
and is compared by the logistic loss on another third; every seed splits the rows anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from tacit.algorithms import AcceleratedDPADMM
from tacit.composite import FeatureGraph, Term, graph_guided, lasso, public_graph
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.data import adult_table
from tacit.lab.papers.experiment import Claim, Lab, Panel, PaperFigure, Series
from tacit.simulation.simulate import simulate

STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
LASSO, FUSED, BOTH = "lasso", "differences alone", "differences and lasso"
PENALTY, SEEDS, ADULT = 0.003, 5, 3000  # ADULT: rows of it
_ALONE = Graph.ring(1)


class Ordered(NamedTuple):
    """Rows with ordered features, labels, and which features belong together."""

    X: np.ndarray
    y: np.ndarray
    graph: FeatureGraph


def fusing(lab: Lab) -> PaperFigure:
    """The test loss against the strength of each term."""
    rounds, seeds = 6 * lab.size.rounds, range(min(SEEDS, lab.size.runs))
    panels, claims, notes = [], [], []
    found = list(data_sets())
    if len(found) == 1:
        notes.append("left out: the data sets of scikit-learn, which is not installed")
    for name, data in found:
        losses = np.array(lab.map(f"fusing on {name}", partial(_losses, data, rounds), seeds))  # (seeds, terms, 2, s)
        series = [Series.of(t, STRENGTHS, losses[:, k, 1], "o-") for k, t in enumerate((LASSO, FUSED, BOTH))]
        panels.append(Panel(name, "strength", "test loss", series, log_x=True))
        best = np.take_along_axis(losses[:, :, 1], losses[:, :, 0].argmin(axis=2)[:, :, None], axis=2)[:, :, 0]
        claims.append(
            Claim(
                "(11)",
                "tacit",
                f"{name}: the graph-guided term has a lower test loss than the lasso, with or without its own lasso",
                "; ".join(f"{t} {best[:, k].mean():.4f}" for k, t in enumerate((LASSO, FUSED, BOTH))),
                {t: best[:, k] < best[:, 0] for k, t in ((1, FUSED), (2, BOTH))},
            )
        )
    return PaperFigure("Does fusing help? Test loss without noise", panels, claims, notes)


def data_sets() -> Iterator[tuple[str, Ordered]]:
    """The data sets that are at hand, each with its name."""
    columns = adult_table().columns
    y = np.where(np.char.startswith(np.asarray(columns["income"]).astype(str), ">50K"), 1.0, -1.0)
    numbers = [name for name, values in columns.items() if _is_numbers(values) and name != "fnlwgt"]
    chosen = np.random.default_rng(0).permutation(len(y))[:ADULT]
    values = [np.asarray(columns[name], dtype=float)[chosen] for name in numbers]
    yield "Adult, its numbers in 50 bands", _banded(values, y[chosen], 50)
    try:
        from sklearn import datasets
    except ModuleNotFoundError:
        return
    X, target = datasets.load_diabetes(return_X_y=True)
    numbers_of = [X[:, k] for k in range(X.shape[1]) if len(np.unique(X[:, k])) > 2]
    yield "diabetes, in 10 bands", _banded(numbers_of, np.where(target > np.median(target), 1.0, -1.0), 10)
    X, target = datasets.load_breast_cancer(return_X_y=True)
    yield "breast cancer, means in 10 bands", _banded(list(X.T[:10]), np.where(target > 0, 1.0, -1.0), 10)
    X, target = datasets.load_digits(return_X_y=True)
    yield "digits, odd or even, 8 x 8 pixels", Ordered(_rows(X / 16), np.where(target % 2, 1.0, -1.0), _grid(8))


def _is_numbers(values: object) -> bool:
    try:
        np.asarray(values, dtype=float)
    except ValueError:
        return False
    return True


def _banded(numbers: list[np.ndarray], y: np.ndarray, bands: int) -> Ordered:
    """One column for each band of each number; bands without a row are left out."""
    columns, sizes = [], []
    for values in numbers:
        ends = np.unique(np.quantile(values, np.linspace(0, 1, bands + 1)[1:-1]))
        band = np.searchsorted(ends, values, side="right")
        present = np.unique(band)
        columns.append((band[:, None] == present).astype(float))
        sizes.append(len(present))
    X = _rows(np.hstack(columns))
    W = np.zeros((X.shape[1], X.shape[1]))
    for size, end in zip(sizes, np.cumsum(sizes), strict=True):
        first = np.arange(end - size, end - 1)
        W[first, first + 1] = W[first + 1, first] = 1
    return Ordered(X, y, public_graph(W))


def _grid(side: int) -> FeatureGraph:
    places = np.arange(side * side).reshape(side, side)
    W = np.zeros((side * side + 1, side * side + 1))
    for a, b in ((places[:-1], places[1:]), (places[:, :-1], places[:, 1:])):
        W[a.ravel(), b.ravel()] = W[b.ravel(), a.ravel()] = 1
    return public_graph(W)


def _rows(X: np.ndarray) -> np.ndarray:
    """With a column of ones, and rows of norm 1 at most."""
    X = np.hstack([X, np.ones((len(X), 1))])
    scaled: np.ndarray = X / np.linalg.norm(X, axis=1).max()
    return scaled


def _losses(data: Ordered, rounds: int, seed: int) -> np.ndarray:
    """(terms, 2, strengths): the loss on the rows that choose, and on the test rows."""
    train, choose, test = np.array_split(np.random.default_rng(seed).permutation(len(data.y)), 3)
    problem = Problem([(data.X[train], data.y[train])])

    def loss(model: np.ndarray, rows: np.ndarray) -> float:
        return float(np.logaddexp(0, -data.y[rows] * (data.X[rows] @ model)).mean())

    found = []
    for strength in STRENGTHS:
        terms: list[Term] = [lasso(problem.dimension, strength)]
        terms += [graph_guided(data.graph, strength, sparsity=sparsity) for sparsity in (0.0, 1.0)]
        for term in terms:
            method = AcceleratedDPADMM(term=term, penalty=PENALTY)
            model = simulate(method, problem, _ALONE, rounds=rounds, measure_every=rounds).model
            found.append([loss(model, choose), loss(model, test)])
    return np.array(found).reshape(len(STRENGTHS), 3, 2).transpose(1, 2, 0)
