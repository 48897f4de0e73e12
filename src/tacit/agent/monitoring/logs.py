"""The log of an agent: one line for each thing that happened, with time, level, run and tick, as text or as JSON.

**The log never ends a run, and never holds it up.** A thread writes the lines. If nobody reads them, the disk is full
or the pipe is closed, lines are lost and counted, and the agent goes on.

**No secret and no record is in a line.** Messages are about members, rounds and files. Files are named without their
folders. Of an error that nobody expected, the log has the kind and the places in the code, but not its text: that may
quote a value of a record.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import sys
import threading
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from io import UnsupportedOperation
from pathlib import Path

from tacit.agent.monitoring.progress import Progress
from tacit.errors import TacitError

log = logging.getLogger("tacit.agent")

_WAITING = 1000  # lines that may wait to be written
_LAST = 1.0  # seconds for the last lines


class Format(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


class Level(StrEnum):
    """The least level of the lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Formatter(logging.Formatter):
    """One line, with the place of the agent at that moment."""

    def __init__(self, form: Format, progress: Progress, folders: Iterable[str]) -> None:
        super().__init__()
        self._form, self._progress = form, progress
        known = sorted({each.rstrip("/") + "/" for each in folders} - {"./"}, key=len, reverse=True)
        self._folders = re.compile(r"(?<![\w/.-])(?:" + "|".join(map(re.escape, known)) + ")") if known else None

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at, level = self._progress, record.levelname.lower()
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = " ".join(f"{_message(record)}{_places(record)}".split())
        said = "".join(sign if sign.isprintable() else "?" for sign in said)
        if self._folders is not None:
            said = self._folders.sub("", said)
        time, run = when.replace("+00:00", "Z"), at.run[:16]
        if self._form == Format.JSON:
            return json.dumps(
                {"time": time, "level": level, "member": at.member, "run": run, "tick": at.tick, "message": said}
            )
        return f"{time} run={run or '-'} tick={at.tick} tacit: {level}: {said}"


def _message(record: logging.LogRecord) -> str:
    """What a record says; of an unexpected error, no more than its kind."""
    kind, error = (record.exc_info or (None, None, None))[:2]
    if kind is None:
        return record.getMessage()
    return str(error) if issubclass(kind, TacitError) else f"an error in the program ({kind.__name__})"


def _places(record: logging.LogRecord) -> str:
    """Where in the code an unexpected error was raised."""
    kind, _, trace = record.exc_info or (None, None, None)
    if kind is None or issubclass(kind, TacitError):
        return ""
    return " at " + ", ".join(f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(trace))


class Lines(logging.Handler):
    """Writes lines in a thread of its own. A line that cannot be written is counted in `lost`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self.lost = 0
        self._write = write
        self._waiting: queue.Queue[str | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Puts one line in the queue, if it is news."""
        if record.exc_info and record.exc_info[0] and issubclass(record.exc_info[0], CancelledError):
            return
        try:
            self._waiting.put_nowait(self.format(record))
        except Exception:  # the queue is full, or the message cannot be formatted: neither may stop the agent
            self.lost += 1

    def say(self, text: str) -> None:
        """Writes a line that is no part of the log."""
        with suppress(queue.Full):
            self._waiting.put_nowait(text)

    def close(self) -> None:
        """Gives the last lines some time to be written."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
            self._thread.join(_LAST)
        super().close()

    def _write_all(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._write(line)
            except Exception:  # a full disk, a closed pipe
                self.lost += 1


@contextmanager
def kept(
    form: Format, level: Level, progress: Progress, folders: Iterable[str], write: Callable[[str], None] | None = None
) -> Iterator[Lines]:
    """Inside this context, everything that is logged goes to `write`, by default to the error stream: what this program
    logs from the level on, and warnings of others."""
    written = to_errors() if write is None else write
    lines, root, before = Lines(written), logging.getLogger(), log.level
    lines.setFormatter(Formatter(form, progress, folders))
    root.addHandler(lines)
    log.setLevel(level.upper())
    hook, threading.excepthook = threading.excepthook, _failed_thread
    try:
        yield lines
    finally:
        threading.excepthook = hook
        root.removeHandler(lines)
        log.setLevel(before)
        lines.close()


def _failed_thread(failed: threading.ExceptHookArgs) -> None:
    """Python would print the traceback of a thread, with the text of the error."""
    log.critical("", exc_info=(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback))


def to_errors() -> Callable[[str], None]:
    """Writes lines to the error stream as it is now: whole, at once and past Python's buffers, which a full disk would
    fill, and which make a program fail when it ends."""
    stream = sys.stderr
    try:
        own = os.dup(stream.fileno())
    except (AttributeError, UnsupportedOperation, OSError):  # not a file, or closed
        return lambda line: print(line, file=stream)

    def write(line: str) -> None:
        rest = f"{line}\n".encode(errors="replace")
        while rest:
            rest = rest[os.write(own, rest) :]

    return write
