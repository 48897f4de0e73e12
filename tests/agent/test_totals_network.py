"""Members that share their noise, each in its own process: the simulation's bits, however often they are killed."""

import json
import random
import time
from collections import Counter

import agent_network
import numpy as np
import pytest
from agent_network import PARTS
from agent_worker import NAMES, SEED
from test_store import faults

import tacit
from tacit.agent.certificate.signed_report import verified
from tacit.exchange.totals import IdealTotals
from tacit.privacy.events import SharedGaussian

KILLS = 8  # `make chaos` kills more often
identities, network = agent_network.identities, agent_network.network  # fixtures


class Overheard(IdealTotals):
    """Notes the rows that go into totals; `simulate` itself lets nobody listen to them."""

    def __init__(self):
        self.said = {}

    def open(self, graph):
        link = super().open(graph)
        deliver = link.deliver

        def noted(release, turn, t):
            self.said.update({(t, i): row.copy() for i, row in enumerate(release.value)})
            return deliver(release, turn, t)

        link.deliver = noted
        return link


def assert_as_simulated(net):
    """Every model and every row has the bits of the simulation, every ledger what was planned, once."""
    setting = net.federation.setting
    facts, overheard = setting.facts, Overheard()
    problem = tacit.Problem(PARTS, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)

    run = tacit.simulate(
        setting.algorithm,
        problem,
        net.federation.graph,
        rounds=setting.rounds,
        noise=tacit.SeededNoise(SEED),
        exchange=overheard,
    )
    np.testing.assert_array_equal(net.models(), run.estimate)
    heard, said = net.said(), overheard.said
    assert heard.keys() == said.keys()
    for key, row in said.items():
        np.testing.assert_array_equal(heard[key], row)
    agent_network.assert_consistent(net)
    for i, name in enumerate(NAMES):
        events = Counter(event for _, _, event in net.releases(i))
        (event,) = events
        assert events == run.spent[i]
        assert isinstance(event, SharedGaussian)
        report = verified(net.folder / f"{name}.report.json", net.federation)
        assert report["epsilon"] <= net.federation.spec.budget.epsilon


@pytest.mark.parametrize("kind", ["totals", "totals, ring"])
def test_five_processes_have_the_bits_of_the_simulation(network, kind):
    net = network(kind)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)
    assert len(set(map(json.dumps, net.models().tolist()))) == 1  # all members have the same model


FAULTS = faults(
    """paid 0, committed 0, answering 0, answering 1, answering 2, may leave 0, answered 0, answered 3, asked 1,
    answered 2, asked 3, asked 7, computed 1, marked in the ledger 0, answering 5, finished 0"""
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["totals", "totals, ring"])
def test_a_member_that_dies_at_every_point_of_its_way(network, kind):
    net = network(kind)
    net.start(0, 2, 3, 4)
    for fault in FAULTS:
        net.start(1, fault=fault)
        assert net.ended(1) == -9, (fault, net.log(1))
    net.start(1)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["totals", "totals, ring"])
def test_members_that_are_killed_at_random_moments(network, kind):
    """Several at once, too. Between two deaths everybody gets at least one tick further."""
    net, rng = network(kind), random.Random(7)
    net.start(*range(5), slow=0.02)
    killed, moments = 0, set()
    while killed < KILLS:
        reached = min(net.tick(i) for i in range(5))
        for i in range(5):
            net.reaches(i, reached + 1)
        time.sleep(rng.uniform(0.0, 0.3))
        victims = rng.sample(range(5), rng.choice([1, 1, 2, 5]))
        for victim in victims:
            net.lives[victim].kill()
        for victim in victims:
            assert net.ended(victim) == -9
            moments.add(net.tick(victim))
            net.start(victim, slow=0.02)
        killed += len(victims)
    assert len(moments) > 2, moments  # spread over the run
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)
