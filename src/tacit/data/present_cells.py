"""Which cells of a table are there, and which of them a column of a schema can read."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from tacit.data.table import CellError, Cells, Table
from tacit.errors import InputError

T = TypeVar("T")


class Present(NamedTuple):
    """The rows that a schema keeps, and their cells that are there."""

    table: Table
    missing: dict[str, np.ndarray]  # (rows of the table,) of bool for each column
    kept: np.ndarray  # which rows are kept
    faults: list[InputError]  # why the table cannot be used; empty if it can

    def cells(self, column: str) -> tuple[np.ndarray, Cells]:
        """Which of the kept rows have a value in this column, and their cells."""
        there = np.flatnonzero(~self.missing[column][self.kept])
        return there, self.table.cells(column, self.kept[there])


def present(table: Table, columns: Sequence[str], rule: str, values: Sequence[str], label: str | None) -> Present:
    """What is there in these columns of a table.

    table, columns : the records, and the columns that are used
    rule : what happens to a row without a value: "drop", "zero" or "refuse"
    values : the cells that mean missing
    label : which of the columns is the label, if one is: it cannot be replaced by zeros
    """
    missing = {name: table.is_missing(name, values) for name in columns}
    faults: list[InputError] = []
    if rule == "drop":
        none = np.zeros(len(table), dtype=bool)
        kept = np.flatnonzero(~np.logical_or.reduce([none, *missing.values()]))
        if not len(kept):
            faults.append(
                InputError(
                    f"at least one row is needed; every row of {table.source} has a missing value; "
                    'leave out the empty columns, or set missing = "zero"'
                )
            )
        return Present(table, missing, kept, faults)
    for name in columns:
        # A label cannot be replaced by zeros: a row without a label is of no use.
        rows = np.flatnonzero(missing[name])
        if len(rows) and (rule == "refuse" or name == label):
            cells = table.cells(name, rows)
            remedy = "fill it in, or " + ("take the record out" if name == label else "set missing in the schema")
            faults.append(CellError(cells, np.arange(len(rows)), "no value may be missing here", remedy))
    return Present(table, missing, np.arange(len(table)), faults)


def readable(read: Callable[[Cells], T], cells: Cells) -> tuple[T, np.ndarray | slice, CellError | None]:
    """What a column reads from the cells that it can read, which ones these are, and what is wrong with the others."""
    try:
        return read(cells), slice(None), None
    except CellError as error:
        good = np.delete(np.arange(len(cells.values)), error.bad)
        return read(cells.take(good)), good, error
