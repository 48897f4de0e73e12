"""Rows of bounded length, as the privacy proofs need them."""

import math
from typing import Any

import numpy as np
import scipy.sparse

from tacit.errors import InputError


def clipped(X: Any, bound: float) -> Any:
    """Rows x / max(1, ||x||/bound); sparse rows stay sparse.

    >>> clipped([[3.0, 4.0], [0.3, 0.4]], 1.0).round(12).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    if not (bound > 0 and math.isfinite(bound)):
        raise InputError(f"rows are clipped to a positive norm, not to {bound}")
    if scipy.sparse.issparse(X):
        X = scipy.sparse.csr_array(X, dtype=float, copy=True)
        X.sum_duplicates()
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        largest = np.zeros(X.shape[0])
        np.maximum.at(largest, row, np.abs(X.data))
        unit = _unit(largest)
        squares = np.bincount(row, (X.data / unit[row]) ** 2, minlength=X.shape[0])
        unit, factor = _divisors(unit, squares, bound)
        X.data = X.data / unit[row] / factor[row]
        return X
    X = np.asarray(X, dtype=float)
    unit = _unit(np.abs(X).max(axis=1, initial=0.0))
    scaled = X / unit[:, None]
    unit, factor = _divisors(unit, np.einsum("ij,ij->i", scaled, scaled), bound)
    return X / unit[:, None] / factor[:, None]


def longest(X: Any) -> float:
    """The norm of the longest row; 0 without rows.

    >>> longest(scipy.sparse.csr_array([[3.0, 4.0], [0.3, 0.4]])), longest(np.zeros((0, 2)))
    (5.0, 0.0)
    """
    # Dense rows are not copied: there may be millions.
    squares = X.multiply(X).sum(axis=1) if scipy.sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(np.max(squares, initial=0.0)))


def _unit(largest: np.ndarray) -> np.ndarray:
    """The power of two below a row's largest entry: in this unit no square overflows, and dividing by it is exact."""
    return np.ldexp(1.0, np.frexp(largest)[1] - 1)


def _divisors(unit: np.ndarray, squares: np.ndarray, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """The two divisors of each row: its unit, and its norm in that unit over the bound; 1 and 1 if the row is short."""
    # A little more than the norm: after rounding, a row must not be above the bound that a proof relies on.
    factor = np.sqrt(squares) / bound * (1 + 1e-15)
    with np.errstate(over="ignore"):
        long = factor > 1 / unit
    return np.where(long, unit, 1.0), np.where(long, factor, 1.0)
