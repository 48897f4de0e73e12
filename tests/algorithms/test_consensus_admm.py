"""Consensus ADMM against the augmented Lagrangian that it comes from."""

import numpy as np
import pytest
from conftest import make_parts
from private_case import CONSTANT, GAMMA, GRAPH, RHO, ROUNDS, START, D, run

import tacit
from tacit.algorithms import ConsensusADMM, DualPerturbedADMM, PenaltyPerturbedADMM, PrimalPerturbedADMM, RecycledADMM
from tacit.privacy.events import Gaussian, Pure

ETA, SCALE, L2 = 0.7, 3.0, 0.5


def newton(X, y, linear, points):
    """argmin of O_i(f) + linear.f + ETA/2 * sum over the points w of ||f - w||^2, by plain Newton."""
    f = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(y * (X @ f)))
        g = -SCALE / len(y) * X.T @ (y * p) + L2 * f + linear + ETA * sum(f - w for w in points)
        H = SCALE / len(y) * (X.T * (p * (1 - p))) @ X + (L2 + ETA * len(points)) * np.eye(len(f))
        f = f - np.linalg.solve(H, g)
    return f


def edge_by_edge(parts, start, rounds):
    """The iterations (4)-(7) of paper 000, with a variable w_ij and two multipliers on every directed edge."""
    n, d = start.shape
    directed = [(i, j) for i in range(n) for j in GRAPH.neighbours(i)]
    f = start.copy()
    w = {(i, j): (f[i] + f[j]) / 2 for i, j in directed}
    a = {e: np.zeros(d) for e in directed}
    b = {e: np.zeros(d) for e in directed}
    trajectory = [f]
    for _ in range(rounds):
        new = []
        for i in range(n):
            N = GRAPH.neighbours(i)
            linear = sum(a[i, j] - b[j, i] for j in N)
            new.append(newton(*parts[i], linear, [w[i, j] for j in N] + [w[j, i] for j in N]))  # (4)
        f = np.array(new)
        for i, j in directed:
            w[i, j] = (f[i] + f[j]) / 2 + (a[i, j] - b[i, j]) / (2 * ETA)  # (5)
            a[i, j] = a[i, j] + ETA * (f[i] - w[i, j])  # (6)
            b[i, j] = b[i, j] + ETA * (w[i, j] - f[j])  # (7)
        trajectory.append(f)
    return np.array(trajectory)


def test_trajectory_is_that_of_the_augmented_lagrangian():
    parts = make_parts()
    start = np.random.default_rng(0).normal(size=(5, 15))
    run = tacit.simulate(
        ConsensusADMM(penalty=ETA),
        tacit.Problem(parts, scale=SCALE, l2=L2),
        GRAPH,
        rounds=30,
        start=start,
        record=True,
    )
    np.testing.assert_allclose(run.trajectory, edge_by_edge(parts, start, 30), atol=1e-8)


def test_residuals_are_those_of_the_optimality_conditions():
    """Primal: (31), disagreement with the neighbours. Dual: (30), grad O_i + 2 lambda_i."""
    parts = make_parts()
    problem = tacit.Problem(parts, scale=SCALE, l2=L2)
    algorithm = ConsensusADMM(penalty=ETA)
    run = tacit.simulate(algorithm, problem, GRAPH, rounds=4, start=np.ones(15), record=True)
    s = run.state
    primal, dual = algorithm.residuals(s, GRAPH.view())
    largest = np.linalg.norm(run.trajectory, axis=2).max(axis=0)
    disagreement = [s.f[i] - s.f[GRAPH.neighbours(i)].mean(axis=0) for i in range(5)]
    np.testing.assert_allclose(primal, np.linalg.norm(disagreement, axis=1) / largest, rtol=1e-9)
    stationarity = np.linalg.norm(problem.gradient(s.f) + 2 * s.dual, axis=1)
    at_zero = np.linalg.norm(problem.gradient(np.zeros(15)), axis=1)
    np.testing.assert_allclose(dual, stationarity / np.maximum(at_zero, np.linalg.norm(2 * s.dual, axis=1)), rtol=1e-6)
    np.testing.assert_allclose(s.dual.sum(axis=0), 0.0, atol=1e-12)


