"""What a run, a training and an estimator say that they cost is what the events add up to that are counted again where
messages leave: for every method, with and without a noisy count, on graphs that a coalition can cut and on others.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from adversary import methods

import tacit
from tacit.algorithms.gradient_descent import GradientDescent
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.data import Classes, Dataset, Number, Schema
from tacit.errors import TacitError
from tacit.estimators import FederatedClassifier
from tacit.privacy import filters
from tacit.privacy.accounting import epsilon, rounded_up
from tacit.privacy.events import Free, Gaussian, Pure, SharedGaussian, Unprotected
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.plan.every_tick import NoNoise
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.spending import require_as_planned
from tacit.run.training import train_privately
from tacit.run.trust import LOCAL as TRUSTING
from tacit.run.trust import Reserve, Trust
from tacit.simulation import tick as ticks

DELTA = 1e-5


@pytest.fixture
def left(monkeypatch):
    """What has left, member by member: counted at every tick at which somebody speaks, of real noise only."""
    counted, speak = {}, ticks.speak

    def heard(algorithm, state, blocks, noise, speakers, t):
        after, release = speak(algorithm, state, blocks, noise, speakers, t)
        if not isinstance(noise, NoNoise):  # a plan
            assert len(release.events) == len(speakers)
            for agent, event in zip(speakers.tolist(), release.events, strict=True):
                counted.setdefault(agent, Counter())[event] += 1
        return after, release

    monkeypatch.setattr(ticks, "speak", heard)
    return counted


def paid(spent):
    return [Counter({event: n for event, n in each.items() if not isinstance(event, Free)}) for each in spent]


def cost(each, size, connectivity):
    """Of one member's events, against a coalition of a size: of shared noise, what the others have added."""
    faced = Counter()
    for event, n in each.items():
        if isinstance(event, SharedGaussian):
            cut = connectivity is not None and size + event.dropouts >= connectivity
            shares = 1 if cut else max(1, event.members - event.dropouts - size)
            faced[Gaussian(event.multiplier * shares**0.5)] += n
        elif not isinstance(event, Free):
            faced[event] += n
    return epsilon(faced, DELTA)


def assert_says(guarantee, left, members, colluders, connectivity=None):
    """It is what was counted, of the member that pays most, against every coalition."""
    spent = [left[agent] for agent in range(members)]
    assert guarantee.epsilon == pytest.approx(max(cost(each, colluders, connectivity) for each in spent), rel=1e-9)
    costs = [rounded_up(max(cost(each, size, connectivity) for each in spent)) for size, _ in guarantee.curve]
    assert [each.epsilon for each in guarantee.curve] == costs
    assert len(costs) == members - guarantee.dropouts


# A run


@pytest.mark.parametrize("name", methods(tacit.Gaussian(5.0)))
def test_a_run_has_spent_what_has_left(name, left):
    rng = np.random.default_rng(0)
    for members, rounds in ((3, 7), (4, 12)):
        left.clear()
        sizes, graph = rng.integers(20, 60, size=members), Graph.complete(members)
        X = rng.normal(size=(int(sizes.sum()), 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        problem = tacit.Problem.stacked(X, y, sizes, loss=HuberHinge(1.0), l2=0.1)
        method = methods(tacit.Gaussian(5.0))[name]
        run = tacit.simulate(method, problem, graph, rounds=rounds, noise=tacit.SeededNoise(1))
        assert list(run.spent) == [left.get(agent, Counter()) for agent in range(members)]
        assert paid(run.spent) == [Counter(each) for each in paid(planned(method, problem, graph, rounds))]
        assert any(paid(run.spent))


def planned(method, problem, graph, rounds):
    return tacit.plan(method, tacit.Facts.of(problem), graph, rounds).spent


# A training

SCHEMA = Schema(
    label=Classes("y", positive=("yes",), negative=("no",)),
    columns=(Number("a", bounds=(0, 1)), Number("b", bounds=(0, 1))),
    row_norm=1.0,
)
LOCAL = ["mr-admm", "gradient-descent", "pvp", "one-shot", "pi-admm"]
SIZES = (400, 700, 500, 600, 450)


def records(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 0.7, size=(sum(SIZES), 2))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=len(X)) > 0.4, 1.0, -1.0)
    parts = np.split(np.arange(len(X)), np.cumsum(SIZES)[:-1])
    return Dataset(X, y, SCHEMA.feature_names, np.arange(len(X))), parts


def trained(name, graph, tmp_path, counting, trust=TRUSTING):
    """With a ledger that pays for it; what it spent, too."""
    data, parts = records()
    with Ledger.new(tmp_path / "ledger", population="all", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(50.0, DELTA))
        asked = Request(Budget(2.0, DELTA), trust, method=name, count=counting)
        setting = asked.resolved(SCHEMA.label, [len(part) for part in parts], SCHEMA.model_dimension, graph)
        found = train_privately(setting, data, SCHEMA, parts, noise=tacit.SeededNoise(3), ledger=ledger)
        return found, ledger.spent(), ledger.epsilon()


@pytest.mark.parametrize(
    ("name", "counting"),
    [*((name, False) for name in LOCAL), *((name, True) for name in LOCAL if name != "one-shot")],
)
def test_a_training_says_and_pays_what_has_left(name, counting, left, tmp_path, short_recipes):
    found, spent, charged = trained(name, Graph.ring(5), tmp_path, counting)
    assert_says(found.guarantee, left, 5, colluders=4)
    assert found.model.privacy["epsilon"] == found.epsilon
    assert 1.9 < found.epsilon <= 2.0
    assert spent.total() == max(each.total() for each in paid(left.values()))  # with the noisy count
    assert charged >= found.epsilon * (1 - 1e-9)


