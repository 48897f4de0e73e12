"""R(x, y) of paper 001 and its bound (18): against simulation, and in its parts."""

import math

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import L1, Composite, Term
from tacit.errors import InputError
from tacit.lab.theory.dp_admm import Optimum, criterion, criterion_bound

D = 6
A = np.vstack([np.eye(D), np.eye(D)[:-1] - np.eye(D)[1:]])
TERM = Term(A, L1(0.02), c=0.1)
ALONE = tacit.Graph.ring(1)


@pytest.fixture(scope="module")
def composite():
    return Composite(tacit.Problem(make_parts(d=D)[:1], l2=0.1), TERM)


@pytest.fixture(scope="module")
def best(composite):
    """By a long run without noise."""
    far = AcceleratedDPADMM(term=TERM, penalty=0.05)
    run = tacit.simulate(far, composite.problem, ALONE, rounds=4000, measure_every=4000)
    found = Optimum(run.model, A @ run.model - 0.1, far.penalty * run.state.u[0])
    assert np.abs(composite.problem.gradient(found.x)[0] + A.T @ found.w).max() < 1e-8
    assert np.abs(found.w).max() <= 0.02 * (1 + 1e-6)
    return found


def test_the_state_has_the_means_of_x_and_y(composite):
    """y_t by (3), from the trajectory."""
    method = DPADMM(term=TERM, penalty=0.5, budget=tacit.Gaussian(3.0))
    run = tacit.simulate(method, composite.problem, ALONE, rounds=7, noise=tacit.SeededNoise(0), record=True)
    u, ys = np.zeros(len(A)), []
    for x, new in zip(run.trajectory[:-1, 0], run.trajectory[1:, 0], strict=True):
        v = A @ x - 0.1 + u
        ys.append(np.sign(v) * np.maximum(np.abs(v) - 0.02 / 0.5, 0.0))
        u = u + A @ new - ys[-1] - 0.1
    np.testing.assert_allclose(run.state.mean_y[0], np.mean(ys, axis=0), atol=1e-12)
    np.testing.assert_allclose(run.state.mean[0], run.trajectory[1:, 0].mean(axis=0), atol=1e-12)


def test_r_is_not_negative_and_zero_at_the_optimum(composite, best):
    rng = np.random.default_rng(0)
    assert abs(criterion(composite, best.x, best.y, best)) < 1e-12
    for _ in range(50):
        x, y = best.x + rng.normal(size=D), best.y + rng.normal(size=len(A))
        assert criterion(composite, x, y, best) > 0
    x = best.x + rng.normal(size=D)
    gap = composite.value(x) - composite.value(best.x)  # on A x - y = c the linear terms cancel
    assert criterion(composite, x, A @ x - 0.1, best) == pytest.approx(gap, abs=1e-8)


@pytest.mark.parametrize("multiplier", [0.05, 3.0], ids=["little noise", "much noise"])
@pytest.mark.parametrize("rounds", [10, 60])
def test_18_against_simulation(composite, best, rounds, multiplier):
    """The mean of 20 runs, plus three standard errors. Without the noise's term much noise would pass the bound."""
    method = DPADMM(term=TERM, penalty=0.5, budget=tacit.Gaussian(multiplier))
    problem = composite.problem
    step, sigma = (float(x[0, 0]) for x in (method.step_size(problem), method.sigma(problem)))
    found = []
    for seed in range(20):
        run = tacit.simulate(method, problem, ALONE, rounds=rounds, noise=tacit.SeededNoise(seed), measure_every=rounds)
        found.append(criterion(composite, run.state.mean[0], run.state.mean_y[0], best))
    common = {"start": np.zeros(D), "penalty": 0.5, "step": step, "rounds": rounds}
    bound = criterion_bound(best, sigma=sigma, **common)
    assert np.mean(found) + 3 * np.std(found) / math.sqrt(20) <= bound
    assert bound <= criterion_bound(best, sigma=sigma, smoothness=0.25 + 0.1, **common)
    if multiplier == 3.0 and rounds == 60:
        assert np.mean(found) > criterion_bound(best, sigma=0.0, **common)


def test_18_in_the_papers_terms(composite, best):
    """||x_0 - x*||_G^2/eta + rho ||A x_0 - y* - c||^2 + rho ||u_0 - u*||^2, over 2 T."""
    rho, L, T = 0.7, 0.35, 9
    eta, norm = 1 / L, TERM.norm
    gamma = eta * rho * norm + 1
    G = gamma * np.eye(D) - eta * rho * A.T @ A
    assert np.linalg.eigvalsh(G).min() >= 1 - 1e-9
    away, u = -best.x, best.w / rho
    printed = away @ G @ away / eta + rho * np.sum((-best.y - 0.1) ** 2) + rho * u @ u
    found = criterion_bound(best, start=np.zeros(D), penalty=rho, step=eta / gamma, sigma=0.0, rounds=T)
    assert found == pytest.approx(printed / 2 / T, rel=1e-6)


def test_18_counts_the_noise_on_every_coordinate():
    """The bound for two problems side by side is the sum of theirs."""
    settings = {"penalty": 0.7, "step": 0.4, "sigma": 0.3, "rounds": 5}
    rng = np.random.default_rng(0)
    one, two = (Optimum(rng.normal(size=d), rng.normal(size=d), rng.normal(size=d)) for d in (2, 5))
    both = Optimum(*map(np.concatenate, zip(one, two, strict=True)))
    apart = [criterion_bound(best, start=np.zeros(len(best.x)), **settings) for best in (one, two)]
    assert criterion_bound(both, start=np.zeros(7), **settings) == pytest.approx(sum(apart), rel=1e-12)


def test_bad_input_of_the_bound(best):
    with pytest.raises(InputError, match="step must be a positive number"):
        criterion_bound(best, start=np.zeros(D), penalty=1.0, step=0.0, sigma=1.0, rounds=1)
    with pytest.raises(InputError, match="rounds"):
        criterion_bound(best, start=np.zeros(D), penalty=1.0, step=1.0, sigma=1.0, rounds=0)
