"""What a run cost, and against whom: the sentences and tables that several documents share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tacit.html.frame import rows, sentence, shown
from tacit.html.markup import Markup, tag
from tacit.html.pictures import gauge
from tacit.privacy.accounting import rounded_up
from tacit.privacy.meaning import EVERYBODY, best_guess, in_words, percent

_SHOWN = 12  # coalitions of more sizes are not all listed


def number(value: float | None) -> str:
    """An epsilon, rounded up to four digits."""
    if value is None or not math.isfinite(value):
        return "no bound"
    return f"{rounded_up(value):g}"


def against(plain: dict[str, Any]) -> str:
    """The largest coalition that the guarantee was made for."""
    if not shares_noise(plain):
        return EVERYBODY
    members = len(plain["agents"]) + len(plain.get("without") or [])  # that have agreed
    return coalition(plain["colluders"], members)


def coalition(colluders: int, members: int) -> str:
    """So many members that put together what they know, as the beginning of a sentence."""
    if colluders == 0:
        return "somebody who is no member and hears every sum"
    if colluders == members - 1:
        return EVERYBODY
    others = f"of the {members - 1} other members, with all that"  # than the one that holds the record
    return f"any one {others} it knows," if colluders == 1 else f"any {colluders} {others} they know,"


def shares_noise(plain: dict[str, Any]) -> bool:
    """Whether the cost depends on who colludes."""
    costs = [each["epsilon"] for each in plain.get("coalitions") or []]
    return bool(costs) and (costs[-1] is None or costs[-1] > costs[0])


def plain_words(plain: dict[str, Any]) -> str:
    """The sentence for people who do not know what epsilon is."""
    return in_words(plain["epsilon"], plain["delta"], against(plain))


def guess_table(plain: dict[str, Any]) -> Markup:
    """What holds against how many members together; of many members, some numbers of them."""
    curve, delta = list(enumerate(plain["coalitions"])), plain["delta"]
    agreed = plain["colluders"]
    if len(curve) > _SHOWN:
        chosen = {round(k * (len(curve) - 1) / (_SHOWN - 1)) for k in range(_SHOWN)} | {agreed, agreed + 1}
        curve = [(k, each) for k, each in curve if k in chosen]
    lines = []
    for k, each in curve:
        size, cost = each["colluders"], each["epsilon"]
        who = "none: somebody outside" if size == 0 else f"{size}{' (agreed)' if size == agreed else ''}"
        best = percent(best_guess(math.inf if cost is None else cost, delta))
        lines.append((who, shown(f"coalitions.{k}.epsilon", number(cost)), best))
    return rows(["members together", "epsilon", "best guess about one record"], lines)


def pair(plain: dict[str, Any], what: str = "") -> Sequence[tuple[str, object]]:
    """Epsilon, delta and what they mean, as facts."""
    return [
        (f"epsilon{what}", shown("epsilon", number(plain["epsilon"]))),
        (f"delta{what}", shown("delta", f"{plain['delta']:g}")),
        (
            "a guess about one record",
            f"50% before, at most {percent(best_guess(plain['epsilon'], plain['delta']))} after",
        ),
    ]


def budget(plain: dict[str, Any], path: str = "") -> Markup:
    """What a ledger has spent of its cap; `plain` has spent, left and cap, at this path of the data."""
    spent, cap, left = plain["spent"], plain["cap"], plain["left"]
    if cap is None or spent is None:
        return sentence("The ledger has no cap yet: nothing can be spent.")
    title = f"{number(spent)} of {cap['epsilon']:g} is spent"
    return tag(
        "figure",
        gauge(spent, cap["epsilon"], title),
        tag(
            "figcaption",
            shown(f"{path}spent", number(spent)),
            " of ",
            shown(f"{path}cap.epsilon", f"{cap['epsilon']:g}"),
            " is spent, at delta = ",
            shown(f"{path}cap.delta", f"{cap['delta']:g}"),
            "; ",
            shown(f"{path}left", f"{_down(left):g}"),
            " is left.",
        ),
    )


def _down(left: float) -> float:
    """What is left is never rounded up."""
    return math.floor(left * 1e4 * (1 + 1e-12)) / 1e4
