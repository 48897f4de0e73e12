"""Records from a numpy array, as text, so that they are encoded like those of files and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.data.columns import plain
from tacit.data.strings import Strings, TypedNumbers
from tacit.data.table import Table


class _Floats(TypedNumbers):
    """The floats of an array, which has one type for all of its columns: a whole number is written without a point."""

    def texts(self, at: np.ndarray | None) -> np.ndarray:
        values, null = (self._values, self._null) if at is None else (self._values[at], self._null[at])
        found = np.empty(len(values), dtype=object)
        found[:] = ["" if lacks else plain(v) for v, lacks in zip(values.tolist(), null.tolist(), strict=True)]
        return found


def array_table(X: np.ndarray, names: Sequence[str]) -> Table:
    """An array of two dimensions as a table. None, NaN, NaT and pandas' NA are missing.

    >>> table = array_table(np.array([[39.0, 2.0], [np.nan, 1.5]]), ["age", "ward"])
    >>> table.columns["ward"].tolist(), table.nulls["age"].tolist(), table.where(1)
    (['2', '1.5'], [False, True], 'the array row 2')
    """
    columns: dict[str, Any] = {}
    nulls = {}
    for name, cells in zip(names, X.T, strict=True):
        columns[name], null = _column(cells)
        if null.any():
            nulls[name] = null
    return Table(columns, "the array", nulls=nulls, booleans=frozenset(names if X.dtype.kind == "b" else ()))


def _column(cells: np.ndarray) -> tuple[Strings, np.ndarray]:
    if cells.dtype.kind in "iu":
        none = np.zeros(len(cells), dtype=bool)
        return Strings(TypedNumbers(np.ascontiguousarray(cells), none)), none
    if cells.dtype.kind == "f":
        # Numbers of 32 bits must not be widened before they are written: 0.1 would become 0.10000000149011612.
        wide = cells.astype(str).astype(np.float64) if cells.dtype.itemsize < 8 else cells.astype(np.float64)
        return Strings(_Floats(wide, np.isnan(wide))), np.isnan(wide)
    values = cells.tolist()
    null = np.array([_is_null(value) for value in values], dtype=bool)
    return Strings.of(["" if lacks else _text(value) for value, lacks in zip(values, null, strict=True)]), null


def _is_null(value: Any) -> bool:
    # pandas' NA is neither equal to itself nor different; pandas may not be installed.
    return value is None or type(value).__name__ == "NAType" or value != value


def _text(value: Any) -> str:
    return plain(float(value)) if isinstance(value, float | np.floating) else str(value).strip()
