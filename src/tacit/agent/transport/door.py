"""The door of an agent: which connections are let in, before TLS begins.

A connection takes a few kilobytes, about 50 from its first byte on, and a handshake a millisecond of CPU. So there are
limits, and strangers never use up what neighbours need.

**Shares.** Every address of a neighbour (those in the federation file, `_ADDRESSES` of each host) has a share of its
own, and all other addresses have one together. So only somebody at a neighbour's own address can use up what it needs.
In each share

- `_RATE` connections a second are let in, after `_AT_ONCE` at once. Others are closed, and may try again.
- `_NEW` connections may have shown no certificate yet, or fewer if the process may open few files. If there is one
  more, the oldest is closed: connections that are held open and say nothing make room.

**Members.** A member may have `CONNECTIONS` in all, from wherever it calls: if there is one more, its oldest is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tacit.agent.transport.sockets import host_and_port
from tacit.agent.transport.tls_streams import Stream

CONNECTIONS = 16  # of one member; an agent needs three or four, and twice as many while it is replaced
_RATE, _AT_ONCE = 100.0, 200.0  # connections a second, and at once
_NEW = 256  # connections of a share that have shown no certificate
_FILES = 8  # so many times as many files as new connections: then strangers take an eighth of them
_ADDRESSES = 4  # of one host that have shares: who owns a name may give it thousands
_STRANGERS = ""  # the share of all who are no neighbours


class Door:
    """Who is in, and who may come. The process may have `files` files open."""

    def __init__(self, files: int) -> None:
        self._most = max(1, min(_NEW, files // _FILES))
        self._shares = {_STRANGERS: _Share()}
        self._members: dict[str, dict[Stream, None]] = {}  # the connections of each, the oldest first

    async def expect(self, address: str, look_up: Callable[[str], Awaitable[list[str]]]) -> None:
        """Gives the addresses of a neighbour shares of their own. A host without an address is a stranger."""
        for found in (await look_up(host_and_port(address)[0]))[:_ADDRESSES]:
            self._shares.setdefault(found, _Share())

    def admits(self, caller: Stream, address: str) -> bool:
        """Whether a caller may come in; it is then new until it is `known` or `gone`."""
        share = self._shares.get(address, self._shares[_STRANGERS])
        if not share.lets_in(asyncio.get_running_loop().time()):
            return False
        while len(share.new) >= self._most:
            oldest = next(iter(share.new))
            del share.new[oldest]
            oldest.end()
        share.new[caller] = None
        return True

    def known(self, caller: Stream, name: str) -> bool:
        """Notes whose connection it is; whether the member's oldest connection had to make room."""
        self._forget(caller)
        own = self._members.setdefault(name, {})
        own[caller] = None
        if full := len(own) > CONNECTIONS:
            oldest = next(iter(own))
            del own[oldest]
            oldest.end()
        return full

    def ends(self, name: str) -> None:
        """Ends all connections of a member."""
        for caller in self._members.pop(name, {}):
            caller.end()

    def gone(self, caller: Stream) -> None:
        """Notes that a connection is over."""
        self._forget(caller)
        for own in self._members.values():
            own.pop(caller, None)

    def _forget(self, caller: Stream) -> None:
        for share in self._shares.values():
            share.new.pop(caller, None)


class _Share:
    """What some addresses may have: who is new, and how many more may come now."""

    def __init__(self) -> None:
        self.new: dict[Stream, None] = {}  # the oldest first
        self._left, self._since = _AT_ONCE, 0.0

    def lets_in(self, now: float) -> bool:
        self._left = min(_AT_ONCE, self._left + _RATE * (now - self._since))
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
