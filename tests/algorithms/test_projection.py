"""The constraint C of paper 003 as a ball: the optimum within it, the cost, and what a projected value cannot tell."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_parts
from scipy.optimize import minimize

import tacit
from tacit.algorithms import Geometric, RandomAggregationADMM, RandomAggregationGD
from tacit.privacy.transcript import epsilon_of_transcript

N, D, GRAPH = 4, 6, tacit.Graph.complete(4)
NOISE = tacit.SeededNoise(2)


def problem():
    return tacit.Problem(make_parts(d=D)[:N], l2=0.3, scale=2.0)


def within(p, radius):
    """The minimiser of sum_i f_i in the ball, by another solver."""
    found = minimize(
        lambda x: p.value(x).sum(),
        np.zeros(D),
        jac=lambda x: p.gradient(x).sum(axis=0),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: radius**2 - x @ x, "jac": lambda x: -2 * x},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("share", [0.5, 3.0], ids=["at the edge", "inside"])
def test_the_optimum_within_the_ball_is_reached(share):
    p = problem()
    radius = share * float(np.linalg.norm(p.optimum()))
    best = within(p, radius)
    admm = tacit.simulate(
        RandomAggregationADMM(penalty=4.0, ball=radius), p, GRAPH, rounds=400, noise=NOISE, measure_every=400
    )
    assert np.abs(admm.estimate - best).max() < 1e-5
    steps = np.full((600, N), 0.3) / np.sqrt(np.arange(1, 601))[:, None]
    gd = tacit.simulate(
        RandomAggregationGD(step=steps, ball=radius), p, GRAPH, rounds=600, noise=NOISE, measure_every=600
    )
    assert np.linalg.norm(gd.model - best) < 0.03 * np.linalg.norm(best)
    assert (np.linalg.norm(best) < 0.999 * radius) == (share > 1)
    if share < 1:
        assert np.linalg.norm(p.optimum() - best) > 0.1


@pytest.mark.parametrize(
    "method",
    [
        RandomAggregationADMM(penalty=4.0, budget=tacit.Pure(0.5)),
        RandomAggregationGD(step=0.2, budget=tacit.Gaussian(3.0)),
        RandomAggregationGD(step=Geometric(0.2, 0.99), min_max=True, beta=2.0),
    ],
    ids=["ADMM", "GD", "min-max"],
)
def test_what_leaves_is_in_the_ball_and_costs_the_same(method):
    p, said = problem(), []
    inside = replace(method, ball=0.4)

    def hear(t, turn, release):
        said.append(release.value)

    free = tacit.simulate(method, p, GRAPH, rounds=8, noise=NOISE, record=True)
    run = tacit.simulate(inside, p, GRAPH, rounds=8, noise=NOISE, record=True, overheard=hear)
    assert run.spent == free.spent
    assert np.linalg.norm(np.concatenate(said), axis=1).max() <= 0.4 * (1 + 1e-12)
    assert np.linalg.norm(free.trajectory, axis=2).max() > 0.4
    first = free.trajectory[1]  # the same noise: the first step is projected, and nothing else
    norms = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(run.trajectory[1], first * np.minimum(1, 0.4 / norms), atol=1e-12)


def test_a_projected_transcript_tells_no_place_in_an_interval():
    p = problem()
    for method in (
        RandomAggregationADMM(penalty=4.0, beta=2.0, ball=0.4),
        RandomAggregationGD(step=0.2, beta=2.0, ball=0.4),
    ):
        run = tacit.simulate(method, p, GRAPH, rounds=2, noise=NOISE, record=True)
        with pytest.raises(tacit.InputError, match="only without a ball"):
            epsilon_of_transcript(method, p, GRAPH, run)


def test_refusals_of_a_ball():
    with pytest.raises(tacit.InputError, match="not with exact"):
        RandomAggregationADMM(exact=True, ball=1.0)
    for ball in (0.0, -1.0, float("inf")):
        with pytest.raises(tacit.InputError, match="ball"):
            RandomAggregationGD(step=0.1, ball=ball)
