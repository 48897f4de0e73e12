"""The loop of `tacit.simulate` for one agent among others: the same algorithm, a block of one, neighbours on a network.

At every tick in which it speaks, the agent computes, commits (`tacit.agent.store`), and lets its neighbours ask. At
every tick in which it listens, it asks those that it listens to, and waits. Ticks in which it does neither pass by. A
restart begins after the last tick that was committed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.store import Arrays, Store
from tacit.agent.transport import Peer, Server
from tacit.agent.wire import packed
from tacit.data import Dataset
from tacit.errors import InputError, TacitError
from tacit.noise import Noise
from tacit.plan import plan
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger
from tacit.problem import Problem
from tacit.release import Inbox
from tacit.schedule import Role, role

_HEARTBEAT = 2.0  # seconds
_LAST_WORDS = "last words"  # beside the arrays of the state: no field can have this name
_FAREWELL = 30.0  # seconds in which to tell a neighbour that all was heard

Watch = Callable[[str, int], None]  # what the agent is doing, and how many ticks are behind it


@dataclass(frozen=True)
class Seat:
    """One member's place in a federation, and what it brings."""

    federation: Federation
    me: int
    identity: Identity
    problem: Problem  # of this member alone
    store: Store
    ledger: Ledger | None  # None only where exact values are exchanged, which no budget could pay for
    noise: Noise

    @property
    def name(self) -> str:
        return self.federation.names[self.me]


def own_problem(federation: Federation, me: int, data: Dataset) -> Problem:
    """This member's objective, from its own records; they must be as many as the federation file says."""
    member, facts = federation.members[me], federation.setting.facts
    if len(data) != member.rows:
        raise InputError(
            f"the federation file promises {member.rows:,} rows of {member.name}; the data has {len(data):,}"
        )
    return Problem([(data.X, data.y)], loss=facts.loss, scale=facts.scale[me : me + 1], l2=facts.l2)


def planned(federation: Federation, me: int) -> dict[int, Event]:
    """What each release of this member will cost, by ticks: a function of the federation file alone."""
    setting = federation.setting
    schedule = setting.algorithm.schedule(federation.graph)
    ticks = [t for t in range(setting.rounds) if role(schedule.turn(t), me).speaks]
    events = plan(setting.algorithm, setting.facts, federation.graph, setting.rounds).events[me]
    return dict(zip(ticks, events, strict=True))


def check_budget(seat: Seat, events: dict[int, Event]) -> None:
    """Refuses, before anything is done, a run that the ledger would refuse; or whose store is lost."""
    ledger, run = seat.ledger, seat.federation.run
    if ledger is None:
        return
    reserved = {entry.tick for entry in ledger.entries() if entry.kind == "reserve" and entry.run == run}
    ledger.check_run(Counter(event for tick, event in events.items() if tick not in reserved))
    first = min(events, default=0)
    if ledger.payload(run, first) is not None and seat.store.message(first) is None:
        raise TacitError(
            f"the ledger knows that {seat.name} has spoken in this run, but {seat.store.path} does not: put that file "
            "back, or agree on a new run under another title"
        )


async def take_part(
    seat: Seat,
    *,
    listen: str | None = None,
    patience: float | None = None,
    linger: float = 600.0,
    watch: Watch = lambda doing, done: None,
    finished: Callable[[np.ndarray], None] = lambda model: None,
) -> np.ndarray:
    """Runs this member's part to the end, from wherever an earlier process left it; gives its model, (d,).

    It waits for neighbours for ever, or stops after `patience` seconds without one that it needs. `finished` is called
    with the model; after that the agent stays for neighbours that still need its words, at most `linger` seconds.
    """
    events = planned(seat.federation, seat.me)
    check_budget(seat, events)
    part = _Part(seat, events, watch)
    async with AsyncExitStack() as stack:
        server = Server(
            seat.federation,
            seat.me,
            seat.identity,
            find=part.find,
            heard=part.heard,
            left=part.left,
            contact=part.contact,
        )
        await server.start(listen or seat.federation.members[seat.me].address)
        stack.push_async_callback(server.stop)
        for j in part.neighbours:
            part.peers[j] = Peer(seat.federation, seat.me, j, seat.identity, part.contact)
            stack.push_async_callback(part.peers[j].close)
        heart = asyncio.create_task(part.beat())
        stack.callback(heart.cancel)
        part.said = server.said
        model = await part.run(patience)
        finished(model)
        await part.part_company(linger)
        part.doing = "finished"
        seat.store.beat(part.contacts(), part.doing)
    return model


