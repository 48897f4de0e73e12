"""The disk of each life, behind what Python offers of the operating system.

While `machine` is entered, `os.fsync`, `os.pwrite`, `os.open`, `os.urandom` and `sqlite3.connect` know which process of
the world calls them. For all others nothing changes. So

- every step of a commit is a point at which something can happen to the process (`Disk.reached`);
- an *image* is the folder as a crash at this moment leaves it: `kill` keeps all that was written, `cut` loses what was
  not synced, `torn` has a part of the bytes that were being written;
- a full disk refuses what it would refuse;
- random bytes come from the seed.

SQLite writes its own files. Its bytes count as synced when a transaction is committed; a torn image of a commit has a
part of what the log has grown by.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from world.loop import HERE

_REAL = {name: getattr(os, name) for name in ("fsync", "pwrite", "open", "urandom")}
_CONNECT = sqlite3.connect
Reached = Callable[[str, str], None]


class Disk:
    """The folder of one life."""

    def __init__(self, folder: Path, rng: random.Random, reached: Reached, tracks: bool) -> None:
        self.folder, self.rng, self._reached, self._tracks = folder, rng, reached, tracks
        self.connections: list[sqlite3.Connection] = []
        self.full = 0  # writes that will fail
        self.fds: dict[int, tuple[int, int]] = {}
        self.synced: dict[str, bytes] = {}  # what a power cut leaves of files that SQLite does not write
        self.before: tuple[str, bytes] | None = None  # of the file that is being written: its name, and its bytes
        self._kinds: list[str] = []  # of the entries of the open transaction
        self._release: int | None = None  # the tick of the release among them
        self.committed: Callable[[str, int], None] = lambda store, tick: None
        if tracks:
            self.synced = {path.name: path.read_bytes() for path in folder.iterdir() if _ours(path.name)}

    # What happens

    def point(self, name: str, detail: str = "") -> None:
        self._reached(name, detail)

    def refused(self) -> bool:
        """Whether a write fails."""
        refused = self.full > 0
        self.full -= refused
        return refused

    def opened(self, path: str, fd: int, flags: int) -> None:
        if Path(path).parent == self.folder:
            found = os.fstat(fd)
            if path.endswith("-head"):  # SQLite never has these
                self.fds[fd] = found.st_dev, found.st_ino
            if "-state" in path and flags & os.O_WRONLY:
                name = Path(path).name
                self.before = name, (self.folder / name).read_bytes()
                if self.refused():
                    raise OSError(errno.ENOSPC, "No space left on device")

    def fsync(self, fd: int) -> None:
        with suppress(OSError):
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if path.parent == self.folder:
                if "-state" in path.name:
                    self.point("state written")
                if self._tracks and _ours(path.name):
                    self.synced[path.name] = path.read_bytes()
                self.before = None

    def pwrite(self) -> None:
        if "release" in self._kinds:
            self.point("committed, head not written")
        if self.refused():
            raise OSError(errno.ENOSPC, "No space left on device")

    def statement(self, db: Connection, sql: str, values: Any) -> None:
        """SQLite is about to do something."""
        word = sql[:6]
        if word == "BEGIN ":
            self._kinds, self._release = [], None
        elif word == "INSERT":
            self._kinds.append(str(values[1]) if values and "VALUES (?, ?, ?, ?, ?" in sql else "note")
            if self._kinds[-1] == "release":
                self._release = int(values[2])
        elif word == "COMMIT":
            if db.kind != "books" and self._tracks:
                log = self.folder / f"{db.name}-wal"
                self.before = log.name, log.read_bytes() if log.exists() else b""
            if "release" in self._kinds:
                self.point("in the commit")
            elif "reserve" in self._kinds:
                self.point("paying")
            elif "mark" in self._kinds:
                self.point("committed, not marked")
        if word in ("INSERT", "COMMIT") and self.full and self.refused():
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    def done(self, db: Connection, sql: str) -> None:
        """SQLite has done it."""
        if sql[:6] == "COMMIT":
            if self._release is not None:
                self.committed(db.name, self._release)
            if "reserve" in self._kinds:
                self.point("paid")
            elif "mark" in self._kinds:
                self.point("marked")
            elif "start" in self._kinds:
                self.point("started")
            elif self._kinds == ["state"]:
                self.point("heard all")
            self.before = None

    # What a crash leaves

    def image(self, target: Path, how: str) -> Path:
        """The folder as it is found after a crash at this moment."""
        target.mkdir()
        for path in self.folder.iterdir():
            name = path.name
            if name.endswith("-shm") or not path.is_file():
                continue
            if how == "power cut" and _ours(name) and name not in self.synced:
                if self.rng.random() < 0.5:  # its name may be on the disk, or not
                    (target / name).touch(mode=0o600)
                continue
            if how == "power cut" and _ours(name):
                (target / name).write_bytes(self.synced[name])
                os.chmod(target / name, 0o600)
                continue
            shutil.copy(path, target / name)
        if how == "torn write" and self.before is not None:
            name, before = self.before
            after = (self.folder / name).read_bytes() if (self.folder / name).exists() else b""
            end = self.rng.randrange(max(len(before), len(after)) + 1)
            (target / name).write_bytes(after[:end] + before[end:])
        return target

    def closed(self) -> None:
        """What the system closes when a process has ended."""
        for db in self.connections:
            db.close()
        self.connections.clear()
        for fd, which in self.fds.items():
            with suppress(OSError):
                found = os.fstat(fd)
                if (found.st_dev, found.st_ino) == which:
                    os.close(fd)
        self.fds.clear()


def _ours(name: str) -> bool:
    """Whether Python writes this file, and not SQLite."""
    return name.endswith(("-head", "-state0", "-state1"))


class Connection(sqlite3.Connection):
    """A database that a life has open."""

    disk: Disk | None = None
    name = kind = ""

    def execute(self, sql: str, *values: Any) -> Any:
        disk = self.disk
        if disk is None or sql[:6] not in ("BEGIN ", "INSERT", "COMMIT"):
            return super().execute(sql, *values)
        disk.statement(self, sql, values[0] if values else ())
        found = super().execute(sql, *values)
        disk.done(self, sql)
        return found


def _disk() -> Disk | None:
    process = HERE.get(None)
    return getattr(process, "disk", None)


def _fsync(fd: int) -> None:
    if (disk := _disk()) is None:
        return _REAL["fsync"](fd)
    return disk.fsync(fd)


def _pwrite(fd: int, data: bytes, at: int) -> int:
    if (disk := _disk()) is not None:
        disk.pwrite()
    return _REAL["pwrite"](fd, data, at)


def _open(path: Any, flags: int, *args: Any, **named: Any) -> int:
    fd = _REAL["open"](path, flags, *args, **named)
    if (disk := _disk()) is not None:
        try:
            disk.opened(os.fspath(path), fd, flags)
        except OSError:
            os.close(fd)
            raise
    return fd


def _urandom(count: int) -> bytes:
    if (disk := _disk()) is None:
        return _REAL["urandom"](count)
    return disk.rng.randbytes(count)


def _connect(database: Any, *args: Any, **named: Any) -> Any:
    if (disk := _disk()) is None:
        return _CONNECT(database, *args, **named)
    made = _CONNECT(database, *args, **named, factory=Connection)
    path = str(database).partition("?")[0]
    disk.connections.append(made)
    made.disk, made.name = disk, path.rpartition("/")[2]
    made.kind = made.name.rpartition(".")[2] if not made.name.endswith(".db") else "books"
    return made


@contextmanager
def machine() -> Iterator[None]:
    """Inside, processes of the world have disks of their own."""
    os.fsync, os.pwrite, os.open, os.urandom = _fsync, _pwrite, _open, _urandom
    sqlite3.connect = _connect
    try:
        yield
    finally:
        for name, real in _REAL.items():
            setattr(os, name, real)
        sqlite3.connect = _CONNECT
