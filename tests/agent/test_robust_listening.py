"""Agents that listen robustly: as the simulation does, over a crash, too; and they log whose messages were moved."""

import agent_network
import agent_worker as worker
from agent_network import assert_as_simulated
from agent_worker import NAMES

import tacit
from tacit.agent.robust_listening import listened

identities, network = agent_network.identities, agent_network.network  # fixtures
BIRCH = 1


def test_what_robust_listeners_remember_survives_a_crash_and_is_reported(network, identities):
    net = network("robust")
    net.start(0, 2, 3, 4)
    net.start(BIRCH, fault=("committed", 6))
    assert net.ended(BIRCH) == -9
    net.start(BIRCH)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)
    for i in range(len(NAMES)):
        participant = worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise())
        reported = listened(participant)
        assert reported["robust"] == "clipping"
        assert reported["moved"]  # with clipping, somebody is always farther away than the median
        for other, found in reported["moved"].items():
            assert 0 < found["mean"] <= found["largest"]
            assert f"what {other} said was moved at {found['ticks']} of 12 ticks" in net.log(i)
