"""The door of an agent: it accepts connections in gRPC's place, and passes on no more than the agent can bear.

Whoever connects costs the agent 50 KB and three file descriptors until TLS has refused him, and a handshake a
millisecond of CPU. gRPC limits neither. So the door listens at the agent's address, and gRPC at a socket in a folder
that no other user may enter. TLS ends behind the door, which passes bytes on and has no key.

**Shares.** Every address of a neighbour (those in the federation file, `_ADDRESSES` of each host) has a share of its
own, and all other addresses have one together. So strangers never use what neighbours need; only somebody at a
neighbour's own address can. In each share

- `_RATE` connections a second are let in, after `_AT_ONCE` at once. Others are closed, and may try again.
- `_NEW` connections may be younger than a handshake may take, or fewer if the process may open few files. If there is
  one more, the oldest is closed: connections that are held open and say nothing make room. Older ones are open only if
  a neighbour has shown its certificate.
- `_OPEN` connections may be open in all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.errors import InputError

_RATE, _AT_ONCE = 100.0, 200.0  # connections a second, and at once
_NEW, _OPEN = 256, 512  # connections of a share that are new, and all
_FILES = 12  # so many times as many files as new connections: then strangers take a quarter of them, three each
_LONGEST = 100  # bytes of a socket's path; the system allows a few more
_BACKLOG = 1024  # connections that wait for the event loop
_ADDRESSES = 4  # of one host that have shares: who owns a name may give it thousands
_STRANGERS = ""  # the share of all who are no neighbours
Refused = Callable[[str, str], None]  # the address of a caller, and why it was not let in


class Door:
    """Passes connections on to a server at `inside`. A connection is new for `handshake` seconds; the process may have
    `files` files open."""

    def __init__(self, handshake: float, files: int, refused: Refused) -> None:
        self._folder = TemporaryDirectory(prefix="tacit-")
        self.inside = Path(self._folder.name) / "inside"
        if len(bytes(self.inside)) > _LONGEST:
            self._folder.cleanup()
            raise InputError(
                f"{self.inside.parent.parent} is too long a path for a socket: set TMPDIR to a shorter one"
            )
        self._handshake, self._refused = handshake, refused
        self._new = max(1, min(_NEW, files // _FILES))
        self._shares = {_STRANGERS: _Share()}
        self._tasks: set[asyncio.Task[None]] = set()
        self.ends: set[_End] = set()  # all that are open, on both sides
        self._way, self._file = str(self.inside), -1

    async def open(self, listen: str, neighbours: Iterable[str]) -> None:
        """Listens at HOST:PORT; `neighbours` are the addresses of the neighbours, HOST:PORT each."""
        host, port = host_and_port(listen)
        try:
            listening = _listening(host, int(port))
            self._server = await asyncio.get_running_loop().create_server(lambda: _Caller(self), sock=listening)
            listening.listen(_BACKLOG)  # asyncio has made it 100: so many it accepts at once, and should
        except (OSError, ValueError):
            self._folder.cleanup()
            raise InputError(
                f"cannot listen at {listen}: the port is in use, or this machine does not have the address"
            ) from None
        self._hide()
        for each in {host_and_port(address)[0] for address in neighbours}:
            self._do(self._expect(each))

    def _hide(self) -> None:
        """Removes the folder, where the server's socket can be reached without its name: so a process that is killed
        leaves nothing, and nothing that clears up old files makes this agent deaf."""
        if sys.platform != "linux":
            return
        with suppress(OSError):
            self._file = os.open(self.inside, os.O_PATH)
            if os.path.exists(way := f"/proc/self/fd/{self._file}"):
                self._way = way
                self._folder.cleanup()

    async def _expect(self, host: str) -> None:
        """Gives the addresses of a host shares of their own. A host without an address is a stranger."""
        with suppress(OSError, UnicodeError):
            looked_up = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            for address in list(dict.fromkeys(_plain(str(found[0])) for *_, found in looked_up))[:_ADDRESSES]:
                self._shares.setdefault(address, _Share())

    def close(self) -> None:
        """Lets nobody in any more; those who are in stay."""
        self._server.close()

    async def leave(self) -> None:
        """Ends all connections, and returns when their sockets are closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in list(self.ends):
            end.transport.abort()
        while self.ends:  # a transport closes its socket in a later turn of the event loop
            await asyncio.sleep(0)
        self._folder.cleanup()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def admit(self, caller: _Caller) -> bool:
        """Whether a caller is let in; it then counts in its share until it is gone."""
        share = self._shares.get(caller.address, self._shares[_STRANGERS])
        now, why = time.monotonic(), None
        if not share.lets_in(now):
            why = "comes too often"
        elif len(share.open) >= _OPEN:
            why = "has too many connections open"
        if why is not None:
            self._refused(caller.address, why)
            return False
        there = share.new(now - self._handshake)
        for other in there[: max(0, len(there) + 1 - self._new)]:
            other.end()
        share.open[caller] = now
        caller.share = share
        self._do(self._pass_on(caller))
        return True

    async def _pass_on(self, caller: _Caller) -> None:
        """Connects a caller to the server inside, by a name from which gRPC's trace shows the caller's address."""
        loop = asyncio.get_running_loop()
        try:
            way = socket.socket(socket.AF_UNIX)
        except OSError:  # no more files
            caller.end()
            return
        try:
            way.setblocking(False)
            if sys.platform == "linux":  # elsewhere a socket has no name without a file
                # A name that nobody can guess: all users of the machine see it, and could take the next one.
                way.bind(f"\0tacit-{secrets.token_hex(8)}-{caller.address}")
            await loop.sock_connect(way, self._way)
            await loop.create_unix_connection(lambda: _Inside(self, caller), sock=way)
        except BaseException as error:
            way.close()
            caller.end()
            if not isinstance(error, OSError):  # the server inside has ended
                raise

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Share:
    """What some addresses may have: who has come, and how many more may."""

    def __init__(self) -> None:
        self.open: dict[_Caller, float] = {}  # when each has come, in this order
        self._left, self._since = _AT_ONCE, time.monotonic()

    def lets_in(self, now: float) -> bool:
        """Whether one more may come now."""
        self._left = min(_AT_ONCE, self._left + _RATE * (now - self._since))
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def new(self, since: float) -> list[_Caller]:
        """The callers that have come since then, and are still there."""
        return [caller for caller, came in self.open.items() if came >= since]


