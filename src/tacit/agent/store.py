"""What an agent remembers over a crash: one SQLite file for its part in one run.

**Commit before you send.** When the agent has spoken, one transaction writes its new state, the bytes that will leave
and the event that they cost. Only then may neighbours ask for the bytes, and they always get the same ones. What the
agent hears needs no commit: listening is a function of the state and of the neighbours' bytes. The neighbours keep
those bytes, and after a crash the agent asks for them again. What the state has taken in by then is committed with it,
as a digest for each neighbour (`tacit.agent.heard`).

**Why a crash does no harm**, whenever it happens. Let t be the last tick that was committed.
- Noise drawn for a later tick is lost with the process. Nothing of it had left: it is drawn anew, at no cost.
- The bytes of t and of every tick before are here: they are sent again as they are.

**A failed step is no crash.** No record and no neighbour can make a noisy step fail (`tacit.core.rounding`), but a full
disk can, between the drawing of the noise and the commit. Trying again with fresh noise would be a second look at the
records, which nobody has paid for. So the failure is kept, and the run is over.

**The ledger is another file**, and no transaction spans both. None is needed, because of this order:
1. `Ledger.reserve_run` pays for the whole run, under the run's hash, before any noise is drawn. After a restart it
   finds the reservations and pays nothing.
2. The first bytes are committed here, then stored in the ledger, then may leave. So the ledger knows, before anybody
   else can, that this run has released something: what is reserved from then on may depend on it and is charged by the
   stricter rule. A crash in between is repaired at the start: what is committed here is stored there before it is sent.
3. The bytes of later ticks are copied to the ledger when the run is over, so that it holds all that has left. Until
   then this file is their only record; what they cost was paid in 1.

**A store that is lost, or an old copy of it**, must not be used: the agent would draw fresh noise for ticks that were
sent already. A lost store is noticed because the ledger has the run's first bytes. An old copy is noticed by the
neighbours: when agents meet, each says how far it has heard the other. If a neighbour has heard ticks that the store
does not have, the agent says so in its log and waits; it does not speak (`tacit.agent.loop`). One case is not noticed:
an old copy that lacks only the last tick, if all agents that heard it have crashed since, before they spoke again. Keep
the newest store.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacit.agent.heard import Chain
from tacit.errors import InputError, TacitError
from tacit.privacy.events import Event, from_plain, to_plain

_SCHEMA = """
CREATE TABLE run (run TEXT NOT NULL, member TEXT NOT NULL, rounds INTEGER NOT NULL);
CREATE TABLE secret (secret BLOB NOT NULL);
CREATE TABLE without (name TEXT PRIMARY KEY, tick INTEGER NOT NULL);
CREATE TABLE absences (statement BLOB NOT NULL);
CREATE TABLE met (member INTEGER PRIMARY KEY, statement BLOB NOT NULL);
CREATE TABLE keys (member INTEGER PRIMARY KEY, key BLOB NOT NULL);
CREATE TABLE state (only INTEGER PRIMARY KEY CHECK (only = 1), tick INTEGER NOT NULL, arrays BLOB NOT NULL);
CREATE TABLE releases (tick INTEGER PRIMARY KEY, message BLOB NOT NULL, event TEXT NOT NULL);
CREATE TABLE heard (name TEXT PRIMARY KEY, messages INTEGER NOT NULL, digest BLOB NOT NULL);
CREATE TABLE failure (tick INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE peers (name TEXT PRIMARY KEY, contact REAL, gone INTEGER DEFAULT 0, told INTEGER DEFAULT 0);
CREATE TABLE pulse (beat REAL NOT NULL, doing TEXT NOT NULL);
"""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Status:
    """What `tacit agent status` shows."""

    run: str
    member: str
    tick: int  # the last one in which it spoke; rounds, if the run is over; -1 before
    rounds: int
    peers: dict[str, float | None]  # when each neighbour last gave a sign of life
    heartbeat: float | None  # when the process was last known to be alive
    doing: str  # at that time
    events: list[Event]  # of what was released
    without: list[str]  # the members without whom it goes on, in another run


class Store:
    """The file of one agent's part in one run; it is made if it does not exist. One process at a time uses it."""

    def __init__(self, path: Path, run: str, member: str, rounds: int) -> None:
        self.path = path
        try:
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # nobody else may read the state
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute("INSERT INTO run VALUES (?, ?, ?)", (run, member, rounds))
                    self._db.execute("INSERT INTO secret VALUES (?)", (os.urandom(32),))
            found = self._db.execute("SELECT * FROM run").fetchone()
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{path} cannot be used as the store of an agent: {error}") from None
        if found != (run, member, rounds):
            raise InputError(
                f"{path} is the store of {found[1]} in the run {found[0][:12]}, not of {member} in {run[:12]}"
            )

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    # Writing

    def commit(
        self, tick: int, state: Arrays, message: bytes, event: Event, heard: Mapping[str, Chain] | None = None
    ) -> None:
        """The agent has spoken at this tick: afterwards, and not before, the message may leave.

        `heard` is what the state has taken in from each neighbour, if single messages are heard.
        """
        with self._transaction():
            self._db.execute("INSERT INTO releases VALUES (?, ?, ?)", (tick, message, json.dumps(to_plain(event))))
            self._put(tick, state, heard or {})

    def fail(self, tick: int, reason: str) -> None:
        """Noise was drawn for this tick, but nothing could be released."""
        with self._transaction():
            self._db.execute("INSERT INTO failure VALUES (?, ?)", (tick, reason))

    def finish(self, rounds: int, state: Arrays, heard: Mapping[str, Chain] | None = None) -> None:
        """The agent has heard everything that it needs."""
        with self._transaction():
            self._put(rounds, state, heard or {})

    def heartbeat(self, contacts: Mapping[str, float | None], doing: str) -> None:
        """Writes down that the process is alive, for `tacit agent status`."""
        with self._transaction():
            self._db.execute("DELETE FROM pulse")
            self._db.execute("INSERT INTO pulse VALUES (?, ?)", (time.time(), doing))
            for name, contact in contacts.items():
                known = "ON CONFLICT DO UPDATE SET contact = excluded.contact"
                self._db.execute(f"INSERT INTO peers (name, contact) VALUES (?, ?) {known}", (name, contact))

    def mark_finished(self, name: str) -> None:
        """This neighbour has heard everything that it needs from this agent, and has committed it."""
        self._mark(name, "gone")

    def mark_notified(self, name: str) -> None:
        """This neighbour knows that this agent needs no more from it."""
        self._mark(name, "told")

    def go_on(self, without: Iterable[str], tick: int = 0, absences: Iterable[bytes] = ()) -> None:
        """This agent leaves this run at this tick, and goes on without these members, in another run.

        The statements that they are away are kept: members that come later must see them, too.
        """
        with self._transaction():
            self._db.executemany("INSERT INTO without VALUES (?, ?)", [(name, tick) for name in sorted(without)])
            self._db.executemany("INSERT INTO absences VALUES (?)", [(statement,) for statement in absences])

    def keep_key(self, member: int, key: bytes) -> None:
        """The public key of a member in this run."""
        with self._transaction():
            self._db.execute("INSERT INTO keys VALUES (?, ?)", (member, key))

    def keep_met(self, member: int, statement: bytes) -> None:
        """What a member has signed: that it has met all its neighbours in this run."""
        with self._transaction():
            self._db.execute("INSERT INTO met VALUES (?, ?)", (member, statement))

    # Reading

    @property
    def secret(self) -> bytes:
        """32 bytes that nobody else knows. What is derived from them is the same after a crash."""
        return bytes(self._db.execute("SELECT secret FROM secret").fetchone()[0])

    def failure(self) -> tuple[int, str] | None:
        """The tick at which nothing could be released, and why; None if there is none."""
        found = self._db.execute("SELECT * FROM failure").fetchone()
        return None if found is None else (found[0], found[1])

    def without(self) -> list[str]:
        """The members without whom this agent goes on in another run; empty if it has not left this run."""
        return [name for (name,) in self._db.execute("SELECT name FROM without ORDER BY name")]

    def left_at(self) -> int:
        """The tick at which this agent left this run; 0 if it has not."""
        return int(self._db.execute("SELECT coalesce(max(tick), 0) FROM without").fetchone()[0])

    def absences(self) -> list[bytes]:
        """The signed statements for which this agent left this run."""
        return [bytes(statement) for (statement,) in self._db.execute("SELECT statement FROM absences")]

    def keys(self) -> dict[int, bytes]:
        """The members' keys."""
        return {member: bytes(key) for member, key in self._db.execute("SELECT * FROM keys ORDER BY member")}

    def met(self) -> dict[int, bytes]:
        """The members' signed statements that they have met their neighbours."""
        return {member: bytes(raw) for member, raw in self._db.execute("SELECT * FROM met ORDER BY member")}

    def state(self) -> tuple[int, Arrays] | None:
        """The last tick that was committed, and the state after it; None if there is none."""
        found = self._db.execute("SELECT tick, arrays FROM state").fetchone()
        return None if found is None else (found[0], _unpacked(found[1]))

    def message(self, tick: int) -> bytes | None:
        """What left at this tick, or may leave now."""
        found = self._db.execute("SELECT message FROM releases WHERE tick = ?", (tick,)).fetchone()
        return None if found is None else bytes(found[0])

    def releases(self) -> list[tuple[int, bytes, Event]]:
        """All that left, in order."""
        found = self._db.execute("SELECT * FROM releases ORDER BY tick").fetchall()
        return [(tick, bytes(message), from_plain(json.loads(event))) for tick, message, event in found]

    def heard(self) -> dict[str, Chain]:
        """What the state has taken in from each neighbour."""
        found = self._db.execute("SELECT name, messages, digest FROM heard ORDER BY name")
        return {name: Chain(messages, bytes(digest)) for name, messages, digest in found}

    def finished_neighbours(self) -> set[str]:
        """The neighbours that need no more from this agent."""
        return self._marked("gone")

    def notified_neighbours(self) -> set[str]:
        """The neighbours that know that this agent needs no more from them."""
        return self._marked("told")

    # Inside

    def _marked(self, column: Literal["gone", "told"]) -> set[str]:
        return {name for (name,) in self._db.execute(f"SELECT name FROM peers WHERE {column}")}

    def _mark(self, name: str, column: Literal["gone", "told"]) -> None:
        mark = f"INSERT INTO peers (name, {column}) VALUES (?, 1) ON CONFLICT DO UPDATE SET {column} = 1"
        with self._transaction():
            self._db.execute(mark, (name,))

    def _put(self, tick: int, state: Arrays, heard: Mapping[str, Chain]) -> None:
        self._db.execute("INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (tick, _packed(state)))
        chains = [(name, *chain) for name, chain in heard.items()]
        self._db.executemany("INSERT OR REPLACE INTO heard VALUES (?, ?, ?)", chains)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise TacitError(f"{self.path}: {error}; nothing was sent") from None
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def status(path: Path) -> Status:
    """Reads a store that a process may be writing to."""
    if not path.exists():
        raise InputError(f"there is no store {path}: the agent has not been started yet, or it has another --store")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("BEGIN")  # all that follows is read at one moment
            run, member, rounds = db.execute("SELECT * FROM run").fetchone()
            tick = db.execute("SELECT tick FROM state").fetchone()
            alive = db.execute("SELECT * FROM pulse").fetchone()
            peers = dict(db.execute("SELECT name, contact FROM peers ORDER BY name"))
            released = db.execute("SELECT event FROM releases ORDER BY tick")
            events = [from_plain(json.loads(event)) for (event,) in released]
            without = [name for (name,) in db.execute("SELECT name FROM without ORDER BY name")]
    except (sqlite3.Error, TypeError) as error:
        raise InputError(f"{path} is not the store of an agent: {error}") from None
    heartbeat, doing = alive or (None, "not started")
    return Status(run, member, -1 if tick is None else tick[0], rounds, peers, heartbeat, doing, events, without)


def _packed(arrays: Arrays) -> bytes:
    """One line of JSON with the names and shapes of the arrays, then their bytes: float64, little endian."""
    head: list[Any] = [[name, list(array.shape)] for name, array in arrays.items()]
    for name, array in arrays.items():
        if array.dtype != float:
            raise TacitError(f"{name} of the state has the type {array.dtype}; an agent can keep float64 only")
    body = b"".join(np.ascontiguousarray(array, dtype="<f8").tobytes() for array in arrays.values())
    return json.dumps(head).encode() + b"\n" + body


def _unpacked(raw: bytes) -> Arrays:
    line, _, body = raw.partition(b"\n")
    arrays, at = {}, 0
    for name, shape in json.loads(line):
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(body, "<f8", count, at).astype(float).reshape(shape)
        at += 8 * count
    return arrays
