"""A file of records as text: named columns of strings, before any of them is read as a number."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.data.text import read_text
from tacit.errors import InputError

_BLOCK = 4096  # rows read at once: small lists for a whole file would keep the garbage collector busy


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of strings as they are in a file.

    >>> table = Table({"age": np.array(["39", "50"], dtype=object)}, source="people.csv")
    >>> len(table), table.where(1)
    (2, 'people.csv row 2')
    """

    columns: dict[str, np.ndarray]  # each (rows,), of stripped strings
    source: str  # what messages call the file
    lines: np.ndarray | None = None  # (rows,) line of the file on which each row begins

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must have one length; {self.source} has {lengths}; give each row every column")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def where(self, row: int) -> str:
        """How a message names a row (0-based): by its line when the table came from a file."""
        if self.lines is None:
            return f"{self.source} row {row + 1}"
        return f"{self.source} line {self.lines[row]}"

    def require(self, names: Iterable[str]) -> None:
        """Refuse a table that lacks one of these columns."""
        lacking = [name for name in names if name not in self.columns]
        if lacking:
            raise InputError(
                f"every column of the schema must be in the file; {self.source} has no column {lacking[0]!r}; "
                f"its columns are: {', '.join(self.columns)}"
            )

    def is_one_of(self, column: str, values: Iterable[str]) -> np.ndarray:
        """(rows,) of bool: whether the cell is one of these strings."""
        wanted = frozenset(values)
        return np.fromiter(map(wanted.__contains__, self.columns[column]), dtype=bool, count=len(self))

    def cells(self, column: str, rows: np.ndarray) -> "Cells":
        """The cells of one column in the given rows."""
        return Cells(self, column, rows, self.columns[column][rows])


class Cells(NamedTuple):
    """Some cells of one column with their rows, so that an error can name the place."""

    table: Table
    column: str
    rows: np.ndarray  # (n,) row of the table of each cell
    values: np.ndarray  # (n,) strings

    def where(self, k: int) -> str:
        """How a message names cell k."""
        return f"{self.table.where(int(self.rows[k]))}, column {self.column!r}"

    def numbers(self) -> np.ndarray:
        """(n,) of float64; refuses anything that is not a finite number, and names its place and value."""
        try:
            numbers = self.values.astype(np.float64)
            finite = np.isfinite(numbers)
        except ValueError:
            finite = np.array([_is_finite_number(value) for value in self.values])
        if not finite.all():
            k = int(np.argmin(finite))
            raise InputError(
                f"a finite number is needed; {self.where(k)} holds {str(self.values[k])!r}; "
                "correct it, or list it in missing_values of the schema"
            )
        return numbers


def _is_finite_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def read_csv(path: str | Path) -> Table:
    """Read a comma-separated file with a header line; `.csv.gz` too.

    Blank lines are skipped. A row with more or fewer cells than the header is refused: otherwise a shifted row would be
    read as wrong values of the right columns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age, income\\n39, <=50K\\n50, >50K\\n")
    ...     table = read_csv(file)
    >>> table.columns["income"].tolist(), table.where(1)
    (['<=50K', '>50K'], 'people.csv line 3')
    """
    source = Path(path).name
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    records = _records(reader, source)
    _, first = next(records, (1, None))
    if first is None:
        raise InputError(f"a header line is needed; {source} is empty; write the column names in its first line")
    if len(first) == 1 and any(mark in first[0] for mark in ";\t|"):
        raise InputError(f"cells are separated by commas; the header of {source} has none: {first[0][:60]!r}")
    names = _header([cell.strip() for cell in first], source)
    columns: list[list[str]] = [[] for _ in names]
    lines: list[int] = []
    stripped = _Stripped()
    while block := list(itertools.islice(records, _BLOCK)):
        for line, cells in block:
            if len(cells) != len(names):
                raise InputError(
                    f"every row must have the {len(names)} cells of the header; {source} line {line} has "
                    f"{len(cells)}; correct that line (quote a cell that contains a comma)"
                )
        lines += [line for line, _ in block]
        for column, of_block in zip(columns, zip(*(cells for _, cells in block), strict=True), strict=True):
            column.extend(map(stripped.__getitem__, of_block))
    if not lines:
        raise InputError(f"at least one row is needed; {source} has a header only; add the records")
    arrays = {name: np.array(column, dtype=object) for name, column in zip(names, columns, strict=True)}
    return Table(arrays, source, np.array(lines))


class _Stripped(dict[str, str]):
    """Maps a cell to its stripped text, one object for equal cells: a column of few values needs little memory."""

    def __missing__(self, cell: str) -> str:
        text = cell.strip()
        self[cell] = self.setdefault(text, text)
        return self[cell]


def _records(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the line on which it begins; a quoted cell may span lines."""
    begins = 1
    try:
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"the file must be CSV; {source} line {begins} is not ({error}); correct that line") from None


def _header(names: list[str], source: str) -> list[str]:
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise InputError(f"column names must differ; {source} has {twice[0]!r} more than once; rename one of them")
    return names
