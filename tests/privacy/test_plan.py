"""Plans: the run without data. What a plan says is what the run spends, and calibration meets its target."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from private_case import (
    FACTS,
    GRAPH,
    GROWING,
    METHODS,
    RHO,
    SCALE,
    SIZES,
    WITH_ALPHA,
    D,
    problem,
    run,
)

import tacit
from tacit.algorithms import PenaltyPerturbedADMM
from tacit.core.facts import Facts
from tacit.core.losses import HuberHinge, Logistic
from tacit.privacy.accounting import totals
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.plan import calibrate, plan


@pytest.mark.parametrize("settings", [*(f"{name} alpha" for name in WITH_ALPHA), *METHODS])
def test_a_plan_is_what_the_run_spends(settings):
    name = settings.removesuffix(" alpha")
    budgets = [None] if settings != name else [Gaussian(2.5)] if name == "descent" else [Gaussian(2.5), Pure(1.5)]
    for budget in budgets:
        method = WITH_ALPHA[name] if budget is None else METHODS[name](budget)
        done = run(method, tacit.SeededNoise(1), rounds=5)
        planned = plan(method, FACTS, GRAPH, 5)
        assert planned.spent == done.spent
        assert planned.spent == plan(method, problem(), GRAPH, 5).spent
        assert [Counter(events) for events in planned.events] == done.spent
        assert all(len(events) == 5 for events in planned.events)
        each_total = [totals(counter, 1e-5) for counter in done.spent]
        assert planned.totals(1e-5) == each_total
        assert planned.epsilon(1e-5) == max(t.best for t in each_total)
    loss = HuberHinge(width=0.3)
    if settings == name:
        facts = Facts(sizes=SIZES, dimension=D, scale=SCALE, l2=RHO, tolerance=1e-11, loss=loss)
        assert plan(method, facts, GRAPH, 2).spent == run(method, tacit.SeededNoise(1), 2, problem(loss=loss)).spent


LOOKS = {
    "_store",
    "gradient",
    "data_gradient",
    "sampled_gradient",
    "sampled_data_gradient",
    "argmin",
    "sure_argmin",
    "value",
    "average_loss",
    "second_moment",
    "smoothness",
    "require_row_norm",
    "take",
}


def test_a_plan_looks_at_no_data():
    class Guarded(tacit.Problem):
        def __getattribute__(self, name):
            if name in LOOKS:
                raise AssertionError(f"the plan asked for {name}")
            return super().__getattribute__(name)

        sizes, dimension, agents = np.array(SIZES), D, 5

    guarded = Guarded.__new__(Guarded)
    guarded.loss, guarded.scale, guarded.l2, guarded.tolerance = Logistic(), SCALE, RHO, 1e-11
    guarded.radius = FACTS.radius
    for name, make in METHODS.items():
        method = make(Gaussian(2.0))
        assert plan(method, guarded, GRAPH, 3).spent == plan(method, FACTS, GRAPH, 3).spent, name


@pytest.mark.parametrize(
    ("name", "law"),  # gradient descent has Gaussian noise only
    [pair for pair in itertools.product(METHODS, (Pure, Gaussian)) if pair != ("descent", Pure)],
)
def test_calibration_meets_its_target_from_below(name, law):
    facts = Facts(sizes=[700, 4000, 2300, 6100, 1200], dimension=D, scale=SCALE, l2=RHO)
    best = calibrate(METHODS[name], facts, GRAPH, 6, epsilon=2.0, delta=1e-6, law=law)
    assert isinstance(best.budget, law)
    assert 2.0 * 0.99 <= plan(best, facts, GRAPH, 6).epsilon(1e-6) <= 2.0


@pytest.mark.parametrize("law", [Pure, Gaussian])
def test_a_calibrated_budget_has_ten_digits(law):
    """Another machine may find other last bits, and must plan the same run."""
    for epsilon in (2.0, 3.1, 4.7):
        made = calibrate(METHODS["dvp"], FACTS, GRAPH, 5, epsilon=epsilon, delta=1e-5, law=law)
        p = made.budget.epsilon if law is Pure else 1 / made.budget.multiplier
        assert abs(p - float(f"{p:.10g}")) <= 4e-16 * p


def test_calibration_by_the_agent_that_pays_most():
    """With noise of one alpha for all the agents' totals differ: the largest is what counts."""
    facts = Facts(sizes=[6100, 4000, 2300, 700, 1200], dimension=D, scale=SCALE, l2=RHO)

    def make(budget):
        return PenaltyPerturbedADMM(GROWING, alpha=1000 * budget.epsilon)

    made = calibrate(make, facts, GRAPH, 5, epsilon=1.0, delta=1e-6, law=Pure)
    each_total = [t.best for t in plan(made, facts, GRAPH, 5).totals(1e-6)]
    assert 0.99 <= max(each_total) <= 1.0
    assert each_total[0] < 0.5
    assert np.argmax(each_total) == 3


def test_plans_and_calibrations_refuse_bad_facts():
    for bad in ([], [[3, 4]], [3, 0], [2.5, 1.0]):
        with pytest.raises(tacit.InputError, match="numbers of rows"):
            Facts(sizes=bad, dimension=2)
    with pytest.raises(tacit.InputError, match="dimension is 1 or more"):
        Facts(sizes=[3], dimension=0)
    for bad in (0.0, [1.0, 2.0], math.nan):
        with pytest.raises(tacit.InputError, match="scale must be a positive number"):
            Facts(sizes=[3], dimension=1, scale=bad)
    with pytest.raises(tacit.InputError, match="l2 must be"):
        Facts(sizes=[3], dimension=1, l2=-1.0)
    with pytest.raises(tacit.InputError, match="the graph has 3 agents, the facts have 5"):
        plan(METHODS["dvp"](Pure(1.0)), FACTS, tacit.Graph.ring(3), 2)
    for settings, match in (({"epsilon": 0.0}, "epsilon must be"), ({"delta": 1.0}, "delta must lie")):
        with pytest.raises(tacit.InputError, match=match):
            calibrate(METHODS["dvp"], FACTS, GRAPH, 2, **{"epsilon": 1.0, "delta": 1e-5, **settings})
