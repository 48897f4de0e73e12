"""The report of a training run: of `tacit train`, or of one member's agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tacit.html import line
from tacit.html.frame import (
    box,
    bullets,
    commands,
    counted,
    document,
    facts,
    figure,
    listed,
    rows,
    section,
    sentence,
    shown,
)
from tacit.html.markup import Markup, tag
from tacit.html.pictures import MOST_MEMBERS, graph
from tacit.report.document import cost

KIND = "Report of a training run"
_LISTED = 100  # members in the table


def run(plain: dict[str, Any]) -> str:
    """The document.

    title, tacit, written       what, by which version, when
    member, run                 whose agent's report it is, and the name of the run; None for a simulation
    agents, edges, without      [{"name", "rows"}], pairs of their places, names of members that dropped out
    method                      {"name", "title"}
    settings                    {name: value}, as in the model file
    records                     which records and columns, see `tacit.report.document.trained.records_used`
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
    return document(
        plain["title"],
        KIND,
        plain,
        _in_short(plain),
        *([_warnings(found)] if (found := list(_warned(plain))) else []),
        _who(plain),
        _records(plain["records"]),
        _method(plain),
        _what_left(plain),
        *([_cost(plain), _assumptions(plain)] if _budgeted(plain) else []),
        _convergence(plain),
        *([_verify(plain)] if plain["verify"] else []),
    )


def _budgeted(plain: dict[str, Any]) -> bool:
    return plain.get("epsilon") is not None


def _in_short(plain: dict[str, Any]) -> Markup:
    if not plain["private"]:
        return box(
            "bad",
            tag(
                "p",
                tag("strong", "Not private. "),
                _sentence(plain["statement"].removeprefix("not private: ")),
                class_="lead",
            ),
            "What left may tell everything about single records. No bound is known.",
        )
    return box(
        "good",
        tag("p", tag("strong", "Private. "), "By this run alone: ", cost.plain_words(plain), class_="lead"),
        sentence("The guarantee: ", plain["statement"], "."),
    )


def _sentence(statement: str) -> str:
    why = statement.removeprefix("not private: ")
    return f"{why[:1].upper()}{why[1:]}."


def _warned(plain: dict[str, Any]) -> Iterator[str]:
    if not plain["private"] and _budgeted(plain):
        yield "The noise was seeded. Whoever knows the seed can take it away. Use this run for tests only."
    elif not plain["private"]:
        yield "Exact values left the members. Only agree to this if all members may see each other's records."
    if plain.get("attack"):
        yield f"{plain['attack']}. The model is that of the honest members."
    if absent := plain.get("without"):
        yield f"{listed(absent)} dropped out. The others went on without {'it' if len(absent) == 1 else 'them'}."
    moved = (plain.get("listening") or {}).get("moved", {})
    for name, found in moved.items():
        yield (
            f"What {name} said was moved at {counted(found['ticks'], 'tick')}, by {found['mean']:.3g} on average and "
            f"{found['largest']:.3g} at most."
        )
    if moved and (plain.get("listening") or {}).get("robust") == "clipping":
        yield "With clipping, about half of the honest neighbours are moved a little. Look for one that stands out."
    yield from plain.get("warnings") or []


def _warnings(found: list[str]) -> Markup:
    return section("Warnings", box("warning", bullets(found)))