def test_residuals_do_not_depend_on_units():
    """A thousandfold objective and penalty, and models in other units, stop in the same round."""
    parts = make_parts()
    scaled = [(X / 50, y) for X, y in parts]  # then f is 50 times as large
    one = tacit.simulate(ConsensusADMM(penalty=ETA), tacit.Problem(parts, l2=L2), GRAPH, rounds=9)
    other = tacit.simulate(
        ConsensusADMM(penalty=ETA * 1000 / 2500),
        tacit.Problem(scaled, scale=1000.0, l2=L2 * 1000 / 2500, tolerance=1e-10),
        GRAPH,
        rounds=9,
    )
    for name in ("primal_residual", "dual_residual"):
        np.testing.assert_allclose(one.history[name][1:], other.history[name][1:], rtol=1e-4)


def test_it_stops_where_the_optimum_is_zero():
    problem = tacit.Problem([([[1.0]], [1]), ([[1.0]], [-1])], l2=0.1)
    run = tacit.simulate(ConsensusADMM(), problem, tacit.Graph.path(2), rounds=3000, tolerance=1e-6)
    assert run.converged
    assert abs(run.model[0]) < 1e-5


def test_a_far_start_does_not_look_like_convergence():
    parts = make_parts()
    problem = tacit.Problem(parts, scale=SCALE, l2=L2)
    run = tacit.simulate(ConsensusADMM(penalty=ETA), problem, GRAPH, rounds=5000, start=1e4, tolerance=1e-7)
    assert run.converged
    assert np.linalg.norm(run.model - problem.optimum()) < 1e-2


def test_nothing_of_it_is_private():
    run = tacit.simulate(ConsensusADMM(), tacit.Problem(make_parts(), l2=1.0), GRAPH, rounds=1)
    assert not run.private


@pytest.mark.parametrize("penalty", [0, -1.0, float("nan"), float("inf")])
def test_penalty_must_be_positive(penalty):
    with pytest.raises(tacit.InputError, match="penalty must be a positive number, not"):
        ConsensusADMM(penalty=penalty)


def test_without_noise_all_are_consensus_admm():
    """Sizes that leave Phi = 0; the penalty and the dual step of all are one number."""
    big = tacit.Problem(make_parts(sizes=(150, 90, 120, 200, 100)), scale=3.0, l2=RHO, tolerance=1e-11)
    silent = tacit.RecordedNoise(np.zeros((ROUNDS, 5, D)))
    admm = tacit.simulate(ConsensusADMM(penalty=0.7), big, GRAPH, rounds=ROUNDS, start=START, record=True).trajectory
    for settings in ({"alpha": 2.0}, {"alpha": None}, {"budget": Pure(2.0)}, {"budget": Gaussian(1.0)}):
        for method in (
            DualPerturbedADMM(penalty=0.7, **settings),
            PrimalPerturbedADMM(penalty=0.7, **settings),
            PrimalPerturbedADMM(penalty=0.7, centre="printed", **settings),
            PrimalPerturbedADMM(penalty=0.7, final=2, **settings),
            PenaltyPerturbedADMM(penalty=0.7, dual_step=0.7, **settings),
            PenaltyPerturbedADMM(penalty=CONSTANT, dual_step=0.7, **settings),
        ):
            np.testing.assert_allclose(run(method, silent, p=big).trajectory, admm, rtol=0, atol=1e-8)
        recycled = RecycledADMM(0.7, GAMMA, **settings)
        plain = run(RecycledADMM(0.7, GAMMA), silent, 2 * ROUNDS, big).trajectory
        np.testing.assert_allclose(run(recycled, silent, 2 * ROUNDS, big).trajectory, plain, rtol=0, atol=1e-8)
        assert np.abs(plain[1:3] - admm[1:3]).max() > 1e-3  # an even step is no step of ADMM
        np.testing.assert_allclose(plain[1], admm[1], rtol=0, atol=1e-8)
