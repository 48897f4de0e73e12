"""Laws of bookkeeping that mutants break (`tests/mutants`): what depends on a record is charged, and what is
charged is what the ledger, the statement and the budget have."""

import asyncio
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest

import tacit
from tacit.agent.loop import AgentLoop
from tacit.core.graph import Graph
from tacit.core.release import Inbox
from tacit.data import Classes, Dataset, Number, Schema
from tacit.errors import TacitError
from tacit.lab.audit.named import recipe_case
from tacit.privacy import filters
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import Free
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.mechanisms import _LAYER
from tacit.privacy.noise import SeededNoise
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.request import Request
from tacit.run.share import share_event
from tacit.run.training import train_privately
from tacit.run.trust import LOCAL, Trust

identities, network = agent_network.identities, agent_network.network  # fixtures


def of_a_local_method(name):
    """The method, both problems, its view, its ticks and what it hears at each of them."""
    case = recipe_case(name, 4.0, rounds=2)
    problems = [case.problem(which, 1) for which in (0, 1)]
    heard = [Inbox(np.zeros((hears, 2)), np.array([0, hears])) if hears else None for _, hears in case.roles]
    return case.algorithm, problems, case.graph.view(np.array([0])), [speaks for speaks, _ in case.roles], heard


def of_shared_noise(name):
    """As one of five members; it hears no totals, so that the model stays where it is."""
    graph, rows = Graph.complete(5), np.array([[0.6, 0.8], [0.0, 0.0]])
    setting = RECIPES[name].setting([2] * 5, 2, graph, Budget(4.0, 1e-5), Trust(1))
    facts = setting.facts
    problems = [
        tacit.Problem([(each, np.ones(2))], loss=facts.loss, l2=facts.l2, radius=facts.radius) for each in (rows, -rows)
    ]
    return setting.algorithm, problems, graph.view(np.array([0])), [True, True], [None, None]


@pytest.mark.parametrize("name", RECIPES)
def test_what_depends_on_a_record_is_charged(name):
    """Two neighbours in the same state with the same noise: a release that differs is not free, at any tick. (But for
    coordinates of a step whose first one has paid for all of them.)"""
    algorithm, problems, view, speaks, heard = (of_shared_noise if RECIPES[name].traits.totals else of_a_local_method)(
        name
    )
    start = np.zeros((1, 2))
    state = algorithm.init(problems[0], view, start, Inbox(np.zeros((0, 2)), np.zeros(2, dtype=int)))
    depends = 0
    for t, inbox in enumerate(heard):
        if speaks[t]:
            after, release = algorithm.speak(state, problems[0], view, SeededNoise(1), t)
            _, other = algorithm.speak(state, problems[1], view, SeededNoise(1), t)
            if np.any(release.value != other.value):
                (event,) = release.events
                assert not isinstance(event, Free) or event == _LAYER
                depends += not isinstance(event, Free)
            state = after
        if inbox is not None:
            state = algorithm.listen(state, inbox, view, t)
    assert depends > 0


TWO = Schema(
    label=Classes("y", positive=("yes",), negative=("no",)), columns=(Number("x", bounds=(0, 1)),), row_norm=1.0
)


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(("name", "trust"), [("gradient-descent", LOCAL), ("shared-descent", Trust(1))])
def test_the_ledger_the_statement_and_the_budget_have_the_same_events(name, trust, count, tmp_path):
    """Those of the noisy count among them; together they use the budget up, and no more."""
    rng = np.random.default_rng(0)
    data = Dataset(rng.random((300, 1)), np.where(rng.random(300) < 0.1, 1.0, -1.0), TWO.feature_names, np.arange(300))
    with Ledger.new(tmp_path / "ward", population="ward", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(5.0, 1e-4))
        asked = Request(Budget(1.0, 1e-4), trust, method=name, count=count)
        setting = asked.resolved(TWO.label, [100] * 3, TWO.model_dimension, Graph.complete(3))
        trained = train_privately(setting, data, TWO, np.split(np.arange(300), 3), ledger=ledger)
        spent = ledger.spent()
        assert spent[share_event(1.0, 1e-4)] == count
    cost = epsilon(spent, 1e-4)
    assert 0.9999 < cost <= 1.0  # one release less of fifty would cost 0.99
    assert trained.model.privacy["epsilon"] == pytest.approx(cost, rel=1e-9)


def test_an_agent_sends_nothing_that_it_did_not_plan(network, identities):
    """A method that costs more at a tick than was paid for: the run ends there, and nothing is committed."""
    net = network("recycled")
    alder = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise()).started()
    (first, planned), *_ = sorted(alder.events.items())
    vars(alder)["events"] = alder.events | {first: replace(planned, multiplier=2 * planned.multiplier)}

    async def spoken():
        loop = AgentLoop(alder, lambda doing, done, rounds: None)
        loop._pay()
        await loop._speak(first)

    with pytest.raises(TacitError, match=rf"tick {first} would cost .* was planned and paid for; nothing was sent"):
        asyncio.run(spoken())
    assert alder.store.releases() == []
