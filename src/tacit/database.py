"""SQLite as ledgers and the stores of agents use it: rows are only ever added, and what is committed is on the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tacit.errors import InputError, MachineError, TacitError

NO_TEXT = "its tables are not described by text"  # SQLite's own message (UnicodeDecodeError) quotes what it found


def keep(db: sqlite3.Connection) -> None:
    """From now on, what is committed outlasts a power cut, and readers do not hold up a writer."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Done completely or not at all, and no other process writes meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # something was raised before the commit, or by it
            db.execute("ROLLBACK")


@contextmanager
def reading(path: Path, patience: float = 5.0) -> Iterator[sqlite3.Connection]:
    """The database in a file that exists, to which nothing is written. It waits so many seconds for other processes."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=patience)) as db:
        yield db


# Errors of the machine, not of the file: the same command may do later.
OF_THE_MACHINE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,  # no lock within some seconds, as on a very busy machine
}


def failed(error: sqlite3.Error, text: str) -> TacitError:
    """The error with this text: of the machine, or of whoever named the file (as `tacit.errors.failed`)."""
    return (MachineError if cause(error) in OF_THE_MACHINE else InputError)(text)


def cause(error: sqlite3.Error) -> int:
    """The kind of an error, such as `sqlite3.SQLITE_FULL`: the low byte of its code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
