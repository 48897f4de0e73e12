"""Settings from public facts: they keep the budget, and the methods learn."""

import numpy as np
import pytest

import tacit
from tacit.errors import GraphError
from tacit.privacy.plan import per_agent_totals, plan
from tacit.workflows.recipes import RECIPES

EPSILON, DELTA = 1.0, 1e-5
SIZES = [900, 2400, 1500, 1200]
RING = tacit.Graph.ring(4)


@pytest.mark.parametrize("name", RECIPES)
def test_no_agent_spends_more_than_the_budget_and_hardly_less(name):
    setting = RECIPES[name].setting(SIZES, 6, RING, EPSILON, DELTA)
    spent = [total.best for total in plan(setting.algorithm, setting.facts, RING, setting.rounds).totals(DELTA)]
    assert max(spent) <= EPSILON
    assert min(spent) > 0.99 * EPSILON  # every row has the same weight, so one row moves the same for all agents


def test_a_token_visits_every_agent_as_often_and_each_visit_is_paid_for():
    recipe = RECIPES["pi-admm"]
    setting = recipe.setting(SIZES, 6, RING, EPSILON, DELTA)
    assert setting.rounds == recipe.solves * len(SIZES)
    for events in plan(setting.algorithm, setting.facts, RING, setting.rounds).events:
        assert len(events) == recipe.solves
        assert [e.multiplier for e in events] == pytest.approx([setting.algorithm.budget.multiplier] * recipe.solves)


def _rows(rng, n):
    """Rows of norm at most 1, with labels that an intercept alone cannot predict."""
    X = np.hstack([rng.uniform(-1, 1, size=(n, 5)), np.ones((n, 1))]) / np.sqrt(6)
    return X, np.sign(X @ [4.0, -3.0, 2.0, 0.0, 1.0, 0.0] + 0.3 * rng.normal(size=n))


@pytest.mark.parametrize("name", RECIPES)
def test_it_learns(name):
    """With seeded noise. The optimum has an error of 0.064 here, a constant answer one of about a half."""
    setting = RECIPES[name].setting(SIZES, 6, RING, EPSILON, DELTA)
    rng = np.random.default_rng(0)
    facts, parts = setting.facts, [_rows(rng, n) for n in SIZES]
    problem = tacit.Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
    run = tacit.simulate(setting.algorithm, problem, RING, rounds=setting.rounds, noise=tacit.SeededNoise(0))
    X, y = _rows(rng, 4000)
    assert 0.4 < np.mean(y > 0) < 0.6
    assert np.mean(np.sign(X @ run.model) != y) < 0.1
    assert max(total.best for total in per_agent_totals(run.spent, DELTA)) <= EPSILON


@pytest.mark.parametrize("graph", [tacit.Graph.star(4), tacit.Graph.path(4), tacit.Graph.ring(1)])
def test_a_token_without_a_cycle_is_refused(graph):
    with pytest.raises(GraphError, match=r"no Hamiltonian cycle|a token needs at least two agents"):
        RECIPES["pi-admm"].setting([1000] * graph.agents, 6, graph, EPSILON, DELTA)
