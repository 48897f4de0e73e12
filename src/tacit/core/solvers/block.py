"""Values, gradients and exact minimisers for many agents at once; no agent's result depends on the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tacit.core import jit, losses
from tacit.core.jit import drop_stale_kernels, entry
from tacit.core.solvers import gram, newton_cg, quasi_newton
from tacit.core.solvers.dense import combine
from tacit.core.solvers.rows import Rows, SparseRows, add_transposed_times, at_once, sparse_inner_products, times


@entry
def _values(ids, kind, shape, rows, lo, hi, y, c, f, out):  # type: ignore[no-untyped-def]
    """out[k] = sum over the rows of agent ids[k] of c_r L(x_r.f_k, y_r)"""
    for k in range(len(ids)):
        first, last = lo[ids[k]], hi[ids[k]]
        z = np.empty(last - first)
        times(rows, first, last, f[k], z)
        out[k] = 0.0
        for r in range(first, last):
            out[k] += c[r] * losses.value(kind, shape, z[r - first], y[r])


@entry
def gradients(ids, kind, shape, rows, lo, hi, y, c, f, out):  # type: ignore[no-untyped-def]
    """out[k] = gradient of the above with respect to f_k"""
    out[:] = 0.0
    z = np.empty(at_once(f.shape[1]))
    for k in range(len(ids)):
        for first in range(lo[ids[k]], hi[ids[k]], len(z)):
            last = min(first + len(z), hi[ids[k]])
            times(rows, first, last, f[k], z)
            for r in range(first, last):
                z[r - first] = c[r] * losses.slope(kind, shape, z[r - first], y[r])
            add_transposed_times(rows, first, last, z, out[k])


@entry
def _sparse_grams(ids, first, rows, lo, hi, d, out):  # type: ignore[no-untyped-def]
    """G = X X^T of every listed agent, in the flat array `out` from first[id] on"""
    for i in ids:
        n = hi[i] - lo[i]
        sparse_inner_products(rows, lo[i], hi[i], d, out[first[i] : first[i] + n * n].reshape((n, n)))


@entry
def _descend(ids, kind, shape, rows, lo, hi, y, c, rho, b, f, step, steps, limit, norms):  # type: ignore[no-untyped-def]
    """Gradient descent from the minimiser without data, -b/rho, until the gradient norm is at most limit[k]"""
    for k in range(len(ids)):
        first, last = lo[ids[k]], hi[ids[k]]
        z, s, g, x = np.empty(last - first), np.empty(last - first), np.empty(f.shape[1]), f[k]
        for j in range(len(x)):
            x[j] = -b[k, j] / rho[k]
        for _ in range(steps[k] + 1):
            times(rows, first, last, x, z)
            norms[k] = quasi_newton.gradient(kind, shape, rows, first, last, y, c, rho[k], b[k], x, z, s, g)
            if norms[k] <= limit[k]:
                break
            combine(x, -step[k], g, x)


drop_stale_kernels(
    [_values, gradients, _sparse_grams, gram.minimise, newton_cg.minimise, quasi_newton.minimise, _descend],
    [*Path(__file__).parent.glob("*.py"), Path(losses.__file__), Path(jit.__file__)],
)


def _threads() -> int:
    """One for each core, unless the usual variable of the compiler says otherwise."""
    return int(os.environ.get("NUMBA_NUM_THREADS") or len(os.sched_getaffinity(0)))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tacit-solver")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child of fork has the pool, but not its threads


class RowStore:
    """The rows of all agents of a process and what can be computed from them, for any of those agents.

    Agent i has the data term sum_r c_r L(x_r.f, y_r) over its rows. Everything here is a pure function of its
    arguments; what is kept between calls (X X^T of agents with few rows) is a function of the data alone. So resuming a
    run, another block size or another number of our threads changes no bit of a result. (For dense rows BLAS has
    threads of its own, whose number may change the last bits.)
    """

    def __init__(self, loss: Any, rows: Rows, sizes: np.ndarray, y: np.ndarray, c: np.ndarray, features: int) -> None:
        self.hi = np.cumsum(sizes)
        self.lo = self.hi - sizes
        self.sizes, self.rows, self.y, self.c = sizes, rows, y, c
        self.features = self.dimension = features
        self.numbers = np.arange(len(sizes))  # what messages call the agents
        self._loss = loss

    @property
    def compiled(self) -> bool:
        """Whether compiled loops can solve by themselves: with `gram` and `quasi_newton`, as `minimise` does."""
        return self.dimension < newton_cg.FEWEST_FEATURES

    @cached_property
    def data(self) -> tuple[Any, ...]:
        """The loss and the rows, for the kernels."""
        return self._loss.kind, self._loss.shape, self.rows, self.lo, self.hi, self.y, self.c

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in self.__dict__.items() if name != "data"}  # an address is of one process only

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays in memory that several processes share are read-only: another type for the kernels, so copy them."""
        self.__dict__.update({name: _own(value) for name, value in state.items()})

    def only(self, ids: np.ndarray) -> RowStore:
        """A store of these agents alone. The rows of agents that lie in a row are not copied."""
        lo, hi, sizes = self.lo[ids], self.hi[ids], self.sizes[ids]
        if np.array_equal(lo[1:], hi[:-1]):
            places: Any = slice(int(lo[0]), int(hi[-1]))
        else:
            places = np.arange(sizes.sum()) + np.repeat(lo - (np.cumsum(sizes) - sizes), sizes)
        rows = self._matrix[places]
        if isinstance(self.rows, SparseRows):
            rows = SparseRows(rows.data, rows.indices.astype(np.uint32), rows.indptr.astype(np.uint64))
        store = type(self)(self._loss, rows, sizes, self.y[places], self.c[places], self.features)
        store.numbers = self.numbers[ids]
        return store

    @classmethod
    def joined(cls, stores: list[RowStore]) -> RowStore:
        """The agents of several stores, all of each, in one store. Empties the list, and copies one part at a time."""
        loss, features = stores[0]._loss, stores[0].features
        y, c, sizes, numbers = (
            np.concatenate([getattr(store, name) for store in stores]) for name in ("y", "c", "sizes", "numbers")
        )
        parts = [store.rows for store in stores]
        stores.clear()
        rows: Rows
        if isinstance(parts[0], SparseRows):
            counts = np.concatenate([np.diff(part.indptr) for part in parts])  # type: ignore[union-attr]
            data, indices = ([getattr(part, name) for part in parts] for name in ("data", "indices"))
            parts.clear()
            ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
            rows = SparseRows(_joined(data), _joined(indices), ends)
        else:
            rows = _joined(parts)  # type: ignore[arg-type]
        store = cls(loss, rows, sizes, y, c, features)
        store.numbers = numbers
        return store

    @property
    def nbytes(self) -> int:
        """The memory that the rows take."""
        return sum(part.nbytes for part in (self.rows if isinstance(self.rows, SparseRows) else (self.rows,)))

    def values(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The data term of each agent at its own row of f, (n,)."""
        out = np.empty(len(ids))
        _values(ids, *self.data, _writable(f), out)
        return out

    def gradients(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The data term's gradient of each agent at its own row of f, (n, d)."""
        out = np.empty((len(ids), self.dimension))
        gradients(ids, *self.data, _writable(f), out)
        return out

    def gradients_of(self, ids: np.ndarray, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """As `gradients`, but of the chosen rows of each agent only; `chosen` is (n, most rows) of bool."""
        out, all_rows = np.empty((len(ids), self.dimension)), self._matrix
        for k, i in enumerate(ids):
            r = self.lo[i] + np.flatnonzero(chosen[k, : self.sizes[i]])
            X = all_rows[r]
            out[k] = X.T @ (self.c[r] * self._loss.slope(X @ f[k], self.y[r]))
        return out

    def curved(self, ids: np.ndarray, f: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The data term's Hessian of each agent at its own row of f, times its row of v, (n, d)."""
        out = np.empty((len(ids), self.dimension))
        for k, i in enumerate(ids):
            own = slice(self.lo[i], self.hi[i])
            X = self._matrix[own]
            out[k] = X.T @ (self.c[own] * self._loss.curvature(X @ f[k], self.y[own]) * (X @ v[k]))
        return out

    def weighted(self, c: float) -> RowStore:
        """The same rows, each with the weight c."""
        return type(self)(self._loss, self.rows, self.sizes, self.y, np.full(len(self.y), c), self.features)

    def contents(self) -> Iterator[np.ndarray]:
        """All that the data are, for a digest."""
        yield from self.rows if isinstance(self.rows, SparseRows) else (self.rows,)
        yield from (self.y, self.sizes)

    @cached_property
    def longest_rows(self) -> np.ndarray:
        """The norm of every agent's longest row, (n,)."""
        if isinstance(self.rows, SparseRows):
            lengths = np.sqrt((self._matrix**2).sum(axis=1))
        else:
            lengths = np.linalg.norm(self.rows, axis=1)
        return np.maximum.reduceat(lengths, self.lo)

    def squares(self, ids: np.ndarray) -> np.ndarray:
        """sum_r x_r x_r^T over the rows of each agent, (n, d, d)."""
        sparse, rows = isinstance(self.rows, SparseRows), self._matrix
        own = (rows[self.lo[i] : self.hi[i]] for i in ids)
        return np.array([(X.T @ X).toarray() if sparse else X.T @ X for X in own])

    def squares_times(self, v: np.ndarray) -> np.ndarray:
        """sum_r x_r x_r^T v over all rows, (features,)."""
        return np.asarray(self._matrix.T @ (self._matrix @ v))

    def largest_squares(self, ids: np.ndarray) -> np.ndarray:
        """The largest eigenvalue of sum_r x_r x_r^T over the rows of each agent, (n,), by the smaller of X X^T and
        X^T X; where both are large, by Lanczos iterations."""
        return np.array([_largest_square(self._matrix[self.lo[i] : self.hi[i]]) for i in ids])

    @cached_property
    def _matrix(self) -> Any:
        """The rows for numpy or scipy, which wants its own kind of indices."""
        if not isinstance(self.rows, SparseRows):
            return self.rows
        places = (self.rows.indices.astype(np.int32), self.rows.indptr.astype(np.int64))
        return scipy.sparse.csr_array((self.rows.data, *places), shape=(len(self.y), self.features))

    @cached_property
    def grams(self) -> tuple[np.ndarray, np.ndarray | None]:
        """X X^T of agents with few rows: where each starts, or -1, and all in one array (None: no such agents)."""
        small = np.flatnonzero((self.sizes < self.dimension) & (self.sizes <= gram.MOST_ROWS))
        squares = self.sizes[small] ** 2
        first = np.full(len(self.sizes), -1)
        if not len(small):
            return first, None
        first[small] = np.cumsum(squares) - squares
        out = np.empty(int(squares.sum()))
        if isinstance(self.rows, SparseRows):
            _sparse_grams(small, first, self.rows, self.lo, self.hi, self.dimension, out)
        else:
            for i in small:
                X = self.rows[self.lo[i] : self.hi[i]]
                out[first[i] : first[i] + len(X) ** 2] = (X @ X.T).ravel()
        return first, out

    def minimise(self, ids: np.ndarray, rho: np.ndarray, b: np.ndarray, f: np.ndarray, aims: np.ndarray) -> np.ndarray:
        """Moves each row of f to the minimiser of (data term) + rho/2 ||f||^2 + b.f; returns the gradient norms,
        which are at most `aims`, (n,), unless digits run out."""
        first, grams = self.grams
        norms, rest = np.full(len(ids), np.inf), np.arange(len(ids))
        if grams is not None:
            few = np.flatnonzero((first[ids] >= 0) & (rho > 0.0))
            self._share_out(few, ids, lambda k: gram.minimise(k, ids, first, grams, *self.data, rho, b, f, aims, norms))
            rest = np.flatnonzero(~(norms <= aims))  # or rho is so small that row space ran out of digits
        if self.dimension >= newton_cg.FEWEST_FEATURES:
            self._share_out(rest, ids, lambda k: newton_cg.minimise(k, ids, *self.data, rho, b, f, aims, norms))
            rest = rest[~(norms[rest] <= aims[rest])]
        if self.dimension <= quasi_newton.MOST_FEATURES:
            self._share_out(rest, ids, lambda k: quasi_newton.minimise(k, ids, *self.data, rho, b, f, aims, norms))
        return norms

    def _share_out(self, places: np.ndarray, ids: np.ndarray, solve: Callable[[np.ndarray], None]) -> None:
        """Calls `solve` with shares of the places of a block, in several threads if there are several places."""
        threads = _threads() if len(places) > 1 else len(places)
        if threads == 1:
            solve(places)
        elif threads > 1:  # hand out the agents with most rows first: the threads then finish together
            order = places[np.argsort(-self.sizes[ids[places]], kind="stable")]
            shares = min(len(places), 8 * threads)
            list(_pool(threads).map(solve, [order[k::shares].copy() for k in range(shares)]))

    def descend(
        self,
        ids: np.ndarray,
        rho: np.ndarray,
        b: np.ndarray,
        f: np.ndarray,
        step: np.ndarray,
        steps: np.ndarray,
        limit: np.ndarray,
    ) -> np.ndarray:
        """As `minimise`, by gradient descent with the given steps: slow, but with progress that is proved."""
        norms = np.empty(len(ids))
        _descend(ids, *self.data, rho, b, f, step, steps.astype(np.int64), limit, norms)
        return norms


def _own(value: Any) -> Any:
    """The same with arrays that may be written to."""
    if isinstance(value, SparseRows):
        return SparseRows(*map(_writable, value))
    return _writable(value) if isinstance(value, np.ndarray) else value


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """One array behind the other; each is given up as soon as it is copied."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    at = 0
    while parts:
        part = parts.pop(0)
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


def _writable(f: np.ndarray) -> np.ndarray:
    """The same, or a copy of an array that is read-only, since a copy costs less than one more kernel to compile. For
    the same reason no kernel gets an array with gaps."""
    return np.require(f, requirements="W")


def _largest_square(X: Any) -> float:
    if min(X.shape) > 500:
        from scipy.sparse.linalg import svds  # 8 MB: only where it is used

        return float(svds(X, k=1, v0=np.ones(min(X.shape)), return_singular_vectors=False)[0] ** 2)
    square = X @ X.T if X.shape[0] < X.shape[1] else X.T @ X
    return float(np.linalg.eigvalsh(square.toarray() if scipy.sparse.issparse(square) else square)[-1])
