"""Agents in real processes, on real sockets: the simulation's result, whatever happens on the way."""

import json
import random
import sqlite3
import time
from collections import Counter

import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, PROCESSES, SEED, SETTINGS, D
from conftest import SIZES, make_parts

import tacit
from tacit.agent.identity import Identity
from tacit.agent.store import Store, status
from tacit.agent.wire_pb2 import Message
from tacit.privacy import filters
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger_entries import canonical

PARTS = make_parts(d=D)


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    for name in NAMES:
        Identity.new(name, folder)
    return folder


class Network:
    """Five agents that can be started, killed and started again."""

    def __init__(self, folder, kind, identities):
        self.folder, self.kind, self.identities = folder, kind, identities
        self.federation = worker.federation(folder, kind, worker.free_ports(5), list(SIZES), identities)
        np.savez(
            folder / "data.npz", **{f"{v}{i}": part[k] for i, part in enumerate(PARTS) for k, v in enumerate("Xy")}
        )
        if kind in worker.PRIVATE:
            for name in NAMES:
                with Ledger.new(folder / f"{name}.ledger", dataset=name, cost=filters.epsilon) as ledger:
                    ledger.set_cap(Cap(10.0, 1e-5))
        self.lives = {}

    def start(self, *agents, fault=None, slow=0.0, life=0):
        for i in agents:
            arguments = (self.folder, self.kind, i, self.identities, fault, slow, life)
            self.lives[i] = PROCESSES.Process(target=worker.agent, args=arguments)
            self.lives[i].start()

    def ended(self, i, within=40):
        self.lives[i].join(within)
        code = self.lives[i].exitcode
        assert code is not None, f"{NAMES[i]} does not end:\n{self.log(i)}"
        return code

    def stop(self):
        for life in self.lives.values():
            life.kill()
            life.join()

    def log(self, i):
        path = self.folder / f"{NAMES[i]}.log"
        return path.read_text() if path.exists() else ""

    def models(self):
        return np.array([json.loads((self.folder / f"{name}.json").read_text()) for name in NAMES])

    def store(self, i):
        return Store(self.folder / f"{NAMES[i]}.store", self.federation.run, NAMES[i], self.federation.rounds)

    def said(self):
        """{(tick, agent): row} of all that left."""
        rows = {}
        for i in range(5):
            for tick, raw, _ in self.store(i).releases():
                rows[tick, i] = np.frombuffer(Message.FromString(raw).payload)
        return rows

    def ledger(self, i):
        with Ledger(self.folder / f"{NAMES[i]}.ledger", cost=filters.epsilon) as ledger:
            ledger.verify()
            return [(entry.kind, entry.tick, entry.body) for entry in ledger.entries()]

    def versions(self):
        """How many different answers each (tick, agent) was ever given."""
        lines = {tuple(line.split()) for line in (self.folder / "sent").read_text().splitlines()}
        return Counter((tick, agent) for tick, agent, _ in lines)


@pytest.fixture
def network(tmp_path, identities):
    made = []

    def make(kind, folder="net"):
        (tmp_path / folder).mkdir()
        made.append(Network(tmp_path / folder, kind, identities))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def simulated(kind):
    """The same in one process: models, all that was said, and what it cost."""
    algorithm, rounds = SETTINGS[kind]
    problem = tacit.Problem(PARTS, scale=3.0, l2=worker.L2)
    graph = worker_graph()
    said = {}

    def overheard(t, turn, release):
        said.update({(t, int(i)): row.copy() for i, row in zip(turn.speakers, release.value, strict=True)})

    run = tacit.simulate(algorithm, problem, graph, rounds=rounds, noise=tacit.SeededNoise(SEED), overheard=overheard)
    return run, said


def worker_graph():
    return tacit.Graph.from_edges([(NAMES.index(a), NAMES.index(b)) for a, b in worker.EDGES])


def assert_consistent(net):
    """No message had two versions, and every ledger holds what was planned, once, and what has left."""
    assert set(net.versions().values()) == {1}
    if net.kind in worker.PRIVATE:
        for i in range(5):
            releases = net.store(i).releases()
            reserved = [("reserve", tick, canonical(to_plain(event))) for tick, _, event in releases]
            payloads = [("payload", tick, message) for tick, message, _ in releases]
            assert net.ledger(i)[1:] == reserved + payloads  # after the cap


def assert_as_simulated(net):
    """Every model, every message and every ledger is what an undisturbed run would have given."""
    assert_consistent(net)
    run, said = simulated(net.kind)
    np.testing.assert_allclose(net.models(), run.estimate, rtol=0, atol=1e-9)
    heard = net.said()
    assert heard.keys() == said.keys()
    for key, row in said.items():
        np.testing.assert_allclose(heard[key], row, rtol=0, atol=1e-9)
    return run


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
