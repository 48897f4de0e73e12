"""Hyper-parameters and budgets that change from step to step: what they may be, and that runs do what plans count."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import (
    DPADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationGD,
    RecycledADMM,
)
from tacit.composite import lasso
from tacit.privacy.events import Gaussian, Pure

RING = tacit.Graph.ring(5)
PROBLEM = tacit.Problem(make_parts(), l2=0.2)
FACTS = tacit.Facts.of(PROBLEM)


@dataclass(frozen=True)
class Stairs:
    """Grows by a half every second step."""

    first: float

    def at(self, k, ids):
        return np.full(len(ids), self.first * 1.5 ** (k // 2))


@dataclass
class Loose:
    first: float

    def at(self, k, ids):
        return self.first


@dataclass(frozen=True)
class Drifting:
    """Gives another value every time, which no plan can count."""

    asked: tuple[int, ...] = ()

    def at(self, k, ids):
        object.__setattr__(self, "asked", (*self.asked, k))
        return 1.0 + len(self.asked)


def simulated(method, rounds=6):
    return tacit.simulate(method, PROBLEM, RING, rounds=rounds, noise=tacit.SeededNoise(3))


SAME = [1.0, 1.5, 2.25]
WAYS = {
    "a list": SAME,
    "a 1-D array": np.array(SAME),
    "a 2-D list": [[x] * 5 for x in SAME],
    "a function": lambda k: 1.5**k,
    "a function of math": lambda k: math.exp(k * math.log(1.5)),
    "a Geometric": Geometric(1.0, 1.5),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_state_a_schedule_gives_the_same_run(way):
    expected = simulated(RecycledADMM(penalty=np.array([[x] * 5 for x in SAME]), alpha=2.0))
    done = simulated(RecycledADMM(penalty=WAYS[way], alpha=2.0))
    np.testing.assert_allclose(done.estimate, expected.estimate, rtol=1e-9)
    for mine, theirs in zip(done.spent, expected.spent, strict=True):
        assert sorted(e.epsilon for e in mine if isinstance(e, Pure)) == pytest.approx(
            sorted(e.epsilon for e in theirs if isinstance(e, Pure))
        )


def test_an_object_with_at_and_one_value_for_each_agent():
    stairs = RecycledADMM(penalty=Stairs(1.0), alpha=2.0)
    table = RecycledADMM(penalty=[1.0, 1.0, 1.5], alpha=2.0)
    np.testing.assert_array_equal(simulated(stairs).estimate, simulated(table).estimate)
    own = DualPerturbedADMM(penalty=lambda k: (1.0, 2.0, 3.0, 4.0, 5.0), alpha=2.0)
    each = DualPerturbedADMM(penalty=[[1.0, 2.0, 3.0, 4.0, 5.0]] * 6, alpha=2.0)
    np.testing.assert_array_equal(simulated(own).estimate, simulated(each).estimate)


def test_other_fields_take_schedules_too():
    for one, other in (
        (RandomAggregationGD(step=lambda k: 0.5 * 0.9**k), RandomAggregationGD(step=Geometric(0.5, 0.9))),
        (DualPerturbedADMM(alpha=[2.0] * 6), DualPerturbedADMM(alpha=2.0)),
    ):
        np.testing.assert_allclose(simulated(one).estimate, simulated(other).estimate, rtol=1e-12)


def test_what_a_plan_has_counted_cannot_change_any_more():
    table = np.array(SAME)
    method = RecycledADMM(penalty=table, alpha=2.0)
    before = simulated(method)
    table[:] = 100.0
    np.testing.assert_array_equal(simulated(method).estimate, before.estimate)
    with pytest.raises(ValueError, match="read-only"):
        method.penalty[0] = 100.0


def test_a_run_goes_on_with_the_same_schedule_only(tmp_path):
    growth = 1.5
    method = RecycledADMM(penalty=lambda k: growth**k, alpha=2.0)
    simulated(method, 4).save(tmp_path / "run.npz")
    kept = tacit.Run.load(tmp_path / "run.npz")
    same = RecycledADMM(penalty=lambda k: growth**k, alpha=2.0)
    how = {"rounds": 6, "noise": tacit.SeededNoise(3)}
    on = tacit.simulate(same, PROBLEM, RING, resume=kept, **how)
    np.testing.assert_array_equal(on.estimate, simulated(method).estimate)
    other = RecycledADMM(penalty=lambda k: 1.6**k, alpha=2.0)
    with pytest.raises(tacit.InputError, match="another algorithm"):
        tacit.simulate(other, PROBLEM, RING, resume=kept, **how)


def test_schedules_that_are_none():
    state = [0.0]

    def drifting(k):
        state[0] += 1
        return state[0]

    for bad, match in (
        (drifting, "drifting"),
        (lambda k: np.random.default_rng().random(), "default_rng"),
        (Loose(1.0), "must be a frozen dataclass, not Loose"),
        ("much", "must be a number"),
        ([[1.0], [1.0, 2.0]], "must be a number"),
        ([1.0, 0.5], "must not decrease"),
    ):
        with pytest.raises(tacit.InputError, match=match):
            RecycledADMM(penalty=bad, alpha=1.0)
    for bad, match in (
        (Drifting(), "once and"),
        (lambda k: 1.0 - k, "must be positive and finite, not .* at step 2"),
        (lambda k: 2.0 - 0.5 * k, "must not decrease from step to step, as it does at step 2"),
        (lambda k: (1.0, 2.0), "one value for all agents or one for each"),
    ):
        with pytest.raises(tacit.InputError, match=match):
            simulated(RecycledADMM(penalty=bad, alpha=1.0))


SHAPE = [1.0, 1.0, 2.0, 0.5, 3.0, 1.0]
VARYING = {
    "dvp": lambda b: DualPerturbedADMM(penalty=0.5, budget=b),
    "pvp": lambda b: PrimalPerturbedADMM(penalty=0.5, budget=b),
    "m-admm": lambda b: PenaltyPerturbedADMM(penalty=0.5, budget=b),
    "r-admm": lambda b: RecycledADMM(penalty=0.5, budget=b),
    "descent": lambda b: GradientDescent(step=0.5, mixing=0.2, budget=b),
    "aggregation": lambda b: RandomAggregationGD(step=0.5, budget=b),
}


def noise_of(event):
    return 1 / event.epsilon if isinstance(event, Pure) else event.multiplier


@pytest.mark.parametrize("law", [Gaussian, Pure], ids=["gaussian", "pure"])
@pytest.mark.parametrize("name", VARYING)
def test_noise_follows_the_shape_and_the_total_is_kept(name, law):
    """And a run spends what the plan says, step by step."""
    if law is Pure and name in ("descent", "aggregation"):
        pytest.skip("Gaussian noise only, or Laplace noise on each coordinate")
    rounds = 12 if name == "r-admm" else 6
    total = {"epsilon": 20.0 if law is Pure else 3.0, "delta": 1e-5}
    method = tacit.calibrate(VARYING[name], FACTS, RING, rounds, law=law, shape=SHAPE, **total)
    planned = tacit.plan(method, FACTS, RING, rounds)
    assert total["epsilon"] * (1 - 1e-5) < planned.epsilon(1e-5) <= total["epsilon"]
    for events in planned.events:
        noise = np.array([noise_of(e) for e in events if not isinstance(e, tacit.privacy.events.Free)])
        np.testing.assert_allclose(noise / noise[0], SHAPE, rtol=1e-9)
    done = tacit.simulate(method, PROBLEM, RING, rounds=rounds, noise=tacit.SeededNoise(1))
    assert done.spent == planned.spent


def test_a_flat_shape_is_no_shape():
    facts, make = FACTS, VARYING["descent"]
    flat = tacit.calibrate(make, facts, RING, 6, epsilon=1.0, delta=1e-5, shape=[7.0] * 6)
    plain = tacit.calibrate(make, facts, RING, 6, epsilon=1.0, delta=1e-5)
    assert flat.budget[0].multiplier == pytest.approx(plain.budget.multiplier, rel=1e-6)
    # Gaussians: 1/m^2 adds up, so the shape w makes c^2 = (sum 1/w^2) times that of one step
    shaped = tacit.calibrate(make, facts, RING, 6, epsilon=1.0, delta=1e-5, shape=SHAPE)
    alone = tacit.calibrate(make, facts, RING, 1, epsilon=1.0, delta=1e-5).budget.multiplier
    c = shaped.budget[0].multiplier / SHAPE[0]
    assert c == pytest.approx(alone * math.sqrt(sum(w**-2 for w in SHAPE)), rel=1e-6)


def test_a_budget_for_each_gradient_of_a_composite_objective():
    rows, labels = make_parts(sizes=(80,))[0]
    problem, alone = tacit.Problem([(rows, labels)], l2=0.1), tacit.Graph.ring(1)
    term = lasso(15, 0.1)
    budget = (Gaussian(4.0), Gaussian(8.0))
    done = tacit.simulate(DPADMM(term=term, budget=budget), problem, alone, rounds=2, noise=tacit.SeededNoise(0))
    assert done.spent[0] == Counter(budget)


def test_shapes_and_budgets_that_are_none():
    make, total = VARYING["descent"], {"epsilon": 1.0, "delta": 1e-5}
    for bad in ([], [1.0, 0.0], [[1.0]], [math.nan], "flat"):
        with pytest.raises(tacit.InputError, match="a shape has one positive number for each noisy step"):
            tacit.calibrate(make, FACTS, RING, 6, shape=bad, **total)
    with pytest.raises(tacit.InputError, match="given for 2 noisy steps; the run needs step 3"):
        tacit.calibrate(make, FACTS, RING, 6, shape=[1.0, 1.0], **total)
    with pytest.raises(tacit.InputError, match="or a tuple of these"):
        GradientDescent(step=0.5, mixing=0.2, budget=(Gaussian(1.0), Pure(1.0)))
    with pytest.raises(tacit.InputError, match=r"a step's budget is Pure\(epsilon\) or Gaussian\(multiplier\), not"):
        OneShotAveraging(mixing=0.2, budget=(Gaussian(1.0), Gaussian(2.0)))
