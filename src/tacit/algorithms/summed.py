"""What methods on totals share: each member says its part of a noisy gradient, and hears the sum over all members.

All members have the same state: it is made of totals, which all of them hear. Each adds only its *share* of the noise
to its part. Against any coalition of at most `colluders` members, with at most `dropouts` members away, the sum has the
noise of members - colluders - dropouts shares (`SharedGaussian`); so the network adds hardly more noise than one centre
would that has all records.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import needed
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import GraphError, InputError, whole
from tacit.exchange.total_bounds import TotalBounds
from tacit.exchange.totals import TotalInbox
from tacit.privacy.events import Gaussian, SharedGaussian
from tacit.privacy.mechanisms import gradient_share, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import SHARE_GRID, gradient_sensitivity


class Summed(Protocol):
    """What a method on totals says about its noise."""

    @property
    def deviation(self) -> float | None:
        """Of each member's share of the noise; None for the method without noise."""
        ...

    @property
    def row_norm(self) -> float:
        """The norm that no record may exceed."""
        ...

    @property
    def colluders(self) -> int:
        """How many members may collude."""
        ...

    @property
    def dropouts(self) -> int:
        """How many members may be away."""
        ...


def check(method: Summed) -> None:
    """Refuses a deviation that is not positive, and what is no number of members."""
    if method.deviation is not None:
        hyper.number("deviation", method.deviation)
    _check_reserve(method.colluders, method.dropouts)


def _check_reserve(colluders: int, dropouts: int) -> None:
    whole("colluders", colluders, 0)
    whole("dropouts", dropouts, 0)


def broadcast(method: Summed, graph: Graph) -> Broadcast:
    """All members speak at every tick, on a graph that is connected enough, if there is noise to share."""
    if method.deviation is not None:
        check_graph(graph, method.colluders, method.dropouts)
    return Broadcast(graph)


def check_graph(graph: Graph, colluders: int, dropouts: int) -> None:
    """Refuses a graph that colluders and dropouts together can cut in two: the noise of one part does not hide the sum
    of the other."""
    _check_reserve(colluders, dropouts)
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


def share_deviation(facts: Problem, budget: Gaussian, *, colluders: int, dropouts: int, row_norm: float = 1.0) -> float:
    """The deviation of one member's share of the noise, with which no member's release costs more than the budget
    against the largest coalition. All members have the same, whatever their rows: the largest that one of them needs.

    >>> from tacit.core.facts import Facts
    >>> facts = Facts(sizes=[8000] * 5, dimension=10)
    >>> one, two = (share_deviation(facts, Gaussian(10.0), colluders=t, dropouts=0) for t in (4, 1))
    >>> round(one / two, 9)
    2.0
    """
    shares = SharedGaussian(1.0, facts.agents, colluders, dropouts).shares
    return float(budget.multiplier * gradient_sensitivity(facts, row_norm).max() / math.sqrt(shares) * (1 + 1e-12))


def check_start(start: np.ndarray, heard: Inbox) -> None:
    """Refuses starts that differ: members that hear the same totals then have the same model at every tick. On a
    connected graph it is enough that neighbours agree."""
    if np.any(heard.rows[heard.indices] != np.repeat(start, heard.counts[:, 0], axis=0)):
        raise InputError("members of a method on totals have one model: the start must be the same for all agents")


def radius(method: Summed, problem: Problem) -> np.ndarray:
    """(n, 1): within which models stay, so that a member that lies cannot move them farther. A model without noise may
    be as large as it is."""
    return np.full((problem.agents, 1), np.inf if method.deviation is None else problem.radius)


def bounds(method: Summed, facts: Problem) -> TotalBounds | None:
    """Within which a total of all these members lies; None for the method without noise, whose model may be as large as
    it is."""
    return None if method.deviation is None else TotalBounds.of(facts, method.deviation, method.row_norm)


def said(method: Summed, f: np.ndarray, problem: Problem, view: View, noise: Noise | None, t: int) -> Release:
    """The member's part of the gradient's sum at f, with its share of the noise; exact without a deviation."""
    if method.deviation is None:
        return unprotected(np.round(problem.gradient(f) / SHARE_GRID) * SHARE_GRID)
    return gradient_share(
        problem,
        needed(noise),
        method.deviation,
        f,
        members=view.network,
        colluders=method.colluders,
        dropouts=method.dropouts,
        row_norm=method.row_norm,
        ids=view.ids,
        t=t,
    )


def mean_gradient(inbox: Inbox) -> np.ndarray:
    """(n, d): the mean over all members of what they said."""
    if not isinstance(inbox, TotalInbox):
        raise InputError("the method needs the sum over all members: exchange totals, with SecretSharedTotals()")
    return inbox.mean()
