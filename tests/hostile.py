"""Members of a federation that an attacker controls: they have real keys, and send what they like.

`Hostile` is one of them. `Swallower` is all neighbours of one agent together: they make the attack of `adversary.py`
on a real agent, of which they see only the releases.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import adversary
import numpy as np
from adversary import GRAPH, ME, Said, neighbours_in_one_record, two_data_sets
from agent_worker import PROCESSES
from frames import Line, NotYet, Refused, Serving
from patience import all_ended
from ports import free_ports
from speaking import Speaker, unpacked

import tacit
from tacit.core.release import Inbox
from tacit.core.schedule import role
from tacit.data import Classes, Dataset, Number, Schema
from tacit.exchange.listening import Listening
from tacit.privacy import filters
from tacit.privacy.events import Free, to_plain
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger.entries import canonical
from tacit.run.trust import LOCAL

NAMES = ("alder", "birch", "cedar", "dogwood")
ROWS, D = 2000, 3
EPSILON, DELTA = 0.1, 1e-6
FAR = 1e301  # a radius that clips nothing: the old code had none
SCHEMA = Schema(
    label=Classes("ill", positive=("yes",), negative=("no",)),
    columns=tuple(Number(f"x{k}", bounds=(0, 1)) for k in range(D)),
    row_norm=1.0,
)


class Identities(dict[str, Any]):
    """Keys and certificates, by names; on the disk as `tacit identity new` leaves them."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        from tacit.agent.identity import Identity

        super().__init__({name: Identity.new(name, folder) for name in names})
        self.folder = folder


def agreed(
    identities: Identities,
    method: str,
    *,
    epsilon: float = EPSILON,
    rows: int = ROWS,
    trust: Any = LOCAL,
    **settings: Any,
) -> Any:
    """A federation in which all members are neighbours."""
    from tacit.agent.federation import Member, agreement
    from tacit.core.graph import Graph
    from tacit.run.budget import Budget
    from tacit.run.request import Request

    members = tuple(
        Member(name, f"127.0.0.1:{k + 1}", rows, i.certificate) for k, (name, i) in enumerate(identities.items())
    )
    asked = Request(method=method, budget=Budget(epsilon, DELTA), trust=trust)
    return agreement(method, members, Graph.complete(len(members)), asked, SCHEMA, **settings)


def elsewhere(federation: Any, title: str) -> Any:
    """The same under another title, at ports that are free now."""
    ports = free_ports(len(federation.members))
    members = tuple(replace(m, address=f"127.0.0.1:{p}") for m, p in zip(federation.members, ports, strict=True))
    moved = replace(federation, title=title, members=members)
    moved.__dict__["setting"] = federation.setting  # depends on neither, and takes a second to compute
    return moved


class Hostile:
    """One hostile member. `answer` gets (method, caller, bytes) and gives bytes."""

    def __init__(self, federation: Any, identity: Any, answer: Callable[[str, str, bytes], Awaitable[bytes]]) -> None:
        self.federation, self._identity, self._answer = federation, identity, answer
        self.name, self.place = identity.name, federation.names.index(identity.name)
        self.run = bytes.fromhex(federation.run)
        self.speaker = Speaker(federation, identity)
        self._lines: dict[str, list[Line]] = {}  # on which nothing is asked
        self._closed = False

    def met(self) -> Any:
        """A signed statement that it has met its neighbours."""
        from tacit.agent.membership.meeting import _signed
        from tacit.agent.transport.wire_pb2 import Met

        return Met(member=self.place, signature=self._identity.sign(_signed(self.federation, self.place)))

    async def open(self) -> None:
        """Listens where the others expect it."""
        certificates = [member.certificate for member in self.federation.members]
        address = self.federation.members[self.place].address
        self._server = await Serving(address, self._identity, certificates, self._answer).open()

    async def call(self, to: str, method: str, raw: bytes, timeout: float = 60.0) -> bytes:
        """What the agent answers; a TimeoutError if it does not in time."""
        lines = self._lines.setdefault(to, [])
        async with asyncio.timeout(timeout):
            while True:
                line = lines.pop() if lines else None
                try:
                    line = line or await Line.to(
                        self.federation.members[self.federation.names.index(to)].address, self._identity
                    )
                    found = await line.asks(method, raw)
                except Refused:
                    self._free(lines, line)
                    raise
                except OSError:
                    if line is not None:
                        line.close()
                    await asyncio.sleep(0.05)  # it is not up yet, or the connection was old
                    continue
                except BaseException:
                    if line is not None:
                        line.close()
                    raise
                self._free(lines, line)
                return found

    def _free(self, lines: list[Line], line: Line) -> None:
        """Nothing is asked on this line any more."""
        lines.append(line)
        if self._closed:  # a call that was under way then
            lines.pop().close()

    async def hang_up(self, to: str) -> None:
        """The next call takes another connection."""
        lines = self._lines.get(to, [])  # the same list stays: a call that is under way gives its line back to it
        while lines:
            lines.pop().close()

    async def close(self) -> None:
        self._closed = True
        for to in list(self._lines):
            await self.hang_up(to)
        await self._server.close()


