"""The strongest attack on every token method, and the two agents around one of them."""

import json

import numpy as np
import pytest

from tacit.core.graph import Graph
from tacit.lab.attacks import around, averaged, listen_in, quadratics, recursion, secret_offset
from tacit.lab.papers import incremental_admm_methods as paper
from tacit.lab.papers.incremental_admm_methods import LOGISTIC, RIDGE
from tacit.privacy.noise import SeededNoise

AGENTS = 8


def run(case, make, graph=None, seed=0, agents=AGENTS):
    graph = paper.graph(agents, 0.3, seed) if graph is None else graph
    return listen_in(make(case), case.problem(agents, seed), graph, 20 * agents + 1, SeededNoise(seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_secret_start_is_found_exactly_where_objectives_are_quadratic(seed):
    """The steps are known: linear equations, at all visits. The recursion has halved its error twenty times only."""
    heard, truth, gradient = run(RIDGE, paper.random_start, seed=seed)
    found = quadratics(heard, 1.0, 1.0)
    assert max(e.max() for e in found.states.errors(truth)) < 1e-9
    np.testing.assert_allclose(found.curvature, 2 * RIDGE.problem(AGENTS, seed).second_moment(), atol=1e-8)
    np.testing.assert_allclose(found.states.y, gradient, atol=1e-7)
    assert recursion(heard).errors(truth).y.max() > 100


def test_the_strongest_attack_is_among_the_estimates():
    for make, name in ((paper.random_start, paper.FIT), (paper.pi_admm1, paper.FIT), (paper.pi_admm2, paper.AVERAGED)):
        overheard = run(RIDGE, make)
        last = [overheard.heard.visits(i)[-1] for i in range(AGENTS)]
        found = paper.estimates(RIDGE, make(RIDGE), overheard)
        off = {key: np.linalg.norm(s.y - overheard.gradient, axis=1)[last].mean() for key, s in found.items()}
        assert min(off, key=off.get) == name


def test_noise_is_averaged_over_visits():
    """Three numbers a coordinate are fitted to 20 visits, and one that the first visit determines: on average over the
    visits the error falls to sqrt(3/20) = 0.39 of one visit's. Here it is the mean over 30 agents, at their last visit,
    where the argument has come to rest. The seed is fixed."""
    heard, _, gradient = run(RIDGE, paper.pi_admm2, agents=30)
    noise = RIDGE.penalty * paper.SIGMA
    assert paper.noise_on_gradients(RIDGE, paper.pi_admm2(RIDGE)) == noise
    last = [heard.visits(i)[-1] for i in range(30)]
    found = averaged(heard, noise, exact=True, quadratic=True)
    one, all_visits = (np.linalg.norm(s.y - gradient, axis=1)[last].mean() for s in (recursion(heard), found))
    assert 0.25 < all_visits / one < 0.45


@pytest.mark.parametrize("case", [RIDGE, LOGISTIC], ids=lambda case: case.name)
@pytest.mark.parametrize("make", [paper.i_admm, paper.pi_admm1])
def test_two_agents_around_another_know_what_an_eavesdropper_knows(case, make):
    """Every other token is NaN: nothing else is used."""
    heard, truth, _ = run(case, make)
    everything = paper.strongest(case, make(case), heard)
    for i in range(AGENTS):
        two = around(heard, i)
        assert len(two) == 2
        own, theirs = heard.visits(i), heard.within(two)
        assert np.isnan(theirs.tokens).any()
        for name, states in paper.strongest(case, make(case), theirs, [i]).items():
            np.testing.assert_array_equal(states.x[own], everything[name].x[own])
            np.testing.assert_array_equal(states.y[own], everything[name].y[own])
        one = recursion(heard.within(list(two)[:1]))
        assert np.isnan(one.y[own]).any()
    if make is paper.i_admm:
        assert everything[paper.STRONG].errors(truth).y.max() < 1e-12


def test_on_a_ring_two_neighbours_undo_the_secret_offset():
    graph = Graph.ring(AGENTS)
    heard, truth, _ = run(RIDGE, paper.offset, graph)
    size = np.linalg.norm(truth.y, axis=1).max()
    outside = recursion(heard).errors(truth).y
    found, undone = paper.neighbours_estimates(RIDGE, paper.offset(RIDGE), heard, graph)
    assert undone == AGENTS
    assert found[paper.STRONG].errors(truth).y.max() < 1e-11 * max(size, outside.max())
    assert outside.min() > 1


def test_who_knows_a_secret_offset():
    """An agent says its part to all its neighbours: who hears all parts around the victim knows the offset."""
    graph = Graph.ring(6)
    heard, truth, _ = run(RIDGE, paper.offset, graph, agents=6)
    assert secret_offset(heard, graph, [0], 1) is None
    first = heard.visits(1)[0]
    start = secret_offset(heard, graph, [0, 2], 1)
    np.testing.assert_allclose(truth.x[first] - truth.y[first] / RIDGE.penalty - start, heard.sums[first], atol=1e-12)
    whole = Graph.complete(6)
    heard, *_ = run(RIDGE, paper.offset, whole, agents=6)
    np.testing.assert_allclose(
        sum(secret_offset(heard, whole, [0], i) for i in range(6)), 0, atol=1e-12
    )  # one agent knows all of them
    plain, *_ = run(RIDGE, paper.i_admm, whole, agents=6)
    assert secret_offset(plain, whole, [0, 2], 1) is None


def test_neighbours_on_the_command_line(tacit):
    code, out, _ = tacit("attack", "offset", "--who", "neighbours", "--graph", "ring", "--agents", "6", "--json")
    assert code == 0
    errors = json.loads(out)["errors"]
    assert errors["recursion, γ = 1"]["gradient_last"] < 1e-9
    assert errors["(a guess of zero)"]["gradient_last"] > 0.1
    code, out, _ = tacit("attack", "offset", "--who", "neighbours", "--graph", "ring", "--agents", "6")
    assert code == 0
    assert "The two neighbours of an agent have the gradients exactly." in out
    assert "The two know the secret offset of 6 of 6 agents." in out
