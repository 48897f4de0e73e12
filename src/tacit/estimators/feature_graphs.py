"""Graphs of features, as the front takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.covariance import GraphicalLasso

from tacit.algorithms import hyper
from tacit.composite import FeatureGraph, public_graph
from tacit.errors import InputError
from tacit.privacy.events import Free


def inverse_covariance_graph(X: Any, alpha: float) -> FeatureGraph:
    """From a *public* sample of rows, by sparse inverse covariance selection (the paper's [47]): an edge where an entry
    of the graphical lasso's precision is not zero, with the sign of the partial correlation.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3))
    >>> rows[:, 2] -= 2 * rows[:, 0]
    >>> inverse_covariance_graph(rows, alpha=0.3).W.toarray().tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
    """
    hyper.number("alpha", alpha)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X, dtype=float)
    if not np.all(np.ptp(dense, axis=0) > 0):
        raise InputError("a feature of the sample is constant, so it has no correlations: leave it out")
    try:
        precision = GraphicalLasso(alpha=alpha).fit(dense).precision_
    except FloatingPointError:
        raise InputError(
            f"the graphical lasso does not converge on this sample with alpha={alpha}: raise alpha"
        ) from None
    W = -np.sign(np.triu(precision, 1))
    return FeatureGraph(W + W.T, Free("public: the graph of features is from a public sample"))


def from_list(given: Any, features: int) -> FeatureGraph:
    """A matrix, row by row, or pairs. With two features both are two by two: then pairs must be tuples."""
    if len(given) == features and all(isinstance(row, list) and len(row) == features for row in given):
        return public_graph(given)
    return from_pairs(given, features)


def from_pairs(pairs: Any, features: int) -> FeatureGraph:
    """A public graph with an edge of weight 1 for each pair."""
    try:
        places = np.asarray(pairs, dtype=float) if len(pairs) else np.empty((0, 2))
        if places.shape != (len(pairs), 2):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"graph must be pairs of features, such as [(0, 1), (1, 2)], or a matrix with a row and a column for each "
            f"of {features} features; not {pairs!r}"
        ) from None
    if not np.all((places == np.floor(places)) & (places >= 0) & (places < features)) or np.any(
        places[:, 0] == places[:, 1]
    ):
        raise InputError(f"an edge must join two different features from 0 to {features - 1}; not {pairs!r}")
    i, j = places.astype(int).T
    W = scipy.sparse.csr_array((np.ones(len(i)), (np.minimum(i, j), np.maximum(i, j))), shape=(features, features))
    W.data[:] = 1.0  # a pair that occurs twice is one edge
    return public_graph(W + W.T)


def evened(graph: FeatureGraph) -> FeatureGraph:
    """The same edges, at the same cost, with weights such that no feature is pulled harder than on a path: there the
    weights of its edges add up to 2.

    >>> star = public_graph([[0, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    >>> evened(star).W.sum(axis=0).tolist()
    [2.0, 0.5, 0.5, 0.5, 0.5]
    """
    pull = abs(graph.W).sum(axis=0)
    W = graph.W.tocoo()
    weights = W.data * np.minimum(1.0, 2.0 / np.maximum(pull[W.row], pull[W.col]))
    return FeatureGraph(scipy.sparse.csr_array((weights, (W.row, W.col)), shape=W.shape), graph.cost, graph.seeded)
