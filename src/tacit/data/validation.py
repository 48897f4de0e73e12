"""Everything that is wrong with a file of records, in one run.

The rules are those of the columns: what `Schema.encode` refuses at the first cell is collected here over all cells. So
a file without problems is one that `encode` takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.data import hints
from tacit.data.columns import Bands, Category, Number, plain
from tacit.data.frames import as_table
from tacit.data.present_cells import Present, readable
from tacit.data.schema import Schema
from tacit.data.strings import Strings
from tacit.data.table import NO_HEADER, CellError, Cells, RaggedError, Table

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST = 5  # values of a finding, and places of a value, that are listed
_NO_CATEGORY = "counts as none of those listed"


class Value(NamedTuple):
    """One wrong value: in how many cells, at which lines or rows first, and what to do."""

    text: str
    cells: int
    first: list[int]
    suggestion: str


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one column."""

    column: str  # empty if it is about the whole file
    problem: str
    cells: int  # how many have it; 0 where it is not about cells
    values: list[Value]  # the most frequent ones
    more: int = 0  # distinct values that are not listed
    warning: bool = False  # training can use the file all the same
    unit: str = "cell"  # what is counted


def validate(records: Table | IntoFrame, schema: Schema) -> list[Finding]:
    """All problems of the records, then all warnings. The records can be used for training if there is no problem.

    What is found shows cells of the records: it must stay where the records are.

    >>> from tacit.data import Category, Classes
    >>> schema = Schema(label=Classes("ill", ("yes",), ("no",)), columns=(Category("sex", ("Female", "Male")),))
    >>> text = {"sex": ["Male", "male", "male"], "ill": ["yes", "no", "No"]}
    >>> table = Table({name: np.array(cells, dtype=object) for name, cells in text.items()}, source="three people")
    >>> for found in validate(table, schema):
    ...     print(found.column, found.problem, found.cells, *found.values[0])
    sex unknown category 2 male 2 [2, 3] did you mean 'Male'? (case or blanks)
    ill unknown label 1 No 1 [3] did you mean 'no'? (case or blanks)
    """
    table = as_table(records)
    used = schema.used()
    lacking = table.lacking(used)
    rows = schema.present(table, [name for name in used if name not in lacking])
    found = [_lacking(name, table) for name in lacking]
    found += _missing(rows, schema)
    for role, column, part in [
        *(("category", column.name, column) for column in schema.columns),
        ("label", schema.label.column, schema.label),
    ]:
        if column not in lacking:
            found += _of_column(rows, role, part, column, schema.forgives(part))
    found += [*_sites(rows, schema), *_ids(table, schema)]
    return sorted(_merged(found), key=lambda each: each.warning)


def ragged(error: RaggedError) -> Finding:
    """What is wrong with a file some lines of which have more or fewer cells than the header."""
    by_count: dict[int, list[int]] = {}
    for line, count in error.lines.items():
        by_count.setdefault(count, []).append(line)
    advice = "quote cells that contain commas"
    values = [
        Value(f"{count} cells", len(lines), lines[:_MOST], f"the header has {error.width}: {advice}")
        for count, lines in sorted(by_count.items(), key=lambda item: -len(item[1]))
    ]
    more = max(0, len(values) - _MOST)
    return Finding("", "wrong length", len(error.lines), values[:_MOST], more, unit="line")


def _found(
    cells: Cells, chosen: np.ndarray, problem: str, suggest: Callable[[str], str] | str, warning: bool = False
) -> Finding:
    """A finding about the chosen cells, its values by how often they occur."""
    texts, which = cells.values[chosen].distinct()
    often = np.bincount(which, minlength=len(texts))
    values = []
    for k in np.argsort(-often, kind="stable")[:_MOST].tolist():
        rows = cells.rows[chosen[np.flatnonzero(which == k)[:_MOST]]]
        text, first = str(texts[k]), [cells.table.number(row) for row in rows.tolist()]
        values.append(Value(text, int(often[k]), first, suggest if isinstance(suggest, str) else suggest(text)))
    return Finding(cells.column, problem, len(chosen), values, max(0, len(texts) - _MOST), warning)


def _lacking(name: str, table: Table, use: str = "") -> Finding:
    meant = None if table.headless else hints.closest_column(name, table.columns)
    advice = NO_HEADER if table.headless else "add it" if meant is None else f"did you mean {meant!r}? Rename it"
    return Finding(name, "missing column", 0, [Value("", 0, [], use or advice)], warning=bool(use))


