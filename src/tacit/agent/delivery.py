"""How an agent gets the messages of a tick: its neighbours' rows, or their sum, which hides the single rows. A sum over
all members is in `tacit.agent.totals_delivery`.

Agents ask for all of these (`tacit.agent.transport`). `message` is what the agent itself commits at a tick: its row.
`answer` turns it into what a neighbour gets that asks; None if that is not ready yet. `hear` asks the neighbours.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from tacit.agent.participant import Participant
from tacit.agent.run_keys import RunKeys
from tacit.agent.state_slots import Arrays
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.wire import BadMessage, packed, packed_row, row_of
from tacit.agent.transport.wire_pb2 import Key, Message, Question
from tacit.core.release import Inbox, Release
from tacit.exchange import SecretSharedSums
from tacit.exchange.keys import KEY_BYTES, KeyPair, RepeatableWords
from tacit.exchange.plain import require_no_shares
from tacit.exchange.secret_shared import SummedInbox
from tacit.exchange.sharing import Group, Sharer

Own = Callable[[], Awaitable[bytes]]  # what this agent says at the tick, once it is committed


class Heard(Protocol):
    """Called with a neighbour that was heard; and with its message, if that is the same for all who hear it."""

    def __call__(self, sender: int, message: Message | None = None, /) -> None: ...


_SEAL = 16  # bytes
_SHARES, _PARTIAL = 0, 1  # phases
_USE = b"secret-shared sums"  # of the keys


class Rows:
    """Every agent gives its row to its neighbours."""

    keys: tuple[Key, ...] = ()
    own_key: Key | None = None
    complete = True

    def __init__(self, participant: Participant, peers: Mapping[int, Peer]) -> None:
        self._participant, self._peers = participant, peers
        self._dimension = participant.federation.schema.model_dimension
        # What each neighbour said last: it may be silent now. Starts are public, and zero.
        self._last = dict.fromkeys(
            participant.federation.graph.neighbours(participant.me).tolist(), np.zeros(self._dimension)
        )

    @property
    def memory(self) -> Arrays:
        """What must be kept over a crash."""
        return {"last words": np.array(list(self._last.values()))}

    def remember(self, memory: Arrays) -> None:
        """Takes `memory` back after a crash."""
        self._last = dict(zip(self._last, memory["last words"], strict=True))

    def take_key(self, key: Key) -> None:
        """Rows travel without keys, so there is nothing to keep."""

    def message(self, tick: int, release: Release) -> bytes:
        """What is committed, and leaves as it is."""
        require_no_shares(release.events)
        silent = release.silent is not None and bool(release.silent[0])
        row = None if silent else release.value[0]
        return packed_row(self._participant.federation.run, self._participant.me, tick, row)

    def answer(self, question: Question, message: bytes) -> bytes | None:
        """The row itself: it needs no questions in phases."""
        if question.phase or question.shares:
            raise BadMessage("this run exchanges rows, not sums")
        return message

    async def hear(self, t: int, senders: Sequence[int], own: Own, heard: Heard) -> Inbox:
        """The neighbours' rows: asks at once, and each neighbour answers when it has spoken."""

        async def ask(j: int) -> None:
            message, row = await self._peers[j].ask(t, lambda found: (found, row_of(found, self._dimension)))
            heard(j, message)
            if row is not None:
                self._last[j] = row

        await asyncio.gather(*(ask(j) for j in senders))
        return Inbox(np.array([self._last[j] for j in senders]), np.array([0, len(senders)]))


