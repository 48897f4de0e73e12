"""Theorems 3.4, 4.1, 4.2 and (74) of paper 003: measured against simulation, term by term, and what cannot be assumed.

Bounds on means are compared with the mean of several runs plus three standard errors. The margins are such that no
seed matters: each test also shows that a bound without its noise term would fail."""

import math

import numpy as np
import pytest
from conftest import make_parts
from scipy.optimize import minimize_scalar

import tacit
from tacit.algorithms import RandomAggregationGD, RandomCoordinateDescent
from tacit.errors import InputError
from tacit.lab.theory import descent

N, D, GRAPH = 4, 6, tacit.Graph.complete(4)


def problem(l2):
    return tacit.Problem(make_parts(d=D)[:N], l2=l2)


def excess(p, models):
    return np.array([p.value(model).sum() for model in models]) - p.value(p.optimum()).sum()


def test_theorem_3_4_against_simulation():
    """Laplace noise, uniform weights, steps 1/(c sqrt(k)): G = 1 without a regulariser."""
    p, c, rounds, rate = problem(0.0), 1.5, 60, 4.0
    steps = 1 / (c * np.sqrt(np.arange(1, rounds + 1)))
    start = np.random.default_rng(0).normal(size=(N, D))
    method = RandomAggregationGD(step=np.tile(steps[:, None], (1, N)), beta=np.tile(rate / steps[:, None], (1, N)))
    found = []
    for seed in range(6):
        run = tacit.simulate(method, p, GRAPH, rounds=rounds, start=start, noise=tacit.SeededNoise(seed), record=True)
        found.append(run.trajectory[:-1].mean(axis=(0, 1)))
    measured = excess(p, found)
    S = float(((start - p.optimum()) ** 2).sum())
    V = math.sqrt(2 * D) / rate  # E||Delta||^2 = 2 d (eta/rate)^2
    common = {"start": S, "agents": N, "gradient": 1.0, "noise": V, "rounds": rounds, "c": c}
    bound = descent.random_aggregation(**common)
    assert 0 < measured.mean() + 3 * measured.std() < bound < descent.random_aggregation(**common, as_printed=True)


def summed(S, power, K, c):
    """The sum of the proof itself, with no bound on its sums."""
    eta = 1 / (c * np.sqrt(np.arange(1, K + 1)))
    before = S + power * np.concatenate([[0.0], np.cumsum(eta**2)])[:-1]  # of round k
    inverse = 1 / eta
    return float((np.diff(inverse) * before[1:]).sum() + inverse[0] * S + power * eta.sum()) / 2 / K


@pytest.mark.parametrize("K", [1, 2, 10, 1000])
@pytest.mark.parametrize("c", [0.3, 2.0])
def test_theorem_3_4_bounds_the_sum_of_its_proof(K, c):
    S, agents, G, V = 3.0, 5, 1.1, 0.7
    exact = summed(S, agents * (G**2 + V**2), K, c)
    found = descent.random_aggregation(start=S, agents=agents, gradient=G, noise=V, rounds=K, c=c)
    assert exact <= found * (1 + 1e-12)
    assert found <= 1.35 * exact


def test_the_best_c():
    common = {"start": 3.0, "agents": 5, "gradient": 1.0, "noise": 2.0, "rounds": 50}
    least = minimize_scalar(lambda x: descent.random_aggregation(**common, c=math.exp(x)), bounds=(-9, 9)).fun
    assert descent.random_aggregation(**common) == pytest.approx(least, rel=1e-6)


def descended(p, deviation, rounds, seeds):
    """Gradient descent of Appendix J: from the mean of all, with normal noise on each model."""
    M = float(p.smoothness().max())
    sensitivity = tacit.privacy.sensitivity.gradient_sensitivity(p, 1.0)[0, 0] / M
    budget = tacit.Gaussian(deviation / sensitivity)
    method = RandomAggregationGD(step=1 / M, weight=(0.5, 0.5), budget=budget)
    runs = [
        tacit.simulate(method, p, GRAPH, rounds=rounds, noise=tacit.SeededNoise(seed), record=True)
        for seed in range(seeds)
    ]
    return M, np.array([excess(p, run.trajectory.mean(axis=1)) for run in runs])


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_theorems_4_1_and_4_2_against_simulation(deviation):
    l2, rounds = 0.2, 25
    p = problem(l2)
    M, runs = descended(p, deviation, rounds, seeds=12)
    rows = np.concatenate([X for X, _ in make_parts(d=D)[:N]])
    shared = {"deviation": deviation, "l2": l2, "d": D}
    errors = {
        "slope": descent.error_by_slope(agents=N, slope=1.0, row_norm=1.0, **shared),
        "entry": descent.error_by_largest_entry(agents=N, gradient_l1=np.abs(rows).sum(axis=1).max(), **shared),
        "curvature": descent.error_by_curvature(curvature=0.25, row_norm=1.0, **shared),
    }
    mean = runs.mean(axis=0) + 3 * runs.std(axis=0) / math.sqrt(len(runs))
    for error in errors.values():
        bounds = [descent.contraction(gap=runs[0, 0], m=l2, M=M, rounds=k, error=error) for k in range(1, rounds + 1)]
        assert np.all(mean[1:] <= bounds)
    assert (errors["curvature"] < errors["slope"]) == (deviation < 2.5)
    quiet = descent.contraction(gap=runs[0, 0], m=l2, M=M, rounds=200, error=0.0)
    assert runs[:, -1].mean() > quiet  # what noise leaves is more than the first term alone


