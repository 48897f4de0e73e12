"""The graph for a run whose members have not chosen one."""

from __future__ import annotations

from tacit.core.graph import Graph
from tacit.workflows.recipes import Reserve

_SMALL = 20  # so many members can all talk to each other
_DEGREE, _LEAST_SHARED = 6, 4  # the neighbours of each member among more: usually, and at least where noise is shared


def auto_graph(members: int, reserve: Reserve | None = None) -> Graph:
    """All members talk to each other if there are few. Among many, each has a few random neighbours; where the members
    share their noise, so many that no colluders and dropouts that `reserve` allows can cut the graph in two.

    >>> len(auto_graph(5).edges), auto_graph(50, Reserve(colluders=5, dropouts=1)).connectivity
    (10, 7)
    """
    if members <= _SMALL:
        return Graph.complete(members)
    if reserve is None:
        return Graph.regular(members, _DEGREE)
    reserve.shares(members)  # refuses a reserve that leaves nobody
    return Graph.regular(members, max(reserve.colluders + reserve.dropouts + 1, _LEAST_SHARED))
