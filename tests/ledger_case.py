"""Ledgers that several tests fill and tamper with."""

import sqlite3

from ledger_worker import ROUND, RUN

from tacit.privacy.ledger import Cap

CAP = Cap(epsilon=10.0, delta=1e-6)


def released(ledger, rounds, payload=b"payload %d"):
    """Releases some rounds."""
    for tick in range(rounds):
        ledger.reserve(RUN, tick, ROUND)
        ledger.store(RUN, tick, payload % tick)


def tamper(path, *changes):
    """Edits the file with SQL: without its triggers, which are put back afterwards."""
    db = sqlite3.connect(path, isolation_level=None)
    triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    for change in changes:
        db.execute(change)
    for _, sql in triggers:
        db.execute(sql)
    db.close()
