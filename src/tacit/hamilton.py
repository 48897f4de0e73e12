"""A cycle through all agents of a graph, each once: the way of a token that visits everybody in turn."""

from __future__ import annotations

import networkx as nx
import numpy as np

from tacit.errors import GraphError
from tacit.graph import Graph

_SMALL = 16  # agents, up to which all possibilities are tried
_STEPS = 2_000  # of a search, for each agent


def hamiltonian_cycle(graph: Graph) -> tuple[int, ...]:
    """The agents in the order of a Hamiltonian cycle, from agent 0; the same one for everybody who asks.

    Whether there is one is a hard question for large graphs: after a fair search the answer is that none was found.
    Two agents pass the token to and fro.

    >>> hamiltonian_cycle(Graph.ring(4))
    (0, 1, 2, 3)
    """
    n = graph.agents
    if n <= 2:
        return tuple(range(n))
    if graph.degree.min() < 2:
        raise GraphError(f"no Hamiltonian cycle: agent {int(graph.degree.argmin())} has only one neighbour")
    cut = min(nx.articulation_points(graph.to_networkx()), default=None)
    if cut is not None:
        raise GraphError(f"no Hamiltonian cycle: agent {cut} is the only way between parts of the graph")
    cycle = _all_tried(graph) if n <= _SMALL else _searched(graph)
    if cycle is None:
        raise GraphError(
            "the graph has no Hamiltonian cycle; add an edge, or use a random walk"
            if n <= _SMALL
            else f"no Hamiltonian cycle was found in {n * _STEPS:,} steps; give the order, add edges, or walk at random"
        )
    start = cycle.index(0)
    forward = [*cycle[start:], *cycle[:start]]
    return tuple(forward if forward[1] < forward[-1] else [0, *forward[:0:-1]])


def _all_tried(graph: Graph) -> list[int] | None:
    """By the paths from agent 0 over each set of agents (Bellman, Held and Karp): ends[set] has a bit for each end."""
    near = [sum(1 << int(j) for j in graph.neighbours(i)) for i in range(graph.agents)]
    ends = [0] * (1 << graph.agents)
    ends[1] = 1
    for visited in range(1, len(ends), 2):
        for last in range(graph.agents):
            if ends[visited] >> last & 1:
                for following in range(1, graph.agents):
                    if near[last] >> following & 1 and not visited >> following & 1:
                        ends[visited | 1 << following] |= 1 << following
    visited = len(ends) - 1
    here = ends[visited] & near[0]
    path: list[int] = []
    while here:
        last = here.bit_length() - 1
        path.append(last)
        visited &= ~(1 << last)
        here = ends[visited] & near[last]
    return path if len(path) == graph.agents else None


def _searched(graph: Graph) -> list[int] | None:
    """A path grows by a new neighbour of its end; where there is none, an edge back into the path turns its tail round,
    which gives it a new end (Posa 1976)."""
    rng = np.random.default_rng(0)
    path, place = [0], np.full(graph.agents, -1)
    place[0] = 0
    for _ in range(graph.agents * _STEPS):
        near = graph.neighbours(path[-1])
        fresh = near[place[near] < 0]
        if len(fresh):
            spare = [int((place[graph.neighbours(j)] < 0).sum()) for j in fresh]  # who has fewest ways left goes first
            following = int(rng.choice(fresh[np.array(spare) == min(spare)]))
            place[following] = len(path)
            path.append(following)
            continue
        if len(path) == graph.agents and 0 in near:
            return path
        pivot = int(place[rng.choice(near)]) + 1
        path[pivot:] = path[: pivot - 1 : -1] if pivot else path[::-1]
        place[path[pivot:]] = np.arange(pivot, len(path))
    return None
