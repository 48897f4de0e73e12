"""The solver for many features: hard spectra, penalties and losses, and results that depend on nothing else."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.fft
import scipy.sparse

import tacit
from tacit.core.solvers import block, newton_cg, quasi_newton
from tacit.losses import HuberHinge, Logistic, PseudoHuber, Squared


def case(rows, d, power, sparse, seed=0):
    """Rows of norm at most 1 whose covariance has the eigenvalues k^-power, rotated unless they are sparse."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) * np.arange(1, d + 1) ** (-power / 2)
    if sparse:
        X *= rng.random((rows, d)) < 0.05
        X[:, 0] = 0.01  # no row is empty
    elif power:
        for _ in range(2):
            X = scipy.fft.dct(X * rng.choice([-1.0, 1.0], size=d), norm="ortho", axis=1)
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    b = rng.normal(size=d)
    return X, y, 50 * b / np.linalg.norm(b)


def norm_of_gradient(X, y, b, rho, f, scale=1750.0):
    """By numpy, for the logistic loss."""
    slope = -y / (1 + np.exp(np.minimum(y * (X @ f), 700)))
    return np.linalg.norm(scale / len(y) * (X.T @ slope) + rho * f + b)


@pytest.fixture
def alone(monkeypatch):
    """Newton's method without the dense Hessian that stands behind it."""

    def refuse(*arguments):
        raise AssertionError("newton_cg has given up")

    monkeypatch.setattr(quasi_newton, "minimise", refuse)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("d", [newton_cg.FEWEST_FEATURES, quasi_newton.MOST_FEATURES + 100])
def test_private_rounds_of_every_spectrum_are_solved(d, power, sparse, alone):
    """Weak and strong penalties, from zero and from the minimiser of another round."""
    X, y, b = case(500, d, power, sparse)
    rows = scipy.sparse.csr_array(X) if sparse else X
    for rho in (0.02, 4.044):
        problem = tacit.Problem([(rows, y)], scale=1750.0, l2=rho)
        first = problem.argmin(b, 0.0, 0.0)
        other = problem.argmin(-b[::-1], 0.0, 0.0, start=first)
        assert norm_of_gradient(X, y, b, rho, first[0]) <= 1.1e-9
        assert norm_of_gradient(X, y, -b[::-1], rho, other[0]) <= 1.1e-9


@pytest.mark.parametrize("loss", [Squared(), HuberHinge(0.5), PseudoHuber(0.3), Logistic(offset=-1.0, weights=(1, 3))])
def test_other_losses_are_solved(loss, alone):
    X, y, b = case(500, 300, 1.0, sparse=False)
    b /= 10  # farther out, a gradient norm of 1e-9 is what rounding leaves of a pseudo-Huber loss on some processors
    problem = tacit.Problem([(X, y)], loss=loss, scale=1750.0, l2=0.02)
    f = problem.argmin(b, 0.0, 0.0)
    gradient = 3.5 * X.T @ loss.slope(X @ f[0], y) + 0.02 * f[0] + b
    assert np.linalg.norm(gradient) <= 1.1e-9


def test_few_features_far_out_are_solved_by_a_hessian_of_the_curved_rows():
    """Of rows whose margins are large, few are curved. The solver for few features must not build a Hessian of all."""
    X, y, b = case(2000, 100, 0.0, sparse=False)
    problem = tacit.Problem([(X, y)], scale=1750.0, l2=0.02)
    first = problem.argmin(b, 0.0, 0.0)
    other = problem.argmin(-b[::-1], 0.0, 0.0, start=first)
    assert np.mean(np.abs(X @ other[0]) < 7) < 0.25
    assert norm_of_gradient(X, y, -b[::-1], 0.02, other[0]) <= 1.1e-9


def test_collinear_rows_without_a_penalty_have_a_minimiser_too():
    """rho = 0: the Hessian has no inverse, and the data term is flat in most directions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 300)) / 50
    problem = tacit.Problem([(X, rng.choice([-1.0, 1.0], 400))], scale=10.0)
    assert np.linalg.norm(problem.gradient(problem.optimum())) <= 1.1e-9


@pytest.fixture(params=[False, True], ids=["dense", "csr"])
def three(request):
    """Three agents, the pull on each, and their minimisers."""
    made = [case(rows, 300, 1.0, request.param, seed=rows) for rows in (500, 310, 400)]
    parts = [(scipy.sparse.csr_array(X) if request.param else X, y) for X, y, _ in made]
    pulls = np.array([b for _, _, b in made])
    return parts, pulls, tacit.Problem(parts, scale=100.0, l2=0.02).argmin(pulls, 0.5, 0.1)


def test_company_restarts_and_copies_change_no_bit(three):
    parts, pulls, f = three
    problem = tacit.Problem(parts, scale=100.0, l2=0.02)
    problem.argmin(-pulls, 2.0, 0.0)  # earlier calls are forgotten
    for i in range(3):
        assert np.array_equal(problem.take([i]).argmin(pulls[i], 0.5, 0.1)[0], f[i])
        assert np.array_equal(tacit.Problem([parts[i]], scale=100.0, l2=0.02).argmin(pulls[i], 0.5, 0.1)[0], f[i])
    assert np.array_equal(pickle.loads(pickle.dumps(problem)).argmin(pulls, 0.5, 0.1), f)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(three, threads, monkeypatch):
    parts, pulls, f = three
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(threads)))
    with ThreadPoolExecutor(threads) as pool:
        monkeypatch.setattr(block, "_pool", lambda count: pool)
        assert np.array_equal(tacit.Problem(parts, scale=100.0, l2=0.02).argmin(pulls, 0.5, 0.1), f)


def test_compiled_loops_solve_by_themselves_only_as_minimise_does():
    for d, compiled in ((newton_cg.FEWEST_FEATURES - 1, True), (newton_cg.FEWEST_FEATURES, False)):
        assert tacit.Problem([case(300, d, 0.0, False)[:2]]).store.compiled is compiled
