"""Processes that use a ledger and are killed, or race each other. Not a test: test_ledger.py runs it as a script.

This process imports the ledger and little else, has no threads, and forks its workers: that makes a life cheap enough
for hundreds of deaths.
"""

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
import types
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tacit"
if __name__ == "__main__":
    for package in ("tacit", "tacit.privacy"):  # not their __init__.py, which import the whole library
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(SOURCE.joinpath(*package.split(".")[1:]))]

from tacit.privacy.events import Event, Free, Pure, Unprotected  # noqa: E402
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger  # noqa: E402
from tacit.privacy.ledger.file import LedgerFile  # noqa: E402
from tacit.privacy.ledger.second import SecondPlace  # noqa: E402

RUN, ROUND = "spring", Pure(0.5)
POINTS = ("reserved", "stored", "sent")


def cost(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    """The simplest accountant: pure epsilons add up, whatever they depend on."""
    price = {Pure: lambda event: event.epsilon, Free: lambda _: 0.0, Unprotected: lambda _: float("inf")}
    return sum(price[type(event)](event) * count for event, count in (planned + later).items())


def open_ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger", population="ward 7", cost=cost)


def send(folder: Path, tick: int, payload: bytes) -> None:
    """What the world has seen: lines in a plain file, on the disk when this returns."""
    line = f"{tick} {hashlib.sha256(payload).hexdigest()}\n".encode()
    seen = os.open(folder / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(seen, line)
    os.fsync(seen)
    os.close(seen)


def life(folder: Path, *, last: int = sys.maxsize, die: str = "", send_first: bool = False) -> None:
    """Releases round after round, beginning where the life before may have stopped.

    `last` is the last round, at whose point `die` the process kills itself; `send_first` plants the bug of sending
    what has not been stored yet.
    """

    def reached(point: str) -> None:
        if tick == last and die == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_ledger(folder) as ledger:
        tick = max((run.last_tick for run in ledger.runs()), default=0)
        while tick <= last:
            ledger.reserve(RUN, tick, ROUND)
            reached("reserved")
            payload = ledger.payload(RUN, tick)
            if payload is None:
                payload = os.urandom(64)
                if send_first:
                    send(folder, tick, payload)
                    reached("sent, not stored")
                ledger.store(RUN, tick, payload)
                reached("stored")
            send(folder, tick, payload)
            reached("sent")
            tick += 1


def fork(work) -> int:
    """The id of a new process that does the work and ends."""
    if child := os.fork():
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)


def ended(child: int) -> int:
    """How it ended: 0, an error's exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kills(folder: Path, count: int, seed: int) -> None:
    """Kills `count` workers at random moments of their lives, the opening of the ledger included."""
    rng = random.Random(seed)
    for _ in range(count):
        child = fork(lambda: life(folder))
        time.sleep(rng.uniform(0.0, 0.12))
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL


def copies(folder: Path, count: int, seed: int) -> None:
    """Kills `count` workers at random moments, each after it has sent something. Meanwhile it copies the ledger's main
    file alone, and notes how many rounds the world had seen just before: a line "copy rounds" in `copies`."""
    rng, made, sent = random.Random(seed), 0, folder / "sent"

    def seen() -> list[str]:
        return sent.read_text().splitlines() if sent.exists() else []

    with (folder / "copies").open("w") as notes:
        for _ in range(count):
            before, child = len(seen()), fork(lambda: life(folder))
            while len(seen()) == before and not os.waitpid(child, os.WNOHANG)[0]:
                time.sleep(0.001)
            for _ in range(2):
                time.sleep(rng.uniform(0.0, 0.06))
                rounds = len({line.split()[0] for line in seen()})
                shutil.copy(folder / "ledger", folder / f"copy-{made}")
                notes.write(f"copy-{made} {rounds}\n")
                made += 1
            os.kill(child, signal.SIGKILL)
            assert ended(child) == -signal.SIGKILL


def copies_unsettled(folder: Path, count: int, seed: int) -> None:
    """The same with a bug: rows stay in the log beside the file."""
    LedgerFile._settle = lambda self: None
    copies(folder, count, seed)


def deaths(folder: Path, point: str, count: int, send_first: bool) -> None:
    """`count` workers, each of which kills itself one round later, at the same point of it."""
    for tick in range(count):
        child = fork(lambda last=tick: life(folder, last=last, die=point, send_first=send_first))
        assert ended(child) == -signal.SIGKILL
    last_tick = count - 1
    assert ended(fork(lambda: life(folder, last=last_tick, send_first=send_first))) == 0


def between(folder: Path, count: int) -> None:
    """`count` workers, each of which dies in its first, second, ... transaction, when the rows are in the ledger, and
    the second place does not have its head yet; then one that ends."""

    def worker(at: int) -> None:
        calls, follow = itertools.count(), SecondPlace.follow
        SecondPlace.follow = lambda self: os.kill(os.getpid(), signal.SIGKILL) if next(calls) == at else follow(self)
        life(folder)

    for n in range(count):
        assert ended(fork(lambda at=n % 5: worker(at))) == -signal.SIGKILL
    assert ended(fork(lambda: life(folder, last=2 * count))) == 0


def race(folder: Path, racers: int, epsilon: float) -> None:
    """All make the ledger, set its cap and spend from it, at once, until each is refused."""
    gate, held = os.pipe()

    def racer(name: str) -> None:
        os.close(held)
        os.read(gate, 1)  # returns when the last process has let go, which is when all racers are there
        with open_ledger(folder) as ledger:
            ledger.set_cap(Cap(epsilon, 1e-6))
            tick = 0
            try:
                while True:
                    ledger.reserve(name, tick, ROUND)
                    tick += 1
                    time.sleep(0.005)  # drawing the noise: whoever is waiting for the ledger gets a chance
            except BudgetExceeded:
                pass

    children = [fork(lambda name=f"racer {i}": racer(name)) for i in range(racers)]
    os.close(held)
    assert [ended(child) for child in children] == [0] * racers


if __name__ == "__main__":
    job, folder, *settings = sys.argv[1:]
    jobs = (kills, copies, copies_unsettled, deaths, between, race)
    {work.__name__: work for work in jobs}[job](Path(folder), *map(json.loads, settings))
