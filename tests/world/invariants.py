"""What must hold: at every message that leaves, and when the world is over.

The witness stands at the network: it sees every frame as it leaves a process. With TLS it sees nothing, and only what
must hold in the end is checked.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from typing import Any

import numpy as np

import tacit
from tacit.agent.federation import ROWS, SUMS, TOTALS
from tacit.agent.transport.sizes import largest_answer, largest_question
from tacit.agent.transport.tls_streams import ANSWER, ASK, GREET, LEAVE, NOT_YET
from tacit.agent.transport.wire import bare
from tacit.agent.transport.wire_pb2 import Message, Question
from tacit.exchange import SecretSharedSums
from tacit.privacy import filters
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import canonical
from tacit.privacy.noise import SeededNoise
from world.lives import Life, parts
from world.network import FRAME, End

PER_SECOND, PER_TICK = 40, 40  # frames to a neighbour, at most: an agent that asks without a pause sends hundreds


class Mouth:
    """What one end of a connection writes, frame by frame."""

    def __init__(self, witness: Witness, life: Life, end: End, asks: bool) -> None:
        self._witness, self._life, self._end, self._asks = witness, life, end, asks
        self._raw, self._shown = bytearray(), False
        self.asked: tuple[int, Any] | None = None  # the last question that this end was asked, or asks

    def passes(self, data: bytes) -> list[bytes]:
        """The pieces that leave for these bytes."""
        if self._life.ghost:
            return []
        raw = self._raw
        raw += data
        if not self._shown:  # the certificate
            size = 4 + int.from_bytes(raw[:4], "big")
            assert len(raw) >= size
            self._shown = True
            first = bytes(raw[:size])
            del raw[:size]
            return [first, *self.passes(b"")] if raw else [first]
        found = []
        while len(raw) >= FRAME.size:
            size, kind = FRAME.unpack(raw[: FRAME.size])
            if len(raw) < FRAME.size + size:
                break
            content = bytes(raw[FRAME.size : FRAME.size + size])
            del raw[: FRAME.size + size]
            found += [FRAME.pack(len(each), kind) + each for kind, each in self._frame(kind, content)]
            if self._life.ghost:
                break
            if kind == ANSWER:
                self._life.world.loop.call_soon(self._life.reached, "answered", context=self._life.context)
        return found

    def _frame(self, kind: int, content: bytes) -> list[tuple[int, bytes]]:
        witness, life, far = self._witness, self._life, self._end.far
        liar = life.member.liar
        if self._asks:
            question = Question.FromString(content) if kind == ASK else None
            if far.watch is not None:
                far.watch.asked = kind, question
            if liar is not None and kind == GREET:
                content = liar.greeting(life, far.host, content)
            if kind == GREET:
                witness.greeted(life, content)
        elif kind == ANSWER and self.asked is not None:
            if liar is not None:
                lied = liar.answer(life, far.host, *self.asked, content)
                if lied is None:
                    return [(NOT_YET, b"not yet")]
                content = lied
            if self.asked[0] == ASK:
                life.reached("answering")
                if life.ghost:
                    return []
                witness.left(life, far.host, self.asked[1], content)
        witness.count(life, kind, content)
        to = far.owner.member.liar
        if to is not None:
            answered = self.asked[0] if kind == ANSWER and self.asked is not None else None
            about = (kind if kind == GREET else None) if self._asks else answered
            content = to.hears(far.owner.member.place, about, content)
        return [(kind, content)]


class Witness:
    """Sees all that leaves."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.versions: dict[tuple[Any, ...], dict[bytes, str]] = defaultdict(dict)  # -> digest -> host
        self._marked: dict[Life, set[tuple[str, int, bytes]]] = defaultdict(set)
        self.messages, self.frames, self.longest = 0, Counter[str](), 0
        self.sent: dict[str, set[tuple[str, int]]] = defaultdict(set)  # by member: (run, tick) that left

    def of(self, life: Life) -> Any:
        return lambda end, asks: Mouth(self, life, end, asks)

    def count(self, life: Life, kind: int, content: bytes) -> None:
        self.frames[life.member.host] += 1
        self.longest = max(self.longest, len(content))
        self.world.traced(life, {GREET: "greets", ASK: "asks", LEAVE: "leaves"}.get(kind), "")

    def greeted(self, life: Life, content: bytes) -> None:
        """A greeting accuses nobody falsely: see the end."""

    def left(self, life: Life, to: str, question: Question, content: bytes) -> None:
        """A message leaves. It is in one version, and the ledger knows it."""
        message = Message.FromString(content)
        if not message.run or life.member.liar is not None:
            return
        self.messages += 1
        run, tick, digest = message.run.hex(), message.tick, sha256(bare(message)).digest()
        world = self.world
        shared = world.federation.exchange != ROWS or message.phase
        key = (life.name, run, tick, message.phase, message.sender, *([to] if shared else []))
        world.traced(life, f"says {tick}.{message.phase} to", f"{to} {digest.hex()[:8]}")
        known = self.versions[key]
        if digest not in known:
            known[digest] = life.member.host
            if len(known) > 1:
                world.two_versions(life, key, known)
        if message.phase == 3:
            return  # a state, which is made of totals
        self.sent[life.name].add((run, tick))
        seen = self._marked[life]
        if (run, tick, digest) in seen:
            return
        seen.add((run, tick, digest))
        if not self._is_marked(life, run, tick, digest, exact=world.federation.exchange == ROWS):
            world.violated(f"{life.name} says tick {tick} to {to}, and its ledger has no mark of it")

    def _is_marked(self, life: Life, run: str, tick: int, digest: bytes, *, exact: bool) -> bool:
        path = life.disk.folder / f"{life.name}.ledger"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            bodies = [body for (body,) in db.execute("SELECT body FROM entries WHERE kind = 'mark'")]
        if exact:
            return digest in bodies
        store = life.opened[-1] if run == self.world.federation.run else None
        return bool(bodies) if store is None else store.digest(tick) in bodies


