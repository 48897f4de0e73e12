"""What systemd is told about an agent (`Type=notify`): that it answers, what it does, that it is alive, that it stops.

The protocol is one datagram to the socket that systemd names in $NOTIFY_SOCKET (sd_notify(3)). The watchdog is fed by
the heartbeat of the agent's event loop (`tacit.agent.loop`), so a loop that hangs is noticed: systemd then kills the
agent and starts it again. Without systemd nothing happens.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from tacit.agent.monitoring.progress import Progress


def alive(progress: Progress) -> None:
    """The agent answers, and its event loop runs. To say so again does no harm."""
    _tell("READY=1", "WATCHDOG=1", f"STATUS={progress.place}; {progress.doing}")


def stopping(why: str) -> None:
    """Tells systemd that the agent ends, and why."""
    _tell("STOPPING=1", f"STATUS={why}")


def _tell(*fields: str) -> None:
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return
    address = "\0" + where[1:] if where.startswith("@") else where
    said = "\n".join(" ".join(field.split()) for field in fields)
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.setblocking(False)  # a supervisor that does not read must not hold up the agent
        line.sendto(said.encode(), address)
