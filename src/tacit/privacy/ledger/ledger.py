"""The privacy ledger: what the runs on one data set have spent, and how much more they may spend.

There is one SQLite file for each data set. Its budget cannot be overspent, even by a crash or by two processes at once.
The contract:

**One run** is paid for as a whole, before it starts: `ledger.reserve_run(run, {tick: event, ...})`, all or nothing.
(It may also pay round by round, in step 1 below; a first run that does so is charged more, see "the cap".)

**One release** is one (run, tick). It takes these steps, in this order:

    ledger.reserve(run, tick, event)            # 1. pay, if not yet done; refused if the cap would be passed
    payload = ledger.payload(run, tick)         # 2. after a restart: what may have been sent already
    if payload is None:
        payload = release(...)                  # 3. only now draw the noise
        ledger.store(run, tick, payload)        # 4. the only payload of this round, now and later
    send(payload)                               # 5. only now may it leave; sending it again reveals nothing new

A crash may follow any step; the agent then starts again with the first. A reservation is never given back. If its
payload is stored, the same bytes are sent again. If it is not, the noise was lost with the process and nothing has
left, because nothing leaves before it is stored. Then new noise may be drawn for the same reservation, at no further
cost. If two processes meet in one round, one stores; the other is refused and has nothing to send. Never use a run's
name for another computation: its rounds would get the old payloads.

**The cap** is on epsilon at a delta, measured by the accountant that is passed in, over all events ever reserved, of
all runs. Without a cap nothing can be reserved. It may be raised, or lowered down to what is spent. What was reserved
before the first payload was stored was fixed before anything could leave: it is a plan. All that is reserved later may
depend on what has left, which costs more. The ledger keeps the two apart; the accountant (`tacit.privacy.filters`)
has a rule for each.

**Durable**: a call that returned has reached the disk (write-ahead log, synchronous=FULL), and the file itself; a call
that was refused has written nothing; a call that was interrupted (by a signal, a failing disk) was done completely or
not at all, and the round starts again. Every write is one BEGIN IMMEDIATE transaction that first reads what other
processes have written.

**Append-only**: rows are added, never changed; triggers refuse the rest. Every row holds the hash of the row before it,
the first that of the `meta` row, which names the data set: a changed, removed or inserted row breaks the chain. The
whole file is checked whenever it is opened, and a file with a fault is refused.

The file alone cannot show that its *last* rows are missing: an old copy of a ledger is a valid ledger. The chain holds
no secret: whoever may write the file can rewrite all of it. Against both, an auditor keeps `head()`; `verify(kept)`
finds later whether the ledger still contains it. A copy of the file alone, without the `-wal` beside it, has at least
all that was reserved for what had left when it was made; one that was made in the middle of a write may be refused.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tacit.errors import InputError
from tacit.files import writable
from tacit.privacy.events import Event, to_plain
from tacit.privacy.ledger.account import Account, Cost
from tacit.privacy.ledger.entries import BudgetExceeded, Cap, Entry, LedgerError, canonical, check_name, checked
from tacit.privacy.ledger.file import LedgerFile, create

__all__ = ["BudgetExceeded", "Cap", "Cost", "Entry", "Ledger", "LedgerError", "RunSummary", "Verified"]


class RunSummary(NamedTuple):
    """What one run has reserved and stored."""

    run: str
    events: Counter[Event]
    payloads: int
    last_tick: int


class Verified(NamedTuple):
    """What a ledger without faults contains."""

    dataset: str
    created: str
    reservations: int
    payloads: int
    cap: Cap | None
    epsilon: float | None  # spent, at the cap's delta; None without a cap
    head: str


class Ledger:
    """The ledger in a file that exists; `Ledger.open` makes the file if it does not. Do not use it across a fork.

    With `dataset`, the ledger of any other data set is refused.

    >>> import tempfile
    >>> from tacit.privacy.events import Pure
    >>> def cost(planned, later, cap):
    ...     return sum(event.epsilon * count for event, count in (planned + later).items())
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     Ledger.open(Path(folder) / "ward-7.ledger", dataset="ward 7, 2024", cost=cost) as ledger,
    ... ):
    ...     ledger.set_cap(Cap(epsilon=1.0, delta=1e-6))
    ...     ledger.reserve_run("spring", {0: Pure(0.25), 1: Pure(0.25)})
    ...     ledger.store("spring", 0, b"what is sent")
    ...     ledger.payload("spring", 0), ledger.spent(), ledger.remaining_rounds([Pure(0.25)], at_most=100)
    (b'what is sent', Counter({Pure(epsilon=0.25): 2}), 2)
    """

    def __init__(self, path: str | os.PathLike[str], *, cost: Cost, dataset: str | None = None) -> None:
        self.path = Path(path)
        self._file = LedgerFile(self.path)
        if dataset is not None and self.dataset != dataset:
            self.close()
            raise LedgerError(
                f"{self.path} is the ledger of the data set {self.dataset!r}, not of {dataset!r}; give each its own"
            )
        self._account = Account(self.path, cost)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, dataset: str, cost: Cost) -> Ledger:
        """The ledger of this data set; a new one, without a cap, if the file does not exist.

        `dataset` says which records these are (a fingerprint); a ledger of other records is refused.
        """
        path = writable(path)
        check_name(dataset, "a data set")
        if not path.exists():
            create(path, dataset)  # if another process made one a moment ago, that one is used
        return cls(path, cost=cost, dataset=dataset)

    @classmethod
    def new(cls, path: str | os.PathLike[str], *, dataset: str, cost: Cost) -> Ledger:
        """A new ledger, without a cap, for this data set; a file that exists is refused."""
        path = writable(path)
        check_name(dataset, "a data set")
        if not create(path, dataset):
            raise LedgerError(f"{path} exists and is not changed; name a new file, or set its cap: tacit ledger cap")
        return cls(path, cost=cost)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is the same file, opened once more."""
        return partial(Ledger, cost=self._account.cost), (self.path,)

    @property
    def dataset(self) -> str:
        """Which records this ledger is about."""
        return self._file.dataset

    @property
    def created(self) -> str:
        """When the ledger was made, in UTC."""
        return self._file.created

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    def set_cap(self, cap: Cap) -> None:
        """From now on all spending, past and future, stays within this cap. It is never below what is spent.

        Choose it without looking at what was released: the guarantee is for a cap that does not depend on that.
        """
        with self._writing():
            self._account.require_spent_within(cap)
            self._file.append("cap", "", 0, canonical(asdict(cap)))

    def reserve_run(self, run: str, plan: Mapping[int, Event]) -> None:
        """Pays for a whole run, all or nothing, before its first noise is drawn. Calling it again after a restart costs
        nothing more. The plan has the event of each round in which the run speaks; all of it is paid for, even if the
        run stops early.
        """
        rounds = {checked(run, tick)[1]: plan[tick] for tick in sorted(plan)}
        with self._writing():
            new = [tick for tick, event in rounds.items() if not self._find_reserved(run, tick, event)]

            def first(count: int) -> Counter[Event]:
                return Counter(rounds[tick] for tick in new[:count])

            if new:
                self._account.require_run_fits(first(len(new)), f"the run {run!r}", first, len(new))
            for tick in new:
                self._file.append("reserve", run, tick, canonical(to_plain(rounds[tick])))

    def reserve(self, run: str, tick: int, event: Event) -> Entry:
        """Pays for one release, before its noise is drawn. Calling it again after a restart costs nothing more."""
        run, tick = checked(run, tick)
        with self._writing():
            if found := self._find_reserved(run, tick, event):
                return found
            self._account.require_fit(Counter([event]), f"round {tick} of {run!r}")
            return self._file.append("reserve", run, tick, canonical(to_plain(event)))

    def store(self, run: str, tick: int, payload: bytes) -> None:
        """Keeps what is about to be sent for a reserved round; a round has only one payload."""
        run, tick = checked(run, tick)
        if not isinstance(payload, bytes):
            raise InputError(f"a payload is stored as bytes, not as {type(payload).__name__}")
        with self._writing():
            if found := self._file.find("payload", run, tick):
                if found.body != payload:
                    raise LedgerError(
                        f"round {tick} of {run!r} already has another payload; send that one, not this one"
                    )
            elif not self._file.find("reserve", run, tick):
                raise LedgerError(f"round {tick} of {run!r} is not reserved; reserve it before its noise is drawn")
            else:
                self._file.append("payload", run, tick, payload)

    # Reading

    def payload(self, run: str, tick: int) -> bytes | None:
        """What was stored for this round, to be sent (again) unchanged; None if nothing was stored, or sent."""
        found = self._file.find("payload", *checked(run, tick))
        return found.body if found else None

    def cap(self) -> Cap | None:
        """The cap in force."""
        self._catch_up()
        return self._account.cap

    def spent(self) -> Counter[Event]:
        """Every event that was ever reserved, sent or not."""
        self._catch_up()
        return self._account.spent.planned + self._account.spent.later

    def told(self) -> bool:
        """Whether a payload is stored, so that what is reserved now may depend on it."""
        self._catch_up()
        return self._account.released

    def epsilon(self, more: Counter[Event] | None = None) -> float | None:
        """What is spent, at the cap's delta, or would be with more events; None without a cap."""
        self._catch_up()
        return self._account.epsilon(more or Counter())

    def remaining_rounds(self, one_round: Sequence[Event], at_most: int) -> int:
        """How many further rounds of these events, reserved now, fit under the cap, counted up to `at_most`."""
        self._catch_up()
        return self._account.how_many_fit(_times(one_round), at_most)

    def check_run(self, events: Counter[Event], one_round: Sequence[Event] = ()) -> None:
        """Refuses a run whose events, besides those that it has reserved, would pass the cap if reserved now.

        If the run consists of identical rounds, the refusal says how many of them would still fit. After that, it is
        fast to reserve these events, even if the accountant is slow.
        """
        self._catch_up()
        rounds = events.total() // len(one_round) if one_round else 0
        self._account.require_run_fits(events, "the run", _times(one_round), rounds)

    def entries(self) -> Iterator[Entry]:
        """All rows in order. Others may write, and so may the caller, while this is read."""
        return self._file.entries()

    def runs(self) -> list[RunSummary]:
        """The runs in the order of their first reservation."""
        events: dict[str, Counter[Event]] = {}
        payloads, last_tick = Counter[str](), Counter[str]()
        for entry in self.entries():
            if entry.kind == "reserve":
                events.setdefault(entry.run, Counter())[entry.event()] += 1
                last_tick[entry.run] = max(last_tick[entry.run], entry.tick)
            elif entry.kind == "payload":
                payloads[entry.run] += 1
        return [RunSummary(run, counted, payloads[run], last_tick[run]) for run, counted in events.items()]

    def head(self) -> str:
        """The hash of the last row, which stands for the whole history: keep it elsewhere, and `verify` with it."""
        return self._file.last()[1]

    def verify(self, kept: str | None = None) -> Verified:
        """Checks the chain and every rule; with a head that was kept, also that no row up to it was lost or changed.

        Raises LedgerError that names the first bad row.
        """
        self._file.check()
        self._account.check_caps(self.entries())
        kinds, hashes = Counter[str](), {self._file.origin}
        for entry in self.entries():
            kinds[entry.kind] += 1
            hashes.add(entry.hash)
        if kept is not None and kept not in hashes:
            raise LedgerError(
                f"{self.path} does not contain the head {kept}: rows were lost or rewritten since; do not spend from it"
            )
        return Verified(
            self.dataset, self.created, kinds["reserve"], kinds["payload"], self.cap(), self.epsilon(), self.head()
        )

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._file.writing():
            self._catch_up()
            yield

    def _catch_up(self) -> None:
        """Reads the rows that any process has committed since."""
        self._account.read(self._file.rows_after(self._account.number))

    def _find_reserved(self, run: str, tick: int, event: Event) -> Entry | None:
        found = self._file.find("reserve", run, tick)
        if found and found.event() != event:
            raise LedgerError(
                f"round {tick} of {run!r} is reserved for {found.event()}, not for {event}; name a new run"
            )
        return found


def _times(one_round: Sequence[Event]) -> Callable[[int], Counter[Event]]:
    """A function that gives the events of a number of rounds."""
    return lambda rounds: Counter({event: count * rounds for event, count in Counter(one_round).items()})
