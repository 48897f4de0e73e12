"""Which records a file has, for a ledger: a digest of all of them, and when they came."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from hashlib import sha256

import numpy as np

from tacit.data.table import Table
from tacit.errors import InputError

_DAY = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2]))(?:-\d{2}(?:[T ].*|Z)?)?", re.ASCII)
_YEAR = re.compile(r"(\d{4})(?:\.0+)?", re.ASCII)  # a column of numbers with gaps is often written with .0


def digest(table: Table) -> str:
    """SHA-256 over the columns and their cells as they were read: a file that is saved with other line ends, quotes or
    blanks is the same.

    >>> digest(Table({"age": np.array(["39", "50"], dtype=object)}, "a.csv"))[:12]
    '913700040f33'
    """
    found = sha256()
    for name in table.columns:
        texts = list(map(str, table.strings(name)))
        lengths = np.fromiter(map(len, texts), dtype="<i8", count=len(texts)).tobytes()  # where each cell ends
        for raw in (name.encode(), lengths, "".join(texts).encode("utf-8", "surrogatepass")):
            found.update(len(raw).to_bytes(8, "big") + raw)
    return found.hexdigest()


def cohorts_of(table: Table, column: str) -> tuple[str, ...]:
    """The cohorts of the records, by a public column: years or months. Of a day (2024-03-17), the month counts.

    >>> table = Table({"admitted": np.array(["2024-03-17", "2024-03-02", "2023"], dtype=object)}, "a.csv")
    >>> cohorts_of(table, "admitted")
    ('2023', '2024-03')
    """
    if column not in table.columns:
        raise InputError(f"the ledger has cohorts by the column {column!r}, which {table.source} does not have")
    cells = table.strings(column)
    if len(empty := np.flatnonzero(cells.is_one_of([""]))):
        raise InputError(f"every record needs a cohort; {table.where(int(empty[0]))} has no {column!r}; fill it in")
    texts, which = cells.distinct()
    named = {value: _cohort(value) for value in texts}
    if odd := next((value for value in texts if named[value] is None), None):
        raise InputError(
            f"a cohort is a year (2024), a month (2024-03) or a day (2024-03-17), not {odd!r}: "
            f"{table.where(int(np.argmax(which == texts.index(odd))))}, column {column!r}"
        )
    found = {cohort for cohort in named.values() if cohort is not None}
    require_one_grain(found)
    return tuple(sorted(found))


def require_one_grain(cohorts: Collection[str]) -> None:
    """Refuses years beside months: a record of 2024 would not be charged for a run on 2024-03.

    >>> require_one_grain({"2023-12", "2024"})
    >>> require_one_grain({"2024-03", "2024"})
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: the cohorts 2024 and 2024-03 overlap: use years or months, and always the same
    """
    years = {each for each in cohorts if re.fullmatch(r"\d{4}", each, re.ASCII)}
    for each in sorted(cohorts):
        if (year := each[:4]) in years and each != year and each[4] == "-":
            raise InputError(f"the cohorts {year} and {each} overlap: use years or months, and always the same")


def _cohort(value: object) -> str | None:
    """The year or the month; None if it is neither. One day must not be written in two ways: who came then would be
    charged in one file and not in another."""
    text = unicodedata.normalize("NFKC", str(value)).strip()
    match = _DAY.fullmatch(text) or _YEAR.fullmatch(text)
    return None if match is None else match[1]
