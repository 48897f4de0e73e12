"""The agents that `chaos_runs.py` disturbs, the supervisor that starts them again, and what must hold in the end."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from agent_worker import PROCESSES
from chaos_agent import POINTS, Life, live
from hostile import SCHEMA, D, new_ledger, plan_of
from patience import waited
from ports import free_ports

from tacit.agent import backup
from tacit.agent.certificate import signed_report
from tacit.agent.certificate.examination import collected, examined
from tacit.agent.federation import ROWS, SUMS, TOTALS, Federation, Member, agreement, talk
from tacit.agent.identity import Identity
from tacit.agent.monitoring.status import store_name
from tacit.agent.store import Store, check, status
from tacit.agent.transport.wire_pb2 import Message
from tacit.errors import MachineError, Over, TacitError
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.trust import LOCAL, Trust

PROCESSES.set_forkserver_preload(["chaos_warm", "chaos_agent"])
METHODS = {
    "broadcast": ("mr-admm", ROWS),
    "token": ("pi-admm", ROWS),
    "secret-shared": ("mr-admm", SUMS),
    "shared noise": ("shared-descent", TOTALS),
}
FAULTS = (  # what is done to agents, as it is counted
    *("kills", "SIGTERM", "stops", "cuts", "held connections", "slow connections", "ended because the disk was full"),
    *("refused because of the clock", "flips", "rollbacks: store", "rollbacks: ledger", "rollbacks: both", "clones"),
)
PEOPLE = 60  # records of a member
OLD = re.compile(r"does not have ticks? \d|an old copy|old backup|second copy|two copies|has signed two versions")
CONTRADICTED = re.compile(r"has signed two versions of what it said at tick \d+: the run is over")
DAMAGED = re.compile(r"is damaged|is an old copy|cannot be used|is lost")
DISK_FULL = re.compile(
    r"full|too large|disk I/O error|nothing was (sent|written)|cannot be|could not be", re.IGNORECASE
)
NOTICED = 60.0  # seconds in which the agents could run, until a copy or an old copy has ended
NEVER = re.compile(r"Traceback|an error in the program|does not have that tick|is an old copy|is damaged|contradict")
STALL = 150.0  # seconds without progress in which the agents could run
TOLD = 15.0  # seconds to end after SIGTERM in which it could run: five, and ten for the disk of a busy machine
AGAIN = 25.0  # seconds without progress after which agents that have ended are started again for the others
_CHILDREN = threading.Lock()  # starting a child, multiprocessing looks after all others: one thread at a time


class Violation(Exception):  # noqa: N818 (what the whole program looks for)
    """Something is not as it must be."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(what)


def code(process: Any) -> int | None:
    """The exit code of a process; None as long as it runs."""
    with _CHILDREN:
        return process.exitcode


def killed(process: Any) -> None:
    """Kills a process, and waits until it is gone."""
    while code(process) is None:
        process.kill()
        time.sleep(0.005)


def prepared(folder: Path, kind: str, agents: int) -> Federation:
    """Keys, records, ledgers and the federation file."""
    names, shape = [f"m{i:02d}" for i in range(agents)], np.random.default_rng(agents)
    members = []
    for name, port in zip(names, free_ports(agents), strict=True):
        made = Identity.new(name, folder)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{k}" for k in range(D)), "ill"])
            for row in shape.random((PEOPLE, D)).round(3):
                writer.writerow([*row, "yes" if row.sum() > 1.5 else "no"])
        new_ledger(folder / f"{name}.ledger", name, 10.0)
        (folder / f"{name}.where").write_bytes(b"\0")
        members.append(Member(name, f"127.0.0.1:{port}", PEOPLE, made.certificate))
    ring = {(i, (i + 1) % agents) for i in range(agents)}
    chords = {tuple(shape.choice(agents, 2, replace=False).tolist()) for _ in range(agents if agents > 4 else 0)}
    edges = {(names[min(a, b)], names[max(a, b)]) for a, b in ring | chords}
    method, exchange = METHODS[kind]
    trust = Trust(1) if exchange == TOTALS else LOCAL
    asked = Request(method=method, budget=Budget(2.0, 1e-5), trust=trust)
    made = agreement(f"chaos, {kind}", members, talk(names, edges), asked, SCHEMA, exchange=exchange)
    (folder / "federation.toml").write_text(made.to_toml())
    return made


