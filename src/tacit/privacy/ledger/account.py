"""What the records of a ledger have spent, and what more fits under its cap.

A ledger may have *cohorts*: a public column says when a record came, and a run is charged to the cohorts whose records
it uses. A record has then spent what its cohort has, and the ledger's total is that of the cohort that has spent most
(docs/privacy.md, "Cohorts", has the proof). Without cohorts all records are alike: `EVERYBODY`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tacit.privacy.events import Event
from tacit.privacy.ledger.entries import RELEASED, BudgetExceeded, Cap, Entry, LedgerError

Cost = Callable[[Counter[Event], Counter[Event], Cap], float]
"""An accountant: the epsilon that events cost under a cap, given those that were reserved before the first payload was
stored, or marked, and those that were reserved since. For one plan, more events never cost less, neither in it as long
as nothing came later, nor later. Different plans may be counted in different ways."""

Cohorts = Collection[str] | None  # that a run is charged to; None for all, present and future
EVERYBODY = ""  # stands for the records of every cohort that no run has named yet


class Spent(NamedTuple):
    """Every event that was ever reserved for the records of a cohort."""

    planned: Counter[Event]  # before the first mark or payload about them: when nothing had left
    later: Counter[Event]  # since: these may depend on what had left
    released: bool = False  # whether something about them is marked or stored: it may have left

    def copied(self) -> Spent:
        """The same, with counters of its own."""
        return Spent(self.planned.copy(), self.later.copy(), self.released)

    def with_more(self, events: Counter[Event]) -> Spent:
        """With further events, reserved now."""
        if self.released:
            return self._replace(later=self.later + events)
        return self._replace(planned=self.planned + events)

    def part_of(self, other: Spent) -> bool:
        """Whether the other has each of these events at least as often."""
        return self.planned <= other.planned and self.later <= other.later

    def costs_no_more_than(self, other: Spent) -> bool:
        """Whether this is sure, whatever the accountant. Once events came later, it may decide by the plan how it
        counts: then only equal plans can be compared."""
        return self.part_of(other) and (self.planned == other.planned or not self.later)


class Standings:
    """What each cohort has spent as of some row. Never changes: `after` gives the next one."""

    def __init__(self, of: Mapping[str, Spent], charged: Mapping[str, Cohorts]) -> None:
        self.of = of
        self._charged = charged  # the cohorts of each run

    def after(self, rows: Iterable[Entry]) -> Standings:
        """After these further rows; the same if they change nothing, as most marks do."""
        rows = [entry for entry in rows if self._tells(entry)]
        if not rows:
            return self
        of = {cohort: spent.copied() for cohort, spent in self.of.items()}
        charged = dict(self._charged)

        def touched(run: str) -> list[str]:
            cohorts = charged.get(run)
            if cohorts is None:
                return list(of)
            for cohort in set(cohorts) - of.keys():
                of[cohort] = of[EVERYBODY].copied()
            return list(cohorts)

        for entry in rows:
            if entry.kind == "run":
                charged[entry.run] = entry.cohorts()
            elif entry.kind == "reserve":
                event = entry.event()
                for cohort in touched(entry.run):
                    spent = of[cohort]
                    (spent.later if spent.released else spent.planned)[event] += 1
            elif entry.kind in RELEASED:
                for cohort in touched(entry.run):
                    of[cohort] = of[cohort]._replace(released=True)
        return Standings(of, charged)

    def _tells(self, entry: Entry) -> bool:
        """Whether a row can change what is spent."""
        if entry.kind not in RELEASED:
            return entry.kind in ("run", "reserve")
        cohorts = self._charged.get(entry.run)
        return not all(cohort in self.of and self.of[cohort].released for cohort in cohorts or self.of)

    def with_more(self, events: Counter[Event], cohorts: Cohorts) -> Standings:
        """If these events were reserved now, for these cohorts."""
        named = self.of.keys() if cohorts is None else cohorts
        more = {cohort: self.of.get(cohort, self.of[EVERYBODY]).with_more(events) for cohort in named}
        return Standings({**self.of, **more}, self._charged)

    def charged(self, cohorts: Cohorts) -> list[Spent]:
        """What these cohorts have spent."""
        return [self.of.get(cohort, self.of[EVERYBODY]) for cohort in (self.of if cohorts is None else cohorts)]

    def released(self) -> Standings:
        """If something about everybody had been released by now."""
        return Standings({cohort: spent._replace(released=True) for cohort, spent in self.of.items()}, self._charged)

    def heaviest(self) -> list[Spent]:
        """What cohorts have spent, without those that surely cost no more than another one."""
        found: list[Spent] = []
        for spent in sorted(self.of.values(), key=lambda each: -(each.planned.total() + each.later.total())):
            if not any(map(spent.costs_no_more_than, found)):
                found.append(spent)
        return found

    def part_of(self, other: Standings) -> bool:
        """Whether each cohort has spent a part of what it has in the other."""
        return all(cohort in other.of and spent.part_of(other.of[cohort]) for cohort, spent in self.of.items())


NOTHING = Standings({EVERYBODY: Spent(Counter(), Counter())}, {})


class Account:
    """What is spent as of row `number`. Rows never change, so each is read once."""

    def __init__(self, path: Path, cost: Cost) -> None:
        self._path, self.cost = path, cost
        self.number = 0
        self.cap: Cap | None = None
        self.standings = NOTHING
        self._fitting: tuple[Cap | None, Standings] = (None, NOTHING)  # a cap, and what is known to fit under it

    def read(self, rows: Sequence[Entry]) -> None:
        """Takes note of the rows after row `number`."""
        if not rows:
            return
        self.standings = self.standings.after(rows)
        for entry in rows:
            if entry.kind == "cap":
                self.cap = entry.cap()
        self.number = rows[-1].number

    def epsilon(self, more: Counter[Event], cohorts: Cohorts = None) -> float | None:
        """What is spent, at the cap's delta, with more events for these cohorts; None without a cap."""
        return None if self.cap is None else self.total(self.standings.with_more(more, cohorts), self.cap)

    def total(self, standings: Standings, cap: Cap) -> float:
        """What the cohort has spent that has spent most."""
        return max(self.cost(spent.planned, spent.later, cap) for spent in standings.heaviest())

    def require_spent_within(self, cap: Cap) -> None:
        """Refuses a cap below what is spent."""
        if not self.fits(cap, self.standings):
            spent = self.total(self.standings, cap)
            raise BudgetExceeded(
                f"the cap cannot be {cap}: epsilon = {spent:.6g} is spent already; choose a larger one"
            )

    def require_fit(self, events: Counter[Event], what: str, cohorts: Cohorts = None) -> None:
        """Refuses events that, reserved now, would pass the cap."""
        if self.cap is None:
            raise BudgetExceeded(f"{what} is refused: {self._path} has no cap; set one with: tacit ledger cap")
        wanted = self.standings.with_more(events, cohorts)
        cap, fitting = self._fitting
        if cap == self.cap and wanted.part_of(fitting):
            return  # a part of what fits fits: after check_run, the slow accountant is not asked again in every round
        if not self.fits(self.cap, wanted):
            spent, would = self.total(self.standings, self.cap), self.total(wanted, self.cap)
            raise BudgetExceeded(
                f"{what} is refused: epsilon = {spent:.6g} is spent, it would be {would:.6g}; the cap is {self.cap}"
            )
        self._fitting = self.cap, wanted

    def require_run_fits(
        self,
        events: Counter[Event],
        what: str,
        first: Callable[[int], Counter[Event]],
        rounds: int,
        cohorts: Cohorts = None,
    ) -> None:
        """As `require_fit`; the refusal also says how many rounds would fit. `first(n)` has the events of n rounds."""
        try:
            self.require_fit(events, what, cohorts)
        except BudgetExceeded as refusal:
            if self.cap is None or not rounds:
                raise
            fit = self.how_many_fit(first, rounds, cohorts)
            raise BudgetExceeded(f"{refusal}; {fit} of its rounds would still fit") from None

    def how_many_fit(self, first: Callable[[int], Counter[Event]], rounds: int, cohorts: Cohorts = None) -> int:
        """How many of the rounds fit, if reserved now; `first(n)` has the events of the first n rounds."""
        return self._how_many(self.standings, first, rounds, cohorts)

    def how_many_follow(self, first: Callable[[int], Counter[Event]], runs: int, cohorts: Cohorts) -> int:
        """How many runs fit, each after the one before has released something."""
        return self._how_many(self.standings.released(), first, runs, cohorts)

    def _how_many(
        self, standings: Standings, first: Callable[[int], Counter[Event]], most: int, cohorts: Cohorts
    ) -> int:
        cap = self.cap
        if cap is None:
            return 0

        def too_many(count: int) -> bool:
            return not self.fits(cap, standings.with_more(first(count), cohorts))

        return bisect_left(range(1, most + 1), True, key=too_many)

    def check_caps(self, rows: Sequence[Entry]) -> None:
        """Refuses a history in which a reservation passed the cap of its time, or a cap lay below what was spent.

        More events of a cohort never cost less: what fits at the end of a cap's period fitted all through it, so the
        accountant is asked once for each cap, not for each row."""
        starts = [k for k, entry in enumerate(rows) if entry.kind == "cap"]
        standings = NOTHING.after(rows[: starts[0]]) if starts else NOTHING
        for start, end in pairwise([*starts, len(rows)]):
            cap, period = rows[start].cap(), rows[start:end]
            after = standings.after(period)
            if not self.fits(cap, after):
                found = self._first_too_much(standings, period, cap)
                raise LedgerError(f"{self._path}, row {found.number}: more is spent than the cap of {cap}")
            standings = after

    def _first_too_much(self, before: Standings, period: Sequence[Entry], cap: Cap) -> Entry:
        def too_much(last: int) -> bool:
            return not self.fits(cap, before.after(period[: last + 1]))

        return period[bisect_left(range(len(period) - 1), True, key=too_much)]

    def fits(self, cap: Cap, standings: Standings) -> bool:
        """Whether no cohort has spent more than the cap. Written so that a cost that is no number does not fit."""
        return all(self.cost(spent.planned, spent.later, cap) <= cap.epsilon for spent in standings.heaviest())
