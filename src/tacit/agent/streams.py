"""Frames over TLS 1.3 in which both sides show a certificate that the other has pinned.

A frame is its length (four bytes), its kind (one byte) and a protobuf message. Behind the handshake the side that was
called sends one empty frame, READY: so the caller learns that it was let in, which TLS 1.3 does not tell it.

TLS is an `ssl.SSLObject` between two buffers in memory, and a plain `asyncio.Protocol` carries the bytes. Beside the
TLS of asyncio, a connection takes 45 KB in place of 290, a failed handshake is freed at once and not when the garbage
collector runs (cpython#109534), reading and writing stop where they should, and any network that carries bytes will do.

- A caller that says nothing has no TLS: that begins with the first byte.
- Nothing is decrypted before somebody waits for it, and little waits encrypted: a sender that is too fast is not read.
- `send` returns when all is written, so a caller knows what is still on its way.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives import serialization

from tacit.agent.identity import Identity
from tacit.agent.network import dropped, tuned
from tacit.agent.wire import BadMessage

GREET, ASK, LEAVE = 1, 2, 3  # kinds of questions
READY, ANSWER, NOT_YET, REFUSED = 16, 17, 18, 19  # and of what comes back
PROTOCOL = "tacit/1"  # both sides name it in the handshake (ALPN): agents of another version are told apart
OTHER_VERSION = "speaks to agents of another version of tacit: all members need the same one"
_NAMES = {GREET: "Greeting", ASK: "Question", LEAVE: "Question", ANSWER: "answer", REFUSED: "answer"}
_HEAD = struct.Struct(">IB")
_PIECE = 1 << 16  # bytes that are encrypted and written at once
_AHEAD = 1 << 17  # encrypted bytes that may wait for somebody who reads
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "showed no certificate",
    "CERTIFICATE_VERIFY_FAILED": "showed a certificate that none of our neighbours has",
    "NO_SHARED_CIPHER": "does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "does not speak TLS 1.3",
}
UNFINISHED = "did not finish the handshake"


def context(identity: Identity, trusted: Iterable[str], *, called: bool) -> ssl.SSLContext:
    """TLS for one who is called, or calls, and trusts exactly these certificates. What a certificate is trusted for
    cannot be taken back, so other certificates need another context."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if called else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED  # names are in the certificates that are pinned
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is what is trusted
    made.set_alpn_protocols([PROTOCOL])
    if pinned := "".join(trusted):
        made.load_verify_locations(cadata=pinned)
    if called:
        made.num_tickets = 0  # nobody resumes
    # Python reads keys from files only: this one is worth nothing without a password that nobody else knows.
    password = os.urandom(16).hex().encode()
    key = serialization.load_pem_private_key(identity.key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
    )
    with TemporaryDirectory(prefix="tacit-") as folder:
        (file := Path(folder) / "pair.pem").write_bytes(identity.certificate.encode() + key)
        made.load_cert_chain(file, password=password)
    return made


class Stranger(ConnectionError):  # noqa: N818 (an answer, not a mistake)
    """Somebody who is called is not who was meant, or speaks otherwise."""


