"""All that a ledger says, as plain data: what `tacit ledger show --json` prints and a report is made of."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from tacit.privacy.events import Event
from tacit.privacy.ledger.entries import Cap
from tacit.privacy.ledger.ledger import Ledger

_FAR = 1_000  # runs: a forecast counts no further


def budget(cap: Cap | None, spent: float | None) -> dict[str, Any]:
    """The cap, what is spent and what is left."""
    return {
        "cap": None if cap is None else {"epsilon": cap.epsilon, "delta": cap.delta},
        "spent": spent,
        "left": None if cap is None or spent is None else max(cap.epsilon - spent, 0.0),
    }


def budget_of(ledger: Ledger) -> dict[str, Any]:
    """The budget of this ledger: its cap, and what was spent."""
    return budget(ledger.cap(), ledger.epsilon())


def in_figures(found: dict[str, Any]) -> str:
    """A budget in one line.

    >>> in_figures(budget(Cap(2.0, 1e-6), 1.75))
    'spent: epsilon = 1.75 of 2 at delta = 1e-06; left: 0.25'
    """
    if (cap := found["cap"]) is None:
        return "no cap is set, so nothing can be spent: set one with tacit ledger cap"
    spent, left = ("-" if found[name] is None else f"{found[name]:.6g}" for name in ("spent", "left"))
    return f"spent: epsilon = {spent} of {cap['epsilon']:.6g} at delta = {cap['delta']:.6g}; left: {left}"


def statement(ledger: Ledger) -> dict[str, Any]:
    """The population, its budget, and every cap, file and run.

    A run has what it costs alone (`epsilon`), what all had cost when the next run began (`total`) and what was then
    left of the present cap. `forecast` says how many more runs like the last one fit.
    """
    cap, runs, totals, head = ledger.cap(), ledger.runs(), ledger.totals(), ledger.head()
    last = runs[-1] if runs else None
    more = None if last is None else ledger.how_many_more(last.events, _FAR, last.cohorts)
    counted = Counter(cohort for run in runs for cohort in run.cohorts or ())
    return {
        "population": ledger.population,
        "created": ledger.created,
        **budget_of(ledger),
        "counted_by": "filter" if ledger.adaptive() else "accountant",
        "colluders": _colluders(ledger.spent()),
        "caps": ledger.caps(),
        "files": ledger.files(),
        "cohorts": [{"cohort": name, "spent": cost, "runs": counted[name]} for name, cost in ledger.by_cohort().items()]
        if ledger.cohorts
        else None,
        "runs": [
            {
                "run": run.run,
                "when": run.when,
                "method": run.method,
                "title": run.title,
                "cohorts": run.cohorts,
                "rounds": run.events.total(),
                "stored": run.released,
                "epsilon": ledger.alone(run.events),
                "total": total,
                "left": None if cap is None or total is None else max(cap.epsilon - total, 0.0),
                "events": {str(event): count for event, count in run.events.items()},
            }
            for run, total in zip(runs, totals or itertools.repeat(None, len(runs)), strict=True)
        ],
        "forecast": None if last is None or cap is None else {"run": last.run, "more": more, "at_most": _FAR},
        "book": head.book,
        "rows": head.rows,
        "head": head.head,
    }


def _colluders(spent: Counter[Event]) -> int | None:
    """Against how many members together the total holds, if noise was shared; None if it was not."""
    return min((found.colluders for event in spent if (found := event.shared)), default=None)
