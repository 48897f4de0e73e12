"""The report of a ledger: what a population's records have told over the years, and what they may still tell."""

from __future__ import annotations

from typing import Any

from tacit.html.frame import (
    box,
    bullets,
    commands,
    counted,
    document,
    figure,
    moment,
    rows,
    section,
    sentence,
    shown,
)
from tacit.html.markup import Markup, tag
from tacit.html.pictures import Step, budget_over_time
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document import cost

KIND = "Report of a privacy ledger"
_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_DIGEST = 16  # characters of a hash that a table shows


def ledger(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit ledger show --json` prints. Digests and the head in it are salted: nobody
    can check a guess about a record with them."""
    return document(
        plain["population"],
        KIND,
        plain,
        _in_short(plain),
        _over_time(plain),
        _runs(plain),
        *([_cohorts(plain)] if plain["cohorts"] is not None else []),
        _caps(plain),
        _files(plain),
        _rests_on(plain),
        _verify(plain),
    )


def _in_short(plain: dict[str, Any]) -> Markup:
    cap, spent = plain["cap"], plain["spent"]
    if cap is None or spent is None:
        return box("warning", "This ledger has no cap yet. Nothing can be spent before one is set.")
    who = _who(plain["colluders"])
    share = spent / cap["epsilon"] if cap["epsilon"] else 1.0
    allowed = in_words(cap["epsilon"], cap["delta"], who)
    lead, more = in_words(spent, cap["delta"], who), [f"The cap allows at most this: {allowed}"]
    if plain["counted_by"] == "filter":
        lead = f"With all runs that the cap allows: {allowed}"
        more = [
            "Later runs may depend on what earlier ones said. Then the number that is spent says only what still fits."
        ]
    return box(
        "good" if share <= 0.6 else "warning" if share <= 0.9 else "bad",
        tag("p", lead, class_="lead"),
        cost.budget(plain),
        *more,
        *([] if plain["forecast"] is None else [forecast(plain["forecast"])]),
    )


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


def _over_time(plain: dict[str, Any]) -> Markup:
    spent = [Step(each["when"], each["total"]) for each in plain["runs"] if each["total"] is not None]
    caps = [Step(each["when"], each["epsilon"]) for each in plain["caps"]]
    drawn = budget_over_time(spent, caps)
    if not drawn:
        return section("The budget over time", "Nothing has happened yet.")
    return section(
        "The budget over time",
        figure(drawn, "Epsilon. The blue line is what all runs together have spent; the red one is the cap."),
    )


def _runs(plain: dict[str, Any]) -> Markup:
    if not plain["runs"]:
        return section("Runs", "No run has been paid for yet.")
    lines = [
        (
            moment(each["when"]),
            each["title"] or str(each["run"])[:_DIGEST],
            each["method"] or "–",
            shown(f"runs.{k}.rounds", f"{each['rounds']:,}"),
            shown(f"runs.{k}.epsilon", cost.number(each["epsilon"])),
            shown(f"runs.{k}.total", cost.number(each["total"])),
        )
        for k, each in enumerate(plain["runs"])
    ]
    return section(
        "Runs",
        rows(["when", "run", "method", "rounds", "epsilon alone", "total so far"], lines),
        "The total of several runs is not the sum of their epsilons. Runs that may depend on earlier ones are counted "
        "by a stricter rule, for the present cap.",
    )


def _cohorts(plain: dict[str, Any]) -> Markup:
    lines = [
        (each["cohort"], shown(f"cohorts.{k}.spent", cost.number(each["spent"])), each["runs"])
        for k, each in enumerate(plain["cohorts"])
    ]
    return section(
        "Cohorts",
        "Records that came together pay together. Each cohort has paid for the runs in which it took part.",
        rows(["cohort", "spent", "runs"], lines),
    )


def _caps(plain: dict[str, Any]) -> Markup:
    if not plain["caps"]:
        return section("Caps", "No cap has been set yet.")
    lines = [
        (moment(each["when"]), shown(f"caps.{k}.epsilon", f"{each['epsilon']:g}"), f"{each['delta']:g}", *_by(each))
        for k, each in enumerate(plain["caps"])
    ]
    return section("Caps", rows(["when", "epsilon", "delta", "set by", "why"], lines))


def _by(cap: dict[str, Any]) -> tuple[str, str]:
    return str(cap.get("who") or "–"), str(cap.get("why") or "–")


def _files(plain: dict[str, Any]) -> Markup:
    if not plain["files"]:
        return section("Files of records", "No file has been registered.")
    lines = [
        (
            moment(each["when"]),
            "–" if each["rows"] is None else shown(f"files.{k}.rows", f"{each['rows']:,}"),
            ", ".join(map(str, each["cohorts"] or [])) or "–",
        )
        for k, each in enumerate(plain["files"])
    ]
    return section("Files of records", rows(["when", "records", "cohorts"], lines))


def _rests_on(plain: dict[str, Any]) -> Markup:
    cohort = " of the same cohort" if plain["cohorts"] is not None else ""
    notes = [
        "All releases of these records are in this ledger. It cannot know of a release that was not paid from it.",
        f"Protected is one record, replaced by another{cohort}. A person with several records is protected less.",
    ]
    if plain["colluders"] is not None:
        whom = f"any {counted(plain['colluders'], 'member')} together" if plain["colluders"] else "people outside"
        shared = f"In some runs the members shared the noise. The total holds against {whom}, not against more."
        notes.insert(1, shared)
    return section("What this rests on", bullets(notes))


def _verify(plain: dict[str, Any]) -> Markup:
    return section(
        "How to check this",
        sentence(
            "The ledger is a chain of hashes with ",
            shown("rows", f"{plain['rows']:,}"),
            " rows: a row that was changed or lost is found. With a head that you kept from an earlier check, you also "
            "see whether rows at the end were lost.",
        ),
        commands(["tacit ledger verify FILE", f"tacit ledger verify FILE --head {plain['head']}"]),
    )
