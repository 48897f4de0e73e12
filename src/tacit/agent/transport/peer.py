"""A neighbour, seen from an agent that asks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.monitoring.progress import Traffic
from tacit.agent.transport.refusals import LONGEST, Refusals, kind_of
from tacit.agent.transport.sizes import largest_answer
from tacit.agent.transport.sockets import Network
from tacit.agent.transport.tls_streams import (
    ANSWER,
    ASK,
    DEADLINE,
    GREET,
    HANDSHAKE,
    LEAVE,
    NOT_YET,
    Stranger,
    Stream,
    closed,
    fingerprints,
)
from tacit.agent.transport.wire import BadMessage, answering, parsed
from tacit.agent.transport.wire_pb2 import Greeting, Message, Question
from tacit.errors import ExchangeError

if TYPE_CHECKING:  # it speaks for an agent, and is a part of it
    from tacit.agent.conversation import Conversation

Answer = TypeVar("Answer")

_SILENT = "it does not answer"
_BACK_OFF = (0.1, 2.0)  # seconds before a question is asked again: the first time, and at most


class Peer:
    """Asks a neighbour until it gives a valid answer."""

    def __init__(
        self,
        federation: Federation,
        me: int,
        peer: int,
        identity: Identity,
        asks: Conversation,
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
        self.trouble = _SILENT  # why it gave no answer the last time

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

        try:
            return await self._until(ASK, lambda: self._question(tick=tick, phase=phase, shares=shares), reading)
        finally:
            self._asks.refused.pop(self.name, None)

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
                self.trouble = "this agent does not accept its certificate"
                await asyncio.sleep(most)
                continue
            raw = question().SerializeToString()
            try:
                async with asyncio.timeout(DEADLINE):
                    became, answer = await self._asked(trusted, kind, raw)
                self._traffic.sent += len(raw)
                self._traffic.received += len(answer)
                self.trouble = _SILENT  # from now on
                if became == ANSWER:
                    found = read(answer)
                    if kind == ASK:  # greetings may be in order, and answers not
                        self._asks.refused.pop(self.name, None)
                    self._asks.contact(self.name)
                    return found
                if became == NOT_YET:
                    self._asks.refused.pop(self.name, None)  # it may have begun anew, and need its time
                    self._asks.contact(self.name)
                    await asyncio.sleep(_BACK_OFF[0])  # the neighbour may answer "not yet" at once
                    continue
                details = answer[:LONGEST].decode(errors="replace")
                self.trouble = f"it answers: {details}"
                self._refusals.warn(f"{self.name} answers: {details}; asking again", "an error of its choice")
            except (BadMessage, ExchangeError) as error:
                self.trouble = f"what it says is refused: {error}"[:LONGEST]
                if kind == ASK:
                    self._asks.refused[self.name] = self.trouble
                self._refusals.warn(f"{self.name}: {error}; asking again", kind_of(error))
            except TimeoutError:
                self.trouble = _SILENT
                await asyncio.sleep(_BACK_OFF[0])
                continue
            except Stranger as error:
                self.trouble = f"it {error}"
                self._refusals.warn(f"{self.name} at {self._address} {error}; asking again")
            except (OSError, UnicodeError) as error:  # it is not there, or has gone
                self.trouble = f"{self._address}: {_reason(error)}"
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
            self._trusted, self._context = trusted, self._network.secured(self._identity, trusted, called=False)
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
            async with asyncio.timeout(HANDSHAKE):
                await self._network.connect(self._address, lambda: stream)
                await stream.let_in()
        except BaseException:
            stream.end()
            raise
        return stream


def _reason(error: OSError | UnicodeError) -> str:
    """In the system's words; asyncio adds the address to them, of every one that a name has."""
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error)[:LONGEST]
