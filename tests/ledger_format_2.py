"""A ledger of format 2, as tacit wrote it before ledgers had marks."""

import sqlite3
from contextlib import closing
from pathlib import Path

_SCHEMA = """
CREATE TABLE meta (
    format INTEGER NOT NULL,
    population TEXT NOT NULL,
    created TEXT NOT NULL,
    book TEXT NOT NULL,
    secret BLOB NOT NULL,
    cohorts TEXT NOT NULL
);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    kind TEXT NOT NULL CHECK (kind IN ('cap', 'file', 'run', 'reserve', 'payload')),
    run TEXT NOT NULL,
    tick INTEGER NOT NULL CHECK (typeof(tick) = 'integer'),
    body BLOB NOT NULL CHECK (typeof(body) = 'blob'),
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE UNIQUE INDEX once ON entries (run, tick, kind) WHERE kind NOT IN ('cap', 'file');

CREATE TRIGGER meta_insert BEFORE INSERT ON meta WHEN EXISTS (SELECT 1 FROM meta)
    BEGIN SELECT RAISE(ABORT, 'a ledger has one population'); END;
CREATE TRIGGER meta_update BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER meta_delete BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_insert BEFORE INSERT ON entries
    WHEN NEW.number != (SELECT ifnull(max(number), 0) + 1 FROM entries)
    OR EXISTS (SELECT 1 FROM entries WHERE run = NEW.run AND tick = NEW.tick AND kind = NEW.kind
        AND kind NOT IN ('cap', 'file'))
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
"""


def moved_back(path: Path) -> None:
    """Makes a ledger whose rows have the kinds of format 2 into a file of format 2. Its chain begins with the `meta`
    row: all hashes are computed again."""
    from tacit.privacy.ledger.entries import hashed

    with closing(sqlite3.connect(path)) as db:
        meta = db.execute("SELECT * FROM meta").fetchone()
        rows = db.execute("SELECT * FROM entries ORDER BY number").fetchall()
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_SCHEMA)
        meta = (2, *meta[1:])
        db.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?)", meta)
        previous = hashed(*meta)
        for row in rows:
            fields = (*row[:5], previous)
            previous = hashed(*fields)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", (*fields, previous))
