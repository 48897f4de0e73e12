"""Graphs: known neighbours, known refusals."""

import networkx as nx
import numpy as np
import pytest

from tacit import Graph, GraphError


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


def test_connectivity_of_known_graphs():
    two_cliques = [
        (i, j) for k in (0, 4) for i in range(k, k + 6) for j in range(i + 1, k + 6)
    ]  # they share two agents
    assert Graph.from_edges(two_cliques).connectivity == 2
    assert Graph.from_edges(nx.convert_node_labels_to_integers(nx.hypercube_graph(4)).edges).connectivity == 4
    assert Graph.ring(1).connectivity == 0


@pytest.mark.parametrize(("n", "degree"), [(9, 4), (9, 5), (12, 3), (12, 9), (30, 20), (100, 34)])
def test_regular_graphs_have_the_degree_and_the_connectivity_asked_for(n, degree):
    g = Graph.regular(n, degree)
    even = degree + n * degree % 2
    assert set(g.degree.tolist()) == {even}
    assert nx.is_k_edge_connected(g.to_networkx(), even)  # by other means: connectivity is at most this
    assert g.connectivity == even
    assert g == Graph.regular(n, degree)
    assert g != Graph.regular(n, degree, seed=100)
