"""Frames over TLS 1.3 in which both sides show a certificate that the other has pinned.

A frame is its length (four bytes), its kind (one byte) and a protobuf message. Behind the handshake the side that was
called sends one empty frame, READY: so the caller learns that it was let in, which TLS 1.3 does not tell it.

TLS is an `ssl.SSLObject` between two buffers in memory, and a plain `asyncio.Protocol` carries the bytes. The TLS of
asyncio keeps a buffer of 256 KB for each connection, and a failed handshake until the garbage collector runs
(cpython#109534). This one does not, and any network that carries bytes will do.

- A caller that says nothing has no TLS: that begins with the first byte.
- Nothing is decrypted before somebody waits for it, and little waits encrypted: a sender that is too fast is not read.
- `send` returns when all is written, so a caller knows what is still on its way.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Collection, Iterable

from tacit.agent.transport.sockets import dropped, tuned
from tacit.agent.transport.tls import PROTOCOL
from tacit.agent.transport.wire import BadMessage

GREET, ASK, LEAVE = 1, 2, 3  # kinds of questions
READY, ANSWER, NOT_YET, REFUSED = 16, 17, 18, 19  # and of what comes back
OTHER_VERSION = "speaks to agents of another version of tacit: all members need the same one"
_NAMES = {GREET: "Greeting", ASK: "Question", LEAVE: "Question", ANSWER: "answer", REFUSED: "answer"}
_HEAD = struct.Struct(">IB")
HANDSHAKE = 10.0  # seconds in which a caller must authenticate, and a question that has begun must end
DEADLINE = 30.0  # seconds that a caller waits for an answer
_PIECE = 1 << 16  # bytes that are encrypted and written at once
_AHEAD = 1 << 17  # encrypted bytes that may wait for somebody who reads
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "showed no certificate",
    "CERTIFICATE_VERIFY_FAILED": "showed a certificate that none of our neighbours has",
    "NO_SHARED_CIPHER": "does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "does not speak TLS 1.3",
}
UNFINISHED = "did not finish the handshake"


class Stranger(ConnectionError):  # noqa: N818 (an answer, not a mistake)
    """Somebody who is called is not who was meant, or speaks otherwise."""


class Stream(asyncio.Protocol):
    """One connection, from either side. One task at a time may wait for it."""

    def __init__(self, tls: ssl.SSLContext, pinned: Collection[bytes], *, called: bool = False) -> None:
        self._context, self._pinned, self._called = tls, pinned, called
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._full = False  # the transport has not written everything yet
        self.transport: asyncio.Transport | None = None
        self.certificate = b""  # of the other side, DER, once it is known
        self.over = ""  # why nothing more is said

    # What a side does when something happens

    def secured(self) -> None:
        """The handshake is done, and the other side has shown a certificate that is pinned."""

    def failed(self) -> None:
        """The handshake has failed, or the other side has gone before its end: `over` says why."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        tuned(transport)
        transport.set_write_buffer_limits(high=0)  # "written" is what the system has taken
        if not self._called:
            self._advance()

    def data_received(self, data: bytes) -> None:
        self._in.write(data)
        if not (self.certificate or self.over):
            self._advance()
        elif self._in.pending > _AHEAD and self.transport is not None:
            self.transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.certificate:
            self.fail(UNFINISHED)
        self.over = self.over or "the connection was closed"
        self.transport, self._full = None, False  # what has arrived can still be read
        self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _changed(self) -> None:
        """Waits until something has arrived, or was written; or the connection is over."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError(self.over)
        self.transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # The handshake

    def _advance(self) -> None:
        try:
            if self._tls is None:
                self._tls = self._context.wrap_bio(self._in, self._out, server_side=self._called)
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self.fail(_REASONS.get(str(error.reason), "does not speak TLS correctly"))
            return
        self._flush()
        # TLS is content with a certificate that a pinned one has signed, if it may sign: none of ours may.
        shown = self._tls.getpeercert(binary_form=True) or b""
        if shown not in self._pinned:
            self.fail(_REASONS["CERTIFICATE_VERIFY_FAILED"])
        elif self._tls.selected_alpn_protocol() != PROTOCOL:
            self.fail(OTHER_VERSION)
        else:
            self.certificate = shown
            self.secured()

    def fail(self, why: str) -> None:
        """There will be no handshake."""
        if not self.over:
            self.over = why
            self._flush()  # the alert tells the other side
            self.failed()
            self.close()

    async def let_in(self) -> None:
        """Waits until the other side has let us in."""
        while not self.certificate:
            if self.over not in ("", UNFINISHED):
                raise Stranger(self.over)
            await self._changed()
        if await self.receive(0) != (READY, b""):
            raise Stranger(OTHER_VERSION)

    # Frames

    async def receive(self, most: int, within: float | None = None) -> tuple[int, bytes]:
        """The kind and the content of the next frame. Once its first byte is there it must come within so many seconds,
        or there is a TimeoutError. One of more than `most` bytes is a BadMessage."""
        head = await self._exactly(1)
        async with asyncio.timeout(within):
            size, kind = _HEAD.unpack(head + await self._exactly(_HEAD.size - 1))
            if size > most:
                raise BadMessage(f"its {_NAMES.get(kind, 'message')} is too long")
            return kind, bytes(await self._exactly(size))

    async def _exactly(self, size: int) -> bytearray:
        found = bytearray()
        while len(found) < size:
            assert self._tls is not None
            try:
                if not (piece := self._tls.read(min(size - len(found), _PIECE))):
                    raise ConnectionResetError("the other side has said its last word")
                found += piece
            except ssl.SSLWantReadError:
                await self._changed()
            except ssl.SSLError as error:  # an alert: the other side does not let us in
                raise ConnectionAbortedError(str(error.reason)) from None
        return found

    async def send(self, kind: int, content: bytes = b"") -> None:
        """Sends one frame; returns when all of it is written."""
        assert self._tls is not None
        rest = memoryview(content)
        piece: bytes | memoryview = _HEAD.pack(len(content), kind) + bytes(rest[:_PIECE])
        rest = rest[_PIECE:]
        while piece:
            piece = piece[self._tls.write(piece) :]
            self._flush()
            while self._full:
                await self._changed()
            if self.transport is None or self.transport.is_closing():
                raise ConnectionResetError(self.over)
            if not piece:
                piece, rest = rest[:_PIECE], rest[_PIECE:]

    def _flush(self) -> None:
        if self._out.pending and self.transport is not None and not self.transport.is_closing():
            self.transport.write(self._out.read())

    def end(self) -> None:
        """Ends the connection at once; what is not on its way yet is lost."""
        if self.transport is not None:
            dropped(self.transport)
            self.transport.abort()

    def close(self) -> None:
        """Ends the connection once all is written."""
        if self.transport is not None:
            self.transport.close()


def fingerprints(certificates: Iterable[str]) -> dict[bytes, str]:
    """Certificates by what TLS shows of them."""
    return {ssl.PEM_cert_to_DER_cert(each): each for each in certificates}


async def closed(streams: Collection[Stream]) -> None:
    """Ends connections, and returns when their sockets are closed: asyncio does that in a later turn of its loop."""
    for stream in streams:
        if stream.transport is not None:
            stream.transport.abort()
    while any(stream.transport is not None for stream in streams):
        await asyncio.sleep(0)
