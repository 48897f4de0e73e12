"""The loop of `tacit.simulate` for one agent among others: the same algorithm, a block of one, neighbours on a network.

At every tick at which it speaks, the agent computes, commits (`tacit.agent.store`), marks in the ledger what it has
committed, and only then lets its neighbours ask. At every tick at which it listens, it asks the neighbours that it
listens to, and waits. At other ticks it does nothing. After a restart it starts after the last tick that was committed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from hashlib import sha256
from typing import TypeVar

import numpy as np

from tacit.agent.books import Heads
from tacit.agent.delivery import Rows, Sums
from tacit.agent.federation import SUMS, TOTALS, difference
from tacit.agent.heard import Chain, extended
from tacit.agent.incarnation import Incarnations
from tacit.agent.membership import dropout
from tacit.agent.membership.liveness import HEARTBEAT, Liveness
from tacit.agent.membership.meeting import Meeting
from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Progress
from tacit.agent.participant import Participant
from tacit.agent.robust_listening import Reading
from tacit.agent.signed_words import MOST, Statements
from tacit.agent.store import Arrays
from tacit.agent.totals_delivery import Totals
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.refusals import Refusals
from tacit.agent.transport.server import Signal
from tacit.agent.transport.wire import BadMessage, bare, packed, row_of
from tacit.agent.transport.wire_pb2 import Greeting, Message, Question, Standing
from tacit.core.release import Inbox
from tacit.core.schedule import role
from tacit.errors import NotNow, Over
from tacit.privacy.ledger import Head

_AGAIN = (0.1, 2.0)  # seconds between two greetings while members have not all met: the first time, and at most
_TOTAL = ""  # in place of a neighbour's name, for what is heard from all members together
_BRIEF = 0.05  # seconds of computing for which neighbours can wait
_TELL_TIMEOUT = 5.0  # seconds to tell the neighbours why this agent stops
_LEAVE_TIMEOUT = 30.0  # seconds to tell the neighbours that this agent leaves, after it has stayed long enough

Watch = Callable[[str, int, int], None]  # what the agent is doing, how many ticks are done, of how many
T = TypeVar("T")


class AgentLoop:
    """One agent in one run: where it is, and which messages it has heard."""

    def __init__(self, participant: Participant, watch: Watch, progress: Progress | None = None) -> None:
        self.participant, self._watch = participant, watch
        self.progress = Progress() if progress is None else progress
        federation, setting = participant.federation, participant.federation.setting
        self.algorithm, self.rounds = setting.algorithm, setting.rounds
        self.progress.enter(participant.name, federation.run, self.rounds)
        self.schedule = self.algorithm.schedule(federation.graph)
        self.neighbours = federation.graph.neighbours(participant.me).tolist()
        self.peers: dict[int, Peer] = {}
        self.doing = "starting"
        self.changed = Signal()
        self._delivery: Rows | Sums | Totals
        if federation.exchange == TOTALS:
            self._delivery = Totals(participant, self.peers, self.changed)
        else:
            self._delivery = (Sums if federation.exchange == SUMS else Rows)(participant, self.peers)
        self._reading = Reading(participant, self.progress)
        self._view = federation.graph.view(np.array([participant.me]))
        start = np.zeros((1, participant.problem.dimension))  # public: neighbours know each other's
        starts = Inbox(np.repeat(start, len(self.neighbours), axis=0), np.array([0, len(self.neighbours)]))
        self._state = self.algorithm.init(participant.problem, self._view, start, starts)
        self._role = lru_cache(maxsize=8)(lambda t: role(self.schedule.turn(t), participant.me))
        self._message = lru_cache(maxsize=8)(participant.store.message)  # is written once
        self._compute_seconds = math.inf  # of the last step
        self._spoken = -1  # the last tick that was committed
        self._published = -1  # the last tick whose bytes may leave
        self.ended: asyncio.Future[Over] = asyncio.get_running_loop().create_future()  # why this process must stop
        self._incarnations, self._statements = Incarnations(participant), Statements(participant)
        self._refusals = Refusals(self.progress.traffic)
        self._hashed: dict[str, bytes] = {}  # by neighbour: the SHA-256 of what it said last
        if (saved := participant.store.state()) is not None:
            self._spoken, arrays = saved
            for part in (self._delivery, self._reading):
                part.remember({name: arrays.pop(name) for name in part.memory})
            self._state = type(self._state)(**arrays)
        self._totals = max(self._spoken, 0)  # how many totals the state is made of, if the members share their noise
        if saved is None and dropout.goes_on(federation):
            self._totals, arrays = dropout.reached(participant)
            self._state = self._state._replace(**{name: arrays[name] for name in self._state._fields if arrays})
        near = [federation.names[j] for j in self.neighbours]
        self._heard = dict.fromkeys(near, max(self._spoken, 0))
        self._chains = participant.store.heard()  # of what the state has taken in
        self._totals_before: dict[int, bytes] = {}  # a tick -> the digest of the totals before it
        if self._spoken >= 0:
            self._note_totals(self._spoken)
        self._meeting = Meeting(participant)
        self._heads = Heads(participant)
        self._other_renewals: set[str] = set()  # the neighbours of which the log says so
        self.liveness = Liveness(participant, near, self._totals, self._spoken >= 0)
        self._absences = self.liveness.absences
        self.progress.contacts = self.liveness.contacts

    # What the server asks

    def find(self, question: Question) -> bytes | None:
        """The bytes that answer a question; None if they are not ready yet, or this process stops."""
        if self.ended.done():
            return None
        tick, member = question.tick, question.sender
        if question.phase == dropout.STATE and dropout.goes_on(self.participant.federation):
            state = self._state_after(tick)
            return None if state is None else state + self._beside(question)
        if not (tick < self.rounds and member in self._role(tick).heard_by):
            raise BadMessage("there is no message for {} at tick {}", self.participant.federation.names[member], tick)
        message = self._committed(tick)
        answer = None if message is None else self._delivery.answer(question, message)
        return None if answer is None else answer + self._beside(question)

    def _beside(self, question: Question) -> bytes:
        """What is added to an answer when it leaves. (Bytes of one message, put together, are the whole message.)"""
        standing = self.standing(self.participant.federation.names[question.sender])
        if question.phase:
            return Message(standing=standing).SerializeToString()
        own, others = self._statements.own(question.tick), self._statements.others(question.sender)
        contradictions, totals = self._statements.contradictions.values(), self._totals_before.get(question.tick)
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
            met=self._meeting.for_greeting(),
            heard=self._heard.get(name, 0),  # this agent has all that the neighbour said before this tick
            key=self._delivery.own_key,
            keys=self._delivery.keys,
            absences=self._absences.for_greeting(),
            ledger=self._heads.own(),
            seen=self._heads.seen(name),
            renewals=federation.renewed,
            standing=self.standing(name),
            said=self._statements.others(names.index(name) if name in names else -1),
            contradictions=self._statements.contradictions.values(),
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
        self._absences.take(greeting.absences)
        self.liveness.decide()
        if more := sorted((without & set(agreed)) - set(federation.absent)):
            names = ", ".join(more)
            if not federation.go_on_after:
                raise BadMessage("it goes on without {}, which the federation file does not allow", names)
            if not any(map(self._absences.proven, more)):
                raise BadMessage("it goes on without {}, but too few neighbours have signed that: not believed", names)
        if without == set(federation.absent):  # it is in the same run
            self.met(name, greeting.standing)
            self._take(name, greeting)
            if line := self._heads.take(name, greeting):
                log.warning(line)
            self._meeting.take(greeting.met)
            for key in (greeting.key, *greeting.keys):
                self._delivery.take_key(key)
            self.changed.notify()

    def may_leave(self, name: str) -> bool:
        """Notes that this neighbour needs no more from this agent; says whether it may leave.

        The neighbour has all signatures of the meeting. It must stay until this agent has them, too.
        """
        # A neighbour that says it a thousand times writes to the disk once.
        if self._meeting.complete and name not in self.participant.store.finished_neighbours():
            self.participant.store.mark_finished(name)
        return self._meeting.complete

    def contact(self, name: str) -> None:
        """There was a sign of life of a neighbour. One that has signed two versions counts as away: otherwise it could
        hold up the others by answering "not yet"."""
        if name not in self._statements.contradictions:
            self.liveness.contact(name)

    # Who speaks, and what it has signed

    def standing(self, name: str) -> Standing:
        """Which process this is, and what it knows of the neighbour's."""
        return self._incarnations.standing(name)

    def met(self, name: str, standing: Standing) -> None:
        """Takes in which process of a neighbour speaks."""
        if name in self._statements.contradictions:
            raise BadMessage("it has signed two versions of a tick")
        with self._stopping():
            self._incarnations.take(name, standing)

    def words(self, name: str, message: Message) -> None:
        """Takes in what comes with a message of phase 0."""
        self._hashed[name] = sha256(bare(message)).digest()
        chain = self._chains.get(name, Chain()).then(message.tick, self._hashed[name])
        with self._stopping():
            self._statements.hear(self.participant.federation.names.index(name), message, chain)
        self._compare_totals(name, message)
        self._take(name, message)

    def _take(self, name: str, message: Message | Greeting) -> None:
        """What members have signed, as a neighbour passes it on. What cannot be checked here does not count. It is no
        reason to refuse the neighbour: it may know of a key that we have not heard of, or that we have revoked."""
        statements, most = self._statements, len(self.participant.federation.members)
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

    def _note_totals(self, tick: int) -> None:
        """Where all members hear one total at every tick, they compare those before this one."""
        if self.participant.federation.exchange == TOTALS:
            self._totals_before.pop(tick - 2, None)  # nobody is two ticks behind
            self._totals_before[tick] = self._chains.get(_TOTAL, Chain()).digest

    def _compare_totals(self, name: str, message: Message) -> None:
        """Says that a neighbour has heard other totals. It is no proof, so that nobody has to stop."""
        own, tick = self._totals_before.get(message.tick), message.tick
        if own is None or message.totals in (b"", own) or name in self.progress.differing:
            return
        self.progress.differing[name] = tick
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
            self._stop(error)
            raise BadMessage("it shows why this agent must stop") from None
        finally:
            self._accuse()

    def _stop(self, reason: Over) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def _accuse(self) -> None:
        """A member that has signed two versions of a tick is named, and the run is over: or goes on without it, where
        the federation allows that. Nobody listens to it any more, so it will soon be away."""
        for name, found in self._statements.contradictions.items():
            if name in self.progress.accused:
                continue
            self.progress.accused[name] = found.one.tick
            line = f"{name} has signed two versions of what it said at tick {found.one.tick}"
            if self.participant.federation.go_on_after:
                log.warning(f"{line}: this agent does not listen to it any more")
            else:
                log.warning(f"{line}: the run is over")
                self._stop(Over(f"{line}: the run is over. Agree on a new run under another title, without {name}"))

    async def tell(self) -> None:
        """Tells the neighbours why this process stops, as far as they can be reached soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TELL_TIMEOUT):
                await asyncio.gather(
                    *(p.greet(partial(self.greeting, p.name), lambda _: None) for p in self.peers.values())
                )

    # What the agent does

    async def run(self, patience: float | None) -> np.ndarray:
        """Runs every tick that is left; gives the model."""
        if self._spoken >= 0:
            self._mark_committed()  # what an earlier process has committed, it may have sent
            self._publish()
        if self._spoken < self.rounds:
            await self._meet(patience)
            log.info("all members have met")
            self._absences.begun = True
            self._pay()
            await self._within(patience, self._catch_up(), self._meeting.start)
            for t in range(max(self._spoken, self._meeting.start), self.rounds):
                self._absences.tick = t
                with self.progress.ticking():
                    await self._tick(t, patience)
            self.participant.store.finish(self.rounds, self._arrays(), self._chains, self._head())
            self._spoken = self._absences.tick = self.rounds
            self._show("heard all messages", self.rounds)
            log.info("heard all messages")
            self._reading.log_moved(self.rounds)
        return np.asarray(self.algorithm.estimate(self._state)[0])

    async def _tick(self, t: int, patience: float | None) -> None:
        mine = self._role(t)
        self._note_totals(t)
        coming = asyncio.create_task(self._hear(t, mine.hears)) if mine.hears else None
        try:
            if mine.speaks and t > self._spoken:
                self._show("computing", t)
                await self._speak(t)
            if coming is not None:
                names = [self.participant.federation.names[j] for j in mine.hears]
                self._show(f"waiting for {', '.join(names)}", t, [each for each in names if self._heard[each] <= t])
                said, hashed = await self._within(patience, coming, t)
                inbox = self._reading.read(said, mine.hears, self._own(t), t)
                self._state = self.algorithm.listen(self._state, inbox, self._view, t)
                # With the state, and not before: what is heard while this agent speaks is heard again after a crash.
                self._chains = extended(self._chains, t, hashed)
                self._totals = t + 1
        finally:
            if coming is not None:
                coming.cancel()

    async def _speak(self, t: int) -> None:
        """Computes, commits, marks in the ledger, and only then lets anybody ask."""
        participant = self.participant
        compute = partial(self.algorithm.speak, self._state, participant.problem, self._view, participant.noise, t)
        begin = time.perf_counter()
        try:
            # A thread lets this agent answer neighbours meanwhile, but starting it takes longer than a brief step.
            # Where an agent that does not answer is soon taken to be away, every step runs in a thread: nobody knows
            # beforehand that it will be brief.
            in_thread = self._compute_seconds > _BRIEF or participant.federation.go_on_after > 0
            self._state, release = await asyncio.to_thread(compute) if in_thread else compute()
            self._compute_seconds = time.perf_counter() - begin
        except Exception as error:
            if participant.ledger is not None:
                try:
                    participant.store.fail(t, str(error))  # fresh noise would be a second look at the records
                finally:  # so, too, if the store is put back, or could not be written
                    self._mark(t, sha256(b"nothing: it failed").digest())
            raise
        (event,) = release.events
        if event != participant.events[t]:
            raise Over(
                f"tick {t} would cost {event}, but {participant.events[t]} was planned and paid for; nothing was sent"
            )
        message = self._delivery.message(t, release)
        participant.store.commit(t, self._arrays(), message, event, self._chains, self._head())
        self._spoken = t
        self.progress.commits += 1
        self._statements.speak(t)
        self._mark(t, participant.store.digest(t))
        self._publish()

    def _mark(self, tick: int, digest: bytes) -> None:
        """From now on the ledger knows, before anybody else can, what may have left at this tick."""
        participant = self.participant
        if participant.ledger is not None and participant.incarnation is not None:
            number, start = participant.number(tick), participant.incarnation.number
            participant.ledger.mark(participant.paid[0], number, digest, start)

    def _mark_committed(self) -> None:
        """After a crash between the commit and its mark."""
        marked = {} if self.participant.ledger is None else self.participant.ledger.marks(self.participant.paid[0])
        for tick, digest in self.participant.store.digests().items():
            if marked.get(self.participant.number(tick)) != digest:  # another process may have marked since the check
                self._mark(tick, digest)

    def _publish(self) -> None:
        """Lets what is committed, and marked, leave; unless this process stops."""
        if self.ended.done():
            return
        self._published = self._spoken
        self.changed.notify()

    def _head(self) -> Head | None:
        """Of the ledger as of now: the store notes it, so that an old copy of the ledger is seen."""
        return None if self.participant.ledger is None else self.participant.ledger.head()

    async def _hear(self, t: int, senders: Sequence[int]) -> tuple[Inbox, dict[str, bytes]]:
        """The messages of a tick, and the hash of each, if single messages are heard; or that of the total."""
        hashed: dict[str, bytes] = {}

        def heard(j: int, message: Message | None = None) -> None:
            name = self.participant.federation.names[j]
            self._heard[name] = max(self._heard[name], t + 1)
            self.progress.heard(name)
            if message is not None:
                hashed[name] = self._hashed[name]

        async def own() -> bytes:
            while (message := self._committed(t)) is None:
                await self.changed.wait()
            return message

        inbox = await self._delivery.hear(t, senders, own, heard)
        if self.participant.federation.exchange == TOTALS:
            hashed[_TOTAL] = sha256(inbox.sum().tobytes()).digest()
        return inbox, hashed

    async def _meet(self, patience: float | None) -> None:
        """Waits until this agent has met all neighbours, and all members have signed that they have met theirs.

        So no member pays for a run in which another member never took part (`tacit.agent.membership.meeting`).
        """
        finished, names = self.participant.store.finished_neighbours(), self.participant.federation.names
        missing = {j: names[j] for j in self.neighbours if names[j] not in finished}

        async def meet(j: int) -> None:
            await self._greet(j)
            del missing[j]
            waiting = ", ".join(missing.values())
            self._show(f"waiting for {waiting}" if missing else "met all neighbours", 0, missing.values())

        async def meet_all() -> None:
            await asyncio.gather(*(meet(j) for j in list(missing)))
            self._heads.require_current()
            self._meeting.sign()
            pause, most = _AGAIN
            while not (self._delivery.complete and self._meeting.complete):
                self._show("waiting until all members have met", 0)
                await asyncio.sleep(pause)
                pause = min(2 * pause, most)
                await asyncio.gather(*(self._greet(j) for j in self.neighbours))

        self._show(f"waiting for {', '.join(missing.values())}", 0, missing.values())
        await self._within(patience, meet_all(), 0)

    async def _greet(self, j: int) -> None:
        """Waits until a neighbour is there, is in the same run, and has heard nothing that this agent does not know of.

        If it shows what this agent has signed, and this agent does not know it, this agent stops: it is a copy
        (`tacit.agent.signed_words`). If it only says so, it may lie, and this agent waits: one lie must not end an
        honest process. What may leave does not hang on that: the ledger knows.
        """
        peer, store = self.peers[j], self.participant.store.path.name

        def same(answer: Greeting) -> None:
            self.greeted(peer.name, answer)
            self.contact(peer.name)  # also if it is still in a run that this agent has left, and calibrates the next
            if set(answer.without) != set(self.participant.federation.absent):
                raise BadMessage("it is in another run, with other absent members")
            if answer.heard > self.rounds:
                raise BadMessage("it says that it has heard {} ticks; the run has {}", answer.heard, self.rounds)
            for t in range(answer.heard - 1, self._spoken, -1):
                if j in self._role(t).heard_by:
                    rule = (
                        "it says that it has heard {} at tick {}, but {} does not have that tick. If {} is an old "
                        "copy, stop this agent and put the newest copy back, or agree on a new run under another title"
                    )
                    raise BadMessage(rule, self.participant.name, t, store, store)

        await peer.greet(partial(self.greeting, peer.name), same)

    def _pay(self) -> None:
        """Pays for the whole run before its first noise is drawn; after a restart this costs nothing more."""
        if dropout.goes_on(self.participant.federation):
            dropout.check_count(self.participant, self._meeting.start)
        self._heads.require_current()
        self._heads.settle()
        if self.participant.ledger is not None:
            self.participant.ledger.reserve_run(*self.participant.paid, self.participant.about)
            if self.participant.books is not None:
                self.participant.books.note_payer(self.participant.paid[0], self.participant.ledger)
                self.participant.books.note_own(self.participant.ledger)  # a copy from before is old

    async def _catch_up(self) -> None:
        """If a run goes on where another was left, and this agent has missed its last total: gets the state after it
        from the first neighbour that has it."""
        if self._totals < (start := self._meeting.start):
            self._show("catching up", start)
            reach = dropout.reach(self.participant.federation, start)
            self._state = await dropout.first_state(self.algorithm, self._state, self.peers.values(), start, reach)
            self._totals = start
            self.changed.notify()

    def _state_after(self, totals: int) -> bytes | None:
        """The state for a neighbour that has missed the total with which this run starts."""
        if not self._meeting.complete or self._totals < totals == self._meeting.start:
            return None
        if not self._totals == totals == self._meeting.start:
            raise BadMessage("there is no state after {} totals to ask for", totals)
        payload = dropout.packed_state(self.algorithm, self._state)
        return packed(self.participant.federation.run, self.participant.me, totals, payload, phase=dropout.STATE)

    async def _within(self, patience: float | None, coming: Awaitable[T], t: int) -> T:
        try:
            async with asyncio.timeout(patience):
                return await coming
        except TimeoutError:
            raise NotNow(
                f"tick {t}: {self.doing} for {patience:g} s without success; stopped. Nothing is lost: start the same "
                "command again to go on"
            ) from None

    async def leave(self, linger: float) -> None:
        """Tells the neighbours that this agent needs no more, and stays until they say so, too; or until they go on
        without somebody, in a run that this agent is not in."""
        store, federation = self.participant.store, self.participant.federation
        names = {federation.names[j] for j in self.neighbours} - set(federation.refused)

        async def notify(peer: Peer) -> None:
            if self.participant.books is not None:  # the neighbour keeps the ledger's head as of now
                await peer.greet(partial(self.greeting, peer.name), lambda answer: None)
            await peer.leave()
            store.mark_notified(peer.name)

        notified = store.notified_neighbours()
        calls = [asyncio.create_task(notify(peer)) for peer in self.peers.values() if peer.name in names - notified]
        try:
            async with asyncio.timeout(linger):
                while not (self.liveness.away.done() or self.ended.done()) and (
                    waiting := names - store.finished_neighbours()
                ):
                    self._show(f"staying for {', '.join(sorted(waiting))}", self.rounds, sorted(waiting))
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log.warning(
                f"{self.doing} for {linger:g} s, and they have not finished. If they come back later, start this agent "
                "again: they need its messages"
            )
        if self.follows():  # at once: the others wait for this agent, and it need not tell a member that is away
            for call in calls:
                call.cancel()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_TIMEOUT):
                await asyncio.gather(*calls)

    def follows(self) -> bool:
        """Whether this agent, which has finished, is needed in the run in which the others go on."""
        away = self.liveness.away
        return away.done() and dropout.follows(self.participant, self._heard, away.result().names)

    # Beside the ticks

    async def heartbeat(self) -> None:
        """Says again and again that the process is alive: in the store, and to whoever looks from outside."""
        while True:
            self.participant.store.heartbeat(self.liveness.contacts(), self.doing, self.progress.accused)
            self.progress.heartbeat()
            await asyncio.sleep(HEARTBEAT)

    async def watch_neighbour(self, j: int) -> None:
        """Notices if a neighbour is away."""
        name = self.participant.federation.names[j]
        await self.liveness.watch(name, partial(self._greet, j), partial(self._needs, j))

    def _needs(self, j: int) -> bool:
        """Whether a neighbour has not finished, or this agent has to hear it still. If this agent has finished, another
        member that has not must miss the neighbour, too."""
        name = self.participant.federation.names[j]
        if self._spoken == self.rounds and all(each.tick == self.rounds for each in self._absences.about([name])):
            return False
        if name not in self.participant.store.finished_neighbours():
            return True
        if isinstance(self._delivery, Totals):  # of its message of a tick, a share comes first, the total last
            return self._spoken < self.rounds
        return any(j in self._role(t).hears for t in range(self._heard[name], self.rounds))

    def _show(self, doing: str, done: int, waiting_for: Iterable[str] = ()) -> None:
        news, self.doing = doing != self.doing, doing
        self.progress.show(doing, done, waiting_for)
        self._watch(doing, done, self.rounds)
        if news:
            log.debug(doing)

    def _committed(self, tick: int) -> bytes | None:
        """What this agent said at a tick, if it may leave."""
        return self._message(tick) if tick <= self._published else None

    def _own(self, tick: int) -> np.ndarray:
        """What this agent said at a tick, (d,); zeros if it did not speak or was silent."""
        nothing = np.zeros(self.participant.problem.dimension)
        if not self._role(tick).speaks or (message := self._committed(tick)) is None:
            return nothing
        row = row_of(Message.FromString(message), len(nothing))
        return nothing if row is None else row

    def _arrays(self) -> Arrays:
        parts = (self._state._asdict(), self._delivery.memory, self._reading.memory)
        found = {name: array for part in parts for name, array in part.items()}
        assert len(found) == sum(map(len, parts)), "two arrays of one name: one would be lost over a crash"
        return found
