"""What a run cost, and against whom: what several documents say."""

from __future__ import annotations

import math
from typing import Any

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


def sizes(plain: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """What holds against how many members together, and its place in the data; of many members, some numbers."""
    if not shares_noise(plain):
        return []
    curve, agreed = list(enumerate(plain["coalitions"])), plain["colluders"]
    if len(curve) <= _SHOWN:
        return curve
    chosen = {round(k * (len(curve) - 1) / (_SHOWN - 1)) for k in range(_SHOWN)} | {agreed, agreed + 1}
    return [(k, each) for k, each in curve if k in chosen]


def guess(epsilon: float | None, delta: float) -> str:
    """How often a guess about one record can be right afterwards."""
    return percent(best_guess(math.inf if epsilon is None else epsilon, delta))


def rounded_down(left: float) -> float:
    """What is left is never rounded up."""
    return math.floor(left * 1e4 * (1 + 1e-12)) / 1e4