def _who(plain: dict[str, Any]) -> Markup:
    agents, edges = plain["agents"], plain["edges"]
    names = [each["name"] for each in agents]
    rows_of_all = sum(each["rows"] for each in agents)
    talks = Counter(end for edge in edges for end in edge)
    said = sentence(
        shown("agents.length", f"{len(agents):,}"),
        f" member{'s' * (len(agents) != 1)} with {counted(rows_of_all, 'record')} took part. ",
        f"{counted(len(edges), 'pair')} of them talked to each other." if len(agents) > 1 else "",
    )
    parts: list[object] = [said]
    if plain.get("member"):
        parts.append(f"This is the report of {plain['member']}, about its own records and what it sent.")
    else:
        parts.append("This was a simulation: one process held the records of all members.")
    if 2 <= len(agents) <= MOST_MEMBERS:
        drawn = graph(names, edges, own=plain.get("member"))
        own = f" {plain['member']} is green." if plain.get("member") else ""
        parts.append(figure(drawn, f"Each line is a pair of members that send messages to each other.{own}"))
    elif len(agents) > MOST_MEMBERS:
        least, most = min(talks.values()), max(talks.values())
        parts.append(f"There are too many members for a picture. Each talks to {least} to {most} others.")
    table = [
        (each["name"], shown(f"agents.{k}.rows", f"{each['rows']:,}"), talks[k])
        for k, each in enumerate(agents[:_LISTED])
    ]
    parts.append(rows(["member", "records", "talks to"], table))
    if len(agents) > _LISTED:
        parts.append(f"{len(agents) - _LISTED} more members are in the data of this page.")
    return section("Who took part", *parts)


def _records(used: dict[str, Any]) -> Markup:
    """Which records, and what of them."""
    label, share, parts = used["label"], used["public_share"], []
    if used["population"] is not None:
        cohorts = f", of which these cohorts took part: {listed(used['cohorts'])}" if used["cohorts"] else ""
        parts.append(f"The records are about: {used['population']}{cohorts}.")
    if used["held_out"]:
        held = counted(used["held_out"], "more record")
        counted_too = " The ledger counts them, too." if used["population"] is not None else ""
        parts.append(f"{held} were held out: the model has not learned from them.{counted_too}")
    parts.append(f"The model predicts the column {label['column']} ({label['read']}) from the columns below.")
    table = [(each["column"], each["read"]) for each in used["columns"]]
    return section(
        "Which records",
        *parts,
        rows(["column", "read as"], table[:_LISTED]),
        *([f"{len(table) - _LISTED} more columns are in the data of this page."] if len(table) > _LISTED else []),
        f"No other column was used. Numbers outside of these bounds were moved to the bound. {used['missing']} "
        f"{used['unknown']}",
        *([f"The share of positive records, {share:g}, was given as public knowledge."] if share is not None else []),
    )


def _method(plain: dict[str, Any]) -> Markup:
    method = plain["method"]
    settings = [(name, _setting(value)) for name, value in plain["settings"].items()]
    noisy = (
        ["The share of positive records was measured with noise. The budget paid for this count."]
        if plain.get("positive_share")
        else []
    )
    return section(
        "What was computed",
        sentence(
            f"One linear model of the records of all members, by the method {method['name']} ({method['title']}), in ",
            shown("rounds", f"{plain['rounds']:,}"),
            f" round{'s' * (plain['rounds'] != 1)}.",
        ),
        *noisy,
        tag("details", tag("summary", "All settings"), facts(settings)),
    )


