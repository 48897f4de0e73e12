"""The term g(A x - c) that a composite method adds to a smooth loss, and makers of the usual ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from tacit.composite.feature_graph import FeatureGraph
from tacit.composite.prox import L1, Box, Proximable, Stacked
from tacit.errors import InputError, whole
from tacit.privacy.events import Event, Free, known

_DENSE = 300  # columns up to which the spectral norm is computed by a dense method
_CLOSE = 1e-6  # by which the sparse method may be too small

PUBLIC = Free("public: the regulariser does not depend on the data")


@dataclass(frozen=True, eq=False)
class Term:
    """g(A x - c): of min f(x) + g(y) s.t. A x + B y = c (paper 001, (2)) the part with B = -I.

    `cost` is what making A cost. A run that uses the term is charged for it, in a first round of its own.

    >>> Term([[1.0, -1.0]], L1(0.5), c=[1.0]).value(np.array([4.0, 1.0])).tolist()
    [1.0]
    """

    A: Any  # (m, d), kept as CSR
    g: Proximable
    c: Any = 0.0  # (m,), or a number for all
    cost: Event = PUBLIC
    seeded: bool = False  # whether A was made with noise that does not protect
    digest: str = field(init=False, repr=False)  # of A, g and c: what a resumed run must match

    def __post_init__(self) -> None:
        known(self.cost)
        try:
            shape = np.shape(self.A)  # an older scipy makes a matrix of a vector
            A = scipy.sparse.csr_array(self.A, dtype=float)
            c = np.asarray(self.c, dtype=float)
        except (ValueError, TypeError) as error:
            raise InputError(f"A and c of a term must be arrays of numbers: {error}") from None
        if len(shape) != 2 or 0 in shape:
            raise InputError(f"A of a term must be a matrix with rows and columns, not of shape {shape}")
        if c.shape not in ((), (A.shape[0],)):
            raise InputError(f"c has shape {c.shape}; A has {A.shape[0]} rows, so it must be a number or as many")
        if not (np.all(np.isfinite(A.data)) and np.all(np.isfinite(c))):
            raise InputError("A and c of a term must be finite")
        if self.g.size not in (None, A.shape[0]):
            raise InputError(f"g is for {self.g.size} coordinates, but A has {A.shape[0]} rows")
        A.sum_duplicates()
        digest = hashlib.sha256(repr((self.g, A.shape)).encode())
        for array in (A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64), c):
            digest.update(np.ascontiguousarray(array).tobytes())
        for name, value in (("A", A), ("c", c), ("digest", digest.hexdigest())):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """m, the length of y."""
        return int(self.A.shape[0])

    @property
    def dimension(self) -> int:
        """d, the length of x."""
        return int(self.A.shape[1])

    @cached_property
    def norm(self) -> float:
        """||A^T A||_2, or at most a millionth more."""
        if self.dimension <= _DENSE:
            return float(np.linalg.eigvalsh((self.A.T @ self.A).toarray())[-1])
        from scipy.sparse.linalg import eigsh  # 8 MB: only where it is used

        start = np.random.default_rng(0).normal(size=self.dimension)  # fixed: the same step size in every process
        top = eigsh(self.A.T @ self.A, k=1, v0=start, tol=_CLOSE / 10, return_eigenvectors=False)
        return float(top[0]) * (1 + _CLOSE)

    def times(self, x: np.ndarray) -> np.ndarray:
        """A x for each row x of (n, d), as (n, m)."""
        return (self.A @ x.T).T

    def transposed_times(self, w: np.ndarray) -> np.ndarray:
        """A^T w for each row w of (n, m), as (n, d)."""
        return (self._transposed @ w.T).T

    def value(self, x: np.ndarray) -> np.ndarray:
        """g(A x - c) of each row of x, (n,)."""
        x = np.atleast_2d(np.asarray(x, dtype=float))
        if x.shape[1] != self.dimension:
            raise InputError(f"x has length {x.shape[1]}; the term is for {self.dimension}")
        return self.g.value(self.times(x) - self.c)

    @cached_property
    def _transposed(self) -> Any:
        return self.A.T.tocsr()


def constrained(A: Any, B: Any, c: Any, g: Proximable) -> Term:
    """g(y) for A x + B y = c, (2), with any B of independent columns, as a term with B = -I.

    Then y = B^+ (c - A x). If B has more rows than columns, the constraint also asks N^T A x = N^T c of x, where the
    columns of N span what B does not reach: the term has those rows as well, with `Box(0, 0)`. Its value is infinite
    off that constraint, which the iterates meet in the limit.

    Where the columns of B depend on each other (B is wide or singular) y does not follow from x. The problem is then
    min f(x) + G(c - A x) with G(w) = min { g(y) : B y = w }, and no method here has the prox of such a G, also where
    that of g is known. It is refused.

    (3) with B itself is no prox of g unless B^T B = s I. Then DP-ADMM with the printed (3), (5) and (7) is this one at
    a penalty of s rho, if B is square; for another B the steps differ, and the minimiser is the same.

    >>> constrained([[1.0, 0.0]], [[2.0]], [4.0], L1(1.0)).value([0.0, 7.0]).tolist()  # 2 y = 4
    [2.0]
    >>> constrained(np.eye(2), [[1.0], [0.0]], [0.0, 3.0], L1(1.0)).A.toarray().tolist()  # y = -x_1, and x_2 = 3
    [[-1.0, 0.0], [0.0, 1.0]]
    """
    A, B, c = (np.asarray(x.toarray() if scipy.sparse.issparse(x) else x, dtype=float) for x in (A, B, c))
    if B.ndim != 2 or 0 in B.shape or A.ndim != 2 or len(A) != len(B) or c.shape not in ((), (len(B),)):
        raise InputError(f"A x + B y = c needs an A and a B with the same rows, not {A.shape}, {B.shape} and {c.shape}")
    if not (np.all(np.isfinite(A)) and np.all(np.isfinite(B))):
        raise InputError("A and B must be finite")
    rows, k = B.shape
    if np.linalg.matrix_rank(B) < k:
        raise InputError(
            f"the columns of B depend on each other (rank {np.linalg.matrix_rank(B)} of {k}): y does not follow from "
            "x, and min { g(y) : B y = w } has no prox here; take B with independent columns"
        )
    full = np.broadcast_to(c, rows)
    if rows == k:
        return Term(-np.linalg.solve(B, A), g, -np.linalg.solve(B, full))
    inverse, N = np.linalg.pinv(B), np.linalg.svd(B)[0][:, k:]
    N = N * np.where(N[np.abs(N).argmax(axis=0), np.arange(rows - k)] < 0, -1.0, 1.0)  # the same on every machine
    both = Stacked(((k, g), (rows - k, Box(0.0, 0.0))))
    return Term(np.vstack([-inverse @ A, N.T @ A]), both, np.concatenate([-inverse @ full, N.T @ full]))


def lasso(dimension: int, strength: float) -> Term:
    """strength ||x||_1.

    >>> lasso(2, 0.5).value([1.0, -2.0]).tolist()
    [1.5]
    """
    return Term(scipy.sparse.identity(_count("dimension", dimension), format="csr"), L1(strength))


def generalised_lasso(shape: int | Sequence[int], strength: float) -> Term:
    """strength * the sum of |x_i - x_j| over neighbours i, j along a path (a number), or on a grid (a shape, row by
    row).

    >>> generalised_lasso(3, 1.0).A.toarray().tolist()
    [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
    >>> generalised_lasso((2, 3), 1.0).A.shape
    (7, 6)
    """
    lengths = [_count("a side", side) for side in ([shape] if isinstance(shape, int | np.integer) else shape)]
    if not lengths or max(lengths) < 2:
        raise InputError(f"differences need a path or grid of 2 points or more, not {shape}")
    places = np.arange(math.prod(lengths)).reshape(lengths)
    ends = [(np.delete(places, -1, axis).ravel(), np.delete(places, 0, axis).ravel()) for axis in range(len(lengths))]
    first, second = (np.concatenate(side) for side in zip(*ends, strict=True))
    rows = np.arange(len(first))
    entries = np.concatenate([-np.ones(len(rows)), np.ones(len(rows))])
    where = (np.tile(rows, 2), np.concatenate([first, second]))
    return Term(scipy.sparse.csr_array((entries, where), shape=(len(rows), places.size)), L1(strength))


def graph_guided(graph: FeatureGraph, strength: float, *, sparsity: float = 1.0, as_pattern: bool = False) -> Term:
    """strength (||W x||_1 + sparsity ||x||_1): A = [W; I], the graph-guided fused lasso of paper 001, (11).

    W has one row x_i - s_ij x_j for each edge of the graph, s_ij the sign of the edge: the fused lasso of Kim, Sohn and
    Xing (the paper's [21]). With `as_pattern` W is the graph's matrix itself, its "sparsity pattern", as in the paper.

    >>> from tacit.composite.feature_graph import public_graph
    >>> graph_guided(public_graph([[0, -1], [-1, 0]]), 1.0).A.toarray().tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    if not (sparsity >= 0 and math.isfinite(sparsity)):
        raise InputError(f"sparsity must be zero or a positive number, not {sparsity}")
    W = graph.W if as_pattern else graph.differences()
    identity = sparsity * scipy.sparse.identity(graph.W.shape[1], format="csr")
    A = scipy.sparse.vstack([W, identity] if sparsity else [W], format="csr")
    return Term(A, L1(strength), cost=graph.cost, seeded=graph.seeded)


def _count(name: str, value: Any) -> int:
    whole(name, value, 1)
    return int(value)
