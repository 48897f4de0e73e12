"""Agents in real processes, on real sockets: the simulation's result, whatever happens on the way."""

import random
import sqlite3
import time

import agent_network
import pytest
from agent_network import Relay, assert_as_simulated, assert_consistent
from agent_worker import NAMES, SETTINGS, free_ports

from tacit.agent.store import status

identities, network = agent_network.identities, agent_network.network  # fixtures


@pytest.mark.parametrize("kind", SETTINGS)
def test_five_agents_do_what_the_simulation_does(network, kind):
    net = network(kind)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    run = assert_as_simulated(net)
    spent = [status(net.folder / f"{name}.store").events for name in NAMES]
    assert [dict(counter) for counter in run.spent] == [{event: all.count(event) for event in all} for all in spent]


# Crashes

FAULTS = {
    "recycled": [
        ("paid", 0), ("computed", 0), ("committed", 0), ("told the ledger", 0), ("may leave", 0), ("asked", 2),
        ("committed", 1), ("may leave", 2), ("asked", 4), ("computed", 1), ("committed", 0), ("finished", 0),
        ("told the ledger", 3),
    ],
    "token": [
        ("paid", 0), ("asked", 0), ("computed", 0), ("committed", 0), ("told the ledger", 0), ("may leave", 0),
        ("asked", 0), ("computed", 0), ("may leave", 1), ("committed", 0), ("finished", 0), ("told the ledger", 2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_an_agent_that_dies_at_every_point_of_its_way(network, kind):
    """Once with the noise that the simulation has; the token with other noise in every life, as it really is."""
    net, fresh = network(kind), kind == "token"
    net.start(0, 2, 3, 4)
    for life, fault in enumerate(FAULTS[kind], start=1):
        net.start(1, fault=fault, life=life * fresh)
        assert net.ended(1) == -9, fault
    net.start(1)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    if fresh:
        assert_consistent(net)
    else:
        assert_as_simulated(net)


def test_what_leaves_before_it_is_committed_is_caught(network):
    """The test above can fail: a planted bug gives a message two versions."""
    net = network("token")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("forgets to commit", 1))
    assert net.ended(1) == -9
    net.start(1, life=1)
    assert net.ended(1) == 0
    assert max(net.versions().values()) == 2


def test_agents_that_are_killed_at_random_moments(network):
    net, rng = network("recycled"), random.Random(5)
    net.start(*range(5), slow=0.1)
    killed = 0
    for _ in range(7):
        time.sleep(rng.uniform(0.0, 0.5))
        victim = rng.randrange(5)
        net.lives[victim].kill()
        killed += net.ended(victim) == -9
        net.start(victim, slow=0.1)
    assert killed >= 5
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)


def test_an_old_copy_of_a_store_is_noticed(network):
    net = network("recycled")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("may leave", 3))
    assert net.ended(1) == -9
    store = sqlite3.connect(net.folder / "birch.store")
    store.execute("DELETE FROM releases WHERE tick > 0")  # forgets ticks 1 and 2, and its state after them
    store.execute("UPDATE state SET tick = 0")
    store.commit()
    store.close()
    net.start(1)
    assert net.ended(1) == 1
    assert "is an old copy" in net.log(1)


def test_a_lost_store_is_noticed(network):
    net = network("recycled")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("may leave", 3))
    assert net.ended(1) == -9
    for path in net.folder.glob("birch.store*"):
        path.unlink()
    net.start(1)
    assert net.ended(1) == 1
    assert "the ledger knows that birch has spoken in this run" in net.log(1)


# Bad lines


@pytest.mark.parametrize("fault", ["cut", "held"])
def test_a_line_that_fails_for_a_while(network, fault):
    net = network("recycled")
    hidden = f"127.0.0.1:{free_ports(1)[0]}"
    line = Relay(net.federation.members[1].address, hidden)
    try:
        net.start(1, slow=0.1, listen=hidden)
        net.start(0, 2, 3, 4, slow=0.1)
        deadline = time.monotonic() + 240
        while net.tick(1) < 2:
            assert time.monotonic() < deadline, net.log(1)
            time.sleep(0.05)
        line.cut() if fault == "cut" else line.hold()
        reached = net.tick(1)
        time.sleep(4)
        assert net.tick(0) <= reached + 2  # alder waits for birch
        line.mend() if fault == "cut" else line.let_go()
        assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
        assert_as_simulated(net)
    finally:
        net.stop()
        line.close()
