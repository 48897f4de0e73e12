"""The ends of a Laplacian's spectrum, by all eigenvalues for small graphs, by bounds for large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse

# Of scipy, the parts that only this module needs of a graph are imported where they are used: they take 11 MB.
MOST_AGENTS = 2000  # beyond, all eigenvalues take too long
_STEPS = 30  # restarts of the search for the least one
_MANY = 100_000  # agents, of whose graphs the search would not end with this accuracy in so many restarts


def ends(adjacency: scipy.sparse.csr_array) -> tuple[float, float]:
    """The least and the largest of the eigenvalues above zero, of a connected graph of two agents or more.

    Of large graphs the largest is a bound that holds, the greatest sum of two neighbours' degrees (Anderson and Morley
    1985). The least is found by Lanczos iterations, less their error, or bounded by 4/(N diameter) (Mohar 1991).
    """
    n, degree = adjacency.shape[0], np.diff(adjacency.indptr).astype(float)
    if n <= MOST_AGENTS:
        found = np.linalg.eigvalsh(np.diag(degree) - adjacency.toarray())  # ascending
        return float(found[1]), float(found[-1])
    largest = float(min(n, (np.repeat(degree, np.diff(adjacency.indptr)) + degree[adjacency.indices]).max()))
    return max(_least(adjacency.astype(float), degree, largest), 2 / (n * _depth(adjacency))), largest


def _least(adjacency: scipy.sparse.csr_array, degree: np.ndarray, largest: float) -> float:
    """A number not above the least eigenvalue but for what Lanczos iterations overlook; zero if they do not end."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    def upside_down(x: np.ndarray) -> np.ndarray:  # the least becomes the largest, and constants become zero
        x = x.ravel()
        return (top - degree) * x + adjacency @ x - top * x.mean()

    n, top = len(degree), 1.1 * largest
    start = np.random.default_rng(0).standard_normal(n)
    try:
        value, vector = eigsh(
            LinearOperator((n, n), matvec=upside_down, dtype=float),
            k=1, which="LA", v0=start - start.mean(), tol=1e-4 if n <= _MANY else 1e-2, maxiter=_STEPS,
        )  # fmt: skip
    except ArpackError:
        return 0.0
    error = np.linalg.norm(upside_down(vector[:, 0]) - value[0] * vector[:, 0])
    return float(top - value[0] - error)


def _depth(adjacency: scipy.sparse.csr_array) -> int:
    """How many steps the farthest agent is away from agent 0; the diameter is at most twice that."""
    from scipy.sparse.csgraph import breadth_first_order

    order, parent = breadth_first_order(adjacency, 0)
    depth, rank = 0, np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    last = len(order) - 1
    while last:
        last, depth = int(rank[parent[order[last]]]), depth + 1
    return depth
