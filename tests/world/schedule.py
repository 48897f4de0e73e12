"""A world: what happens to whom, and when, from one number."""

from __future__ import annotations

import gc
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from world import invariants
from world.lives import Host, Life, Lines, Shape, Watch, agreed, template
from world.loop import WorldLoop
from world.network import Web

from tacit.agent.monitoring.logs import log

_LONG = 4000.0  # virtual seconds until every run must have ended


@dataclass(frozen=True)
class Fault:
    """Something that happens to a member when it passes a point for the n-th time."""

    member: int
    point: str
    count: int
    what: str
    seconds: float = 1.0


@dataclass(frozen=True)
class Schedule:
    """All that a world depends on."""

    seed: int
    shape: Shape
    faults: tuple[Fault, ...] = ()
    liar: tuple[int, str] | None = None  # which member, and what it does
    tls: bool = False


class World:
    """One schedule, played."""

    def __init__(self, schedule: Schedule, folder: Path, templates: Path, *, trace: bool = False) -> None:
        self.schedule, self.seed, self.folder, self.tls = schedule, schedule.seed, folder, schedule.tls
        self.rng = random.Random(schedule.seed)
        self.loop = WorldLoop(random.Random(self.rng.random()))
        self.web = Web(self.loop, random.Random(self.rng.random()))
        self.federation = agreed(schedule.shape)
        self.tracks = any(fault.what in ("power cut", "torn write") for fault in schedule.faults)
        self.witness, self.linger = invariants.Witness(self), 60.0
        self.violations: list[str] = []
        self.trace: list[str] | None = [] if trace else None
        self.lives: list[Life] = []
        self.doubled: set[str] = set()  # members of which two processes have lived
        self.drawn: dict[tuple[str, str, int], int] = {}
        self.simulated: dict[str, Any] = {}
        self.hit: Counter[tuple[str, str]] = Counter()  # point and fault
        self.pending = list(schedule.faults)
        self.lied = schedule.liar is not None
        self.hosts = [
            Host(str(i), i, name, folder / f"{name}.0") for i, name in enumerate(self.federation.names)
        ]
        for host in self.hosts:
            host.folder.mkdir()
            shutil.copy(template(host.name, templates), host.folder)
            host.clock = Watch(self.loop)

    # What lives report

    def traced(self, life: Life, what: str | None, detail: str) -> None:
        if self.trace is not None and what is not None:
            self.trace.append(f"{self.loop.time():10.4f}  {life.name}.{life.number:<3} {what} {detail}")

    def said(self, life: Life, text: str) -> None:
        self.traced(life, "logs:", text)

    def violated(self, what: str, error: BaseException | None = None) -> None:
        self.violations.append(what)
        if self.trace is not None:
            self.trace.append(f"{self.loop.time():10.4f}  VIOLATION {what}")
            if error is not None:
                self.trace += traceback.format_exception(error)

    def two_versions(self, life: Life, key: tuple[Any, ...], known: dict[bytes, str]) -> None:
        self.violated(f"{life.name} says two versions of {key}")

    def runs(self) -> dict[str, Any]:
        """The run that was agreed on, and those without members that are away."""
        found = {self.federation.run: self.federation}
        for life in self.lives:
            if life.finished is not None:
                found[life.finished.federation.run] = life.finished.federation
        return found

    def reached(self, life: Life, point: str) -> None:
        self.traced(life, "is at:", point)

    # Lives

    def start(self, host: Host) -> None:
        host.lives += 1
        life = Life(self, host, host.folder, host.lives, self.rng.randrange(1 << 40))
        host.life = life
        self.lives.append(life)
        self.traced(life, "starts", "")
        life.context.run(self.loop.create_task, life.live(), context=life.context)

    def ended(self, life: Life) -> None:
        """A process has ended by itself."""
        host = life.member
        self.traced(life, f"ends with {life.code}", life.why)
        self.web.ended(life)
        life.alive = False
        host.why, host.done = life.why, life.code == 0
        host.over = life.code in (0, 78, 70)
        for each in life.opened:
            each.close()
        life.disk.closed()
        if not host.over:
            host.ends += 1
            self.loop.later(1.0, self.start, host)

    def play(self) -> World:
        for host in self.hosts:
            self.loop.later(self.rng.random(), self.start, host)
        ended = self.loop.run(lambda: all(host.over for host in self.hosts), _LONG)
        if not ended:
            stuck = [f"{h.name}: {h.life.point if h.life else 'not started'}" for h in self.hosts if not h.over]
            self.violated(f"after {self.loop.time():.0f} s some have not ended: {'; '.join(stuck)}")
        invariants.finally_true(self)
        return self

    def close(self) -> None:
        hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
        try:
            for life in self.lives:
                life.dispose()
            self.loop._timers.clear()
            self.lives.clear()
        finally:
            sys.unraisablehook = hook


