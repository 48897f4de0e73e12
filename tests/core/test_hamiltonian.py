"""Hamiltonian cycles: found where they were put, refused with the reason where there is none."""

import itertools
import time

import networkx as nx
import numpy as np
import pytest

from tacit import Graph, GraphError
from tacit.core.hamiltonian import hamiltonian_cycle
from tacit.core.schedule import Cycle


def of(graph):
    return Graph.from_edges(nx.convert_node_labels_to_integers(graph).edges)


def is_one(graph, order):
    Cycle(graph, order)  # follows edges, visits everybody
    return order[0] == 0 and order[1] < order[-1]


@pytest.mark.parametrize("agents", [5, 17, 60, 300])
@pytest.mark.parametrize("more", [0.0, 0.1, 0.5, 1.0, 5.0])
def test_a_cycle_that_was_put_into_a_random_graph_is_found(agents, more):
    for seed in range(3):
        edges = min(agents + int(more * agents), agents * (agents - 1) // 2)
        graph = Graph.random_with_cycle(agents, edges, seed)
        assert is_one(graph, hamiltonian_cycle(graph))


@pytest.mark.parametrize(("agents", "share"), [(100, 0.3), (100, 0.5), (200, 0.3)])
def test_the_papers_graphs(agents, share):
    graph = Graph.random_with_cycle(agents, int(share * agents * (agents - 1) / 2), seed=0)
    assert is_one(graph, hamiltonian_cycle(graph))


@pytest.mark.parametrize(
    "graph",
    [nx.grid_2d_graph(6, 7), nx.random_regular_graph(3, 200, seed=1), nx.hypercube_graph(6), nx.dodecahedral_graph()],
    ids=["grid", "cubic", "hypercube", "dodecahedron"],
)
def test_known_cycles(graph):
    graph = of(graph)
    assert is_one(graph, hamiltonian_cycle(graph))


def test_every_agent_finds_the_same_cycle():
    graph = Graph.random_with_cycle(50, 120, seed=3)
    again = Graph.from_edges(reversed(graph.edges))
    assert hamiltonian_cycle(graph) == hamiltonian_cycle(again)


def test_small_graphs_against_all_orders():
    """Every answer, yes or no, against the plainest search there is."""
    rng, found = np.random.default_rng(0), 0
    for seed in range(400):
        n = int(rng.integers(3, 8))
        graph = Graph.random(n, int(rng.integers(n - 1, n * (n - 1) // 2 + 1)), seed)
        edges = {frozenset(e) for e in graph.edges}
        there = any(
            all(frozenset(e) in edges for e in itertools.pairwise((0, *rest, 0)))
            for rest in itertools.permutations(range(1, n))
        )
        found += there
        if there:
            assert is_one(graph, hamiltonian_cycle(graph))
        else:
            with pytest.raises(GraphError, match=r"no Hamiltonian cycle(?! was found)"):
                hamiltonian_cycle(graph)
    assert 100 < found < 300


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph.path(5), "agent 0 has only one neighbour"),
        (Graph.star(5), "agent 1 has only one neighbour"),
        (Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]), "agent 2 is the only way between parts"),
        (of(nx.complete_bipartite_graph(7, 9)), "from one of 9 agents to one of 7 others"),
        (of(nx.grid_2d_graph(9, 9)), "from one of 41 agents to one of 40 others"),
        (of(nx.petersen_graph()), "the graph has no Hamiltonian cycle"),
        (of(nx.tutte_graph()), "the graph has no Hamiltonian cycle"),
    ],
    ids=["path", "star", "bow tie", "bipartite", "grid", "petersen", "tutte"],
)
def test_refusals(graph, message):
    with pytest.raises(GraphError, match=message):
        hamiltonian_cycle(graph)


def test_a_search_that_finds_nothing_ends():
    """Three large parts that hang together by agents 0 and 1 alone: a cycle can visit two of them. That is hard to see
    edge by edge, so the search gives up, in six seconds of a processor; a minute is allowed."""
    edges = []
    for part in range(3):
        shift = 2 + 100 * part
        edges += [(a + shift, b + shift) for a, b in Graph.random_with_cycle(100, 400, part).edges]
        edges += [(0, shift), (0, shift + 3), (1, shift + 1), (1, shift + 2)]
    began = time.process_time()  # not by the clock: a busy machine has other things to do
    with pytest.raises(GraphError, match="no Hamiltonian cycle was found among 302 agents"):
        hamiltonian_cycle(Graph.from_edges(edges))
    assert time.process_time() - began < 60


def test_random_with_cycle_refuses_what_cannot_be():
    assert len(Graph.random_with_cycle(6, 6).edges) == 6
    for n, edges in ((2, 1), (5, 4), (5, 11)):
        with pytest.raises(GraphError, match=f"a cycle through {n} agents"):
            Graph.random_with_cycle(n, edges)
