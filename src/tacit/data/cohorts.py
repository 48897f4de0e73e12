"""Which records a file has, for a ledger: a digest of all of them, and when they came."""

from __future__ import annotations

import re
from hashlib import sha256

import numpy as np

from tacit.data.table import Table
from tacit.errors import InputError

_DAY = re.compile(r"(\d{4}-\d{2})-\d{2}\b.*")
_MOST = 2_000  # cohorts: more are days, or names of records, not months or years


def digest(table: Table) -> str:
    """SHA-256 over the columns and their cells as they were read: a file that is saved with other line ends, quotes or
    blanks is the same.

    >>> digest(Table({"age": np.array(["39", "50"], dtype=object)}, "a.csv"))[:12]
    'e531004aa965'
    """
    found = sha256()
    for name, cells in table.columns.items():
        for text in (name, "\0".join(map(str, cells))):
            raw = text.encode("utf-8", "surrogatepass")
            found.update(len(raw).to_bytes(8, "big") + raw)
    return found.hexdigest()


def cohorts_of(table: Table, column: str) -> tuple[str, ...]:
    """The cohorts of the records: the values of a public column. Of a day (2024-03-17), the month counts.

    >>> table = Table({"admitted": np.array(["2024-03-17", "2024-03-02", "2023"], dtype=object)}, "a.csv")
    >>> cohorts_of(table, "admitted")
    ('2023', '2024-03')
    """
    if column not in table.columns:
        raise InputError(f"the ledger has cohorts by the column {column!r}, which {table.source} does not have")
    cells = table.columns[column]
    if len(empty := np.flatnonzero(cells == "")):
        raise InputError(f"every record needs a cohort; {table.where(int(empty[0]))} has no {column!r}; fill it in")
    found = {_DAY.sub(r"\1", str(value)) for value in set(cells.tolist())}
    if len(found) > _MOST:
        raise InputError(f"column {column!r} of {table.source} has {len(found):,} values; cohorts are months or years")
    if odd := next((value for value in found if not value.isprintable()), None):
        raise InputError(f"a cohort is named in printable characters, not {odd!r}")
    return tuple(sorted(found))
