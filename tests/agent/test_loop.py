"""Agents in real processes, on real sockets: the simulation's result, whatever happens on the way."""

import agent_network
import pytest
from agent_network import assert_as_simulated
from agent_worker import NAMES, SETTINGS

from tacit.agent.store import status

identities, network = agent_network.identities, agent_network.network  # fixtures


@pytest.mark.parametrize("kind", [kind for kind in SETTINGS if kind != "recycled, long"])
def test_five_agents_do_what_the_simulation_does(network, kind):
    net = network(kind)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    run = assert_as_simulated(net)
    spent = [status(net.folder / f"{name}.store").events for name in NAMES]
    assert [dict(counter) for counter in run.spent] == [{event: all.count(event) for event in all} for all in spent]
