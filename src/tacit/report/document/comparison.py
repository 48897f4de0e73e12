"""The report of `tacit compare`."""

from __future__ import annotations

from typing import Any

from tacit.html.frame import box, bullets, document, facts, figure, rows, section, sentence, shown
from tacit.html.markup import Markup, tag
from tacit.html.pictures import Range, ranges
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document.cost import number

KIND = "Comparison of private methods"


def comparison(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit compare --json` prints, and

    title, tacit, written       what, by which version, when
    summary                     the recommendation in words
    error_name                  what the error is: error or RMSE
    agents, edges, rows         how many members, pairs that talk, and training records
    epsilon, delta, seeds       the budget that every method got, and how often it was run
    """
    return document(
        plain["title"],
        KIND,
        plain,
        box("good", tag("p", plain["summary"], class_="lead")),
        _not_private(plain),
        _compared(plain),
        _results(plain),
        _reading(plain),
    )


def _not_private(plain: dict[str, Any]) -> Markup:
    notes = [
        "Nothing in this report is private: errors are exact, and the noise was seeded so that the comparison can be "
        "repeated. Show it only if the records are public or made up."
    ]
    if plain.get("hostile"):
        notes.append(f"Some members lied in this simulation ({plain['hostile']}). Errors are of the honest members.")
    return section("Warnings", box("warning", bullets(notes)))


def _compared(plain: dict[str, Any]) -> Markup:
    return section(
        "What was compared",
        facts(
            [
                ("members", shown("agents", f"{plain['agents']:,}")),
                ("pairs that talk", shown("edges", f"{plain['edges']:,}")),
                ("records", shown("rows", f"{plain['rows']:,}")),
                ("epsilon of every private method", shown("epsilon", f"{plain['epsilon']:g}")),
                ("delta", shown("delta", f"{plain['delta']:g}")),
                ("repetitions", shown("seeds", f"{plain['seeds']:,}")),
                ("how members listen", plain.get("robust")),
            ]
        ),
        in_words(plain["epsilon"], plain["delta"], EVERYBODY),
        "Where members share their noise (shared-descent), this is about the number of members that the line names.",
    )


def _results(plain: dict[str, Any]) -> Markup:
    what, methods = f"test {plain['error_name']}", plain["methods"]
    drawn = [
        Range(
            each["name"],
            each["error"],
            min(each["error_range"]),
            max(each["error_range"]),
            "best" if each["name"] == plain["recommended"] else "" if each["private"] else "other",
        )
        for each in methods
    ]
    ranked = any(each.get("auc") is not None for each in methods)
    lines = []
    for k, each in enumerate(methods):
        at = f"methods.{k}"
        auc = each.get("auc")
        lines.append(
            [
                each["name"],
                shown(f"{at}.error", f"{each['error']:.4f}"),
                " to ".join(f"{end:.4f}" for end in each["error_range"]),
                *([] if not ranked else ["–" if auc is None else shown(f"{at}.auc", f"{auc:.4f}")]),
                shown(f"{at}.epsilon", number(each["epsilon"])) if each["private"] else "none",
                "–" if each["colluders"] is None else shown(f"{at}.colluders", each["colluders"]),
                shown(f"{at}.messages", f"{each['messages']:,}"),
            ]
        )
    head = ["method", what, "range", *(["AUC"] if ranked else []), "epsilon", "holds against", "messages"]
    return section(
        "Results",
        figure(
            ranges(drawn, f"{what}: mean and range over the repetitions"),
            "Further left is better. Green is the method that is recommended, if one is; grey ones have no privacy.",
        ),
        rows(head, lines),
        sentence("“Holds against” says how many other members together may be curious."),
    )


def _reading(plain: dict[str, Any]) -> Markup:
    return section("The methods", bullets(f"{each['name']}: {each['title']}" for each in plain["methods"]))
