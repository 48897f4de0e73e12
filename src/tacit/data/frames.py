"""Records from a data frame (pandas, polars, Arrow: whatever narwhals accepts) or from a file, as text.

A typed column becomes the text that a CSV file of it has, so records are encoded alike wherever they come from.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.strings import Strings, StringsCollector, TypedNumbers
from tacit.data.table import Table, header
from tacit.errors import InputError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def as_table(records: Table | IntoFrame, source: str = "the data frame") -> Table:
    """A data frame as a table; a table as it is. None, NaN and NaT are missing whatever the schema lists.

    `source` is what messages call the frame; they number its rows from 1. An index of pandas is left out.

    >>> import polars
    >>> table = as_table(polars.DataFrame({"age": [39, None], "sex": ["Male", "Female"]}))
    >>> table.columns["age"].tolist(), table.nulls["age"].tolist(), table.where(1)
    (['39', ''], [False, True], 'the data frame row 2')
    """
    if isinstance(records, Table):
        return records
    import narwhals.stable.v2 as nw  # not for those that have files only

    try:
        frame: Any = nw.from_native(records)
    except TypeError:
        raise InputError(
            "records must be a table of tacit.data or a data frame of pandas, polars or Arrow; "
            f"got {type(records).__name__}; read a file with tacit.data.read_table"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    names = header([str(name).strip() for name in frame.columns], source)
    if not names or not len(frame):
        raise InputError(f"at least one row is needed; {source} has none; add the records")
    columns: dict[str, Any] = {}
    nulls, booleans = {}, set()
    for name, column in zip(names, frame.iter_columns(), strict=True):
        null = _null(column)
        try:
            columns[name] = _numbers(column, null) or _arrow(column) or _texts(column, null)
        except (ValueError, OverflowError, KeyError) as error:  # no text, or a time that Python does not have
            raise InputError(
                f"every value must be readable; column {name!r} of {source} has one that is not ({error}); leave the "
                "column out, or write it as text"
            ) from None
        if null.any():
            nulls[name] = null
        if column.dtype == nw.Boolean:
            booleans.add(name)
    return Table(columns, source, nulls=nulls, booleans=frozenset(booleans))


def _numbers(column: Any, null: np.ndarray) -> Strings | None:
    """A column of numbers whose text says all of them, as it is; None for another column."""
    import narwhals.stable.v2 as nw

    # Numbers of 32 bits must not be widened before they are written: 0.1 would become 0.10000000149011612.
    if not (column.dtype.is_integer() or column.dtype == nw.Float64):
        return None
    values = column.fill_null(0).to_numpy()
    return Strings(TypedNumbers(values, null)) if values.dtype.kind in "iuf" and values.dtype.itemsize <= 8 else None


def _arrow(column: Any) -> Strings | None:
    """An Arrow column of text; None for another column."""
    native, pyarrow = column.to_native(), sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(native, pyarrow.ChunkedArray):
        return None
    if not (pyarrow.types.is_string(native.type) or pyarrow.types.is_large_string(native.type)):
        return None
    from tacit.data import arrow

    return arrow.strings(native.fill_null(""))


def _texts(column: Any, null: np.ndarray) -> Strings:
    """Any column, as the text that Python writes for its values."""
    import narwhals.stable.v2 as nw

    values = column.to_numpy() if column.dtype == nw.Float32 else column.to_list()
    texts = ("" if lacks else str(value) for value, lacks in zip(values, null.tolist(), strict=True))
    found = StringsCollector()
    while block := list(itertools.islice(texts, 4096)):
        found.add(block)
    return found.strings()


def _null(column: Any) -> np.ndarray:
    """(rows,) of bool: where a column has no value. Not a number is no value, too."""
    null = column.is_null()
    if column.dtype.is_float():
        null = null | column.is_nan().fill_null(True)
    return np.asarray(null.to_numpy(), dtype=bool)


def read_table(path: str | Path) -> Table:
    """Read a file of records: Parquet if its name ends in `.parquet`, else CSV."""
    if Path(path).suffix.lower() == ".parquet":
        return read_parquet(path)
    from tacit.data.csv_file import read_csv

    return read_csv(path)


def read_parquet(path: str | Path) -> Table:
    """Read a Parquet file. Messages number its rows from 1.

    >>> import tempfile, polars
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.parquet"
    ...     polars.DataFrame({"age": [39, 50], "income": ["<=50K", ">50K"]}).write_parquet(file)
    ...     table = read_parquet(file)
    >>> table.columns["age"].tolist(), table.where(1)
    (['39', '50'], 'people.parquet row 2')
    """
    path = Path(path)
    if os.path.isdir(path):  # unlike those of Path, these functions never raise
        raise InputError(f"a file is needed; {path} is a directory; name a file in it")
    if not os.path.exists(path):
        raise InputError(f"the file must exist; {path} does not; check the path")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"pyarrow is missing, which reads {path.name}; pip install 'tacit-learn[parquet]', or write it as CSV"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            read = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"the file must be Parquet; {path.name} is not ({error}); write it again") from None
    header([name.strip() for name in read.column_names], path.name)  # refuses two columns of the same name
    return as_table(read, path.name)
