"""The text of a file, plain or compressed, with errors that a user can act on."""

import bz2
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tacit.errors import InputError

_BLOCK = 1 << 23  # bytes read at once
_MARK = b"\xef\xbb\xbf"  # byte order mark
_ZIP = b"PK\x03\x04"  # .xlsx, .ods and .zip begin with it
_OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


def read_text(path: str | Path) -> str:
    """The UTF-8 text of a file; `.gz` and `.bz2` are unpacked, a byte order mark is taken off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.csv.gz"
    ...     _ = file.write_bytes(gzip.compress("a,b".encode("utf-8-sig")))
    ...     read_text(file)
    'a,b'
    """
    return b"".join(read_blocks(path)).decode()


def read_blocks(path: str | Path, size: int = _BLOCK) -> Iterator[bytes]:
    """The same, block by block, still encoded: each block ends with a line feed, but for the last.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.csv"
    ...     _ = file.write_bytes(b"a,b\\r\\n1,2\\r\\n3,4")
    ...     list(read_blocks(file, size=8))
    [b'a,b\\r\\n', b'1,2\\r\\n', b'3,4']
    """
    path, lines = Path(path), 0
    for block in _in_lines(_unpacked(path, size)):
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                line = lines + block.count(b"\n", 0, error.start) + 1
                raise InputError(
                    f"the text must be UTF-8; {path.name} line {line} holds the byte 0x{block[error.start]:02x}; "
                    "save the file as UTF-8"
                ) from None
        lines += block.count(b"\n")
        yield block


def _unpacked(path: Path, size: int) -> Iterator[bytes]:
    try:
        with _OPEN.get(path.suffix, open)(path, "rb") as file:
            first = file.read(size).removeprefix(_MARK)
            if first.startswith(_ZIP):
                raise InputError(
                    f"the file must be text; {path.name} is one of Excel, or a zip archive; save it as CSV"
                )
            yield first
            while block := file.read(size):
                yield block
    except FileNotFoundError:
        raise InputError(f"the file must exist; {path} does not; check the path") from None
    except IsADirectoryError:
        raise InputError(f"a file is needed; {path} is a directory; name a file in it") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        # A cut or foreign archive raises any of these, depending on where it breaks.
        raise InputError(f"the file must be readable; {path} is not ({error}); fetch or write it again") from None


def _in_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut behind line feeds."""
    kept: list[bytes] = []
    for block in blocks:
        head, feed, tail = block.rpartition(b"\n")
        if feed:
            yield b"".join([*kept, head, feed])
            kept = []
        if tail:
            kept.append(tail)
    if kept:
        yield b"".join(kept)
