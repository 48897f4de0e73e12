"""How agents talk: gRPC over TLS in which both sides show the certificates of the federation file.

**Pull.** Nobody sends; everybody asks. An agent asks each neighbour for what it said at a tick, and the neighbour
answers when it has said it. So there is nothing to acknowledge, no inbox that must survive a crash, nothing to buffer,
and a question that is repeated, late or out of order gets the same answer as ever. An agent that is behind asks for old
ticks; one that is ahead waits. A server receives questions only, of a few bytes: nobody can push anything at it.

**Who gets in.** The server trusts exactly its neighbours' certificates, the TLS handshake fails for all others before
any byte of the protocol. Then every question is checked: the certificate of its connection must be that of the member
it says it is from, the run must be this one, and the tick must be one at which this agent speaks to that member. A
client trusts exactly the one certificate of the neighbour that it calls. Every kind of refusal is logged once.

gRPC itself logs failed handshakes, one line each, at GRPC_VERBOSITY=INFO, which `tacit agent run` sets. It turns away a
question that is too long without a line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import grpc
import numpy as np

from tacit.agent.federation import Federation, difference
from tacit.agent.identity import Identity, canonical_certificate, read_certificate
from tacit.agent.wire import BadMessage, largest, parsed, unpacked
from tacit.agent.wire_pb2 import Greeting, Nothing, Question
from tacit.errors import InputError

_SERVICE = "tacit.Agent"
_HOLD = 20.0  # seconds for which a server keeps a question that it cannot answer yet; then it is asked again
_DEADLINE = 30.0  # seconds that a client gives a question
_WAITING = 8  # questions of one neighbour that may wait at once
_BACK_OFF = (0.1, 5.0)  # seconds before a question is asked again: the first time, and at most
_KEEPALIVE = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]

log = logging.getLogger("tacit.agent")


class Refusals:
    """Says once, and no more, why somebody was turned away: who comes back a thousand times fills no disk."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        if text not in self._said and len(self._said) < 1000:
            self._said.add(text)
            log.warning(text)


class Server:
    """Answers the neighbours' questions.

    `find` gives the bytes said at a tick to a member, None if that is still to come; it raises InputError if this agent
    says nothing to that member then. `heard` says up to which tick this agent has heard a member, `left` is told of who
    has heard all, `contact` of every question.
    """

    def __init__(
        self,
        federation: Federation,
        me: int,
        identity: Identity,
        *,
        find: Callable[[int, int], bytes | None],
        heard: Callable[[int], int],
        left: Callable[[int], None],
        contact: Callable[[int], None],
    ) -> None:
        self._federation, self._me, self._identity = federation, me, identity
        self._find, self._heard, self._left, self._contact = find, heard, left, contact
        self._neighbours = {int(j): federation.members[j].certificate for j in federation.graph.neighbours(me)}
        self._run = bytes.fromhex(federation.run)
        self._news = asyncio.Event()
        self._waiting: Counter[int] = Counter()
        self._refusals = Refusals()

    async def start(self, listen: str) -> None:
        """Listens at HOST:PORT."""
        options = [
            ("grpc.so_reuseport", 0),  # a port in use is an error, not shared
            ("grpc.max_receive_message_length", _greeting_size(self._federation)),
            ("grpc.max_concurrent_streams", 4 * _WAITING),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            *_KEEPALIVE,
        ]
        self._server = grpc.aio.server(options=options)
        # Bytes in and out: what they mean is read in `_admitted`, where there is somebody to name.
        answers = {"Greet": self._greet, "Ask": self._ask, "Leave": self._leave}
        handlers = {name: grpc.unary_unary_rpc_method_handler(answer) for name, answer in answers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        credentials = grpc.ssl_server_credentials(
            [(self._identity.key, self._identity.certificate.encode())],
            root_certificates="".join(self._neighbours.values()).encode(),
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

    def said(self) -> None:
        """There is something new to find."""
        self._news.set()
        self._news = asyncio.Event()

    async def _greet(self, raw: bytes, context: Any) -> bytes:
        name, greeting = await self._admitted(Greeting, raw, context)
        if differs := difference(self._federation.parts, dict(greeting.parts)):
            self._refusals.say(
                f"{name} holds another federation file: {_listed(differs)} differ{'s' * (len(differs) == 1)}"
            )
        # Both sides compare: a greeting is answered with ours, whatever theirs is.
        answer = Greeting(sender=self._me, parts=self._federation.parts, heard=self._heard(greeting.sender))
        return bytes(answer.SerializeToString())

    async def _ask(self, raw: bytes, context: Any) -> bytes:
        name, question = await self._admitted(Question, raw, context)
        if self._waiting[question.sender] >= _WAITING:
            await self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{name} asks too much at once")
        self._waiting[question.sender] += 1
        try:
            async with asyncio.timeout(_HOLD):
                while (found := self._find(question.tick, question.sender)) is None:
                    await self._news.wait()
            return found
        except TimeoutError:
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "not yet")
        except InputError as error:
            await self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"{name}: {error}")
            raise
        finally:
            self._waiting[question.sender] -= 1

    async def _leave(self, raw: bytes, context: Any) -> bytes:
        _, question = await self._admitted(Question, raw, context)
        self._left(question.sender)
        return bytes(Nothing().SerializeToString())

    async def _admitted(self, kind: type[Any], raw: bytes, context: Any) -> tuple[str, Any]:
        """The name of the member who asks, if it is the one that it says it is, and what it asks."""
        (shown,) = context.auth_context()["x509_pem_cert"]
        (holder,) = (j for j, pinned in self._neighbours.items() if pinned == _canonical(shown))  # others fail in TLS
        names, code = self._federation.names, grpc.StatusCode
        try:
            question = parsed(kind, raw)
        except BadMessage as error:
            await self._refuse(context, code.INVALID_ARGUMENT, f"{names[holder]}: {error}: refused")
        if question.sender != holder:
            claimed = names[question.sender] if question.sender < len(names) else f"member {question.sender}"
            await self._refuse(
                context, code.PERMISSION_DENIED, f"{names[holder]} speaks in the name of {claimed}: refused"
            )
        if kind is Question and question.run != self._run:
            await self._refuse(context, code.FAILED_PRECONDITION, f"{names[holder]} asks about another run: refused")
        self._contact(holder)
        return names[holder], question

    async def _refuse(self, context: Any, code: grpc.StatusCode, text: str) -> None:
        self._refusals.say(text)
        await context.abort(code, text)


