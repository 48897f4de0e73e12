"""Files: a crash or a full disk never leaves a result half written; fingerprints of data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import TextIO

from tacit.errors import InputError, failed


def writable(path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]] = ()) -> Path:
    """Checks, before any long work, that a file can be written there and is not one of the inputs; writes nothing."""
    path = Path(path).resolve()  # a link stays a link: its target is replaced
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder; name a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} cannot be written: it is a device or a pipe; name a file")
    for source in inputs:
        if Path(source).resolve() == path:
            raise InputError(f"{path} is an input, and writing to it would destroy it; name another file")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: the folder {folder} is read-only")
    return path


def fingerprint(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, whatever the name of the file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     fingerprint(empty.name)[:20]
    'sha256:e3b0c44298fc1'
    """
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist or is not a file; name a file of data")
    try:
        with open(path, "rb") as file:
            return f"sha256:{file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise failed(error, f"{path} cannot be read: {error.strerror or error}") from None


def write_once(path: Path, text: str, option: str) -> None:
    """Writes a text that a person may edit then, and refuses to replace another one; `option` names the file."""
    if path.exists() and path.read_bytes() != text.encode():
        raise InputError(
            f"{path} is there already and says something else, perhaps by hand; name another file with {option}, or "
            "move that one"
        )
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file that only its owner may read. An existing file is replaced only if all went well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_private(Path(folder) / "x.txt", "whole")
    ...     oct((Path(folder) / "x.txt").stat().st_mode)[-3:]
    '600'
    """
    with writing_private(path) as file:
        file.write(text)


@contextmanager
def writing_private(path: str | os.PathLike[str], newline: str | None = None) -> Iterator[TextIO]:
    """The same for a text that is written bit by bit; `newline` is that of `open`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, writing_private(Path(folder) / "x.txt") as file:
    ...     _ = file.write("whole")
    """
    with replacing(path) as draft:
        draft.unlink(missing_ok=True)  # what a process of the same number has left may be open to others
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", newline=newline, encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before it replaces the old one


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a path to write to, in the same folder. An existing file is replaced only if all went well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, replacing(Path(folder) / "x.txt") as draft:
    ...     _ = draft.write_text("whole")
    """
    path = writable(path)
    draft = path.with_name(f".tacit-{os.getpid()}{path.suffix[-20:]}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise failed(
            error, f"{path} could not be written: {error.strerror or error}; the old file is unchanged"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(path: str | os.PathLike[str]) -> Iterator[None]:
    """Inside this context no other process changes this file, if it does so in the same context: it waits. For a change
    that depends on what the file says. The lock is on the folder, so it leaves nothing behind. Do not nest it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, alone(Path(folder) / "x.txt"):
    ...     (Path(folder) / "x.txt").exists()
    False
    """
    import fcntl  # only some systems have it; on others the rest of this module works

    folder = None
    try:
        with suppress(OSError):  # no such folder, which whoever reads the file will say; or a disk that knows no locks
            folder = os.open(Path(path).resolve().parent, os.O_RDONLY)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        if folder is not None:
            os.close(folder)


def sync_folder(folder: Path) -> None:
    """A file that was made, replaced or removed in this folder stays so after a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
