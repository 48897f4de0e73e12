"""The graph for a run whose members have not chosen one."""

from __future__ import annotations

from tacit.core.graph import Graph
from tacit.run.trust import Reserve

# By benchmarks/tuning_members.py. Local noise: a ring of five is as good as any graph, a ring of twenty no longer is;
# more neighbours than a few cost messages, and hardly help.
_RING, _DEGREE = 5, 6
# Shared noise: so many members can all talk to each other; among more, each has so many neighbours at least.
_COMPLETE, _LEAST_SHARED = 20, 4


def auto_graph(members: int, reserve: Reserve | None = None) -> Graph:
    """A ring of few members; among more, each has a few random neighbours. Where the members share their noise, up to
    twenty all talk to each other; among more, each has so many random neighbours that no colluders and dropouts that
    `reserve` allows can cut the graph in two.

    >>> len(auto_graph(5).edges), len(auto_graph(5, Reserve(colluders=1)).edges)
    (5, 10)
    >>> auto_graph(50, Reserve(colluders=5, dropouts=1)).connectivity
    7
    """
    if reserve is None:
        return Graph.ring(members) if members <= _RING else Graph.regular(members, _DEGREE)
    reserve.shares(members)  # refuses a reserve that leaves nobody
    if members <= _COMPLETE:
        return Graph.complete(members)
    return Graph.regular(members, max(reserve.colluders + reserve.dropouts + 1, _LEAST_SHARED))
