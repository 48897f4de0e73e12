"""The privacy ledger: what the runs on the records of some people have spent, and how much more they may spend.

There is one SQLite file for each *population*, such as "patients of alder, admitted since 2019". It is not bound to a
file of records: next month's file has other rows, and the same people. It is the one memory of what may have left: its
budget cannot be overspent by a crash, by two processes of one machine at once, or by an old copy of any other file. An
old copy of the ledger itself is another matter (below). The file has one name and lies on a disk of that machine: the
locks of SQLite, and what it wrote last, are beside the name (`tacit.privacy.ledger.file`). The contract:

**One run** is paid for as a whole, before it starts: `ledger.reserve_run(run, {tick: event, ...}, about)`, all or
nothing. `about` says what the run is, and which records it uses: a digest, so that a run cannot go on with others after
a restart. (A run may also pay round by round, in step 1 below; a first run that does so is charged more, see "the
cap".)

**Cohorts.** Everybody of the population pays for every run, unless the ledger has cohorts: a public column that says
when a record came. Then a run is charged to the cohorts of its records alone (`tacit.privacy.ledger.account`).

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

**A mark** is a payload whose bytes are kept elsewhere. An agent commits them to a store of its own
(`tacit.agent.store`), and the ledger marks their digest: `ledger.mark(run, tick, digest, start)`. Only then may they
leave. The store can be lost, or be an old copy; the ledger still knows what may have left, and other bytes are refused
for that round, for good. Every process of an agent first counts its start, `ledger.start(run, nonce)`: the numbers only
grow, and a process may mark nothing once a later one has started.

**The cap** is on epsilon at a delta, measured by the accountant that is passed in, over all events ever reserved, of
all runs. Without a cap nothing can be reserved. It may be raised, or lowered down to what is spent; when, by whom and
why is written down, and stays. What was reserved before the first payload was stored, or marked, was fixed before
anything could leave: it is a plan. All that is reserved later may depend on what has left, which costs more. The ledger
keeps the two apart; the accountant (`tacit.privacy.filters`) has a rule for each.

**Durable**: a call that returned has reached the disk (write-ahead log, synchronous=FULL), and the file itself, except
for a mark, which may be in the log beside it alone. A call that was refused has written nothing. A call that was
interrupted (by a signal, a failing disk) was done completely or not at all, and the round starts again. Every write is
one BEGIN IMMEDIATE transaction that first reads what other processes have written.

**Append-only**: rows are added, never changed; triggers refuse the rest. Every row holds the hash of the row before it,
the first that of the `meta` row, which names the population: a changed, removed or inserted row breaks the chain. The
whole file is checked whenever it is opened, and a file with a fault is refused.

The file alone cannot show that its *last* rows are missing: an old copy of a ledger is a valid ledger. The chain holds
no secret: whoever may write the file can rewrite all of it. Against both, others keep `head()`; `verify(kept)` finds
later whether the ledger still contains it. A head is the hash of a row, salted with a secret of the file: nobody can
check a guess about the records with it. (Agents give theirs to their neighbours: `tacit.agent.ledger_heads`.) If the
variable TACIT_LEDGER_HEADS names a folder on other storage, every ledger that is opened keeps its head there, and one
that is older is refused (`tacit.privacy.ledger.second`).

A copy of the file alone, without the `-wal` beside it, has at least all that was reserved for what had left when it was
made; one that was made in the middle of a write may be refused.
"""

from __future__ import annotations

import getpass
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tacit.errors import NEW_RUN, InputError
from tacit.files import writable
from tacit.privacy.events import Event, to_plain
from tacit.privacy.ledger.account import Cohorts, Cost
from tacit.privacy.ledger.entries import (
    RELEASED,
    About,
    AnotherVersion,
    BudgetExceeded,
    Cap,
    Entry,
    LedgerError,
    canonical,
    check_name,
    checked,
)
from tacit.privacy.ledger.file import create, now
from tacit.privacy.ledger.format_1 import rows_of
from tacit.privacy.ledger.history import History
from tacit.privacy.ledger.second import second_place


