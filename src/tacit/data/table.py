"""A file of records as text: named columns of strings, before any of them is read as a number."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
    lines: np.ndarray | None = None  # (rows,) line of the file on which each row begins; None: rows are numbered
    nulls: dict[str, np.ndarray] = field(default_factory=dict)  # of bool: cells without a value, whose text is ""
    booleans: frozenset[str] = frozenset()  # columns of true and false, which have no spelling of their own

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must have one length; {self.source} has {lengths}; give each row every column")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def where(self, row: int) -> str:
        """How a message names a row (0-based): by its line when the table came from a text file."""
        return f"{self.source} {self.place} {self.number(row)}"

    @property
    def place(self) -> str:
        """What a row is numbered by: the line of its file, or the row itself."""
        return "row" if self.lines is None else "line"

    def number(self, row: int) -> int:
        """The number by which people find a row (0-based)."""
        return row + 1 if self.lines is None else int(self.lines[row])

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are no column."""
        return [name for name in names if name not in self.columns]

    def require(self, names: Iterable[str]) -> None:
        """Refuse a table that lacks one of these columns."""
        if lacking := self.lacking(names):
            raise InputError(
                f"every column of the schema must be in the file; {self.source} has no column {lacking[0]!r}; "
                f"its columns are: {', '.join(self.columns)}"
            )

    def is_one_of(self, column: str, values: Iterable[str]) -> np.ndarray:
        """(rows,) of bool: whether the cell is one of these strings."""
        wanted = frozenset(values)
        return np.fromiter(map(wanted.__contains__, self.columns[column]), dtype=bool, count=len(self))

    def is_missing(self, column: str, values: Iterable[str]) -> np.ndarray:
        """(rows,) of bool: whether the cell has no value, or is one of these strings, which mean that."""
        listed = self.is_one_of(column, values)
        return listed | self.nulls[column] if column in self.nulls else listed

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
            remedy = "correct it, or list it in missing_values of the schema"
            raise CellError(self, np.flatnonzero(~finite), "a finite number is needed", remedy)
        return numbers

    def take(self, indices: np.ndarray | slice) -> "Cells":
        """Some of these cells."""
        return self._replace(rows=self.rows[indices], values=self.values[indices])


class CellError(InputError):
    """Cells of one column break a rule. The message is about the first of them, `bad` are the indices of all.

    cells, bad : the cells that were read, and which of them break the rule
    rule, remedy : what must hold, and what to do
    known : the values that are allowed, if they can be listed
    """

    def __init__(self, cells: Cells, bad: np.ndarray, rule: str, remedy: str, known: Iterable[str] = ()) -> None:
        k = int(bad[0])
        super().__init__(f"{rule}; {cells.where(k)} holds {str(cells.values[k])!r}; {remedy}")
        self.cells, self.bad, self.remedy, self.known = cells, bad, remedy, tuple(known)


class RaggedError(InputError):
    """Lines of a file have more or fewer cells than its header. The message is about the first of them.

    source, width : the name of the file, and how many cells its header has
    lines : {line: number of its cells}, of all such lines
    rest : the table without them
    """

    def __init__(self, source: str, width: int, lines: dict[int, int], rest: Table) -> None:
        line, count = next(iter(lines.items()))
        super().__init__(
            f"every row must have the {width} cells of the header; {source} line {line} has "
            f"{count}; correct that line (quote a cell that contains a comma)"
        )
        self.width, self.lines, self.rest = width, lines, rest


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
    names = header([cell.strip() for cell in first], source)
    columns: list[list[str]] = [[] for _ in names]
    lines: list[int] = []
    ragged: dict[int, int] = {}
    stripped = Stripped()
    while block := list(itertools.islice(records, _BLOCK)):
        if odd := {line: len(cells) for line, cells in block if len(cells) != len(names)}:
            ragged |= odd
            block = [(line, cells) for line, cells in block if line not in odd]
            if not block:
                continue
        lines += [line for line, _ in block]
        for column, of_block in zip(columns, zip(*(cells for _, cells in block), strict=True), strict=True):
            column.extend(map(stripped.__getitem__, of_block))
    if not lines and not ragged:
        raise InputError(f"at least one row is needed; {source} has a header only; add the records")
    arrays = {name: np.array(column, dtype=object) for name, column in zip(names, columns, strict=True)}
    table = Table(arrays, source, np.array(lines))
    if ragged:
        raise RaggedError(source, len(names), ragged, table)
    return table


class Stripped(dict[str, str]):
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


def header(names: list[str], source: str) -> list[str]:
    """The names of the columns; refuses a name that is there twice."""
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise InputError(f"column names must differ; {source} has {twice[0]!r} more than once; rename one of them")
    return names
