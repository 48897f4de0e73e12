"""Products with the data rows of one agent, compiled, for dense and CSR rows alike.

All agents of a block share one stack of rows; agent i owns rows lo <= r < hi of it. Each product below is
written twice, for a dense stack (a 2-D array) and for `SparseRows`, and numba picks by type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from tacit.core.jit import PLAIN, VECTORISED, kernel, overload, vectorised


class SparseRows(NamedTuple):
    """A CSR stack. Unsigned indices spare the compiled loops numpy's check for negative ones (twice as fast)."""

    data: np.ndarray  # (nnz,) float64
    indices: np.ndarray  # (nnz,) uint32
    indptr: np.ndarray  # (rows+1,) uint64


Rows = np.ndarray | SparseRows


def stack(blocks: list[np.ndarray | scipy.sparse.sparray]) -> Rows:
    """One stack of all agents' rows: CSR if any block is sparse, dense otherwise.

    >>> stack([np.eye(2), np.ones((1, 2))]).shape
    (3, 2)
    """
    if not any(scipy.sparse.issparse(b) for b in blocks):
        return np.ascontiguousarray(np.concatenate([np.asarray(b, dtype=float) for b in blocks]))
    csr = scipy.sparse.vstack([scipy.sparse.csr_array(b, dtype=float) for b in blocks], format="csr")
    csr.sum_duplicates()  # also sorts the indices: the sums below then have one order
    return SparseRows(csr.data, csr.indices.astype(np.uint32), csr.indptr.astype(np.uint64))


def _is_sparse(rows: Any) -> bool:
    from numba import types

    return isinstance(rows, types.NamedTuple)


def times(rows, lo, hi, f, out):  # type: ignore[no-untyped-def]
    """out[r - lo] = x_r . f"""
    raise TypeError("compiled code only")


def add_transposed_times(rows, lo, hi, s, out):  # type: ignore[no-untyped-def]
    """out += sum_r s[r - lo] x_r"""
    raise TypeError("compiled code only")


def add_weighted_squares(rows, kept, w, out):  # type: ignore[no-untyped-def]
    """Lower triangle of out += sum_k w[k] x_r x_r^T over the rows r = kept[k]."""
    raise TypeError("compiled code only")


def add_squares_times(rows, kept, w, f, out):  # type: ignore[no-untyped-def]
    """out += sum_k w[k] x_r (x_r.f) over the rows r = kept[k]: each is read twice in a row, from the cache."""
    raise TypeError("compiled code only")


def add_weighted_diagonal(rows, lo, hi, w, out):  # type: ignore[no-untyped-def]
    """out += sum_r w[r - lo] x_r * x_r, element by element."""
    raise TypeError("compiled code only")


def stored(rows, lo, hi):  # type: ignore[no-untyped-def]
    """How many numbers these rows have."""
    raise TypeError("compiled code only")


_vectorised: Any = {**PLAIN, "fastmath": VECTORISED}


@overload(times, _vectorised)
def _times(rows, lo, hi, f, out):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, lo, hi, f, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                total = 0.0
                for a in range(rows.indptr[r], rows.indptr[r + 1]):
                    total += rows.data[a] * f[rows.indices[a]]
                out[r - lo] = total
    else:

        def impl(rows, lo, hi, f, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                x = rows[r]
                total = 0.0
                for j in range(len(f)):
                    total += x[j] * f[j]
                out[r - lo] = total

    return impl


@overload(add_transposed_times, _vectorised)
def _add_transposed_times(rows, lo, hi, s, out):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, lo, hi, s, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                v = s[r - lo]
                for a in range(rows.indptr[r], rows.indptr[r + 1]):
                    out[rows.indices[a]] += v * rows.data[a]
    else:

        def impl(rows, lo, hi, s, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                x, v = rows[r], s[r - lo]
                for j in range(len(out)):
                    out[j] += v * x[j]

    return impl


@overload(add_weighted_squares, _vectorised)
def _add_weighted_squares(rows, kept, w, out):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, kept, w, out):  # type: ignore[no-untyped-def]
            for k in range(len(kept)):
                first = rows.indptr[kept[k]]
                for a in range(first, rows.indptr[kept[k] + 1]):
                    v, line = w[k] * rows.data[a], out[rows.indices[a]]
                    for b in range(first, a + np.uint64(1)):  # indices are sorted: the lower triangle
                        line[rows.indices[b]] += v * rows.data[b]
    else:

        def impl(rows, kept, w, out):  # type: ignore[no-untyped-def]
            n, d = len(kept), rows.shape[1]
            x, weighted, square = np.empty((n, d)), np.empty((n, d)), np.empty((d, d))
            for k in range(n):
                for j in range(d):
                    x[k, j] = rows[kept[k], j]
                    weighted[k, j] = x[k, j] * w[k]
            np.dot(weighted.T, x, square)
            for i in range(d):
                for j in range(d):
                    out[i, j] += square[i, j]

    return impl


@overload(add_squares_times, _vectorised)
def _add_squares_times(rows, kept, w, f, out):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, kept, w, f, out):  # type: ignore[no-untyped-def]
            for k in range(len(kept)):
                first, last, v = rows.indptr[kept[k]], rows.indptr[kept[k] + 1], 0.0
                for a in range(first, last):
                    v += rows.data[a] * f[rows.indices[a]]
                v *= w[k]
                for a in range(first, last):
                    out[rows.indices[a]] += v * rows.data[a]
    else:

        def impl(rows, kept, w, f, out):  # type: ignore[no-untyped-def]
            for k in range(len(kept)):
                x, v = rows[kept[k]], 0.0
                for j in range(len(f)):
                    v += x[j] * f[j]
                v *= w[k]
                for j in range(len(out)):
                    out[j] += v * x[j]

    return impl


@overload(add_weighted_diagonal, _vectorised)
def _add_weighted_diagonal(rows, lo, hi, w, out):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, lo, hi, w, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                for a in range(rows.indptr[r], rows.indptr[r + 1]):
                    out[rows.indices[a]] += w[r - lo] * rows.data[a] ** 2
    else:

        def impl(rows, lo, hi, w, out):  # type: ignore[no-untyped-def]
            for r in range(lo, hi):
                for j in range(len(out)):
                    out[j] += w[r - lo] * rows[r, j] ** 2

    return impl


@overload(stored, _vectorised)
def _stored(rows, lo, hi):  # type: ignore[no-untyped-def]
    if _is_sparse(rows):

        def impl(rows, lo, hi):  # type: ignore[no-untyped-def]
            return np.int64(rows.indptr[hi] - rows.indptr[lo])
    else:

        def impl(rows, lo, hi):  # type: ignore[no-untyped-def]
            return np.int64((hi - lo) * rows.shape[1])

    return impl


@kernel
def at_once(d):  # type: ignore[no-untyped-def]
    """How many rows a gradient reads twice in a row: the second time they are still in the cache, dense ones, too."""
    return max(8, min(256, 32768 // d))


@vectorised
def sparse_inner_products(rows, lo, hi, d, out):  # type: ignore[no-untyped-def]
    """out[r - lo, q - lo] = x_r . x_q"""
    dense = np.zeros(d)
    for r in range(lo, hi):
        for a in range(rows.indptr[r], rows.indptr[r + 1]):
            dense[rows.indices[a]] = rows.data[a]
        for q in range(lo, hi):
            total = 0.0
            for a in range(rows.indptr[q], rows.indptr[q + 1]):
                total += rows.data[a] * dense[rows.indices[a]]
            out[r - lo, q - lo] = total
        for a in range(rows.indptr[r], rows.indptr[r + 1]):
            dense[rows.indices[a]] = 0.0
