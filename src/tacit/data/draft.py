"""A first schema for a file that has none. You must replace what it reads from the data by public knowledge."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import Category, Classes, Label, Multiclass, Number, Target, plain
from tacit.data.frames import as_table
from tacit.data.hints import about_number, codes, folded, is_date, spelled_alike
from tacit.data.schema import Schema
from tacit.data.strings import Strings
from tacit.data.table import Cells, Table
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
_FIRST = 1000  # values that are compared before all are
_FEWEST_TYPED = 5  # fewer values that look like numbers may be names: 1st, 2nd
_TYPOS = 0.1  # the largest share of cells of a column of numbers that are none
_SHOWN = 5  # wrong cells that a note lists
_NAN = [sign + "".join(word) for sign in ("", "+", "-") for word in itertools.product("nN", "aA", "nN")]
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
    ["label 'ill': yes is positive, no is negative; if you predict the other one, exchange them in the schema", \
"column 'age': 1 of 3 rows lack a value; missing = drop leaves them out"]
    """
    table = as_table(table)
    if label not in table.columns:
        raise InputError(f"the label must be a column; {table.source} has no column {label!r}; {table.its_columns()}")
    notes = [LEAK]
    _refuse_not_finite(table)
    target = _label(_present(table, label).values, label, table.source)
    notes += _about_label(target)
    columns: list[Number | Category] = []
    ids: list[str] = []
    typos: list[str] = []
    for name in table.columns:
        if name == label:
            continue
        present = _present(table, name)
        if why := _is_id(present.values, name):
            ids.append(name)
            notes.append(f"column {name!r} is left out: {why}; it is in ids, so tacit predict copies it")
            continue
        odd = _typos(present, name)
        good = present.take(np.delete(np.arange(len(present.rows)), odd))
        column = _column(good.values, name)
        if isinstance(column, str):
            notes.append(f"column {name!r} is left out: {column}")
            continue
        columns.append(column)
        if len(odd):
            typos += dict.fromkeys(present.values[odd])
            notes.append(f"column {name!r}: {_listed(present, odd)}; correct them")
        notes += [f"column {name!r}: {doubt}" for doubt in _doubts(column, good.values)]
        lacking = len(table) - len(good.rows)
        if lacking:
            notes.append(
                f"column {name!r}: {lacking} of {len(table)} rows lack a value; missing = drop leaves them out"
            )
    if typos:
        notes.append("the cells that should be numbers are in missing_values: training leaves their rows out")
    if not columns:
        raise InputError(
            f"a schema needs a column to learn from; {table.source} has none that can be used; " + "; ".join(notes[1:])
        )
    missing: dict[str, Any] = {"missing": "drop", "missing_values": (*_MISSING, *_harmless(typos, target, columns))}
    how: dict[str, Any] = {"intercept": True, "row_norm": 1.0, "drafted": True, "ids": tuple(ids)}
    schema = Schema(label=target, columns=tuple(columns), **how, **missing)
    return schema, notes


def _about_label(label: Label) -> Iterator[str]:
    """How a label was read."""
    name = f"label {label.column!r}"
    if isinstance(label, Classes):
        yield (
            f"{name}: {', '.join(label.positive)} is positive, {', '.join(label.negative)} is negative; if you predict "
            "the other one, exchange them in the schema"
        )
    elif isinstance(label, Multiclass):
        yield f"{name} has {len(label.classes)} classes: {', '.join(label.classes)}"
        yield from (f"{name}: {doubt}" for doubt in about_spelling(label.classes))
    else:
        yield f"{name} is a number; for classes, write the schema's [label] by hand"


def _refuse_not_finite(table: Table) -> None:
    """Refuses NaN and infinity: they are neither values to learn from nor a clear way to write a missing value."""
    for name in table.columns:
        cells = table.strings(name)
        odd = np.isinf(cells.numbers()) | cells.is_one_of(_NAN)
        if odd.any():
            row = int(np.argmax(odd))
            raise InputError(
                f"a value must be finite; {table.where(row)}, column {name!r} holds {str(cells[row])!r}; "
                "correct it, or leave the cell empty where the value is missing"
            )


def _present(table: Table, name: str) -> Cells:
    return table.cells(name, np.flatnonzero(~table.is_missing(name, _MISSING)))


def _label(values: Strings, name: str, source: str) -> Label:
    distinct = sorted(values.distinct()[0])
    numbers = _as_numbers(Strings.of(distinct))
    if numbers is None:
        # "yes" and "Yes" are one class.
        folds = {text: folded(text) for text in distinct}
        groups = [tuple(text for text in distinct if folds[text] == fold) for fold in sorted(set(folds.values()))]
    else:
        # "1" and "1.0" are one class.
        alike: dict[float, list[str]] = {}
        for text, number in zip(distinct, numbers.tolist(), strict=True):
            alike.setdefault(number, []).append(text)
        groups = [tuple(alike[number]) for number in sorted(alike)]
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


def _is_id(values: Strings, name: str) -> str | None:
    """Why a column looks like one that tells records apart; None if it does not."""
    if _ID_NAME.search(name):
        return "its name says that it is an identifier"
    if not _all_differ(values):
        return None
    numbers = _as_numbers(values)
    if numbers is None:
        # Free text has blanks, and 8,1 is a number.
        one_word = not any(" " in value or "," in value or is_date(value) for value in values)
        return "all its values differ, as those of an identifier do" if one_word else None
    counts_rows = np.array_equal(np.sort(numbers), numbers.min() + np.arange(len(numbers)))
    return "it numbers the rows" if counts_rows else None


