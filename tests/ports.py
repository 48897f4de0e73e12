"""Ports for servers that a test starts. Not a test."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(10_000, 20_000)  # below those of outgoing connections, and apart from those of `tacit federation demo`
_given: set[int] = set()
_locks = (Path(tempfile.gettempdir()) / f"tacit-test-ports-{os.getuid()}").open("ab")  # its k-th byte is the port k


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, and that no other test process is given while this one lives: some tests listen at them
    only minutes later."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if len(found) == count:
            return found
        if port not in _given and _locked(port) and _unused(port):
            _given.add(port)
            found.append(port)
    raise RuntimeError(f"no {count} free ports")


def _locked(port: int) -> bool:
    try:
        fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _unused(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