@pytest.mark.parametrize(
    ("graph", "reserve", "counting"),
    [
        (Graph.complete(5), Reserve(1), False),
        (Graph.ring(5), Reserve(1), True),
        (Graph.complete(5), Reserve(2, dropouts=1), True),
        (Graph.ring(5), Reserve(0), False),
    ],
    ids=["complete", "ring, counted", "dropouts, counted", "ring"],
)
def test_so_does_one_with_shared_noise_against_every_coalition(graph, reserve, counting, left, tmp_path, short_recipes):
    """On a ring any two members can cut a third one off: against two, its own share is all that hides it."""
    found, spent, charged = trained("shared-descent", graph, tmp_path, counting, Trust.of(reserve))
    assert_says(found.guarantee, left, 5, reserve.colluders, graph.connectivity)
    privacy = found.model.privacy
    assert (privacy["colluders"], privacy["dropouts"]) == (reserve.colluders, reserve.dropouts)
    assert [each["epsilon"] for each in privacy["coalitions"]] == [cost for _, cost in found.guarantee.curve]
    if graph == Graph.ring(5):
        assert found.guarantee.curve[2].epsilon == found.guarantee.curve[4].epsilon > found.epsilon
    assert spent.total() == max(each.total() for each in paid(left.values()))
    assert charged >= found.epsilon * (1 - 1e-9)


def test_a_training_that_costs_other_than_planned_keeps_nothing(monkeypatch, tmp_path, short_recipes):
    """Planted: a method that says other events than its plan."""
    honest, calls = GradientDescent.speak, itertools.count()

    def cheaper(self, state, problem, view, noise, t):
        after, release = honest(self, state, problem, view, noise, t)
        if isinstance(noise, NoNoise) or next(calls) != 2:
            return after, release
        return after, release._replace(events=[Gaussian(1e9)] * len(release.events))

    monkeypatch.setattr(GradientDescent, "speak", cheaper)
    with pytest.raises(TacitError, match="did not cost what was planned; nothing of it is kept"):
        trained("gradient-descent", Graph.ring(5), tmp_path, False)
    with Ledger(tmp_path / "ledger", cost=filters.epsilon) as ledger:
        assert [run.events.total() > 0 for run in ledger.runs()] == [True]  # it has paid
        assert not ledger.told()  # and nothing is stored


@pytest.mark.parametrize(
    "other",
    [Gaussian(2.0 * (1 - 1e-9)), Gaussian(2.0 * (1 + 1e-9)), Pure(0.5), Free("a mean"), Unprotected()],
    ids=str,
)
def test_events_of_another_cost_are_not_those_that_were_planned(other):
    """Also with as many of them. Last bits may differ."""
    planned = [Counter({Gaussian(2.0): 3})] * 2
    require_as_planned([Counter({Gaussian(2.0 * (1 - 4e-16)): 3})] * 2, planned)
    with pytest.raises(TacitError, match="did not cost what was planned; nothing of it is kept"):
        require_as_planned([planned[0], Counter({other: 3})], planned)


def test_whoever_gives_a_seed_gets_no_private_statement():
    """What a model says of itself in one field and in words agrees."""
    data, parts = records()
    asked = Request(Budget(2.0, DELTA), method="one-shot")
    setting = asked.resolved(SCHEMA.label, [len(part) for part in parts], SCHEMA.model_dimension, Graph.ring(5))
    seeded, fresh = (
        train_privately(setting, data, SCHEMA, parts, noise=noise).model.privacy
        for noise in (tacit.SeededNoise(3), tacit.SecureNoise())
    )
    assert (seeded["private"], fresh["private"]) == (False, True)
    assert seeded["statement"].startswith("not private: the noise was seeded; with fresh noise it is (")
    assert "not private" not in fresh["statement"]


# An estimator


@pytest.mark.filterwarnings("ignore:some of these records were fitted")
@pytest.mark.parametrize(
    ("settings", "colluders"),
    [
        ({"method": "gradient-descent"}, 4),
        ({"method": "gradient-descent", "positive_share": "noisy"}, 4),
        ({"method": "mr-admm", "positive_share": "noisy"}, 4),
        ({"colluders": 2}, 2),
        ({"colluders": 1, "positive_share": "noisy"}, 1),
    ],
    ids=lambda value: "" if isinstance(value, int) else ", ".join(f"{k} {v}" for k, v in value.items()),
)
def test_an_estimator_says_and_pays_what_has_left(settings, colluders, left, tmp_path, short_recipes):
    data, parts = records(1)
    sites = np.repeat(np.arange(5), SIZES)
    with Ledger.new(tmp_path / "ledger", population="all", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(50.0, DELTA))
        model = FederatedClassifier(
            epsilon=2.0, delta=DELTA, bounds=(0, 1), classes=[-1, 1], ledger=ledger, **settings
        ).fit(data.X, data.y, sites=sites)
        spent = ledger.spent()
    assert len(parts) == 5
    connectivity = model.graph_.connectivity if "colluders" in settings else None
    assert_says(model.privacy_.coalitions, left, 5, colluders, connectivity)
    assert model.privacy_.epsilon == pytest.approx(model.privacy_.coalitions.epsilon, rel=1e-9)
    assert 1.9 < model.privacy_.epsilon <= 2.0
    most = max(each.total() for each in paid(left.values()))
    assert spent.total() == most
    assert paid([model.privacy_.events])[0].total() == most
