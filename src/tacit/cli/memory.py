"""Enough memory for an agent, before anything is loaded: a library that gets none may end a process without a word."""

from __future__ import annotations

import faulthandler
import resource
import sys

from tacit.errors import MachineError

LEAST = 768 << 20  # bytes of addresses: with fewer, libraries cannot be loaded, or threads started


def require() -> None:
    """Refuses to go on with too little. If a library ends the process later, Python says where."""
    if sys.stderr is not None:
        faulthandler.enable(2)
    room, _ = resource.getrlimit(resource.RLIMIT_AS)
    if room != resource.RLIM_INFINITY and room < LEAST:
        raise MachineError(
            f"this process may use {room >> 20:,} MB of addresses (ulimit -v, LimitAS=), and an agent needs "
            f"{LEAST >> 20:,} MB or more: raise the limit, and start it again"
        )
