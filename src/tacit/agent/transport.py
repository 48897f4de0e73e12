"""How agents talk: gRPC over TLS in which both sides show the certificates of the federation file.

**Pull.** Agents do not send; they ask. An agent asks each neighbour for what it said at a tick, and the neighbour
answers when it has said it. So there is nothing to acknowledge, no inbox that must survive a crash, nothing to buffer,
and a question that is repeated, late or out of order gets the same answer. An agent that is behind asks for old ticks;
one that is ahead waits. A server receives only questions of a few bytes: nobody can push anything to it.

**Authentication.** The server trusts exactly its neighbours' certificates: for all others the TLS handshake fails
before any byte of the protocol. Then every question is checked. The certificate of its connection must be that of the
member that it says it is from, the run must be this one, and the tick must be one at which this agent speaks to that
member. A client trusts exactly the certificate of the neighbour that it calls. Every kind of refusal is logged once;
`tacit.agent.handshakes` logs callers that fail in the handshake. A member that renews its certificate has two for a
while (`tacit.agent.renewal`): whether one still counts is checked at every question, from both ends.

**TLS 1.3 only.** gRPC for Python has no setting for that; `tacit.agent` takes TLS 1.2 away by its suites. Where
somebody else has imported gRPC before, a question that came over another version is refused.

**Outsiders** cannot use up what neighbours need: gRPC listens behind a door that limits connections and handshakes
(`tacit.agent.door`). Each connection takes file descriptors until the handshake times out, so the server raises the
limit of its process as far as it may, and says so if that is not far.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import grpc

from tacit.agent.able import carried
from tacit.agent.absence import most_absences
from tacit.agent.books import HEAD_SIZE
from tacit.agent.door import Door
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity, canonical_certificate, read_certificate
from tacit.agent.incarnation import STANDING_SIZE
from tacit.agent.progress import Traffic
from tacit.agent.said import MOST, SAID_SIZE
from tacit.agent.wire import ENVELOPE, BadMessage, answering, parsed
from tacit.agent.wire_pb2 import Greeting, Message, Nothing, Question, Standing
from tacit.errors import ExchangeError, InputError, TacitError

Answer = TypeVar("Answer")

_SERVICE = "tacit.Agent"
_NOT_YET = grpc.StatusCode.NOT_FOUND
_HANDSHAKE = 10_000  # milliseconds in which a caller must authenticate
_KEY_SIZE = 160  # bytes: more than a signed key, a sealed share or a statement can take
_HOLD = 20.0  # seconds that a server keeps a question that it cannot answer yet; then the client asks again
_DEADLINE = 30.0  # seconds that a client waits for an answer
_WAITING = 8  # questions of one neighbour that may wait at the same time
_UNREAD = 4 * _WAITING  # calls of one neighbour, over all its connections, whose question has not come yet
_LOGGED = 400  # characters of a refusal
_BACK_OFF = (0.1, 5.0)  # seconds before a question is asked again: the first time, and at most
_FILES, _FEW_FILES = 8192, 4096  # file descriptors: as many as a server asks for, and fewer than it should have
_KEEPALIVE = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]

log = logging.getLogger("tacit.agent")


class Refusals:
    """Logs every kind of refusal once, so that nobody can fill the disk by calling again and again.

    `kind` is the text without anything that the caller chose: another text of the same kind is not logged. A text may
    contain what the caller sent, so it is cut, and characters that control a terminal are replaced.
    """

    def __init__(self, traffic: Traffic | None = None) -> None:
        self._logged: set[str] = set()
        self._traffic = traffic or Traffic()

    def warn(self, text: str, kind: str) -> None:
        """Counts the refusal; logs the text, unless its kind is logged already."""
        self._traffic.refuse(kind)
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning("".join(sign if sign.isprintable() else "?" for sign in text[:_LOGGED]))


def kind_of(error: TacitError) -> str:
    """An error without what the peer chose: the rule, or the text without its numbers."""
    return error.rule if isinstance(error, BadMessage) else re.sub(r"\d+", "#", str(error))


class Signal:
    """Wakes all tasks that wait for a change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wakes all that wait now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Waits for the next `notify`."""
        await self._event.wait()


class Answers(Protocol):
    """What a server asks of the agent that it speaks for."""

    changed: Signal  # an answer that was not ready may be ready now

    def find(self, question: Question, /) -> bytes | None:
        """The bytes that answer a question, None if they are not ready yet; a TacitError if there is no such answer."""
        ...

    def greeting(self, name: str, /) -> Greeting:
        """Our greeting for this neighbour."""
        ...

    def greeted(self, name: str, greeting: Greeting, /) -> None:
        """Takes in a neighbour's greeting."""
        ...

    def may_leave(self, name: str, /) -> bool:
        """Notes that a neighbour needs no more from this agent; says whether it may leave."""
        ...

    def contact(self, name: str, /) -> None:
        """Notes that a neighbour has asked something."""
        ...

    def met(self, name: str, standing: Standing, /) -> None:
        """Takes in which process of a neighbour asks; a BadMessage if that one gets no answers."""
        ...

    def standing(self, name: str, /) -> Standing:
        """Which process of ours answers, and what it knows of the neighbour's."""
        ...