class Peer:
    """A neighbour, as seen from here: asks it, until it answers as it should."""

    def __init__(
        self, federation: Federation, me: int, peer: int, identity: Identity, contact: Callable[[int], None]
    ) -> None:
        member = federation.members[peer]
        self.name, self._me, self._peer = member.name, me, peer
        self._federation, self._contact, self._refusals = federation, contact, Refusals()
        credentials = grpc.ssl_channel_credentials(
            member.certificate.encode(), identity.key, identity.certificate.encode()
        )
        size = max(largest(federation.schema.dimension), _greeting_size(federation))
        options = [
            ("grpc.ssl_target_name_override", member.name),
            ("grpc.max_receive_message_length", size),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.enable_http_proxy", 0),
            *_KEEPALIVE,
        ]
        self._channel = grpc.aio.secure_channel(member.address, credentials, options=options)

    async def greet(self) -> int:
        """Waits until the neighbour is there and holds the same file; gives the tick before which it has heard us."""
        mine = Greeting(sender=self._me, parts=self._federation.parts)

        def agreed(raw: bytes) -> int:
            answer = parsed(Greeting, raw)
            if differs := difference(self._federation.parts, dict(answer.parts)):
                raise BadMessage(f"holds another federation file: {_listed(differs)} differ{'s' * (len(differs) == 1)}")
            return int(answer.heard)

        return await self._until("Greet", mine, agreed)

    async def ask(self, tick: int) -> np.ndarray | None:
        """What the neighbour said at this tick: a row, or None if it kept silent."""
        run, d = self._federation.run, self._federation.schema.dimension
        question = Question(run=bytes.fromhex(run), sender=self._me, tick=tick)
        return await self._until("Ask", question, lambda raw: unpacked(raw, run, self._peer, tick, d))

    async def leave(self, within: float) -> bool:
        """Tells the neighbour that all was heard; False if it could not be told in that time."""
        question = Question(run=bytes.fromhex(self._federation.run), sender=self._me)
        try:
            async with asyncio.timeout(within):
                await self._until("Leave", question, lambda _: None)
            return True
        except TimeoutError:
            return False

    async def close(self) -> None:
        await self._channel.close()

    async def _until(self, name: str, question: Any, read: Callable[[bytes], Any]) -> Any:
        pause, most = _BACK_OFF
        method, raw = self._channel.unary_unary(f"/{_SERVICE}/{name}"), question.SerializeToString()
        while True:
            try:
                found = read(await method(raw, timeout=_DEADLINE, wait_for_ready=True))
                self._contact(self._peer)
                return found
            except BadMessage as error:
                self._refusals.say(f"{self.name}: {error}; asking again")
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    pause = _BACK_OFF[0]
                    continue  # it is not there, or has nothing to say yet
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self._refusals.say(f"{self.name} answers: {error.details()}; asking again")
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)


@lru_cache
def _canonical(shown: bytes) -> str:
    """A certificate as the federation file has it; remembered, for every question shows one."""
    return canonical_certificate(read_certificate(shown.decode(), "a peer's certificate"))


def _greeting_size(federation: Federation) -> int:
    """The most bytes that a greeting, the longest question, can have."""
    return 256 + sum(64 + len(part) for part in federation.parts)


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:5]) + (", ..." if len(parts) > 5 else "")
