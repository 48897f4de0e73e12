"""A world: what happens to whom, and when, from one number."""

from __future__ import annotations

import random
import shutil
import sys
import traceback
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from world import invariants
from world.lives import Host, Life, Shape, Watch, agreed, template
from world.loop import WorldLoop
from world.network import Web

_PEACE = 300.0  # virtual seconds after which a run that does not end is looked at
_STARTS = 60  # of one member: a supervisor that starts it more often is in a loop

POINTS = (
    "starting",
    "started",
    "meeting",
    "met, not paid",
    "paying",
    "paid",
    "computing",
    "state written",
    "in the commit",
    "committed, head not written",
    "committed, not marked",
    "marked",
    "answering",
    "answered",
    "hearing",
    "heard all",
    "model made",
    "leaving",
    "an await",
)
WRITES = ("paying", "state written", "in the commit", "committed, head not written", "committed, not marked")
FAULTS = (
    "kill",
    "power cut",
    "torn write",
    "full disk",
    "frozen",
    "cut off",
    "cut off one way",
    "reset",
    "slow link",
    "clock jumps",
    "flipped bit",
    "clone",
    "store rolled back",
    "ledger rolled back",
    "both rolled back",
    "gone for long",
)
LASTING = ("clone", "both rolled back")  # faults after which the run is over for the member
MEMORY = ("store rolled back", "ledger rolled back", *LASTING)
_GONE = 60.0  # seconds: the others have gone on by then, if the file lets them


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
    books: bool = False  # whether members show each other the heads of their ledgers


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
        self.doubled: set[str] = set()  # members that have two memories
        self.twice: dict[str, set[tuple[str, int]]] = defaultdict(set)  # of them: ticks that left in two versions
        self.drawn: dict[tuple[str, str, int], int] = {}
        self.simulated: dict[str, Any] = {}
        self.hit: Counter[tuple[str, str]] = Counter()  # point and fault
        self.pending = list(schedule.faults)
        self.lied = False
        self.evicted: set[str] = set()  # members without whom the others may go on
        names = self.federation.names
        self.hosts = [Host(str(i), i, name, folder / f"{name}.0", Watch(self.loop)) for i, name in enumerate(names)]
        for host in self.hosts:
            host.folder.mkdir()
            shutil.copy(template(host.name, templates), host.folder)
        if schedule.liar is not None:
            from world.liars import LIARS

            place, what = schedule.liar
            self.hosts[place].liar = LIARS[what](self)
            self.lied = self.hosts[place].liar.changes_models

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
        if life.name in self.doubled:
            self.twice[life.name].add(key[1:3])
        else:
            self.violated(f"{life.name} says two versions of {key[2:]}")

    def runs(self) -> dict[str, Any]:
        """The run that was agreed on, and those without members that are away."""
        found = {self.federation.run: self.federation}
        for life in self.lives:
            if life.finished is not None:
                found[life.finished.federation.run] = life.finished.federation
        return found

    def reached(self, life: Life, point: str) -> None:
        """Something may happen to a life here."""
        self.traced(life, "is at:", point)
        host = life.member
        if point == "paid":
            invariants.all_have_met(self, life)
        if host.old in ("store", "ledger") and point in ("marked", "answering"):
            self.violated(f"{life.name} goes on with an old copy of its {host.old}")
        if host.copied:
            return
        due = [f for f in self.pending if (f.member, f.point) == (host.place, point) and f.count <= host.points[point]]
        for fault in due:
            if not life.ghost:
                self._strike(life, fault)

    def _strike(self, life: Life, fault: Fault) -> None:
        self.pending.remove(fault)
        if self.happens(life, fault):
            self.hit[fault.point, fault.what] += 1

    # What happens to them

    def happens(self, life: Life, fault: Fault) -> bool:
        """Whether a fault did happen."""
        host, what, loop = life.member, fault.what, self.loop
        self.traced(life, "FAULT:", f"{what}, {fault.seconds:g} s")
        others = [str(h.place) for h in self.hosts if h.place != host.place]
        if what in ("kill", "power cut", "torn write"):
            self.crash(life, what, fault.seconds)
        elif what == "gone for long":
            if self.evicted or self.doubled:
                return False
            self.evicted.add(host.name)
            self.crash(life, "kill", _GONE)
        elif what == "full disk":
            life.disk.full = 3
        elif what == "frozen":
            loop.freeze(life, 5 * fault.seconds)
        elif what in ("cut off", "cut off one way"):
            near = self.rng.sample(others, self.rng.randint(1, len(others)))
            pairs = [(host.host, j) for j in near]
            if what == "cut off":
                pairs += [(j, host.host) for j in near]
            elif self.rng.random() < 0.5:
                pairs = [(j, i) for i, j in pairs]
            self.web.cut |= set(pairs)
            loop.later(10 * fault.seconds, self.web.heal, pairs)
        elif what == "reset":
            return self.web.reset(host.host) > 0
        elif what == "slow link":
            self.web.slow[host.host] = 0.3
            loop.later(10 * fault.seconds, self.web.slow.pop, host.host, None)
        elif what == "clock jumps":
            host.clock.moved += self.rng.choice((-1e7, 1e7))
        elif what == "flipped bit":
            return self._flip(life, fault.seconds)
        elif what == "clone":
            return self._clone(life)
        elif what.startswith("put back: "):
            self._put_back(life, what.removeprefix("put back: "))
        else:  # an old copy, to be put back when it has forgotten something
            if host.kept is not None or host.old or host.name in self.doubled:
                return False
            host.kept = life.disk.image(host.place_for("kept"), "kill")
            later = host.points["marked"] + 3
            self.pending.append(Fault(host.place, "marked", later, f"put back: {what.split()[0]}"))
        return True

    def crash(self, life: Life, how: str, seconds: float) -> Path:
        """The process is gone at this moment; its disk is what a crash leaves. It is started again later."""
        host = life.member
        host.folder = life.disk.image(host.place_for(how.replace(" ", "-")), how)
        life.ghost, life.alive, life.why = True, False, how
        if how == "power cut":
            self.web.off.add(host.host)
        self.web.ended(life)
        self.loop.later(seconds, self.start, host)
        return host.folder

    def _put_back(self, life: Life, what: str) -> None:
        """Old files in the place of the newest ones, if they have forgotten something that may have left."""
        host, kept = life.member, life.member.kept
        assert kept is not None
        folder = self.crash(life, "kill", 1.0)
        host.newest = host.place_for("newest")
        shutil.copytree(folder, host.newest)
        for path in list(folder.iterdir()):
            which = "ledger" if ".ledger" in path.name else "store" if ".store" in path.name else "books"
            if which in ("store", "ledger") and what not in (which, "both"):
                continue
            if which == "books" and what == "store":
                continue
            path.unlink()
            if (kept / path.name).exists():
                shutil.copy(kept / path.name, path)
        host.old, host.kept = what, None
        if what == "both":
            self.doubled.add(host.name)

    def _flip(self, life: Life, seconds: float) -> bool:
        """One bit of a file of the store, while the process is down."""
        host = life.member
        if host.old:
            return False
        folder = self.crash(life, "kill", seconds)
        files = sorted(p for p in folder.iterdir() if ".store" in p.name and p.stat().st_size)
        if not files:
            return False
        host.newest = host.place_for("newest")
        shutil.copytree(folder, host.newest)
        path = self.rng.choice(files)
        raw = bytearray(path.read_bytes())
        raw[self.rng.randrange(len(raw))] ^= 1 << self.rng.randrange(8)
        path.write_bytes(raw)
        host.old = "a flipped bit"
        return True

    def _clone(self, life: Life) -> bool:
        """A second host with a copy of the folder. Some neighbours reach it, others the first."""
        host = life.member
        if host.name in self.doubled or host.old or life.point in ("starting", "model made", "leaving"):
            return False
        self.doubled.add(host.name)
        twin = Host(f"{host.place}c", host.place, host.name, host.place_for("twin"), Watch(self.loop), copied=True)
        twin.folder = life.disk.image(twin.folder, "kill")
        self.hosts.append(twin)
        near = [str(j) for j in self.federation.graph.neighbours(host.place)]
        address = self.federation.members[host.place].address
        for j in self.rng.sample(near, self.rng.randrange(len(near) + 1)):
            self.web.routes[j, address] = twin.host
        self.loop.later(0.05 * self.rng.random(), self.start, twin)
        return True

    # Lives

    def start(self, host: Host) -> None:
        host.lives += 1
        self.web.off.discard(host.host)
        self.web.heal(())
        life = Life(self, host, host.folder, host.lives, self.rng.randrange(1 << 40))
        host.life = life
        self.lives.append(life)
        for fault in self.pending:
            if fault.point == "an await" and fault.member == host.place and not host.copied:
                life.left, life.struck = fault.count, partial(self._strike, life, fault)
                break
        self.traced(life, "starts", "")
        life.context.run(self.loop.create_task, life.live(), context=life.context)

    def ended(self, life: Life) -> None:
        """A process has ended by itself."""
        host = life.member
        self.traced(life, f"ends with {life.code}:", life.why)
        self.web.ended(life)
        life.alive = False
        host.why, host.done = life.why, life.code == 0
        for each in life.opened:
            each.close()
        life.disk.closed()
        if life.code in (2, 78) and host.old not in ("", "both"):  # the operator puts the newest files back
            assert host.newest is not None
            old, host.folder = host.folder, host.place_for("restored")
            shutil.copytree(host.newest, host.folder)
            if host.old == "a flipped bit":  # of the store alone
                for path in [each for each in host.folder.iterdir() if ".store" not in each.name]:
                    path.unlink()
                for path in [p for p in old.iterdir() if ".store" not in p.name and not p.name.endswith("-shm")]:
                    shutil.copy(path, host.folder)
                host.restored = True
            host.old, host.newest = "", None
            self.loop.later(1.0, self.start, host)
            return
        host.over = life.code in (0, 77, 78, 70)
        if (
            host.over
            and life.code
            and host.liar is None
            and not (host.name in self.doubled | self.evicted or self._told(life.why))
        ):
            if host.restored and "has sent messages in this run, but" in life.why:
                return  # it had gone on with the flipped bit, which nobody had noticed yet
            self.violated(f"{life.name} ends with {life.code}: {life.why}")
        if not host.over:
            host.ends += 1
            if host.ends > _STARTS:
                host.over = True
                self.violated(f"{life.name} is started again and again: {life.why}")
            self.loop.later(1.0, self.start, host)

    def _told(self, why: str) -> bool:
        """Whether an honest member may stop: another one has signed two versions."""
        lies = self.doubled | {host.name for host in self.hosts if host.liar is not None}
        return any(why.startswith(f"{name} has signed two versions") for name in lies)

    def play(self) -> World:
        for host in self.hosts:
            self.loop.later(self.rng.random(), self.start, host)
        for _ in range(4):
            over = self.loop.run(self._over, self.loop.time() + _PEACE)
            if over or self._broken():
                break
            for host in [each for each in self.hosts if each.done]:  # as the log tells the operator
                host.done = host.over = False
                self.start(host)
        if not over and not self._broken():
            stuck = [f"{h.name}: {h.life.point if h.life else 'not started'}" for h in self.hosts if not h.over]
            self.violated(f"after {self.loop.time():.0f} s some have not ended: {'; '.join(stuck)}")
        for host in self.hosts:
            if not host.over and host.life is not None and host.life.alive:
                self.crash(host.life, "kill", 1e9)
                self.loop.kill(host.life)
        invariants.finally_true(self)
        return self

    def _over(self) -> bool:
        return all(host.over or host.name in self.evicted for host in self.hosts)

    def _broken(self) -> bool:
        """Whether a member has stopped for good, so that the others wait for it; or a copy of one waits that has come
        when the member had finished."""
        copies = [host for host in self.hosts if host.name in self.doubled]
        if copies:
            return all(host.over for host in copies) or any(host.done for host in copies)
        return any(host.over and not host.done for host in self.hosts)

    def close(self) -> None:
        """Everything that processes held is closed, now that nobody sees what that does."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # coroutines that were never begun
                for life in self.lives:
                    life.dispose()
                self.loop.close()
        finally:
            sys.unraisablehook = hook
