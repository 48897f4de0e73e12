"""Callers that fail in the TLS handshake, in the log.

gRPC refuses such callers by itself and does not report them to its server. Only its trace log, on the error stream,
says where they called from and why they failed. `watched` reads that stream and writes clear lines to our log.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation

log = logging.getLogger("tacit.agent")

_END = 30.0  # seconds to wait for the reader; it takes that long only if a child process keeps the stream open
_OWN = re.compile(rb"[IWEF]\d{4} \d\d:\d\d:\d\d|WARNING: All log messages before absl")  # how gRPC's lines begin
_MORE = (b"=== Source Location", b"src/core/", b" shutdown=", b"\n")  # and how their further lines begin
# UNKNOWN, UNAVAILABLE; before gRPC 1.74 the line names the manager instead
_FAILED = re.compile(rb"(?:CallNextHandshakerLocked|handshake_manager \w+): error=U")
_CALLER = re.compile(rb"endpoint_peer_address=(?:ipv[46]:)?(\S+):\d+,.*server_credentials")
_REASONS = {
    b"PEER_DID_NOT_RETURN_A_CERTIFICATE": "showed no certificate",
    b"CERTIFICATE_VERIFY_FAILED": "showed a certificate that none of our neighbours has",
    b"Handshake read failed": "did not finish the handshake",
}


def trace() -> None:
    """Makes gRPC write what `watched` needs. Call it before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "INFO")
    os.environ.setdefault("GRPC_TRACE", "handshaker")


@contextmanager
def watched() -> Iterator[None]:
    """Inside this context, gRPC's lines on the error stream are read and not shown; everything else passes."""
    shown, (reading, writing) = os.dup(2), os.pipe()
    python = sys.stderr
    if _is_the_stream(python):
        sys.stderr = open(shown, "w", buffering=1, closefd=False)  # noqa: SIM115 (it is put back below)
    reader = threading.Thread(target=_read, args=(reading, shown), daemon=True)
    reader.start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(shown, 2)  # closes the last writing end: the reader ends
        reader.join(timeout=_END)  # it still reads what is in the pipe
        sys.stderr = python
        os.close(shown)


def _is_the_stream(stream: object) -> bool:
    try:
        return stream.fileno() == 2  # type: ignore[attr-defined]
    except (AttributeError, UnsupportedOperation):
        return False


def _read(reading: int, shown: int) -> None:
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
                os.write(shown, line)
                continue
            if reason is not None and (caller := _CALLER.search(line)):
                text = f"a caller at {caller[1].decode(errors='replace')} {reason}: refused"
                reason = None
                seen[text] += 1
                if seen[text] < 10:
                    log.warning(text)
                elif str(seen[text]).strip("0") == "1":  # a caller that comes again and again must not fill the disk
                    log.warning(f"{text} ({seen[text]} times)")


def _reason(line: bytes) -> str:
    return next((text for mark, text in _REASONS.items() if mark in line), "does not speak TLS correctly")
