"""The loop of `tacit.simulate` for one agent among others: the same algorithm, a block of one, neighbours on a network.

At every tick in which it speaks, the agent computes, commits (`tacit.agent.store`), and lets its neighbours ask. At
every tick in which it listens, it asks those that it listens to, and waits. Ticks in which it does neither pass by. A
restart begins after the last tick that was committed.

**A neighbour that is away** is waited for; or, if the federation says so, for `go_on_after` seconds without a sign of
life. Then the agent signs that the neighbour is away, and tells the others in its greetings (`tacit.agent.absence`). An
agent leaves the run for that of the federation without a member (`Federation.without`) only if

- a quorum of that member's neighbours have signed, and
- it has itself had no sign of life from the member for `go_on_after` seconds, if it is a neighbour of it.

The new run begins anew: another graph is another problem for the method, with other settings, and costs what it costs.
An agent that sees the same proof about itself stops, so that its last neighbours miss it, too, and follow the others.
Without the proof nobody moves, whatever a greeting says. If the line is cut between two members alone, each signs that
the other is away, neither reaches a quorum, and the run waits until the line is mended.

**A sign of life** is a call that shows the neighbour's certificate, or its answer. A greeting is one only if it means
this run, one that this agent has left, or one that this agent has a proof for. A member that has gone elsewhere without
proof is as good as away.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from tacit.agent.absence import Absences
from tacit.agent.delivery import Rows, Sums
from tacit.agent.federation import SUMS, difference
from tacit.agent.meeting import Meeting
from tacit.agent.participant import Participant
from tacit.agent.reading import Reading
from tacit.agent.store import Arrays
from tacit.agent.transport import Peer, Server, Signal, log
from tacit.agent.wire import BadMessage, row_of
from tacit.agent.wire_pb2 import Greeting, Message, Question
from tacit.core.release import Inbox
from tacit.core.schedule import role
from tacit.errors import TacitError

_HEARTBEAT = 2.0  # seconds: between two signs of life
_AGAIN = (0.1, 2.0)  # seconds after which who has not met all yet is greeted again: the first time, and at most
_BRIEF = 0.05  # seconds for which neighbours may well wait
_FAREWELL = 30.0  # seconds in which who has stayed long enough still tells a neighbour that all was heard

Watch = Callable[[str, int, int], None]  # what the agent is doing, and how many ticks are behind it, of how many
Finished = Callable[[Participant, np.ndarray], None]
T = TypeVar("T")


class _Absent(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """These members are away, and the others are to go on."""

    def __init__(self, names: frozenset[str], reason: str, tick: int, statements: list[bytes]) -> None:
        super().__init__(reason)
        self.names, self.tick, self.statements = names, tick, statements


async def take_part(
    participant: Participant,
    *,
    listen: str | None = None,
    patience: float | None = None,
    linger: float = 600.0,
    watch: Watch = lambda doing, done, rounds: None,
    finished: Finished = lambda participant, model: None,
) -> np.ndarray:
    """Runs this member's part to the end, from wherever an earlier process left it; gives its model, (d,).

    It waits for neighbours for ever, or stops after `patience` seconds without one that it needs, or goes on without
    it. `finished` is called with the model and the participant in the run that it is of; after that the agent stays for
    neighbours that still need its words, at most `linger` seconds.
    """
    participant = participant.present()
    while True:
        try:
            return await _take_part(participant, listen, patience, linger, watch, finished)
        except _Absent as absence:
            left_over = _left_over(participant, absence.names, str(absence))
            participant.store.go_on(absence.names, absence.tick, absence.statements)
            participant = left_over
            gone = ", ".join(participant.federation.absent)
            log.warning(
                f"{absence}; goes on without {gone}, from the start, as the run {participant.federation.run[:16]}"
            )


def _left_over(participant: Participant, names: Collection[str], reason: str) -> Participant:
    """The participant in the run without these members; refused is what cannot be done or paid for without them."""
    who = ", ".join(sorted(names))
    if participant.name in names:
        raise TacitError(f"the others go on without {participant.name}: {reason}")
    try:
        left = participant.without(names)
        left.check()
    except TacitError as error:
        raise TacitError(f"{reason}; the run cannot go on without {who}: {error}") from None
    return left


async def _take_part(
    participant: Participant,
    listen: str | None,
    patience: float | None,
    linger: float,
    watch: Watch,
    finished: Finished,
) -> np.ndarray:
    """In this run, until it is over or left."""
    participant.check()
    part = _Part(participant, watch)
    async with AsyncExitStack() as stack:
        server = Server(participant.federation, participant.me, participant.identity, part)
        await server.start(listen or participant.federation.members[participant.me].address)
        stack.push_async_callback(server.stop)
        for j in part.neighbours:
            part.peers[j] = Peer(participant.federation, participant.me, j, participant.identity, part.contact)
            stack.push_async_callback(part.peers[j].close)
        endless = [asyncio.create_task(task) for task in (part.beat(), *map(part.keep_in_touch, part.neighbours))]
        work = asyncio.create_task(part.run(patience))
        for task in (*endless, work):
            stack.callback(task.cancel)
        either: tuple[asyncio.Future[Any], ...] = (work, part.absence, *endless)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            for task in endless:
                if task.done():  # it failed: who notices no absence would wait for ever
                    task.result()
            raise part.absence.result()
        model = work.result()
        finished(participant, model)
        await part.part_company(linger)
        part.doing = "finished"
        participant.store.beat(part.contacts(), part.doing)
    return model


class _Part:
    """What one run of the loop knows: where it is, and whom it has heard."""

    def __init__(self, participant: Participant, watch: Watch) -> None:
        self.participant, self._watch = participant, watch
        federation, setting = participant.federation, participant.federation.setting
        self.algorithm, self.rounds = setting.algorithm, setting.rounds
        self.schedule = self.algorithm.schedule(federation.graph)
        self.neighbours = federation.graph.neighbours(participant.me).tolist()
        self.peers: dict[int, Peer] = {}
        self.doing = "starting"
        self.changed = Signal()
        self.absence: asyncio.Future[_Absent] = asyncio.get_running_loop().create_future()
        self._line = (Sums if federation.exchange == SUMS else Rows)(participant, self.peers)
        self._reading = Reading(participant)
        self._began = time.monotonic()
        self._contacts: dict[str, float] = {}  # when there was a sign of life of a neighbour
        self._view = federation.graph.view(np.array([participant.me]))
        start = np.zeros((1, participant.problem.dimension))  # public: neighbours know each other's
        starts = Inbox(np.repeat(start, len(self.neighbours), axis=0), np.array([0, len(self.neighbours)]))
        self._state = self.algorithm.init(participant.problem, self._view, start, starts)
        self._role = lru_cache(maxsize=8)(lambda t: role(self.schedule.turn(t), participant.me))
        self._message = lru_cache(maxsize=8)(participant.store.message)  # is written once
        self._took = math.inf  # seconds that it took to compute
        self._spoken = -1  # the last tick that was committed
        self._open = -1  # the last tick whose bytes may leave
        if (saved := participant.store.state()) is not None:
            self._spoken, arrays = saved
            for part in (self._line, self._reading):
                part.remember({name: arrays.pop(name) for name in part.memory})
            self._state = type(self._state)(**arrays)
        near = [federation.names[j] for j in self.neighbours]
        self._heard = dict.fromkeys(near, max(self._spoken, 0))
        self._meeting = Meeting(participant)
        self._absences = Absences(participant, max(self._spoken, 0), self._spoken >= 0)

    # What the server asks

    def find(self, question: Question) -> bytes | None:
        """The bytes that answer a question; None if they are still to come."""
        tick, member = question.tick, question.sender
        if not (tick < self.rounds and member in self._role(tick).heard_by):
            raise BadMessage("nothing is said to {} at tick {}", self.participant.federation.names[member], tick)
        message = self._committed(tick)
        return None if message is None else self._line.answer(question, message)

    def greeting(self, name: str) -> Greeting:
        """What a neighbour has to know of this agent."""
        federation = self.participant.federation
        return Greeting(
            name=self.participant.name,
            parts=federation.parts,
            without=federation.absent,
            met=self._meeting.told(),
            heard=self._heard.get(name, 0),  # all that it said to this agent before this tick
            key=self._line.own_key,
            keys=self._line.keys,
            absences=self._absences.told(),
        )

    def greeted(self, name: str, greeting: Greeting) -> None:
        """What a neighbour has to say of itself."""
        federation = self.participant.federation
        if differs := difference(federation.parts, dict(greeting.parts)):
            shown = ", ".join(differs[:5]) + ", ..." * (len(differs) > 5)
            raise BadMessage("it holds another federation file: {} differ{}", shown, "s" * (len(differs) == 1))
        agreed, without = (federation.agreed or federation).names, set(greeting.without)
        self._absences.take(greeting.absences)
        self._weigh()
        if more := sorted((without & set(agreed)) - set(federation.absent)):
            who = ", ".join(more)
            if not federation.go_on_after:
                raise BadMessage("it goes on without {}, which was not agreed upon", who)
            if not any(map(self._absences.proven, more)):
                raise BadMessage("it goes on without {}, but too few neighbours have signed that: not believed", who)
        if without == set(federation.absent):  # it means the same run
            self._meeting.take(greeting.met)
            for key in (greeting.key, *greeting.keys):
                self._line.take_key(key)
            self.changed.tell()

    def left(self, name: str) -> bool:
        """This neighbour needs no more; whether that can be. It has all signatures of the meeting, and must not go, nor
        be taken to be gone, before this agent has them, too."""
        # A neighbour that says it a thousand times writes to the disk once.
        if self._meeting.complete and name not in self.participant.store.marked("gone"):
            self.participant.store.left(name)
        return self._meeting.complete

    def contact(self, name: str) -> None:
        """There was a sign of life."""
        self._contacts[name] = time.monotonic()
        self._absences.withdraw(name)

    def contacts(self) -> dict[str, float | None]:
        """The last sign of life of each neighbour, by name."""
        clock = time.time() - time.monotonic()
        return {name: self._contacts[name] + clock if name in self._contacts else None for name in self._heard}

    # What the agent does

    async def run(self, patience: float | None) -> np.ndarray:
        """Every tick that is left."""
        if self._spoken >= 0:
            self._open_all()  # what an earlier process committed, it may have sent
        if self._spoken < self.rounds:
            await self._meet(patience)
            self._absences.begun = True
            self._pay()
            for t in range(max(self._spoken, 0), self.rounds):
                self._absences.tick = t
                await self._tick(t, patience)
            self.participant.store.finish(self.rounds, self._arrays())
            self._spoken = self._absences.tick = self.rounds
            self._tell("all was heard", self.rounds)
            self._reading.tell(self.rounds)
        if self.participant.ledger is not None:
            for tick, message, _ in self.participant.store.releases():
                self.participant.ledger.store(self.participant.federation.run, tick, message)
        return np.asarray(self.algorithm.estimate(self._state)[0])

    async def _tick(self, t: int, patience: float | None) -> None:
        mine = self._role(t)
        coming = asyncio.create_task(self._hear(t, mine.hears)) if mine.hears else None
        try:
            if mine.speaks and t > self._spoken:
                self._tell("computing", t)
                await self._speak(t)
            if coming is not None:
                self._tell(f"waiting for {', '.join(self.participant.federation.names[j] for j in mine.hears)}", t)
                inbox = self._reading.read(await self._within(patience, coming, t), mine.hears, self._own(t), t)
                self._state = self.algorithm.listen(self._state, inbox, self._view, t)
        finally:
            if coming is not None:
                coming.cancel()

    async def _speak(self, t: int) -> None:
        """Compute, commit, and only then let anybody ask."""
        participant = self.participant
        compute = partial(self.algorithm.speak, self._state, participant.problem, self._view, participant.noise, t)
        begin = time.perf_counter()
        try:
            # In a thread, so that neighbours get answers meanwhile; but to hand over what is brief takes longer still.
            # Nobody knows that a step is brief before it is over: where an agent that gives no answer is soon taken to
            # be away, it is always in a thread.
            aside = self._took > _BRIEF or participant.federation.go_on_after > 0
            self._state, release = await asyncio.to_thread(compute) if aside else compute()
            self._took = time.perf_counter() - begin
        except Exception as error:
            if participant.ledger is not None:
                participant.store.fail(t, str(error))  # fresh noise would be a second look at the records
            raise
        (event,) = release.events
        if event != participant.events[t]:
            raise TacitError(
                f"tick {t} would cost {event}, but {participant.events[t]} was planned and paid for; nothing was sent"
            )
        silent = release.silent is not None and bool(release.silent[0])
        participant.store.commit(t, self._arrays(), self._line.message(t, release.value[0], silent), event)
        self._spoken = t
        self._open_all()

    def _open_all(self) -> None:
        """What is committed may leave; the ledger learns of the first bytes before anybody else can."""
        first = min(self.participant.events, default=-1)
        if self.participant.ledger is not None and self._open < first <= self._spoken:
            message = self.participant.store.message(first)
            assert message is not None
            self.participant.ledger.store(self.participant.federation.run, first, message)
        self._open = self._spoken
        self.changed.tell()

    async def _hear(self, t: int, senders: Sequence[int]) -> Inbox:
        def heard(j: int) -> None:
            name = self.participant.federation.names[j]
            self._heard[name] = max(self._heard[name], t + 1)

        async def own() -> bytes:
            while (message := self._committed(t)) is None:
                await self.changed.wait()
            return message

        return await self._line.hear(t, senders, own, heard)

    async def _meet(self, patience: float | None) -> None:
        """All neighbours are there, hold the same file, and have heard nothing that this agent does not know of.

        And all members have met theirs, and have signed that (`tacit.agent.meeting`): nobody pays for a run to which
        somebody never came.
        """
        gone, names = self.participant.store.marked("gone"), self.participant.federation.names
        missing = {j: names[j] for j in self.neighbours if names[j] not in gone}

        async def meet(j: int) -> None:
            await self._greet(j)
            del missing[j]
            self._tell(f"waiting for {', '.join(missing.values())}" if missing else "met all neighbours", 0)

        async def meet_all() -> None:
            await asyncio.gather(*(meet(j) for j in list(missing)))
            self._meeting.sign()
            pause, most = _AGAIN
            while not (self._line.complete and self._meeting.complete):
                self._tell("waiting until all have met", 0)
                await asyncio.sleep(pause)
                pause = min(2 * pause, most)
                await asyncio.gather(*(self._greet(j) for j in self.neighbours))

        self._tell(f"waiting for {', '.join(missing.values())}", 0)
        await self._within(patience, meet_all(), 0)

    async def _greet(self, j: int) -> None:
        """Waits until a neighbour is there, means the same run, and has heard nothing that this agent does not know of.

        If it says that it has, then either this agent's store is an old copy, or the neighbour lies; messages are not
        signed, so this agent cannot tell. It waits: whoever it is, fresh noise for a tick that may have left is never
        drawn. It does not stop, for then one lie would end an honest process.
        """

        peer = self.peers[j]

        def same(answer: Greeting) -> None:
            self.greeted(peer.name, answer)
            if set(answer.without) != set(self.participant.federation.absent):
                raise BadMessage("it has not yet gone on without who is absent")
            if answer.heard > self.rounds:
                raise BadMessage("it says that it has heard {} ticks of {}", answer.heard, self.rounds)
            for t in range(answer.heard - 1, self._spoken, -1):
                if j in self._role(t).heard_by:
                    store = self.participant.store.path.name
                    raise BadMessage(
                        "it says that it has heard {} at tick {}, which {} has not. If {} is an old copy, stop, and "
                        "put the newest back, or agree on a new run under another title",
                        self.participant.name,
                        t,
                        store,
                        store,
                    )

        await peer.greet(self.greeting(peer.name), same)

    def _pay(self) -> None:
        """For the whole run, before its first noise is drawn; again after a restart, at no further cost."""
        if self.participant.ledger is not None:
            self.participant.ledger.reserve_run(self.participant.federation.run, self.participant.events)

    async def _within(self, patience: float | None, coming: Awaitable[T], t: int) -> T:
        try:
            async with asyncio.timeout(patience):
                return await coming
        except TimeoutError:
            raise TacitError(
                f"tick {t}: {self.doing} for {patience:g} s in vain; stopped. Nothing is lost: start again to go on"
            ) from None

    async def part_company(self, linger: float) -> None:
        """Tells the neighbours that all was heard, and stays until they say so, too; or go on without somebody, in a
        run that this agent is not of."""
        names = self.participant.federation.names

        async def farewell(peer: Peer) -> None:
            await peer.leave()
            self.participant.store.told(peer.name)

        told = self.participant.store.marked("told")
        farewells = [asyncio.create_task(farewell(peer)) for peer in self.peers.values() if peer.name not in told]
        try:
            async with asyncio.timeout(linger):
                while not self.absence.done() and (
                    waiting := {names[j] for j in self.neighbours} - self.participant.store.marked("gone")
                ):
                    self._tell(f"staying for {', '.join(sorted(waiting))}", self.rounds)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log.warning(f"{self.doing} for {linger:g} s in vain; if they come back, start again for their sake")
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await asyncio.gather(*farewells)

    # Signs of life

    async def beat(self) -> None:
        """For `tacit agent status`."""
        while True:
            self.participant.store.beat(self.contacts(), self.doing)
            await asyncio.sleep(_HEARTBEAT)

    async def keep_in_touch(self, j: int) -> None:
        """Greets a neighbour that has been quiet, and signs that it is away if it stays so."""
        name, limit = self.participant.federation.names[j], self.participant.federation.go_on_after
        while True:
            await asyncio.sleep(_HEARTBEAT)
            if self._quiet(name) > _HEARTBEAT:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEARTBEAT):
                        await self._greet(j)
            if limit and (quiet := self._quiet(name)) > limit and self._awaits(j) and self._absences.sign(name):
                log.warning(
                    f"{name} has given no sign of life for {quiet:.0f} s; the others go on without it if "
                    f"{self._absences.needed(name)} of its neighbours say so; so far: {self._absences.witnesses(name)}"
                )
            self._weigh()

    def _quiet(self, name: str) -> float:
        """Seconds since the last sign of life of a neighbour."""
        return time.monotonic() - self._contacts.get(name, self._began)

    def _awaits(self, j: int) -> bool:
        """Whether a neighbour has something to do yet: what it does for itself, or to be heard by this agent. If this
        agent has finished, somebody who has not must miss it, too."""
        name = self.participant.federation.names[j]
        if self._spoken == self.rounds and all(each.tick == self.rounds for each in self._absences.about([name])):
            return False
        if name not in self.participant.store.marked("gone"):
            return True
        return any(j in self._role(t).hears for t in range(self._heard[name], self.rounds))

    def _weigh(self) -> None:
        """Leaves the run if members are proven to be away, and this agent, if it is a neighbour, does not hear them."""
        absences, limit = self._absences, self.participant.federation.go_on_after
        away = [name for name in self.participant.federation.names if absences.proven(name)]
        away = [name for name in away if name not in self._heard or self._quiet(name) > limit]
        if away and not self.absence.done():
            reason = "; ".join(f"{name} is away, signed by {absences.witnesses(name)}" for name in away)
            statements = [each.SerializeToString() for each in absences.about(away)]
            self.absence.set_result(_Absent(frozenset(away), reason, absences.tick, statements))

    # Inside

    def _tell(self, doing: str, done: int) -> None:
        self.doing = doing
        self._watch(doing, done, self.rounds)

    def _committed(self, tick: int) -> bytes | None:
        """What was said at a tick, if it may leave."""
        return self._message(tick) if tick <= self._open else None

    def _own(self, tick: int) -> np.ndarray:
        """What this agent itself said at a tick, (d,); zeros if it did not speak or kept silent."""
        nothing = np.zeros(self.participant.problem.dimension)
        if not self._role(tick).speaks or (message := self._committed(tick)) is None:
            return nothing
        row = row_of(Message.FromString(message), len(nothing))
        return nothing if row is None else row

    def _arrays(self) -> Arrays:
        return {**self._state._asdict(), **self._line.memory, **self._reading.memory}
