"""Which agents may talk to each other: an undirected connected graph of agents 0 to n-1."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from tacit.core.edges import MOST_AGENTS, Edges, whole_numbers
from tacit.core.random_graphs import further, others, random_regular, random_tree
from tacit.errors import GraphError, InputError, NotConnected

if TYPE_CHECKING:
    import networkx  # takes a quarter of a second: an agent does not need it

_MOST_EDGES = 2**27  # a gigabyte of pairs: more are refused before they are made


class View(NamedTuple):
    """All that the agents of a block know of the graph: their own ids, how many neighbours they have, and how many
    agents there are in all."""

    ids: np.ndarray  # (n,)
    degree: np.ndarray  # (n, 1) V_i
    network: int  # N

    def take(self, places: np.ndarray) -> View:
        """What some agents of the block know."""
        return View(self.ids[places], self.degree[places], self.network)


@dataclass(frozen=True, init=False)
class Graph:
    """An undirected connected graph; `edges` holds each edge once, smaller end first, sorted. It reads like a tuple of
    pairs, and is an array: `edges.pairs`.

    >>> g = Graph.ring(4)
    >>> g.degree.tolist(), g.neighbours(0).tolist()
    ([2, 2, 2, 2], [1, 3])
    """

    agents: int
    edges: Edges

    def __init__(self, agents: int, edges: Iterable[tuple[int, int]] | np.ndarray) -> None:
        if isinstance(agents, bool) or not isinstance(agents, Integral):
            raise GraphError(f"the number of agents is a whole number, not {agents!r}")
        agents = int(agents)
        if not 1 <= agents <= MOST_AGENTS:
            raise GraphError(
                f"a graph needs at least one agent{'' if agents < 1 else ', at most 2^31 - 1'}, not {agents}"
            )
        object.__setattr__(self, "agents", agents)
        object.__setattr__(self, "edges", Edges.tidy(agents, edges))
        if len(self.edges) > (agents - 1) * (agents - 2) // 2:
            return  # so many edges that no agent can be apart
        low, high = self.edges.pairs.T
        if len(np.unique(high)) == agents - 1:
            return  # every agent but the first has a neighbour before it, and so a way to the first
        from scipy.sparse.csgraph import connected_components  # 11 MB: most agents need it for nothing else

        once = scipy.sparse.coo_array((np.ones(len(low), dtype=np.int8), (low, high)), shape=(agents, agents)).tocsr()
        count, label = connected_components(once, directed=False)
        if count > 1:
            members = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])
            raise NotConnected(sorted(each.tolist() for each in members))

    def __getstate__(self) -> dict[str, Any]:
        return {"agents": self.agents, "edges": self.edges}  # the rest is computed from these

    @classmethod
    def ring(cls, n: int) -> Graph:
        """Every agent talks to the one before it and the one after it."""
        i = np.arange(n if n > 1 else 0)
        return cls(n, np.stack([i, (i + 1) % max(n, 1)], axis=1))

    @classmethod
    def path(cls, n: int) -> Graph:
        """A ring without one of its edges."""
        i = np.arange(max(n - 1, 0))
        return cls(n, np.stack([i, i + 1], axis=1))

    @classmethod
    def star(cls, n: int) -> Graph:
        """Agent 0 talks to all others, and they talk only to agent 0."""
        i = np.arange(1, max(n, 1))
        return cls(n, np.stack([np.zeros_like(i), i], axis=1))

    @classmethod
    def complete(cls, n: int) -> Graph:
        """Every agent talks to every other."""
        _check_edges(n * (n - 1) // 2)
        graph = cls(min(n, 1), ())  # with all pairs, sorted, there is nothing to tidy or to check
        object.__setattr__(graph, "agents", n)
        object.__setattr__(graph, "edges", Edges(others(n, np.empty((0, 2), dtype=np.int64))))
        return graph

    @classmethod
    def random(cls, n: int, edges: int, seed: int = 0) -> Graph:
        """A connected graph with the given number of edges: a uniform random tree, then random further edges.

        >>> len(Graph.random(10, edges=20, seed=1).edges)
        20
        """
        if not n - 1 <= edges <= n * (n - 1) // 2:
            raise GraphError(f"{n} agents can be connected by {n - 1} to {n * (n - 1) // 2} edges, not by {edges}")
        rng = np.random.default_rng(seed)
        return cls._filled(n, edges, random_tree(n, int(rng.integers(2**31)) if n > 1 else 0), rng)

    @classmethod
    def regular(cls, n: int, degree: int, seed: int = 0) -> Graph:
        """A random graph in which every agent has `degree` neighbours (one more, where n * degree is odd), and which
        stays connected without any degree - 1 of its agents; complete, where n is that small.

        >>> Graph.regular(100, 6).connectivity, len(Graph.regular(5, 6).edges)
        (6, 10)
        """
        degree += n * degree % 2
        _check_edges(n * min(degree, n - 1) // 2)
        if degree >= n - 1:
            return cls.complete(n)
        if degree < 3:
            return cls.ring(n)
        dense = 2 * degree >= n  # then it is sooner found by the edges that it lacks
        while True:  # nearly every random regular graph is as connected as its degree allows
            pairs = random_regular(n, n - 1 - degree if dense else degree, seed)
            try:
                found = cls(n, others(n, pairs) if dense else pairs)
            except NotConnected:
                pass
            else:
                if found.connectivity == degree:
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
        if not (edges.isdecimal() and len(edges) <= 20):
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
        order = rng.permutation(n)
        return cls._filled(n, edges, np.stack([order, np.roll(order, -1)], axis=1), rng)

    @classmethod
    def _filled(cls, n: int, edges: int, first: np.ndarray, rng: np.random.Generator) -> Graph:
        """The first edges, and random ones until there are enough."""
        _check_edges(edges)
        missing = edges - len(first)
        return cls(n, np.concatenate([first, further(n, first, missing, rng)]) if missing > 0 else first)

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[int, int]], agents: int | None = None) -> Graph:
        """From pairs of agents; `agents` defaults to one more than the largest id."""
        ends = whole_numbers(edges)
        return cls(1 + int(ends.max(initial=0)) if agents is None else agents, ends)

    @classmethod
    def from_adjacency(cls, A: Any) -> Graph:
        """From a symmetric matrix whose non-zero entries are the edges; the diagonal must be zero.

        >>> Graph.from_adjacency([[0, 1], [1, 0]]).edges
        ((0, 1),)
        """
        A = A if scipy.sparse.issparse(A) else np.asarray(A)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise GraphError(f"an adjacency matrix is square, not of shape {A.shape}")
        linked = scipy.sparse.csr_array(A != 0).astype(np.int8)
        one_way = np.stack(((linked - linked.T) > 0).nonzero(), axis=1)
        if len(one_way):
            i, j = one_way[0]
            raise GraphError(
                f"the adjacency matrix is not symmetric: it has an edge from {i} to {j} but none from {j} to {i}"
            )
        return cls(A.shape[0], np.stack(scipy.sparse.triu(linked).nonzero(), axis=1))

    def fingerprint(self) -> str:
        """A digest: two graphs with the same one have the same agents and edges."""
        digest = hashlib.sha256(f"{self.agents} agents".encode())
        digest.update(self.edges.pairs.astype("<i4", order="C").tobytes())
        return digest.hexdigest()

    def to_networkx(self) -> networkx.Graph:
        """The same graph for networkx."""
        import networkx as nx

        g = nx.empty_graph(self.agents)
        g.add_edges_from(self.edges)
        return g

    def __hash__(self) -> int:
        return hash((self.agents, self.edges.pairs.tobytes()))  # of the array: a graph may have millions of edges

    @cached_property
    def adjacency(self) -> scipy.sparse.csr_array:
        """The matrix with ones for neighbours, (n, n). Rows in order: edges are sorted, so that an agent's smaller
        neighbours, as the ends of theirs, are in order before the larger ones."""
        low, high = self.edges.pairs.T
        ends = np.concatenate([high, low]), np.concatenate([low, high])
        return scipy.sparse.coo_array((np.ones(2 * len(low), dtype=np.int8), ends), shape=(self.agents,) * 2).tocsr()

    @property
    def indptr(self) -> np.ndarray:
        """CSR row starts of the adjacency, (n+1,)."""
        return self.adjacency.indptr

    @property
    def indices(self) -> np.ndarray:
        """CSR column indices: the neighbours of agent 0 in order, then those of agent 1, ..."""
        return self.adjacency.indices

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
        """The least and the largest of the Laplacian's eigenvalues above zero; of large graphs, bounds."""
        from tacit.core.spectrum import ends  # most runs do not ask

        return ends(self.adjacency)

    @property
    def largest_eigenvalue(self) -> float:
        """Of the Laplacian, or no less than it where there are thousands of agents; zero for an agent alone.

        >>> round(Graph.complete(4).largest_eigenvalue, 12)
        4.0
        """
        return self._spectrum[1] if self.agents > 1 else 0.0

    @cached_property
    def largest_normalised_eigenvalue(self) -> float:
        """Of the Laplacian over the degrees: from N/(N-1), if complete, to 2, if bipartite, and 2 where there are
        thousands of agents; zero for an agent alone.

        >>> round(Graph.star(4).largest_normalised_eigenvalue, 12)
        2.0
        """
        from tacit.core.spectrum import MOST_AGENTS as MOST_EXACT

        if not 1 < self.agents <= MOST_EXACT:
            return 2.0 if self.agents > 1 else 0.0
        root = 1 / np.sqrt(self.degree)
        return float(1 - np.linalg.eigvalsh(self.adjacency.toarray() * root * root[:, None])[0])

    @cached_property
    def connectivity(self) -> int:
        """The least number of agents without whom the others are no longer connected; N - 1 if the graph is complete.

        >>> Graph.ring(5).connectivity, Graph.star(5).connectivity, Graph.complete(5).connectivity
        (2, 1, 4)
        """
        from tacit.core.connectivity import connectivity

        return connectivity(self.indptr, self.indices)

    def neighbours(self, i: int) -> np.ndarray:
        """The agents that agent i talks to, ascending."""
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def view(self, ids: np.ndarray | None = None) -> View:
        """What the given agents (all, by default) know of the graph."""
        ids = np.arange(self.agents) if ids is None else np.asarray(ids)
        return View(ids, self.degree[ids][:, None].astype(float), self.agents)


def _check_edges(count: int) -> None:
    if count > _MOST_EDGES:
        raise GraphError(f"a graph has at most {_MOST_EDGES:,} edges, and this one has {count:,}: take another graph")