def _all_differ(values: Strings) -> bool:
    """Whether there are many values, each of them once."""
    n = len(values)
    # Among the first values of most columns some are equal: then nobody looks at the others.
    return n >= _FEWEST_IDS and len(values[:_FIRST].distinct()[0]) == min(n, _FIRST) and len(values.distinct()[0]) == n


def _typos(cells: Cells, name: str) -> np.ndarray:
    """Which cells of a column of numbers are none; no cell if the column is not one of numbers."""
    numbers = cells.values.numbers()
    odd = np.flatnonzero(~np.isfinite(numbers))
    few = 0 < len(odd) <= _TYPOS * len(numbers)
    # A handful of numbers beside a word may be the codes of categories.
    if not few or len(np.unique(np.delete(numbers, odd))) < _FEWEST_IDS or _PERSON_NAME.search(name):
        return odd[:0]
    return odd


def _harmless(typos: list[str], label: Label, columns: list[Number | Category]) -> list[str]:
    """Those that mean nothing elsewhere: a value cannot be missing and a category."""
    taken = {text for column in columns if isinstance(column, Category) for text in column.categories}
    if isinstance(label, Classes):
        taken |= {*label.positive, *label.negative}
    elif isinstance(label, Multiclass):
        taken |= set(label.classes)
    return [text for text in dict.fromkeys(typos) if text not in taken]


def _listed(cells: Cells, odd: np.ndarray) -> str:
    """The first of these cells, with their places."""
    table, rows = cells.table, cells.rows[odd[:_SHOWN]].tolist()
    texts = cells.values[odd[:_SHOWN]].tolist()
    shown = ", ".join(f"{text!r} ({table.place} {table.number(row)})" for text, row in zip(texts, rows, strict=True))
    more = "" if len(odd) <= _SHOWN else f" and {len(odd) - _SHOWN:,} more"
    return f"its cells are numbers, but for {shown}{more}"


def _column(values: Strings, name: str) -> Number | Category | str:
    """The column as the schema has it, or the reason why it is left out."""
    if _PERSON_NAME.search(name):
        return "its name says that it names a person or a place"
    numbers = _as_numbers(values)
    # A number that is a date, too, is one of eight digits.
    dated = numbers is None or bool(np.any((numbers >= 19000101) & (numbers <= 20991231)))
    if numbers is not None and len(numbers) and numbers.min() < numbers.max() and not dated:
        return Number(name, bounds=(float(numbers.min()), float(numbers.max())))
    distinct = sorted(values.distinct()[0])
    if len(distinct) < 2 or (numbers is not None and numbers.min() == numbers.max()):
        return f"it has {min(len(distinct), 1)} distinct values, so it is of no use"
    dates = sum(map(is_date, distinct))
    if dates > 0.9 * len(distinct):
        return f"it holds dates, such as {distinct[0]}; write a number instead, such as an age or the days since a date"
    if numbers is not None:
        return Number(name, bounds=(float(numbers.min()), float(numbers.max())))
    if len(distinct) == len(values) >= _FEWEST_IDS:
        return "; ".join(["all its values differ", *_meant_as_numbers(distinct)])
    if len(distinct) > _MOST_CATEGORIES:
        text = f"it is text of {len(distinct)} distinct values, more than {_MOST_CATEGORIES}"
        return "; ".join([text, *_meant_as_numbers(distinct)])
    return Category(name, categories=tuple(distinct))


def _doubts(column: Number | Category, values: Strings) -> Iterator[str]:
    """What looks wrong with the values of a column that is used."""
    numbers = values.numbers()
    if isinstance(column, Category):
        yield from about_spelling(column.categories)
        yield from _meant_as_numbers(column.categories)
        odd = np.flatnonzero(~np.isfinite(numbers))
        if 2 * len(odd) < len(values):
            texts = sorted(values[odd].distinct()[0])
            yield f"most of its values are numbers, but not {', '.join(map(repr, texts[:_SHOWN]))}; correct them"
        return
    if _all_differ(values):
        yield "all its values differ; leave it out if it is an identifier"
    if found := codes(numbers):
        rest = numbers[~np.isin(numbers, found)]
        listed = ", ".join(f"{plain(code)} ({_times(int(np.count_nonzero(numbers == code)))})" for code in found)
        yield (
            f"{listed}: far from the others, which lie between {plain(float(rest.min()))} and "
            f"{plain(float(rest.max()))}; if such a value means missing, empty those cells or list it in "
            "missing_values, and correct the bounds"
        )


def _meant_as_numbers(texts: Sequence[str]) -> Iterator[str]:
    """How most of these are written that are numbers for people, if they are: 80 kg, 8,1."""
    hints = {text: hint for text in texts if (hint := about_number(text, ""))}
    if len(hints) >= _FEWEST_TYPED and 2 * len(hints) > len(texts):
        text, hint = next(iter(hints.items()))
        yield f"most of its values look like numbers, such as {text!r}: {hint}"


def about_spelling(texts: tuple[str, ...]) -> Iterator[str]:
    """What to say of texts that differ only by case or blanks."""
    for group in spelled_alike(texts):
        yield f"{' and '.join(map(repr, group))} differ only by case or blanks; write one of them everywhere"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _as_numbers(values: Strings) -> np.ndarray | None:
    numbers = values.numbers()
    return numbers if np.isfinite(numbers).all() else None