class Ledger(History):
    """The ledger in a file that exists; `Ledger.open` makes the file if it does not. Do not use it across a fork.

    >>> import tempfile
    >>> from tacit.privacy.events import Pure
    >>> def cost(planned, later, cap):
    ...     return sum(event.epsilon * count for event, count in (planned + later).items())
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     Ledger.open(Path(folder) / "ward-7.ledger", population="ward 7, 2024", cost=cost) as ledger,
    ... ):
    ...     ledger.set_cap(Cap(epsilon=1.0, delta=1e-6))
    ...     ledger.reserve_run("spring", {0: Pure(0.25), 1: Pure(0.25)})
    ...     ledger.store("spring", 0, b"what is sent")
    ...     ledger.payload("spring", 0), ledger.spent(), ledger.remaining_rounds([Pure(0.25)], at_most=100)
    (b'what is sent', Counter({Pure(epsilon=0.25): 2}), 2)
    """

    def __init__(self, path: str | os.PathLike[str], *, cost: Cost) -> None:
        super().__init__(path, cost)
        try:
            self._second = second_place(self._file)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, population: str, cost: Cost, cohorts: str = "") -> Ledger:
        """The ledger of this population; a new one, without a cap, if the file does not exist. The ledger of another
        population, or with other cohorts, is refused."""
        path = writable(path)
        _check_names(population, cohorts)
        if not path.exists():
            create(path, population, cohorts)  # if another process made one a moment ago, that one is used
        found = cls(path, cost=cost)
        if (found.population, found.cohorts) != (population, cohorts):
            found.close()
            raise LedgerError(f"{path} is the ledger of {found.population!r}, not of {population!r}; give each its own")
        return found

    @classmethod
    def new(cls, path: str | os.PathLike[str], *, population: str, cost: Cost, cohorts: str = "") -> Ledger:
        """A new ledger, without a cap, for this population; a file that exists is refused. `cohorts` names the public
        column that says when a record came, if there is one."""
        path = writable(path)
        _check_names(population, cohorts)
        if not create(path, population, cohorts):
            raise LedgerError(f"{path} exists and is not changed; name a new file, or set its cap: tacit ledger cap")
        return cls(path, cost=cost)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is the same file, opened once more."""
        return partial(Ledger, cost=self._account.cost), (self._file.where,)

    def set_cap(self, cap: Cap, *, who: str | None = None, why: str = "") -> None:
        """From now on all spending, past and future, stays within this cap. It is never below what is spent.

        Choose it without looking at what was released: the guarantee is for a cap that does not depend on that. `who`
        is the user of this process if nobody else is named.
        """
        who = _user() if who is None else who
        for text, whose in ((who, "whoever sets a cap"), (why or "-", "a reason")):
            check_name(text, whose)
        with self._writing():
            self._account.require_spent_within(cap)
            self._file.append("cap", "", 0, canonical(asdict(cap) | {"when": now(), "who": who, "why": why}))

    def take_over(self, path: str | os.PathLike[str]) -> None:
        """Charges all that a ledger of format 1 has spent, to all cohorts; all or nothing."""
        rows = rows_of(Path(path))
        with self._writing():
            cap = self._account.cap
            if cap is None:
                raise BudgetExceeded(f"{self.path} has no cap; set one that is not below what {path} has spent")
            for entry in rows:
                if self._file.find(entry.kind, entry.run, entry.tick):
                    raise LedgerError(f"{self.path} has round {entry.tick} of {entry.run!r} already; it was taken over")
                self._file.append(entry.kind, entry.run, entry.tick, entry.body)
            after = self._account.standings.after(rows)
            if not self._account.fits(cap, after):
                spent = self._account.total(after, cap)
                raise BudgetExceeded(f"epsilon = {spent:.6g} would be spent; the cap is {cap}: choose a larger one")

    def reserve_run(self, run: str, plan: Mapping[int, Event], about: About | None = None) -> None:
        """Pays for a whole run, all or nothing, before its first noise is drawn. Calling it again after a restart costs
        nothing more. The plan has the event of each round in which the run speaks; all of it is paid for, even if the
        run stops early. A run that began with other records is refused.
        """
        rounds = {checked(run, tick)[1]: plan[tick] for tick in sorted(plan)}
        with self._writing():
            new = [tick for tick, event in rounds.items() if not self._find_reserved(run, tick, event)]

            def first(count: int) -> Counter[Event]:
                return Counter(rounds[tick] for tick in new[:count])

            cohorts = self._charged(run) if about is None else self._cohorts(about.records)
            if about is not None:
                self._begin(run, about, cohorts)
            if new:
                what = f"the run {(about.title if about else '') or run!r}"
                self._account.require_run_fits(first(len(new)), what, first, len(new), cohorts)
            for tick in new:
                self._file.append("reserve", run, tick, canonical(to_plain(rounds[tick])))

    def reserve(self, run: str, tick: int, event: Event) -> Entry:
        """Pays for one release, before its noise is drawn. Calling it again after a restart costs nothing more."""
        run, tick = checked(run, tick)
        with self._writing():
            if found := self._find_reserved(run, tick, event):
                return found
            self._account.require_fit(Counter([event]), f"round {tick} of {run!r}", self._charged(run))
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
            elif self._file.find("mark", run, tick):
                raise AnotherVersion(f"round {tick} of {run!r} was marked by an agent: its bytes are kept elsewhere")
            else:
                if not self._file.find("reserve", run, tick):
                    raise self._not_reserved(run, tick)
                self._file.append("payload", run, tick, payload)

    def start(self, run: str, nonce: bytes) -> int:
        """Counts a process that takes part in a run; gives its number, from 1 on. The nonce tells it from a process of
        the same number that another copy of this ledger has counted."""
        run, _ = checked(run, 0)
        with self._writing():
            number = max(self._file.last_of_run(run, "start"), 0) + 1
            self._file.append("start", run, number, canonical({"when": now(), "nonce": nonce.hex()}))
        return number

    def mark(self, run: str, tick: int, digest: bytes, start: int) -> None:
        """Notes that bytes with this SHA-256 may leave for a reserved round from now on, and never others. `start` is
        the number of this process: it is refused once another process has started after it."""
        run, tick = checked(run, tick)
        if not (isinstance(digest, bytes) and len(digest) == 32):
            raise InputError("a mark is a SHA-256: 32 bytes")
        # On the disk, in the log beside the file: what settles costs three more syncs, and its round is in the file.
        with self._writing(settle=False):
            rows = self._file.at(run, tick, start, start + 1)  # at once: this is asked at every tick
            if ("start", start) not in rows:
                raise LedgerError(f"process {start} of the run {run[:12]} is not in {self.path}; nothing was sent")
            if ("start", start + 1) in rows:
                raise AnotherVersion(
                    f"{self.path} shows that process {start + 1} of this agent has started in the run {run[:12]} after "
                    f"process {start}, which is this one: nothing more leaves here; keep one of the two"
                )
            if found := {each.left() for kind in RELEASED if (each := rows.get((kind, tick)))}:
                if found != {digest}:
                    raise AnotherVersion(
                        f"{self.path} shows that something else may have left at tick {tick} of the run {run[:12]}: "
                        f"this is not sent. Put the newest copy of the store back, or {NEW_RUN}"
                    )
                return
            if ("reserve", tick) not in rows:
                raise self._not_reserved(run, tick)
            self._file.append("mark", run, tick, digest)

    @contextmanager
    def _writing(self, settle: bool = True) -> Iterator[None]:
        with self._file.writing(settle):
            if self._second is not None:
                self._second.catch_up()
            self._catch_up()
            yield
        if self._second is not None:
            with self._file.alone():
                self._second.follow()

    def _begin(self, run: str, about: About, cohorts: Cohorts) -> None:
        """Writes down what a run is, and the file of records if it is new."""
        records = about.records
        digest = None if records is None else self._file.sealed(records.digest)
        said = {"digest": digest, "cohorts": None if cohorts is None else sorted(cohorts)}
        if found := self._file.find("run", run, 0):
            before = found.facts()
            if {key: before[key] for key in said} != said:
                raise LedgerError(f"the run {run!r} began with other records; go on with those, or name a new run")
            return
        if self._file.rows("SELECT 1 FROM entries WHERE run = ? AND kind != 'start' LIMIT 1", run):
            raise LedgerError(f"the run {run!r} has begun without saying what it is; go on so, or name a new run")
        for cohort in cohorts or ():
            check_name(cohort, "a cohort")
        if cohorts is not None and not cohorts:
            raise InputError("these records have no cohort: there is nobody to charge")
        when = now()
        if records is not None and digest not in {each["digest"] for each in self.files()}:
            self._file.append("file", "", 0, canonical({"when": when, "rows": records.rows, **said}))
        self._file.append(
            "run", run, 0, canonical({"when": when, "method": about.method, "title": about.title, **said})
        )

    def _charged(self, run: str) -> Cohorts:
        found = self._file.find("run", run, 0)
        return found.cohorts() if found else None

    def _not_reserved(self, run: str, tick: int) -> LedgerError:
        return LedgerError(f"round {tick} of {run!r} is not reserved; reserve it before its noise is drawn")

    def _find_reserved(self, run: str, tick: int, event: Event) -> Entry | None:
        found = self._file.find("reserve", run, tick)
        if found and found.event() != event:
            raise LedgerError(
                f"round {tick} of {run!r} is reserved for {found.event()}, not for {event}; name a new run"
            )
        return found


def _check_names(population: str, cohorts: str) -> None:
    check_name(population, "a population")
    if cohorts:
        check_name(cohorts, "the column of cohorts")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"