@dataclass(frozen=True)
class Copy:
    """The files of a member as they were at one moment."""

    folder: Path
    tick: int  # the last one that was committed; -1 before
    archived: bool  # whether the store comes back by `tacit agent backup` and `restore`, on a machine without a store

    def put_store(self, agent: Agent, run: str) -> None:
        """Puts the store back."""
        kept, name = self.folder / agent.name, agent.store.name
        for path in agent.store.parent.glob(f"{name}*"):
            path.unlink()
        if self.archived:
            archive = self.folder / "backup"
            if not archive.exists():
                backup.write(kept / name, archive)
            backup.restore(archive, agent.store, run, agent.name)
        else:
            for path in kept.glob(f"{name}*"):
                shutil.copy(path, agent.store.parent)

    def put_ledger(self, agent: Agent, books: bool) -> None:
        """Puts the ledger back; and what the folder of the identity knows of it, if that is to be old, too."""
        for path in agent.folder.glob(f"{agent.name}.ledger*"):
            path.unlink()
        for path in self.folder.glob(f"{agent.name}.ledger*"):
            shutil.copy(path, agent.folder)
        if books:
            for path in agent.store.parent.glob("ledgers.db*"):
                path.unlink()
            for path in (self.folder / agent.name).glob("ledgers.db*"):
                shutil.copy(path, agent.store.parent)


@dataclass
class Agent:
    """One member, over all its lives."""

    name: str
    folder: Path  # all its files are here
    store: Path
    arguments: list[str]
    process: Any = None
    life: Life | None = None
    number: int = 0
    tick: int = -1  # as of the last look
    cause: str = ""  # what was done to its present life from outside
    told: tuple[float, float] = (0.0, 0.0)  # when it was told to end, and how long it had waited for a processor
    rots: bool = False  # a bit of its store will flip as soon as it is down
    last: str = ""  # at which point its next life ends
    flipped: tuple[str, int, int] | None = None  # file, byte and bit
    silent: bool = False  # keeps to itself what it knows of others
    routes: dict[str, str] = field(default_factory=dict)  # where it reaches neighbours, if not at their addresses
    copies: list[Copy] = field(default_factory=list)  # of its files, the oldest first
    rolls: str = ""  # what will be put back from a copy as soon as it is down: "store", "ledger" or "both"
    old: str = ""  # what is an old copy now
    newest: Copy | None = None  # what was there before,
    left: list[str] = field(default_factory=list)  # and had been sent
    from_tick: int = -1  # the last one that the old copy knows
    copied: bool = False  # it has two processes, in two folders
    over: bool = False  # ended with 78, for good
    ended: bool = False  # by itself, with 0
    done: bool = False  # it has been so once


