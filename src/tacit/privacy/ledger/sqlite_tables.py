"""The tables of a ledger, with triggers that refuse all but new rows; how those of the format before become these."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import lru_cache
from typing import Any

FORMAT = 3
BEFORE = 2  # a format that is moved on when it is opened

# Rows of entries, numbered 1, 2, 3, ...: `tacit.privacy.ledger.entries` says what they hold. The body is canonical
# JSON, or the bytes that are sent. The secret salts whatever leaves the file. INSERT OR REPLACE deletes rows without
# asking the trigger on DELETE: whatever it could replace is refused by the trigger on INSERT.
# Files are compared with this text to the letter: after a change it is another FORMAT.
_KINDS = "'cap', 'file', 'run', 'reserve', 'start', 'mark', 'payload'"
_KINDS_BEFORE = "'cap', 'file', 'run', 'reserve', 'payload'"
_META = """
CREATE TABLE meta (
    format INTEGER NOT NULL,
    population TEXT NOT NULL,
    created TEXT NOT NULL,
    book TEXT NOT NULL,
    secret BLOB NOT NULL,
    cohorts TEXT NOT NULL
);
CREATE TRIGGER meta_insert BEFORE INSERT ON meta WHEN EXISTS (SELECT 1 FROM meta)
    BEGIN SELECT RAISE(ABORT, 'a ledger has one population'); END;
CREATE TRIGGER meta_update BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER meta_delete BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
"""
_ENTRIES = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    kind TEXT NOT NULL CHECK (kind IN (KINDS)),
    run TEXT NOT NULL,
    tick INTEGER NOT NULL CHECK (typeof(tick) = 'integer'),
    body BLOB NOT NULL CHECK (typeof(body) = 'blob'),
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE UNIQUE INDEX once ON entries (run, tick, kind) WHERE kind NOT IN ('cap', 'file');
CREATE TRIGGER entries_insert BEFORE INSERT ON entries
    WHEN NEW.number != (SELECT ifnull(max(number), 0) + 1 FROM entries)
    OR EXISTS (SELECT 1 FROM entries WHERE run = NEW.run AND tick = NEW.tick AND kind = NEW.kind
        AND kind NOT IN ('cap', 'file'))
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
"""
SCHEMA = _META + _ENTRIES.replace("KINDS", _KINDS)
SCHEMA_BEFORE = _META + _ENTRIES.replace("KINDS", _KINDS_BEFORE)


def move_on(ask: Callable[[str], list[Any]]) -> None:
    """Puts the rows of the format before into the tables of this one, by these statements."""
    for name in ask("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'entries'"):
        ask(f"DROP TRIGGER {name[0]}")  # a name of ours: the tables were compared
    ask("DROP INDEX once")
    ask("ALTER TABLE entries RENAME TO before")
    for statement in _statements(_ENTRIES.replace("KINDS", _KINDS)):
        ask(statement)
    ask("DROP TRIGGER entries_insert")  # it looks at all rows for each: they have been checked
    ask("INSERT INTO entries SELECT * FROM before ORDER BY number")
    for statement in _statements(_ENTRIES):
        if "entries_insert" in statement:
            ask(statement)
    ask("DROP TABLE before")


@lru_cache
def tables_of(schema: str) -> dict[str, str]:
    """The statements by which SQLite remembers its tables, by their names."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return dict(db.execute("SELECT name, sql FROM sqlite_master").fetchall())


def _statements(schema: str) -> Iterator[str]:
    """The single statements of a schema: `executescript` would end the transaction."""
    statement = ""
    for line in schema.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip().removesuffix(";")
            statement = ""