class _End(asyncio.Protocol):
    """One end of a connection that is passed on: what comes in goes out at the other end, at the pace of that end."""

    transport: asyncio.Transport
    other: asyncio.Transport | None = None

    def __init__(self, door: Door) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._door.ends.add(self)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._door.ends.discard(self)
        if self.other is not None:
            self.other.close()


class _Caller(_End):
    """The end of somebody who has connected."""

    address = ""
    share: _Share | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = _plain(str(transport.get_extra_info("peername", ("",))[0]))
        self.transport.pause_reading()  # until the way inside is open
        if not self._door.admit(self):
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._gone()

    def end(self) -> None:
        """Ends the connection at once."""
        self.transport.abort()
        self._gone()

    def _gone(self) -> None:
        if self.share is not None:
            self.share.open.pop(self, None)


class _Inside(_End):
    """The end at the server inside."""

    def __init__(self, door: Door, caller: _Caller) -> None:
        super().__init__(door)
        self._caller = caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.other, self._caller.other = self._caller.transport, self.transport
        if self._caller.transport.is_closing():
            self.transport.abort()
        else:
            self._caller.transport.resume_reading()


def host_and_port(address: str) -> tuple[str, str]:
    """Both parts of HOST:PORT, as text; an IPv6 address without its brackets.

    >>> host_and_port("[::1]:7001")
    ('::1', '7001')
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise ValueError(port)
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    both = family == socket.AF_INET6 and host in ("", "::") and socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def _plain(address: str) -> str:
    """An address as text; an IPv4 address that came through IPv6 as what it is."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)
