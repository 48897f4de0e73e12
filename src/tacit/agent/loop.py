"""The loop of `tacit.simulate` for one agent among others: the same algorithm, a block of one, neighbours on a network.

At every tick at which it speaks, the agent computes, commits (`tacit.agent.store`), marks in the ledger what it has
committed, and only then lets its neighbours ask. At every tick at which it listens, it asks the neighbours that it
listens to, and waits. At other ticks it does nothing. After a restart it starts after the last tick that was committed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import sha256
from typing import TypeVar

import numpy as np

from tacit.agent.conversation import TOTAL, Conversation
from tacit.agent.delivery import Rows, Sums
from tacit.agent.federation import SUMS, TOTALS
from tacit.agent.membership import dropout
from tacit.agent.membership.liveness import HEARTBEAT, Liveness
from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Progress
from tacit.agent.participant import Participant
from tacit.agent.robust_listening import Reading
from tacit.agent.state_slots import Arrays
from tacit.agent.totals_delivery import TotalsDelivery
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.server import Signal
from tacit.agent.transport.wire import BadMessage, packed, row_of
from tacit.agent.transport.wire_pb2 import Greeting, Message
from tacit.agent.waiting import Waiting
from tacit.core.release import Inbox
from tacit.core.schedule import role
from tacit.errors import NotNow, Over
from tacit.privacy.ledger import Head

_AGAIN = (0.1, 2.0)  # seconds between two greetings while members have not all met: the first time, and at most
_BRIEF = 0.05  # seconds of computing for which neighbours can wait
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
        self.delivery: Rows | Sums | TotalsDelivery
        if federation.exchange == TOTALS:
            self.delivery = TotalsDelivery(participant, self.peers, self.changed)
        else:
            self.delivery = (Sums if federation.exchange == SUMS else Rows)(participant, self.peers)
        self._reading = Reading(participant, self.progress)
        self._view = federation.graph.view(np.array([participant.me]))
        start = np.zeros((1, participant.problem.dimension))  # public: neighbours know each other's
        starts = Inbox(np.repeat(start, len(self.neighbours), axis=0), np.array([0, len(self.neighbours)]))
        self._state = self.algorithm.init(participant.problem, self._view, start, starts)
        self.role = lru_cache(maxsize=8)(lambda t: role(self.schedule.turn(t), participant.me))
        self._message = lru_cache(maxsize=8)(participant.store.message)  # is written once
        self._compute_seconds = math.inf  # of the last step
        self._spoken = -1  # the last tick that was committed
        self._published = -1  # the last tick whose bytes may leave
        if (saved := participant.store.state()) is not None:
            self._spoken, arrays = saved
            for part in (self.delivery, self._reading):
                part.remember({name: arrays.pop(name) for name in part.memory})
            self._state = type(self._state)(**arrays)
        self._totals = max(self._spoken, 0)  # how many totals the state is made of, if the members share their noise
        if saved is None and dropout.goes_on(federation):
            self._totals, arrays = dropout.reached(participant)
            self._state = self._state._replace(**{name: arrays[name] for name in self._state._fields if arrays})
        near = [federation.names[j] for j in self.neighbours]
        self.liveness = Liveness(participant, near, self._totals, self._spoken >= 0)
        self.progress.contacts = self.liveness.contacts
        self.conversation = Conversation(self, near, max(self._spoken, 0))
        self._waiting = Waiting(self)
        if self._spoken >= 0:
            self.conversation.note_totals(self._spoken)

    # What the agent does

    async def run(self, patience: float | None) -> np.ndarray:
        """Runs every tick that is left; gives the model."""
        if self._spoken >= 0:
            self.participant.mark_committed()  # what an earlier process has committed, it may have sent
            self._publish()
        if self._spoken < self.rounds:
            await self._meet(patience)
            log.info("all members have met")
            self.liveness.absences.begun = True
            self._pay()
            await self._within(patience, self._catch_up(), self.conversation.meeting.start)
            for t in range(max(self._spoken, self.conversation.meeting.start), self.rounds):
                self.liveness.absences.tick = t
                with self.progress.ticking():
                    await self._tick(t, patience)
            self.participant.store.finish(self.rounds, self._arrays(), self.conversation.chains, self._head())
            self._spoken = self.liveness.absences.tick = self.rounds
            self._show("heard all messages", self.rounds)
            log.info("heard all messages")
            self._reading.log_moved(self.rounds)
        return np.asarray(self.algorithm.estimate(self._state)[0])

    async def _tick(self, t: int, patience: float | None) -> None:
        mine = self.role(t)
        self.conversation.note_totals(t)
        coming = asyncio.create_task(self._hear(t, mine.hears)) if mine.hears else None
        try:
            if mine.speaks and t > self._spoken:
                self._show("computing", t)
                await self._speak(t)
            if coming is not None:
                names = [self.participant.federation.names[j] for j in mine.hears]
                missing = [each for each in names if self.conversation.heard[each] <= t]
                self._show(f"waiting for {', '.join(names)}", t, missing)
                said, hashed = await self._within(patience, coming, t)
                inbox = self._reading.read(said, mine.hears, self._own(t), t)
                self._state = self.algorithm.listen(self._state, inbox, self._view, t)
                # With the state, and not before: what is heard while this agent speaks is heard again after a crash.
                self.conversation.took_in(t, hashed)
                self._totals = t + 1
        finally:
            if coming is not None:
                coming.cancel()

    async def _speak(self, t: int) -> None:
        """Computes, commits, marks in the ledger, and only then lets anybody ask."""
        participant = self.participant
        compute = partial(self.algorithm.speak, self._state, participant.problem, self._view, participant.noise, t)
        begin = participant.clock.steady()
        try:
            # A thread lets this agent answer neighbours meanwhile, but starting it takes longer than a brief step.
            # Where an agent that does not answer is soon taken to be away, every step runs in a thread: nobody knows
            # beforehand that it will be brief.
            in_thread = self._compute_seconds > _BRIEF or participant.federation.go_on_after > 0
            self._state, release = await asyncio.to_thread(compute) if in_thread else compute()
            self._compute_seconds = participant.clock.steady() - begin
        except Exception as error:
            if participant.ledger is not None:
                try:
                    participant.store.fail(t, str(error))  # fresh noise would be a second look at the records
                finally:  # so, too, if the store is put back, or could not be written
                    participant.mark(t, sha256(b"nothing: it failed").digest())
            raise
        (event,) = release.events
        if event != participant.events[t]:
            raise Over(
                f"tick {t} would cost {event}, but {participant.events[t]} was planned and paid for; nothing was sent"
            )
        message = self.delivery.message(t, release)
        participant.store.commit(t, self._arrays(), message, event, self.conversation.chains, self._head())
        self._spoken = t
        self.progress.commits += 1
        self.conversation.statements.speak(t)
        participant.mark(t, participant.store.digest(t))
        self._publish()

    def _publish(self) -> None:
        """Lets what is committed, and marked, leave; unless this process stops."""
        if self.conversation.ended.done():
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
            self.conversation.heard[name] = max(self.conversation.heard[name], t + 1)
            self.progress.heard(name)
            if message is not None:
                hashed[name] = self.conversation.hashed[name]

        async def own() -> bytes:
            while (message := self.committed(t)) is None:
                await self.changed.wait()
            return message

        inbox = await self.delivery.hear(t, senders, own, heard)
        if self.participant.federation.exchange == TOTALS:
            hashed[TOTAL] = sha256(inbox.sum().tobytes()).digest()
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
            self.conversation.heads.require_current()
            self.conversation.meeting.sign()
            pause, most = _AGAIN
            while not (self.delivery.complete and self.conversation.meeting.complete):
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
        peer, talk, store = self.peers[j], self.conversation, self.participant.store.path.name

        def same(answer: Greeting) -> None:
            talk.greeted(peer.name, answer)
            talk.contact(peer.name)  # also if it is still in a run that this agent has left, and calibrates the next
            if set(answer.without) != set(self.participant.federation.absent):
                raise BadMessage("it is in another run, with other absent members")
            if answer.heard > self.rounds:
                raise BadMessage("it says that it has heard {} ticks; the run has {}", answer.heard, self.rounds)
            for t in range(answer.heard - 1, self._spoken, -1):
                if j in self.role(t).heard_by:
                    rule = (
                        "it says that it has heard {} at tick {}, but {} does not have that tick. If {} is an old "
                        "copy, stop this agent and put the newest copy back, or agree on a new run under another title"
                    )
                    raise BadMessage(rule, self.participant.name, t, store, store)

        await peer.greet(partial(talk.greeting, peer.name), same)

    def _pay(self) -> None:
        """Pays for the whole run before its first noise is drawn; after a restart this costs nothing more."""
        if dropout.goes_on(self.participant.federation):
            dropout.check_count(self.participant, self.conversation.meeting.start)
        self.conversation.heads.require_current()
        self.conversation.heads.settle()
        (run, events), ledger, books = self.participant.paid, self.participant.ledger, self.participant.books
        if ledger is None:
            return
        if books is not None:  # members meet for days: meanwhile another process may have paid from another ledger
            books.require_payer(run, ledger)
            books.note_own(ledger)
        ledger.reserve_run(run, events, self.participant.about)
        if books is not None:
            books.note_payer(run, ledger)
            books.note_own(ledger)  # a copy from before is old

    async def _catch_up(self) -> None:
        """If a run goes on where another was left, and this agent has missed its last total: gets the state after it
        from the first neighbour that has it."""
        if self._totals < (start := self.conversation.meeting.start):
            self._show("catching up", start)
            reach = dropout.reach(self.participant.federation, start)
            self._state = await dropout.first_state(self.algorithm, self._state, self.peers.values(), start, reach)
            self._totals = start
            self.changed.notify()

    def state_after(self, totals: int) -> bytes | None:
        """The state for a neighbour that has missed the total with which this run starts."""
        if not self.conversation.meeting.complete or self._totals < totals == self.conversation.meeting.start:
            return None
        if not self._totals == totals == self.conversation.meeting.start:
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
                await peer.greet(partial(self.conversation.greeting, peer.name), lambda answer: None)
            await peer.leave()
            store.mark_notified(peer.name)

        notified = store.notified_neighbours()
        calls = [asyncio.create_task(notify(peer)) for peer in self.peers.values() if peer.name in names - notified]
        try:
            async with asyncio.timeout(linger):
                while not (self.liveness.away.done() or self.conversation.ended.done()) and (
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
        return away.done() and dropout.follows(self.participant, self.conversation.heard, away.result().names)

    # Beside the ticks

    async def heartbeat(self) -> None:
        """Says again and again that the process is alive: in the store, and to whoever looks from outside."""
        while True:
            self.beat(self.doing)
            self.progress.heartbeat()
            self._waiting.look()
            await asyncio.sleep(HEARTBEAT)

    def beat(self, doing: str) -> None:
        """Writes down that the process is alive, and what it does."""
        participant = self.participant
        accused, reached = self.progress.accused, self.conversation.statements.reached()
        participant.store.heartbeat(participant.clock.wall(), self.liveness.contacts(), doing, accused, reached)

    async def watch_neighbour(self, j: int) -> None:
        """Notices if a neighbour is away."""
        name, why = self.participant.federation.names[j], partial(self.why_quiet, j)
        await self.liveness.watch(name, partial(self._greet, j), partial(self._needs, j), why)

    def why_quiet(self, j: int) -> str:
        """Why a neighbour gave no sign of life the last time that it was asked for one."""
        peer = self.peers[j]
        return self.conversation.refused.get(peer.name, peer.trouble)

    def _needs(self, j: int) -> bool:
        """Whether a neighbour has not finished, or this agent has to hear it still. If this agent has finished, another
        member that has not must miss the neighbour, too."""
        name, absences = self.participant.federation.names[j], self.liveness.absences
        if self._spoken == self.rounds and all(each.tick == self.rounds for each in absences.about([name])):
            return False
        if name not in self.participant.store.finished_neighbours():
            return True
        if isinstance(self.delivery, TotalsDelivery):  # of its message of a tick, a share comes first, the total last
            return self._spoken < self.rounds
        return any(j in self.role(t).hears for t in range(self.conversation.heard[name], self.rounds))

    def _show(self, doing: str, done: int, waiting_for: Iterable[str] = ()) -> None:
        news, self.doing = doing != self.doing, doing
        self.progress.show(doing, done, waiting_for)
        self._watch(doing, done, self.rounds)
        if news:
            log.debug(doing)

    def committed(self, tick: int) -> bytes | None:
        """What this agent said at a tick, if it may leave."""
        return self._message(tick) if tick <= self._published else None

    def _own(self, tick: int) -> np.ndarray:
        """What this agent said at a tick, (d,); zeros if it did not speak or was silent."""
        nothing = np.zeros(self.participant.problem.dimension)
        if not self.role(tick).speaks or (message := self.committed(tick)) is None:
            return nothing
        row = row_of(Message.FromString(message), len(nothing))
        return nothing if row is None else row

    def _arrays(self) -> Arrays:
        parts = (self._state._asdict(), self.delivery.memory, self._reading.memory)
        found = {name: array for part in parts for name, array in part.items()}
        assert len(found) == sum(map(len, parts)), "two arrays of one name: one would be lost over a crash"
        return found
