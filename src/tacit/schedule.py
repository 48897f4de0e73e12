"""Who speaks to whom at tick t."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tacit.errors import GraphError
from tacit.graph import Graph


class Turn(NamedTuple):
    """One tick: these agents speak, then those listen, each to some of the speakers (CSR, as in `Inbox`)."""

    speakers: np.ndarray  # (s,) agent ids
    listeners: np.ndarray  # (l,) agent ids
    indptr: np.ndarray  # (l+1,)
    indices: np.ndarray  # positions in `speakers`


class Schedule(Protocol):
    """Who speaks to whom, for every tick."""

    def turn(self, t: int) -> Turn:
        """The tick t = 0, 1, ..."""
        ...


class Broadcast:
    """At every tick everybody speaks to all neighbours.

    >>> Broadcast(Graph.path(3)).turn(0).indices.tolist()
    [1, 0, 2, 1]
    """

    def __init__(self, graph: Graph) -> None:
        everybody = np.arange(graph.agents)
        self._turn = Turn(everybody, everybody, graph.indptr, graph.indices)

    def turn(self, t: int) -> Turn:
        """The same at every tick."""
        return self._turn


class Cycle:
    """A token goes round: at tick t its holder speaks to the next agent of `order` alone.

    >>> [Cycle(Graph.ring(3), order=[0, 1, 2]).turn(t).listeners.tolist() for t in range(3)]
    [[1], [2], [0]]
    """

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        if sorted(order) != list(range(graph.agents)):
            raise GraphError(f"a cycle visits each of the {graph.agents} agents once; given was {list(order)}")
        self._turns = []
        for holder, following in zip(order, [*order[1:], order[0]], strict=True):
            if following not in graph.neighbours(holder):
                raise GraphError(f"the cycle steps from {holder} to {following}, which are not neighbours")
            self._turns.append(Turn(np.array([holder]), np.array([following]), np.array([0, 1]), np.array([0])))

    def turn(self, t: int) -> Turn:
        """Tick t, with the token at order[t mod n]."""
        return self._turns[t % len(self._turns)]
