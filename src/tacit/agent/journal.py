"""A file of entries that are only ever added, and that notices damage: bits that have changed, entries that are gone.

**A chain of digests.** Entry n has a kind, a key and a body. Its digest is the SHA-256 of the digest before it, of n,
kind and key, and of the SHA-256 of its body. So no entry can be changed, moved, renamed or taken out of the middle
without a difference that `Journal` finds when it opens the file: it reads everything and computes every digest again.
Afterwards a body is read from the disk only against the hash that was found then.

**The head.** What a chain cannot show is that its end is missing, and SQLite drops the end without a word if a bit of
the -wal file has changed: it takes the rest for a write that was cut off. So the number and the digest of the last
entry also stand in a small file of their own. It is written after each commit, and before anything leaves. A journal
that is behind its head is an old copy, or damaged; one that is ahead was stopped between the two. The head need not be
forced to the disk: after a power cut it may be behind, which is no mistake, and it is never ahead.

Damage is an `Over` error in one line. Nothing is written to a journal before all of it has been checked.

This is a guard against accidents, not against people: whoever may write to the files can compute digests, too.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tacit import database
from tacit.database import NO_TEXT, OF_THE_MACHINE, cause, keep, reading, transaction
from tacit.errors import NotNow, Over, TacitError, failed

_SCHEMA = (
    # The body comes last: reading the rest of a row does not touch the pages of a long one.
    "CREATE TABLE journal (entry INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,"
    " hashed BLOB NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE note (only INTEGER PRIMARY KEY, hashed BLOB NOT NULL, body BLOB NOT NULL)",
)
_TABLES = {"journal", "note"}
# Errors that say nothing about the file: it may be in order.
_ELSEWHERE = OF_THE_MACHINE | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}


class JournalEntry(NamedTuple):
    """An entry as it was found or written. `body` is None if it is long and stays on the disk."""

    number: int
    kind: str
    key: str
    hashed: bytes  # the SHA-256 of the body
    body: bytes | None


class Journal:
    """The journal at this path; it is made if it does not exist. `long` names the kinds whose bodies stay on the disk.

    One process at a time adds entries: with `alone`, it is refused while another one holds the journal so. `found` are
    the entries that were there, in order.
    """

    def __init__(self, path: Path, long: frozenset[str], *, alone: bool = False) -> None:
        self.path = path
        lock = held(path) if alone else None  # before the entries are read: another process may be adding some
        self.found: list[JournalEntry] = []
        self._count, self._digest = 0, bytes(32)
        head = _head(path)
        if lock is not None and head is not None and head[0] < 0 and _beside(path, "-journal").exists():
            # A process was killed when it made the file, which had no entry: SQLite needs that journal only until then,
            # and `read` cannot use it. The file goes first: as long as the journal is there, this is done again.
            path.unlink(missing_ok=True)
            _beside(path, "-journal").unlink()
        if path.exists():
            self.found, self._digest = read(path, long)
            self._count = len(self.found)
        elif head is not None and head[0] >= 0:
            raise Over(
                f"{path} is lost, but {_head_path(path).name} shows that there was one: restore the newest copy (tacit "
                "agent restore), or agree on a new run under another title"
            )
        try:
            self._head_file = os.open(_head_path(path), os.O_CREAT | os.O_WRONLY, 0o600)
            if alone and lock is None:
                lock = held(path)
            self._files = [self._head_file] if lock is None else [self._head_file, lock]
            if head is None:  # before the first entry; later it is written in place
                os.pwrite(self._head_file, _written(-1, self._digest), 0)
                os.fsync(self._head_file)
            if not path.exists():
                for part in ("-wal", "-shm"):  # of a file that is gone: SQLite would take them for parts of the new one
                    _beside(path, part).unlink(missing_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # nobody else may read the state
            self._db = sqlite3.connect(path, isolation_level=None)
            keep(self._db)
            if not self._count:
                with self.writing():
                    if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                        for statement in _SCHEMA:
                            self._db.execute(statement)
        except OSError as error:
            raise failed(error, f"{path} cannot be used as the store of an agent: {error}") from None
        except sqlite3.Error as error:
            raise database.failed(error, f"{path} cannot be used as the store of an agent: {error}") from None

    def close(self) -> None:
        self._db.close()
        while self._files:  # once: the numbers may be those of other files soon
            with suppress(OSError):
                os.close(self._files.pop())

    def discard(self) -> None:
        """Closes a journal that was made by mistake, and removes its files: they would hide a file that is put back."""
        self.close()
        for part in ("", "-wal", "-shm", "-head"):
            _beside(self.path, part).unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[_Added]:
        """One transaction: all entries that are added inside are kept, or none. Afterwards they are on the disk."""
        added = _Added(self._db, self._count, self._digest)
        try:
            with transaction(self._db):
                yield added
        except sqlite3.Error as error:
            if cause(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise damaged(self.path, str(error)) from None
            raise database.failed(error, f"{self.path}: {error}; nothing was sent") from None
        if added.count > self._count:
            self._count, self._digest = added.count, added.digest
            try:
                os.pwrite(self._head_file, _written(self._count - 1, self._digest), 0)
            except OSError as error:
                raise failed(error, f"{_head_path(self.path)}: {error.strerror or error}; nothing was sent") from None

    def note(self, body: bytes) -> None:
        """Replaces the one note, which is no entry: what it said before is not kept."""
        with self.writing():
            self._db.execute("INSERT OR REPLACE INTO note VALUES (1, ?, ?)", (sha256(body).digest(), body))

    def body(self, entry: JournalEntry) -> bytes:
        """The body of a long entry, checked."""
        try:
            found = self._db.execute("SELECT body FROM journal WHERE entry = ?", (entry.number,)).fetchone()
        except sqlite3.Error as error:
            raise _failure(self.path, error) from None
        if found is None or type(found[0]) is not bytes or sha256(found[0]).digest() != entry.hashed:
            raise damaged(self.path, f"the {entry.kind} {entry.key} does not fit its digest")
        return found[0]


class _Added:
    """The entries of one transaction."""

    def __init__(self, db: sqlite3.Connection, count: int, digest: bytes) -> None:
        self._db, self.count, self.digest = db, count, digest

    def add(self, kind: str, key: str | int, body: bytes) -> JournalEntry:
        """One more entry, chained to the last one."""
        hashed = sha256(body).digest()
        self.digest = _chained(self.digest, self.count, kind, str(key), hashed)
        row = (self.count, kind, str(key), hashed, self.digest, body)
        self._db.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)", row)
        self.count += 1
        return JournalEntry(row[0], kind, str(key), hashed, body)


def read(path: Path, long: frozenset[str], *, whole: bool = True) -> tuple[list[JournalEntry], bytes]:
    """All entries of a journal, which a process may be writing to, and the last digest. Nothing is written.

    Every digest is computed again. The long bodies, too, are read and compared with their hashes, unless `whole` is
    False: then only what is read is checked.
    """
    head = _head(path)  # before the entries: a process that writes adds an entry first
    found: list[JournalEntry] = []
    digest = beheld = bytes(32)
    with _reading(path) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "releases" in tables:
            raise Over(f"{path} was written by tacit 0.1: finish that run with that version, or agree on a new run")
        if not tables and (head is None or head[0] < 0):
            return [], digest  # it is being made, or was stopped before its first entry
        if tables != _TABLES:
            raise damaged(path, "it does not have the tables of a store")
        if whole and (complaint := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise damaged(path, str(complaint).splitlines()[-1])
        unread = "NULL" if not whole else "body"
        marks = ", ".join("?" * len(long))
        rows = db.execute(
            f"SELECT entry, kind, key, hashed, digest, CASE WHEN kind IN ({marks}) THEN {unread} ELSE body END"  # nosec B608
            " FROM journal ORDER BY entry",  # question marks and a literal
            sorted(long),
        )
        for number, kind, key, hashed, noted, body in rows:
            right = [int, str, str, bytes, bytes] == [type(each) for each in (number, kind, key, hashed, noted)]
            skipped = body is None and not whole and kind in long
            if not right or not (skipped or (type(body) is bytes and sha256(body).digest() == hashed)):
                raise damaged(path, f"entry {len(found)} does not fit its digest")
            digest = _chained(digest, number, kind, key, hashed)
            if number != len(found) or digest != noted:
                raise damaged(path, f"entry {len(found)} does not fit the chain of digests")
            if head is not None and number == head[0]:
                beheld = digest
            found.append(JournalEntry(number, kind, key, hashed, None if kind in long else body))
    if head is None and found:
        raise damaged(path, f"{_head_path(path).name} is missing beside it")
    if head is not None and head[0] >= len(found):
        raise Over(
            f"{path} is an old copy, or its end is damaged: it has {len(found)} entries, and {_head_path(path).name} "
            f"shows that it had {head[0] + 1}; nothing was sent. Restore the newest copy (tacit agent restore), or "
            "agree on a new run under another title"
        )
    if head is not None and beheld != head[1]:
        raise damaged(path, f"entry {head[0]} is not the one that {_head_path(path).name} shows")
    return found, digest


def copy(path: Path, target: Path, long: frozenset[str]) -> list[JournalEntry]:
    """Writes a copy of a journal, which a process may be writing to, with a head of its own; gives its entries."""
    head = _head(path)  # first, as in `read`
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with _reading(path) as source, closing(sqlite3.connect(target)) as made:
            source.backup(made)
        if head is not None:
            _head_path(target).write_bytes(_written(*head))
        found, digest = read(target, long)
        _head_path(target).write_bytes(_written(len(found) - 1, digest))
    except OSError as error:
        raise failed(error, f"{target} could not be written: {error.strerror or error}") from None
    except Over as error:  # the copy was read, but the journal is what is damaged
        raise Over(str(error).replace(str(target), str(path))) from None
    return found


def held(path: Path) -> int | None:
    """Keeps other processes from holding this journal, until the file of this number is closed or this process ends.
    None if there is no journal, or its disk knows no locks."""
    try:
        file = os.open(_head_path(path), os.O_WRONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise NotNow(f"{path} is in use by an agent that runs: stop it first") from None
    except OSError:
        os.close(file)
        return None
    return file


def last_known(path: Path) -> int:
    """The number of the last entry that this journal is known to have had, however damaged it is; -1 if none."""
    numbers = [-1]
    with suppress(TacitError):
        numbers.append((_head(path) or (-1, b""))[0])
    if path.exists():
        with suppress(TacitError), _reading(path) as db:
            (most,) = db.execute("SELECT max(entry) FROM journal").fetchone()
            numbers.append(most if type(most) is int else -1)
    return max(numbers)


def read_note(path: Path) -> bytes | None:
    """The note, checked; None if there is none."""
    with _reading(path) as db:
        found = db.execute("SELECT hashed, body FROM note").fetchone()
    if found is not None and (type(found[1]) is not bytes or sha256(found[1]).digest() != found[0]):
        raise damaged(path, "its note does not fit its digest")
    return None if found is None else found[1]


def damaged(path: Path, what: str) -> Over:
    """The error that names the damage."""
    return Over(
        f"{path} is damaged: {what}; nothing was sent. Restore the newest copy (tacit agent restore), or agree on a "
        "new run under another title"
    )


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file at one moment. Not even a checkpoint writes to it: what is damaged stays as it is."""
    try:
        with reading(path) as db:
            db.execute("PRAGMA cell_size_check = ON")
            db.execute("BEGIN")
            yield db
    except sqlite3.Error as error:
        raise _failure(path, error) from None
    except UnicodeDecodeError:
        raise damaged(path, NO_TEXT) from None


def _failure(path: Path, error: sqlite3.Error) -> TacitError:
    if cause(error) in _ELSEWHERE:
        return database.failed(error, f"{path} cannot be used as the store of an agent: {error}")
    return damaged(path, str(error))


def _chained(before: bytes, number: int, kind: str, key: str, hashed: bytes) -> bytes:
    return sha256(before + json.dumps([number, kind, key]).encode() + hashed).digest()


def _beside(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


def _head_path(path: Path) -> Path:
    return _beside(path, "-head")


def _written(number: int, digest: bytes) -> bytes:
    return f"{number:010d} {digest.hex()}\n".encode()  # always of one length: it is written in place


def _head(path: Path) -> tuple[int, bytes] | None:
    """The number and the digest of the last entry, as the head has them; None if there is no head."""
    try:
        raw = _head_path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed(error, f"{_head_path(path)} cannot be read: {error.strerror or error}") from None
    if not raw:
        return None  # stopped when it was made
    try:
        number, digest = raw.decode("ascii").split(" ")
        if (found := (int(number), bytes.fromhex(digest))) and raw == _written(*found):
            return found
    except ValueError:
        pass
    raise damaged(_head_path(path), "it is not a number and a digest")