def _missing(rows: Present, schema: Schema) -> Iterator[Finding]:
    """Cells without a value: refused, or what happens to them."""
    refused = set()
    for fault in rows.faults:
        if isinstance(fault, CellError):
            refused.add(fault.cells.column)
            yield _found(fault.cells, fault.bad, "missing", fault.remedy)
        elif len(rows.table):
            yield Finding("", "every row lacks a value", 0, [Value("", 0, [], 'set missing = "zero"')])
    for name, missing in rows.missing.items():
        if name not in refused and missing.any():
            at = np.flatnonzero(missing)
            read = "; ".join(_without_value(column) for column in schema.columns if column.name == name)
            outcome = "the rows are left out" if schema.missing == "drop" else read
            yield _found(rows.table.cells(name, at), np.arange(len(at)), "missing", outcome, warning=True)


def _without_value(column: Number | Bands | Category) -> str:
    """What an empty cell counts as, with missing = "zero"."""
    if isinstance(column, Number):
        return f"counts as {plain(column.bounds[0])}, the lower bound"
    return "counts as none of the bands" if isinstance(column, Bands) else _NO_CATEGORY


def _of_column(rows: Present, role: str, part: Any, column: str, forgiven: bool) -> Iterator[Finding]:
    """What is wrong with the cells of one feature column, or of the label."""
    _, cells = rows.cells(column)
    encoded, good, error = readable(part.encode, cells)
    if error is not None:
        yield _unreadable(error, role, forgiven)
    if encoded.outside.any():
        banded = isinstance(part, Bands)
        lo, *_, hi = map(plain, part.edges if banded else part.bounds)

        def suggest(text: str) -> str:
            end = "in the nearest band" if banded else f"as {lo if float(text) < float(lo) else hi}"
            code = "; a code for missing? Empty the cell, or list it in missing_values"
            return f"outside {lo} to {hi}: counts {end}{code if hints.looks_like_code(text) else ''}"

        yield _found(cells.take(good), np.flatnonzero(encoded.outside), "clipped", suggest, warning=True)


def _unreadable(error: CellError, role: str, forgiven: bool = False) -> Finding:
    if not error.known:
        return _found(error.cells, error.bad, "not a number", lambda text: hints.about_number(text, error.remedy))

    def suggest(text: str) -> str:
        if role == "site" and not text:
            return "every record needs a site"
        if role == "label" and text.casefold() in hints.MISSING_WORDS:
            return "does it mean missing? Fill it in, or take the record out"
        # With unknown = "zero" already in the schema, the remedy must not advise it.
        remedy = "correct it, or add it to the schema" if forgiven else error.remedy
        advice = hints.about_value(text, error.known, remedy)
        return f"{advice}; {_NO_CATEGORY}" if forgiven else advice

    return _found(error.cells, error.bad, f"unknown {role}", suggest, forgiven)


def _sites(rows: Present, schema: Schema) -> Iterator[Finding]:
    if schema.sites is None:
        return
    column, table = schema.sites.column, rows.table
    if column not in table.columns:
        yield _lacking(column, table, "tacit train --site needs it, nothing else does")
        return
    _, _, error = readable(schema.sites.place, table.cells(column, rows.kept))
    if error is not None:
        yield _unreadable(error, "site")


def _ids(table: Table, schema: Schema) -> Iterator[Finding]:
    lacking = table.lacking(schema.ids)
    yield from (_lacking(name, table, "tacit predict copies it; training does not need it") for name in lacking)
    if lacking or not schema.ids:
        return
    # Several columns name a record together, such as a patient and a visit.
    keys = list(zip(*(table.strings(name).tolist() for name in schema.ids), strict=True))
    often = Counter(keys)
    twice = np.flatnonzero([often[key] > 1 for key in keys])
    if len(twice):
        texts = Strings.of([" ".join(key) for key in keys])
        cells = Cells(table, ", ".join(schema.ids), np.arange(len(table)), texts)
        advice = "one person, several records? Privacy is for each record"
        yield _found(cells, twice, "duplicate id", advice, warning=True)


def _merged(found: list[Finding]) -> list[Finding]:
    """Without what a column that is used twice finds twice."""
    return [each for k, each in enumerate(found) if each not in found[:k]]