def test_what_noise_adds_against_monte_carlo():
    """E f(y + noise) - f(y) by 4,000 draws: below all three bounds, and above half of the one by curvature for squares.

    The mean of 4,000 draws is off by 1.6% of a deviation; bounds and truth differ by more than six times that."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(7, D))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    y, sigma, agents, l2 = rng.normal(size=D), 0.4, 9, 0.1

    def f(x):
        return np.logaddexp(0, -x @ z.T).mean(axis=-1) + l2 / 2 * (x**2).sum(axis=-1)

    noise = rng.normal(size=(4000, D)) * sigma / math.sqrt(agents)
    added = agents * (f(y + noise) - f(y)).mean()
    shared = {"deviation": sigma, "l2": l2, "d": D}
    by_curvature = descent.error_by_curvature(curvature=0.25, row_norm=1.0, **shared)
    by_slope = descent.error_by_slope(agents=agents, slope=1.0, row_norm=1.0, **shared)
    by_entry = descent.error_by_largest_entry(agents=agents, gradient_l1=np.abs(z).sum(axis=1).max(), **shared)
    assert 0 < added < by_curvature < by_slope < by_entry
    squares = agents * ((noise @ z.T) ** 2 / 2).mean()  # phi = t^2/2, curvature 1, at y = 0
    found = descent.error_by_curvature(curvature=1.0, row_norm=1.0, deviation=sigma)
    assert squares == pytest.approx(found, rel=0.05)
    sizes = np.abs(noise @ z[0])
    one = descent.error_by_slope(agents=agents, slope=1.0, row_norm=1.0, deviation=sigma)
    assert agents * sizes.mean() == pytest.approx(one, rel=0.05)
    largest = descent.error_by_largest_entry(agents=agents, gradient_l1=1.0, deviation=sigma, d=D)
    assert 0.6 * largest < agents * np.abs(noise).max(axis=1).mean() < largest


def test_random_coordinate_descent_against_simulation():
    l2, rounds, deviation = 0.3, 60, 0.3
    p = problem(l2)
    M = 0.25 + l2
    sensitivity = tacit.privacy.sensitivity.layer_sensitivity(p, 1.0)[0, 0] / M
    method = RandomCoordinateDescent(budget=tacit.Gaussian(deviation / sensitivity))
    start = np.tile(np.random.default_rng(1).normal(size=D), (N, 1))
    runs = []
    for seed in range(12):
        found = tacit.simulate(
            RandomCoordinateDescent(budget=method.budget, seed=seed),
            p,
            GRAPH,
            rounds=rounds,
            start=start,
            noise=tacit.SeededNoise(seed),
            record=True,
        )
        runs.append(excess(p, found.trajectory[:, 0]) / N)  # of the mean f of the f_i
    runs = np.array(runs)
    mean = runs.mean(axis=0) + 3 * runs.std(axis=0) / math.sqrt(len(runs))
    common = {"gap": runs[0, 0], "m": l2, "M": M, "d": D}
    bounds = [
        descent.coordinate_descent(**common, rounds=k, deviation=deviation / math.sqrt(N)) for k in range(1, rounds + 1)
    ]
    assert np.all(mean[11:] <= bounds[10:])  # before that, which coordinates came first matters more
    assert runs[:, -1].mean() > descent.coordinate_descent(**common, rounds=2000, deviation=0.0)


def test_a_strongly_convex_phi_does_not_make_f_strongly_convex_nor_is_it_lipschitz():
    """Section 4: phi = t^2/2 with fewer rows than dimensions; and its slope has no bound."""
    p = tacit.Problem([(np.eye(3)[:2], np.zeros(2))], loss=tacit.losses.Squared())
    flat = np.array([0.0, 0.0, 1.0])
    assert p.value(5 * flat) == p.value(0 * flat)
    assert not math.isfinite(p.loss.max_slope)
    assert tacit.losses.Logistic().max_slope == 1.0  # Lipschitz, and therefore not strongly convex


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: descent.contraction(gap=1, m=2, M=1, rounds=3, error=0), "m <= M"),
        (lambda: descent.coordinate_descent(gap=1, m=0, M=1, d=2, rounds=3, deviation=0), "m <= M"),
        (lambda: descent.random_aggregation(start=1, agents=0, gradient=1, noise=1, rounds=2), "agents"),
        (lambda: descent.random_aggregation(start=1, agents=1, gradient=1, noise=1, rounds=2, c=-1.0), "c must"),
        (lambda: descent.error_by_slope(agents=1, slope=-1, row_norm=1, deviation=1), "slope"),
    ],
)
def test_bad_input_of_descent(call, words):
    with pytest.raises(InputError, match=words):
        call()