# The attack that switched the noise off, on a real agent


def problems_of(federation: Any) -> tuple[Any, Any]:
    """Two data sets of the victim, one label flipped, as the federation's method sees them."""
    facts = federation.setting.facts
    return neighbours_in_one_record(ROWS, D, radius=facts.radius, loss=facts.loss, l2=facts.l2)


def after_speaking(method: Any, before: Any, value: np.ndarray, view: Any) -> Any:
    """An agent's state, as far as it is public, from what it released."""
    method = getattr(method, "method", method)  # of the noisy steps, if agents average at the end
    if "token" not in before._fields:
        return before._replace(**{before._fields[0]: value[None]})
    # N (z' - z) = (x' - y'/rho) - (x - y/rho), and y' = y + rho (z - x')
    x = (view.network * (value[None] - before.token) + before.token + before.x) / 2
    return before._replace(x=x, y=before.y + method.penalty * (before.token - x), token=value[None])


class Swallower:
    """All neighbours of one agent; they see only its releases. They say numbers of a size, then the row that cancels
    them, and so on to the end of the run. Then they guess the agent's data set."""

    def __init__(self, federation: Any, identities: Identities, size: float, seed: int, radius: float) -> None:
        from tacit.agent.participant import planned

        self.federation, self._method = federation, federation.setting.algorithm
        self._liar = adversary.swallowing(self._method, size, seed)
        self._listening = Listening(radius)
        self._schedule = self._method.schedule(federation.graph)
        self._events = planned(federation, ME)
        self._others = [i for i in range(len(federation.members)) if i != ME]
        self._members = {
            i: Hostile(federation, identities[federation.names[i]], partial(self._answer, i)) for i in self._others
        }
        self._rows: dict[int, asyncio.Future[dict[int, np.ndarray]]] = {}

    async def attack(self, whole: bool = True) -> Said:
        """The release that follows the first cancelling row, or the last one with noise before. They then go on lying
        until the run is over, if it is to be `whole`."""
        loop = asyncio.get_running_loop()
        self._rows = {t: loop.create_future() for t in range(self.federation.rounds)}
        self._finished: set[int] = set()
        for member in self._members.values():
            await member.open()
        view, start = GRAPH.view(np.array([ME])), np.zeros((1, D))
        state = self._method.init(
            problems_of(self.federation)[0], view, start, Inbox(np.repeat(start, 2, axis=0), [0, 2])
        )
        heard, found, aimed = 0, None, False
        for t in range(self.federation.rounds):
            mine = role(self._schedule.turn(t), ME)
            if mine.speaks:
                value = await self._release(t, min(mine.heard_by))
                if not isinstance(self._events[t], Free) and not aimed:
                    found, aimed = Said(t, state, value, self._events[t]), heard >= 2  # after both lies
                if aimed and not whole:
                    break
                state = after_speaking(self._method, state, value, view)
            if mine.hears:
                heard += 1
                rows = self._liar(t, state)[: len(mine.hears)]
                self._rows[t].set_result(dict(zip(mine.hears, rows, strict=True)))
                read = self._listening.read(Inbox(rows, [0, len(rows)]), np.zeros((1, D)), t).inbox
                state = self._method.listen(state, read, view, t)
        assert found is not None
        return found

    async def _release(self, t: int, asker: int) -> np.ndarray:
        from tacit.agent.transport.wire import row_of

        member, victim = self._members[asker], self.federation.names[ME]
        question = member.speaker.question(tick=t).SerializeToString()
        async with asyncio.timeout(600):
            while True:
                try:
                    raw = await member.call(victim, "Ask", question)
                    break
                except (NotYet, TimeoutError):  # the victim of a busy machine imports and compiles for minutes
                    continue
        row = row_of(unpacked(raw, self.federation.run, ME, t), D)
        assert row is not None
        return row

    async def _answer(self, me: int, method: str, caller: str, raw: bytes) -> bytes:
        from tacit.agent.transport.wire import packed_row
        from tacit.agent.transport.wire_pb2 import Question

        speaker = self._members[me].speaker
        if method == "Greet":
            met = [member.met() for member in self._members.values()]
            return bytes(speaker.greeting(met=met).SerializeToString())
        if method == "Leave":
            self._finished.add(me)
            return b""
        tick = Question.FromString(raw).tick
        rows = await self._rows[tick]
        return speaker.spoken(packed_row(self.federation.run, me, tick, rows[me]))

    async def leave(self) -> None:
        """They say that they need no more, and stay until the victim says so, too."""
        for member in self._members.values():
            await member.call(self.federation.names[ME], "Leave", member.speaker.question().SerializeToString())
        while len(self._finished) < len(self._others):
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        for member in self._members.values():
            await member.close()