@dataclass
class Run:
    """The agents of one federation, and the supervisor that starts them."""

    folder: Path
    kind: str
    agents: int
    seed: int | None  # of the noise
    liar: bool
    plant: str = ""
    chance: str = ""  # of what happens inside its lives; "": nothing
    pace: float = 0.0  # seconds before a commit
    counts: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)  # where agents were killed

    def __post_init__(self) -> None:
        self.federation = prepared(self.folder, self.kind, self.agents)
        self.members = []
        for name in self.federation.names:
            words = {"federation": "federation.toml", "identity": name, "data": f"{name}.csv"}
            words |= {"ledger": f"{name}.ledger", "out": f"{name}.json"}
            options = [word for key, value in words.items() for word in (f"--{key}", value)]
            store = self.folder / name / store_name(self.federation)
            self.members.append(Agent(name, self.folder, store, options))
        self.clones: list[Agent] = []
        self.due: list[tuple[float, Callable[[], None]]] = []  # when, and what
        self._moved, self._looked, self._again, self._lost = time.monotonic(), 0.0, 0.0, 0.0
        self._before: tuple[Any, ...] = ()

    # The supervisor

    def start(self, agent: Agent, calm: bool = False) -> None:
        agent.number += 1
        (agent.folder / f"{agent.name}.where").write_bytes(b"\0")
        liar = self.liar and agent is self.members[0]
        inside = {} if calm or agent.flipped or agent.old or not self.chance else self._inside(agent)
        if agent.last:
            inside, agent.last = {"dies": (agent.last, 0)}, ""
        inside |= {"pace": self.pace, "lies": liar, "plant": self.plant, "silent": agent.silent, "routes": agent.routes}
        agent.life = Life(agent.number, agent.store, self.seed, **inside)
        agent.cause, agent.ended = "", False
        arguments = (agent.folder, agent.name, agent.life, agent.arguments)
        agent.process = PROCESSES.Process(target=live, args=arguments, daemon=True)
        with _CHILDREN:
            agent.process.start()

    def _inside(self, agent: Agent) -> dict[str, Any]:
        """What will happen inside a life: drawn from its number alone."""
        rng = random.Random(f"{self.chance}/{agent.name}/{agent.number}")
        what = rng.choices(["", "dies", "slow", "full", "clock"], [10, 5, 4, 2, 2])[0]
        self.counts[f"{what} inside"] += bool(what)
        if what == "dies":
            return {"dies": (rng.choice(POINTS[1:]), rng.choice([0, 0, 1, 2, 5]))}
        if what == "slow":
            return {"slow": rng.uniform(0.02, 0.15)}
        if what == "full":
            return {"full": (rng.uniform(0.0, 3.0), rng.randrange(60_000))}
        if what == "clock":
            days = rng.choice([-2.0, -0.03, 1.0, 400.0, 729.0, 800.0])
            return {"clock": (days, rng.uniform(0.0, 4.0), rng.choice([-400.0, 0.0, 3000.0]))}
        return {}

    def step(self, seconds: float, calm: bool = False) -> None:
        """Lets time pass; looks after agents that have ended, and does what is due."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for each in [each for each in self.due if each[0] <= now]:
                self.due.remove(each)
                each[1]()
            for agent in (*self.members, *self.clones):
                if agent.ended or agent.over:
                    continue
                if code(agent.process) is not None:
                    self._supervise(agent, calm)
                elif agent.cause == "told":
                    at, lost = agent.told
                    slow = now - at - (waited([agent.process.pid]) - lost) > TOLD
                    require(not slow, f"{agent.name} does not end when it is told to:\n{self.log(agent)}")
            self._look(calm)
            if now >= until:
                return
            time.sleep(min(0.03, until - now))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.due.append((time.monotonic() + seconds, what))

    def _supervise(self, agent: Agent, calm: bool) -> None:
        """What a supervisor does when an agent has ended; refuses an end that nothing explains."""
        ended, life, text, where = code(agent.process), agent.life, self.log(agent), self.where(agent)
        assert life is not None
        explained, sound = False, agent.flipped is None and not agent.old and not agent.copied
        if ended == -signal.SIGKILL:
            explained = agent.cause == "killed" or life.dies is not None
            self.counts["kills"] += 1
            self.counts["kills at a chosen point"] += agent.cause != "killed"
            self.points[where] += 1
        elif (agent.old or agent.copied) and ended == 78 and OLD.search(text):
            explained = where == "loading" or agent.old not in ("store", "ledger")
            self.counts[f"refused: {agent.old or 'copy'}"] += 1
            self._renew(agent)
        elif ended == 78 and self.clones and CONTRADICTED.search(text):
            explained = agent.over = True
            self.counts["ended because another member contradicted itself"] += 1
        elif ended == 0:
            explained = agent.ended = agent.done = not (agent.old or agent.copied)
        elif agent.cause == "told" and (ended == 75 or (ended == -signal.SIGTERM and where == "loading")):
            explained = True
            self.counts["ended after SIGTERM"] += 1
        elif agent.flipped is not None and where == "loading" and ended in (2, 78):
            explained = bool(DAMAGED.search(text))
            self.counts["flips that were named"] += 1
            self._restore(agent)
        elif life.full is not None and ended == MachineError.exit_code:
            explained = bool(DISK_FULL.search(text)) or not text.strip()
            self.counts["ended because the disk was full"] += 1
        elif life.clock is not None and ended == 2:
            explained = "certificate of" in text and ("expired on" in text or "set the clock" in text)
            self.counts["refused because of the clock"] += 1
        if agent.flipped is not None and ended != 78 and where != "loading":
            self.counts["flips without effect"] += 1
            agent.flipped = None
        if not explained:
            raise Violation(f"{agent.name} ended with {ended} at {where!r}:\n{text[-3000:]}\n{life}")
        if found := NEVER.search(text if sound else ""):
            raise Violation(f"{agent.name} says {found[0]!r}:\n{text[-3000:]}")
        if agent.rots and not (agent.ended or agent.over or agent.old):
            self._rot(agent)
        agent.rots = False
        if agent.rolls and not (agent.ended or agent.over or agent.flipped):
            self._roll_back(agent)
        if not (agent.ended or agent.over):
            self.start(agent, calm)

    def _rot(self, agent: Agent) -> None:
        """Flips one bit of a store, of which there is a backup of the last commit."""
        if agent.flipped is not None or agent.tick < 0 or (self.plant and self.counts["flips"]):
            return
        rng = random.Random(f"{self.chance}/{agent.name}/{agent.number}/bit")
        file = self.folder / f"{agent.name}.backup"
        file.unlink(missing_ok=True)
        backup.write(agent.store, file)
        parts = ["-state0", "-state1"] if self.plant else ["", "-wal", "-head", "-state0", "-state1"]
        sizes = {part: Path(f"{agent.store}{part}") for part in parts}
        sizes = {part: path.stat().st_size for part, path in sizes.items() if path.exists()}
        part = rng.choice(sorted(part for part, size in sizes.items() if size))
        at = rng.randrange(sizes[part])
        if self.plant:  # in the first numbers of the state: what comes before them would not be silent
            at = Path(f"{agent.store}{part}").read_bytes().index(b"\n") + 1 + at % 24
        agent.flipped = (part, at, rng.randrange(8))
        flip(agent.store, *agent.flipped)
        self.counts["flips"] += 1

    def _restore(self, agent: Agent) -> None:
        """Puts the backup back, as docs/deploy.md says. If the head, whose number a bit has raised, forbids that, there
        would have to be a new run; here the bit is flipped back."""
        assert agent.flipped is not None
        try:
            backup.restore(self.folder / f"{agent.name}.backup", agent.store, self.federation.run, agent.name)
        except Over as error:
            require(agent.flipped[0] == "-head" and "is older than" in str(error), str(error))
            flip(agent.store, *agent.flipped)
            self.counts["flips of the head that forbid a backup"] += 1
        agent.flipped = None

    # Memory that is put back, or doubled

    def copy(self, agent: Agent) -> Copy | None:
        """Keeps a copy of all files of a member, as of now; None if it has not spoken yet."""
        place = self.folder / "copies" / f"{agent.name}.{len(agent.copies)}"
        with frozen(agent):
            shutil.copytree(agent.folder / agent.name, place / agent.name)
            for path in agent.folder.glob(f"{agent.name}.ledger*"):
                shutil.copy(path, place)
        for path in place.rglob("*-shm"):  # of the processes that have a file open: of no use to others
            path.unlink()
        try:
            tick = status(place / agent.name / agent.store.name).tick
        except TacitError:
            tick = -1
        made = Copy(place, tick, len(agent.copies) % 2 == 1)
        agent.copies.append(made)
        return made if tick >= 0 else None

    def _roll_back(self, agent: Agent) -> None:
        """Puts an old copy of the store, of the ledger or of both in the place of the newest files."""
        what, agent.rolls = agent.rolls, ""
        with ledger_of(agent) as ledger:
            marks = ledger.marks(self.federation.run)
        # A commit notes the ledger before its own mark: one tick less is nothing that the ledger has to know.
        least = 1 if what == "store" else 2
        older = [each for each in agent.copies if each.tick >= 0 and sum(t > each.tick for t in marks) >= least]
        if agent.old or not older:
            return
        chosen = random.Random(f"{self.chance}/{agent.name}/{agent.number}/copy").choice(older)
        agent.newest, agent.old = self.copy(agent), what
        assert agent.newest is not None
        agent.left = self._lines(agent)
        if what != "ledger":
            chosen.put_store(agent, self.federation.run)
        if what != "store":
            chosen.put_ledger(agent, books=what == "both" or chosen.archived)
        self.counts[f"rollbacks: {what}"] += 1
        agent.tick = agent.from_tick = agent.newest.tick if what == "ledger" else chosen.tick

    def _renew(self, agent: Agent) -> None:
        """What the operator does: puts the newest files back, if there are any."""
        if agent.old not in ("store", "ledger"):
            agent.over = True
            return
        assert agent.newest is not None
        newest = replace(agent.newest, archived=False)
        newest.put_store(agent, self.federation.run)
        newest.put_ledger(agent, books=True)
        agent.old, agent.newest = "", None

    def clone(self, agent: Agent, made: Copy, listen: str) -> Agent:
        """A second process of a member, in a copy of its folder."""
        place = self.folder / "clone"
        shutil.copytree(made.folder, place)
        for name in (f"{agent.name}.csv", "federation.toml"):
            shutil.copy(self.folder / name, place)
        store = place / agent.name / agent.store.name
        twin = Agent(agent.name, place, store, [*agent.arguments, "--listen", listen], copied=True)
        agent.copied = True
        self.clones.append(twin)
        self.start(twin, calm=True)
        return twin

    def _look(self, calm: bool) -> None:
        """Refuses agents that do not get on, and those that get on with what they should not."""
        now = time.monotonic()
        if now < self._looked + 0.5:
            return
        self._looked = now
        for agent in self.members:
            try:
                agent.tick = status(agent.store).tick
            except TacitError:  # not made yet; or a bit was flipped
                continue
            gone_on = agent.old and agent.tick > agent.from_tick
            require(not gone_on, f"{agent.name} goes on with an old copy: {agent.old}")
        state = (*(agent.tick for agent in self.members), *(agent.done for agent in self.members))
        running = [agent.process.pid for agent in self.members if not (agent.ended or agent.over)]
        if state != self._before or not calm:
            self._before, self._moved, self._lost = state, now, waited(running)
            return
        ended = [agent for agent in self.members if agent.ended]
        if now > max(self._moved, self._again) + AGAIN and ended and len(ended) < len(self.members):
            self._again = now
            for agent in ended:  # "if a neighbour comes back after that, start your agent again"
                self.start(agent, calm=True)
                self.counts["started again for a neighbour"] += 1
        if now > self._moved + STALL + max(0.0, waited(running) - self._lost):
            places = [f"{agent.name}: tick {agent.tick}, {self.where(agent)}" for agent in self.members]
            raise Violation("no agent gets on:\n" + "\n".join([*places, *map(self.log, self.members)]))

    def where(self, agent: Agent) -> str:
        """The last point that the agent passed in its present or last life."""
        return POINTS[(agent.folder / f"{agent.name}.where").read_bytes()[0]]

    def log(self, agent: Agent) -> str:
        """Of its present or last life."""
        path = agent.folder / f"{agent.name}.{agent.number}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def finish(self, over: Callable[[], bool] = lambda: False) -> None:
        """Until all agents have ended by themselves."""
        while not (all(agent.ended for agent in self.members) or over()):
            self.step(0.1, calm=True)

    def forgotten(self, agents: Iterable[Agent]) -> None:
        """Until all of these, which are copies or have old files, have noticed it and have ended for good."""
        agents, began, lost = list(agents), time.monotonic(), 0.0
        while live := [agent for agent in agents if not agent.over]:
            self.step(0.1, calm=True)
            lost = max(lost, waited(agent.process.pid for agent in live))
            if time.monotonic() < began + NOTICED + lost:
                continue
            waits = [agent for agent in live if agent.old and "does not have that tick" in self.log(agent)]
            texts = "\n".join(f"{agent.folder.name}: {self.log(agent)[-1500:]}" for agent in live)
            what = f"{live[0].name}: {len(live)} of {len(agents)} processes have not ended within {NOTICED:g} s"
            require(waits == live, f"{what}:\n{texts}")
            self.counts["held up"] += len(waits)
            return

    def stop(self) -> None:
        for agent in (*self.members, *self.clones):
            if agent.process is not None:
                killed(agent.process)

    # What has come of it

    def rows(self) -> dict[tuple[int, int], bytes]:
        """All that was said, by tick and agent."""
        found = {}
        for i, agent in enumerate(self.members):
            for tick, raw, _ in self.releases(agent):
                found[tick, i] = bytes(Message.FromString(raw).payload)
        return found

    def releases(self, agent: Agent) -> list[tuple[int, bytes, Any]]:
        with closing(Store(agent.store, self.federation.run, agent.name, self.federation.rounds)) as store:
            return store.releases()

    def models(self) -> list[bytes]:
        found = [json.loads((self.folder / f"{agent.name}.json").read_text())["weights"] for agent in self.members]
        require(bool(np.isfinite(found).all()), "a model is not finite")
        return [np.array(each, dtype=float).tobytes() for each in found]

    def check(self) -> None:
        """Everything but the comparison with the undisturbed run."""
        for i, agent in enumerate(self.members):
            who = agent.name
            require(check(agent.store) is not None, f"{who} has no store")  # every digest
            releases = self.releases(agent)
            self._check_sent(agent, {tick: raw for tick, raw, _ in releases})
            with ledger_of(agent) as ledger:
                ledger.verify()
                marks = [(entry.tick, entry.body) for entry in ledger.entries() if entry.kind == "mark"]
            self._check_paid(i, agent.folder)
            said = [(tick, sha256(raw).digest()) for tick, raw, _ in releases]
            require(marks == said, f"the ledger of {who} does not have what has left")
            signed_report.verified(self.folder / f"{who}.report.json", self.federation)
        signed = [json.loads((self.folder / f"{agent.name}.report.json").read_text()) for agent in self.members]
        model = json.loads((self.folder / f"{self.members[-1].name}.json").read_text())
        with ExitStack() as stack:
            books = {agent.name: stack.enter_context(ledger_of(agent)) for agent in self.members}
            faults = examined(collected(self.federation, signed), model, books).faults
        # Seeded noise is not private, and the reports say so.
        faults = [each for each in faults if self.seed is None or not each.where.endswith(".private")]
        require(not faults, f"the certificate does not hold: {'; '.join(map(str, faults))}")

    def check_left(self) -> None:
        """What must hold when a run is over because a member was copied or put back as a whole: no tick has left in two
        versions over all copies of a member, and no ledger says less than what has left from it."""
        for i, agent in enumerate(self.members):
            copies = [agent, *(each for each in self.clones if each.name == agent.name)]
            lines = [line for each in copies for line in self._lines(each)]
            versions = self._versions(lines)
            twice = sorted({int(key[0]) for key, digests in versions.items() if len(digests) > 1})
            self.counts["ticks that left in two versions"] += len(twice)
            require(len(twice) <= len(copies) - 1, f"{agent.name} has sent two versions of {twice}")
            self.counts["answers"] += sum(map(len, versions.values()))
            for each in copies:
                since = self._lines(each)
                if each.old == "both":
                    assert each.newest is not None
                    self._check_marked(i, each.newest.folder, each.left)
                    since = since[len(each.left) :]
                self._check_marked(i, each.folder, since)
                if check(each.store) is not None and not each.old:
                    self._check_committed(each)

    def _check_paid(self, i: int, folder: Path) -> None:
        who = self.members[i].name
        with Ledger(folder / f"{who}.ledger", cost=filters.epsilon) as ledger:
            paid = [((entry.run, entry.tick), entry.body) for entry in ledger.entries() if entry.kind == "reserve"]
        planned = list(plan_of(self.federation, i).items())
        require(paid == planned, f"the ledger of {who} is not as planned: {len(paid)} rows, not {len(planned)}")

    def _check_marked(self, i: int, folder: Path, lines: list[str]) -> None:
        """A ledger has what was planned, once, and a mark for each of these answers."""
        who = self.members[i].name
        with Ledger(folder / f"{who}.ledger", cost=filters.epsilon) as ledger:
            ledger.verify()
            marks = ledger.marks(self.federation.run)
        if not lines and not marks:
            return  # it may not have paid yet
        self._check_paid(i, folder)
        for line in lines:
            tick, _, _, digest = line.split()
            there = int(tick) in marks
            if self.federation.exchange == ROWS:
                there = there and marks[int(tick)].hex() == digest
            require(there, f"the ledger of {who} in {folder.name} has no mark of what has left at tick {tick}")

    def _check_committed(self, agent: Agent) -> None:
        """All that the ledger has marked is in the store; and at most one tick more, whose agent was stopped before."""
        with ledger_of(agent) as ledger:
            marks = ledger.marks(self.federation.run)
        said = {tick: sha256(raw).digest() for tick, raw, _ in self.releases(agent)}
        more = {tick for tick in said if tick not in marks}
        held = marks == {tick: said.get(tick) for tick in marks} and more <= {max(said, default=-1)}
        require(held, f"the ledger of {agent.name} and its store have different messages")

    def _lines(self, agent: Agent) -> list[str]:
        """What the witness saw: tick, phase, listener and hash."""
        path = agent.folder / f"{agent.name}.sent"
        return path.read_text().splitlines() if path.exists() else []

    def _versions(self, lines: Iterable[str]) -> dict[tuple[str, ...], set[str]]:
        found: dict[tuple[str, ...], set[str]] = {}
        for line in lines:
            tick, phase, listener, digest = line.split()
            key = (tick,) if self.federation.exchange == ROWS else (tick, phase, listener)
            found.setdefault(key, set()).add(digest)
        return found

    def _check_sent(self, agent: Agent, stored: dict[int, bytes]) -> None:
        versions = self._versions(self._lines(agent))
        twice = [key for key, digests in versions.items() if len(digests) > 1]
        require(not twice, f"{agent.name} has sent two versions of {twice}")
        if self.federation.exchange == ROWS:
            for (tick,), digests in versions.items():
                there = int(tick) in stored and sha256(stored[int(tick)]).hexdigest()
                require({there} == digests, f"{agent.name} has sent at tick {tick} what its store does not have")
        self.counts["answers"] += sum(map(len, versions.values()))


@contextmanager
def frozen(agent: Agent) -> Iterator[None]:
    """An agent that does nothing meanwhile, so that its files can be copied as of one moment."""
    send(agent.process, signal.SIGSTOP)
    stat = Path(f"/proc/{agent.process.pid}/stat")
    with suppress(OSError):  # it has just ended
        while stat.read_text().rpartition(") ")[2][0] not in "TZ":
            time.sleep(0.001)
    yield
    if agent.cause != "stopped":
        send(agent.process, signal.SIGCONT)


def ledger_of(agent: Agent) -> Ledger:
    return Ledger(agent.folder / f"{agent.name}.ledger", cost=filters.epsilon)


def flip(store: Path, part: str, at: int, bit: int) -> None:
    """One bit of a file of a store."""
    with open(f"{store}{part}", "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def send(process: Any, number: signal.Signals) -> None:
    """Sends a signal to a process, if it runs."""
    with suppress(ProcessLookupError):
        if code(process) is None:
            os.kill(process.pid, number)
