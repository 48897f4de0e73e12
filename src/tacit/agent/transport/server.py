"""Answers what neighbours ask."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Traffic
from tacit.agent.transport.door import Door
from tacit.agent.transport.refusals import Callers, Refusals, kind_of
from tacit.agent.transport.sizes import largest_question
from tacit.agent.transport.sockets import Network, plain
from tacit.agent.transport.tls_streams import (
    ANSWER,
    ASK,
    DEADLINE,
    GREET,
    HANDSHAKE,
    LEAVE,
    NOT_YET,
    READY,
    REFUSED,
    UNFINISHED,
    Stream,
    closed,
    fingerprints,
)
from tacit.agent.transport.wire import BadMessage, parsed
from tacit.agent.transport.wire_pb2 import Greeting, Message, Question
from tacit.errors import ExchangeError, TacitError

if TYPE_CHECKING:  # it speaks for an agent, and is a part of it
    from tacit.agent.conversation import Conversation

_HOLD = 20.0  # seconds that a server keeps a question that it cannot answer yet; then the client asks again
_UNWRITTEN = 1 << 23  # bytes of answers: a member that has not taken so many gets no other answer
_FEW_FILES = 4096  # file descriptors: fewer than a server should have


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


class _Refused(Exception):  # noqa: N818 (an answer, not a mistake)
    """A question is answered with this kind of frame, and a text, in place of a message."""

    def __init__(self, text: str, kind: int = REFUSED) -> None:
        super().__init__(text)
        self.kind = kind


class _Caller(Stream):
    """A connection to our server."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.context, server.pinned, called=True)
        self._server, self._address = server, ""
        self.task: asyncio.Task[None] | None = None  # that answers on it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._late = asyncio.get_running_loop().call_later(HANDSHAKE, self.fail, UNFINISHED)
        self._address = plain(str(transport.get_extra_info("peername", ("",))[0]))
        if not self._server.came(self, self._address):
            self.over = "it comes too often"
            self.end()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._late.cancel()
        self._server.gone(self)

    def secured(self) -> None:
        self._late.cancel()
        self._server.secured(self)

    def failed(self) -> None:
        self._server.callers.failed(self._address, self.over)


