"""The text of a file, plain or compressed, with errors that a user can act on."""

import bz2
import gzip
import zlib
from pathlib import Path

from tacit.errors import InputError


def read_text(path: str | Path) -> str:
    """The UTF-8 text of a file; `.gz` and `.bz2` are unpacked, a byte order mark is taken off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.csv.gz"
    ...     _ = file.write_bytes(gzip.compress("a,b".encode("utf-8-sig")))
    ...     read_text(file)
    'a,b'
    """
    path = Path(path)
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix, bytes)
    try:
        raw = unpack(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"the file must exist; {path} does not; check the path") from None
    except IsADirectoryError:
        raise InputError(f"a file is needed; {path} is a directory; name a file in it") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        # A cut or foreign archive raises any of these, depending on where it breaks.
        raise InputError(f"the file must be readable; {path} is not ({error}); fetch or write it again") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start]
        raise InputError(
            f"the text must be UTF-8; {path.name} line {line} holds the byte 0x{byte:02x}; save the file as UTF-8"
        ) from None
