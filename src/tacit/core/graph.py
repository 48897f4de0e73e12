"""Which agents may talk to each other: an undirected connected graph of agents 0 to n-1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import maximum_flow

from tacit.errors import GraphError, InputError, NotConnected


class View(NamedTuple):
    """All that the agents of a block know of the graph: their own ids, how many neighbours they have, and how many
    agents there are in all."""

    ids: np.ndarray  # (n,)
    degree: np.ndarray  # (n, 1) V_i
    network: int  # N


@dataclass(frozen=True)
class Graph:
    """An undirected connected graph; `edges` holds each edge once, smaller end first, sorted.

    >>> g = Graph.ring(4)
    >>> g.degree.tolist(), g.neighbours(0).tolist()
    ([2, 2, 2, 2], [1, 3])
    """

    agents: int
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise GraphError(f"a graph needs at least one agent, not {self.agents}")
        tidy = set()
        for a, b in self.edges:
            if not (0 <= a < self.agents and 0 <= b < self.agents):
                raise GraphError(f"edge {a}-{b} names an agent that is not one of 0 to {self.agents - 1}")
            if a == b:
                raise GraphError(f"agent {a} cannot be its own neighbour")
            tidy.add((int(min(a, b)), int(max(a, b))))
        object.__setattr__(self, "edges", tuple(sorted(tidy)))
        components = sorted(sorted(c) for c in nx.connected_components(self.to_networkx()))
        if len(components) > 1:
            raise NotConnected(components)

    @classmethod
    def ring(cls, n: int) -> Graph:
        """Every agent talks to the one before it and the one after it."""
        return cls(n, tuple((i, (i + 1) % n) for i in range(n)) if n > 1 else ())

    @classmethod
    def path(cls, n: int) -> Graph:
        """A ring without one of its edges."""
        return cls(n, tuple((i, i + 1) for i in range(n - 1)))

    @classmethod
    def star(cls, n: int) -> Graph:
        """Agent 0 talks to all others, and they talk only to agent 0."""
        return cls(n, tuple((0, i) for i in range(1, n)))

    @classmethod
    def complete(cls, n: int) -> Graph:
        """Every agent talks to every other."""
        return cls(n, tuple((i, j) for i in range(n) for j in range(i + 1, n)))

    @classmethod
    def random(cls, n: int, edges: int, seed: int = 0) -> Graph:
        """A connected graph with the given number of edges: a uniform random tree, then random further edges.

        >>> len(Graph.random(10, edges=20, seed=1).edges)
        20
        """
        if not n - 1 <= edges <= n * (n - 1) // 2:
            raise GraphError(f"{n} agents can be connected by {n - 1} to {n * (n - 1) // 2} edges, not by {edges}")
        rng = np.random.default_rng(seed)
        tree = nx.random_labeled_tree(n, seed=int(rng.integers(2**31))) if n > 1 else nx.empty_graph(1)
        return cls._filled(n, edges, tree.edges, rng)

    @classmethod
    def regular(cls, n: int, degree: int, seed: int = 0) -> Graph:
        """A random graph in which every agent has `degree` neighbours (one more, where n * degree is odd), and which
        stays connected without any degree - 1 of its agents; complete, where n is that small.

        >>> Graph.regular(100, 6).connectivity, len(Graph.regular(5, 6).edges)
        (6, 10)
        """
        degree += n * degree % 2
        if degree >= n - 1:
            return cls.complete(n)
        if degree < 3:
            return cls.ring(n)
        dense = 2 * degree >= n  # then it is sooner found by the edges that it lacks
        while True:  # nearly every random regular graph is as connected as its degree allows
            g = nx.random_regular_graph(n - 1 - degree if dense else degree, n, seed=seed)
            g = nx.complement(g) if dense else g
            if nx.is_connected(g) and (found := cls(n, tuple(g.edges))).connectivity == degree:
                return found
            seed += 1

    @classmethod
    def named(cls, name: str, n: int, seed: int = 0) -> Graph:
        """ring, star, path, complete, or random:EDGES.

        >>> len(Graph.named("random:4", 4).edges)
        4
        """
        kinds = {"ring": cls.ring, "star": cls.star, "path": cls.path, "complete": cls.complete}
        if name in kinds:
            return kinds[name](n)
        if not name.startswith("random:"):
            raise InputError(f"graph must be one of {', '.join(kinds)}, random:EDGES; not {name!r}")
        edges = name.removeprefix("random:")
        if not edges.isdecimal():
            raise InputError(f"write random:EDGES with a whole number, such as random:7; not {name!r}")
        return cls.random(n, int(edges), seed)

    @classmethod
    def random_with_cycle(cls, n: int, edges: int, seed: int = 0) -> Graph:
        """A cycle through all agents in a random order, then random further edges.

        >>> len(Graph.random_with_cycle(10, edges=20, seed=1).edges)
        20
        """
        if not (n >= 3 and n <= edges <= n * (n - 1) // 2):
            raise GraphError(
                f"a graph with a cycle through {n} agents has {n} to {n * (n - 1) // 2} edges, not {edges}"
            )
        rng = np.random.default_rng(seed)
        order = rng.permutation(n).tolist()
        return cls._filled(n, edges, zip(order, [*order[1:], order[0]], strict=True), rng)

    @classmethod
    def _filled(cls, n: int, edges: int, first: Iterable[tuple[int, int]], rng: np.random.Generator) -> Graph:
        """The first edges, and random ones until there are enough."""
        chosen = {(min(e), max(e)) for e in first}
        missing = edges - len(chosen)
        if missing > 0:
            rest = sorted((i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in chosen)
            chosen.update(rest[k] for k in rng.choice(len(rest), missing, replace=False))
        return cls(n, tuple(chosen))

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[int, int]], agents: int | None = None) -> Graph:
        """From pairs of agents; `agents` defaults to one more than the largest id."""
        pairs = tuple((int(a), int(b)) for a, b in edges)
        return cls(1 + max((max(e) for e in pairs), default=0) if agents is None else agents, pairs)

    @classmethod
    def from_adjacency(cls, A: Any) -> Graph:
        """From a symmetric matrix whose non-zero entries are the edges; the diagonal must be zero.

        >>> Graph.from_adjacency([[0, 1], [1, 0]]).edges
        ((0, 1),)
        """
        A = np.asarray(A.toarray() if hasattr(A, "toarray") else A)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise GraphError(f"an adjacency matrix is square, not of shape {A.shape}")
        linked = A != 0
        if not np.array_equal(linked, linked.T):
            i, j = np.argwhere(linked & ~linked.T)[0]
            raise GraphError(
                f"the adjacency matrix is not symmetric: it has an edge from {i} to {j} but none from {j} to {i}"
            )
        return cls(len(A), tuple((int(i), int(j)) for i, j in np.argwhere(linked) if i <= j))

    def to_networkx(self) -> nx.Graph:
        """The same graph for networkx."""
        g = nx.empty_graph(self.agents)
        g.add_edges_from(self.edges)
        return g

    @cached_property
    def _csr(self) -> tuple[np.ndarray, np.ndarray]:
        ends = np.array(self.edges, dtype=int).reshape(-1, 2)
        both = np.concatenate([ends, ends[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0], minlength=self.agents))])
        return indptr, both[:, 1].copy()

    @property
    def indptr(self) -> np.ndarray:
        """CSR row starts of the adjacency, (n+1,)."""
        return self._csr[0]

    @property
    def indices(self) -> np.ndarray:
        """CSR column indices: the neighbours of agent 0 in order, then those of agent 1, ..."""
        return self._csr[1]

    @property
    def degree(self) -> np.ndarray:
        """V_i, (n,): how many neighbours each agent has."""
        return np.diff(self.indptr)

    @cached_property
    def mixing(self) -> float:
        """The best step m of f_i += m sum_j (f_j - f_i), by which repeated averaging reaches the mean soonest:
        2/(least + largest of the Laplacian's eigenvalues above zero). Zero for an agent alone.

        >>> round(Graph.complete(4).mixing, 12)
        0.25
        """
        return 2 / sum(self._spectrum) if self.agents > 1 else 0.0

    def mixing_rounds(self, accuracy: float = 1e-3) -> int:
        """How many rounds of averaging by that step bring the agents within `accuracy` of their mean.

        >>> Graph.ring(5).mixing_rounds(), Graph.complete(5).mixing_rounds()
        (9, 1)
        """
        if self.agents == 1:
            return 1
        least, largest = self._spectrum
        contraction = (largest - least) / (largest + least)
        return 1 if contraction < accuracy else math.ceil(math.log(accuracy) / math.log(contraction))

    @cached_property
    def _spectrum(self) -> tuple[float, float]:
        """The least and the largest of the Laplacian's eigenvalues above zero."""
        eigenvalues = np.sort(nx.laplacian_spectrum(self.to_networkx()))
        return float(eigenvalues[1]), float(eigenvalues[-1])

    @property
    def largest_eigenvalue(self) -> float:
        """Of the Laplacian; zero for an agent alone.

        >>> round(Graph.complete(4).largest_eigenvalue, 12)
        4.0
        """
        return self._spectrum[1] if self.agents > 1 else 0.0

    @cached_property
    def largest_normalised_eigenvalue(self) -> float:
        """Of the Laplacian over the degrees: from N/(N-1), if complete, to 2, if bipartite; zero for an agent alone.

        >>> round(Graph.star(4).largest_normalised_eigenvalue, 12)
        2.0
        """
        return float(max(nx.normalized_laplacian_spectrum(self.to_networkx()))) if self.agents > 1 else 0.0

    @cached_property
    def connectivity(self) -> int:
        """The least number of agents without whom the others are no longer connected; N - 1 if the graph is complete.

        >>> Graph.ring(5).connectivity, Graph.star(5).connectivity, Graph.complete(5).connectivity
        (2, 1, 4)
        """
        n = self.agents
        if 2 * len(self.edges) == n * (n - 1):
            return n - 1
        # Esfahanian and Hakimi (1984). Take an agent of the least degree. A smallest cut either leaves it, and then
        # parts it from an agent that is no neighbour; or contains it, and then parts two of its neighbours.
        hub = int(np.argmin(self.degree))
        near, edges = self.neighbours(hub).tolist(), set(self.edges)
        far = sorted(set(range(n)) - {hub, *near})
        pairs = [(hub, i) for i in far] + [pair for pair in combinations(near, 2) if pair not in edges]
        # To cut s from t takes as many agents as there are ways from s to t without a common agent (Menger): the flow
        # from s's exit, n + s, to t's entry, t, where each agent lets one unit through, from its entry to its exit.
        every = np.arange(n, dtype=np.int32)  # maximum_flow takes no wider numbers
        tails = np.concatenate([every, n + np.repeat(every, self.degree)])
        heads = np.concatenate([n + every, self.indices.astype(np.int32)])
        ways = scipy.sparse.csr_array((np.ones(len(tails), dtype=np.int32), (tails, heads)), shape=(2 * n, 2 * n))
        return min(int(maximum_flow(ways, n + s, t).flow_value) for s, t in pairs)

    def neighbours(self, i: int) -> np.ndarray:
        """The agents that agent i talks to, ascending."""
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def view(self, ids: np.ndarray | None = None) -> View:
        """What the given agents (all, by default) know of the graph."""
        ids = np.arange(self.agents) if ids is None else np.asarray(ids)
        return View(ids, self.degree[ids][:, None].astype(float), self.agents)
