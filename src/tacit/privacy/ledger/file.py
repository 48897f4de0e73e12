"""The file of a ledger: tables (`tacit.privacy.ledger.sqlite_tables`) that are only ever appended to, and checked
whenever they are opened.

`tacit.privacy.ledger` decides what the rows mean and may contain.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.database import NO_TEXT, OF_THE_MACHINE, cause, keep, reading, transaction
from tacit.privacy.ledger.entries import (
    RELEASED,
    Entry,
    Head,
    LedgerError,
    LedgerUnavailable,
    hashed,
    unreadable,
)
from tacit.privacy.ledger.sqlite_tables import BEFORE, FORMAT, SCHEMA, SCHEMA_BEFORE, move_on, tables_of

PATIENCE = 30.0  # seconds to wait for another process that is writing
_AGAIN = 0.001  # seconds between two attempts to move rows from the log into the file
_ONE_NAME = 1.0  # seconds in which a ledger that another process makes loses the name of its draft
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "pvfs2", "gfs2", "ocfs2"}
_NETWORK |= {f"fuse.{name}" for name in ("sshfs", "glusterfs", "ceph", "s3fs", "gcsfuse", "rclone")}


class LedgerFile:
    """A ledger's file that exists; it is checked when it is opened."""

    population: str
    created: str
    book: str  # names this ledger among all others; drawn at random
    secret: bytes
    cohorts: str  # the public column that says to which cohort a record belongs; empty without cohorts
    origin: str  # where the chain of hashes begins

    def __init__(self, path: Path) -> None:
        self.path = path
        if not os.path.isfile(path):
            raise LedgerError(f"{path} does not exist, or is not a file; name a ledger that exists")
        self.where = path.absolute()  # also if the process goes to another folder
        uri = f"{self.where.as_uri()}?mode=rw"
        with _explaining(path):
            self.db = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        try:
            if _is_mount(path):
                raise LedgerError(
                    f"{path} is mounted by itself, as in a container that is given one file: mount its folder, so that "
                    "all processes that use the ledger share the log beside it"
                )
            if found := _network(path):
                raise LedgerError(
                    f"{path} lies on a network file system ({found}): machines that share it do not see what the "
                    "others spend. Move it, with the -wal beside it, to a disk of the one machine that uses it"
                )
            self._place = self._one_place()
            with _explaining(self.path):
                keep(self.db)
            self.check()
            if self._tables() != tables_of(SCHEMA):
                self._move_on()
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        self.db.close()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """What a statement gives."""
        with _explaining(self.path):
            return self.db.execute(sql, values).fetchall()

    @contextmanager
    def writing(self, settle: bool = True) -> Iterator[None]:
        """One transaction: done completely or not at all, and no other process writes meanwhile. When it is over, it is
        on the disk. If it settles, the file itself has all rows: what leaves after that is paid for in every later copy
        of the file, also in one without the log beside it."""
        with _explaining(self.path), transaction(self.db):
            yield
        if settle:
            self._settle()  # also if nothing was new: an earlier process may have died between commit and this
        if self._one_place() != self._place:
            raise LedgerError(
                f"{self.path} was moved or replaced while it was in use: the file that is there now does not have what "
                "was just written, and nothing may leave. Put the newest ledger back, and start again"
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process writes meanwhile, and nothing is written here."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self.rows("ROLLBACK")

    def _one_place(self) -> tuple[int, int]:
        """Which file is at this path. It must have no second name: SQLite keeps its log and its locks beside the name,
        so two processes that use two names do not see each other, and one overwrites what the other has written."""
        end = time.monotonic() + _ONE_NAME
        while True:
            try:
                found = os.stat(self.where)
            except OSError as error:
                raise LedgerError(f"{self.path} is not there any more: {error.strerror}; nothing may leave") from None
            if found.st_nlink <= 1:
                break
            if time.monotonic() > end:
                raise LedgerError(
                    f"{self.path} has {found.st_nlink} names (hard links): processes that use different names do not "
                    f"see what the others spend. Remove the other names (find / -inum {found.st_ino}). If it is a "
                    "backup, read a copy of it"
                )
            time.sleep(_AGAIN)
        return found.st_dev, found.st_ino

    def _settle(self) -> None:
        """Moves all committed rows from the log into the file. SQLite does not wait for another process that does the
        same, or that reads the log: so we do."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                busy, _, _ = self.db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
                reason = "another process is reading"
            except sqlite3.Error as error:
                busy, reason = cause(error) == sqlite3.SQLITE_BUSY, str(error)
                if not busy:
                    break
            if not busy:
                return
            if time.monotonic() > end:
                break
            time.sleep(_AGAIN)
        raise LedgerUnavailable(
            f"{self.path}: the newest rows are written to {self.path.name}-wal, but not yet to the file itself "
            f"({reason}); nothing may leave before they are: free some space, or wait, and try again; that costs "
            "nothing more"
        )

    def entries(self) -> Iterator[Entry]:
        """All rows in order. Others may write, and so may the caller, while this is read."""
        number = 0
        while rows := self.rows("SELECT * FROM entries WHERE number > ? ORDER BY number LIMIT 100", number):
            yield from map(Entry._make, rows)
            number = rows[-1][0]

    def rows_after(self, number: int) -> list[Entry]:
        """The rows after that number, all at one moment; without hashes, and what leaves without its bytes."""
        body = "CASE WHEN kind IN ('mark', 'payload') THEN x'' ELSE body END"
        what = f"number, kind, run, tick, {body}, '', ''"
        query = f"SELECT {what} FROM entries WHERE number > ? ORDER BY number"  # `what` is written here  # nosec B608
        return [Entry._make(row) for row in self.rows(query, number)]

    def find(self, kind: str, run: str, tick: int) -> Entry | None:
        """The one row of that kind for that round."""
        by_name = "SELECT * FROM entries WHERE run = ? AND tick = ? AND kind = ? AND kind NOT IN ('cap', 'file')"
        rows = self.rows(by_name, run, tick, kind)
        return Entry(*rows[0]) if rows else None

    def at(self, run: str, *ticks: int) -> dict[tuple[str, int], Entry]:
        """All rows of a run for these rounds, by kind and round."""
        by_name = f"SELECT * FROM entries WHERE run = ? AND tick IN ({', '.join('?' * len(ticks))})"  # nosec B608
        rows = map(Entry._make, self.rows(f"{by_name} AND kind NOT IN ('cap', 'file')", run, *ticks))
        return {(entry.kind, entry.tick): entry for entry in rows}

    def hash_of(self, number: int) -> str | None:
        """The hash of a row, or where the chain begins; None if there is no such row."""
        rows = self.rows("SELECT hash FROM entries WHERE number = ?", number) if number else [(self.origin,)]
        return rows[0][0] if rows else None

    def last(self) -> tuple[int, str]:
        """Number and hash of the last row."""
        rows = self.rows("SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1")
        return rows[0] if rows else (0, self.origin)

    def head(self) -> Head:
        """Stands for all rows, and tells nothing about them."""
        rows, last = self.last()
        return Head(self.book, rows, self.sealed(last))

    def contains(self, head: Head) -> bool:
        """Whether this ledger once had this head, with all rows that it had then."""
        found = self.hash_of(head.rows) if head.book == self.book else None
        return found is not None and self.sealed(found) == head.head

    def sealed(self, digest: str) -> str:
        """A digest as others may see it: nobody can check a guess with it."""
        return hmac.digest(self.secret, digest.encode(), "sha256").hex()

    def of_run(self, run: str, kind: str) -> list[Entry]:
        """All rows of that kind for that run."""
        by_name = "SELECT * FROM entries WHERE run = ? AND kind = ? AND kind NOT IN ('cap', 'file') ORDER BY number"
        return [Entry._make(row) for row in self.rows(by_name, run, kind)]

    def last_of_run(self, run: str, kind: str) -> int:
        """The largest tick of a row of that kind for that run; -1 if there is none."""
        by_name = "SELECT max(tick) FROM entries WHERE run = ? AND kind = ? AND kind NOT IN ('cap', 'file')"
        ((found,),) = self.rows(by_name, run, kind)
        return -1 if found is None else int(found)

    def of_kind(self, kind: str) -> list[Entry]:
        """All rows of that kind."""
        return [Entry._make(row) for row in self.rows("SELECT * FROM entries WHERE kind = ? ORDER BY number", kind)]

    def append(self, kind: str, run: str, tick: int, body: bytes) -> Entry:
        """Adds a row to the chain; to be called while `writing`."""
        number, previous = self.last()
        entry = Entry(number + 1, kind, run, tick, body, previous, hash="")
        entry = entry._replace(hash=hashed(*entry[:-1]))
        self.rows("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", *entry)
        return entry

    def check(self) -> None:
        """Raises LedgerError, which names the first bad row, unless the file is whole and no row was changed."""
        self._check_file()
        self._check_rows()

    def _check_file(self) -> None:
        """The file is a ledger with its triggers and its index, and the index agrees with the rows: it decides whether
        a round is found."""
        tables = self._tables()
        if "meta" not in tables:
            raise LedgerError(f"{self.path} is not a ledger; name another file")
        meta = self.rows("SELECT * FROM meta")
        if len(meta) != 1 or meta[0][0] not in (BEFORE, FORMAT):
            raise LedgerError(
                f"{self.path} is not a ledger of format {FORMAT}; use the version of tacit that wrote it, or take over "
                "what it has spent: tacit ledger new --from"
            )
        if tables != tables_of(SCHEMA) and (meta[0][0] != BEFORE or tables != tables_of(SCHEMA_BEFORE)):
            raise LedgerError(f"{self.path} has lost the rules of a ledger (tables, triggers); do not spend from it")
        ((damage,),) = self.rows("PRAGMA integrity_check(1)")
        if damage != "ok":
            raise LedgerError(f"{self.path} is damaged ({' '.join(damage.split())}); do not spend from it")
        _, self.population, self.created, self.book, self.secret, self.cohorts = meta[0]
        self.origin = hashed(*meta[0])

    def _check_rows(self) -> None:
        """The chain, and the rules that need no accountant."""
        number, previous, capped = 0, self.origin, False
        reserved: set[tuple[str, int]] = set()
        starts = Counter[str]()
        for entry in self.entries():
            fault: str | None
            if entry.previous != previous:
                fault = f"it does not continue row {number}"
            elif entry.hash != hashed(*entry[:-1]):
                fault = "its content is not what was written"
            elif entry.kind == "reserve" and not capped:
                fault = "it was reserved without a cap"
            elif entry.kind in RELEASED and (entry.run, entry.tick) not in reserved:
                fault = "its round was not reserved"
            elif entry.kind == "start" and entry.tick != starts[entry.run] + 1:
                fault = "it is not the next start of its run"
            else:
                fault = unreadable(entry)
            if fault:
                raise LedgerError(f"{self.path}, row {entry.number}: {fault}; do not spend from it")
            if entry.kind == "reserve":
                reserved.add((entry.run, entry.tick))
            starts[entry.run] += entry.kind == "start"
            capped = capped or entry.kind == "cap"
            number, previous = entry.number, entry.hash

    def _tables(self) -> dict[str, str]:
        return dict(self.rows("SELECT name, sql FROM sqlite_master"))

    def _move_on(self) -> None:
        """Gives a ledger of the format before the tables of this one. Its rows, their hashes and the `meta` row stay as
        they are: a head that somebody keeps still stands for the same rows."""
        with self.writing():
            if self._tables() != tables_of(SCHEMA):  # another process may have been faster
                move_on(self.rows)
        self.check()


def create(path: Path, population: str, cohorts: str = "") -> bool:
    """Makes the ledger in a temporary folder and moves it to its place: no process ever sees half a ledger.

    False if there is one already, which is not changed.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and not path.exists():  # checked last: another process may be making it right now
        raise LedgerError(f"{path} is missing, but its newest rows are in {log}; put the ledger back beside it")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            draft = Path(folder) / "draft"
            draft.touch(mode=0o600)
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(f"BEGIN; {SCHEMA}")
                meta = (FORMAT, population, now(), secrets.token_hex(16), secrets.token_bytes(32), cohorts)
                db.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?)", meta)
                db.execute("COMMIT")
            try:
                os.link(draft, path)
            except FileExistsError:  # another process was faster
                return False
            draft.unlink()  # before the sync: after a power cut the ledger has one name, too
        here = os.open(path.parent, os.O_RDONLY)
        os.fsync(here)  # the file's name has to reach the disk, too
        os.close(here)
        return True
    except sqlite3.Error as error:
        raise _explained(path, error) from None
    except OSError as error:
        raise LedgerError(f"{path} could not be created: {error.strerror or error}; choose another folder") from None


