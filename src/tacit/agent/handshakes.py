"""Callers that fail in the TLS handshake, in the log.

gRPC refuses such callers by itself and does not report them to its server. Only its trace log, on the error stream,
says where they called from and why they failed. `watched` reads that stream and writes clear lines to our log.
"""

from __future__ import annotations

import logging
import os
import re
import select
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from urllib.parse import unquote

log = logging.getLogger("tacit.agent")

_MOST = 1000  # kinds of lines: a caller may have any number of addresses
_END = 30.0  # seconds to wait for the reader; it takes that long only if a child process keeps the stream open
_OWN = re.compile(rb"[IWEF]\d{4} \d\d:\d\d:\d\d|WARNING: All log messages before absl")  # how gRPC's lines begin
_MORE = (b"=== Source Location", b"src/core/", b" shutdown=", b"\n")  # and how their further lines begin
# UNKNOWN, UNAVAILABLE; before gRPC 1.74 the line names the manager instead
_FAILED = re.compile(rb"(?:CallNextHandshakerLocked|handshake_manager \w+): error=U")
_CALLER = re.compile(rb"endpoint_peer_address=unix-abstract:tacit-\w+-([^,\s]+),.*server_credentials")  # see door.py
_REASONS = {
    b"PEER_DID_NOT_RETURN_A_CERTIFICATE": "showed no certificate",
    b"CERTIFICATE_VERIFY_FAILED": "showed a certificate that none of our neighbours has",
    b"NO_SHARED_CIPHER": "does not speak TLS 1.3",
    b"UNSUPPORTED_PROTOCOL": "does not speak TLS 1.3",
    b"Handshake read failed": "did not finish the handshake",
}


def trace() -> None:
    """Makes gRPC write what `watched` needs. Call it before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "INFO")
    os.environ.setdefault("GRPC_TRACE", "handshaker")


@contextmanager
def watched(refused: Callable[[str], None] = lambda reason: None, to_the_end: bool = False) -> Iterator[None]:
    """Inside this context, gRPC's lines on the error stream are read and not shown; everything else passes.

    `refused` is called with the reason for every caller that failed. `to_the_end`: gRPC's threads speak on after its
    connections are closed, so the lines are not shown until the process ends.
    """
    shown, (reading, writing) = os.dup(2), os.pipe()
    python = sys.stderr
    if _is_the_stream(python):
        sys.stderr = open(shown, "w", buffering=1, closefd=False)  # noqa: SIM115 (it is put back below)
    reader = threading.Thread(target=_read, args=(reading, shown, refused), daemon=True)
    reader.start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        if not to_the_end:
            os.dup2(shown, 2)  # closes the last writing end: the reader ends
            reader.join(timeout=_END)  # it still reads what is in the pipe
            sys.stderr = python
            os.close(shown)


def _is_the_stream(stream: object) -> bool:
    try:
        return stream.fileno() == 2  # type: ignore[attr-defined]
    except (AttributeError, UnsupportedOperation):
        return False


def _read(reading: int, shown: int, refused: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    reason = None  # of the handshake whose lines are being read
    inside = False
    with open(reading, "rb") as lines:
        for line in lines:
            if _OWN.match(line):
                inside = True
                reason = _reason(line) if _FAILED.search(line) else None
            elif not (inside and line.startswith(_MORE)):
                inside = False
                _pass(shown, line)
                continue
            if reason is not None and (caller := _CALLER.search(line)):
                refused(f"a caller {reason}")
                text = f"a caller at {unquote(caller[1].decode(errors='replace'))} {reason}: refused"
                if text not in seen and len(seen) >= _MOST:
                    text = f"a caller at one more address {reason}: refused"
                reason = None
                seen[text] += 1
                if seen[text] < 10:
                    log.warning(text)
                elif str(seen[text]).strip("0") == "1":  # a caller that comes again and again must not fill the disk
                    log.warning(f"{text} ({seen[text]} times)")


def _pass(shown: int, line: bytes) -> None:
    """Shows a line, or loses it: if this thread waited for a full pipe, gRPC would soon wait for this thread."""
    with suppress(OSError):
        if select.select([], [shown], [], 0)[1]:
            os.write(shown, line[: select.PIPE_BUF])


def _reason(line: bytes) -> str:
    return next((text for mark, text in _REASONS.items() if mark in line), "does not speak TLS correctly")
