"""Paper 001 in its general form: the exact x-update (4), and B other than -I."""

import numpy as np
import pytest
from conftest import make_parts
from scipy.optimize import minimize

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import L1, Term, constrained
from tacit.core.losses import Squared
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


def test_a_tall_b_also_constrains_x(problem):
    """Against a solver that knows the constraint only: three equations, one y."""
    rng = np.random.default_rng(4)
    A3, B, c = rng.normal(size=(3, D)), np.array([[1.0], [-2.0], [0.5]]), np.array([0.3, -0.4, 0.2])
    term = constrained(A3, B, c, L1(0.05))
    run = tacit.simulate(DPADMM(term=term, penalty=0.3), problem, ALONE, rounds=6000, tolerance=1e-9)
    found = minimize(
        lambda z: problem.value(z[:D])[0] + 0.05 * (z[D] + z[D + 1]),
        np.concatenate([np.zeros(D), np.ones(2)]),
        jac=lambda z: np.concatenate([problem.gradient(z[:D])[0], np.full(2, 0.05)]),
        bounds=[(None, None)] * D + [(0, None)] * 2,
        constraints={"type": "eq", "fun": lambda z: A3 @ z[:D] + B[:, 0] * (z[D] - z[D + 1]) - c},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(run.model, found.x[:D], atol=1e-4)
    left = A3 @ run.model - c
    np.testing.assert_allclose(left, B @ np.linalg.lstsq(B, left, rcond=None)[0], atol=1e-6)  # some y meets it
    free = tacit.simulate(DPADMM(term=Term(A3, L1(0.05), c), penalty=0.3), problem, ALONE, rounds=6000, tolerance=1e-9)
    assert np.linalg.norm(free.model - run.model) > 0.1  # the constraint on x is one


@pytest.mark.parametrize(
    ("B", "why"),
    [
        (np.ones((2, 2)), "depend on each other"),
        (np.ones((2, 3)), "depend on each other"),
        (np.zeros((2, 2)), "depend on each other"),
        (np.full((2, 2), np.nan), "finite"),
        (np.ones((3, 1)), "same rows"),
    ],
)
def test_a_b_that_leaves_y_open_is_refused(B, why):
    with pytest.raises(InputError, match=why):
        constrained(np.ones((2, 3)), B, 0.0, L1(1.0))


@pytest.mark.parametrize("rho", [0.05, 1.0, 10.0])
def test_an_exact_round_leaves_the_share_of_the_distance_that_is_known(rho):
    """A = I, squared loss, no sign changes: a proximal point step. So a large penalty is slow, and nothing else."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 0.3, 0.05]
    quadratic = tacit.Problem([(X, X @ np.array([3.0, -4.0, 5.0]))], loss=Squared(), tolerance=1e-12)
    H = X.T @ X / 60
    best = np.array([3.0, -4.0, 5.0]) - np.linalg.solve(H, 1e-3 * np.array([1.0, -1.0, 1.0]))
    assert np.array_equal(np.sign(best), [1, -1, 1])
    method = DPADMM(term=Term(np.eye(3), L1(1e-3)), penalty=rho, row_norm=3.0, exact=True)
    run = tacit.simulate(method, quadratic, ALONE, rounds=30, start=0.5 * np.sign(best), record=True)
    apart, share = run.trajectory[:, 0] - best, rho * np.linalg.inv(H + rho * np.eye(3))
    np.testing.assert_allclose(apart[1:], apart[:-1] @ share.T, atol=1e-5 * np.abs(best).max())
    if rho == 0.05:
        assert np.linalg.norm(apart[-1]) < np.linalg.norm(apart[0]) / 3
