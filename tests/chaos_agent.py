"""One life of an agent that `chaos_runs.py` disturbs: the command `tacit agent run`, with a witness and faults inside.

The witness writes down every answer before it leaves, without what is added to it then. `Where` is a byte that the
driver can read after the agent was killed: the last point of its way that it passed. Not a test.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

# The points of an agent's way, in about this order. A slow disk takes its time at those of a commit.
POINTS = (
    "loading",
    "checked",
    "met, not paid",
    "paid",
    "computed",
    "state written",
    "in a transaction",
    "head not written",
    "committed",
    "marked in the ledger",
    "answering",
    "heard all",
    "model written",
)
DISK = ("state written", "in a transaction", "head not written", "marked in the ledger")
PLANTS = {
    "forgets": "the store writes a commit to the disk only with the next one",
    "draws again": "what was said before a restart gets other noise afterwards",
    "pays twice": "a restart is charged once more",
    "blind": "the digest of the state is not compared",
    "a mark ignored": "a store that the ledger's marks contradict is used, and a tick may be marked twice",
    "an incarnation ignored": "processes of neighbours, and what they have signed, are not compared",
}


@dataclass(frozen=True)
class Life:
    """What is done to one life from inside."""

    number: int  # of this agent's lives
    store: Path
    seed: int | None = None  # of noise that is the same in every life; None: fresh noise, as it really is
    pace: float = 0.0  # seconds before a commit
    slow: float = 0.0  # seconds that the disk takes at each point of a commit
    dies: tuple[str, int] | None = None  # kills itself when it passes a point for the n-th time
    full: tuple[float, int] | None = None  # after so many seconds files may grow by so many bytes
    clock: tuple[float, float, float] | None = None  # days that it is off; after so many seconds, so many days
    lies: bool = False  # says numbers of its choice, the same in every life
    silent: bool = False  # keeps to itself all that it knows of others, and answers every copy of them
    routes: Mapping[str, str] = field(default_factory=dict)  # where it reaches neighbours, if not at their addresses
    plant: str = ""  # a bug, to see that it is found


class Way:
    """Where the agent is, for the driver; and what happens to it there."""

    def __init__(self, file: Path, life: Life) -> None:
        self._life, self._passed = life, dict.fromkeys(POINTS, 0)
        with file.open("r+b") as opened:
            self._byte = mmap.mmap(opened.fileno(), 1)

    def at(self, point: str) -> None:
        self._byte[0] = POINTS.index(point)
        count, self._passed[point] = self._passed[point], self._passed[point] + 1
        if self._life.dies == (point, count):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._life.slow and point in DISK:
            time.sleep(self._life.slow)


def live(folder: Path, name: str, life: Life, arguments: list[str]) -> None:
    """`tacit agent run ARGUMENTS` in this folder. What it prints goes to a file of this life."""
    os.chdir(folder)
    output = os.open(f"{name}.{life.number}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    way = Way(folder / f"{name}.where", life)
    _watched(way, folder / f"{name}.sent")
    _disturbed(life)
    _planted(life)
    from tacit import cli

    sys.argv = ["tacit", "agent", "run", *arguments]
    cli.main()


def _watched(way: Way, sent: Path) -> None:
    """Lets the agent say where it is, and the witness what leaves."""
    import tacit.cli.agent as command
    from tacit.agent import journal
    from tacit.agent.loop import AgentLoop
    from tacit.agent.store import Store
    from tacit.agent.transport.server import Server
    from tacit.agent.transport.wire import bare
    from tacit.agent.transport.wire_pb2 import Message
    from tacit.privacy.ledger import Ledger

    _around(AgentLoop, "__init__", after=lambda *_: way.at("checked"))
    _around(AgentLoop, "_pay", before=lambda *_: way.at("met, not paid"))
    _around(Ledger, "reserve_run", after=lambda *_: way.at("paid"))
    _around(Store, "commit", before=lambda *_: way.at("computed"), after=lambda *_: way.at("committed"))
    _around(Store, "_written", after=lambda *_: way.at("state written"))
    _around(journal._Added, "add", after=lambda *_: way.at("in a transaction"))
    _around(Ledger, "mark", after=lambda *_: way.at("marked in the ledger"))
    _around(Store, "finish", after=lambda *_: way.at("heard all"))
    _around(command, "_write", after=lambda *_: way.at("model written"))

    class Head:
        """`os` for the journal."""

        def pwrite(self, *args: Any) -> int:
            way.at("head not written")
            return os.pwrite(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    journal.os = Head()  # type: ignore[assignment]
    witness = os.open(sent, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ask = Server._ask

    async def witnessed(self: Any, name: str, question: Any) -> bytes:
        answer = await ask(self, name, question)
        message = Message.FromString(answer)
        if message.run:  # otherwise it tells a process that it gets no answers, and is no release
            digest = hashlib.sha256(bare(message)).hexdigest()
            line = f"{question.tick} {question.phase} {question.sender} {digest}\n"
            os.write(witness, line.encode())  # one write: a process that is killed leaves a line or none
            way.at("answering")
        return answer

    Server._ask = witnessed  # type: ignore[method-assign]


def _around(owner: Any, name: str, before: Any = None, after: Any = None) -> None:
    real = getattr(owner, name)

    def called(*args: Any, **named: Any) -> Any:
        if before is not None:
            before(*args)
        found = real(*args, **named)
        if after is not None:
            after(*args)
        return found

    setattr(owner, name, called)


def _disturbed(life: Life) -> None:
    import tacit
    import tacit.cli.agent as command
    from tacit.agent.delivery import Rows
    from tacit.agent.store import Store
    from tacit.agent.transport.peer import Peer

    if life.seed is not None:
        command.SecureNoise = lambda: tacit.SeededNoise(life.seed)  # type: ignore
    if life.pace:
        _around(Store, "commit", before=lambda *_: time.sleep(life.pace))
    if life.full is not None:
        after, room = life.full
        _later(after, lambda: _fill(Path(f"{life.store}-wal"), room))
    if life.clock is not None:
        days, after, then = life.clock
        clock = _clock(days)
        _later(after, lambda: clock.append(then))
    if life.lies:
        message = Rows.message

        def lie(self: Any, tick: int, release: Any) -> bytes:
            value = 1e6 * np.cos(tick + np.arange(release.value.size)).reshape(release.value.shape)
            return message(self, tick, release._replace(value=value))

        Rows.message = lie  # type: ignore[method-assign]
    if life.silent:
        _silenced()
    if life.routes:

        def rerouted(peer: Any, *_: Any) -> None:
            peer._address = life.routes.get(peer.name, peer._address)

        _around(Peer, "__init__", after=rerouted)


def _silenced() -> None:
    """Nobody learns from this agent what it has heard, which processes it has met, or what others have signed."""
    from tacit.agent.conversation import Conversation
    from tacit.agent.incarnation import Incarnations
    from tacit.agent.signed_words import Statements

    Incarnations.take = Statements.take = Statements.take_contradictions = _nothing  # type: ignore
    greeting = Conversation.greeting

    def quiet(self: Any, name: str) -> Any:
        made = greeting(self, name)
        made.heard = 0
        made.ClearField("seen")
        return made

    Conversation.greeting = quiet  # type: ignore[method-assign]


def _nothing(*_: Any) -> None:
    """In place of a check."""


def _later(seconds: float, what: Any) -> None:
    timer = threading.Timer(seconds, what)
    timer.daemon = True
    timer.start()


def _fill(log: Path, room: int) -> None:
    """From now on no file may be longer than the store's log and so many bytes: as on a full disk, writes fail."""
    size = log.stat().st_size if log.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _clock(days: float) -> list[float]:
    """Moves the clock, as tacit sees it, by the last number of days in the list. C code, and so TLS,
    sees the right one."""
    moved = [days]

    class Time:
        def time(self) -> float:
            return time.time() + 86400 * moved[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(time, name)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=moved[-1])

    for name, module in list(sys.modules.items()):
        for what, fake in (("time", Time()), ("datetime", Clock)):
            if name.startswith("tacit.") and getattr(module, what, None) in (time, datetime):
                setattr(module, what, fake)
    return moved


