"""Graphs: known neighbours, known refusals."""

import pickle
import tracemalloc
from dataclasses import FrozenInstanceError
from itertools import count

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

from tacit import Graph, GraphError
from tacit.core import random_graphs, spectrum
from tacit.core.edges import Edges


def test_shapes():
    assert Graph.ring(5).edges == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    assert Graph.path(3).edges == ((0, 1), (1, 2))
    assert Graph.star(4).degree.tolist() == [3, 1, 1, 1]
    assert Graph.complete(4).degree.tolist() == [3, 3, 3, 3]
    assert Graph.ring(2).edges == ((0, 1),)
    assert Graph.ring(1).edges == Graph.star(1).edges == Graph.random(1, 0).edges == ()


@pytest.mark.parametrize("edges", [9, 12, 45])
def test_random_is_connected_with_the_number_of_edges_asked_for(edges):
    for seed in range(20):
        g = Graph.random(10, edges, seed)
        assert len(g.edges) == edges
        assert nx.is_connected(g.to_networkx())
    assert Graph.random(10, 12, 0) == Graph.random(10, 12, 0) != Graph.random(10, 12, 1)


def test_adjacency_round_trip():
    g = Graph.random(8, 13, 3)
    A = nx.to_numpy_array(g.to_networkx())
    assert Graph.from_adjacency(A) == g
    assert Graph.from_edges([(b, a) for a, b in g.edges]) == g
    dense = np.zeros((8, 8))
    for i in range(8):
        dense[i, g.neighbours(i)] = 1
    np.testing.assert_array_equal(dense, A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph(5, ((0, 1), (1, 2), (3, 4))), r"2 components: \{0, 1, 2\}; \{3, 4\}"),
        (lambda: Graph.from_edges([(0, 1)], agents=3), r"\{0, 1\}; \{2\}"),
        (lambda: Graph(0, ()), "at least one agent"),
        (lambda: Graph(2.5, ((0, 1),)), "whole number, not 2.5"),
        (lambda: Graph(2, ((0.5, 1),)), "ends of an edge are whole numbers"),
        (lambda: Graph(2, ((0, float("inf")),)), "ends of an edge are whole numbers"),
        (lambda: Graph(3, ((0, 1), (1,))), "pair of agents"),
        (lambda: Graph(2, ((0, 2),)), "edge 0-2 names an agent that is not one of 0 to 1"),
        (lambda: Graph(2, ((1, 1), (0, 1))), "own neighbour"),
        (lambda: Graph.from_adjacency([[0, 1, 0], [1, 0, 1], [0, 0, 0]]), "not symmetric: it has an edge from 1 to 2"),
        (lambda: Graph.from_adjacency(np.ones((2, 3))), "square"),
        (lambda: Graph.from_adjacency(np.ones((2, 2))), "own neighbour"),
        (lambda: Graph.random(5, 3), "4 to 10 edges, not by 3"),
        (lambda: Graph.random(5, 11), "4 to 10 edges, not by 11"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(GraphError, match=message):
        make()


def test_unsigned_ids_are_not_rounded():
    ids = np.arange(2**31 - 3, 2**31 - 24, -1)
    pairs = np.stack([ids[:-1], ids[1:]], axis=1)
    assert Edges.tidy(2**31 - 1, pairs.astype(np.uint64)) == Edges.tidy(2**31 - 1, pairs)


def test_the_edges_of_a_copy_are_read_only():
    assert not pickle.loads(pickle.dumps(Graph.ring(3))).edges.pairs.flags.writeable


def test_connectivity_equals_that_of_networkx():
    """On graphs of every density, trees and cuts of one agent included."""
    found = set()
    for n in (2, 3, 5, 9, 14):
        for edges in {n - 1, n, 2 * n, n * (n - 1) // 3, n * (n - 1) // 2 - 1}:
            if n - 1 <= edges <= n * (n - 1) // 2:
                for seed in range(6):
                    g = Graph.random(n, edges, seed)
                    assert g.connectivity == nx.node_connectivity(g.to_networkx())
                    found.add((g.connectivity, g.connectivity < g.degree.min()))
    assert {c for c, _ in found} >= {1, 2, 3, 12}
    assert {below for _, below in found} == {False, True}  # also where the least degree is no smallest cut


def test_connectivity_of_halves_that_share_few_agents():
    """Two random graphs with some agents in common: those are a cut, unless a half has a smaller one."""
    below = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size, common = int(rng.integers(5, 10)), int(rng.integers(1, 4))
        most = size * (size - 1) // 2
        halves = [Graph.random(size, int(rng.integers(most // 2, most + 1)), seed + k) for k in (0, 1000)]
        edges = [*halves[0].edges, *((a + size - common, b + size - common) for a, b in halves[1].edges)]
        names = rng.permutation(2 * size - common)  # the search goes by ids
        g = Graph.from_edges([(names[a], names[b]) for a, b in edges])
        assert g.connectivity == nx.node_connectivity(g.to_networkx()) <= common
        below += g.connectivity < g.degree.min()
    assert below > 20


def test_connectivity_of_known_graphs():
    two_cliques = [
        (i, j) for k in (0, 4) for i in range(k, k + 6) for j in range(i + 1, k + 6)
    ]  # they share two agents
    assert Graph.from_edges(two_cliques).connectivity == 2
    assert Graph.from_edges(nx.convert_node_labels_to_integers(nx.hypercube_graph(4)).edges).connectivity == 4
    assert Graph.ring(1).connectivity == 0
    assert [g(7).connectivity for g in (Graph.ring, Graph.path, Graph.star, Graph.complete)] == [2, 1, 1, 6]
    assert Graph.regular(3000, 5, seed=1).connectivity == 5


@pytest.mark.parametrize(("n", "degree"), [(9, 4), (9, 5), (12, 3), (12, 9), (30, 20), (100, 34)])
def test_regular_graphs_have_the_degree_and_the_connectivity_asked_for(n, degree):
    g = Graph.regular(n, degree)
    even = degree + n * degree % 2
    assert set(g.degree.tolist()) == {even}
    assert nx.is_k_edge_connected(g.to_networkx(), even)  # by other means: connectivity is at most this
    assert g.connectivity == even
    assert g == Graph.regular(n, degree)
    assert g != Graph.regular(n, degree, seed=100)


def in_a_tuple(n, edges):
    """The edges as they were listed before they were an array."""
    return tuple(sorted({(min(e), max(e)) for e in edges}))


def filled(n, edges, first, rng):
    """Random edges beside the first ones, from the list of all others."""
    chosen = {(min(e), max(e)) for e in first}
    if edges > len(chosen):
        rest = sorted((i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in chosen)
        chosen.update(rest[k] for k in rng.choice(len(rest), edges - len(chosen), replace=False))
    return in_a_tuple(n, chosen)


def test_a_seed_gives_the_graph_that_it_gave_when_graphs_were_lists():
    """Published figures rest on it. Of more than 10,000 pairs numpy draws in another way: hence the largest case."""
    for n in (1, 2, 3, 4, 7, 20, 150):
        for edges in sorted({n - 1, n, n + 3, 3 * n, n * (n - 1) // 4, n * (n - 1) // 2}):
            if not n - 1 <= edges <= n * (n - 1) // 2:
                continue
            for seed in range(4 if n < 50 else 1):
                rng = np.random.default_rng(seed)
                tree = nx.random_labeled_tree(n, seed=int(rng.integers(2**31))).edges if n > 1 else ()
                assert Graph.random(n, edges, seed).edges == filled(n, edges, tree, rng)
                if n >= 3 and edges >= n:
                    rng = np.random.default_rng(seed)
                    order = rng.permutation(n).tolist()
                    cycle = list(zip(order, [*order[1:], order[0]], strict=True))
                    assert Graph.random_with_cycle(n, edges, seed).edges == filled(n, edges, cycle, rng)


@pytest.mark.parametrize(("n", "degree"), [(8, 3), (9, 6), (12, 4), (20, 17), (40, 5)])
def test_a_seed_gives_the_regular_graph_that_it_gave(n, degree):
    degree += n * degree % 2
    for first in range(4):
        for seed in count(first):
            g = nx.random_regular_graph(n - 1 - degree if 2 * degree >= n else degree, n, seed=seed)
            g = nx.complement(g) if 2 * degree >= n else g
            if nx.is_connected(g) and nx.node_connectivity(g) == degree:
                break
        assert Graph.regular(n, degree, first).edges == in_a_tuple(n, g.edges)


def test_large_regular_graphs_are_drawn_by_arrays(monkeypatch):
    monkeypatch.setattr(random_graphs, "_FEW_STUBS", 0)
    seen = set()
    for seed in range(300):  # six agents have 60 prisms and 10 graphs K_3,3
        pairs = random_graphs.random_regular(6, 3, seed)
        assert np.bincount(pairs.ravel()).tolist() == [3] * 6
        edges = in_a_tuple(6, map(tuple, pairs.tolist()))
        assert len(edges) == 9
        seen.add(edges)
    assert len(seen) > 60
    g = Graph(2000, random_graphs.random_regular(2000, 5, seed=1))
    assert set(g.degree.tolist()) == {5}


def test_edges_read_like_a_tuple():
    g = Graph.random(30, 70, 2)
    pairs = tuple(g.edges)
    assert g.edges == pairs
    assert pairs == g.edges
    assert g.edges != pairs[:-1]
    assert g.edges != list(pairs)
    assert g.edges[3:5] == pairs[3:5]
    assert g.edges[-1] == pairs[-1]
    assert all(type(end) is int for pair in g.edges for end in pair)
    assert {pair for pair in ((i, j) for i in range(30) for j in range(30)) if pair in g.edges} == set(pairs)
    assert "no edge" not in g.edges
    assert repr(Graph.path(3)) == "Graph(agents=3, edges=((0, 1), (1, 2)))"
    assert repr(Graph.path(500)).endswith("((0, 1), (1, 2), (2, 3), ... 499 edges))")
    np.testing.assert_array_equal(np.array(g.edges), np.array(pairs))


def test_equal_graphs_are_one_key_and_travel():
    one, same, other = Graph.random(9, 20, 1), Graph.from_edges(reversed(Graph.random(9, 20, 1).edges)), Graph.ring(9)
    assert one == same != other
    assert len({one, same, other}) == 2
    assert hash(one.edges) == hash(tuple(one.edges))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert Graph(1, ()).fingerprint() != Graph.path(2).fingerprint()
    one.adjacency  # noqa: B018 (is kept)
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert len(pickle.dumps(one)) < 1000
    with pytest.raises(FrozenInstanceError):
        one.agents = 3
    with pytest.raises(ValueError, match="read-only"):
        one.edges.pairs[0] = 0


def test_large_graphs_take_memory_in_proportion_to_their_edges():
    tracemalloc.start()
    try:
        g = Graph.random(20_000, 60_000, seed=3)
        assert len(g.indices) == 120_000
        ring = Graph.ring(50_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # a list of all pairs has 200 million
    finally:
        tracemalloc.stop()
    assert ring.neighbours(0).tolist() == [1, 49_999]
    for graph in (g, Graph.complete(300)):
        assert scipy.sparse.csr_array.count_nonzero(graph.adjacency - graph.adjacency.T) == 0
        assert all(np.all(np.diff(graph.neighbours(i)) > 0) for i in range(0, graph.agents, 97))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1, 2)], "a pair of agents"),
        ([("a", "b")], "whole numbers"),
        ([(0, 2**70)], "names an agent that is not one of 0 to 1"),
        (np.array([[0, 2**63]], dtype=np.uint64), "names an agent that is not one of 0 to 1"),
        ([(-1, 0)], "names an agent that is not one of 0 to 1"),
    ],
)
def test_what_is_no_edge_is_refused(edges, message):
    with pytest.raises(GraphError, match=message):
        Graph(2, edges)


def test_of_a_graph_of_many_agents_the_least_eigenvalue_is_found(monkeypatch):
    """With the accuracy of smaller graphs the search did not end: a bound took its place, by which a graph that mixes
    in 30 rounds took 200 million."""
    graph = Graph.regular(20_000, 6)
    with monkeypatch.context() as patch:
        patch.setattr(spectrum, "_STEPS", 300)
        fine, _ = spectrum.ends(graph.adjacency)
    monkeypatch.setattr(spectrum, "_MANY", 10_000)
    monkeypatch.setattr(spectrum, "_STEPS", 3)
    least, largest = spectrum.ends(graph.adjacency)
    assert 0.9 * fine < least <= fine
    assert largest == 12


def test_of_large_graphs_the_ends_of_the_spectrum_are_bounds(monkeypatch):
    """The largest holds always, so that averaging by `mixing` converges; the least is near where it was found."""
    graphs = [*(Graph.random(30, 50, seed) for seed in range(10)), Graph.star(20), Graph.complete(8), Graph.path(2)]
    exact = [np.sort(nx.laplacian_spectrum(g.to_networkx())) for g in graphs]
    assert [spectrum.ends(g.adjacency) for g in graphs] == [(values[1], values[-1]) for values in exact]
    monkeypatch.setattr(spectrum, "MOST_AGENTS", 0)
    for g, values in zip(graphs, exact, strict=True):
        least, largest = spectrum.ends(g.adjacency)
        assert 0.98 * values[1] < least <= values[1] * (1 + 1e-12)
        assert values[-1] * (1 - 1e-12) <= largest <= g.agents
    least, largest = spectrum.ends(Graph.ring(3000).adjacency)  # so long that nothing is found: a bound for all graphs
    assert 0.05 < least / (2 - 2 * np.cos(2 * np.pi / 3000)) <= 1
    assert largest == 4