class Server:
    """Answers the neighbours' questions."""

    def __init__(
        self,
        federation: Federation,
        me: int,
        identity: Identity,
        answers: Conversation,
        traffic: Traffic | None = None,
        network: Network | None = None,
    ) -> None:
        self._federation, self._answers, self._network = federation, answers, network or Network()
        # Also members without whom the others go on: if they come back, they learn that, and nothing else.
        agreed, own = federation.agreed or federation, federation.names[me]
        near = [agreed.members[j] for j in agreed.graph.neighbours(agreed.names.index(own))]
        self._holders = {certificate: m.name for m in near for certificate in federation.accepted(m.name)}
        self._addresses = [m.address for m in near]
        self._run, self._most = bytes.fromhex(federation.run), largest_question(federation)
        self.context = self._network.secured(identity, self._holders, called=True)
        self.pinned = fingerprints(self._holders)
        self._traffic = traffic or Traffic()
        self.callers, self._refusals = Callers(self._traffic), Refusals(self._traffic)
        self._listening: asyncio.AbstractServer | None = None
        self._stopping = False
        self._open: set[_Caller] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unwritten: Counter[str] = Counter()  # bytes of answers to a member

    async def start(self, listen: str) -> None:
        """Listens at HOST:PORT."""
        if (files := self._network.room()) < _FEW_FILES:
            log.warning(
                f"this process may have {files} files open: connections of outsiders may take all of them. Raise "
                f"the limit to {_FEW_FILES} or more (ulimit -n, LimitNOFILE=)"
            )
        self._door = Door(files)
        self._listening = await self._network.listen(listen, lambda: _Caller(self))
        for address in self._addresses:
            self._do(self._door.expect(address, self._network.look_up))

    async def stop(self) -> None:
        """Stops listening, and ends all connections. What the system has taken still leaves."""
        self._stopping = True
        if self._listening is not None:
            await self._network.stop_listening(self._listening)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await closed(self._open)

    # What happens to connections

    def came(self, caller: _Caller, address: str) -> bool:
        """Whether a caller is let in."""
        self._open.add(caller)
        if self._stopping:
            return False
        if not (let_in := self._door.admits(caller, address)):
            self._refusals.warn(f"a caller at {address} comes too often: refused", "a caller comes too often")
        return let_in

    def secured(self, caller: _Caller) -> None:
        """A neighbour's connection is ready."""
        certificate = self.pinned[caller.certificate]
        name = self._holders[certificate]
        if self._door.known(caller, name):
            self._refusals.warn(f"{name} has too many connections open: the oldest is closed")
        caller.task = self._do(self._serve(caller, name, certificate))

    def gone(self, caller: _Caller) -> None:
        """A connection is closed: nobody waits for an answer any more."""
        self._open.discard(caller)
        self._door.gone(caller)
        if caller.task is not None:
            caller.task.cancel()
            caller.task = None  # the two would keep each other until the garbage collector runs

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, caller: _Caller, name: str, certificate: str) -> None:
        """Answers one question after the other. While one is answered, the next is not read."""
        try:
            await caller.send(READY)
            while not caller.over:
                kind, answer = ANSWER, b""
                try:
                    answer = await self._answer(caller, name, certificate)
                except _Refused as refused:
                    kind, answer = refused.kind, str(refused).encode()
                await self._write(caller, name, kind, answer)
        except (ConnectionError, ssl.SSLError):
            pass  # it has gone, or the door has closed it
        finally:
            caller.close()

    async def _write(self, caller: _Caller, name: str, kind: int, answer: bytes) -> None:
        """Sends an answer, which counts until the system has taken all of it."""
        self._unwritten[name] += len(answer)
        try:
            async with asyncio.timeout(DEADLINE):  # nobody waits longer for an answer
                await caller.send(kind, answer)
            self._traffic.sent += len(answer)
        except TimeoutError:
            self._refusals.warn(f"{name} does not read what it asks for: its connections are closed")
            self._door.ends(name)
        finally:
            full = self._unwritten[name] >= _UNWRITTEN
            self._unwritten[name] -= len(answer)
            if full:
                self._answers.changed.notify()

    # Questions

    async def _answer(self, caller: _Caller, name: str, certificate: str) -> bytes:
        """What answers the next question."""
        kind, question = await self._admitted(caller, name, certificate)
        answer = {GREET: self._greet, ASK: self._ask, LEAVE: self._leave}[kind]
        return await answer(name, question)

    async def _greet(self, name: str, greeting: Greeting) -> bytes:
        try:
            self._answers.greeted(name, greeting)
            self._answers.contact(name)
        except (BadMessage, ExchangeError) as error:
            self._refusals.warn(f"{name}: {error}", f"{name}: {kind_of(error)}")
        # Both sides compare: every greeting is answered with ours.
        return self._answers.greeting(name).SerializeToString()

    async def _ask(self, name: str, question: Question) -> bytes:
        if not self._meets(name, question):
            return Message(standing=self._answers.standing(name)).SerializeToString()
        try:
            waited = False
            async with asyncio.timeout(_HOLD):
                # A neighbour that does not read its answers gets no more of them.
                while self._unwritten[name] >= _UNWRITTEN or (found := self._answers.find(question)) is None:
                    waited = True
                    await self._answers.changed.wait()
            if waited and not self._meets(name, question):  # a newer process may have come meanwhile
                return Message(standing=self._answers.standing(name)).SerializeToString()
            return found
        except TimeoutError:
            raise _Refused("not yet", NOT_YET) from None
        except TacitError as error:
            raise self._refused(f"{name}: {error}", f"{name}: {kind_of(error)}") from None

    async def _leave(self, name: str, question: Question) -> bytes:
        if not (self._meets(name, question) and self._answers.may_leave(name)):
            raise _Refused("not yet", NOT_YET)
        return b""

    def _meets(self, name: str, question: Question) -> bool:
        """Whether the process that asks is one that gets answers."""
        try:
            self._answers.met(name, question.standing)
        except BadMessage as error:
            self._refusals.warn(f"{name}: {error}", f"{name}: {error.rule}")
            return False
        self._answers.contact(name)
        return True

    async def _admitted(self, caller: _Caller, name: str, certificate: str) -> tuple[int, Any]:
        """The next question. Refuses one in the name of another member."""
        try:
            kind, raw = await caller.receive(self._most, HANDSHAKE)
            self._traffic.received += len(raw)
            if kind not in (GREET, ASK, LEAVE):
                raise BadMessage("it asks for something that an agent does not have")
            question = parsed(Greeting if kind == GREET else Question, raw)
        except TimeoutError:
            caller.over = "it does not end its question"
            raise self._refused(f"{name} began a question and did not end it: refused") from None
        except BadMessage as error:
            if error.rule.endswith("too long"):  # nobody reads it, so nothing after it can be read
                caller.over = error.rule
            raise self._refused(f"{name}: {error}: refused", f"{name}: {error.rule}") from None
        if certificate not in self._federation.accepted(name):  # it counted when this agent started
            raise self._refused(f"{name} shows a certificate that it has renewed: refused")
        if kind != GREET and question.run != self._run:
            raise self._refused(f"{name} asks about another run: refused")
        names = self._federation.names
        if kind != GREET:
            claimed = names[question.sender] if question.sender < len(names) else f"member {question.sender}"
        else:
            claimed = question.name if question.name in self._holders.values() else "somebody else"
        if claimed != name:
            whom = "another" if claimed in names else "nobody"
            raise self._refused(f"{name} claims to be {claimed}: refused", f"{name} claims to be {whom}")
        return kind, question

    def _refused(self, text: str, kind: str = "") -> _Refused:
        self._refusals.warn(text, kind)
        return _Refused(text)
