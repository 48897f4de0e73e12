"""A network in memory, and a plain channel in place of TLS.

Connections carry bytes in order, as TCP does: a loss is a delay. A reset ends a connection at both ends, also in the
middle of an answer. Between two hosts each direction can be cut off. What is sent meanwhile waits, until the direction
is back or the connection is given up.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tacit.agent.identity import Identity
from tacit.agent.transport.sockets import Network
from tacit.agent.transport.tls import PROTOCOL
from world.loop import Process, WorldLoop

FRAME = struct.Struct(">IB")
_GIVEN_UP = 40.0  # seconds: TCP_USER_TIMEOUT of `tacit.agent.transport.sockets`


class Channel:
    """In place of an `ssl.SSLContext`: each side shows its certificate first, and nobody proves anything."""

    def __init__(self, identity: Identity, trusted: Iterable[str]) -> None:
        self.own = ssl.PEM_cert_to_DER_cert(identity.certificate)
        self.trusted = {ssl.PEM_cert_to_DER_cert(each) for each in trusted}

    def wrap_bio(self, came: ssl.MemoryBIO, goes: ssl.MemoryBIO, server_side: bool) -> Plain:
        """One end of a connection."""
        return Plain(self, came, goes)


class Plain:
    """What stands in place of an `ssl.SSLObject`."""

    def __init__(self, channel: Channel, came: ssl.MemoryBIO, goes: ssl.MemoryBIO) -> None:
        self._channel, self._came, self._goes = channel, came, goes
        self._shown, self._raw = False, b""

    def do_handshake(self) -> None:
        if not self._shown:
            self._shown = True
            self._goes.write(struct.pack(">I", len(self._channel.own)) + self._channel.own)
        while len(self._raw) < 4 or len(self._raw) < 4 + struct.unpack(">I", self._raw[:4])[0]:
            wanted = 4 if len(self._raw) < 4 else 4 + struct.unpack(">I", self._raw[:4])[0]
            if not self._came.pending:
                raise ssl.SSLWantReadError
            self._raw += self._came.read(wanted - len(self._raw))
        if self.getpeercert(True) not in self._channel.trusted:
            raise ssl.SSLError("CERTIFICATE_VERIFY_FAILED")

    def getpeercert(self, binary_form: bool) -> bytes:
        return self._raw[4:]

    def selected_alpn_protocol(self) -> str:
        return PROTOCOL

    def read(self, size: int) -> bytes:
        if not self._came.pending:
            raise ssl.SSLWantReadError
        return self._came.read(size)

    def write(self, data: bytes) -> int:
        return self._goes.write(data)


class End(asyncio.Transport):
    """One end of a connection, as its process sees it."""

    def __init__(self, web: Web, owner: Process, host: str, protocol: Any, far_host: str) -> None:
        super().__init__()
        self.web, self.owner, self.host, self.protocol, self.far_host = web, owner, host, protocol, far_host
        self.far: End
        self.closing = self.gone = False
        self.coming: deque[tuple[float, bytes | None]] = deque()  # towards this end; None: the other side has closed
        self._last, self._paused, self._stuck = 0.0, False, False
        self._read: deque[bytes | None] = deque()  # arrived, and not read
        self.watch: Any = None  # sees what is written here
        # Of its own: agents end connections in the order of a set, which is another one every time.
        self.rng = random.Random(web.rng.random())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (f"10.0.0.{self.far_host}", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All is taken at once."""

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: Any) -> None:
        if self.closing or not self.owner.alive:
            return
        for piece in (bytes(data),) if self.watch is None else self.watch.passes(bytes(data)):
            self.far.send(piece)

    def send(self, piece: bytes | None) -> None:
        """Something is on its way to this end."""
        web = self.web
        when = max(self._last, web.loop.time() + web.latency(self.rng, self.far_host, self.host))
        self._last = when
        self.coming.append((when, piece))
        web.loop.call_at(when, self.arrive, context=self.owner.context if self.owner.alive else web.context)

    def arrive(self) -> None:
        """What is due, and not cut off, has arrived."""
        if self.gone:
            self.coming.clear()
            return
        if (self.far_host, self.host) in self.web.cut:
            self._stuck = True
            self.web.stuck.append(self)
            return
        now = self.web.loop.time()
        while self.coming and self.coming[0][0] <= now:
            self._read.append(self.coming.popleft()[1])
        if not self.owner.alive:  # nobody is there: the host says so, unless it is down
            if not self.web.down(self.host):
                self.gone = True
                self.far.send(None)
            return
        self._pass()

    def _pass(self) -> None:
        while self._read and not (self._paused or self.gone):
            piece = self._read.popleft()
            if piece is None:
                self._lost()
            else:
                self.protocol.data_received(piece)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            if self._read:
                self.web.loop.call_soon(self._pass)

    def close(self) -> None:
        """What was written arrives before the end."""
        if not self.closing:
            self.closing = True
            self.web.loop.call_soon(self._lost)
            self.far.send(None)

    abort = close

    def cut(self) -> None:
        """The process has gone, or the connection was reset: the other side hears of it."""
        self.closing = True
        self.far.send(None)

    def _lost(self) -> None:
        if not self.gone:
            self.gone = self.closing = True
            self.web.ends.pop(self, None)
            self.protocol.connection_lost(None)


