"""Which theorems are about which method, and what they say about a plan.

    >>> from tacit.algorithms import OneShotAveraging, RecycledADMM
    >>> [theorem.number for theorem in theorems(RecycledADMM(gamma=0.5))]
    ['Theorem IV.1', 'Theorem VI.1', 'Theorem VI.2', 'Lemmas E.1 and E.3']
    >>> theorems(OneShotAveraging(mixing=0.1))
    ()

A theorem is attached to the methods that it is about, and gets the planned method with all its settings. Its
calculator is in one of the other modules of `tacit.lab.theory`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.algorithms import Averaged
from tacit.errors import InputError
from tacit.lab.theory import paper_000, paper_001, paper_002, paper_003, paper_004
from tacit.lab.theory.planned import Aim, Planned, Theorem

__all__ = ["THEOREMS", "Aim", "Planned", "Theorem", "statements", "theorems"]

THEOREMS: tuple[Theorem, ...] = (
    *paper_000.THEOREMS,
    *paper_001.THEOREMS,
    *paper_002.THEOREMS,
    *paper_003.THEOREMS,
    *paper_004.THEOREMS,
)


def theorems(method: Any) -> tuple[Theorem, ...]:
    """The theorems about a method with these settings; none if there is none. Averaging at the end changes nothing."""
    own = method.method if isinstance(method, Averaged) else method
    return tuple(theorem for theorem in THEOREMS if type(own) in theorem.about and theorem.when(own))


def statements(planned: Planned) -> list[str]:
    """What each of them says about the plan, one line each; one line that says so if there is none.

    >>> from tacit import Graph
    >>> from tacit.algorithms import ConsensusADMM
    >>> from tacit.core.facts import Facts
    >>> facts, graph = Facts(sizes=[8000] * 5, dimension=104, scale=1750.0), Graph.complete(5)
    >>> for line in statements(Planned(ConsensusADMM(), facts, graph, rounds=50)):
    ...     print(line)
    Theorem 9 (dynamic-dp): 29,957 rows times an unknown constant, to be within 0.1 of the loss of a reference of norm \
10 with probability 0.95, and as much farther as the iterate is from its limit
    """
    found = theorems(planned.method)
    if isinstance(planned.method, Averaged):
        planned = replace(planned, method=planned.method.method, rounds=planned.method.ticks)
    if not found:
        return [f"no theorem of the papers is about {type(planned.method).__name__} with these settings"]
    return [f"{theorem.number} ({theorem.paper}): {_said(theorem, planned)}" for theorem in found]


def _said(theorem: Theorem, planned: Planned) -> str:
    try:
        return theorem.say(planned)
    except InputError as reason:
        return f"says nothing here: {reason}"