class Asks(Protocol):
    """What a `Peer` asks of the agent that it speaks for."""

    def contact(self, name: str, /) -> None:
        """Notes that a neighbour has answered."""
        ...

    def met(self, name: str, standing: Standing, /) -> None:
        """Takes in which process of a neighbour answers; a BadMessage if that one is not believed."""
        ...

    def standing(self, name: str, /) -> Standing:
        """Which process of ours asks, and what it knows of the neighbour's."""
        ...

    def words(self, name: str, message: Message, /) -> None:
        """Takes in what comes with a message of phase 0: what its sender and others have signed."""
        ...


class _Refused(Exception):  # noqa: N818 (an answer, not a mistake)
    """A question is answered with this status in place of a message."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Server:
    """Answers the neighbours' questions."""

    def __init__(
        self, federation: Federation, me: int, identity: Identity, answers: Answers, traffic: Traffic | None = None
    ) -> None:
        self._federation, self._identity, self._answers = federation, identity, answers
        # Also members without whom the others go on: if they come back, they learn that, and nothing else.
        agreed, own = federation.agreed or federation, federation.names[me]
        near = [agreed.members[j] for j in agreed.graph.neighbours(agreed.names.index(own))]
        self._neighbours = {certificate: m.name for m in near for certificate in federation.accepted(m.name)}
        self._addresses = [m.address for m in near]
        self._run = bytes.fromhex(federation.run)
        self._waiting: Counter[int] = Counter()
        self._unread: Counter[str] = Counter()
        self._traffic = traffic or Traffic()
        self._refusals = Refusals(self._traffic)

    async def start(self, listen: str) -> None:
        """Listens at HOST:PORT."""
        if (files := _raised_limit()) < _FEW_FILES:
            log.warning(
                f"this process may have {files} files open: connections of outsiders may take all of them. Raise "
                f"the limit to {_FEW_FILES} or more (ulimit -n, LimitNOFILE=)"
            )
        options = [
            ("grpc.max_receive_message_length", largest_question(self._federation)),
            ("grpc.max_concurrent_streams", 4 * _WAITING),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            *_KEEPALIVE,
        ]
        self._server = grpc.aio.server(options=options)
        # Bytes in and out: `_admitted` parses them, so that an error can name the caller. As streams of one message: if
        # a question is too long, gRPC does not read it, and reports that only to a handler that reads a stream.
        answers = {"Greet": self._greet, "Ask": self._ask, "Leave": self._leave}
        handlers = {
            name: grpc.stream_unary_rpc_method_handler(self._answering(answer)) for name, answer in answers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        credentials = grpc.ssl_server_credentials(
            [(self._identity.key, self._identity.certificate.encode())],
            root_certificates="".join(self._neighbours).encode(),
            require_client_auth=True,
        )
        self._door = Door(_HANDSHAKE / 1000, files, self._turned_away)
        self._server.add_secure_port(f"unix:{self._door.inside}", credentials)
        # If an agent is told to stop in the middle of this, gRPC would fail in a task of its own, and log that.
        await asyncio.shield(self._server.start())
        try:
            await self._door.open(listen, self._addresses)
        except InputError:
            await self._server.stop(grace=None)
            raise

    async def stop(self) -> None:
        """Stops listening."""
        self._door.close()
        try:
            await self._server.stop(grace=1.0)  # inside `asyncio.timeout` the process crashed, with gRPC 1.85
        finally:
            await self._door.leave()

    def _turned_away(self, address: str, why: str) -> None:
        self._refusals.warn(f"a caller at {address} {why}: refused", f"a caller {why}")

    def _answering(self, answer: Callable[[Any, Any], Awaitable[bytes]]) -> Callable[[Any, Any], Awaitable[bytes]]:
        """A function that gives an answer, or its refusal, without the help of `context.abort`.

        Nothing may keep a question that has been answered. An abort does: gRPC's state of the call keeps the exception,
        whose traceback keeps the state. Then only the garbage collector, at some time, frees the stream, and gRPC
        before 1.81 refuses new streams as long as there are more than `max_concurrent_streams`, answered ones included.
        """

        async def answered(stream: Any, context: Any) -> bytes:
            try:
                found = await answer(stream, context)
                self._traffic.sent += len(found)
                return found
            except _Refused as refused:
                context.set_code(refused.code)
                context.set_details(str(refused))
                return b""

        return answered  # a plain function: gRPC looks for a long time at other things, in every call

    async def _greet(self, stream: Any, context: Any) -> bytes:
        name, greeting = await self._admitted(Greeting, stream, context)
        try:
            self._answers.greeted(name, greeting)
            self._answers.contact(name)
        except (BadMessage, ExchangeError) as error:
            self._refusals.warn(f"{name}: {error}", f"{name}: {kind_of(error)}")
        # Both sides compare: every greeting is answered with ours.
        return bytes(self._answers.greeting(name).SerializeToString())

    async def _ask(self, stream: Any, context: Any) -> bytes:
        name, question = await self._admitted(Question, stream, context)
        if not self._meets(name, question):
            return bytes(Message(standing=self._answers.standing(name)).SerializeToString())
        if self._waiting[question.sender] >= _WAITING:
            raise self._refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{name} has too many questions open: refused")
        self._waiting[question.sender] += 1
        try:
            waited = False
            async with asyncio.timeout(_HOLD):
                while (found := self._answers.find(question)) is None:
                    waited = True
                    await self._answers.changed.wait()
            if waited and not self._meets(name, question):  # a newer process may have come meanwhile
                return bytes(Message(standing=self._answers.standing(name)).SerializeToString())
            return found
        except TimeoutError:
            raise _Refused(_NOT_YET, "not yet") from None
        except TacitError as error:
            kind = f"{name}: {kind_of(error)}"
            raise self._refused(grpc.StatusCode.INVALID_ARGUMENT, f"{name}: {error}", kind) from None
        finally:
            self._waiting[question.sender] -= 1

    async def _leave(self, stream: Any, context: Any) -> bytes:
        name, question = await self._admitted(Question, stream, context)
        if not (self._meets(name, question) and self._answers.may_leave(name)):
            raise _Refused(_NOT_YET, "not yet")
        return bytes(Nothing().SerializeToString())

    def _meets(self, name: str, question: Question) -> bool:
        """Whether the process that asks is one that gets answers."""
        try:
            self._answers.met(name, question.standing)
        except BadMessage as error:
            self._refusals.warn(f"{name}: {error}", f"{name}: {error.rule}")
            return False
        self._answers.contact(name)
        return True

    async def _admitted(self, kind: type[Any], stream: Any, context: Any) -> tuple[str, Any]:
        """The name of the member that asks, and its question. Refuses a caller that claims to be another member."""
        connection = context.auth_context()
        (shown,) = connection["x509_pem_cert"]
        names, code = self._federation.names, grpc.StatusCode
        certificate = _canonical(shown)
        if (holder := self._neighbours.get(certificate)) is None:  # others fail in TLS
            raise self._refused(code.UNAUTHENTICATED, "a caller shows a certificate that no neighbour has: refused")
        if certificate not in self._federation.accepted(holder):  # it counted when this agent started
            raise self._refused(code.UNAUTHENTICATED, f"{holder} shows a certificate that it has renewed: refused")
        if connection.get("ssl_tls_version", [b"TLSv1.3"]) != [b"TLSv1.3"]:  # older versions of gRPC do not tell
            raise self._refused(code.UNAUTHENTICATED, f"{holder} does not speak TLS 1.3: refused")
        if self._unread[holder] >= _UNREAD:
            raise self._refused(code.RESOURCE_EXHAUSTED, f"{holder} has too many calls open and sends nothing: refused")
        self._unread[holder] += 1
        try:
            # Closed, because a stream that was not read to its end keeps itself: see `_answering`.
            async with asyncio.timeout(_HANDSHAKE / 1000), aclosing(aiter(stream)) as messages:
                raw = await anext(messages, None)
            if raw is None:
                raise BadMessage(f"its {kind.DESCRIPTOR.name} is too long")
            self._traffic.received += len(raw)
            question = parsed(kind, raw)
        except TimeoutError:
            text = f"{holder} opened a call and sent nothing: refused"
            raise self._refused(code.DEADLINE_EXCEEDED, text) from None
        except BadMessage as error:
            text = f"{holder}: {error}: refused"
            raise self._refused(code.INVALID_ARGUMENT, text, f"{holder}: {error.rule}") from None
        finally:
            self._unread[holder] -= 1
        if kind is Question and question.run != self._run:
            raise self._refused(code.FAILED_PRECONDITION, f"{holder} asks about another run: refused")
        if kind is Question:
            claimed = names[question.sender] if question.sender < len(names) else f"member {question.sender}"
        else:
            claimed = question.name if question.name in self._neighbours.values() else "somebody else"
        if claimed != holder:
            whom = "another" if claimed in names else "nobody"
            text = f"{holder} claims to be {claimed}: refused"
            raise self._refused(code.PERMISSION_DENIED, text, f"{holder} claims to be {whom}")
        return holder, question

    def _refused(self, code: grpc.StatusCode, text: str, kind: str | None = None) -> _Refused:
        self._refusals.warn(text, kind or text)
        return _Refused(code, text)


class Peer:
    """A neighbour, seen from here: asks it until it gives a valid answer."""

    def __init__(
        self,
        federation: Federation,
        me: int,
        peer: int,
        identity: Identity,
        asks: Asks,
        traffic: Traffic | None = None,
    ) -> None:
        member = federation.members[peer]
        self.name, self._me, self._peer = member.name, me, peer
        self._federation, self._asks, self._traffic = federation, asks, traffic or Traffic()
        self._refusals = Refusals(self._traffic)
        self._identity, self._address = identity, member.address
        self._channels: dict[tuple[str, ...], grpc.aio.Channel] = {}  # by the certificates that they trust
        self._options = [
            ("grpc.ssl_target_name_override", member.name),
            ("grpc.max_receive_message_length", largest_answer(federation)),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # How long one attempt may take, whatever its name says. gRPC gives up an attempt that takes longer: with a
            # short time, agents on a slow link or a busy machine would begin the handshake again and again.
            ("grpc.min_reconnect_backoff_ms", _HANDSHAKE),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.enable_http_proxy", 0),
            *_KEEPALIVE,
        ]

    def _channel(self) -> grpc.aio.Channel | None:
        """A connection that trusts the certificates that count now; None if the neighbour is revoked. Calls on an older
        connection end by themselves, within their deadline."""
        trusted = self._federation.accepted(self.name)
        if trusted and trusted not in self._channels:
            own, roots = self._identity, "".join(trusted).encode()
            credentials = grpc.ssl_channel_credentials(roots, own.key, own.certificate.encode())
            self._channels[trusted] = grpc.aio.secure_channel(self._address, credentials, options=self._options)
        return self._channels.get(trusted)

    async def greet(self, mine: Callable[[], Greeting], read: Callable[[Greeting], Answer]) -> Answer:
        """Waits until the neighbour is there, and `read` accepts its greeting. `mine` is asked anew each time."""
        return await self._until("Greet", mine, lambda raw: read(parsed(Greeting, raw)))

    async def ask(
        self, tick: int, read: Callable[[Message], Answer], *, phase: int = 0, shares: Sequence[bytes] = ()
    ) -> Answer:
        """What `read` gives for the neighbour's message at this tick."""
        run, peer = self._federation.run, self._peer

        def reading(raw: bytes) -> Answer:
            message = parsed(Message, raw)
            self._asks.met(self.name, message.standing)
            answering(message, run, peer, tick, phase)
            if not phase:
                self._asks.words(self.name, message)
            return read(message)

        return await self._until("Ask", lambda: self._question(tick=tick, phase=phase, shares=shares), reading)

    async def leave(self) -> None:
        """Tells the neighbour that this agent needs no more from it."""
        await self._until("Leave", self._question, lambda _: None)

    def _question(self, **about: Any) -> Question:
        run, standing = bytes.fromhex(self._federation.run), self._asks.standing(self.name)
        return Question(run=run, sender=self._me, standing=standing, **about)

    async def close(self) -> None:
        """Closes the connection."""
        for channel in self._channels.values():
            await channel.close()

    async def _until(self, name: str, question: Callable[[], Any], read: Callable[[bytes], Answer]) -> Answer:
        pause, most = _BACK_OFF
        while True:
            if (channel := self._channel()) is None:
                await asyncio.sleep(most)
                continue
            raw = question().SerializeToString()
            try:
                answer = await channel.unary_unary(f"/{_SERVICE}/{name}")(raw, timeout=_DEADLINE, wait_for_ready=True)
                self._traffic.sent += len(raw)
                self._traffic.received += len(answer)
                found = read(answer)
                self._asks.contact(self.name)
                return found
            except (BadMessage, ExchangeError) as error:
                self._refusals.warn(f"{self.name}: {error}; asking again", kind_of(error))
            except grpc.aio.AioRpcError as error:
                if error.code() == _NOT_YET:
                    self._asks.contact(self.name)
                if error.code() in (_NOT_YET, grpc.StatusCode.DEADLINE_EXCEEDED):
                    await asyncio.sleep(_BACK_OFF[0])  # the neighbour may answer "not yet" at once
                    continue
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self._refusals.warn(
                        f"{self.name} answers: {error.details()}; asking again", "an error of its choice"
                    )
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)


