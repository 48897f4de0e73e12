"""The members of a federation, their processes, and the supervisor that starts them again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from agent_worker import SCHEMA as _SCHEMA
from conftest import make_parts

from tacit.agent.clock import Clock
from tacit.agent.federation import ROWS, SUMS, TOTALS, Federation, Member, agreement
from tacit.agent.identity import Identity
from tacit.agent.ledger_heads import Books
from tacit.agent.monitoring.progress import Progress
from tacit.agent.participant import Participant
from tacit.agent.run import take_part
from tacit.agent.store import Store
from tacit.core.graph import Graph
from tacit.data import Classes, Dataset, Number, Schema
from tacit.errors import TacitError
from tacit.privacy import filters
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.noise import SeededNoise
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.trust import LOCAL, Trust
from world.disk import Disk
from world.loop import HERE, Process
from world.network import Here

D, PEOPLE = 3, 40
TREES = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "gorse", "hazel", "ivy", "juniper", "kapok", "larch")
NAMES = tuple(f"{tree}{row}" for row in ("", "b", "c", "d", "e") for tree in TREES)
SCHEMA = Schema(
    label=Classes("ill", positive=("yes",), negative=("no",)),
    columns=tuple(Number(f"x{k}", bounds=(0, 1)) for k in range(D)),
    row_norm=_SCHEMA.row_norm,
)
KINDS = {  # what is asked for, and how members exchange it
    "rows": ("mr-admm", ROWS),
    "tokens": ("pi-admm", ROWS),
    "sums": ("mr-admm", SUMS),
    "shared noise": ("shared-descent", TOTALS),
}


KEPT: Path | None = None  # where a command keeps identities


@dataclass(frozen=True)
class Shape:
    """What kind of run it is."""

    kind: str
    members: int
    graph: str  # "complete" or "ring"
    ticks: int
    goes_on: float = 0.0  # seconds after which the others go on without a member; 0: never


@cache
def identity(name: str) -> Identity:
    """Made once: keys take time. A command keeps them, so that a seed gives the same names of runs tomorrow."""
    if KEPT is None:
        return Identity.made(name, 1000)
    if not (KEPT / name).exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        Identity.made(name, 1000).write(KEPT / name)
    return Identity.load(KEPT / name)


@cache
def parts(members: int) -> list[Any]:
    """The records of each member."""
    return make_parts((PEOPLE,) * members, d=D)


@cache
def agreed(shape: Shape) -> Federation:
    """The file that all hold."""
    names, n = sorted(NAMES[: shape.members]), shape.members
    method, exchange = KINDS[shape.kind]
    edges = [(i, j) for i in range(n) for j in range(i) if shape.graph == "complete" or i - j in (1, n - 1)]
    members = tuple(Member(name, f"h{i}:1", PEOPLE, identity(name).certificate) for i, name in enumerate(names))
    dropouts = 1 if shape.goes_on and exchange == TOTALS else 0
    trust = Trust(1, dropouts) if exchange == TOTALS else LOCAL
    request = Request(method=method, budget=Budget(2.0, 1e-5), trust=trust)
    federation = agreement(
        shape.kind, members, Graph.from_edges(edges, n), request, SCHEMA, exchange=exchange, go_on_after=shape.goes_on
    )
    federation = replace(federation, spec=replace(federation.spec, rounds=shape.ticks))
    assert federation.plans  # computed once
    return federation


@cache
def template(name: str, where: Path) -> Path:
    """A ledger with a cap, made once."""
    path = where / f"{name}.ledger"
    with Ledger.new(path, population=name, cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(50.0, 1e-4))
    return path


class Watch(Clock):
    """The clock of one host."""

    def __init__(self, loop: Any) -> None:
        self.loop, self.moved = loop, 0.0

    def steady(self) -> float:
        return self.loop.time()

    def wall(self) -> float:
        return 1.8e9 + self.loop.time() + self.moved


class Noise(SeededNoise):
    """That of one life, which nobody else has. It notes for which steps it was drawn."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.steps: set[int] = set()

    def _uniforms(self, ids: np.ndarray, t: int, tag: int, count: int) -> np.ndarray:
        self.steps.add(t)
        return super()._uniforms(ids, t, tag, count)


