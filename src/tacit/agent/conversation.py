"""What passes between an agent and its neighbours beside the work of a tick: which run this is, who has met whom, which
process speaks, what members have signed, and how a question about a tick is answered.

The server of an agent and its peers (`tacit.agent.transport`) talk to a `Conversation`; the ticks are in
`tacit.agent.loop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from tacit.agent.federation import TOTALS, difference
from tacit.agent.heard import MessageChain
from tacit.agent.incarnation import Incarnations
from tacit.agent.ledger_heads import Heads
from tacit.agent.membership import dropout
from tacit.agent.membership.meeting import Meeting
from tacit.agent.monitoring.logs import log
from tacit.agent.signed_words import MOST, Statements
from tacit.agent.transport.refusals import Refusals
from tacit.agent.transport.wire import BadMessage, bare
from tacit.agent.transport.wire_pb2 import Greeting, Message, Question, Standing
from tacit.errors import Over

if TYPE_CHECKING:  # it speaks for an agent, and is a part of it
    from tacit.agent.loop import AgentLoop

TOTAL = ""  # in place of a neighbour's name, for what is heard from all members together
_TELL_TIMEOUT = 5.0  # seconds to tell the neighbours why this agent stops


class Conversation:
    """What one agent says, and takes in, in one run. It has heard the `neighbours` up to a tick."""

    def __init__(self, agent: AgentLoop, neighbours: Iterable[str], heard: int) -> None:
        participant = self.participant = agent.participant
        self._agent, self._progress, self._liveness = agent, agent.progress, agent.liveness
        self.changed = agent.changed
        self.ended: asyncio.Future[Over] = asyncio.get_running_loop().create_future()  # why this process must stop
        self.heard = dict.fromkeys(neighbours, heard)  # this agent has all that a neighbour said before this tick
        self.chains = participant.store.heard()  # of what the state has taken in
        self.hashed: dict[str, bytes] = {}  # by neighbour: the SHA-256 of what it said last
        self.meeting, self.heads = Meeting(participant), Heads(participant)
        self.statements, self._incarnations = Statements(participant), Incarnations(participant)
        self._refusals = Refusals(agent.progress.traffic)
        self._totals_before: dict[int, bytes] = {}  # a tick -> the digest of the totals before it
        self.refused: dict[str, str] = {}  # by neighbour that has answered the present question with nonsense: why
        self._other_renewals: set[str] = set()  # the neighbours of which the log says so

    # What neighbours ask

    def find(self, question: Question) -> bytes | None:
        """The bytes that answer a question; None if they are not ready yet, or this process stops."""
        if self.ended.done():
            return None
        tick, member = question.tick, question.sender
        if question.phase == dropout.STATE and dropout.goes_on(self.participant.federation):
            state = self._agent.state_after(tick)
            return None if state is None else state + self._beside(question)
        if not (tick < self._agent.rounds and member in self._agent.role(tick).heard_by):
            raise BadMessage("there is no message for {} at tick {}", self.participant.federation.names[member], tick)
        message = self._agent.committed(tick)
        answer = None if message is None else self._agent.delivery.answer(question, message)
        return None if answer is None else answer + self._beside(question)

    def _beside(self, question: Question) -> bytes:
        """What is added to an answer when it leaves. (Bytes of one message, put together, are the whole message.)"""
        standing = self.standing(self.participant.federation.names[question.sender])
        if question.phase:
            return Message(standing=standing).SerializeToString()
        own, others = self.statements.own(question.tick), self.statements.others(question.sender)
        contradictions, totals = self.statements.contradictions.values(), self._totals_before.get(question.tick)
        return Message(
            standing=standing, own=own, said=others, contradictions=contradictions, totals=totals
        ).SerializeToString()

    def greeting(self, name: str) -> Greeting:
        """What a neighbour has to know about this agent."""
        federation, names = self.participant.federation, self.participant.federation.names
        return Greeting(
            name=self.participant.name,
            parts=federation.parts,
            without=federation.absent,
            met=self.meeting.for_greeting(),
            heard=self.heard.get(name, 0),  # this agent has all that the neighbour said before this tick
            key=self._agent.delivery.own_key,
            keys=self._agent.delivery.keys,
            absences=self._liveness.absences.for_greeting(),
            ledger=self.heads.own(),
            seen=self.heads.seen(name),
            renewals=federation.renewed,
            standing=self.standing(name),
            said=self.statements.others(names.index(name) if name in names else -1),
            contradictions=self.statements.contradictions.values(),
        )

    def greeted(self, name: str, greeting: Greeting) -> None:
        """Takes in a neighbour's greeting."""
        federation = self.participant.federation
        if differs := difference(federation.parts, dict(greeting.parts)):
            raise BadMessage(
                "its federation file differs from ours in: {}", ", ".join(differs[:5]) + ", ..." * (len(differs) > 5)
            )
        if greeting.renewals != federation.renewed and name not in self._other_renewals:
            self._other_renewals.add(name)
            log.warning(
                f"{name} has other renewals of certificates in its federation file than we have: compare the files "
                "(tacit federation show)"
            )
        agreed, without = (federation.agreed or federation).names, set(greeting.without)
        self._liveness.absences.take(greeting.absences)
        self._liveness.decide()
        if more := sorted((without & set(agreed)) - set(federation.absent)):
            names = ", ".join(more)
            if not federation.go_on_after:
                raise BadMessage("it goes on without {}, which the federation file does not allow", names)
            if not any(map(self._liveness.absences.proven, more)):
                raise BadMessage("it goes on without {}, but too few neighbours have signed that: not believed", names)
        if without == set(federation.absent):  # it is in the same run
            self.met(name, greeting.standing)
            self._take(name, greeting)
            if line := self.heads.take(name, greeting):
                log.warning(line)
            self.meeting.take(greeting.met)
            for key in (greeting.key, *greeting.keys):
                self._agent.delivery.take_key(key)
            self.changed.notify()

    def may_leave(self, name: str) -> bool:
        """Notes that this neighbour needs no more from this agent; says whether it may leave.

        The neighbour has all signatures of the meeting. It must stay until this agent has them, too.
        """
        # A neighbour that says it a thousand times writes to the disk once.
        if self.meeting.complete and name not in self.participant.store.finished_neighbours():
            self.participant.store.mark_finished(name)
        return self.meeting.complete

    def contact(self, name: str) -> None:
        """There was a sign of life of a neighbour. One that has signed two versions counts as away, and so does one as
        long as its answers are refused: otherwise it could hold up the others by answering "not yet", or nonsense."""
        if name not in self.statements.contradictions and name not in self.refused:
            self._liveness.contact(name)

    # The member that speaks, and what it has signed

    def standing(self, name: str) -> Standing:
        """Which process this is, and what it knows of the neighbour's."""
        return self._incarnations.standing(name)

    def met(self, name: str, standing: Standing) -> None:
        """Takes in which process of a neighbour speaks."""
        if name in self.statements.contradictions:
            raise BadMessage("it has signed two versions of a tick")
        with self._stopping():
            self._incarnations.take(name, standing)

    def words(self, name: str, message: Message) -> None:
        """Takes in what comes with a message of phase 0."""
        self.hashed[name] = sha256(bare(message)).digest()
        chain = self.chains.get(name, MessageChain()).then(message.tick, self.hashed[name])
        with self._stopping():
            self.statements.hear(self.participant.federation.names.index(name), message, chain)
        self._compare_totals(name, message)
        self._take(name, message)

    def _take(self, name: str, message: Message | Greeting) -> None:
        """What members have signed, as a neighbour passes it on. What cannot be checked here does not count. It is no
        reason to refuse the neighbour: it may know of a key that we have not heard of, or that we have revoked."""
        statements, most = self.statements, len(self.participant.federation.members)
        if len(message.said) > MOST + 1 or len(message.contradictions) > most:
            raise BadMessage("it passes on more statements than it may")  # each takes time to check
        found = [partial(statements.take_contradictions, [each]) for each in message.contradictions]
        found += [partial(statements.take, [each]) for each in message.said]
        with self._stopping():
            for take in found:
                try:
                    take()
                except BadMessage as error:
                    self._refusals.warn(f"{name} passes on: {error}", f"{name}: {error.rule}")

    def took_in(self, tick: int, hashed: Mapping[str, bytes]) -> None:
        """The state has taken in what was heard at this tick, which has these hashes."""
        self.chains = self.chains | {
            name: self.chains.get(name, MessageChain()).then(tick, each) for name, each in hashed.items()
        }

    def note_totals(self, tick: int) -> None:
        """Where all members hear one total at every tick, they compare those before this one."""
        if self.participant.federation.exchange == TOTALS:
            self._totals_before.pop(tick - 2, None)  # nobody is two ticks behind
            self._totals_before[tick] = self.chains.get(TOTAL, MessageChain()).digest

    def _compare_totals(self, name: str, message: Message) -> None:
        """Says that a neighbour has heard other totals. It is no proof, so that nobody has to stop."""
        own, tick = self._totals_before.get(message.tick), message.tick
        if own is None or message.totals in (b"", own) or name in self._progress.differing:
            return
        self._progress.differing[name] = tick
        log.warning(
            f"tick {tick}: {name} has heard other sums of all members before this tick than this agent has, and the "
            "models differ: a member hands on two versions of a sum, or one of the agents is broken"
        )

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """What is taken in inside may show that this process must stop, or that another member lies."""
        try:
            yield
        except Over as error:
            self.stop(error)
            raise BadMessage("it shows why this agent must stop") from None
        finally:
            self._accuse()

    def stop(self, reason: Over) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def _accuse(self) -> None:
        """A member that has signed two versions of a tick is named, and the run is over: or goes on without it, where
        the federation allows that. Nobody listens to it any more, so it will soon be away."""
        for name, found in self.statements.contradictions.items():
            if name in self._progress.accused:
                continue
            self._progress.accused[name] = found.one.tick
            line = f"{name} has signed two versions of what it said at tick {found.one.tick}"
            if self.participant.federation.go_on_after:
                log.warning(f"{line}: this agent does not listen to it any more")
            else:
                log.warning(f"{line}: the run is over")
                self.stop(Over(f"{line}: the run is over. Agree on a new run under another title, without {name}"))

    async def tell(self) -> None:
        """Tells the neighbours why this process stops, as far as they can be reached soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TELL_TIMEOUT):
                await asyncio.gather(
                    *(p.greet(partial(self.greeting, p.name), lambda _: None) for p in self._agent.peers.values())
                )
