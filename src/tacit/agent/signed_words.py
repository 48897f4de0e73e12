"""What members have said, signed while the run goes on: one that says two things is named at once.

A member could tell each neighbour something else, and so could two copies of it. The certificate shows that when the
run is over (`tacit.agent.heard`). So that it is also seen before, every member signs at every tick the chain of all
that it has said up to then, a `Said`, and sends it with its message. Members pass on the newest `Said` of each member
that they know. Two of one member about one tick, with two digests, are a `Contradiction`: nobody but that member can
have made it, and everybody can check it. A chain differs for good once it differs, so it is enough to compare the
newest ticks.

**Who checks what.** Where rows are open and all neighbours hear every one, a neighbour computes the chain itself, and
takes no message that does not fit. Elsewhere it cannot: what is sealed is for one listener alone, and where one
member speaks to one other at a time, that one has no other to compare with. There the chain is over salted digests. It
still shows a copy, or a store that was restored; what covers a false share or partial sum are the bounds of a total
(`tacit.exchange.total_bounds`). Two versions of a total show as soon as two honest neighbours have heard different ones
(`tacit.agent.totals_delivery`).

**A member that is shown its own signature** on words that it does not know stops (exit code 78): it is a copy, or its
store and its ledger are both old.

**How fast.** A message carries at most `MOST` statements, in turn, of ticks that its sender has reached itself. Among
at most `MOST` + 1 members a contradiction reaches two of its witnesses' common neighbours, and then everybody, in as
many rounds as the graph is wide; among N in ceil((N - 1) / MOST) times as many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from tacit.agent.federation import ROWS
from tacit.agent.heard import MessageChain
from tacit.agent.identity import SIGNATURE_SIZE
from tacit.agent.transport import wire_pb2 as wire
from tacit.agent.transport.wire import BadMessage
from tacit.core.schedule import Broadcast
from tacit.errors import NEW_RUN, Over

if TYPE_CHECKING:
    from tacit.agent.participant import Participant

_DOMAIN = b"tacit: what I have said up to this tick"
MOST = 16  # statements about others in one message
SAID_SIZE = 128  # bytes of one, at most
_WINDOW = 64  # ticks of each member that are kept to be compared, at least


class Statements:
    """What an agent has said, and what it knows that others have signed."""

    def __init__(self, participant: Participant) -> None:
        self._participant, federation = participant, participant.federation
        broadcast = isinstance(federation.setting.algorithm.schedule(federation.graph), Broadcast)
        self._open = federation.exchange == ROWS and broadcast
        self._chain, self._own = MessageChain(), dict[int, bytes]()  # the chain's digest at each tick
        for tick, digest in participant.store.digests().items():
            self._extend(tick, digest)
        self._signed = lru_cache(maxsize=8)(self._sign)
        self._known: dict[int, dict[int, wire.Said]] = {}  # by member: its newest statements, by ticks
        self._turns = Counter[int]()  # by listener: nobody else's questions choose what it gets
        self._window = max(_WINDOW, 2 * len(federation.members))
        self.contradictions: dict[str, wire.Contradiction] = {}  # by member

    def speak(self, tick: int) -> None:
        """This agent has committed what it says at this tick."""
        self._extend(tick, self._participant.store.digest(tick))

    def reached(self) -> dict[str, int]:
        """The last tick at which each member has spoken, as far as it is signed and known here."""
        names = self._participant.federation.names
        return {names[i]: max(known) for i, known in sorted(self._known.items()) if known}

    def own(self, tick: int) -> wire.Said:
        """For the message of this tick."""
        return self._signed(tick)

    def others(self, listener: int) -> list[wire.Said]:
        """The newest statement of the listener itself, and of others, in turn. Of others, none about a tick that this
        agent has not reached: a liar could sign one far ahead, the same for all, and nobody would compare what it says
        meanwhile."""
        reached = max(self._own, default=-1) if self._open else self._participant.federation.rounds
        newest = {i: _newest(known, reached) for i, known in self._known.items()}
        others = [i for i in self._known if i != listener and newest[i] >= 0]
        first = self._turns[listener]
        chosen = [others[(first + k) % len(others)] for k in range(min(MOST, len(others)))]
        self._turns[listener] += len(chosen)
        itself = [known[max(known)]] if (known := self._known.get(listener)) else []
        return itself + [self._known[i][newest[i]] for i in chosen]

    def hear(self, sender: int, message: wire.Message, chain: MessageChain) -> None:
        """Checks what comes with a message of phase 0. `chain` is what was heard from its sender, this included."""
        said, name = message.own, self._participant.federation.names[sender]
        if (said.member, said.tick) != (sender, message.tick):
            raise BadMessage("it has not signed what it says at tick {}", message.tick)
        if self._open and said.digest != chain.digest:
            raise BadMessage("what it says at tick {} is not what it has signed", message.tick)
        if name in self.contradictions:
            raise BadMessage("it has signed two versions of a tick")
        self.take([said])

    def take(self, statements: Iterable[wire.Said]) -> None:
        """Takes in what members have signed. `Over` if this agent has signed what it does not know."""
        members = self._participant.federation.members
        for said in statements:
            if said.member >= len(members) or len(said.digest) != 32 or len(said.signature) > SIGNATURE_SIZE:
                raise BadMessage("a statement of a member that does not exist, or of another size")
            known = self._known.get(said.member, {})
            before = known.get(said.tick)
            mine = said.member == self._participant.me
            if before is not None and before.digest == said.digest:
                continue
            if self._participant.federation.names[said.member] in self.contradictions:
                continue  # one proof is enough
            if mine and self._own.get(said.tick) == said.digest:
                continue
            if before is None and not mine and len(known) >= self._window and said.tick < min(known):
                continue  # too old to be compared
            if not mine and said.tick > self._horizon():
                continue  # nobody can be that far: it would drive out those that can be compared
            self._require_signed(said)
            if mine:
                raise Over(
                    f"{self._participant.name} has signed something for tick {said.tick} that this process does not "
                    "know: there is a second copy of it, or this one was restored from an old backup. Nothing more "
                    f"leaves here; {NEW_RUN}"
                )
            if before is not None:
                self._contradicted(wire.Contradiction(one=before, other=said))
                continue
            known = self._known.setdefault(said.member, {})
            known[said.tick] = _alone(said)
            if len(known) > self._window:
                del known[min(known)]

    def take_contradictions(self, found: Iterable[wire.Contradiction]) -> None:
        """Takes in proofs that others have passed on."""
        names = self._participant.federation.names
        for each in found:
            one, other = each.one, each.other
            if one.member >= len(names):
                raise BadMessage("a contradiction of a member that does not exist")
            if names[one.member] in self.contradictions:
                continue
            if (one.member, one.tick) != (other.member, other.tick) or one.digest == other.digest:
                raise BadMessage("what it shows is no contradiction")
            for said in (one, other):
                if len(said.digest) != 32 or len(said.signature) > SIGNATURE_SIZE:
                    raise BadMessage("a statement of a member that does not exist, or of another size")
                self._require_signed(said)
            self._contradicted(each)

    def _contradicted(self, found: wire.Contradiction) -> None:
        name = self._participant.federation.names[found.one.member]
        if found.one.member == self._participant.me:
            raise Over(
                f"{name} has signed two versions of tick {found.one.tick}: there is a second copy of it. Nothing more "
                f"leaves here; {NEW_RUN}"
            )
        contradiction = wire.Contradiction(one=_alone(found.one), other=_alone(found.other))
        self.contradictions.setdefault(name, contradiction)

    def _require_signed(self, said: wire.Said) -> None:
        federation = self._participant.federation
        name = federation.names[said.member]
        if not federation.signed_live(name, self._text(said), said.signature):
            raise BadMessage("{} has not signed what is shown as its words", name)

    def _horizon(self) -> int:
        """The last tick at which another member can be. Where all speak at every tick, a member needs all its
        neighbours to go on: it is ahead of this one by the distance between them at most."""
        last = self._participant.federation.rounds - 1
        if not self._open:
            return last
        return min(last, max(self._own, default=-1) + len(self._participant.federation.members))

    def _extend(self, tick: int, digest: bytes) -> None:
        leaf = digest if self._open else sha256(self._participant.store.secret + digest).digest()
        self._chain = self._chain.then(tick, leaf)
        self._own[tick] = self._chain.digest

    def _sign(self, tick: int) -> wire.Said:
        said = wire.Said(member=self._participant.me, tick=tick, digest=self._own[tick])
        said.signature = self._participant.identity.sign(self._text(said))
        return said

    def _text(self, said: wire.Said) -> bytes:
        run = bytes.fromhex(self._participant.federation.run)
        return _DOMAIN + run + said.member.to_bytes(4, "big") + said.tick.to_bytes(4, "big") + said.digest


def _alone(said: wire.Said) -> wire.Said:
    """A statement without fields that we do not know, which would be passed on, and without the message that it came
    with: as a part, it would keep all of it in memory."""
    return wire.Said(member=said.member, tick=said.tick, digest=said.digest, signature=said.signature)


def _newest(known: Mapping[int, wire.Said], reached: int) -> int:
    """The last tick up to this one of which there is a statement; -1 if there is none."""
    newest = max(known, default=-1)
    return newest if newest <= reached else max((tick for tick in known if tick <= reached), default=-1)
