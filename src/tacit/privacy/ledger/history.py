"""What a ledger says: all that can be read of it. `tacit.privacy.ledger.ledger` writes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tacit.privacy.events import Event
from tacit.privacy.ledger.account import NOTHING, Account, Cohorts, Cost
from tacit.privacy.ledger.entries import RELEASED, Cap, Entry, Head, LedgerError, Records, checked
from tacit.privacy.ledger.file import LedgerFile


class RunSummary(NamedTuple):
    """What one run has reserved and released."""

    run: str
    when: str  # it was paid for first; empty if it never said what it is
    method: str
    title: str
    cohorts: Cohorts  # that it is charged to
    events: Counter[Event]
    released: int  # how many of them have left, or may have: those with a mark or a payload
    last_tick: int


class Verified(NamedTuple):
    """What a ledger without faults contains."""

    population: str
    created: str
    reservations: int
    released: int  # how many of them have a mark or a payload
    cap: Cap | None
    epsilon: float | None  # spent, at the cap's delta; None without a cap
    head: Head


class History:
    """What `Ledger` has written: its budget, its runs, and whether it is whole."""

    def __init__(self, path: str | os.PathLike[str], cost: Cost) -> None:
        self.path = Path(path)
        self._file = LedgerFile(self.path)
        self._account = Account(self.path, cost)

    @property
    def population(self) -> str:
        """Whose records this ledger is about."""
        return self._file.population

    @property
    def cohorts(self) -> str:
        """The public column that says to which cohort a record belongs; empty if all records are alike."""
        return self._file.cohorts

    @property
    def book(self) -> str:
        """Which ledger this is: a random name."""
        return self._file.book

    @property
    def created(self) -> str:
        """When the ledger was made, in UTC."""
        return self._file.created

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def payload(self, run: str, tick: int) -> bytes | None:
        """What was stored for this round, to be sent (again) unchanged; None if nothing was stored, or sent."""
        found = self._file.find("payload", *checked(run, tick))
        return found.body if found else None

    def marks(self, run: str) -> dict[int, bytes]:
        """The SHA-256 of what has left, or may have left, at each tick of a run."""
        return {entry.tick: entry.left() for kind in RELEASED for entry in self._file.of_run(run, kind)}

    def reserved(self, run: str) -> dict[int, Event]:
        """What a run has paid for, by ticks."""
        return {entry.tick: entry.event() for entry in self._file.of_run(run, "reserve")}

    def begun_without_marks(self, run: str) -> bool:
        """Whether an agent of an older version of tacit has begun this run: it kept the first bytes of a run here, and
        no trace of the others before the run was over."""
        return self._file.last_of_run(run, "payload") >= 0

    def cap(self) -> Cap | None:
        """The cap that holds now; None if there is none."""
        self._catch_up()
        return self._account.cap

    def spent(self) -> Counter[Event]:
        """Every event that was ever reserved, sent or not."""
        return Counter(entry.event() for entry in self._file.of_kind("reserve"))

    def told(self, records: Records | None = None) -> bool:
        """Whether something about these records may have left, so that what is reserved now may depend on it."""
        self._catch_up()
        return any(spent.released for spent in self._account.standings.charged(self._cohorts(records)))

    def adaptive(self) -> bool:
        """Whether something was reserved after a release, so that a filter counts: its number says only what fits."""
        self._catch_up()
        return any(spent.later for spent in self._account.standings.of.values())

    def epsilon(self, more: Counter[Event] | None = None, records: Records | None = None) -> float | None:
        """What is spent, at the cap's delta, or would be with more events for these records; None without a cap."""
        self._catch_up()
        return self._account.epsilon(more or Counter(), self._cohorts(records))

    def by_cohort(self) -> dict[str, float]:
        """What the records of each cohort have spent, at the cap's delta; empty without cohorts or without a cap."""
        self._catch_up()
        cap = self._account.cap
        if cap is None or not self.cohorts:
            return {}
        standings = self._account.standings.of
        return {name: self._account.cost(*standings[name][:2], cap) for name in sorted(standings) if name}

    def remaining_rounds(self, one_round: Sequence[Event], at_most: int, cohorts: Cohorts = None) -> int:
        """How many further rounds of these events, reserved now, fit under the cap, counted up to `at_most`."""
        self._catch_up()
        return self._account.how_many_fit(_times(one_round), at_most, cohorts)

    def how_many_more(self, events: Counter[Event], at_most: int, cohorts: Cohorts = None) -> int:
        """How many further runs of these events fit under the cap, each after the one before has released something;
        counted up to `at_most`."""
        self._catch_up()
        return self._account.how_many_follow(_times(list(events.elements())), at_most, cohorts)

    def alone(self, events: Counter[Event]) -> float | None:
        """What these events would cost if they were all that was ever reserved; None without a cap."""
        cap = self.cap()
        return None if cap is None else self._account.cost(events, Counter(), cap)

    def check_run(
        self, events: Counter[Event], one_round: Sequence[Event] = (), records: Records | None = None
    ) -> None:
        """Refuses a run whose events, besides those that it has reserved, would pass the cap if reserved now.

        If the run consists of identical rounds, the refusal says how many of them would still fit. After that, it is
        fast to reserve these events, even if the accountant is slow.
        """
        self._catch_up()
        rounds = events.total() // len(one_round) if one_round else 0
        self._account.require_run_fits(events, "the run", _times(one_round), rounds, self._cohorts(records))

    def entries(self) -> Iterator[Entry]:
        """All rows in order. Others may write, and so may the caller, while this is read."""
        return self._file.entries()

    def caps(self) -> list[dict[str, Any]]:
        """All caps, in order: epsilon and delta; when, who set it and why."""
        return [entry.facts() for entry in self._file.of_kind("cap")]

    def files(self) -> list[dict[str, Any]]:
        """The files of records that were used, in order: when first; digest, rows, cohorts."""
        return [entry.facts() for entry in self._file.of_kind("file")]

    def runs(self) -> list[RunSummary]:
        """The runs in the order of their first reservation."""
        events: dict[str, Counter[Event]] = {}
        about: dict[str, dict[str, Any]] = {}
        released, last_tick = Counter[str](), Counter[str]()
        for entry in self._file.rows_after(0):
            if entry.kind == "run":
                about[entry.run] = entry.facts()
            elif entry.kind == "reserve":
                events.setdefault(entry.run, Counter())[entry.event()] += 1
                last_tick[entry.run] = max(last_tick[entry.run], entry.tick)
            elif entry.kind in RELEASED:
                released[entry.run] += 1
        nothing = {"when": "", "method": "", "title": "", "cohorts": None}
        found = []
        for run, counted in events.items():
            said = about.get(run, nothing)
            who = (run, said["when"], said["method"], said["title"], said["cohorts"])
            found.append(RunSummary(*who, counted, released[run], last_tick[run]))
        return found

    def totals(self) -> list[float]:
        """For each run, what all was spent when the next one began, and now, at the present cap; empty without one."""
        cap, rows, known = self.cap(), self._file.rows_after(0), set[str]()
        if cap is None:
            return []
        starts = []
        for k, entry in enumerate(rows):
            if entry.kind == "reserve" and entry.run not in known:
                known.add(entry.run)
                starts.append(k)
        found, standings, done = [], NOTHING, 0
        for end in [*starts[1:], len(rows)] if starts else []:
            standings, done = standings.after(rows[done:end]), end
            found.append(self._account.total(standings, cap))
        return found

    def head(self) -> Head:
        """Stands for the whole history, and tells nothing about it: keep it elsewhere, and `verify` with it."""
        return self._file.head()

    def knows(self, records: Records) -> bool:
        """Whether a run has used these records."""
        return self._file.sealed(records.digest) in {each["digest"] for each in self.files()}

    def contains(self, head: Head) -> bool:
        """Whether this is the ledger that once had this head, with all rows that it had then."""
        return self._file.contains(head)

    def verify(self, kept: str | None = None) -> Verified:
        """Checks the chain and every rule; with a head that was kept, also that no row up to it was lost or changed.

        Raises LedgerError that names the first bad row.
        """
        self._file.check()
        self._account.check_caps(self._file.rows_after(0))
        kinds = Counter(entry.kind for entry in self.entries())
        if kept is not None and kept not in self._heads():
            raise LedgerError(
                f"{self.path} does not contain the head {kept}: rows were lost or rewritten since; do not spend from it"
            )
        released = sum(kinds[kind] for kind in RELEASED)
        return Verified(
            self.population, self.created, kinds["reserve"], released, self.cap(), self.epsilon(), self.head()
        )

    def _catch_up(self) -> None:
        """Reads the rows that any process has committed since."""
        self._account.read(self._file.rows_after(self._account.number))

    def _cohorts(self, records: Records | None) -> Cohorts:
        """To whom a run with these records is charged."""
        return records.cohorts if records is not None and self.cohorts else None

    def _heads(self) -> list[str]:
        """The head after each number of rows."""
        return list(map(self._file.sealed, [self._file.origin, *(entry.hash for entry in self.entries())]))


def _times(one_round: Sequence[Event]) -> Callable[[int], Counter[Event]]:
    """A function that gives the events of a number of rounds."""
    return lambda rounds: Counter({event: count * rounds for event, count in Counter(one_round).items()})
