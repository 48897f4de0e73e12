"""How agents talk: gRPC over TLS in which both sides show the certificates of the federation file.

**Pull.** Nobody sends; everybody asks. An agent asks each neighbour for what it said at a tick, and the neighbour
answers when it has said it. So there is nothing to acknowledge, no inbox that must survive a crash, nothing to buffer,
and a question that is repeated, late or out of order gets the same answer as ever. An agent that is behind asks for old
ticks; one that is ahead waits. A server receives questions only, of a few bytes: nobody can push anything at it.

**Who gets in.** The server trusts exactly its neighbours' certificates, the TLS handshake fails for all others before
any byte of the protocol. Then every question is checked: the certificate of its connection must be that of the member
it says it is from, the run must be this one, and the tick must be one at which this agent speaks to that member. A
client trusts exactly the one certificate of the neighbour that it calls. Every kind of refusal is logged once.

Who fails in the handshake gets its line from `tacit.agent.handshakes`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import grpc

from tacit.agent.absence import most_absences
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity, canonical_certificate, read_certificate
from tacit.agent.wire import ENVELOPE, BadMessage, parsed, unpacked
from tacit.agent.wire_pb2 import Greeting, Message, Nothing, Question
from tacit.errors import ExchangeError, InputError, TacitError

Answer = TypeVar("Answer")

_SERVICE = "tacit.Agent"
_NOT_YET = grpc.StatusCode.NOT_FOUND
_HANDSHAKE = 10_000  # milliseconds in which a caller has to show who it is
_KEY_SIZE = 160  # bytes: more than a signed key, a sealed share, or a statement can take
_HOLD = 20.0  # seconds for which a server keeps a question that it cannot answer yet; then it is asked again
_DEADLINE = 30.0  # seconds that a client gives a question
_WAITING = 8  # questions of one neighbour that may wait at once
_LINE = 400  # characters of a refusal that are logged
_BACK_OFF = (0.1, 5.0)  # seconds before a question is asked again: the first time, and at most
_KEEPALIVE = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]

log = logging.getLogger("tacit.agent")


class Refusals:
    """Says once, and no more, why somebody was turned away: who comes back a thousand times fills no disk. Who says
    something else each time does not, either: `kind` is what the text is without anything that others chose, and has
    one line. Some of the text is what others say: a short line of it, and nothing that a terminal would obey."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, text: str, kind: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            log.warning("".join(sign if sign.isprintable() else "?" for sign in text[:_LINE]))


def kind_of(error: TacitError) -> str:
    """What a refusal is without what the peer chose: beside a rule's, that is numbers alone."""
    return error.rule if isinstance(error, BadMessage) else re.sub(r"\d+", "#", str(error))


class Signal:
    """Wakes all who wait for something new."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class Answers(Protocol):
    """What a server asks of the agent that it speaks for."""

    changed: Signal  # an answer that was still to come may be there

    def find(self, question: Question, /) -> bytes | None:
        """The bytes that answer a question, None if they are still to come; a TacitError if there is no such answer."""
        ...

    def greeting(self, name: str, /) -> Greeting:
        """Ours, for this neighbour."""
        ...

    def greeted(self, name: str, greeting: Greeting, /) -> None:
        """Takes in a neighbour's greeting."""
        ...

    def left(self, name: str, /) -> bool:
        """Notes that a neighbour has heard all; says whether it may go yet."""
        ...

    def contact(self, name: str, /) -> None:
        """Notes that a neighbour has asked something."""
        ...


