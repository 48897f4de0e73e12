"""How an agent hears a total: the sum of what all members say at a tick, of which nobody sees a part.

This is `tacit.exchange.network_sharing` between processes. Agents ask their neighbours, and nobody else. In a tick,
agent k asks

0. every neighbour: what is your share for me? The answer is a seed, sealed for k.
1. every child of k in the tree of the tick (`tacit.exchange.tree`): what do the partial sums below you add up to, your
   own included? A child answers when it has the shares of all its neighbours, and the sums of its own children.
2. its parent: what is the total? The root has it when it has the sums of its children.

All three are asked at once, and each is answered as soon as the answer exists. The questions of phases 1 and 2 are for
the parent and the children of that tick alone.

**After a crash** the same bytes must leave as before. The row of a tick is committed before its first share leaves, and
does not change. Seeds and the key pair are functions of a secret in the store. So the partial sum is a function of the
store and of the neighbours' shares, which the neighbours repeat in the same way.

**A neighbour that crashed** may ask again about the tick before this agent's present one, and about no earlier tick:
this agent has spoken at t, so it has the total of t - 1, so every member has committed its row of t - 1. The sum and
the total of the last tick that was heard are therefore kept with the state (`memory`).

**A member that lies** can put any words into the total, as it could lie about its own row; it can tell each child
another total. So every share comes with a digest of the totals that its sender has heard, and neighbours that have
heard different ones say so in their logs (`Conversation`). A total beyond its bounds is not used
(`tacit.exchange.total_bounds`). What an honest member releases next costs the same at every point
(`tacit.privacy.mechanisms`).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import numpy as np

from tacit.agent.delivery import Heard, Own
from tacit.agent.participant import Participant
from tacit.agent.run_keys import RunKeys
from tacit.agent.state_slots import Arrays
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.server import Signal
from tacit.agent.transport.wire import BadMessage, packed, packed_row, row_of
from tacit.agent.transport.wire_pb2 import Key, Message, Question
from tacit.core.release import Inbox, Release
from tacit.exchange.keys import KeyPair, RepeatableWords
from tacit.exchange.network_sharing import NetworkSharer
from tacit.exchange.totals import SHARE_BYTES, TotalInbox, totals_point
from tacit.exchange.tree import Tree

SHARE, SUM, TOTAL = 0, 1, 2  # phases
USE = b"secret-shared totals"  # of the keys


class TotalsDelivery:
    """Every agent hears the sum of all rows."""

    keys: tuple[Key, ...] = ()  # members share secrets with their own neighbours only: no key needs to be passed on

    def __init__(self, participant: Participant, peers: Mapping[int, Peer], changed: Signal) -> None:
        self._participant, self._peers, self._changed = participant, peers, changed
        federation, me, secret = participant.federation, participant.me, participant.store.secret
        near = federation.graph.neighbours(me).tolist()
        pair = KeyPair(hmac.digest(secret, b"totals: key pair", "sha256"))
        words = RepeatableWords(hmac.digest(secret, b"totals: words", "sha256"))
        self._point = totals_point(len(federation.members))
        self._sharer = NetworkSharer(me, near, bytes.fromhex(federation.run), self._point, words=words, keys=pair)
        self._keys = RunKeys(participant, pair.public, USE, near, self._sharer.meet)
        self.own_key = self._keys.own
        self._tree = lru_cache(maxsize=4)(partial(Tree.of, federation.graph))
        self._dimension = federation.schema.model_dimension
        # By tick, of the last two ticks at most: what the partial sums from here downwards add up to, and the total.
        self._sums: dict[int, np.ndarray] = {}
        self._totals: dict[int, np.ndarray] = {}

    @property
    def memory(self) -> Arrays:
        """What must be kept over a crash: sum and total of the last tick that was heard."""
        t = max(self._totals, default=-1)
        nothing = np.zeros(self._dimension, dtype=np.uint64)
        kept = [_halves(found.get(t, nothing)) for found in (self._sums, self._totals)]
        return {"last total's tick": np.array([float(t)]), "last total": np.array(kept)}

    def remember(self, memory: Arrays) -> None:
        """Takes `memory` back after a crash."""
        t = int(memory["last total's tick"][0])
        if t >= 0:
            self._sums[t], self._totals[t] = map(_words, memory["last total"])

    @property
    def complete(self) -> bool:
        """Whether this agent has the keys of all its neighbours."""
        return self._keys.complete

    def take_key(self, key: Key) -> None:
        """Notes a neighbour's key, if that neighbour has signed it."""
        self._keys.take(key)

    def message(self, tick: int, release: Release) -> bytes:
        """What is committed; it never leaves as it is."""
        return packed_row(self._participant.federation.run, self._participant.me, tick, release.value[0])

    def answer(self, question: Question, message: bytes) -> bytes | None:
        """This agent's share for the neighbour that asks, the sum from here downwards, or the total."""
        if not self.complete:
            return None
        run, me, t, asker = self._participant.federation.run, self._participant.me, question.tick, question.sender
        if question.shares:
            raise BadMessage("a question about a total brings no shares; this one has {}", len(question.shares))
        tree, phase = self._tree(t), question.phase
        if phase == SHARE:
            self._begin(t)
            return packed(run, me, t, self._sharer.share(asker, t))
        if phase == SUM and tree.parent[me] == asker:
            found = self._sums
        elif phase == TOTAL and tree.parent[asker] == me:
            found = self._totals
        else:
            name = self._participant.federation.names[asker]
            raise BadMessage("{} has no question of phase {} to ask at tick {}", name, phase, t)
        if t in found:
            return packed(run, me, t, found[t].astype("<u8").tobytes(), phase=phase)
        if t < max(self._totals, default=-1):
            raise BadMessage("tick {} is over for all members", t)
        return None

    async def hear(self, t: int, senders: Sequence[int], own: Own, heard: Heard) -> Inbox:
        """The total, once this agent has spoken, too."""
        me, tree = self._participant.me, self._tree(t)
        await own()
        self._begin(t)

        def take_share(j: int, message: Message) -> None:
            if len(message.payload) != SHARE_BYTES:
                raise BadMessage("its share has {} bytes, not {}", len(message.payload), SHARE_BYTES)
            self._sharer.receive(j, message.payload)
            heard(j)

        async def upwards() -> None:
            shares = [self._peers[j].ask(t, partial(take_share, j)) for j in senders]
            sums = [self._peers[j].ask(t, self._summed, phase=SUM) for j in tree.children(me)]
            _, below = await asyncio.gather(asyncio.gather(*shares), asyncio.gather(*sums))
            self._keep(self._sums, t, sum(below, self._sharer.partial()))  # modulo 2^64
            if tree.parent[me] is None:
                self._keep(self._totals, t, self._sums[t])

        async def downwards() -> None:
            if (parent := tree.parent[me]) is not None:
                self._keep(self._totals, t, await self._peers[parent].ask(t, self._summed, phase=TOTAL))

        await asyncio.gather(upwards(), downwards())
        members = len(self._participant.federation.members)
        return TotalInbox(self._point.decode(self._totals[t])[None], np.array([[members]]))

    def _begin(self, t: int) -> None:
        """Takes up tick t, whose row is committed. After a crash also the tick before, about which neighbours that are
        behind may ask."""
        for tick in (t - 1, t):
            if tick > self._sharer.round and (message := self._participant.store.message(tick)) is not None:
                row = row_of(Message.FromString(message), self._dimension)
                assert row is not None
                self._sharer.begin(row, tick)

    def _summed(self, message: Message) -> np.ndarray:
        """The words of a neighbour's sum: any words are the sum of something."""
        if len(message.payload) != 8 * self._dimension:
            raise BadMessage("its sum has {} bytes, not {}", len(message.payload), 8 * self._dimension)
        return np.frombuffer(message.payload, dtype="<u8").astype(np.uint64)

    def _keep(self, found: dict[int, np.ndarray], t: int, words: np.ndarray) -> None:
        """Notes what neighbours may be waiting for."""
        found.pop(t - 2, None)
        found[t] = words
        self._changed.notify()


def _halves(words: np.ndarray) -> np.ndarray:
    """(2 d,) words of 64 bits as floats, which hold 32 bits of them without loss.

    >>> int(_words(_halves(np.array([2**64 - 1], dtype=np.uint64)))[0]) == 2**64 - 1
    True
    """
    return np.concatenate([words >> np.uint64(32), words & np.uint64(2**32 - 1)]).astype(float)


def _words(halves: np.ndarray) -> np.ndarray:
    """The words that `_halves` wrote."""
    high, low = np.split(halves.astype(np.uint64), 2)
    return (high << np.uint64(32)) | low
