"""Agents against one of them: those around it, or all others."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tacit.core.graph import Graph
from tacit.lab.attacks.overheard import Transcript


def colluders(
    x: np.ndarray, y: np.ndarray, token: np.ndarray, penalty: float, victim: int, guess: np.ndarray | None = None
) -> np.ndarray:
    """The victim's y_i = grad f_i(x_i), (d,), from x and y of all others, (N, d); its own rows are not used.

    The token is the mean of all S_j = x_j - y_j/rho (4c), so N-1 agents that combine theirs know S_i, secret
    offset or not, and y_i = rho (x_i - S_i). A guess of x_i is the token itself, to which it converges; there the
    result is -sum of the others' y: paper 002's (20), which lacks the sign. A better guess is that of `recursion`.
    """
    others = np.delete(x - y / penalty, victim, axis=0).sum(axis=0)
    return penalty * ((token if guess is None else guess) - (len(x) * token - others))


def around(heard: Transcript, victim: int) -> set[int]:
    """The agents that hand the victim the token, and those to which it hands it on: two, if the token goes round.

    They know every token that the victim gets and gives: `heard.within(around(heard, victim))`. No attack on one agent
    uses any other. So what an eavesdropper on all links learns of an agent, the two learn.
    """
    to, by = heard.receivers, heard.holders
    return {int(i) for i in np.concatenate([by[to == victim], to[by == victim]])}


def secret_offset(heard: Transcript, graph: Graph, coalition: Collection[int], victim: int) -> np.ndarray | None:
    """S_i^0 = V_i r_i - sum_j r_j, (d,), if a coalition knows every r in it; else None.

    An agent says its r to all its neighbours. So a coalition knows the r of all its members' neighbours. On a ring the
    victim's two neighbours know S_i^0; on a complete graph anybody does.
    """
    known = set(coalition).union(*(graph.neighbours(i).tolist() for i in coalition))
    near = graph.neighbours(victim)
    if heard.parts is None or not {victim, *near.tolist()} <= known:
        return None
    return np.asarray(len(near) * heard.parts[victim] - heard.parts[near].sum(axis=0))