class Stream(asyncio.Protocol):
    """One connection, from either side."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], pinned: Collection[bytes], *, called: bool) -> None:
        self._context, self._pinned, self._called = tls, pinned, called
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None  # of somebody who waits for bytes
        self._writer: asyncio.Future[None] | None = None  # of somebody who waits until they are written
        self._full = False  # the transport has not written everything yet
        self.transport: asyncio.Transport | None = None
        self.certificate = b""  # of the other side, DER, once it is known
        self.over = self.lost = False  # nothing more is said; the connection is gone

    # What a side does when something happens

    def secured(self) -> None:
        """The handshake is done, and the other side has shown a certificate that is pinned."""

    def failed(self, why: str) -> None:
        """The handshake has failed, or the other side has gone before its end."""

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
        if not self.certificate:
            self._advance()
        elif self._in.pending > _AHEAD and self.transport is not None:
            self.transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if not self.certificate:
            self._fail(UNFINISHED)
        self._wake()
        self._written()
        self.transport = None  # what has arrived can still be read

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._written()

    # The handshake

    def _advance(self) -> None:
        if self.over:
            return
        try:
            if self._tls is None:
                self._tls = self._context().wrap_bio(self._in, self._out, server_side=self._called)
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._fail(_REASONS.get(str(error.reason), "does not speak TLS correctly"))
            return
        self._flush()
        # TLS is content with a certificate that a pinned one has signed, if it may sign: none of ours may.
        shown = self._tls.getpeercert(binary_form=True) or b""
        if shown not in self._pinned:
            self._fail(_REASONS["CERTIFICATE_VERIFY_FAILED"])
        elif self._tls.selected_alpn_protocol() != PROTOCOL:
            self._fail(OTHER_VERSION)
        else:
            self.certificate = shown
            self.secured()

    def _fail(self, why: str) -> None:
        if not self.over:
            self.over = True
            self._flush()  # the alert says why
            self.failed(why)
            self.close()

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
                piece = self._tls.read(min(size - len(found), _PIECE))
            except ssl.SSLWantReadError:
                await self._more()
                continue
            except ssl.SSLError as error:  # an alert: the other side does not let us in
                self.end()
                raise ConnectionAbortedError(str(error.reason)) from None
            if not piece:
                raise ConnectionResetError("the connection was closed")
            found += piece
        return found

    async def _more(self) -> None:
        if self.transport is None:
            raise ConnectionResetError("the connection was closed")
        self.transport.resume_reading()
        self._reader = self._loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def send(self, kind: int, content: bytes = b"") -> None:
        """Sends one frame; returns when all of it is written."""
        rest = memoryview(content)
        piece: bytes | memoryview = _HEAD.pack(len(content), kind) + bytes(rest[:_PIECE])
        rest = rest[_PIECE:]
        while piece:
            if self.transport is None or self.transport.is_closing():
                raise ConnectionResetError("the connection was closed")
            assert self._tls is not None
            piece = piece[self._tls.write(piece) :]
            self._flush()
            if not piece:
                piece, rest = rest[:_PIECE], rest[_PIECE:]
            if self._full:
                self._writer = self._loop.create_future()
                try:
                    await self._writer
                finally:
                    self._writer = None
                if self.lost:
                    raise ConnectionResetError("the connection was closed")

    def end(self) -> None:
        """Ends the connection at once; what is not on its way yet is lost."""
        if self.transport is not None:
            dropped(self.transport)
            self.transport.abort()

    def close(self) -> None:
        """Ends the connection once all is written."""
        if self.transport is not None:
            self.transport.close()

    def _flush(self) -> None:
        if self._out.pending and self.transport is not None and not self.transport.is_closing():
            self.transport.write(self._out.read())

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _written(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)


class Calling(Stream):
    """A connection from the side of the caller."""

    def __init__(self, tls: ssl.SSLContext, pinned: Collection[bytes]) -> None:
        super().__init__(lambda: tls, pinned, called=False)
        self._secured: asyncio.Future[None] = self._loop.create_future()

    def secured(self) -> None:
        if not self._secured.done():
            self._secured.set_result(None)

    def failed(self, why: str) -> None:
        if not self._secured.done():
            self._secured.set_exception(ConnectionAbortedError(why) if why == UNFINISHED else Stranger(why))

    async def let_in(self) -> None:
        """Waits until the other side has let us in; a ConnectionError says why it does not."""
        await self._secured
        kind, _ = await self.receive(0)
        if kind != READY:
            raise Stranger(OTHER_VERSION)


def fingerprints(certificates: Iterable[str]) -> dict[bytes, str]:
    """Certificates by what TLS shows of them."""
    return {ssl.PEM_cert_to_DER_cert(each): each for each in certificates}


async def closed(streams: Collection[Stream]) -> None:
    """Ends connections, and returns when their sockets are closed: asyncio does that in a later turn of its loop."""
    for stream in streams:
        if stream.transport is not None:
            stream.transport.abort()
    with suppress(TimeoutError):
        while any(stream.transport is not None for stream in streams):
            await asyncio.sleep(0)