@lru_cache
def _canonical(shown: bytes) -> str:
    """A certificate as the federation file has it; cached, because every question shows one. Empty if it is not one
    that a member can have."""
    with suppress(InputError):
        return canonical_certificate(read_certificate(shown.decode(), "a peer's certificate"))
    return ""


def largest_question(federation: Federation) -> int:
    """The most bytes that a greeting, or a question with shares, can have."""
    members = federation.agreed.members if federation.agreed is not None else federation.members
    greeting = sum(64 + len(part) for part in federation.parts) + sum(8 + len(member.name) for member in members)
    absences = most_absences(federation) * (_KEY_SIZE + 5 * len(members))  # a member's number has at most five bytes
    # the digest of renewals; keys, and signatures of the meeting; the heads of ledgers; what is added to a message
    return 512 + 32 + greeting + 2 * _KEY_SIZE * len(members) + absences + 2 * HEAD_SIZE + _added(federation)


def largest_answer(federation: Federation) -> int:
    """The most bytes that an answer can have, from the model's dimension and the number of members."""
    rows = len(carried(federation.setting.algorithm)) or 1  # of a state: `tacit.agent.dropout`
    message = 8 * rows * federation.schema.model_dimension + ENVELOPE + _added(federation)
    return max(message, largest_question(federation))


def _added(federation: Federation) -> int:
    """The most bytes that are added to what is committed: a standing, a digest of totals, statements, and two for each
    contradiction."""
    return STANDING_SIZE + 64 + SAID_SIZE * (MOST + 2 + 2 * len(federation.members))


def _raised_limit() -> int:
    """How many files this process may have open, after it has asked for as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
