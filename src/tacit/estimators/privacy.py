"""What a fit has spent, in words, and what all fits of this process have spent together."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from tacit.privacy.accounting import Totals, epsilon, rounded_up, totals
from tacit.privacy.events import Event


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

    @property
    def statement(self) -> str:
        """The guarantee, in one sentence."""
        guarantee = f"({_told(self.epsilon)}, {self.delta:g})-differentially private, one record replaced by another"
        if self.fits > 1 and self.epsilon_of_all is not None:
            guarantee += (
                f", by itself; with the other fits of this process, {self.fits} in all, "
                f"({_told(self.epsilon_of_all)}, {self.delta:g}) for a record in all of them"
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

    def spent(self, events: Counter[Event], delta: float, private: bool, assumptions: tuple[str, ...]) -> Privacy:
        """Adds a fit, and says what it cost, by itself and with the others."""
        with self._lock:
            self._counts[private] += 1
            self._events[private].update(events)
            fits, together = self._counts[private], self._events[private].copy()
        total = totals(events, delta)
        of_all = total.best if fits == 1 else epsilon(together, delta)
        return Privacy(private, total.best, delta, total, events, assumptions, fits, of_all)


FITS = Fits()


def _told(epsilon: float) -> str:
    return f"{rounded_up(epsilon):g}"