def new_ledger(path: Path, dataset: str, epsilon: float = 1.0) -> None:
    """With a cap."""
    with Ledger.new(path, population=dataset, cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(epsilon, 1e-5))


def charged(path: Path) -> dict[tuple[str, int], Any]:
    """What a ledger has reserved, by run and tick. Refuses a ledger that does not add up."""
    with Ledger(path, cost=filters.epsilon) as ledger:
        ledger.verify()
        return {(each.run, each.tick): each.body for each in ledger.entries() if each.kind == "reserve"}


def plan_of(federation: Any, me: int) -> dict[tuple[str, int], Any]:
    """The same from the plan."""
    from tacit.agent.participant import planned

    return {(federation.run, t): canonical(to_plain(event)) for t, event in planned(federation, me).items()}


@dataclass(frozen=True)
class Victim:
    """An honest agent, with one of the two data sets; in a folder of its own."""

    folder: Path
    federation: Any
    identity: Any
    which: int
    size: float  # of what its neighbours will say
    whole: bool  # whether they let it come to the end of the run

    async def live(self) -> None:
        """Until its run is over, or somebody puts a file `stop` into its folder."""
        from tacit.agent.participant import Participant
        from tacit.agent.run import take_part
        from tacit.agent.store import Store

        X, labels = two_data_sets(ROWS, D)
        data = Dataset(X, labels[self.which], SCHEMA.feature_names, np.arange(ROWS))
        store = Store(self.folder / "store", self.federation.run, self.identity.name, self.federation.rounds)
        with Ledger(self.folder / "ledger", cost=filters.epsilon) as ledger:
            participant = Participant(self.federation, ME, self.identity, data, store, ledger, tacit.SecureNoise())
            life = asyncio.create_task(take_part(participant, linger=60.0))
            while not (life.done() or (self.folder / "stop").exists()):
                await asyncio.wait([life], timeout=0.02)
            if not life.cancel():
                (self.folder / "model.json").write_text(json.dumps(life.result().tolist()))
            await asyncio.wait([life])
        store.close()


@contextmanager
def old_code() -> Iterator[None]:
    """The mechanism whose noise could be swallowed, and no radius."""
    from tacit.agent import robust_listening
    from tacit.algorithms import consensus

    with (
        patch.object(consensus, "objective_perturbed", adversary.old_objective_perturbed),
        patch.object(
            robust_listening, "Listening", lambda radius, robust, period, bounds: Listening(FAR, robust, period)
        ),
    ):
        yield


def victims(all_of_them: Sequence[Victim], old: bool) -> None:
    """One life after the other, in a process of its own."""
    os.dup2(os.open(all_of_them[0].folder.parent / "victims.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    logging.basicConfig(format="%(message)s")
    with old_code() if old else nullcontext():
        for each in all_of_them:
            if old:  # its plan was made by the new mechanism
                for made in ("setting", "plans"):
                    each.federation.__dict__.pop(made, None)
            asyncio.run(each.live())


def guesses(
    folder: Path,
    identities: Identities,
    federation: Any,
    sizes: Sequence[float],
    per_size: int,
    *,
    old: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> list[bool]:
    """Whether the neighbours guess the data set of each victim, one victim after the other.

    The first victim of every size goes through its whole run. Every ledger must have what was planned, except with
    `old` code, whose run may fail.
    """
    made = []
    for k, size in itertools.product(range(per_size), sizes):
        home = folder / str(len(made))
        home.mkdir()
        new_ledger(home / "ledger", federation.names[ME])
        moved = elsewhere(federation, f"{size:g}, {k}")
        made.append(Victim(home, moved, identities[federation.names[ME]], k % 2, size, k == 0 and not old))
    process = PROCESSES.Process(target=victims, args=(made, old))
    process.start()
    try:
        with old_code() if old else nullcontext():  # the neighbours know which code the victim runs
            right = asyncio.run(_attacked(made, identities, FAR if old else federation.spec.radius, progress))
        all_ended([process], 60)
        assert process.exitcode == 0, (folder / "victims.log").read_text()
    finally:
        process.kill()
        process.join()
    if not old:
        plan = list(plan_of(federation, ME).values())
        for each in made:
            assert list(charged(each.folder / "ledger").values()) == plan
            assert not each.whole or np.isfinite(json.loads((each.folder / "model.json").read_text())).all()
    return right


async def _attacked(
    made: Sequence[Victim], identities: Identities, radius: float, progress: Callable[[int], None]
) -> list[bool]:
    right = []
    for n, each in enumerate(made):
        federation = each.federation
        liars = Swallower(federation, identities, each.size, n, radius)
        try:
            said = await liars.attack(each.whole)
            if each.whole:
                await liars.leave()
            else:
                (each.folder / "stop").touch()
        finally:
            await liars.close()
        right.append(adversary.told_apart(said, federation.setting.algorithm, problems_of(federation)) == each.which)
        progress(n + 1)
    return right
