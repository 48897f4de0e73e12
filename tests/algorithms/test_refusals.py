"""Settings and data that a private method refuses: one line each, before anything has left."""

import functools
import math

import numpy as np
import pytest
from private_case import METHODS, PARTS, RHO, SCALE, SIZES, refused, run

import tacit
from tacit.algorithms import (
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RecycledADMM,
)
from tacit.core.facts import Facts
from tacit.privacy.events import Gaussian, Pure

PRIVATE = {
    "dvp": DualPerturbedADMM,
    "pvp": PrimalPerturbedADMM,
    "m-admm": PenaltyPerturbedADMM,
    "r-admm": RecycledADMM,
}


@pytest.mark.parametrize("name", PRIVATE)
def test_bad_settings_are_refused(name):
    make = functools.partial(functools.partial, PRIVATE[name])
    for bad in (0, -1.0, math.nan, math.inf, np.array([[1.0, 0.0]]), np.array([[math.nan] * 5])):
        refused("alpha must be positive and finite", make(alpha=bad))
        refused("penalty must be positive and finite", make(penalty=bad, alpha=1.0))
    refused(r"alpha must be a number, .* not of shape \(5, 1, 1\)", make(alpha=np.ones((5, 1, 1))))
    refused(r"penalty must be a number, .* not of shape \(0,\)", make(penalty=[]))
    refused("alpha is given for 1 noisy steps; the run needs step 2", make(alpha=[1.0]), rounds=4)
    refused("a budget is given for 1 noisy steps; the run needs step 2", make(budget=(Pure(1.0),)), rounds=4)
    refused(r"or a tuple with one for each noisy step", make(budget=()))
    refused("alpha must be a number", make(alpha="much"))
    refused("by alpha or by budget, not by both", make(alpha=1.0, budget=Pure(1.0)))
    refused(r"budget is Pure\(epsilon\) or Gaussian\(multiplier\)", make(budget=1.0))
    refused("alpha is given for 1 noisy steps; the run needs step 2", make(alpha=np.ones((1, 5))), rounds=4)
    refused("penalty is given for 1 noisy steps; the run needs step 2", make(penalty=np.ones((1, 5))), rounds=4)
    refused("alpha is given for 4 agents, the graph has 5", make(alpha=np.ones((2, 4))))
    refused("penalty is given for 4 agents, the graph has 5", make(penalty=np.ones((2, 4))))
    refused("one value for all agents or one for each", make(alpha=Geometric([1.0, 2.0], 1.0)))
    refused("positive, finite ratio", lambda: PRIVATE[name](penalty=Geometric(1.0, -2.0)))
    refused("positive, finite first", lambda: PRIVATE[name](alpha=Geometric(math.nan, 2.0)))
    refused("too large for a number at step 2", make(alpha=Geometric(1e200, 1e200)), rounds=4)
    falling = np.array([[1.0] * 5, [1.0] * 4 + [0.9]])
    if name in ("m-admm", "r-admm"):
        refused("penalty must not decrease", make(penalty=falling))
        refused("penalty must not decrease", make(penalty=Geometric(1.0, 0.9)))
        refused("penalty must not decrease", make(penalty=Geometric(1.0, [1.0, 1.0, 1.0, 1.0, 0.9])))
        for bad in (0.0, -1.0, math.nan, math.inf):
            refused("dual_step must be a positive number", make(dual_step=bad))
    else:
        PRIVATE[name](penalty=falling)


def test_other_bad_settings_are_refused():
    for bad in (-0.1, math.nan, math.inf):
        refused("gamma must be zero or a positive number", lambda bad=bad: RecycledADMM(gamma=bad))
    refused("the centre is 'released' or 'printed'", lambda: PrimalPerturbedADMM(centre="hidden"))
    refused("noise_on is 'objective' or 'output'", lambda: RecycledADMM(noise_on="input"))
    refused("prints no output perturbation", lambda: RecycledADMM(alpha=1.0, noise_on="output", as_printed=True))
    refused("a gradient's budget is Gaussian", lambda: GradientDescent(step=0.1, mixing=0.1, budget=Pure(1.0)))
    refused(
        "primal perturbation needs l2 above zero",
        lambda: PrimalPerturbedADMM(alpha=1.0, centre="printed"),
        p=tacit.Problem(PARTS),
    )
    refused("local minimiser needs l2 > 0", lambda: METHODS["one-shot"](Pure(1.0)), p=tacit.Problem(PARTS))


@pytest.mark.parametrize("name", METHODS)
def test_bad_data_are_refused(name):
    for budget in (Gaussian(2.0),) if name == "descent" else (Gaussian(2.0), Pure(1.0)):
        make = functools.partial(METHODS[name], budget)
        longer = [*PARTS[:4], (PARTS[4][0] * 1.01, PARTS[4][1])]
        refused("agent 4 has a row of norm 1.01, above the 1", make, p=tacit.Problem(longer, l2=RHO))
        refused("Squared has no bound on its slope", make, p=tacit.Problem(PARTS, loss=tacit.losses.Squared(), l2=RHO))
    with pytest.raises(tacit.InputError, match=r"agent 0: Logistic needs labels -1 and \+1, found 0"):
        tacit.Problem([(X, np.maximum(y, 0)) for X, y in PARTS])


def test_a_budget_that_cannot_pay_for_the_curvature_is_refused():
    for name in ("dvp", "m-admm", "mr-admm", "one-shot"):
        refused("cannot even pay for the curvature", lambda name=name: METHODS[name](Pure(1e-4)))
    # The least that can be paid is the curvature alone, for the agent to whom it costs most.
    least = max(1.001 * math.log(1 + 0.25 * SCALE[i] / SIZES[i] / RHO) for i in range(5))
    refused("cannot even pay for the curvature", lambda: METHODS["one-shot"](Pure(least * (1 - 1e-6))))
    run(METHODS["one-shot"](Pure(least * (1 + 1e-6))), rounds=1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PenaltyPerturbedADMM(dual_step=np.ones((5, 3))), "dual_step must be a positive number"),
        (lambda: RecycledADMM(dual_step=Geometric(1.0, 1.1)), "dual_step must be a positive number"),
        (lambda: RecycledADMM(gamma=np.ones(3)), "gamma must be zero or a positive number"),
        (lambda: PrimalPerturbedADMM(final=-1), "final is a round"),
        (lambda: Geometric(1.0, np.inf), "positive, finite ratio"),
        (lambda: DualPerturbedADMM(budget=tacit.Pure(1.0), as_printed=True), "take no budget"),
        (lambda: DualPerturbedADMM(alpha=np.ones((2, 7))).schedule(tacit.Graph.ring(3)), "7 agents, the graph has 3"),
        (lambda: Facts(sizes=[5], dimension=1, tolerance=-0.05), "tolerance must be a positive"),
        (lambda: tacit.plan(RecycledADMM(), Facts(sizes=[5], dimension=1), tacit.Graph.ring(1), -1), "rounds must be"),
    ],
)
def test_settings_of_the_wrong_shape_are_refused(make, says):
    with pytest.raises(tacit.InputError, match=says):
        make()
