"""What methods on totals share: each member says its part of a noisy gradient, and hears the sum over all members.

All members have the same state: it is made of totals, which all of them hear. Each adds only its *share* of the noise
to its part. Against any coalition of at most `colluders` members, with at most `dropouts` members away, the sum has the
noise of members - colluders - dropouts shares (`SharedGaussian`); so the network adds hardly more noise than one centre
would that has all records.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import GraphError, InputError, whole
from tacit.exchange.totals import TotalInbox
from tacit.privacy.events import Gaussian
from tacit.privacy.mechanisms import gradient_share, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import SHARE_GRID, gradient_sensitivity


def check_reserve(colluders: int, dropouts: int) -> None:
    """Refuses what is no number of members."""
    whole("colluders", colluders, 0)
    whole("dropouts", dropouts, 0)


def broadcast(graph: Graph, colluders: int, dropouts: int) -> Broadcast:
    """All members speak at every tick. Refuses a graph that colluders and dropouts together can cut in two: the noise
    of one part does not hide the sum of the other."""
    left = graph.agents - colluders - dropouts
    if left < 1:
        raise GraphError(
            f"of {graph.agents} members, {colluders} colluders and {dropouts} dropouts leave none: the noise of at "
            "least one must be left"
        )
    if left > 1 and graph.connectivity <= colluders + dropouts:
        raise GraphError(
            f"{graph.connectivity} members can cut this graph in two, so shared noise allows {graph.connectivity - 1} "
            f"colluders and dropouts together, not {colluders + dropouts}: take more edges, such as the graph auto or "
            "complete"
        )
    return Broadcast(graph)


def share_deviation(facts: Problem, budget: Gaussian, *, colluders: int, dropouts: int, row_norm: float = 1.0) -> float:
    """The deviation of one member's share of the noise, with which no member's release costs more than the budget
    against the largest coalition. All members have the same, whatever their rows: the largest that one of them needs.

    >>> from tacit.privacy.plan import Facts
    >>> facts = Facts(sizes=[8000] * 5, dimension=10)
    >>> one, two = (share_deviation(facts, Gaussian(10.0), colluders=t, dropouts=0) for t in (4, 1))
    >>> round(one / two, 9)
    2.0
    """
    shares = facts.agents - colluders - dropouts
    return float(budget.multiplier * gradient_sensitivity(facts, row_norm).max() / math.sqrt(shares) * (1 + 1e-12))


def said(
    f: np.ndarray,
    problem: Problem,
    view: View,
    noise: Noise | None,
    t: int,
    *,
    deviation: float | None,
    colluders: int,
    dropouts: int,
    row_norm: float = 1.0,
) -> Release:
    """The member's part of the gradient's sum at f, with its share of the noise; exact without a deviation."""
    if deviation is None:
        return unprotected(np.round(problem.gradient(f) / SHARE_GRID) * SHARE_GRID)
    if noise is None:
        raise InputError("a private method needs noise: SecureNoise(), or SeededNoise(seed) to experiment")
    return gradient_share(
        problem,
        noise,
        deviation,
        f,
        members=view.network,
        colluders=colluders,
        dropouts=dropouts,
        row_norm=row_norm,
        ids=view.ids,
        t=t,
    )


def mean_gradient(inbox: Inbox) -> np.ndarray:
    """(n, d): the mean over all members of what they said."""
    if not isinstance(inbox, TotalInbox):
        raise InputError("the method needs the sum over all members: exchange totals, with SecretSharedTotals()")
    return inbox.mean()
