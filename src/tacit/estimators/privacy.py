"""What a fit has spent, in words, and what all fits of this process have spent together."""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tacit.privacy.accounting import Totals, epsilon, rounded_up, totals
from tacit.privacy.coalitions import Guarantee
from tacit.privacy.events import Event, Unprotected

_SKETCH = 1024  # of two fits that share a hundredth of their records, one in 30,000 goes unnoticed


class RefitWarning(UserWarning):
    """Records were fitted privately once more, and no ledger keeps a cap on what all fits cost together."""


@dataclass(frozen=True)
class Privacy:
    """What a fit has spent, and under which assumptions."""

    private: bool  # whether the fitted model may be called private
    epsilon: float  # of this fit, by the accountant with the smallest total
    delta: float
    totals: Totals  # of this fit, by every accountant
    events: Counter[Event]  # how many releases of each kind there were
    assumptions: tuple[str, ...]
    fits: int = 1  # so many fits has the process made, this one included
    epsilon_of_all: float | None = None  # of all those fits together, at the same delta, where they share records
    apart: bool = False  # whether the records lie at several sites: then one is replaced by another of the same site
    coalitions: Guarantee | None = None  # of several sites: what holds against how many of them together

    @property
    def statement(self) -> str:
        """The guarantee, in one sentence."""
        if not all(event.protected for event in self.events):
            return "not private: no noise was added to what the sites exchange"
        guarantee = f"({_told(self.epsilon)}, {self.delta:g})-differentially private, one record replaced by another"
        if self.apart:
            guarantee += " of the same site"
        if self.coalitions is not None and self.coalitions.shared:
            guarantee += f", {self.coalitions.against}"
        if self.fits > 1 and self.epsilon_of_all is not None:
            guarantee += (
                f", by itself; with the other fits of this process, {self.fits} in all, "
                f"({_told(self.epsilon_of_all)}, {self.delta:g}) for a record in all of them, if they were planned "
                "beforehand"
            )
        return guarantee if self.private else f"not private: the noise was seeded; with fresh noise it is {guarantee}"


class Fits:
    """The fits of a process: a search for parameters makes many, on the same records.

    They count whatever their records are, since to compare records would make the statement depend on them. Fits with
    seeded noise are a rehearsal and count apart.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[bool] = Counter()
        self._events: dict[bool, Counter[Event]] = {True: Counter(), False: Counter()}
        self._seen: list[tuple[frozenset[int], Counter[Event]]] = []

    def spent(
        self,
        events: Counter[Event],
        delta: float,
        private: bool,
        assumptions: tuple[str, ...],
        apart: bool = False,
        coalitions: Guarantee | None = None,
    ) -> Privacy:
        """Adds a fit, and says what it cost, by itself and with the others."""
        with self._lock:
            self._counts[private] += 1
            self._events[private].update(events)
            fits, together = self._counts[private], self._events[private].copy()
        total = totals(events, delta)
        of_all = total.best if fits == 1 else epsilon(together, delta)
        return Privacy(private, total.best, delta, total, events, assumptions, fits, of_all, apart, coalitions)

    def again(self, records: frozenset[int], events: Counter[Event], delta: float) -> str | None:
        """Notes a private fit of these records, and says what it costs with the earlier ones that shared some of them;
        None if there were none. This is for a warning to whoever has the records anyway."""
        with self._lock:
            earlier = [spent for other, spent in self._seen if records & other]
            self._seen.append((records, events))
        if not earlier:
            return None
        together = epsilon(sum(earlier, events), delta)
        return (
            f"some of these records were fitted privately before, {len(earlier)} time{'s'[: len(earlier) > 1]} in this "
            f"process; with this fit that costs ({_told(together)}, {delta:g}) together; to keep a cap, give a ledger"
        )


FITS = Fits()


def sketch(X: np.ndarray) -> frozenset[int]:
    """A sample of the records by which two fits know that they share some: the smallest hashes of rows, without labels.

    >>> X = np.arange(12.0).reshape(6, 2)
    >>> len(sketch(X[:4]) & sketch(X[2:]))
    2
    """
    rows = np.ascontiguousarray(X + 0.0)  # -0.0 becomes 0.0
    return frozenset(sorted(hash(row.tobytes()) for row in rows)[:_SKETCH])


def exact_privacy() -> Privacy:
    """Of a fit without noise."""
    events: Counter[Event] = Counter({Unprotected(): 1})
    nothing = Totals(math.inf, math.inf, math.inf, math.inf)
    return Privacy(False, math.inf, 0.0, nothing, events, ("no noise was added",))


def _told(epsilon: float) -> str:
    return f"{rounded_up(epsilon):g}"
