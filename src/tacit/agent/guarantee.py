"""What a federation guarantees, and against whom."""

from __future__ import annotations

from collections import Counter

from tacit.agent.federation import Federation
from tacit.agent.participant import reserved
from tacit.privacy.coalitions import Guarantee

_SHOWN = 12  # coalitions of more sizes are not all listed


def guaranteed(federation: Federation) -> Guarantee:
    """What all releases of a private run cost together, against coalitions of every size. A function of the file."""
    assert federation.spec.budget is not None
    spent = [Counter(reserved(federation, i).values()) for i in range(len(federation.members))]
    return federation.setting.guarantee(federation.spec.budget.delta, spent)


def statement(federation: Federation) -> str:
    """The guarantee in words: the budget, the coalition that it holds against, and what holds against larger ones."""
    found = guaranteed(federation)
    if not found.shared:
        return f"{found} {found.against}"
    first, *_ = found.against.split(";")
    larger = [each for each in found.curve if each.colluders > found.colluders]
    if len(larger) > _SHOWN:  # the next, and some between it and all others
        larger = [larger[round(k * (len(larger) - 1) / (_SHOWN - 1))] for k in range(_SHOWN)]
    return "; ".join([f"{found} {first}", *(f"against {t}: ({cost:g}, {found.delta:g})" for t, cost in larger)])
