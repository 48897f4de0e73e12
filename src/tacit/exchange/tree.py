"""The tree along which partial sums travel at a tick."""

from __future__ import annotations

from typing import NamedTuple

from tacit.core.graph import Graph


class Tree(NamedTuple):
    """A spanning tree: breadth first from a root, which is another member at every tick, so that nobody is the centre.

    >>> tree = Tree.of(Graph.ring(5), t=7)
    >>> tree.order, tree.parent, tree.children(2)
    ((2, 1, 3, 0, 4), (1, 2, None, 2, 3), [1, 3])
    """

    order: tuple[int, ...]  # the root first, children after their parents
    parent: tuple[int | None, ...]  # of each agent

    @classmethod
    def of(cls, graph: Graph, t: int) -> Tree:
        """The tree of tick t."""
        root = t % graph.agents
        parent: dict[int, int | None] = {root: None}
        order = [root]
        for i in order:
            for j in graph.neighbours(i).tolist():
                if j not in parent:
                    parent[j] = i
                    order.append(j)
        return cls(tuple(order), tuple(parent[i] for i in range(graph.agents)))

    def children(self, agent: int) -> list[int]:
        """The agents that send their sums to this one."""
        return [i for i in self.order if self.parent[i] == agent]
