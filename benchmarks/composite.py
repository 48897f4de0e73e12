"""Speed of DP-ADMM with a fused-lasso term (paper 003), against numpy and scipy under the same iterations.

    python benchmarks/speed.py composite

Both peers run the same method: dense rows with matrix products, or CSR rows with scipy's products; the faster one
counts. ijcnn1 is taken by made-up rows of its shape, 49,990 x 22 with 13 values a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from timing import Figure, interleaved, read_once

import tacit
from tacit.algorithms import DPADMM
from tacit.composite import Term, clipped, graph_from_public_sample, graph_guided
from tacit.data import a9a
from tacit.privacy.noise import Noise

ALONE, BUDGET = tacit.Graph.ring(1), tacit.Gaussian(50.0)


def by_hand(X: Any, y: np.ndarray, term: Term, row_norm: float, noise: np.ndarray) -> np.ndarray:
    """The same method in textbook formulas; X and A are dense, or both are CSR."""
    n, d = X.shape
    A: Any = term.A if scipy.sparse.issparse(X) else term.A.toarray()
    step = 1 / (row_norm**2 / 4 + term.norm)
    strength = term.g.strength  # type: ignore[attr-defined]
    x, u = np.zeros(d), np.zeros(A.shape[0])
    for P in noise:
        v = A @ x + u
        z = np.sign(v) * np.maximum(np.abs(v) - strength, 0)
        gradient = X.T @ (-y / (1 + np.exp(y * (X @ x)))) / n
        x = x - step * (gradient + P + A.T @ (v - z))
        u = u + A @ x - z
    return x


def iterations(X: scipy.sparse.csr_array, y: np.ndarray, row_norm: float, what: str, rounds: int) -> Iterator[Figure]:
    """Milliseconds an iteration, with seeded and with secure noise."""
    rows, d = scipy.sparse.csr_array(clipped(X, row_norm)), X.shape[1]
    dense, problem = rows.toarray(), tacit.Problem([(rows, y)])
    term = graph_guided(graph_from_public_sample(rows[:1000], 0.5), 1e-5)
    method = DPADMM(term=term, row_norm=row_norm, budget=BUDGET)
    sigma = float(method.sigma(problem)[0, 0])

    def ours(noise: Noise, rounds: int = rounds) -> np.ndarray:
        return tacit.simulate(method, problem, ALONE, rounds=rounds, noise=noise, measure_every=rounds).model

    def peer(rows: Any) -> np.ndarray:
        return by_hand(rows, y, term, row_norm, sigma * np.random.default_rng(0).normal(size=(rounds, d)))

    drawn = sigma * np.random.default_rng(0).normal(size=(50, 1, d))
    expected = by_hand(dense, y, term, row_norm, drawn[:, 0])
    np.testing.assert_allclose(ours(tacit.RecordedNoise(drawn), 50), expected, atol=1e-10)  # the same method
    seeded, secure, full, sparse, read = (
        1e3 * seconds / rounds
        for seconds in interleaved(
            3,
            lambda: ours(tacit.SeededNoise(0)),
            lambda: ours(tacit.SecureNoise()),
            lambda: peer(dense),
            lambda: peer(rows),
            read_once(rows.data, rows.indices, y),
        )
    )
    best = (full, "dense numpy") if full < sparse else (sparse, "scipy CSR")
    name = f"{what}, {X.shape[0]:,} x {d}, {X.nnz / math.prod(X.shape):.0%} not zero: an iteration"
    read *= rounds
    yield Figure(f"{name}, seeded noise", "ms", seeded, read, "reading the rows once", *best)
    yield Figure(f"{name}, secure noise", "ms", secure, read, "reading the rows once", *best)


def like_ijcnn1() -> tuple[scipy.sparse.csr_array, np.ndarray, float, str]:
    """Rows, labels, the norm to clip the rows to, and a name."""
    rng = np.random.default_rng(0)
    n, d, each = 49_990, 22, 13
    places = np.argsort(rng.random((n, d)), axis=1)[:, :each]
    values = rng.uniform(-0.7, 0.7, size=n * each)
    X = scipy.sparse.csr_array((values, places.ravel(), np.arange(0, n * each + 1, each)), shape=(n, d))
    X.sort_indices()
    return X, np.where(X @ rng.normal(size=d) > 0.5, 1.0, -1.0), 2.0, "rows of ijcnn1's shape"


def figures() -> Iterator[Figure]:
    """Narrow and rather full rows, then sparse ones."""
    yield from iterations(*like_ijcnn1(), rounds=200)
    train, _ = a9a()
    assert train.y is not None
    yield from iterations(scipy.sparse.csr_array(train.X), train.y, math.sqrt(14), "a9a", rounds=200)