class _Part:
    """What one run of the loop knows: where it is, and whom it has heard."""

    def __init__(self, seat: Seat, events: dict[int, Event], watch: Watch) -> None:
        self.seat, self.events, self._watch = seat, events, watch
        federation, setting = seat.federation, seat.federation.setting
        self.algorithm, self.rounds = setting.algorithm, setting.rounds
        self.schedule = self.algorithm.schedule(federation.graph)
        self.neighbours = federation.graph.neighbours(seat.me).tolist()
        self.peers: dict[int, Peer] = {}
        self.doing = "starting"
        self.said: Callable[[], None] = lambda: None
        self._last_contact: dict[int, float | None] = dict.fromkeys(self.neighbours)
        self._view = federation.graph.view(np.array([seat.me]))
        # Starts are public, and zero: neighbours know each other's.
        start = np.zeros((1, seat.problem.dimension))
        self._rows = dict.fromkeys(self.neighbours, start[0])  # what each neighbour said last: it may keep silent
        self._state = self.algorithm.init(seat.problem, self._view, start, self._inbox(self.neighbours))
        self._spoken = -1  # the last tick that was committed
        self._open = -1  # the last tick whose bytes may leave
        if (saved := seat.store.state()) is not None:
            self._spoken, arrays = saved
            self._rows = dict(zip(self.neighbours, arrays.pop(_LAST_WORDS), strict=True))
            self._state = type(self._state)(**arrays)
        self._heard = dict.fromkeys(self.neighbours, max(self._spoken, 0))

    # What the server asks

    def find(self, tick: int, member: int) -> bytes | None:
        """The bytes said to a member at a tick; None if they are still to come."""
        if not (tick < self.rounds and member in self._role(tick).heard_by):
            raise InputError(f"nothing is said to {self.seat.federation.names[member]} at tick {tick}")
        return self.seat.store.message(tick) if tick <= self._open else None

    def heard(self, member: int) -> int:
        """The tick before which all was heard that this member had to say."""
        return self._heard[member]

    def left(self, member: int) -> None:
        """This member needs no more."""
        self.seat.store.left(self.seat.federation.names[member])

    def contact(self, member: int) -> None:
        """There was a sign of life."""
        self._last_contact[member] = time.time()

    def contacts(self) -> dict[str, float | None]:
        """The last sign of life of each neighbour, by name."""
        return {self.seat.federation.names[j]: when for j, when in self._last_contact.items()}

    # What the agent does

    async def run(self, patience: float | None) -> np.ndarray:
        """Every tick that is left."""
        if self._spoken >= 0:
            self._open_all()  # what an earlier process committed, it may have sent
        if self._spoken < self.rounds:
            await self._meet(patience)
            self._pay()
            for t in range(max(self._spoken, 0), self.rounds):
                await self._tick(t, patience)
            self.seat.store.finish(self.rounds, self._arrays())
            self._spoken = self.rounds
        if self.seat.ledger is not None:
            for tick, message, _ in self.seat.store.releases():
                self.seat.ledger.store(self.seat.federation.run, tick, message)
        return np.asarray(self.algorithm.estimate(self._state)[0])

    async def _tick(self, t: int, patience: float | None) -> None:
        mine = self._role(t)
        coming = [asyncio.create_task(self._hear(j, t)) for j in mine.hears]  # asked now, answered when they speak
        try:
            if mine.speaks and t > self._spoken:
                self._tell("computing", t)
                await self._speak(t)
            if coming:
                waiting = ", ".join(self.seat.federation.names[j] for j in mine.hears)
                self._tell(f"waiting for {waiting}", t)
                await self._within(patience, asyncio.gather(*coming), t)
                self._state = self.algorithm.listen(self._state, self._inbox(mine.hears), self._view, t)
        finally:
            for task in coming:
                task.cancel()

    async def _speak(self, t: int) -> None:
        """Compute, commit, and only then let anybody ask."""
        seat = self.seat
        self._state, release = await asyncio.to_thread(
            self.algorithm.speak, self._state, seat.problem, self._view, seat.noise, t
        )
        (event,) = release.events
        if event != self.events[t]:
            raise TacitError(
                f"tick {t} would cost {event}, but {self.events[t]} was planned and paid for; nothing was sent"
            )
        silent = release.silent is not None and bool(release.silent[0])
        message = packed(seat.federation.run, seat.me, t, None if silent else release.value[0])
        seat.store.commit(t, self._arrays(), message, event)
        self._spoken = t
        self._open_all()

    def _open_all(self) -> None:
        """What is committed may leave; the ledger learns of the first bytes before anybody else can."""
        first = min(self.events, default=-1)
        if self.seat.ledger is not None and self._open < first <= self._spoken:
            message = self.seat.store.message(first)
            assert message is not None
            self.seat.ledger.store(self.seat.federation.run, first, message)
        self._open = self._spoken
        self.said()

    async def _hear(self, j: int, t: int) -> None:
        row = await self.peers[j].ask(t)
        self._heard[j] = max(self._heard[j], t + 1)
        if row is not None:
            self._rows[j] = row

    async def _meet(self, patience: float | None) -> None:
        """All neighbours are there, hold the same file, and have heard nothing that this agent does not know of."""
        gone = self.seat.store.marked("gone")
        missing = {
            j: self.seat.federation.names[j] for j in self.neighbours if self.seat.federation.names[j] not in gone
        }

        async def meet(j: int) -> None:
            heard = await self.peers[j].greet()
            for t in range(heard - 1, self._spoken, -1):
                if j in self._role(t).heard_by:
                    raise TacitError(
                        f"{missing[j]} has heard {self.seat.name} at tick {t}, which {self.seat.store.path} has not: "
                        "it is an old copy; put the newest back, or agree on a new run under another title"
                    )
            del missing[j]
            self._tell(f"waiting for {', '.join(missing.values())}" if missing else "met all neighbours", 0)

        self._tell(f"waiting for {', '.join(missing.values())}", 0)
        meetings = [asyncio.create_task(meet(j)) for j in list(missing)]
        try:
            await self._within(patience, asyncio.gather(*meetings), 0)
        finally:
            for task in meetings:
                task.cancel()

    def _pay(self) -> None:
        """For the whole run, before its first noise is drawn; again after a restart, at no further cost."""
        if self.seat.ledger is not None:
            self.seat.ledger.reserve_run(self.seat.federation.run, self.events)

    async def _within(self, patience: float | None, coming: Any, t: int) -> None:
        try:
            async with asyncio.timeout(patience):
                await coming
        except TimeoutError:
            raise TacitError(
                f"tick {t}: {self.doing} for {patience:g} s in vain; stopped. Nothing is lost: start again to go on"
            ) from None

    async def part_company(self, linger: float) -> None:
        """Tells the neighbours that all was heard, and stays until they say so, too."""
        names = self.seat.federation.names

        async def farewell(peer: Peer) -> None:
            if await peer.leave(_FAREWELL):
                self.seat.store.told(peer.name)

        told = self.seat.store.marked("told")
        farewells = [asyncio.create_task(farewell(peer)) for peer in self.peers.values() if peer.name not in told]
        with suppress(TimeoutError):
            async with asyncio.timeout(linger):
                while waiting := {names[j] for j in self.neighbours} - self.seat.store.marked("gone"):
                    self._tell(f"staying for {', '.join(sorted(waiting))}", self.rounds)
                    await asyncio.sleep(0.05)
        await asyncio.gather(*farewells)

    async def beat(self) -> None:
        """For `tacit agent status`."""
        while True:
            self.seat.store.beat(self.contacts(), self.doing)
            await asyncio.sleep(_HEARTBEAT)

    def _tell(self, doing: str, done: int) -> None:
        self.doing = doing
        self._watch(doing, done)

    def _role(self, t: int) -> Role:
        return role(self.schedule.turn(t), self.seat.me)

    def _inbox(self, senders: Any) -> Inbox:
        rows = np.array([self._rows[j] for j in senders]).reshape(-1, self.seat.problem.dimension)
        return Inbox(rows, np.array([0, len(rows)]))

    def _arrays(self) -> Arrays:
        return {**self._state._asdict(), _LAST_WORDS: self._inbox(self.neighbours).rows}