class Sums:
    """Every agent hears the sum of its neighbours' rows: `tacit.exchange.sharing`, between processes.

    Every agent k is the listener of one group, itself and its neighbours. It carries the shares between the members,
    because only k is connected to all of them. In a tick, k asks each neighbour i two questions:

    0. What are your shares? i answers with one for every other member of the group, sealed for that member.
    1. What is your partial sum? The question brings i the shares of the others, the answer is sigma_i.

    **After a crash** the same bytes must leave as before. So nothing is drawn at random: all seeds, and the key pair of
    the run, are functions of a secret in the agent's store and of their use. An answer is then a function of the store
    and of the question. No seed may serve two rows: the row of a tick is committed before its first share leaves, and
    does not change.

    **Keys.** Members of a group that are not neighbours get each other's public keys from the listener. The listener
    cannot replace them by its own: each key is signed by the identity of its member, for this run.
    """

    def __init__(self, participant: Participant, peers: Mapping[int, Peer]) -> None:
        self._participant, self._peers = participant, peers
        federation, me = participant.federation, participant.me
        graph = federation.graph
        near = {k: graph.neighbours(k).tolist() for k in (me, *graph.neighbours(me).tolist())}
        self._groups = {k: Group(tuple(sorted((k, *others))), (k,)) for k, others in near.items()}
        keys = KeyPair(hmac.digest(participant.store.secret, b"key pair", "sha256"))
        words = RepeatableWords(hmac.digest(participant.store.secret, b"words", "sha256"))
        self._point = SecretSharedSums().point(graph)
        self._sharer = Sharer(me, bytes.fromhex(federation.run), self._point, words=words, keys=keys)
        needed = {j for group in self._groups.values() for j in group.members}
        self._keys = RunKeys(participant, keys.public, _USE, needed, self._sharer.meet)
        self.own_key = self._keys.own
        self.memory: Arrays = {}  # the store has everything
        self._shares: dict[int, bytes] = {}  # by listener: the shares of its present tick,
        self._partials: dict[int, bytes] = {}  # and the partial sum, once the listener has asked for it

    def remember(self, memory: Arrays) -> None:
        """There is nothing to take back from the store."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the neighbours, which get each other's keys from this agent."""
        known = self._keys.known
        return tuple(known[j] for j in self._groups[self._participant.me].members if j in known)

    @property
    def complete(self) -> bool:
        """Whether this agent has all keys that it needs."""
        return self._keys.complete

    def take_key(self, key: Key) -> None:
        """Notes a member's key, if that member has signed it."""
        self._keys.take(key)

    def message(self, tick: int, release: Release) -> bytes:
        """What is committed; it never leaves as it is. An agent that is silent takes part with its last row."""
        require_no_shares(release.events)
        row = release.value[0]
        if self._participant.federation.private:
            row = self._point.bounded(row)  # a noisy row may be moved, and must not fail
        return packed_row(self._participant.federation.run, self._participant.me, tick, row)

    def answer(self, question: Question, message: bytes) -> bytes | None:
        """This agent's shares, or its partial sum, in the group of the agent that asks."""
        if not self.complete:
            return None
        run, me, t, listener = self._participant.federation.run, self._participant.me, question.tick, question.sender
        group = self._groups[listener]
        sharing = self._sharer.in_group(group)
        if sharing.round != t:  # rounds only grow: a listener that asks about a tick asks about none before it
            sealed = sharing.shares(self._row(message), t)
            self._shares[listener] = packed(run, me, t, b"".join(sealed[j] for j in sorted(sealed)))
            self._partials.pop(listener, None)
        if question.phase == _SHARES:
            return self._shares[listener]
        if question.phase != _PARTIAL or len(question.shares) != len(group.members) - 1:
            raise BadMessage("there is no question of phase {} with {} shares", question.phase, len(question.shares))
        if listener not in self._partials:
            others = [j for j in group.members if j != me]
            for j, share in zip(others, question.shares, strict=True):
                if j in sharing.missing:
                    sharing.receive(j, share)
            self._partials[listener] = packed(run, me, t, sharing.partial(), phase=_PARTIAL)
        return self._partials[listener]

    async def hear(self, t: int, senders: Sequence[int], own: Own, heard: Heard) -> Inbox:
        """The sum of the neighbours' rows, once this agent has spoken, too."""
        me = self._participant.me
        row = self._row(await own())
        group = self._groups[me]
        sharing = self._sharer.in_group(group)
        shares = {me: sharing.shares(row, t)}

        def take_shares(j: int, message: Message) -> None:
            sizes = {i: KEY_BYTES * (1 + (i == me)) + _SEAL for i in group.members if i != j}  # a listener's has a key
            ends = np.cumsum(list(sizes.values()))
            if len(message.payload) != ends[-1]:
                raise BadMessage("its shares have {} bytes, not {}", len(message.payload), ends[-1])
            found = {i: message.payload[end - size : end] for (i, size), end in zip(sizes.items(), ends, strict=True)}
            sharing.receive(j, found[me])
            shares[j] = found

        def take_partial(j: int, message: Message) -> None:
            collector.receive(j, message.payload)
            heard(j)

        await asyncio.gather(*(self._peers[j].ask(t, partial(take_shares, j)) for j in senders))
        collector = sharing.collect()
        for_each = {j: [shares[i][j] for i in group.members if i != j] for j in senders}
        await asyncio.gather(
            *(self._peers[j].ask(t, partial(take_partial, j), phase=_PARTIAL, shares=for_each[j]) for j in senders)
        )
        return SummedInbox(sharing.heard(collector.total())[None], np.array([[len(senders)]]))

    def _row(self, message: bytes) -> np.ndarray:
        """The row that this agent has committed."""
        row = row_of(Message.FromString(message), self._participant.federation.schema.model_dimension)
        assert row is not None
        return row
