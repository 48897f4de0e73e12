"""What agents bring, numbers of rows, rows and labels: checked once, when it comes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from tacit.core.losses import Loss
from tacit.core.multinomial import Multinomial
from tacit.core.solvers.rows import Rows, SparseRows
from tacit.errors import InputError

Part = tuple[Any, Any]  # (X_i, y_i): rows of one agent, dense or sparse, and their labels


def checked_parts(parts: Sequence[Part]) -> tuple[list[Any], list[np.ndarray]]:
    """Rows and labels of every agent, in arrays of the right shapes."""
    if len(parts) == 0:
        raise InputError("a problem needs at least one agent: parts is empty")
    blocks: list[Any] = []
    labels: list[np.ndarray] = []
    for i, (X, y) in enumerate(parts):
        X, y = checked_rows(X, y, f"agent {i}: ")
        if X.shape[0] == 0:
            raise InputError(f"agent {i} has no rows; every agent needs at least one")
        if blocks and X.shape[1] != blocks[0].shape[1]:
            raise InputError(f"agent {i} has {X.shape[1]} features where agent 0 has {blocks[0].shape[1]}")
        blocks.append(X)
        labels.append(y)
    return blocks, labels


def checked_sizes(sizes: Any) -> np.ndarray:
    """The agents' numbers of rows, as an array."""
    try:
        counts = np.asarray(sizes)
    except ValueError:  # lists of different lengths
        counts = np.empty(0)
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise InputError(f"sizes are the agents' numbers of rows, 1 or more each, not {sizes}")
    return counts.astype(np.int64)


def checked_rows(X: Any, y: Any, whose: str) -> tuple[Any, np.ndarray]:
    """A matrix of doubles, dense or CSR, and a label for each of its rows."""
    try:
        if scipy.sparse.issparse(X):
            X = scipy.sparse.csr_array(X, dtype=float)
            X.check_format(full_check=True)  # compiled loops trust the indices
        else:
            X = np.asarray(X, dtype=float)
        y = np.asarray(y, dtype=float)
    except (ValueError, TypeError) as error:
        raise InputError(f"{whose}rows and labels must be arrays of numbers: {error}") from None
    if X.ndim != 2:
        raise InputError(f"{whose}the rows must be a matrix, not an array of shape {X.shape}")
    if X.shape[1] == 0:
        raise InputError(f"{whose}the rows have no features")
    if y.shape != (X.shape[0],):
        raise InputError(f"{whose}{X.shape[0]} rows but labels of shape {y.shape}")
    return X, y


def check_numbers(rows: Rows, y: np.ndarray, sizes: np.ndarray, loss: Loss) -> None:
    """Refuses numbers and labels that no agent may have; once, when they come in."""

    def agent(bad: np.ndarray) -> int:
        return int(np.searchsorted(np.cumsum(sizes), int(np.argmax(bad)), side="right"))

    if not np.isfinite(rows.data if isinstance(rows, SparseRows) else rows).all():
        if isinstance(rows, SparseRows):
            place = int(np.argmin(np.isfinite(rows.data)))
            bad = np.arange(len(y)) == np.searchsorted(rows.indptr, place, side="right") - 1
        else:
            bad = ~np.isfinite(rows).all(axis=1)
        raise InputError(f"agent {agent(bad)}: the rows hold NaN or infinity")
    if not np.isfinite(y).all():
        raise InputError(f"agent {agent(~np.isfinite(y))}: the labels hold NaN or infinity")
    if isinstance(loss, Multinomial):
        bad = ~((y >= 0) & (y < loss.classes) & (y == np.floor(y)))
        if bad.any():
            raise InputError(f"agent {agent(bad)}: labels of {loss.classes} classes are 0 to {loss.classes - 1}")
    elif not loss.numbers and (bad := np.abs(y) != 1).any():
        found = y[np.argmax(bad)]
        raise InputError(f"agent {agent(bad)}: {type(loss).__name__} needs labels -1 and +1, found {found:g}")