def _setting(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _what_left(plain: dict[str, Any]) -> Markup:
    private = plain["private"]
    what = "It has noise, or it is computed from messages that have noise, and from nothing else."
    if not private:
        what = "It has no noise, or noise that can be taken away."
    if plain.get("exchange", "rows") != "rows":
        what += " Nobody sees the message of a single member, only sums of several."
    sent = [
        shown("messages", f"{plain['messages']:,}"),
        f" message{'s' * (plain['messages'] != 1)} with ",
        shown("bytes", f"{plain['bytes']:,}"),
        " bytes in all. ",
    ]
    if plain.get("member"):
        told = f"{plain['member']} sent its neighbours "
        near = "Each neighbour gets the same message. " if plain.get("exchange") == "rows" else ""
    else:
        told, near = "The members sent each other ", ""
    about = f"A message is a row of numbers. {what} Records never left a member."
    return section("What left", sentence(told, *sent, near, about))


def _cost(plain: dict[str, Any]) -> Markup:
    parts: list[object] = [
        "Think of somebody who knows that a record is one of two, and that both are equally likely. Before the run a "
        "guess is right in 50% of the cases. " + cost.plain_words(plain),
        facts(cost.pair(plain)),
    ]
    if cost.shares_noise(plain):
        away = f" It takes {plain['dropouts']} of them to be away." if plain["dropouts"] else ""
        parts += [
            tag("h3", "If more members put together what they know"),
            "The members share the noise, so the cost depends on how many of them collude." + away,
            cost.guess_table(plain),
        ]
    elif len(plain["agents"]) > 1:
        parts.append(
            "Every member adds all of its noise itself. So this holds against all other members together, even if all "
            "of them lie."
        )
    if plain["private"]:
        parts.append(
            "The model is computed from what left, and from nothing else. To give it to others, or to publish it, "
            "costs nothing more."
        )
    if plain.get("ledger"):
        parts += [tag("h3", "The budget of these records, over all runs"), cost.budget(plain["ledger"], "ledger.")]
    elif plain.get("member") is None:
        parts.append("This is the cost of one run. The costs of several runs on the same records add up.")
    return section("What it cost", *parts)


def _assumptions(plain: dict[str, Any]) -> Markup:
    shared = []
    if cost.shares_noise(plain):
        shared = [
            f"At most {counted(plain['colluders'], 'member')} put together what they know. A member that adds no noise "
            "counts as one of them.",
            "The cryptography of the secret sums holds.",
        ]
    return section(
        "What this rests on",
        bullets(
            [
                "Protected is one record: it could be replaced by another, and what left would look nearly the same. A "
                "person with several records, or with records at several members, is protected less: with two records "
                "epsilon counts twice, with three it counts three times, and delta grows even more.",
                "Public, and so not protected: the names of the members, their numbers of records, who talks to whom, "
                "the schema, all settings, and the times of messages.",
                "The schema must have been written from public knowledge, without looking at the records. No program "
                "can check this.",
                "The noise came fresh from the operating system’s generator, and none of it was used twice.",
                *shared,
                "Not covered: how long a computation took; error messages; files that stay with the records (the store "
                "and the ledger of an agent).",
                "Other runs on the same records cost more, on top of this one. A ledger adds them up.",
            ]
        ),
        "The proofs are in docs/privacy.md of tacit.",
    )


def _convergence(plain: dict[str, Any]) -> Markup:
    done = counted(plain["rounds"], "round")
    if _budgeted(plain):
        averaged = []
        if plain["settings"].get("averaged at the end"):
            averaged = ["In the last rounds the members only average their models, so all end with almost the same."]
        return section(
            "Convergence and agreement",
            f"The number of rounds, {done}, was fixed before the run. The run does not measure how far it has "
            "converged: that would tell about records.",
            *averaged,
            "Errors on held-out records are not in this report: the guarantee does not cover them.",
        )
    parts: list[object] = []
    if plain.get("converged") is None:
        parts.append(f"The agent heard all messages of all {done}.")
    else:
        state = "reached its tolerance" if plain["converged"] else "did not reach its tolerance"
        parts.append(
            sentence(
                f"The run {state} after {done}. The members’ models differ by at most ",
                shown("consensus_error", f"{plain['consensus_error']:.3g}"),
                ".",
            )
        )
        for title, values in (plain.get("history") or {}).items():
            parts.append(figure(line(title, values), f"{title}, round by round"))
    if plain.get("measured"):
        parts += [tag("h3", "On the records held out"), bullets(plain["measured"])]
    return section("Convergence and agreement", *parts)


def _verify(plain: dict[str, Any]) -> Markup:
    steps = [tag("li", step["what"], commands([step["command"]])) for step in plain["verify"]]
    named = [sentence("The name of the run is ", tag("code", plain["run"]), ".")] if plain.get("run") else []
    return section("How to check this", *named, tag("ol", *steps))
