"""Ledgers of format 1, which belonged to one file of records: what they have spent can be taken over."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tacit.privacy.events import SampledGaussian, to_plain
from tacit.privacy.ledger.entries import Entry, LedgerError, canonical, checked, hashed, unreadable


def rows_of(path: Path) -> list[Entry]:
    """The reservations and payloads of an old ledger, in order. Refuses one that was changed."""
    if not path.is_file():
        raise LedgerError(f"{path} does not exist, or is not a file; name a ledger that exists")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as db:
            meta = db.execute("SELECT * FROM meta").fetchall()
            found = [Entry._make(row) for row in db.execute("SELECT * FROM entries ORDER BY number")]
    except (sqlite3.Error, TypeError) as error:
        raise LedgerError(f"{path} is not a ledger ({error})") from None
    if len(meta) != 1 or meta[0][0] != 1:
        raise LedgerError(f"{path} is not a ledger of format 1: it is used as it is")
    previous = hashed(*meta[0])
    for number, entry in enumerate(found, 1):
        checked(entry.run or "-", entry.tick)
        whole = entry.number == number and entry.previous == previous and entry.hash == hashed(*entry[:-1])
        if not whole or (entry.kind == "reserve" and unreadable(entry)):
            raise LedgerError(f"{path}, row {entry.number}: its content is not what was written")
        previous = entry.hash
    return [_as_now(entry) for entry in found if entry.kind in ("reserve", "payload")]


def _as_now(entry: Entry) -> Entry:
    """What a reservation is now called. In format 1, taking a record out of a sample moved the vector by at most Delta;
    now it is Delta/2, so the same noise is half as many times what counts."""
    event = entry.event() if entry.kind == "reserve" else None
    if not isinstance(event, SampledGaussian):
        return entry
    now = SampledGaussian(event.multiplier / 2, event.rate)
    return entry._replace(body=canonical(to_plain(now)))
