"""Small dense linear algebra for the compiled solvers, where a call of BLAS would cost more than its work."""

from __future__ import annotations

import numpy as np

from tacit.core.jit import kernel, vectorised


@vectorised
def dot(x, y):  # type: ignore[no-untyped-def]
    """x . y"""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@kernel
def combine(x, t, y, out):  # type: ignore[no-untyped-def]
    """out := x + t y (any of them may be the same array)"""
    for i in range(len(out)):
        out[i] = x[i] + t * y[i]


@vectorised
def matvec(A, x, out):  # type: ignore[no-untyped-def]
    """out := A x"""
    for i in range(A.shape[0]):
        total = 0.0
        for j in range(len(x)):
            total += A[i, j] * x[j]
        out[i] = total


@kernel
def all_finite(x):  # type: ignore[no-untyped-def]
    """Whether no number of x is infinite or NaN."""
    finite = True
    for i in range(len(x)):
        finite = finite and np.isfinite(x[i])
    return finite


@vectorised
def factorise(H):  # type: ignore[no-untyped-def]
    """Cholesky factor, in place, of the symmetric matrix whose lower triangle is H."""
    inverse = np.empty(H.shape[0])  # of the diagonal: dividing is the slow part of small factorisations
    for i in range(H.shape[0]):
        row = H[i]
        for j in range(i):
            other, total = H[j], row[j]
            for k in range(j):
                total -= row[k] * other[k]
            row[j] = total * inverse[j]
        total = row[i]
        for k in range(i):
            total -= row[k] * row[k]
        row[i] = np.sqrt(total)
        inverse[i] = 1.0 / row[i]


@vectorised
def solve_factorised(L, q):  # type: ignore[no-untyped-def]
    """q := (L L^T)^-1 q. Both sweeps run along the rows of L, which are contiguous."""
    for i in range(len(q)):
        total = q[i]
        for k in range(i):
            total -= L[i, k] * q[k]
        q[i] = total / L[i, i]
    for i in range(len(q) - 1, -1, -1):
        q[i] /= L[i, i]
        v = q[i]
        for k in range(i):
            q[k] -= v * L[i, k]