def finally_true(world: Any) -> None:
    """What must hold when the world is over."""
    federation, complain = world.federation, world.violated
    seconds, most = world.loop.time(), max(largest_question(federation), largest_answer(federation))
    for host in world.hosts:
        near = len(federation.graph.neighbours(host.place))
        if world.witness.frames[host.host] > near * (PER_SECOND * seconds + PER_TICK * federation.rounds * host.lives):
            complain(f"{host.name} sends {world.witness.frames[host.host]} frames in {seconds:.0f} s")
    if world.witness.longest > most:
        complain(f"a frame has {world.witness.longest} bytes, and none may have more than {most}")
    honest = [host for host in world.hosts if host.liar is None]
    for host in world.hosts:
        if host.liar is None and not host.old and host.name not in world.doubled:
            _paid(world, host)
    for name, ticks in world.twice.items():
        copies = sum(host.name == name for host in world.hosts) + sum(h.old == "both" for h in world.hosts)
        if len(ticks) > copies - 1:
            complain(f"{name}, of which there are {copies} copies, says two versions of {sorted(ticks)}")
    lies = {host.name for host in world.hosts if host.liar is not None} | world.doubled
    for life in world.lives:
        if life.member.liar is not None:
            continue
        for name in life.progress.accused:
            if name not in lies:
                complain(f"{life.name} accuses {name}, which is honest, of two versions")
        for line in life.log:
            accused = [name for name in world.federation.names if line.startswith(f"{name}: there are two copies")]
            if accused and accused[0] not in lies:
                complain(f"{life.name} accuses {accused[0]}, which is honest: {line}")
    liar = next((host.liar for host in world.hosts if host.liar is not None), None)
    if liar is not None and (unnamed := liar.unnamed()):
        complain(unnamed)
    if liar is not None and liar.goes_on and not world.schedule.faults:
        for life in world.lives:
            if life.finished is not None and life.finished.federation.absent:
                complain(f"{life.name} goes on without {life.finished.federation.absent}: one liar says so")
    going_on = defaultdict(set)
    for life in world.lives:
        if life.code == 0 and life.finished is not None and not world.lied and world.federation.exchange == TOTALS:
            going_on[life.finished.federation.run].add(life.model)
    for models in going_on.values():
        if len(models) > 1:
            complain(f"members that have heard the same totals have {len(models)} models")
    payers = [host for host in honest if _reserved(world, host, federation.run)]
    if payers:
        for host in honest:
            if not (host.old or host.name in world.doubled | world.evicted) and not _has_met(host):
                complain(f"{payers[0].name} has paid for a run that {host.name} has never begun")
    for life in world.lives:
        if life.code == 0 and life.model and life.finished is not None and not world.lied and life.member.liar is None:
            _model(world, life)


def all_have_met(world: Any, life: Life) -> None:
    """A member has paid: all members have signed that they have met the others."""
    for host in world.hosts:
        if host.old or host.copied or host.name in world.doubled or life.member.liar is not None:
            continue
        met = [_any_met(path) for path in host.folder.glob("*.store")]
        if not (any(met) or host.restored or host.name in world.evicted or life.finished is not None):
            world.violated(f"{life.name} pays for a run that {host.name} has not begun")


