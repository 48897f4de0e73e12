"""How agents talk: frames over TLS in which both sides show the certificates of the federation file.

**Pull.** Agents do not send; they ask. An agent asks each neighbour for what it said at a tick, and the neighbour
answers when it has said it. So there is nothing to acknowledge, no inbox that must survive a crash, nothing to buffer,
and a question that is repeated, late or out of order gets the same answer. An agent that is behind asks for old ticks;
one that is ahead waits. A server receives only questions of a few bytes: nobody can push anything to it.

**One question at a time.** A connection carries one question, then its answer, then the next question. Who asks several
things at once has several connections. An agent that does not want an answer any more closes the connection.

**Authentication.** The server pins exactly its neighbours' certificates: for all others the TLS handshake fails before
any byte of the protocol (`tacit.agent.streams`). Then every question is checked. The certificate of its connection must
be that of the member that it says it is from, the run must be this one, and the tick must be one at which this agent
speaks to that member. A client pins exactly the certificate of the neighbour that it calls. Every kind of refusal is
logged once. A member that renews its certificate has two for a while (`tacit.agent.membership.renewal`): whether one
still counts is checked at every question, from both ends.

**Nobody uses up what others need.** Connections are limited before TLS, for each address, and after it, for each member
(`tacit.agent.door`). Answers to a member count until they are written: who does not read gets no more of them, and is
closed when nobody would wait any longer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.agent.able import carried
from tacit.agent.books import HEAD_SIZE
from tacit.agent.door import Door
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.incarnation import STANDING_SIZE
from tacit.agent.membership.absence import most_absences
from tacit.agent.monitoring.progress import Traffic
from tacit.agent.network import Network, plain
from tacit.agent.said import MOST, SAID_SIZE
from tacit.agent.streams import (
    ANSWER,
    ASK,
    GREET,
    LEAVE,
    NOT_YET,
    READY,
    REFUSED,
    UNFINISHED,
    Stranger,
    Stream,
    closed,
    context,
    fingerprints,
)
from tacit.agent.wire import ENVELOPE, BadMessage, answering, parsed
from tacit.agent.wire_pb2 import Greeting, Message, Question
from tacit.errors import ExchangeError, TacitError

if TYPE_CHECKING:  # it speaks for an agent, and is a part of it
    from tacit.agent.loop import AgentLoop

Answer = TypeVar("Answer")

_HANDSHAKE = 10.0  # seconds in which a caller must authenticate, and a question that has begun must end
_KEY_SIZE = 160  # bytes: more than a signed key, a sealed share or a statement can take
_HOLD = 20.0  # seconds that a server keeps a question that it cannot answer yet; then the client asks again
_DEADLINE = 30.0  # seconds that a client waits for an answer
_UNWRITTEN = 1 << 23  # bytes of answers: a member that has not taken so many gets no other answer
_LOGGED = 400  # characters of a refusal
_MOST_CALLERS = 1000  # kinds of lines about callers: a caller may have any number of addresses
_BACK_OFF = (0.1, 2.0)  # seconds before a question is asked again: the first time, and at most
_FEW_FILES = 4096  # file descriptors: fewer than a server should have

log = logging.getLogger("tacit.agent")


class Refusals:
    """Logs every kind of refusal once, so that nobody can fill the disk by calling again and again.

    `kind` is the text without anything that the caller chose: another text of the same kind is not logged. A text may
    contain what the caller sent, so it is cut, and characters that control a terminal are replaced.
    """

    def __init__(self, traffic: Traffic | None = None) -> None:
        self._logged: set[str] = set()
        self._traffic = traffic or Traffic()

    def warn(self, text: str, kind: str = "") -> None:
        """Counts the refusal; logs the text, unless its kind is logged already."""
        kind = kind or text
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


class _Refused(Exception):  # noqa: N818 (an answer, not a mistake)
    """A question is answered with this kind of frame, and a text, in place of a message."""

    def __init__(self, text: str, kind: int = REFUSED) -> None:
        super().__init__(text)
        self.kind = kind


class Callers:
    """Logs callers that fail in the handshake: each line nine times, then the tenth time, the hundredth, ... A caller
    that comes again and again, from any number of addresses, must not fill the disk or the memory."""

    def __init__(self, traffic: Traffic) -> None:
        self._seen, self._traffic = Counter[str](), traffic

    def failed(self, address: str, why: str) -> None:
        """Counts a caller; logs it, if that is due."""
        self._traffic.refuse(f"a caller {why}")
        text = f"a caller at {address} {why}: refused"
        if text not in self._seen and len(self._seen) >= _MOST_CALLERS:
            text = f"a caller at one more address {why}: refused"
        self._seen[text] += 1
        if self._seen[text] < 10:
            log.warning(text)
        elif str(self._seen[text]).strip("0") == "1":
            log.warning(f"{text} ({self._seen[text]} times)")


class _Caller(Stream):
    """A connection to our server."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.context, server.pinned, called=True)
        self._server, self._address = server, ""
        self.task: asyncio.Task[None] | None = None  # that answers on it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._late = asyncio.get_running_loop().call_later(_HANDSHAKE, self.fail, UNFINISHED)
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
        answers: AgentLoop,
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
        self.context, self.pinned = context(identity, self._holders, called=True), fingerprints(self._holders)
        self._traffic = traffic or Traffic()
        self.callers, self._refusals = Callers(self._traffic), Refusals(self._traffic)
        self._listening: asyncio.AbstractServer | None = None
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
        if self._listening is not None:
            self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await closed(self._open)

    # What happens to connections

    def came(self, caller: _Caller, address: str) -> bool:
        """Whether a caller is let in."""
        self._open.add(caller)
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
            async with asyncio.timeout(_DEADLINE):  # nobody waits longer for an answer
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
            kind, raw = await caller.receive(self._most, _HANDSHAKE)
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


