"""A CSV file as a table. Python's csv module finds the cells of a small file, a compiled loop those of a large one.

Both follow the same rules; `tests/data/test_csv_file.py` compares them on files that are written badly.
"""

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.data.strings import MOST_DISTINCT, Strings, Texts, joined, packed
from tacit.data.table import HeaderError, RaggedError, Table, header, like_a_record
from tacit.data.text import read_blocks
from tacit.errors import InputError

_SMALL = 6 << 20  # bytes, less than a block: csv reads them in a second; a loop must be compiled once on every machine
_RECORDS = 4096  # read by csv at once: small lists for a whole file would keep the garbage collector busy


class Part(NamedTuple):
    """Some records of a file, one behind the other."""

    lines: np.ndarray  # (records,) the line on which each begins
    counts: np.ndarray  # (records,) how many cells each has
    columns: Callable[[np.ndarray, int], list[Strings]]  # the columns of these records, which have so many cells


Tokeniser = Callable[[Iterable[bytes], str], Iterator[Part]]


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
    return read_by(path)


def read_by(path: str | Path, tokeniser: Tokeniser | None = None) -> Table:
    """Read a CSV file; the size of the file chooses the tokeniser if none is given."""
    source, blocks = Path(path).name, read_blocks(path)
    try:
        first = next(blocks, b"")
        tokeniser = tokeniser or (by_csv if len(first) < _SMALL else by_kernel)
        return _table(tokeniser(itertools.chain([first], blocks), source), source)
    except InputError:
        for _ in blocks:  # a byte that is not UTF-8 comes first, wherever it is: it may be what broke the rest
            pass
        raise


def _names(part: Part | None, source: str) -> list[str]:
    """The names of the columns: the first record of the file."""
    if part is None:
        raise InputError(f"a header line is needed; {source} is empty; write the column names in its first line")
    names = [str(cell) for (cell,) in part.columns(np.zeros(1, dtype=np.int64), int(part.counts[0]))]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        # A file without a header begins with a record, which nobody needs to see here.
        shown = "" if like_a_record(re.split(r"[;\t|]", names[0])) else f": {names[0][:60]!r}"
        none = f"cells are separated by commas; the header of {source} has none{shown}; save it with commas"
        raise HeaderError(none, source)
    return header(names, source)


def _table(parts: Iterator[Part], source: str) -> Table:
    parts = (part for part in parts if len(part.lines))
    first = next(parts, None)
    names = _names(first, source)
    columns: list[list[Strings]] = [[] for _ in names]
    lines: list[np.ndarray] = []
    ragged: dict[int, int] = {}
    for part in itertools.chain([first], parts):
        assert part is not None
        good = part.counts == len(names)
        odd = np.flatnonzero(~good)
        ragged |= zip(part.lines[odd].tolist(), part.counts[odd].tolist(), strict=True)
        rows = np.flatnonzero(good)[1 if part is first else 0 :]  # without the header
        if len(rows):
            lines.append(part.lines[rows])
            for column, piece in zip(columns, part.columns(rows, len(names)), strict=True):
                column.append(piece)
    if not lines and not ragged:
        raise InputError(f"at least one row is needed; {source} has a header only; add the records")
    joint: dict[str, Any] = {}
    for name, pieces in zip(names, columns, strict=True):
        joint[name] = joined(pieces) if pieces else Strings.of([])
        pieces.clear()  # two copies of one column at most
    table = Table(joint, source, np.concatenate(lines) if lines else np.zeros(0, dtype=np.int64))
    if ragged:
        raise RaggedError(source, len(names), ragged, table)
    return table


def by_csv(blocks: Iterable[bytes], source: str) -> Iterator[Part]:
    """The records as Python's csv module finds them."""
    records = _records(b"".join(blocks).decode(), source)
    stripped = Stripped()
    while block := list(itertools.islice(records, _RECORDS)):

        def columns(rows: np.ndarray, width: int, block: list[tuple[int, list[str]]] = block) -> list[Strings]:
            cells = zip(*(block[k][1] for k in rows.tolist()), strict=True)
            return [Strings.of([stripped[cell] for cell in column]) for column in cells]

        counts = np.array([len(cells) for _, cells in block])
        yield Part(np.array([line for line, _ in block]), counts, columns)


