"""A CSV file as a table. Python's csv module reads small files, and says what is wrong with any file.

pyarrow, where it is installed, reads large ones in a tenth of the time; what it refuses, the csv module reads again.
Both follow the same rules; `tests/data/test_csv_file.py` compares them on files that are written badly.
"""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.strings import StringsCollector
from tacit.data.table import HeaderError, RaggedError, Table, header, like_a_record
from tacit.data.text import read_blocks
from tacit.errors import InputError

_SMALL = 6 << 20  # bytes, less than a block: csv reads them in a second; importing pyarrow takes 47 MB
_RECORDS = 4096  # read by csv at once: small lists for a whole file would keep the garbage collector busy


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
    blocks = read_blocks(path)
    first = next(blocks, b"")
    large = len(first) >= _SMALL and Path(path).is_file()  # a pipe cannot be read again
    table = by_arrow(path) if large else None
    return by_csv(path, itertools.chain([first], blocks)) if table is None else table


def by_csv(path: str | Path, blocks: Iterable[bytes] | None = None) -> Table:
    """The table that Python's csv module finds in a file, of which some blocks may have been read."""
    source, blocks = Path(path).name, iter(read_blocks(path) if blocks is None else blocks)
    try:
        return _table(_records(blocks, source), source)
    except InputError:
        for _ in blocks:  # a byte that is not UTF-8 comes first, wherever it is: it may be what broke the rest
            pass
        raise


def by_arrow(path: str | Path) -> Table | None:
    """The same table as pyarrow finds it; None without pyarrow, or if the csv module has to say what is wrong."""
    try:
        from tacit.data.arrow import read_cells
    except ImportError:
        return None
    source = Path(path).name
    try:
        blocks = list(read_blocks(path))
        first, ends = next(_records(blocks[:1], source), None), sum(map(_lines_in, blocks))
        cells = None if first is None else read_cells(blocks, len(first[1]))
        if cells is None:
            return None
        head, columns = cells
        lines = np.arange(2, len(columns[0]) + 2)
        if ends > len(lines) + 1:  # cells of several lines, or blank lines
            lines = np.array([line for line, _ in _records(read_blocks(path), source)][1:])
        names = _names([name.strip() for name in head], source)
        joint: dict[str, Any] = dict(zip(names, columns, strict=True))
        return Table(joint, source, lines)
    except InputError:
        return None


def _lines_in(block: bytes) -> int:
    """How many lines the csv module counts."""
    returns = block.count(b"\r")
    ends = block.count(b"\n") + (returns and returns - block.count(b"\r\n"))
    return ends + (not block.endswith((b"\n", b"\r")))


def _names(names: list[str], source: str) -> list[str]:
    """The names of the columns, which the first record of the file must hold."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        # A file without a header begins with a record, which nobody needs to see here.
        shown = "" if like_a_record(re.split(r"[;\t|]", names[0])) else f": {names[0][:60]!r}"
        none = f"cells are separated by commas; the header of {source} has none{shown}; save it with commas"
        raise HeaderError(none, source)
    return header(names, source)


def _table(records: Iterator[tuple[int, list[str]]], source: str) -> Table:
    _, first = next(records, (1, None))
    if first is None:
        raise InputError(f"a header line is needed; {source} is empty; write the column names in its first line")
    names = _names([cell.strip() for cell in first], source)
    columns = [StringsCollector() for _ in names]
    lines: list[int] = []
    ragged: dict[int, int] = {}
    while block := list(itertools.islice(records, _RECORDS)):
        odd = {line: len(cells) for line, cells in block if len(cells) != len(names)}
        good = [(line, cells) for line, cells in block if line not in odd] if odd else block
        ragged |= odd
        lines += [line for line, _ in good]
        for k, cells in enumerate(zip(*(cells for _, cells in good), strict=True)):
            columns[k].add(cells)
    if not lines and not ragged:
        raise InputError(f"at least one row is needed; {source} has a header only; add the records")
    joint: dict[str, Any] = {name: column.strings() for name, column in zip(names, columns, strict=True)}
    table = Table(joint, source, np.array(lines, dtype=np.int64))
    if ragged:
        raise RaggedError(source, len(names), ragged, table)
    return table


def _records(blocks: Iterable[bytes], source: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the line on which it begins; a quoted cell may span lines."""
    lines = itertools.chain.from_iterable(io.StringIO(block.decode(), newline="") for block in blocks)
    begins, reader = 1, csv.reader(lines)
    try:
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"the file must be CSV; {source} line {begins} is not ({error}); correct that line") from None
