"""The reports as HTML pages, one template each. `plain`, the data of a page, is in the page as JSON, too.

run          of a training run: of `tacit train`, or of one member's agent
ledger       what a population's records have told over the years, and what they may still tell
certificate  what `tacit certificate verify` has found: what is proved, who has signed it, what has to be believed
comparison   what `tacit compare` has found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tacit.html import line
from tacit.html.pictures import MOST_MEMBERS, Range, Step, budget_over_time, graph, ranges
from tacit.html.words import counted, listed
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report import cost
from tacit.report.rendering import document

_LISTED = 100  # members, and columns, in a table
# Of a run that does not say otherwise.
_NOT_SAID: dict[str, Any] = dict.fromkeys(("member", "run", "attack", "ledger", "positive_share"))
_NOT_SAID |= dict.fromkeys(("epsilon", "delta", "colluders", "dropouts", "converged", "consensus_error"))
_NOT_SAID |= {"exchange": "rows", "without": [], "history": {}, "measured": [], "listening": {}, "warnings": []}
_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def run(plain: dict[str, Any]) -> str:
    """The document.

    title, tacit, written       what, by which version, when
    member, run                 whose agent's report it is, and the name of the run; None for a simulation
    agents, edges, without      [{"name", "rows"}], pairs of their places, names of members that dropped out
    method                      {"name", "title"}
    settings                    {name: value}, as in the model file
    records                     which records and columns, see `tacit.report.run_facts.records_used`
    rounds, messages, bytes     what left; `messages` of an agent are its releases
    private, statement          the guarantee, as in the model file
    epsilon, delta, colluders, dropouts, coalitions    of a private run, as in the model file
    positive_share              whether a noisy count measured the share of positives
    converged, consensus_error, history, measured      of an exact run alone: they are not covered by a guarantee
    listening, robust, attack   whose messages were moved; how members listened; who lied in a simulation
    ledger                      {"spent", "cap", "left"}, if one has paid
    warnings                    what the command warned of, if it does not depend on records
    verify                      [{"command", "what"}]
    """
    said, agents = _NOT_SAID | plain, plain["agents"]
    why = plain["statement"].removeprefix("not private: ")
    names = [each["name"] for each in agents]
    said |= {
        "why": f"{why[:1].upper()}{why[1:]}.",
        "in_words": None if said["epsilon"] is None else cost.plain_words(plain),
        "warned": list(_warned(said)),
        "talks": Counter(end for edge in plain["edges"] for end in edge),
        "picture": graph(names, plain["edges"], own=said["member"]) if 2 <= len(names) <= MOST_MEMBERS else None,
        "most": _LISTED,
        "all_settings": [(name, _setting(value)) for name, value in plain["settings"].items()],
        "shares_noise": cost.shares_noise(plain),
        "sizes": cost.sizes(plain),
        "curves": [(title, line(title, values)) for title, values in said["history"].items()],
    }
    return document("run.html", plain["title"], "Report of a training run", plain, said)


def _warned(said: dict[str, Any]) -> Iterator[str]:
    if not said["private"] and said["epsilon"] is not None:
        yield "The noise was seeded. Whoever knows the seed can take it away. Use this run for tests only."
    elif not said["private"]:
        yield "Exact values left the members. Only agree to this if all members may see each other's records."
    if said["attack"]:
        yield f"{said['attack']}. The model is that of the honest members."
    if absent := said["without"]:
        yield f"{listed(absent)} dropped out. The others went on without {'it' if len(absent) == 1 else 'them'}."
    moved = said["listening"].get("moved", {})
    for name, found in moved.items():
        yield (
            f"What {name} said was moved at {counted(found['ticks'], 'tick')}, by {found['mean']:.3g} on average and "
            f"{found['largest']:.3g} at most."
        )
    if moved and said["listening"].get("robust") == "clipping":
        yield "With clipping, about half of the honest neighbours are moved a little. Look for one that stands out."
    yield from said["warnings"]


def _setting(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{name} {_setting(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def ledger(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit ledger show --json` prints. Digests and the head in it are salted: nobody
    can check a guess about a record with them."""
    spent = [Step(each["when"], each["total"]) for each in plain["runs"] if each["total"] is not None]
    caps = [Step(each["when"], each["epsilon"]) for each in plain["caps"]]
    said = plain | _budget_in_short(plain) | {"picture": budget_over_time(spent, caps)}
    if plain["forecast"] is not None:
        said["forecast"] = forecast(plain["forecast"])
    return document("ledger.html", plain["population"], "Report of a privacy ledger", plain, said)


def _budget_in_short(plain: dict[str, Any]) -> dict[str, str | None]:
    """What the total means, what the cap allows, and whether that is good, a warning or bad."""
    cap, spent = plain["cap"], plain["spent"]
    if cap is None or spent is None:
        return {"state": "warning", "lead": None, "more": None}
    who = _against(plain["colluders"])
    share = spent / cap["epsilon"] if cap["epsilon"] else 1.0
    allowed = in_words(cap["epsilon"], cap["delta"], who)
    lead, more = in_words(spent, cap["delta"], who), f"The cap allows at most this: {allowed}"
    if plain["counted_by"] == "filter":
        lead = f"With all runs that the cap allows: {allowed}"
        more = (
            "Later runs may depend on what earlier ones said. Then the number that is spent says only what still fits."
        )
    return {"state": "good" if share <= 0.6 else "warning" if share <= 0.9 else "bad", "lead": lead, "more": more}


def _against(colluders: int | None) -> str:
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


def certificate(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit certificate verify --json` prints.

    `colluders` in it says against how many members together epsilon holds; all others, if it is None.
    """
    title, said = plain["title"] or "Certificate", plain | {"cost": _cost(plain)}
    return document("certificate.html", title, "Check of a certificate", plain, said)


def _cost(plain: dict[str, Any]) -> str:
    """What it cost, and against whom the guarantee holds, as far as the data says."""
    if plain["epsilon"] is None:
        return "Exact values were exchanged: the run was not private."
    colluders, members = plain["colluders"], len(plain["members"])
    known = colluders is not None and colluders < members - 1
    return in_words(plain["epsilon"], plain["delta"], cost.coalition(colluders, members) if known else EVERYBODY)


def comparison(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit compare --json` prints, and

    title, tacit, written       what, by which version, when
    summary                     the recommendation in words
    error_name                  what the error is: error or RMSE
    agents, edges, rows         how many members, pairs that talk, and training records
    epsilon, delta, seeds       the budget that every method got, and how often it was run
    """
    methods = [{"auc": None} | each for each in plain["methods"]]
    axis = f"test {plain['error_name']}: mean and range over the repetitions"
    said = {"hostile": None, "robust": None} | plain
    said |= {
        "in_words": in_words(plain["epsilon"], plain["delta"], EVERYBODY),
        "methods": methods,
        "ranked": any(each["auc"] is not None for each in methods),
        "picture": ranges([_range(each, plain["recommended"]) for each in methods], axis),
    }
    return document("comparison.html", plain["title"], "Comparison of private methods", plain, said)


def _range(method: dict[str, Any], recommended: str | None) -> Range:
    kind = "best" if method["name"] == recommended else "" if method["private"] else "other"
    return Range(method["name"], method["error"], min(method["error_range"]), max(method["error_range"]), kind)
