"""What agents say on the wire, by asyncio's own TLS: members and servers of which a test decides every byte.

docs/reference/wire.md has the format. Nothing here is shared with `tacit.agent.transport.tls_streams` but the numbers
of the kinds. Not a test.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tacit.agent.transport.sockets import Network
from tacit.agent.transport.tls import PROTOCOL
from tacit.agent.transport.tls_streams import ANSWER, ASK, GREET, LEAVE, NOT_YET, READY, REFUSED

METHODS = {"Greet": GREET, "Ask": ASK, "Leave": LEAVE}
_MOST = 1 << 26  # bytes of a frame that is read


class Refused(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """In place of an answer: what an agent gives, or what a hostile member gives it."""

    kind = REFUSED


class NotYet(Refused):
    """There is no answer yet."""

    kind = NOT_YET


def tls(
    identity: Any = None, trusted: Iterable[str] = (), *, called: bool = False, protocol: str = PROTOCOL
) -> ssl.SSLContext:
    """A caller without an identity shows none; a caller trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if called else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED if called else ssl.CERT_NONE
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols([protocol])
    if pinned := "".join(trusted):
        context.load_verify_locations(cadata=pinned)
    if identity is not None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
            Path(pair.name).write_bytes(identity.certificate.encode() + identity.key)
            context.load_cert_chain(pair.name)
    return context


def framed(kind: int, content: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">IB", len(content), kind) + content


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The kind and the content of a frame."""
    size, kind = struct.unpack(">IB", await reader.readexactly(5))
    assert size < _MOST
    return kind, await reader.readexactly(size)


class Line:
    """A connection to an agent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, address: str, identity: Any, room: int | None = None) -> Line:
        """Connects; a ConnectionError if the agent does not let this identity in. The system keeps no more than `room`
        bytes for somebody who does not read."""
        host, port = address.split(":")
        plain = socket.socket()
        plain.setblocking(False)
        if room is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        try:
            await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
        except BaseException:
            plain.close()
            raise
        try:
            line = cls(*await asyncio.open_connection(sock=plain, ssl=tls(identity), server_hostname=""))
        except ssl.SSLError as error:
            raise ConnectionAbortedError(str(error)) from None
        try:
            assert await line.heard() == (READY, b"")
        except BaseException:
            line.close()
            raise
        return line

    async def heard(self) -> tuple[int, bytes]:
        """The next frame; a ConnectionError if there is none."""
        try:
            return await read(self.reader)
        except (ssl.SSLError, asyncio.IncompleteReadError) as error:
            raise ConnectionAbortedError(str(error)) from None

    async def asks(self, method: str, raw: bytes) -> bytes:
        """What the agent answers; `Refused` if it refuses."""
        self.writer.write(framed(METHODS[method], raw))
        kind, content = await self.heard()
        if kind == NOT_YET:
            raise NotYet
        if kind != ANSWER:
            raise Refused(content.decode())
        return content

    def close(self) -> None:
        """At once."""
        self.writer.transport.abort()


async def call(federation: Any, caller: Any, method: str, message: Any, to: int = 0) -> bytes | Exception | None:
    """What a caller gets from an agent: an answer, or `Refused`, or a ConnectionError if it is not let in."""
    raw = message if isinstance(message, bytes) else message.SerializeToString()
    for _ in range(600):  # until its server is up
        try:
            line = await Line.to(federation.members[to].address, caller)
        except ConnectionRefusedError:
            await asyncio.sleep(0.2)
            continue
        except ConnectionError as error:
            return error
        try:
            async with asyncio.timeout(30):
                return await line.asks(method, raw)
        except (Refused, ConnectionError) as error:
            return error
        finally:
            line.close()
    return None


class Serving:
    """A server of which a test decides what it says: `answer` gets (method, caller, bytes), and gives bytes or raises
    `Refused`."""

    def __init__(
        self,
        address: str,
        identity: Any,
        trusted: Iterable[str],
        answer: Callable[[str, str, bytes], Awaitable[bytes]],
        protocol: str = PROTOCOL,
    ) -> None:
        self._address, self._answer = address.split(":"), answer
        self._tls = tls(identity, trusted, called=True, protocol=protocol)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> Serving:
        """Listens."""
        host, port = self._address
        self._server = await asyncio.start_server(self._connected, host, int(port), ssl=self._tls)
        return self

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """No coroutine: one that is cancelled before it begins would leave its connection open."""
        if self._closed:  # it was in its handshake then
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, writer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        writer.transport.abort()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from cryptography import x509

        from tacit.agent.identity import common_name

        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        caller, methods = common_name(x509.load_der_x509_certificate(shown)), {v: k for k, v in METHODS.items()}
        with suppress(OSError, asyncio.IncompleteReadError):
            writer.write(framed(READY))
            while True:
                kind, raw = await read(reader)
                try:
                    writer.write(framed(ANSWER, await self._answer(methods[kind], caller, raw)))
                except Refused as refused:
                    writer.write(framed(refused.kind, str(refused).encode()))
                await writer.drain()

    async def close(self) -> None:
        """At once."""
        self._closed = True
        await Network().stop_listening(self._server)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
