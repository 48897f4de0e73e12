"""The report of `tacit compare`."""

from __future__ import annotations

from typing import Any

from tacit.html.pictures import Range, ranges
from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document.rendering import document


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