def last_charge(path: Path) -> int:
    """The number of the last row that changes what is spent, or the cap. Nothing is checked: for whoever asks often."""
    with _explaining(path), reading(path, PATIENCE) as db:
        ((number,),) = db.execute("SELECT ifnull(max(number), 0) FROM entries WHERE kind IN ('cap', 'reserve')")
        return int(number)


def _mounts() -> list[list[str]]:
    """What is mounted where, as the kernel says it; nothing where that cannot be known."""
    try:
        return [line.split(" ") for line in _MOUNTS.read_text(errors="surrogateescape").splitlines()]
    except OSError:
        return []


def _is_mount(path: Path) -> bool:
    """Whether the file itself, and not its folder, is mounted."""
    where = str(path.resolve()).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    return any(fields[4] == where.replace("\n", "\\012") for fields in _mounts())


def _network(path: Path) -> str | None:
    """The network file system on which a file lies: SQLite's locks, and the memory that it shares, end at a machine."""
    device = path.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    kinds = (fields[fields.index("-") + 1] for fields in _mounts() if fields[2] == name)
    return next((kind for kind in kinds if kind in _NETWORK), None)


def now() -> str:
    """The time of this machine's clock, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_ADVICE = {
    sqlite3.SQLITE_BUSY: f"another process has been writing for {PATIENCE:.0f} s; nothing was written, try again",
    sqlite3.SQLITE_FULL: "nothing was written; free some space and try again",
    sqlite3.SQLITE_IOERR: "nothing was written; free some space or check the disk, and try again",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder readable and writable",
    sqlite3.SQLITE_NOTADB: "name a ledger",
    sqlite3.SQLITE_CORRUPT: "do not spend from it; an older copy would not know what was spent since",
}


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    """All access to the database is inside, so that its errors become ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(path, error) from None
    except UnicodeDecodeError:
        raise LedgerError(f"{path} is damaged: {NO_TEXT}; {_ADVICE[sqlite3.SQLITE_CORRUPT]}") from None


def _explained(path: Path, error: sqlite3.Error) -> LedgerError:
    advice = _ADVICE.get(cause(error))
    kind = LedgerUnavailable if cause(error) in OF_THE_MACHINE else LedgerError
    return kind(f"{path}: {error}" + (f"; {advice}" if advice else ""))
