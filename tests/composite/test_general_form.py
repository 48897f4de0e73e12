"""Paper 001 in its general form: the exact x-update (4), and B other than -I."""

import numpy as np
import pytest
from conftest import make_parts
from scipy.optimize import minimize

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import L1, Term, constrained
from tacit.errors import InputError

D, RHO = 5, 0.4
A = np.vstack([np.eye(D), np.eye(D)[:-1] - np.eye(D)[1:]])
TERM = Term(A, L1(0.02), c=0.1)
ALONE = tacit.Graph.ring(1)


@pytest.fixture(scope="module")
def problem():
    return tacit.Problem(make_parts(d=D)[:1], l2=0.05)


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


def test_the_exact_step_is_4(problem):
    """Three rounds, the inner minimiser by Newton's method."""
    run = tacit.simulate(DPADMM(term=TERM, penalty=RHO, exact=True), problem, ALONE, rounds=3, record=True)
    x, u = np.zeros(D), np.zeros(len(A))
    for t in range(3):
        y = soft(A @ x - 0.1 + u, 0.02 / RHO)
        b = y + 0.1 - u
        found = minimize(
            lambda z, b=b: problem.value(z)[0] + RHO / 2 * np.sum((A @ z - b) ** 2),
            x,
            jac=lambda z, b=b: problem.gradient(z)[0] + RHO * A.T @ (A @ z - b),
            method="BFGS",
            options={"gtol": 1e-10},
        )
        x = found.x
        u = u + A @ x - y - 0.1
        np.testing.assert_allclose(run.trajectory[t + 1, 0], x, atol=1e-6)


def test_exact_steps_need_fewer_rounds_to_the_same_optimum(problem):
    exact = tacit.simulate(
        DPADMM(term=TERM, penalty=RHO, exact=True), problem, ALONE, rounds=200, tolerance=1e-7, record=True
    )
    plain = tacit.simulate(DPADMM(term=TERM, penalty=RHO), problem, ALONE, rounds=3000, tolerance=1e-7)
    ahead = tacit.simulate(
        AcceleratedDPADMM(term=TERM, penalty=RHO, exact=True), problem, ALONE, rounds=400, tolerance=1e-7
    )
    assert exact.converged
    assert len(exact.trajectory) < plain.history["round"][-1]
    np.testing.assert_allclose(exact.model, plain.model, atol=1e-5)
    np.testing.assert_allclose(exact.model, ahead.model, atol=1e-4)


def test_exact_steps_are_not_private(problem):
    for settings in ({"budget": tacit.Gaussian(2.0)}, {"as_printed": True}):
        with pytest.raises(InputError, match="without noise"):
            DPADMM(term=TERM, exact=True, **settings)
    run = tacit.simulate(DPADMM(term=TERM, exact=True), problem, ALONE, rounds=2)
    assert not run.private


def test_for_b_with_orthogonal_columns_the_steps_are_the_printed_ones(problem):
    """(3), (7) and (5) with B = 2 Q, and the prox of g at -B^T v/4; the penalty is 4 rho here."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(len(A), len(A))))[0]
    B, c = 2 * Q, np.linspace(-1, 1, len(A))
    term = constrained(A, B, c, L1(0.02))
    step = 0.2
    method = DPADMM(term=term, penalty=4 * RHO, step=step)
    run = tacit.simulate(method, problem, ALONE, rounds=25, record=True)
    x, u = np.zeros(D), np.zeros(len(A))
    for t in range(25):
        y = soft(-B.T @ (A @ x - c + u) / 4, 0.02 / (4 * RHO))
        x = x - step * (problem.gradient(x)[0] + RHO * A.T @ (A @ x + B @ y - c + u))
        u = u + A @ x + B @ y - c
        np.testing.assert_allclose(run.trajectory[t + 1, 0], x, atol=1e-9)


def test_any_invertible_b_has_the_minimiser_of_its_constraint(problem):
    """Against a solver that knows the constraint only: y and x as variables, |y| as two parts."""
    rng = np.random.default_rng(3)
    A2, B, c = rng.normal(size=(2, D)), np.array([[2.0, 1.0], [0.0, -1.5]]), np.array([0.3, -0.4])
    term = constrained(A2, B, c, L1(0.05))
    run = tacit.simulate(DPADMM(term=term, penalty=0.3), problem, ALONE, rounds=4000, tolerance=1e-9)

    def value(z):
        return problem.value(z[:D])[0] + 0.05 * z[D:].sum()

    found = minimize(
        value,
        np.concatenate([np.zeros(D), np.ones(4)]),
        jac=lambda z: np.concatenate([problem.gradient(z[:D])[0], np.full(4, 0.05)]),
        bounds=[(None, None)] * D + [(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda z: A2 @ z[:D] + B @ (z[D : D + 2] - z[D + 2 :]) - c},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(run.model, found.x[:D], atol=1e-4)
    own = problem.value(run.model)[0] + term.value(run.model)[0]
    assert own == pytest.approx(found.fun, abs=1e-8)


@pytest.mark.parametrize("B", [np.ones((2, 2)), np.ones((2, 3)), np.zeros((2, 2)), np.full((2, 2), np.nan)])
def test_b_must_be_invertible(B):
    with pytest.raises(InputError, match="B"):
        constrained(np.ones((2, 3)), B, 0.0, L1(1.0))
