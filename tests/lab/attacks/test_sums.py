"""Secret-shared sums of several rounds: what they determine of single agents, counted exactly and measured."""

import numpy as np
import pytest

from tacit.algorithms import ConsensusADMM
from tacit.core.graph import Graph
from tacit.core.losses import Squared
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.exchange import revealed, revealed_by_repeats
from tacit.lab.attacks.reconstruction import row_errors
from tacit.lab.attacks.sums import determined, from_sums, overheard_sums
from tacit.simulation.simulate import simulate

PENALTY = 0.3


def drawn(agents, d, seed):
    rng = np.random.default_rng(seed)
    return Problem([(rng.normal(size=(5, d)), rng.normal(size=5)) for _ in range(agents)], loss=Squared())


@pytest.mark.parametrize(
    ("graph", "coalition", "d", "rounds"),
    [
        (Graph.complete(4), [0, 1], 1, 15),
        (Graph.complete(4), [0, 1], 2, 20),
        (Graph.complete(4), [0], 1, 20),
        (Graph.ring(5), [0], 1, 25),
    ],
    ids=["two of four", "in two dimensions", "three of four", "a ring"],
)
def test_sums_of_several_rounds_tell_single_quadratics(graph, coalition, d, rounds):
    """Through the protocol itself, rounded to fixed point. One round reveals no single row."""
    assert revealed(graph, coalition) == []
    problem = drawn(graph.agents, d, seed=0)
    said, heard = overheard_sums(problem, graph, PENALTY, rounds)
    for i in range(graph.agents):
        np.testing.assert_allclose(heard[:, i], said[:, graph.neighbours(i)].sum(axis=1), atol=1e-12)
    own, sums = {i: said[:, i] for i in coalition}, {i: heard[:, i] for i in coalition}
    found = from_sums(graph, own, sums, PENALTY)
    others = [i for i in range(graph.agents) if i not in coalition]
    true = np.c_[problem.second_moment()[others].reshape(len(others), -1), problem.gradient(np.zeros(d))[others]]
    ours = np.c_[found.curvature.reshape(len(others), -1), found.slope]
    assert found.off < 1e-10
    assert row_errors(ours, true).max() < 1e-5
    guess = np.tile(true.mean(axis=0), (len(others), 1))
    assert row_errors(guess, true).max() > 0.5


@pytest.mark.parametrize(
    ("graph", "coalition", "rounds"),
    [
        (Graph.complete(4), [0, 1], 4),
        (Graph.complete(4), [0], 6),
        (Graph.complete(6), [0], 10),
        (Graph.ring(6), [0], 10),
        (Graph.ring(6), [0, 1], 4),
        (Graph.random(8, 14, seed=1), [0], 14),
    ],
)
def test_as_many_rounds_as_there_are_secrets_determine_all(graph, coalition, rounds):
    """Two secrets an agent, one equation a round for each sum that is not another's: one round fewer tells nobody's."""
    others = [i for i in range(graph.agents) if i not in coalition]
    assert determined(graph, coalition, rounds) == others
    assert determined(graph, coalition, rounds - 1) == []


def test_the_count_agrees_with_derivatives_in_floating_point():
    """Finite differences of the method itself: the rank of the sums' derivatives by all secrets of the others."""
    graph, others, rounds = Graph.complete(4), [2, 3], 4

    def heard(secrets):
        H, g = secrets[:4], secrets[4:]
        parts = [([[np.sqrt(h)]], [-b / np.sqrt(h)]) for h, b in zip(H, g, strict=True)]  # 1/2 h x^2 + g x
        run = simulate(
            ConsensusADMM(penalty=PENALTY), Problem(parts, loss=Squared()), graph, rounds=rounds, record=True
        )
        return run.trajectory[1:, others].sum(axis=(1, 2))

    at = np.array([0.5, 1.0, 2.0, 0.3, 1.0, -2.0, 0.7, 0.4])
    step = 1e-5
    moves = [place for i in others for place in (i, 4 + i)]
    J = np.array([(heard(at + step * e) - heard(at - step * e)) / (2 * step) for e in np.eye(8)[moves]])
    size = np.linalg.svd(J, compute_uv=False)
    assert size[-1] > 1e-5 * size[0]
    assert determined(graph, [0, 1], rounds) == others


def test_no_coalition_learns_of_agents_that_nobody_in_it_hears():
    assert determined(Graph.path(3), [], 10) == []
    with pytest.raises(InputError, match="not in the graph"):
        determined(Graph.path(3), [3], 1)


def test_the_same_rows_with_and_without_a_member():
    graph = Graph.complete(5)
    assert revealed_by_repeats(graph, [0], [{}] * 9) == revealed(graph, [0]) == []
    assert revealed_by_repeats(graph, [0], [{}, {0: [4]}]) == [4]
    assert revealed_by_repeats(graph, [0], [{0: [k]} for k in (1, 2, 3, 4)]) == [1, 2, 3, 4]
    assert revealed_by_repeats(graph, [0, 1], [{}, {0: [4]}]) == [4]
    with pytest.raises(InputError, match="not in the graph"):
        revealed_by_repeats(graph, [5], [{}])
