"""The report of `tacit certificate verify`: what is proved about a run, who has signed it, what has to be believed."""

from __future__ import annotations

from typing import Any

from tacit.html.frame import box, bullets, commands, counted, document, facts, rows, section, shown
from tacit.html.markup import Markup, tag
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document.cost import coalition, number

KIND = "Check of a certificate"


def certificate(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit certificate verify --json` prints.

    `colluders` in it says against how many members together epsilon holds; all others, if it is None.
    """
    return document(
        plain["title"] or "Certificate",
        KIND,
        plain,
        _in_short(plain),
        *([_faults(plain)] if plain["faults"] else []),
        *([] if plain["run"] is None else [_run(plain)]),
        _claims("What is proved", "These were computed again from the files.", plain["proved"]),
        _signatures(plain),
        _claims(
            "What has to be believed", "No file can prove these. Somebody has to vouch for them.", plain["believed"]
        ),
        section(
            "How to check this",
            "Run the check again, with files that you got from the members yourself. MODEL is the model that is used, "
            "LEDGER the ledger of a member, if it lets you see it:",
            commands(["tacit certificate verify CERTIFICATE --model MODEL --ledger LEDGER"]),
        ),
    )


def _in_short(plain: dict[str, Any]) -> Markup:
    if not plain["valid"]:
        count = counted(len(plain["faults"]), "fault")
        return box(
            "bad",
            tag("p", tag("strong", "Not valid. "), f"The check found {count}. Do not rely on it.", class_="lead"),
        )
    cost = []
    if plain["epsilon"] is None:
        cost.append("Exact values were exchanged: the run was not private.")
    else:
        cost.append(in_words(plain["epsilon"], plain["delta"], _who(plain)))
    return box(
        "good",
        tag("p", tag("strong", "Valid. "), "Everything that was given to the check holds.", class_="lead"),
        *cost,
    )


def _who(plain: dict[str, Any]) -> str:
    """Against whom the guarantee holds, as far as the data says."""
    colluders, members = plain["colluders"], len(plain["members"])
    if colluders is None or colluders >= members - 1:
        return EVERYBODY
    return coalition(colluders, members)


def _faults(plain: dict[str, Any]) -> Markup:
    return section(
        "Faults", box("bad", rows(["where", "what"], [(each["where"], each["what"]) for each in plain["faults"]]))
    )


def _run(plain: dict[str, Any]) -> Markup:
    pairs: list[tuple[str, object]] = [
        ("name", plain["title"]),
        ("run", tag("code", shown("run", plain["run"]))),
        ("members", ", ".join(each["name"] for each in plain["members"]) or "–"),
    ]
    if plain["epsilon"] is not None:
        pairs += [
            ("epsilon", shown("epsilon", number(plain["epsilon"]))),
            ("delta", shown("delta", f"{plain['delta']:g}")),
        ]
    return section("The run", facts(pairs))


def _claims(title: str, about: str, claims: list[str]) -> Markup:
    return section(title, about, bullets(claims)) if claims else section(title, "Nothing.")


def _signatures(plain: dict[str, Any]) -> Markup:
    lines = [(each["name"], tag("code", each["fingerprint"]), each["tacit"]) for each in plain["signed_by"]]
    about = "Compare the fingerprints with the members, over the telephone."
    return section("Who has signed", about, rows(["member", "fingerprint", "tacit"], lines))
