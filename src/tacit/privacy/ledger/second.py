"""A second place for a ledger's head, on other storage: a share, or a USB stick.

An old copy of a ledger is a valid ledger, and a whole machine can be put back to one moment: ledger, store and all.
Only something outside that machine knows better. If the environment variable TACIT_LEDGER_HEADS names a folder, that
folder has a file `<book>.head` for every ledger: the number of rows and the head after them, 86 bytes.

- **Writing.** The head is written, in place and with fsync, once the rows are in the ledger's file, and before the call
  returns: all that has left is in the second place. If it cannot be written, the call raises, and nothing may leave.
- **A ledger that does not contain the head** is an old copy, or was rewritten: it is refused. This is looked at when it
  is opened, and twice in every transaction: at its beginning, and before the head is replaced. So of two live copies of
  a ledger with one second place, the slower one stops before it sends what it has drawn (unless both write at once:
  then one of them does so one transaction later).
- **A second place that is behind.** A crash between the two writes leaves it one transaction behind; the next one
  catches up, and nobody is needed. If it is farther behind, it is an old copy itself, or the ledger was used without
  it: refused, until somebody has looked (`tacit ledger head`). No transaction begins before the second place has all
  rows, so no crash, and no stick that is pulled out, leads there.
- **A file that is missing** is made for a ledger without rows, and for no other.

All this happens under the ledger's own lock: it needs none on the other storage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from tacit.files import sync_folder
from tacit.privacy.ledger.entries import AnotherVersion, Entry, Head, LedgerError, LedgerUnavailable
from tacit.privacy.ledger.file import LedgerFile

VARIABLE = "TACIT_LEDGER_HEADS"
_TEXT = re.compile(r"(0{8}\d{12}) ([0-9a-f]{64})\n")
_ONE_TRANSACTION = re.compile(r"((start|mark|payload|cap) |(file )?(run )?(reserve )*)")


class SecondPlace:
    """The file of a ledger's head in a folder on other storage. To be used while no other process writes to the
    ledger."""

    def __init__(self, file: LedgerFile, folder: Path) -> None:
        self._file, self._folder = file, folder
        self.path = folder / Path(f"{file.book}.head").name
        self._synced: Head | None = None

    def check(self) -> None:
        """Refuses a ledger that does not fit the second place, which is made if the ledger has no rows yet."""
        if self._read() is None and not self._file.last()[0]:  # nothing was ever spent, or decided
            self._write(make=True)
        self._compare(at_most_one=True)

    def catch_up(self) -> None:
        """The same; then the second place has all rows."""
        self._compare(at_most_one=True)
        self._sync()

    def follow(self) -> None:
        """The second place has all rows, whoever has written them; unless another copy of this ledger was faster."""
        self._compare()
        self._sync()

    def rewrite(self) -> int:
        """For a second place that is behind, damaged or missing: gives the number of rows that it had. A ledger that
        is older than the second place is refused here, too."""
        try:
            kept = self._read()
        except _DamagedError:
            kept = None
        self._require_contained(kept)
        self._write(make=True)
        return 0 if kept is None else kept.rows

    def _compare(self, at_most_one: bool = False) -> None:
        """Refuses a ledger that is older than the second place, or newer by more than one transaction."""
        kept = self._read()
        if kept is None:
            raise LedgerError(
                f"{self.path} is missing: the second place for the head of {self._file.path}. Put it back; if there "
                f"never was one: {self._command}"
            )
        self._require_contained(kept)
        if at_most_one and not _one_transaction(rows := self._file.rows_after(kept.rows)):
            raise LedgerError(
                f"{self.path} is older than {self._file.path}: it has {kept.rows:,} of {kept.rows + len(rows):,} rows. "
                f"It is an old copy, or the ledger was used without {VARIABLE}: find out which, then: {self._command}"
            )

    def _require_contained(self, kept: Head | None) -> None:
        if kept is not None and not self._file.contains(kept):
            raise AnotherVersion(
                f"{self._file.path} is an old copy, or was rewritten: it had {kept.rows:,} rows when {self.path} was "
                "written, and does not contain them; nothing was sent. Put the newest copy of the ledger back"
            )

    def _read(self) -> Head | None:
        """What is kept; None if there is no file, or one that was only just begun."""
        if not self._folder.is_dir():
            raise LedgerUnavailable(
                f"{self._folder} is not there: the second place for the head of {self._file.path} ({VARIABLE}). Plug "
                "it in, or mount it, and start again; that costs nothing more"
            )
        try:
            text = self.path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._away(error) from None
        if not text:
            return None
        if not (found := _TEXT.fullmatch(text)):
            raise _DamagedError(f"{self.path} is damaged: look what has become of it, then: {self._command}")
        return Head(self._file.book, int(found[1]), found[2])

    def _sync(self) -> None:
        """That the file has the head is not enough: whoever wrote it may have failed to bring it to the disk."""
        if self._synced != self._file.head():
            self._write()

    def _write(self, make: bool = False) -> None:
        """Puts the present head there."""
        head = self._file.head()
        try:
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT * make, 0o600)
            try:
                os.ftruncate(opened, os.pwrite(opened, f"{head.rows:020} {head.head}\n".encode(), 0))
                os.fsync(opened)
                self._synced = head
            finally:
                os.close(opened)
        except OSError as error:
            raise self._away(error) from None
        if make:
            with suppress(OSError):  # not every share can do that; a file that is lost later is missing, and refused
                sync_folder(self._folder)

    def _away(self, error: OSError) -> LedgerError:
        return LedgerUnavailable(
            f"{self.path}, the second place for the head of {self._file.path}, cannot be used: "
            f"{error.strerror or error}; nothing may leave before it can. Mend it, and start again; that costs nothing "
            "more"
        )

    @property
    def _command(self) -> str:
        return f"tacit ledger head {self._file.path} --to {self._folder}"


class _DamagedError(LedgerError):
    """There is no telling what was kept."""


def second_place(file: LedgerFile) -> SecondPlace | None:
    """The second place that the environment names, checked; None if it names none."""
    if not (folder := os.environ.get(VARIABLE)):
        return None
    found = SecondPlace(file, Path(folder))
    with file.alone():
        found.check()
    return found


def rewritten(path: Path, folder: Path) -> tuple[Path, int, Head]:
    """Writes the head of a ledger to this folder: the file there, how many rows it had before, and what it has now."""
    file = LedgerFile(path)
    with closing(file.db), file.alone():
        place = SecondPlace(file, folder)
        return place.path, place.rewrite(), file.head()


def _one_transaction(rows: Sequence[Entry]) -> bool:
    """Whether one call can have written these rows. (`take_over` writes more: after a crash in it, somebody looks.)"""
    runs = {entry.run for entry in rows if entry.kind != "file"}
    return len(runs) <= 1 and bool(_ONE_TRANSACTION.fullmatch("".join(f"{entry.kind} " for entry in rows)))
