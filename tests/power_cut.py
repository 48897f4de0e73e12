"""A disk that loses, in a power cut, whatever was not synced: what tests of files share.

`os.fsync` is watched: of a file it keeps the bytes as of now, of a folder its names as of now. A cut gives a folder
with nothing but that. Names that were not synced may be there or not, so there are two extremes: none of the new ones,
or all of them, with the bytes that were synced, or none. Files of SQLite are written by SQLite: its bytes count as
synced as far as the connection asks for that.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

_MAGIC = b"SQLite format 3\0"


class Disk:
    """What is durable of a folder, from now on; all that it has now is."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        self._bytes: dict[int, bytes] = {}
        self._names: dict[str, int] = {}
        self._open: list[tuple[str, sqlite3.Connection]] = []
        self._fsync, self._connect = os.fsync, sqlite3.connect
        for path in self._files():
            self._bytes[path.stat().st_ino] = path.read_bytes()
        self._keep_names()
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(sqlite3, "connect", self._connected)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_file()]

    def _keep_names(self) -> None:
        self._names = {path.name: path.stat().st_ino for path in self._files()}

    def _sync(self, opened: int) -> None:
        self._fsync(opened)
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            if os.path.samestat(os.fstat(opened), os.stat(self.folder)):
                self._keep_names()
        else:
            with open(f"/proc/self/fd/{opened}", "rb") as file:  # whatever it was opened for
                self._bytes[os.fstat(opened).st_ino] = file.read()

    def _connected(self, database, *how, **settings):
        made = self._connect(database, *how, **settings)
        self._open.append((str(database), made))
        return made

    def _synchronous(self, name: str) -> int:
        """How much a connection that is open asks for: 2, FULL, if none is."""
        found = []
        for path, connection in self._open:
            if path.split("?")[0].endswith(f"/{name}"):
                try:
                    found.append(connection.execute("PRAGMA synchronous").fetchone()[0])
                except sqlite3.ProgrammingError:  # closed
                    continue
        return min(found, default=2)

    def cut(self, target: Path, *, new_names: bool) -> Path:
        """The folder as it is found after a power cut at this moment."""
        target.mkdir()
        names = {path.name: path.stat().st_ino for path in self._files()} if new_names else dict(self._names)
        for name, inode in names.items():
            here = self.folder / name
            same = here.exists() and here.stat().st_ino == inode
            if name.endswith(("-wal", "-shm")):
                continue
            if not (same and self._is_database(here)):
                (target / name).write_bytes(self._bytes.get(inode, b""))
                continue
            asked, log = self._synchronous(name), here.with_name(f"{name}-wal")
            (target / name).write_bytes(here.read_bytes() if asked else b"")
            if log.exists() and asked >= 2:  # with less, the log is not synced when a transaction is committed
                (target / log.name).write_bytes(log.read_bytes())
        return target

    def _is_database(self, path: Path) -> bool:
        return path.read_bytes().startswith(_MAGIC) or path.with_name(f"{path.name}-wal").exists()