class Server:
    """Answers the neighbours' questions."""

    def __init__(self, federation: Federation, me: int, identity: Identity, answers: Answers) -> None:
        self._federation, self._identity, self._answers = federation, identity, answers
        # Also those without whom the others go on: if they come back they are told so, and no more.
        agreed, own = federation.agreed or federation, federation.names[me]
        near = agreed.graph.neighbours(agreed.names.index(own))
        self._neighbours = {agreed.members[j].certificate: agreed.names[j] for j in near}
        self._run = bytes.fromhex(federation.run)
        self._waiting: Counter[int] = Counter()
        self._refusals = Refusals()

    async def start(self, listen: str) -> None:
        """Listens at HOST:PORT."""
        options = [
            ("grpc.so_reuseport", 0),  # a port in use is an error, not shared
            ("grpc.max_receive_message_length", largest_question(self._federation)),
            ("grpc.max_concurrent_streams", 4 * _WAITING),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            *_KEEPALIVE,
        ]
        self._server = grpc.aio.server(options=options)
        # Bytes in and out: what they mean is read in `_admitted`, where there is somebody to name. As streams of one
        # message: gRPC does not read a question that is too long, and tells only who reads a stream.
        answers = {"Greet": self._greet, "Ask": self._ask, "Leave": self._leave}
        handlers = {name: grpc.stream_unary_rpc_method_handler(answer) for name, answer in answers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        credentials = grpc.ssl_server_credentials(
            [(self._identity.key, self._identity.certificate.encode())],
            root_certificates="".join(self._neighbours).encode(),
            require_client_auth=True,
        )
        try:
            self._server.add_secure_port(listen, credentials)
        except RuntimeError:
            raise InputError(
                f"{listen} cannot be listened at: the port is in use, or the address is not ours"
            ) from None
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(grace=1.0)

    async def _greet(self, stream: Any, context: Any) -> bytes:
        name, greeting = await self._admitted(Greeting, stream, context)
        try:
            self._answers.greeted(name, greeting)
            self._answers.contact(name)
        except (BadMessage, ExchangeError) as error:
            self._refusals.say(f"{name}: {error}", f"{name}: {kind_of(error)}")
        # Both sides compare: a greeting is answered with ours, whatever theirs is.
        return bytes(self._answers.greeting(name).SerializeToString())

    async def _ask(self, stream: Any, context: Any) -> bytes:
        name, question = await self._admitted(Question, stream, context)
        if self._waiting[question.sender] >= _WAITING:
            await self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{name} asks too much at once")
        self._waiting[question.sender] += 1
        try:
            async with asyncio.timeout(_HOLD):
                while (found := self._answers.find(question)) is None:
                    await self._answers.changed.wait()
            return found
        except TimeoutError:
            return await context.abort(_NOT_YET, "not yet")
        except TacitError as error:
            await self._refuse(
                context, grpc.StatusCode.INVALID_ARGUMENT, f"{name}: {error}", f"{name}: {kind_of(error)}"
            )
            raise
        finally:
            self._waiting[question.sender] -= 1

    async def _leave(self, stream: Any, context: Any) -> bytes:
        name, _ = await self._admitted(Question, stream, context)
        if not self._answers.left(name):
            return await context.abort(_NOT_YET, "not yet")
        return bytes(Nothing().SerializeToString())

    async def _admitted(self, kind: type[Any], stream: Any, context: Any) -> tuple[str, Any]:
        """The name of the member who asks, if it is the one that it says it is, and what it asks."""
        (shown,) = context.auth_context()["x509_pem_cert"]
        holder = self._neighbours[_canonical(shown)]  # others fail in TLS
        names, code = self._federation.names, grpc.StatusCode
        try:
            async with asyncio.timeout(_HANDSHAKE / 1000):
                raw = await anext(stream, None)
            if raw is None:
                raise BadMessage(f"a {kind.DESCRIPTOR.name} of more bytes than one can have")
            question = parsed(kind, raw)
        except TimeoutError:
            await self._refuse(context, code.DEADLINE_EXCEEDED, f"{holder} calls and says nothing: refused")
        except BadMessage as error:
            await self._refuse(context, code.INVALID_ARGUMENT, f"{holder}: {error}: refused", f"{holder}: {error.rule}")
        if kind is Question and question.run != self._run:
            await self._refuse(context, code.FAILED_PRECONDITION, f"{holder} asks about another run: refused")
        if kind is Question:
            claimed = names[question.sender] if question.sender < len(names) else f"member {question.sender}"
        else:
            claimed = question.name if question.name in self._neighbours.values() else "somebody else"
        if claimed != holder:
            whose = "another" if claimed in names else "nobody"
            text = f"{holder} speaks in the name of {claimed}: refused"
            await self._refuse(context, code.PERMISSION_DENIED, text, f"{holder} speaks in the name of {whose}")
        if kind is Question:  # of a greeting only if both mean the same: who holds another file is as good as absent
            self._answers.contact(holder)
        return holder, question

    async def _refuse(self, context: Any, code: grpc.StatusCode, text: str, kind: str | None = None) -> None:
        self._refusals.say(text, kind or text)
        await context.abort(code, text)


class Peer:
    """A neighbour, as seen from here: asks it, until it answers as it should."""

    def __init__(
        self, federation: Federation, me: int, peer: int, identity: Identity, contact: Callable[[str], None]
    ) -> None:
        member = federation.members[peer]
        self.name, self._me, self._peer = member.name, me, peer
        self._federation, self._contact, self._refusals = federation, contact, Refusals()
        credentials = grpc.ssl_channel_credentials(
            member.certificate.encode(), identity.key, identity.certificate.encode()
        )
        options = [
            ("grpc.ssl_target_name_override", member.name),
            ("grpc.max_receive_message_length", largest_answer(federation)),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.enable_http_proxy", 0),
            *_KEEPALIVE,
        ]
        self._channel = grpc.aio.secure_channel(member.address, credentials, options=options)

    async def greet(self, mine: Greeting, read: Callable[[Greeting], Answer]) -> Answer:
        """Waits until the neighbour is there, and `read` agrees with its greeting."""
        return await self._until("Greet", mine, lambda raw: read(parsed(Greeting, raw)))

    async def ask(
        self, tick: int, read: Callable[[Message], Answer], *, phase: int = 0, shares: Sequence[bytes] = ()
    ) -> Answer:
        """What `read` makes of what the neighbour said at this tick."""
        run, peer = self._federation.run, self._peer
        question = Question(run=bytes.fromhex(run), sender=self._me, tick=tick, phase=phase, shares=shares)
        return await self._until("Ask", question, lambda raw: read(unpacked(raw, run, peer, tick, phase)))

    async def leave(self) -> None:
        """Tells the neighbour that all was heard."""
        question = Question(run=bytes.fromhex(self._federation.run), sender=self._me)
        await self._until("Leave", question, lambda _: None)

    async def close(self) -> None:
        await self._channel.close()

    async def _until(self, name: str, question: Any, read: Callable[[bytes], Answer]) -> Answer:
        pause, most = _BACK_OFF
        method, raw = self._channel.unary_unary(f"/{_SERVICE}/{name}"), question.SerializeToString()
        while True:
            try:
                found = read(await method(raw, timeout=_DEADLINE, wait_for_ready=True))
                self._contact(self.name)
                return found
            except (BadMessage, ExchangeError) as error:
                self._refusals.say(f"{self.name}: {error}; asking again", kind_of(error))
            except grpc.aio.AioRpcError as error:
                if error.code() == _NOT_YET:
                    self._contact(self.name)
                if error.code() in (_NOT_YET, grpc.StatusCode.DEADLINE_EXCEEDED):
                    await asyncio.sleep(_BACK_OFF[0])  # for those who say so at once, and not after half a minute
                    continue
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self._refusals.say(
                        f"{self.name} answers: {error.details()}; asking again", "an error of its choice"
                    )
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)


@lru_cache
def _canonical(shown: bytes) -> str:
    """A certificate as the federation file has it; remembered, for every question shows one."""
    return canonical_certificate(read_certificate(shown.decode(), "a peer's certificate"))


def largest_question(federation: Federation) -> int:
    """The most bytes that a greeting, or a question with shares, can have."""
    members = federation.agreed.members if federation.agreed is not None else federation.members
    greeting = sum(64 + len(part) for part in federation.parts) + sum(8 + len(member.name) for member in members)
    absences = most_absences(federation) * (_KEY_SIZE + 5 * len(members))  # a place has at most five bytes
    return 512 + greeting + 2 * _KEY_SIZE * len(members) + absences  # keys, and who has met its neighbours


def largest_answer(federation: Federation) -> int:
    """The most bytes that an answer can have, by the model's dimension and the number of members."""
    return max(8 * federation.schema.dimension + ENVELOPE, largest_question(federation))
