"""What the rows of a ledger have spent, and what more fits under its cap."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tacit.privacy.events import Event
from tacit.privacy.ledger.entries import BudgetExceeded, Cap, Entry, LedgerError

Cost = Callable[[Counter[Event], Counter[Event], Cap], float]
"""An accountant: the epsilon that events cost under a cap, given those that were reserved before the first payload was
stored and those that were reserved since. More events never cost less, and later ones no less than earlier ones."""


class Spent(NamedTuple):
    """Every event that was ever reserved."""

    planned: Counter[Event]  # before the first payload was stored: when nothing had left
    later: Counter[Event]  # since: these may depend on what had left

    def with_more(self, events: Counter[Event], released: bool) -> Spent:
        """With further events, reserved after (`released`) or before the first payload was stored."""
        return Spent(self.planned, self.later + events) if released else Spent(self.planned + events, self.later)

    def part_of(self, other: Spent) -> bool:
        """Whether the other has each of these events at least as often."""
        return self.planned <= other.planned and self.later <= other.later


class Account:
    """What is spent as of row `number`. Rows never change, so each is read once."""

    def __init__(self, path: Path, cost: Cost) -> None:
        self._path, self.cost = path, cost
        self.number = 0
        self.released = False  # whether a payload is stored, which may have left
        self.cap: Cap | None = None
        self.spent = Spent(Counter(), Counter())
        self._fitting: tuple[Cap | None, Spent] = (None, self.spent)  # a cap, and events known to fit under it

    def read(self, rows: list[Entry]) -> None:
        """Takes note of the rows after row `number`."""
        if not rows:
            return
        planned, later = (events.copy() for events in self.spent)  # callers may hold the old ones
        for entry in rows:
            if entry.kind == "cap":
                self.cap = entry.cap()
            elif entry.kind == "payload":
                self.released = True
            else:
                (later if self.released else planned)[entry.event()] += 1
            self.number = entry.number
        self.spent = Spent(planned, later)

    def epsilon(self, more: Counter[Event]) -> float | None:
        """What is spent, at the cap's delta, with more events; None without a cap."""
        return None if self.cap is None else self.cost(*self._with(more), self.cap)

    def require_spent_within(self, cap: Cap) -> None:
        """Refuses a cap below what is spent."""
        if not self._fits(cap, self.spent):
            spent = self.cost(*self.spent, cap)
            raise BudgetExceeded(
                f"the cap cannot be {cap}: epsilon = {spent:.6g} is spent already; choose a larger one"
            )

    def require_fit(self, events: Counter[Event], what: str) -> None:
        """Refuses events that, reserved now, would pass the cap."""
        if self.cap is None:
            raise BudgetExceeded(f"{what} is refused: {self._path} has no cap; set one with: tacit ledger cap")
        wanted = self._with(events)
        cap, fitting = self._fitting
        if cap == self.cap and wanted.part_of(fitting):
            return  # a part of what fits fits: after check_run, the slow accountant is not asked again in every round
        would = self.cost(*wanted, self.cap)
        if not would <= self.cap.epsilon:  # written so that NaN is refused, too
            spent = self.cost(*self.spent, self.cap)
            raise BudgetExceeded(
                f"{what} is refused: epsilon = {spent:.6g} is spent, it would be {would:.6g}; the cap is {self.cap}"
            )
        self._fitting = self.cap, wanted

    def require_run_fits(
        self, events: Counter[Event], what: str, first: Callable[[int], Counter[Event]], rounds: int
    ) -> None:
        """As `require_fit`; the refusal also says how many rounds would fit. `first(n)` has the events of n rounds."""
        try:
            self.require_fit(events, what)
        except BudgetExceeded as refusal:
            if self.cap is None or not rounds:
                raise
            fit = self.how_many_fit(first, rounds)
            raise BudgetExceeded(f"{refusal}; {fit} of its rounds would still fit") from None

    def how_many_fit(self, first: Callable[[int], Counter[Event]], rounds: int) -> int:
        """How many of the rounds fit, if reserved now; `first(n)` has the events of the first n rounds."""
        cap = self.cap
        if cap is None:
            return 0
        return bisect_left(range(1, rounds + 1), True, key=lambda count: not self._fits(cap, self._with(first(count))))

    def check_caps(self, rows: Iterable[Entry]) -> None:
        """Refuses a history in which a reservation passed the cap of its time, or a cap lay below what was spent."""
        periods: list[list[tuple[Entry, bool]]] = []  # a cap and its reservations, each with `released` at that time
        released = False
        for entry in rows:
            if entry.kind == "cap":
                periods.append([(entry, released)])
            elif entry.kind == "reserve":
                periods[-1].append((entry, released))
            released = released or entry.kind == "payload"
        before = Spent(Counter(), Counter())
        for period in periods:
            before = self._check_period(before, period)

    def _check_period(self, before: Spent, period: list[tuple[Entry, bool]]) -> Spent:
        """More events never cost less: what fits at the end of a cap's period fitted all through it, so the
        accountant is asked once for each cap, not for each row. Returns what was spent at the end."""
        cap, reserved = period[0][0].cap(), [(entry.event(), released) for entry, released in period[1:]]

        def after(count: int) -> Spent:
            planned = Counter(event for event, released in reserved[:count] if not released)
            later = Counter(event for event, released in reserved[:count] if released)
            return before.with_more(planned, released=False).with_more(later, released=True)

        def too_much(count: int) -> bool:
            return not self._fits(cap, after(count))

        if too_much(len(reserved)):
            first = period[bisect_left(range(len(reserved)), True, key=too_much)][0]
            raise LedgerError(f"{self._path}, row {first.number}: more is spent than the cap of {cap}")
        return after(len(reserved))

    def _with(self, events: Counter[Event]) -> Spent:
        """What would be spent if these events were reserved now."""
        return self.spent.with_more(events, self.released)

    def _fits(self, cap: Cap, spent: Spent) -> bool:
        return self.cost(*spent, cap) <= cap.epsilon