def _any_met(path: Any) -> bool:
    """Whether a store has a signature that somebody has met its neighbours; also if it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("SELECT 1 FROM journal WHERE kind = 'met'").fetchone() is not None
    except sqlite3.Error:  # its process is down, and left a log
        return True


def _paid(world: Any, host: Any) -> None:
    from tacit.agent.participant import planned, reserved

    with Ledger(host.folder / f"{host.name}.ledger", cost=filters.epsilon) as ledger:
        ledger.verify()
        entries = list(ledger.entries())
        marks: dict[str, dict[int, bytes]] = {}
        paid: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for entry in entries:
            if entry.kind == "reserve":
                paid[entry.run].append((entry.tick, entry.body))
            if entry.kind == "mark":
                marks.setdefault(entry.run, {})[entry.tick] = entry.body
    for run, found in paid.items():
        federation = world.runs().get(run)
        if federation is None:
            world.violated(f"{host.name} has paid for a run that nobody has agreed on")
            continue
        planning = reserved if federation.exchange not in (ROWS, SUMS) else planned
        plan = planning(federation, federation.names.index(host.name))
        if found != [(tick, canonical(to_plain(event))) for tick, event in plan.items()]:
            world.violated(f"{host.name} has paid {len(found)} rows for a run that costs {len(plan)}")
    if world.federation.exchange == ROWS:
        for run, tick in world.witness.sent[host.name]:
            if tick not in marks.get(run, {}):
                world.violated(f"in the end the ledger of {host.name} has no mark of tick {tick}, which has left")


def _reserved(world: Any, host: Any, run: str) -> bool:
    path = host.folder / f"{host.name}.ledger"
    with closing(sqlite3.connect(path)) as db:
        return bool(db.execute("SELECT 1 FROM entries WHERE kind = 'reserve' AND run = ? LIMIT 1", (run,)).fetchone())


def _has_met(host: Any) -> bool:
    """Whether a member has met its neighbours, in some run."""
    return any(_any_met(path) for path in host.folder.glob("*.store"))


class Remembered:
    """The noise of the whole run, as each member has committed it: of each step, that of the life that committed it."""

    private, grid = False, 0.0

    def __init__(self, world: Any, federation: Any) -> None:
        self._world, self._federation, self._sources = world, federation, {}

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.concatenate([self._of(i, t).choose(rate, count, np.array([i]), t) for i in ids])

    def _of(self, i: int, t: int) -> SeededNoise:
        run = "" if self._federation.agreed is None else self._federation.run[:8]  # as stores are named
        seed = self._world.drawn.get((run, self._federation.names[int(i)], t), 0)
        return self._sources.setdefault(seed, SeededNoise(seed))

    def _each(self, ids: np.ndarray, t: int, one: Callable[[SeededNoise, int, np.ndarray], np.ndarray]) -> np.ndarray:
        return np.concatenate([one(self._of(i, t), k, ids[k : k + 1]) for k, i in enumerate(ids)])

    def draw(self, law: Any, scale: Any, dimension: int, ids: np.ndarray, t: int, *more: Any) -> np.ndarray:
        return self._each(ids, t, lambda of, k, i: of.draw(law, _row(scale, k), dimension, i, t, *more))

    def perturb(self, law: Any, value: Any, factor: Any, scale: Any, ids: np.ndarray, t: int, grid: Any) -> np.ndarray:
        def one(of: SeededNoise, k: int, i: np.ndarray) -> np.ndarray:
            return of.perturb(law, value[k : k + 1], _row(factor, k), _row(scale, k), i, t, _row(grid, k))

        return self._each(ids, t, one)

    def add(self, law: Any, value: Any, scale: Any, ids: np.ndarray, t: int, onto: Any = None) -> np.ndarray:
        def one(of: SeededNoise, k: int, i: np.ndarray) -> np.ndarray:
            return of.add(law, value[k : k + 1], _row(scale, k), i, t, None if onto is None else onto[k : k + 1])

        return self._each(ids, t, one)

    def mask(self, law: Any, value: Any, scale: Any, ids: np.ndarray, t: int) -> np.ndarray:
        return self._each(ids, t, lambda of, k, i: of.mask(law, value[k : k + 1], _row(scale, k), i, t))


def _row(value: Any, k: int) -> Any:
    return value[k : k + 1] if isinstance(value, np.ndarray) and value.ndim and len(value) > 1 else value


def undisturbed(world: Any, federation: Any) -> np.ndarray:
    """The models of an undisturbed run with the same noise."""
    if federation.run not in world.simulated:
        setting = federation.setting
        mine = [parts(len(world.federation.members))[world.federation.names.index(name)] for name in federation.names]
        how = {"exchange": SecretSharedSums()} if federation.exchange == SUMS else {}
        run = tacit.simulate(
            *(setting.algorithm, setting.problem(mine), setting.graph),
            **{"rounds": setting.rounds, "noise": Remembered(world, federation)} | how,
        )
        world.simulated[federation.run] = run.estimate
    return world.simulated[federation.run]


def _model(world: Any, life: Life) -> None:
    federation = life.finished.federation
    if federation.agreed is not None and federation.exchange not in (ROWS, SUMS):
        return  # it went on where others were left: compared with each other, below
    expected = undisturbed(world, federation)[federation.names.index(life.name)]
    found = np.frombuffer(life.model)
    if found.tobytes() != expected.tobytes():
        world.violated(f"the model of {life.name} is {found}, and {expected} in an undisturbed run")