class Life(Process):
    """One process of a member."""

    def __init__(self, world: Any, member: Host, folder: Path, number: int, noise: int) -> None:
        super().__init__()
        self.world, self.member, self.number, self.noise_seed = world, member, number, noise
        self.noise = Noise(noise)
        self.rng = random.Random(f"{world.seed}/{member.host}/{number}")
        self.disk = Disk(folder, self.rng, self.reached, world.tracks)
        self.disk.committed = self._committed
        self.point, self.points = "starting", Counter[str]()
        self.network = Here(world.web, self, member.host, world.witness.of(self), world.tls)
        self.clock, self.ghost = member.clock, False
        self.progress = Progress(clock=self.clock)
        self.slow = lambda: self.rng.choice((0.0, 0.001, 0.05))
        self.code: int | None = None
        self.why, self.model = "", b""
        self.log: list[str] = []
        self.finished: Participant | None = None
        self.opened: list[Any] = []

    @property
    def name(self) -> str:
        return self.member.name

    def reached(self, point: str, detail: str = "") -> None:
        """The process is at a point of its way: something may happen to it there."""
        if self.ghost:
            return
        self.point = point
        self.points[point] += 1
        if not self.member.copied:
            self.member.points[point] += 1
        self.world.reached(self, point)

    def _committed(self, store: str, tick: int) -> None:
        """What was drawn for this tick is the noise of its steps, also if nobody learns that it was committed."""
        run = store.removeprefix(self.name).removesuffix(".store").strip(".")
        self.world.drawn |= {(run, self.name, step): self.noise_seed for step in self.noise.steps}
        self.noise.steps.clear()

    async def live(self) -> None:
        """As `tacit agent run`."""
        try:
            model = await self._run()
        except TacitError as error:
            self.code, self.why = error.exit_code, str(error)
        except asyncio.CancelledError:
            self.code, self.why = 75, "cancelled"
        except Exception as error:
            self.code, self.why = 70, f"{type(error).__name__}: {error}"
            if not self.ghost:
                self.world.violated(f"{self.name} ends with a traceback: {self.why}", error)
        else:
            self.code, self.model = 0, np.asarray(model).tobytes()
        if not self.ghost:
            self.world.ended(self)

    async def _run(self) -> Any:
        self.reached("starting")
        host, world = self.member, self.world
        federation, me, folder, name = world.federation, host.place, self.disk.folder, host.name
        X, y = parts(len(federation.members))[me]
        data = Dataset(X, y, SCHEMA.feature_names, np.arange(len(y)))
        ledger = Ledger(folder / f"{name}.ledger", cost=filters.epsilon)
        self.opened.append(ledger)
        store = Store(folder / f"{name}.store", federation.run, name, federation.rounds, alone=True)
        self.opened.append(store)
        books = Books(folder) if world.schedule.books else None
        participant = Participant(
            *(federation, me, identity(name), data, store, ledger, self.noise), books=books, clock=self.clock
        )
        return await take_part(
            participant,
            linger=world.linger,
            watch=self._watch,
            finished=self._finished,
            progress=self.progress,
            network=self.network,
        )

    def _finished(self, participant: Participant, model: Any) -> None:
        self.finished = participant
        self.reached("model made")

    def _watch(self, doing: str, done: int, rounds: int) -> None:
        if doing.startswith("waiting for") and self.points["started"] and not self.points["paid"]:
            self.reached("meeting")
        elif doing.startswith("waiting until"):
            self.reached("met, not paid")
        elif doing == "computing":
            self.reached("computing")
        elif doing.startswith("waiting for"):
            self.reached("hearing")
        elif doing.startswith("staying for"):
            self.reached("leaving")

    def dispose(self) -> None:
        """When the world is over."""
        for task in list(self.tasks):
            with suppress(BaseException):
                task.get_coro().close()
        for each in self.opened:
            with suppress(Exception):
                each.close()
        self.disk.closed()
        self.kept.clear()
        self.ready.clear()


@dataclass
class Host:
    """A machine with the folder of a member. A copy of a member is another machine."""

    host: str
    place: int
    name: str
    folder: Path
    clock: Watch
    copied: bool = False
    life: Life | None = None
    lives: int = 0
    points: Counter[str] = field(default_factory=Counter)  # over all its lives
    over: bool = False  # it will not be started again
    done: bool = False  # it ended with 0
    why: str = ""  # why it has ended
    old: str = ""  # what was put back: "store", "ledger" or "both"; or "a flipped bit"
    newest: Path | None = None  # what the operator puts back then
    kept: Path | None = None  # an old copy, to be put back later
    liar: Any = None
    ends: int = 0  # in failure
    restored: bool = False  # its store was damaged, and was put back
    images: int = 0

    def place_for(self, what: str) -> Path:
        """Where the next image goes."""
        self.images += 1
        return self.folder.with_name(f"{self.name}.{self.host}.{self.images}.{what}")


class Lines(logging.Handler):
    """What agents log belongs to the life that logs it."""

    def emit(self, record: logging.LogRecord) -> None:
        process = HERE.get(None)
        if isinstance(process, Life):
            text = record.getMessage()
            process.log.append(text)
            process.world.said(process, text)
