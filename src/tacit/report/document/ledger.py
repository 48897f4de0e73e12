"""The report of a ledger: what a population's records have told over the years, and what they may still tell."""

from __future__ import annotations

from typing import Any

from tacit.html.pictures import Step, budget_over_time
from tacit.html.words import counted
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document.rendering import document

_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def ledger(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit ledger show --json` prints. Digests and the head in it are salted: nobody
    can check a guess about a record with them."""
    spent = [Step(each["when"], each["total"]) for each in plain["runs"] if each["total"] is not None]
    caps = [Step(each["when"], each["epsilon"]) for each in plain["caps"]]
    said = plain | _in_short(plain) | {"picture": budget_over_time(spent, caps)}
    if plain["forecast"] is not None:
        said["forecast"] = forecast(plain["forecast"])
    return document("ledger.html", plain["population"], "Report of a privacy ledger", plain, said)


def _in_short(plain: dict[str, Any]) -> dict[str, str | None]:
    """What the total means, what the cap allows, and whether that is good, a warning or bad."""
    cap, spent = plain["cap"], plain["spent"]
    if cap is None or spent is None:
        return {"state": "warning", "lead": None, "more": None}
    who = _who(plain["colluders"])
    share = spent / cap["epsilon"] if cap["epsilon"] else 1.0
    allowed = in_words(cap["epsilon"], cap["delta"], who)
    lead, more = in_words(spent, cap["delta"], who), f"The cap allows at most this: {allowed}"
    if plain["counted_by"] == "filter":
        lead = f"With all runs that the cap allows: {allowed}"
        more = (
            "Later runs may depend on what earlier ones said. Then the number that is spent says only what still fits."
        )
    return {"state": "good" if share <= 0.6 else "warning" if share <= 0.9 else "bad", "lead": lead, "more": more}


def _who(colluders: int | None) -> str:
    """Against whom the total holds: None if every member has added all of its noise in all runs."""
    if colluders is None:
        return EVERYBODY
    if colluders == 0:
        return "somebody who is no member and hears every sum"
    return f"any {counted(colluders, 'member')}, with all that {'it knows' if colluders == 1 else 'they know'},"


def forecast(plain: dict[str, Any]) -> str:
    """How long the rest of the budget lasts.

    >>> forecast({"run": "spring", "more": 11})
    'What is left is enough for eleven more runs like the last one (spring).'
    """
    more = plain["more"]
    count = _WORDS[more] if more < len(_WORDS) else f"{more:,}"
    enough = "not enough for another run" if more == 0 else f"enough for {count} more run{'s' * (more != 1)}"
    return f"What is left is {enough} like the last one ({plain['run']})."
