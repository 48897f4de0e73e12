"""Makes the rows of a table features and labels, as a schema says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from tacit.data.clipping import clipped
from tacit.data.dataset import Dataset
from tacit.data.present_cells import readable
from tacit.data.table import Table

if TYPE_CHECKING:
    from tacit.data.schema import Schema

_ROWS = 1 << 14


def encode(schema: Schema, table: Table, labelled: bool) -> Dataset:
    """See `Schema.encode`."""
    used = schema.used(labelled)
    table.require(used)
    rows = schema.present(table, used, labelled)
    for fault in rows.faults:
        raise fault
    kept = rows.kept

    # Row j of these is column j of the schema: one possibly non-zero feature for each record.
    width = len(schema.columns) + schema.intercept
    position = np.zeros((width, len(kept)), dtype=np.int32)
    value = np.zeros((width, len(kept)))
    outside, unknown = ({name: np.zeros(len(kept), dtype=bool) for name in used} for _ in range(2))
    first = 0
    for j, column in enumerate(schema.columns):
        there, cells = rows.cells(column.name)
        encoded, good, error = readable(column.encode, cells)
        if error is not None:
            if not schema.forgives(column):
                raise error
            unknown[column.name][there[error.bad]] = True
        there = there[good]
        at = slice(None) if len(there) == len(kept) else there
        position[j, at] = first + encoded.position
        value[j, at] = encoded.value
        outside[column.name][at] |= encoded.outside
        first += len(column.features)
    if schema.intercept:
        position[-1] = first
        value[-1] = 1.0
    if schema.row_norm:
        for block in _blocks(len(kept)):
            value[:, block] = clipped(np.ascontiguousarray(value[:, block].T), schema.row_norm).T

    label = schema.label.encode(table.cells(schema.label.column, kept)) if labelled else None
    if label is not None:
        outside[schema.label.column] = label.outside
    matrix = _matrix(position, value, schema.dimension)
    y = None if label is None else label.value
    return Dataset(matrix, y, schema.feature_names, kept, _counts(outside), _counts(unknown))


def _counts(masks: Mapping[str, np.ndarray]) -> dict[str, int]:
    return {name: int(mask.sum()) for name, mask in masks.items() if mask.any()}


def _blocks(rows: int) -> Iterator[slice]:
    """Some rows at once: what is computed on the way stays in the cache, and needs no memory of its own."""
    return (slice(first, first + _ROWS) for first in range(0, rows, _ROWS))


def _matrix(position: np.ndarray, value: np.ndarray, dimension: int) -> np.ndarray | csr_array:
    """One row for each column of these: its values at its positions, which rise."""
    rows = value.shape[1]
    entries = int(np.count_nonzero(value))
    if 2 * entries < rows * dimension:
        index = index_type(entries, dimension)
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(value, axis=0))]).astype(index)
        data, indices = np.empty(entries), np.empty(entries, dtype=index)
        for block in _blocks(rows):
            values, some = value[:, block].T, slice(indptr[block.start], indptr[min(block.stop, rows)])
            full = values != 0
            data[some], indices[some] = values[full], position[:, block].T[full]
        return csr_array((data, indices, indptr), shape=(rows, dimension))
    dense = np.zeros((rows, dimension))
    for block in _blocks(rows):
        flat = dense[block].reshape(-1)
        begins = np.arange(0, len(flat), dimension)  # of the rows
        # Where a cell is missing, there is a zero at position 0, which belongs to the first column: so that comes last.
        for at, values in zip(position[::-1, block], value[::-1, block], strict=True):
            flat[begins + at] = values
    return dense


def index_type(entries: int, dimension: int) -> type[np.signedinteger[Any]]:
    """What a sparse matrix of so many entries counts with: 32 bits as long as they are enough."""
    return np.int32 if max(entries, dimension) <= np.iinfo(np.int32).max else np.int64
