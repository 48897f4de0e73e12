"""Which features belong together: the graph W of the graph-guided fused lasso, and what learning it costs.

Paper 001 takes W from the private data (sparse inverse covariance selection) and charges nothing: an error. Here W is
public, or from a public sample, or private by a Gaussian mechanism on the second moments; every `FeatureGraph` carries
its cost, and a run that uses it is charged (`tacit.composite.term.Term.cost`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import ndtri

from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.privacy.events import Event, Free, Gaussian, Unprotected, known
from tacit.privacy.mechanisms import second_moment_perturbed
from tacit.privacy.noise import Noise

_FALSE = 0.05  # the probability that a private graph has a false edge


@dataclass(frozen=True, eq=False)
class FeatureGraph:
    """A symmetric matrix W of feature pairs: +1 where two features rise together, -1 where one falls as the other
    rises (any other weights are possible). The diagonal does not count."""

    W: Any  # (d, d), kept as CSR
    cost: Event
    seeded: bool = False  # whether its noise came from a seed: then it does not protect

    def __post_init__(self) -> None:
        known(self.cost)
        try:
            W = scipy.sparse.csr_array(self.W, dtype=float)
        except (ValueError, TypeError) as error:
            raise InputError(f"W must be a matrix of numbers: {error}") from None
        if W.ndim != 2 or W.shape[0] != W.shape[1] or W.shape[0] == 0:
            raise InputError(f"W must be a square matrix, features by features, not of shape {W.shape}")
        if not np.all(np.isfinite(W.data)):
            raise InputError("W must be finite")
        if abs(W - W.T).max() > 0:
            raise InputError("W must be symmetric: a pair of features has one weight")
        W.eliminate_zeros()
        object.__setattr__(self, "W", W)

    def edges(self) -> np.ndarray:
        """The pairs i < j that belong together, (edges, 2)."""
        upper = scipy.sparse.triu(self.W, k=1).tocoo()
        return np.stack([upper.row, upper.col], axis=1)

    def differences(self) -> Any:
        """One row |w_ij| (x_i - sign(w_ij) x_j) for each edge, as CSR."""
        upper = scipy.sparse.triu(self.W, k=1).tocoo()
        rows = np.arange(upper.nnz)
        entries = np.concatenate([np.abs(upper.data), -upper.data])
        where = (np.tile(rows, 2), np.concatenate([upper.row, upper.col]))
        return scipy.sparse.csr_array((entries, where), shape=(upper.nnz, self.W.shape[0]))


def public_graph(W: Any) -> FeatureGraph:
    """A W that was fixed without looking at the data."""
    return FeatureGraph(W, Free("public: the graph of features was given"))


def graph_from_public_sample(X: Any, threshold: float) -> FeatureGraph:
    """From rows that are public themselves: edges where the correlation about zero is above the threshold.

    >>> graph_from_public_sample([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], threshold=0.9).edges().tolist()
    [[0, 1]]
    """
    moment = Problem([(X, np.ones(np.shape(X)[0]))]).second_moment()[0]
    return FeatureGraph(_pattern(moment, threshold), Free("public: the graph of features is from a public sample"))


def private_graph(
    problem: Problem, noise: Noise, budget: Gaussian, threshold: float, *, row_norm: float = 1.0
) -> FeatureGraph:
    """From the private rows, by a Gaussian mechanism on their second moments. The run that uses the graph is charged
    the `budget`. Edges are where the correlation is above the `threshold` whatever the noise: with a probability of
    95% no edge is false, however rare a feature is. Rows longer than `row_norm` are refused."""
    _one_agent(problem)
    d = problem.dimension
    release = second_moment_perturbed(problem, noise, budget, row_norm=row_norm, ids=np.array([0]), t=0)
    moment = np.zeros((d, d))
    moment[np.triu_indices(d)] = release.value[0]
    doubt = _doubt(int(problem.sizes[0]), d, budget, row_norm)
    W = _pattern(moment + np.triu(moment, 1).T, threshold, doubt)
    return FeatureGraph(W, release.events[0], seeded=not noise.private)


def require_visible(rows: int, dimension: int, budget: Gaussian, threshold: float, *, row_norm: float = 1.0) -> None:
    """Refuses, from public facts alone, a `private_graph` that cannot have an edge.

    The second moments of all features add up to at most row_norm^2, so those of two equal features are at most half of
    it. Noise must leave enough of that.
    """
    doubt, most = _doubt(rows, dimension, budget, row_norm), row_norm**2 / 2
    if most - doubt / math.sqrt(2) <= threshold * (most + doubt):
        raise InputError(
            f"the noise of a private graph hides every correlation of {rows:,} rows with {dimension} features at "
            f"multiplier {budget.multiplier:.3g}: give a public graph or none, more rows, or more of the budget"
        )


def graph_as_printed(problem: Problem, threshold: float, *, as_printed: bool = False) -> FeatureGraph:
    """From the private rows as they are, as the paper does: nothing that uses it is private, and its runs say so."""
    if not as_printed:
        raise InputError("a graph from private rows leaks: use private_graph, or say as_printed=True")
    _one_agent(problem)
    return FeatureGraph(_pattern(problem.second_moment()[0], threshold), Unprotected())


def _doubt(rows: int, dimension: int, budget: Gaussian, row_norm: float) -> float:
    """By how much noise moves the entries on the diagonal of the second moments: by at most this, and the others by
    1/sqrt(2) of it, all at once with a probability of 95%."""
    deviation = budget.multiplier * math.sqrt(2) * row_norm**2 / rows  # as in `second_moment_perturbed`
    return float(ndtri(1 - _FALSE / (dimension * (dimension + 1)))) * deviation


def _pattern(moment: np.ndarray, threshold: float, doubt: float = 0.0) -> Any:
    """The sign of M_ij where |M_ij| / sqrt(M_ii M_jj) exceeds the threshold, even if each is off by its `doubt`; a
    variance not above zero has no edges."""
    if not 0 < threshold < 1:
        raise InputError(f"the threshold of a correlation lies between 0 and 1, not at {threshold}")
    scale = np.sqrt(np.maximum(np.diag(moment) + doubt, 0.0))
    sure = np.abs(moment) - doubt / math.sqrt(2)
    strong = (sure > threshold * np.outer(scale, scale)) & (np.outer(scale, scale) > 0)
    np.fill_diagonal(strong, False)
    return scipy.sparse.csr_array(np.where(strong, np.sign(moment), 0.0))


def _one_agent(problem: Problem) -> None:
    if problem.agents != 1:
        raise InputError(f"a composite problem has one agent, not {problem.agents}; problem.pooled() makes one")