def by_kernel(blocks: Iterable[bytes], source: str) -> Iterator[Part]:
    """The records as a compiled loop finds them."""
    from tacit.data.csv_kernels import tokenise

    line, rest, limit = 1, b"", csv.field_size_limit()
    blocks = iter(blocks)
    block, more = next(blocks, b""), next(blocks, None)
    while True:
        block = rest + block
        raw, cells = np.frombuffer(block, dtype=np.uint8), len(block) + 1
        start, stop = np.empty(cells, dtype=np.int64), np.empty(cells, dtype=np.int64)  # as much as is used is taken
        odd, lines = np.empty(cells, dtype=np.bool_), np.empty(cells, dtype=np.int64)
        counts = np.empty(cells, dtype=np.int64)
        records, cells, done, line = tokenise(raw, more is None, line, limit, start, stop, odd, lines, counts)
        spans = Spans(block, start[:cells], stop[:cells])
        first = np.concatenate([[0], np.cumsum(counts[:records])])  # the first cell of each record
        try:
            spans.read(np.flatnonzero(odd[:cells]))
        except _CellError as error:
            broken = int(np.searchsorted(first, error.cell, side="right")) - 1
            yield spans.part(lines[:broken], counts[:broken], first)
            raise _not_csv(source, int(lines[broken]), error.reason) from None
        yield spans.part(lines[:records], counts[:records], first)
        if more is None:
            return
        rest, block, more = block[done:], more, next(blocks, None)


class _CellError(Exception):
    """The csv module refuses a cell."""

    def __init__(self, cell: int, reason: csv.Error) -> None:
        self.cell, self.reason = cell, reason


class Spans:
    """Cells of a block of bytes: cell k is block[start[k]:stop[k]]."""

    def __init__(self, block: bytes, start: np.ndarray, stop: np.ndarray) -> None:
        self.raw, self.start, self.stop = np.frombuffer(block, dtype=np.uint8), start, stop
        self._block = block

    def read(self, cells: np.ndarray) -> None:
        """Lets the csv module read these cells, with quotes inside or very long. Their text goes behind the block."""
        extra, size = [], len(self._block)
        for cell in cells.tolist():
            text = self._block[self.start[cell] : self.stop[cell]].decode()
            try:
                (read,) = next(csv.reader(io.StringIO(text, newline="")))
            except csv.Error as error:
                raise _CellError(cell, error) from None
            letters = read.strip().encode()
            extra.append(letters)
            self.start[cell], self.stop[cell] = size, size + len(letters)
            size += len(letters)
        if extra:
            self.raw = np.frombuffer(b"".join([self._block, *extra]), dtype=np.uint8)

    def part(self, lines: np.ndarray, counts: np.ndarray, first: np.ndarray) -> Part:
        """Records with so many cells, given the first cell of each."""

        def columns(rows: np.ndarray, width: int) -> list[Strings]:
            return [self._column(first[rows] + j) for j in range(width)]

        return Part(lines.copy(), counts, columns)

    def _column(self, cells: np.ndarray) -> Strings:
        from tacit.data.csv_kernels import distinct

        start, stop = self.start[cells], self.stop[cells]
        most = min(MOST_DISTINCT, len(cells))
        codes, firsts = np.empty(len(cells), dtype=np.uint16), np.empty(most, dtype=np.int64)
        found = distinct(self.raw, start, stop, most, codes, firsts)
        if found < 0:
            return Strings(packed(self.raw, start, stop))
        texts = packed(self.raw, start[firsts[:found]], stop[firsts[:found]]).texts(None)
        return Strings(Texts(texts), codes)


class Stripped(dict[str, str]):
    """Maps a cell to its stripped text, one object for equal cells: a column of few values needs little memory."""

    def __missing__(self, cell: str) -> str:
        text = cell.strip()
        self[cell] = self.setdefault(text, text)
        return self[cell]


def _records(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the line on which it begins; a quoted cell may span lines."""
    begins, reader = 1, csv.reader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1
    except csv.Error as error:
        raise _not_csv(source, begins, error) from None


def _not_csv(source: str, line: int, error: Any) -> InputError:
    return InputError(f"the file must be CSV; {source} line {line} is not ({error}); correct that line")