class Web:
    """All connections between hosts. A host is named by the place of its member; a copy of a member has one of its own,
    and `routes` says who reaches it."""

    def __init__(self, loop: WorldLoop, rng: random.Random) -> None:
        self.loop, self.rng, self.context = loop, rng, loop._outside.context
        self.listening: dict[tuple[str, str], tuple[Process, Callable[[], Any]]] = {}  # by host and address
        self.routes: dict[tuple[str, str], str] = {}  # (who calls, at which address) -> host, if not the member's own
        self.ends: dict[End, None] = {}  # in the order in which they were made
        self.cut: set[tuple[str, str]] = set()
        self.stuck: list[End] = []
        self.slow: dict[str, float] = {}  # seconds more, by host
        self.off: set[str] = set()  # hosts without power
        self._healed: list[asyncio.Future[None]] = []
        self.connections = 0

    def latency(self, rng: random.Random, source: str, target: str) -> float:
        more = self.slow.get(source, 0.0) + self.slow.get(target, 0.0)
        slow = rng.random()
        return 0.001 + 0.004 * slow + (0.2 if slow > 0.99 else 0.0) + more  # one in a hundred is lost, and sent again

    def down(self, host: str) -> bool:
        return host in self.off

    def heal(self, pairs: Iterable[tuple[str, str]]) -> None:
        """These directions carry again."""
        self.cut -= set(pairs)
        again, self.stuck = self.stuck, []
        for end in again:
            self.loop.call_soon(end.arrive, context=end.owner.context if end.owner.alive else self.context)
        waiting, self._healed = self._healed, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def ended(self, process: Process) -> None:
        """A process has gone: its host closes its connections, unless the power is off."""
        for key, (owner, _) in list(self.listening.items()):
            if owner is process:
                del self.listening[key]
        for end in [each for each in self.ends if each.owner is process]:
            end.closing = True
            self.ends.pop(end, None)
            if not self.down(end.host):
                end.far.send(None)
            else:
                self.loop.later(_GIVEN_UP, end.far.send, None)

    def reset(self, host: str) -> int:
        """Ends all connections of a host, whatever is on its way."""
        found = [each for each in self.ends if each.host == host]
        for end in found:
            for each in (end, end.far):
                each.coming.clear()
                each._read.clear()
                each.coming.append((self.loop.time(), None))
                self.loop.call_soon(each.arrive, context=each.owner.context if each.owner.alive else self.context)
        return len(found)

    async def settled(self) -> None:
        """Waits until a direction carries again."""
        waiter = self.loop.create_future()
        self._healed.append(waiter)
        await waiter


class Listening:
    """In place of an `asyncio.Server`."""

    def close(self) -> None:
        """`Here.stop_listening` does it."""


class Here(Network):
    """The network as one process has it."""

    def __init__(self, web: Web, owner: Process, host: str, watch: Callable[[End, bool], Any], tls: bool) -> None:
        self._web, self._owner, self._host, self._watch, self._tls = web, owner, host, watch, tls

    async def listen(self, address: str, made: Any) -> Any:
        self._address = address
        self._web.listening[self._host, address] = self._owner, made
        return Listening()

    async def stop_listening(self, server: Any) -> None:
        self._web.listening.pop((self._host, self._address), None)

    async def connect(self, address: str, made: Any) -> None:
        web = self._web
        target = web.routes.get((self._host, address), address.partition(":")[0].removeprefix("h"))
        while {(self._host, target), (target, self._host)} & web.cut or web.down(target):
            await web.settled()
        await asyncio.sleep(web.latency(web.rng, self._host, target))
        if (found := web.listening.get((target, address))) is None:
            raise ConnectionRefusedError(address)
        owner, accepts = found
        web.connections += 1
        near = End(web, self._owner, self._host, made(), target)
        far = End(web, owner, target, None, self._host)
        near.far, far.far = far, near
        if not self._tls:
            near.watch, far.watch = self._watch(near, True), None
        web.ends |= {near: None, far: None}

        def accepted() -> None:
            far.protocol = accepts()
            if not self._tls:
                far.watch = owner.network._watch(far, False)
            far.protocol.connection_made(far)

        web.loop.call_soon(accepted, context=owner.context)
        near.protocol.connection_made(near)

    async def look_up(self, host: str) -> list[str]:
        return [f"10.0.0.{host.removeprefix('h')}"]

    def secured(self, identity: Identity, trusted: Iterable[str], *, called: bool) -> Any:
        return super().secured(identity, trusted, called=called) if self._tls else Channel(identity, trusted)

    def room(self) -> int:
        return 8192
