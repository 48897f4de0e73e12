"""Agents in real processes, on real sockets: the simulation's result, whatever happens on the way."""

from collections import Counter
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import PARTS, assert_as_simulated, assert_consistent
from agent_worker import NAMES, OWN, SEED, SETTINGS

import tacit
from tacit.agent.store import status
from tacit.errors import InputError
from tacit.privacy import accounting
from tacit.privacy.ledger import BudgetExceeded, Cap

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


def test_a_member_brings_the_rows_that_were_agreed_on(network, identities):
    """As many as the file says; and in a private run none of a norm above 1, for which its noise is."""
    net = network("recycled")
    alder = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    assert alder.problem.agents == 1
    X, y, rows = alder.data.X, alder.data.y, len(alder.data)
    for places in (np.arange(rows - 1), np.append(np.arange(rows), 0)):
        some = replace(alder.data, X=X[places], y=y[places], kept=places)
        with pytest.raises(InputError, match=f"says that alder has {rows} rows; the data has {len(places)}"):
            _ = replace(alder, data=some).problem
    longer = X.copy()
    longer[rows // 2] *= (1 + 1e-9) / np.linalg.norm(longer[rows // 2])
    with pytest.raises(InputError, match="above the 1 that the privacy proof assumes"):
        _ = replace(alder, data=replace(alder.data, X=longer)).problem


def test_a_run_that_the_ledger_cannot_pay_for_is_refused_at_the_start(network, identities):
    """Before anybody is met: others would pay for a run in which this member cannot take part."""
    net = network("recycled")
    alder = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    spent = accounting.epsilon(Counter(alder.events.values()), 1e-5)
    alder.ledger.set_cap(Cap(spent * 1.001, 1e-5), who="a test")
    alder.check()
    alder.ledger.set_cap(Cap(spent * 0.999, 1e-5), who="a test")
    with pytest.raises(BudgetExceeded, match="the run is refused"):
        alder.check()
