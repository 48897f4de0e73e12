"""A first schema for a file that has none. You must replace what it reads from the data by public knowledge."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import Category, Classes, Label, Multiclass, Number, Target, plain
from tacit.data.frames import as_table
from tacit.data.hints import codes, folded, is_date, spelled_alike
from tacit.data.schema import Schema
from tacit.data.table import Table
from tacit.errors import InputError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

LEAK = (
    "bounds and categories here were read from the data: they are themselves a leak; "
    "replace them by public knowledge before a private run"
)

_MISSING = ("?", "", "NA", "N/A", "null")
_MOST_CATEGORIES = 100
_MOST_CLASSES = 50
_FEWEST_IDS = 20  # fewer values than this may all differ by chance
# id, patient_id, PatientID, but not paid.
_ID_NAME = re.compile(r"(?i:(^|[_\- .])(id|uuid|mrn|ssn|nhs)$)|[a-z]I[dD]$")
# Other columns that name a person and do not describe one.
_PERSON_NAME = re.compile(r"(?i:(^|[_\- .])(zip|zipcode|postcode|phone|email|name)$)")


def draft(table: "Table | IntoFrame", label: str) -> tuple[Schema, list[str]]:
    """A first schema from a file, and notes about it; see `Schema.draft`.

    >>> text = {"age": ["37", "51", "?"], "town": ["Bath", "Bath", "York"], "ill": ["no", "yes", "no"]}
    >>> table = Table({name: np.array(cells, dtype=object) for name, cells in text.items()}, source="three people")
    >>> schema, notes = draft(table, label="ill")
    >>> schema.feature_names
    ('age', 'town=Bath', 'town=York', 'intercept')
    >>> notes[1:]
    ["label 'ill': +1 is yes, -1 is no", "column 'age': 1 of 3 rows lack a value; missing = drop leaves them out"]
    """
    table = as_table(table)
    if label not in table.columns:
        raise InputError(
            f"the label must be a column; {table.source} has no column {label!r}; "
            f"its columns are: {', '.join(table.columns)}"
        )
    notes = [LEAK]
    _refuse_not_finite(table)
    target = _label(_present(table, label), label, table.source)
    if isinstance(target, Classes):
        notes.append(f"label {label!r}: +1 is {', '.join(target.positive)}, -1 is {', '.join(target.negative)}")
    elif isinstance(target, Multiclass):
        notes.append(f"label {label!r} has {len(target.classes)} classes: {', '.join(target.classes)}")
    else:
        notes.append(f"label {label!r} is a number; for classes, write the schema's [label] by hand")
    columns: list[Number | Category] = []
    ids: list[str] = []
    for name in table.columns:
        if name == label:
            continue
        present = _present(table, name)
        if why := _is_id(present, name):
            ids.append(name)
            notes.append(f"column {name!r} is left out: {why}; it is in ids, so tacit predict copies it")
            continue
        column = _column(present, name)
        if isinstance(column, str):
            notes.append(f"column {name!r} is left out: {column}")
            continue
        columns.append(column)
        notes += [f"column {name!r}: {doubt}" for doubt in _doubts(column, present)]
        lacking = len(table) - len(present)
        if lacking:
            notes.append(
                f"column {name!r}: {lacking} of {len(table)} rows lack a value; missing = drop leaves them out"
            )
    if not columns:
        raise InputError(
            f"a schema needs a column to learn from; {table.source} has none that can be used; " + "; ".join(notes[1:])
        )
    missing: dict[str, Any] = {"missing": "drop", "missing_values": _MISSING}
    how: dict[str, Any] = {"intercept": True, "row_norm": 1.0, "drafted": True, "ids": tuple(ids)}
    schema = Schema(label=target, columns=tuple(columns), **how, **missing)
    return schema, notes


def _refuse_not_finite(table: Table) -> None:
    """Refuses NaN and infinity: they are neither values to learn from nor a clear way to write a missing value."""
    for name, cells in table.columns.items():
        odd = np.array([_is_not_finite(text) for text in cells.tolist()], dtype=bool)
        if odd.any():
            row = int(np.argmax(odd))
            raise InputError(
                f"a value must be finite; {table.where(row)}, column {name!r} holds {str(cells[row])!r}; "
                "correct it, or leave the cell empty where the value is missing"
            )


def _is_not_finite(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _present(table: Table, name: str) -> list[str]:
    there = ~table.is_missing(name, _MISSING)
    return table.columns[name][there].tolist()


def _label(values: list[str], name: str, source: str) -> Label:
    distinct = sorted(set(values))
    numbers = _as_numbers(distinct)
    if numbers is None:
        # "yes" and "Yes" are one class.
        folds = {text: folded(text) for text in distinct}
        groups = [tuple(text for text in distinct if folds[text] == fold) for fold in sorted(set(folds.values()))]
    else:
        # "1" and "1.0" are one class.
        groups = [
            tuple(text for text, at in zip(distinct, numbers, strict=True) if at == number)
            for number in np.unique(numbers)
        ]
    if len(groups) < 2:
        found = ", ".join(distinct) or "none"
        raise InputError(
            f"a label needs two classes; column {name!r} of {source} has {len(groups)}: {found}; "
            "choose another label column, or bring records of both classes"
        )
    if len(groups) == 2:
        return Classes(name, positive=groups[1], negative=groups[0])
    if numbers is None:
        if len(groups) > _MOST_CLASSES:
            shown = ", ".join(distinct[:10])
            raise InputError(
                f"a label has at most {_MOST_CLASSES} classes, or is a number; column {name!r} of {source} has "
                f"{len(groups)} classes: {shown}, ...; write the schema's [label] by hand and put them into groups"
            )
        return Multiclass(name, classes=tuple(distinct))
    return Target(name, bounds=(float(numbers.min()), float(numbers.max())))


def _is_id(values: list[str], name: str) -> str | None:
    """Why a column looks like one that tells records apart; None if it does not."""
    if _ID_NAME.search(name):
        return "its name says that it is an identifier"
    if len(values) < _FEWEST_IDS or len(set(values)) < len(values):
        return None
    numbers = _as_numbers(values)
    if numbers is None:
        # Free text has blanks.
        one_word = not any(is_date(value) or " " in value for value in values)
        return "all its values differ, as those of an identifier do" if one_word else None
    counts_rows = np.array_equal(np.sort(numbers), numbers.min() + np.arange(len(numbers)))
    return "it numbers the rows" if counts_rows else None


def _column(values: list[str], name: str) -> Number | Category | str:
    """The column as the schema has it, or the reason why it is left out."""
    distinct = sorted(set(values))
    if _PERSON_NAME.search(name):
        return "its name says that it names a person or a place"
    if len(distinct) < 2:
        return f"it has {len(distinct)} distinct values, so it is of no use"
    dates = sum(map(is_date, distinct))
    if dates > 0.9 * len(distinct):
        return f"it holds dates, such as {distinct[0]}; write a number instead, such as an age or the days since a date"
    numbers = _as_numbers(values)
    if numbers is not None:
        return Number(name, bounds=(float(numbers.min()), float(numbers.max())))
    if len(distinct) == len(values) >= _FEWEST_IDS:
        return "all its values differ"
    if len(distinct) > _MOST_CATEGORIES:
        return f"it is text of {len(distinct)} distinct values, more than {_MOST_CATEGORIES}"
    return Category(name, categories=tuple(distinct))


def _doubts(column: Number | Category, values: list[str]) -> Iterator[str]:
    """What looks wrong with the values of a column that is used."""
    if isinstance(column, Category):
        for group in spelled_alike(column.categories):
            yield f"{' and '.join(map(repr, group))} differ only by case or blanks; write one of them everywhere"
        numeric = [value for value in values if _as_numbers([value]) is not None]
        if 2 * len(numeric) > len(values):
            odd = sorted(set(values) - set(numeric))
            yield f"most of its values are numbers, but not {', '.join(map(repr, odd[:5]))}; correct them"
        return
    numbers = np.array([float(value) for value in values])
    if len(set(values)) == len(values) >= _FEWEST_IDS:
        yield "all its values differ; leave it out if it is an identifier"
    if found := codes(numbers):
        rest = numbers[~np.isin(numbers, found)]
        listed = ", ".join(f"{plain(code)} ({np.count_nonzero(numbers == code):,} times)" for code in found)
        yield (
            f"{listed} is far from the others, which lie between {plain(float(rest.min()))} and "
            f"{plain(float(rest.max()))}; if it means missing, empty those cells and correct the bounds"
        )


def _as_numbers(values: list[str]) -> np.ndarray | None:
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None
