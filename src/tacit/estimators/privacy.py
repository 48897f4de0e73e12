"""What a fit has spent, in words that say what they cover."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from tacit.privacy.accounting import Totals, rounded_up
from tacit.privacy.coalitions import Guarantee
from tacit.privacy.events import Event, Unprotected
from tacit.privacy.ledger import Cap, Ledger

# The noise protects rows from whoever sees the model. It cannot know how the rows were made.
CONDITION = "if the features were made without looking at these records, and all parameters were chosen so"
ASSUMPTIONS = (
    "the features, X, were made without looking at these records: a scaler, an imputer or a selection of columns that "
    "was fitted on them breaks this; SchemaEncoder learns nothing from records",
    "all parameters were chosen without looking at the records: the scores of a search are not protected",
)


class Counted(NamedTuple):
    """What a ledger had counted when it had paid for a fit. Other processes may have added to it since."""

    population: str
    runs: int  # this fit included
    cap: Cap  # that they keep together
    colluders: int | None  # against so many members together, if some of the runs shared their noise

    @classmethod
    def of(cls, ledger: Ledger) -> Counted:
        """Of a ledger that has paid. The cap is read last: one that changes in between is not below what is spent."""
        runs, spent, cap = len(ledger.runs()), ledger.spent(), ledger.cap()
        assert cap is not None  # without one nothing is paid
        shared = [event.shared.colluders for event in spent if event.shared is not None]
        return cls(ledger.population, runs, cap, min(shared, default=None))

    def __str__(self) -> str:
        few = {None: "", 0: ", against anybody who is no member", 1: ", against any one member"}
        whom = few.get(self.colluders, f", against any {self.colluders} members together")
        return (
            f"all runs that the ledger of {self.population!r} had counted when it paid, {self.runs} with this one, "
            f"keep its cap together: ({rounded_up(self.cap.epsilon):g}, {self.cap.delta:g}){whom}"
        )


@dataclass(frozen=True)
class Privacy:
    """What a fit has spent, and under which assumptions."""

    private: bool  # whether the fitted model may be called private
    epsilon: float  # of this fit alone, by the accountant with the smallest total
    delta: float
    totals: Totals  # of this fit alone, by every accountant
    events: Counter[Event]  # how many releases of each kind this fit has made
    assumptions: tuple[str, ...]
    apart: bool = False  # whether the records lie at several sites: then one is replaced by another of the same site
    coalitions: Guarantee | None = None  # of several sites: what holds against how many of them together
    counted: Counted | None = None  # what the ledger that has paid had counted; None without a ledger

    @property
    def statement(self) -> str:
        """The guarantee, in one sentence."""
        if not all(event.protected for event in self.events):
            return "not private: no noise was added to what the sites exchange"
        whose = " of the same site" if self.apart else ""
        guarantee = f"({rounded_up(self.epsilon):g}, {self.delta:g})-differentially private"
        guarantee += f", one record replaced by another{whose}"
        if self.coalitions is not None and self.coalitions.shared:
            guarantee += f", {self.coalitions.against}"
        covers = "this fit alone: no ledger has counted it" if self.counted is None else f"this fit; {self.counted}"
        told = f"{guarantee}, {CONDITION}; it covers {covers}"
        return told if self.private else f"not private: the noise was seeded; with fresh noise it is {told}"


def exact_privacy() -> Privacy:
    """Of a fit without noise."""
    events: Counter[Event] = Counter({Unprotected(): 1})
    nothing = Totals(math.inf, math.inf, math.inf, math.inf)
    return Privacy(False, math.inf, 0.0, nothing, events, ("no noise was added",))