def _planted(life: Life) -> None:
    from tacit.agent import state_slots, store
    from tacit.agent.store import Store
    from tacit.agent.transport.wire_pb2 import Message
    from tacit.privacy.ledger import Ledger

    message = Store.message
    if life.plant == "forgets":
        commit, finish, waiting = Store.commit, Store.finish, list[Any]()

        def later(self: Any, *args: Any) -> None:
            while waiting:
                commit(self, *waiting.pop())
            waiting.append(args)

        def at_last(self: Any, *args: Any) -> None:
            while waiting:
                commit(self, *waiting.pop())
            finish(self, *args)

        def remembered(self: Any, tick: int) -> bytes | None:
            return waiting[0][2] if waiting and waiting[0][0] == tick else message(self, tick)

        def digested(self: Any, tick: int) -> bytes:
            return hashlib.sha256(remembered(self, tick) or b"").digest()

        Store.commit, Store.finish = later, at_last  # type: ignore[method-assign]
        Store.message, Store.digest = remembered, digested  # type: ignore[method-assign]
    elif life.plant == "draws again":

        def redrawn(self: Any, tick: int) -> bytes | None:
            raw = message(self, tick)
            before = {entry.key for entry in self._journal.found if entry.kind == "release"}
            if raw is None or str(tick) not in before:
                return raw
            said = Message.FromString(raw)
            row = np.frombuffer(said.payload)
            said.payload = (row + np.random.default_rng().normal(size=row.shape)).tobytes()
            return bytes(said.SerializeToString())

        Store.message = redrawn  # type: ignore[method-assign]
    elif life.plant == "pays twice" and life.number > 1:
        reserve = Ledger.reserve_run

        def twice(self: Any, run: str, *args: Any) -> None:
            reserve(self, run, *args)
            reserve(self, hashlib.sha256(f"{run} {life.number}".encode()).hexdigest(), *args)

        Ledger.reserve_run = twice  # type: ignore[method-assign]
    elif life.plant == "blind":
        import json

        def unchecked(path: Path, entry: Any) -> tuple[int, bytes]:
            slot = json.loads(entry.body)["slot"]
            return slot, state_slots.path_of(path, slot).read_bytes()

        store._slot = unchecked
    elif life.plant == "a mark ignored":
        from tacit.agent.participant import Participant

        Participant._check_memory = _nothing  # type: ignore[method-assign]
        mark = Ledger.mark

        def marked_again(self: Any, run: str, tick: int, *args: Any) -> None:
            if tick not in self.marks(run):
                mark(self, run, tick, *args)

        Ledger.mark = marked_again  # type: ignore[method-assign]
    elif life.plant == "an incarnation ignored":
        from tacit.agent.incarnation import Incarnations
        from tacit.agent.signed_words import Statements

        Incarnations.take = Statements.take = _nothing  # type: ignore
