"""A cycle through all agents of a graph, each once: the path of a token that visits all of them in turn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacit.core.graph import Graph
from tacit.errors import GraphError

_EFFORT = 10_000_000  # agents looked at, over all tries: some seconds


def hamiltonian_cycle(graph: Graph) -> tuple[int, ...]:
    """The agents in the order of a Hamiltonian cycle, from agent 0. Every agent computes the same one.

    Whether there is one is a hard question. The search ends with a cycle, with a proof that there is none, or, after
    some seconds (up to 1,000 agents), undecided. Two agents pass the token back and forth.

    >>> hamiltonian_cycle(Graph.ring(4))
    (0, 1, 2, 3)
    """
    n = graph.agents
    if n <= 2:
        return tuple(range(n))
    _possible(graph)
    rng, edges, effort = np.random.default_rng(0), 2 * n, 0
    while effort < _EFFORT:  # an early mistake can cost too much: start again, in another order
        cycle = _searched(graph, rng.permutation(n).tolist(), edges)
        if cycle is not None:
            return cycle
        edges, effort = 2 * edges, effort + edges * n
    raise GraphError(
        f"no Hamiltonian cycle was found among {n} agents: give the order, add edges, or use a random walk"
    )


def _possible(graph: Graph) -> None:
    """Refuses a graph that a quick check rules out."""
    if graph.degree.min() < 2:
        raise GraphError(f"no Hamiltonian cycle: agent {int(graph.degree.argmin())} has only one neighbour")
    import networkx as nx  # a quarter of a second: only where it is used

    plain = graph.to_networkx()
    cut = min(nx.articulation_points(plain), default=None)
    if cut is not None:
        raise GraphError(f"no Hamiltonian cycle: agent {cut} is the only way between parts of the graph")
    if nx.is_bipartite(plain):
        sides = [len(side) for side in nx.bipartite.sets(plain)]
        if sides[0] != sides[1]:
            raise GraphError(
                f"no Hamiltonian cycle: every edge leads from one of {max(sides)} agents to one of {min(sides)} others"
            )


def _searched(graph: Graph, order: list[int], most: int) -> tuple[int, ...] | None:
    """Takes or drops an edge, follows the consequences, and goes back where they contradict each other. None if that
    has not ended after `most` edges. `order` decides between agents of equal rank."""
    n = graph.agents
    near = [sum(1 << int(j) for j in graph.neighbours(i)) for i in range(n)]
    whole = _Partial(near, [0] * n, list(range(n)), [1] * n)
    open_cases = [(whole, list(range(n)))]
    for _ in range(most):
        if not open_cases:
            raise GraphError("the graph has no Hamiltonian cycle; add an edge, or use a random walk")
        case, changed = open_cases.pop()
        if not case.follows(changed):
            continue
        undecided = [i for i in range(n) if case.near[i].bit_count() > 2]
        if not undecided:
            return case.cycle()
        # Of the ends of paths take the one with the fewest choices; join it to the agent with the fewest choices.
        i = min(undecided, key=lambda i: (not case.taken[i], case.near[i].bit_count(), order[i]))
        j = min(_bits(case.near[i] & ~case.taken[i]), key=lambda j: (case.near[j].bit_count(), order[j]))
        without, with_it = case.copy(), case
        without.drop(i, j)
        open_cases.append((without, [i, j]))
        changed = with_it.take(i, j)
        if changed:
            open_cases.append((with_it, changed))
    return None


class _Partial:
    """Some edges taken, which make paths, and some dropped. Sets of agents are the bits of a number."""

    def __init__(self, near: list[int], taken: list[int], end: list[int], length: list[int]) -> None:
        self.near = near  # the neighbours that each agent may still have on the cycle, those taken included
        self.taken = taken  # the neighbours that it will have
        self.end = end  # of an agent at the end of a path, the other end
        self.length = length  # and how many agents the path has

    def copy(self) -> _Partial:
        return _Partial(self.near.copy(), self.taken.copy(), self.end.copy(), self.length.copy())

    def drop(self, i: int, j: int) -> None:
        self.near[i] &= ~(1 << j)
        self.near[j] &= ~(1 << i)

    def take(self, i: int, j: int) -> list[int]:
        """The agents to look at after the edge is taken; none if it cannot be. The edge that would close the new path
        too early is dropped."""
        if self.taken[i].bit_count() == 2 or self.taken[j].bit_count() == 2:
            return []
        self.taken[i] |= 1 << j
        self.taken[j] |= 1 << i
        first, last = self.end[i], self.end[j]
        if first != j:  # otherwise it is the last edge: an earlier one that closes a path has been dropped
            self.end[first], self.end[last] = last, first
            self.length[first] = self.length[last] = self.length[first] + self.length[last]
            if 2 < self.length[first] < len(self.near):
                self.drop(first, last)
        return [i, j, first, last]

    def follows(self, changed: list[int]) -> bool:
        """Takes and drops all edges that the changed agents force. False if they contradict each other."""
        while changed:
            i = changed.pop()
            rest = self.near[i] & ~self.taken[i]
            if self.near[i].bit_count() < 2:
                return False
            if rest and self.near[i].bit_count() == 2:
                for j in _bits(rest):
                    more = self.take(i, j)
                    if not more:
                        return False
                    changed += more
            elif rest and self.taken[i].bit_count() == 2:
                for j in _bits(rest):
                    self.drop(i, j)
                    changed.append(j)
        return True

    def cycle(self) -> tuple[int, ...]:
        """All edges taken, as an order from agent 0 on, by way of its smaller neighbour."""
        path, before = [0], -1
        while len(path) < len(self.near):
            here = path[-1]
            following = next(j for j in _bits(self.taken[here]) if j != before)
            path.append(following)
            before = here
        return tuple(path)


def _bits(agents: int) -> Iterator[int]:
    while agents:
        lowest = agents & -agents
        yield lowest.bit_length() - 1
        agents ^= lowest
