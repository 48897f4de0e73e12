"""One agent of a class stands for all of equal size, scale and degree; where that is not the plan, it is not done."""

import numpy as np
import pytest

import tacit
from tacit.algorithms import (
    Averaged,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationGD,
    RecycledADMM,
    SummedGradientDescent,
)
from tacit.core.release import Inbox
from tacit.exchange import usual_exchange
from tacit.privacy.events import Gaussian
from tacit.privacy.plan import every_tick
from tacit.privacy.plan import planner as module
from tacit.simulation.tick import Blocks, tick

N, D, ROUNDS = 12, 15, 5
GRAPH = tacit.Graph.random(N, 20, seed=4)
FACTS = tacit.Facts(sizes=[40, 60] * (N // 2), dimension=D, scale=[1.0] * 8 + [2.0] * 4, l2=0.5, tolerance=1e-11)


def one_by_one(method, graph=GRAPH, facts=FACTS, rounds=ROUNDS):
    """The plan in which every agent speaks for itself."""
    heard = Inbox(np.zeros((graph.agents, facts.dimension)), graph.indptr, graph.indices)
    turns = map(method.schedule(graph).turn, range(rounds))
    return every_tick.planned(
        method, Blocks(facts, graph.view()), heard, turns, rounds, usual_exchange(method).open(graph)
    )


METHODS = {
    "dvp": lambda b: DualPerturbedADMM(penalty=0.5, budget=b),
    "pvp": lambda b: PrimalPerturbedADMM(penalty=0.5, final=2, budget=b),
    "m-admm": lambda b: PenaltyPerturbedADMM([0.5, 0.6, 0.7, 0.8, 0.9], budget=b),
    "r-admm": lambda b: RecycledADMM(Geometric(0.5, 1.2, cap=0.7), 0.4, budget=b),
    "one-shot": lambda b: OneShotAveraging(mixing=0.2, budget=b),
    "descent": lambda b: GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=b),
    "random aggregation": lambda b: RandomAggregationGD(step=0.1, budget=b),
    "averaged": lambda b: Averaged(method=RecycledADMM(0.5, 0.4, budget=b), ticks=3, mixing=0.1),
    "exact": lambda b: ConsensusADMM(),
}


@pytest.mark.parametrize("name", METHODS)
def test_classes_plan_what_agents_plan(name):
    method = METHODS[name](Gaussian(2.5))
    planned, full = tacit.plan(method, FACTS, GRAPH, ROUNDS), one_by_one(method)
    assert planned.events == full.events
    assert planned.spent == full.spent
    assert len(planned.events.items) < N
    assert [list(c) for c in planned.spent] == [list(c) for c in full.spent]  # in the same order


def test_totals_too():
    method = SummedGradientDescent(step=0.1, deviation=5.0, colluders=1)
    graph = tacit.Graph.complete(N)
    planned = tacit.plan(method, FACTS, graph, ROUNDS)
    assert planned.events == one_by_one(method, graph).events
    assert len(planned.events.items) == 4


@pytest.mark.parametrize(
    "method",
    [
        DualPerturbedADMM(penalty=0.5, alpha=np.geomspace(0.1, 1.0, ROUNDS * N).reshape(ROUNDS, N)),
        DualPerturbedADMM(penalty=0.5, alpha=lambda k: (0.1,) * 6 + (0.2,) * 6),
        IncrementalADMM(deviation=1.0),
    ],
)
def test_agents_that_differ_in_more_have_plans_of_their_own(method):
    graph = tacit.Graph.ring(N)
    facts = tacit.Facts(sizes=[50] * N, dimension=D, l2=0.5, tolerance=1e-11)
    planned = tacit.plan(method, facts, graph, ROUNDS)
    full = one_by_one(method, graph, facts)
    assert planned.events == full.events
    assert planned.paper is None or np.array_equal(planned.paper, full.paper)
    assert len({tuple(events) for events in planned.events}) > 1


def test_of_many_equal_agents_one_speaks(monkeypatch):
    spoken = []

    def counted(*given):
        state, release = tick(*given)
        spoken.append(len(release.events))
        return state, release

    for where in (module, every_tick):
        monkeypatch.setattr(where, "tick", counted)
    n = 20_000
    facts = tacit.Facts(sizes=[50] * n, dimension=D, l2=0.5)
    planned = tacit.plan(METHODS["dvp"](Gaussian(2.5)), facts, tacit.Graph.star(n), 3)
    assert spoken == [2]  # the centre, and one of all others, at one tick for all ticks
    assert planned.events[1] is planned.events[n - 1]
    assert len(planned.spent) == len(planned.totals(1e-5)) == n
    assert planned.epsilon(1e-5) == max(total.best for total in planned.totals(1e-5)[:2])


@pytest.mark.parametrize(
    "look",
    [
        lambda ids: ids % 2,
        lambda ids: 1 + ids,
        lambda ids: ids < 3,
        lambda ids: ids == ids,
        lambda ids: np.array([1, 2, 3]) == ids,
        lambda ids: -ids,
        lambda ids: ids | 1,
        lambda ids: 1 in ids,
        lambda ids: ids.max(),
        lambda ids: ids[0],
        lambda ids: np.isin(ids, [1]),
        np.asarray,
        list,
    ],
)
def test_whoever_looks_at_ids_is_told_that_agents_differ(look):
    with pytest.raises(module._NotAlike):
        look(module._Unnamed(3))