class Peer:
    """A neighbour, seen from here: asks it until it gives a valid answer."""

    def __init__(
        self,
        federation: Federation,
        me: int,
        peer: int,
        identity: Identity,
        asks: AgentLoop,
        traffic: Traffic | None = None,
        network: Network | None = None,
    ) -> None:
        member = federation.members[peer]
        self.name, self._me, self._peer = member.name, me, peer
        self._federation, self._asks, self._traffic = federation, asks, traffic or Traffic()
        self._refusals, self._network = Refusals(self._traffic), network or Network()
        self._identity, self._address, self._most = identity, member.address, largest_answer(federation)
        self._trusted: tuple[str, ...] = ()  # the certificates of `_context`
        self._streams: set[Stream] = set()
        self._free: list[Stream] = []  # those on which nothing is asked

    async def greet(self, mine: Callable[[], Greeting], read: Callable[[Greeting], Answer]) -> Answer:
        """Waits until the neighbour is there, and `read` accepts its greeting. `mine` is asked anew each time."""
        return await self._until(GREET, mine, lambda raw: read(parsed(Greeting, raw)))

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

        return await self._until(ASK, lambda: self._question(tick=tick, phase=phase, shares=shares), reading)

    async def leave(self) -> None:
        """Tells the neighbour that this agent needs no more from it."""
        await self._until(LEAVE, self._question, lambda _: None)

    def _question(self, **about: Any) -> Question:
        run, standing = bytes.fromhex(self._federation.run), self._asks.standing(self.name)
        return Question(run=run, sender=self._me, standing=standing, **about)

    async def close(self) -> None:
        """Closes all connections."""
        await closed(self._streams)

    async def _until(self, kind: int, question: Callable[[], Any], read: Callable[[bytes], Answer]) -> Answer:
        pause, most = _BACK_OFF
        while True:
            if not (trusted := self._federation.accepted(self.name)):  # it is revoked
                await asyncio.sleep(most)
                continue
            raw = question().SerializeToString()
            try:
                async with asyncio.timeout(_DEADLINE):
                    became, answer = await self._asked(trusted, kind, raw)
                self._traffic.sent += len(raw)
                self._traffic.received += len(answer)
                if became == ANSWER:
                    found = read(answer)
                    self._asks.contact(self.name)
                    return found
                if became == NOT_YET:
                    self._asks.contact(self.name)
                    await asyncio.sleep(_BACK_OFF[0])  # the neighbour may answer "not yet" at once
                    continue
                details = answer[:_LOGGED].decode(errors="replace")
                self._refusals.warn(f"{self.name} answers: {details}; asking again", "an error of its choice")
            except (BadMessage, ExchangeError) as error:
                self._refusals.warn(f"{self.name}: {error}; asking again", kind_of(error))
            except TimeoutError:
                await asyncio.sleep(_BACK_OFF[0])
                continue
            except Stranger as error:
                self._refusals.warn(f"{self.name} at {self._address} {error}; asking again")
            except (OSError, UnicodeError):
                pass  # it is not there, or has gone
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)

    async def _asked(self, trusted: tuple[str, ...], kind: int, raw: bytes) -> tuple[int, bytes]:
        """The kind and the content of what answers a question; on a connection of its own until then."""
        stream = await self._connected(trusted)
        try:
            await stream.send(kind, raw)
            found = await stream.receive(self._most)
        except BaseException:
            stream.end()
            raise
        self._free.append(stream)
        return found

    async def _connected(self, trusted: tuple[str, ...]) -> Stream:
        """A connection to a neighbour that has shown a certificate that counts now."""
        if trusted != self._trusted:
            self._trusted, self._context = trusted, context(self._identity, trusted, called=False)
        pinned = fingerprints(trusted)
        while self._free:
            stream = self._free.pop()
            if not stream.over and stream.certificate in pinned:
                return stream
            stream.end()
        self._streams = {each for each in self._streams if each.transport is not None}
        stream = Stream(self._context, pinned)
        self._streams.add(stream)
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await self._network.connect(self._address, lambda: stream)
                await stream.let_in()
        except BaseException:
            stream.end()
            raise
        return stream


def largest_question(federation: Federation) -> int:
    """The most bytes that a greeting, or a question with shares, can have."""
    members = federation.agreed.members if federation.agreed is not None else federation.members
    greeting = sum(64 + len(part) for part in federation.parts) + sum(8 + len(member.name) for member in members)
    absences = most_absences(federation) * (_KEY_SIZE + 5 * len(members))  # a member's number has at most five bytes
    # the digest of renewals; keys, and signatures of the meeting; the heads of ledgers; what is added to a message
    return 512 + 32 + greeting + 2 * _KEY_SIZE * len(members) + absences + 2 * HEAD_SIZE + _added(federation)


def largest_answer(federation: Federation) -> int:
    """The most bytes that an answer can have, from the model's dimension and the number of members."""
    rows = len(carried(federation.setting.algorithm)) or 1  # of a state: `tacit.agent.membership.dropout`
    message = 8 * rows * federation.schema.model_dimension + ENVELOPE + _added(federation)
    return max(message, largest_question(federation))


def _added(federation: Federation) -> int:
    """The most bytes that are added to what is committed: a standing, a digest of totals, statements, and two for each
    contradiction."""
    return STANDING_SIZE + 64 + SAID_SIZE * (MOST + 2 + 2 * len(federation.members))
