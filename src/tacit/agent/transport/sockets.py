"""The network as an agent sees it: to listen, to connect, to look up a name, and what secures a connection.

An agent gets it from outside, as it gets its store, its ledger and its noise.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from tacit.agent.identity import Identity
from tacit.agent.transport import tls
from tacit.errors import InputError, MachineError

_BACKLOG = 1024  # connections that wait for the event loop
_FILES = 8192  # file descriptors that an agent asks for
# Seconds after which a connection is over if nothing of what was sent has arrived, and between signs of life of one
# that is idle: a link that swallows everything is noticed.
_UNACKNOWLEDGED, _IDLE, _AGAIN = 40, 20, 10  # the first is longer than the deadline of an answer
_TURNS = 5  # of the event loop: more than between accepting a connection and telling of it
_UNSENT = 1 << 17  # bytes that the system keeps of what the other side has no room for

Made = Callable[[], asyncio.Protocol]


class Network:
    """What an agent needs of a network: TCP, or whatever has these methods. All addresses are HOST:PORT."""

    async def listen(self, address: str, made: Made) -> asyncio.AbstractServer:
        """Every connection that comes in is one of what `made` gives. A MachineError if that is impossible now; an
        InputError if it will never be possible."""
        host, port = host_and_port(address)
        try:
            listening = _listening(host, int(port))
            server = await asyncio.get_running_loop().create_server(made, sock=listening, start_serving=False)
            try:
                await server.start_serving()
            except BaseException:  # an agent may be told to stop in the middle of this
                server.close()
                raise
            listening.listen(_BACKLOG)  # asyncio has made it 100: so many it accepts at once, and should
        except (PermissionError, ValueError) as error:
            why = "this user may not use the port" if isinstance(error, PermissionError) else "an address is HOST:PORT"
            raise InputError(f"cannot listen at {address}: {why}") from None
        except OSError:
            raise MachineError(
                f"cannot listen at {address}: the port is in use, or this machine does not have the address"
            ) from None
        return server

    async def stop_listening(self, server: asyncio.AbstractServer) -> None:
        """Accepts nothing more, and returns when `made` has been called for all that was accepted.

        asyncio tells of a connection some turns of its loop after it has accepted it, and forgets it, with its socket
        open, if the server is closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        for listening in getattr(server, "sockets", ()):
            loop.remove_reader(listening.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        server.close()

    async def connect(self, address: str, made: Made) -> None:
        """Connects what `made` gives; an OSError if that is impossible."""
        host, port = host_and_port(address)
        await asyncio.get_running_loop().create_connection(made, host, int(port))

    async def look_up(self, host: str) -> list[str]:
        """The addresses of a host, without repetition; none if it is unknown."""
        with suppress(OSError, UnicodeError):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(plain(str(each[0])) for *_, each in found))
        return []

    def secured(self, identity: Identity, trusted: Iterable[str], *, called: bool) -> ssl.SSLContext:
        """What secures a connection: TLS for one who is called, or calls, and trusts exactly these certificates."""
        return tls.context(identity, trusted, called=called)

    def room(self) -> int:
        """How many files this process may have open, after it has asked for as many as it may."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def tuned(transport: asyncio.Transport) -> None:
    """Small messages leave at once, and a dead link is noticed. (asyncio does not set TCP_NODELAY for a socket of
    `socket.create_server`, whose protocol is 0.) A transport without a socket is left as it is."""
    if (connection := transport.get_extra_info("socket")) is None:
        return
    wanted = {"TCP_NODELAY": 1, "TCP_USER_TIMEOUT": 1000 * _UNACKNOWLEDGED, "TCP_NOTSENT_LOWAT": _UNSENT}
    with suppress(OSError):  # the caller has gone
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (wanted | {"TCP_KEEPIDLE": _IDLE, "TCP_KEEPINTVL": _AGAIN}).items():
            if hasattr(socket, name):  # other systems have fewer
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def dropped(transport: asyncio.Transport) -> None:
    """When this is closed, the system keeps nothing for somebody who does not read, and tells him."""
    if (connection := transport.get_extra_info("socket")) is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def host_and_port(address: str) -> tuple[str, str]:
    """Both parts of HOST:PORT, as text; an IPv6 address without its brackets.

    >>> host_and_port("[::1]:7001")
    ('::1', '7001')
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def plain(address: str) -> str:
    """An address as text; an IPv4 address that came through IPv6 as what it is.

    >>> plain("::ffff:192.0.2.1")
    '192.0.2.1'
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise ValueError(port)
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    both = family == socket.AF_INET6 and host in ("", "::") and socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
