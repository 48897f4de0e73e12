"""Agents in real processes, on real sockets: the simulation's result, whatever happens on the way."""

from collections import Counter

import agent_network
import numpy as np
import pytest
from agent_network import PARTS, assert_as_simulated, assert_consistent
from agent_worker import NAMES, OWN, SEED, SETTINGS

import tacit
from tacit.agent.store import status

identities, network = agent_network.identities, agent_network.network  # fixtures


@pytest.mark.parametrize("kind", [kind for kind in SETTINGS if kind != "recycled, long"])
def test_five_agents_do_what_the_simulation_does(network, kind):
    net = network(kind)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    run = assert_as_simulated(net)
    spent = [status(net.folder / f"{name}.store").events for name in NAMES]
    if kind in OWN:  # to the last bit, by a front that knows nothing of agents
        noise = tacit.SeededNoise(SEED)
        np.testing.assert_array_equal(net.models(), net.federation.setting.simulate(PARTS, noise).run.estimate)
        assert np.abs(net.models()).max() > 0
    if kind != "silent":
        assert net.certificate_faults() == []
    assert [dict(counter) for counter in run.spent] == [{event: all.count(event) for event in all} for all in spent]


@pytest.mark.slow
def test_random_coordinates_by_their_recipe(network):
    """From start to end, with all the rounds that the recipe wants: hundreds, with blocks of coordinates."""
    net = network("coordinates, by the recipe")
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    setting = net.federation.setting
    assert setting.algorithm.ticks == 400
    facts = setting.facts
    problem = tacit.Problem(PARTS, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
    noise, graph = tacit.SeededNoise(SEED), net.federation.graph
    run = tacit.simulate(setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise)
    np.testing.assert_allclose(net.models(), run.estimate, rtol=0, atol=1e-9)
    assert_consistent(net)
    spent = [status(net.folder / f"{name}.store").events for name in NAMES]
    assert list(map(Counter, spent)) == run.spent
    assert all(0 < sum(not event.free for event in events) < 100 for events in spent)
