"""A file of records as text: named columns of strings, before any of them is read as a number."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tacit.data.hints import is_date, is_number
from tacit.data.strings import Strings
from tacit.errors import InputError

NO_HEADER = "its first line looks like a record: is it a header? Write the names of the columns there"


def like_a_record(names: Iterable[str]) -> bool:
    """Whether a header looks like a record: numbers and dates are seldom names of columns.

    >>> like_a_record(["P017", "North", "08.08.2023"]), like_a_record(["id", "site", "admitted"])
    (True, False)
    """
    return any(is_number(name) or is_date(name) for name in names)


class HeaderError(InputError):
    """The first line of a file does not name the columns that are needed. The message shows that line, which may be a
    record if the file has no header; `quiet` is the same without it."""

    def __init__(self, message: str, source: str) -> None:
        super().__init__(message)
        self.quiet = f"the first line of {source} must name the columns of the schema, each once, separated by commas"


class Columns(MutableMapping[str, np.ndarray]):
    """Columns by name. A column becomes an array of Python's strings when it is asked for, not before."""

    def __init__(self, columns: Mapping[str, np.ndarray | Strings]) -> None:
        self._held: dict[str, np.ndarray | Strings] = {}
        self._held.update(columns._held if isinstance(columns, Columns) else columns)

    def __getitem__(self, name: str) -> np.ndarray:
        held = self._held[name]
        if isinstance(held, Strings):
            held = self._held[name] = np.array(held, dtype=object)
        return held

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        self._held[name] = values

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def strings(self, name: str) -> Strings:
        """A column as it is kept, which takes little memory."""
        return Strings.of(self._held[name])

    def lengths(self) -> dict[str, int]:
        """How many cells each column has."""
        return {name: len(values) for name, values in self._held.items()}


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of strings as they are in a file.

    >>> table = Table({"age": np.array(["39", "50"], dtype=object)}, source="people.csv")
    >>> len(table), table.where(1)
    (2, 'people.csv row 2')
    """

    columns: Mapping[str, np.ndarray]  # each (rows,), of stripped strings
    source: str  # what messages call the file
    lines: np.ndarray | None = None  # (rows,) line of the file on which each row begins; None: rows are numbered
    nulls: dict[str, np.ndarray] = field(default_factory=dict)  # of bool: cells without a value, whose text is ""
    booleans: frozenset[str] = frozenset()  # columns of true and false, which have no spelling of their own

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Columns(self.columns))
        lengths = self._columns.lengths()
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must have one length; {self.source} has {lengths}; give each row every column")

    def __len__(self) -> int:
        return next(iter(self._columns.lengths().values()), 0)

    @property
    def _columns(self) -> Columns:
        assert isinstance(self.columns, Columns)
        return self.columns

    def strings(self, column: str) -> Strings:
        """A column as it is kept: what reads large files asks for this, not for `columns`."""
        return self._columns.strings(column)

    def select(self, names: Iterable[str]) -> "Table":
        """The same rows with these columns alone."""
        chosen: dict[str, Any] = {name: self.strings(name) for name in names}
        return replace(self, columns=chosen)

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

    @property
    def headless(self) -> bool:
        """Whether the first line of the file looks like a record, which a message should not show."""
        return self.lines is not None and like_a_record(self.columns)

    def its_columns(self) -> str:
        """What a message about a column that is not there says of those that are."""
        return NO_HEADER if self.headless else f"its columns are: {', '.join(self.columns)}"

    def require(self, names: Iterable[str]) -> None:
        """Refuse a table that lacks one of these columns."""
        if lacking := self.lacking(names):
            raise HeaderError(
                f"every column of the schema must be in the file; {self.source} has no column {lacking[0]!r}; "
                f"{self.its_columns()}",
                self.source,
            )

    def is_one_of(self, column: str, values: Iterable[str]) -> np.ndarray:
        """(rows,) of bool: whether the cell is one of these strings."""
        return self.strings(column).is_one_of(frozenset(values))

    def is_missing(self, column: str, values: Iterable[str]) -> np.ndarray:
        """(rows,) of bool: whether the cell has no value, or is one of these strings, which mean that."""
        listed = self.is_one_of(column, values)
        return listed | self.nulls[column] if column in self.nulls else listed

    def cells(self, column: str, rows: np.ndarray) -> "Cells":
        """The cells of one column in the given rows."""
        return Cells(self, column, rows, self.strings(column)[rows])


class Cells(NamedTuple):
    """Some cells of one column with their rows, so that an error can name the place."""

    table: Table
    column: str
    rows: np.ndarray  # (n,) row of the table of each cell
    values: Strings  # (n,)

    def where(self, k: int) -> str:
        """How a message names cell k."""
        return f"{self.table.where(int(self.rows[k]))}, column {self.column!r}"

    def numbers(self) -> np.ndarray:
        """(n,) of float64; refuses anything that is not a finite number, and names its place and value."""
        numbers = self.values.numbers()
        finite = np.isfinite(numbers)
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
        self.cells, self.bad, self.rule, self.remedy, self.known = cells, bad, rule, remedy, tuple(known)


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


def header(names: list[str], source: str) -> list[str]:
    """The names of the columns; refuses a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            twice = f"{name!r} more than once; rename one of them"
            if like_a_record(names):
                twice = f"one more than once; {NO_HEADER}"
            raise HeaderError(f"column names must differ; {source} has {twice}", source)
        seen.add(name)
    return names
