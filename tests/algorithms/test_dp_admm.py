"""DP-ADMM and its accelerated form (paper 001): against optima, an independent implementation, and their plans."""

import math
from collections import Counter

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from composite_case import ALONE, FUSED, PROBLEM, Curtain, D, G, Watched, X, Y, methods, run
from conftest import make_parts
from custom_losses import logistic

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM, Geometric
from tacit.composite import (
    L1,
    Box,
    Composite,
    ElasticNet,
    GroupL1,
    Nothing,
    SquaredL2,
    Term,
    generalised_lasso,
    graph_guided,
    lasso,
    private_graph,
)
from tacit.core.losses import HuberHinge, Logistic, Squared
from tacit.lab.theory.dp_admm import paper_sigma, suggested_rounds
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import SampledGaussian, Unprotected
from tacit.privacy.sensitivity import gradient_sensitivity

PLAIN = {
    "plain": DPADMM(term=FUSED, penalty=0.1),
    "accelerated": AcceleratedDPADMM(term=FUSED, penalty=0.1),
}


# The methods without noise


def smooth(loss, x):
    """The average loss, its gradient and Hessian, in the plainest numpy."""
    z = X @ x
    value = loss.value(z, Y).mean()
    return value, X.T @ loss.slope(z, Y) / len(Y), (X.T * loss.curvature(z, Y)) @ X / len(Y)


def l1_optimum(loss, A, strength):
    """min f(x) + strength ||A x||_1 by SLSQP with bounds |A x| <= s, then Newton's method on the active set."""
    m, d = A.shape
    found = scipy.optimize.minimize(
        lambda v: smooth(loss, v[:d])[0] + strength * v[d:].sum(),
        np.concatenate([np.zeros(d), np.ones(m)]),
        jac=lambda v: np.concatenate([smooth(loss, v[:d])[1], np.full(m, strength)]),
        constraints={
            "type": "ineq",
            "fun": lambda v: np.concatenate([v[d:] - A @ v[:d], v[d:] + A @ v[:d]]),
            "jac": lambda v: np.block([[-A, np.eye(m)], [A, np.eye(m)]]),
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    x = found.x[:d]
    zero = np.abs(A @ x) < 1e-4
    free = scipy.linalg.null_space(A[zero]) if zero.any() else np.eye(d)
    slope = strength * A[~zero].T @ np.sign(A[~zero] @ x)
    x = free @ (free.T @ x)
    for _ in range(30):
        _, gradient, hessian = smooth(loss, x)
        x = x - free @ np.linalg.solve(free.T @ hessian @ free, free.T @ (gradient + slope))
    # Optimal: some |w| <= strength with the right signs has grad f + A^T w = 0.
    gradient = smooth(loss, x)[1] + slope
    if zero.any():
        fit = scipy.optimize.lsq_linear(A[zero].T, -gradient, bounds=(-strength, strength), tol=1e-14)
        assert np.linalg.norm(A[zero].T @ fit.x + gradient) < 1e-8
    else:
        assert np.linalg.norm(gradient) < 1e-10
    return x


@methods
@pytest.mark.parametrize("loss", [Logistic(), Squared(), HuberHinge(0.5)], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_the_plain_methods_reach_the_optimum(method, loss, sparse):
    problem = tacit.Problem([(scipy.sparse.csr_array(X) if sparse else X, Y)], loss=loss)
    best = l1_optimum(loss, FUSED.A.toarray(), 0.02)
    assert 0 < np.sum(np.abs(FUSED.A @ best) < 1e-9) < FUSED.rows  # the optimum has zeros, and not only zeros
    done = run(method(term=FUSED, penalty=0.1), 20_000, problem, tolerance=1e-9)
    assert done.converged
    assert np.linalg.norm(done.model - best) <= 1e-6 * np.linalg.norm(best)
    composite = Composite(problem, FUSED)
    assert composite.value(done.model) <= composite.value(best) * (1 + 1e-6)


@methods
@pytest.mark.parametrize(
    "term",
    [
        generalised_lasso((2, 4), 0.005),
        lasso(D, 0.005),
        Term(np.eye(D), ElasticNet(0.004, 0.02)),
        Term(np.eye(D), GroupL1(0.01, (0, 0, 0, 1, 1, 1, 2, 2))),
    ],
    ids=["grid", "lasso", "elastic net", "groups"],
)
def test_other_terms(method, term):
    done = run(method(term=term, penalty=0.05), 20_000, tolerance=1e-9)
    assert done.converged
    if isinstance(term.g, L1):
        best = l1_optimum(Logistic(), term.A.toarray(), term.g.strength)
        assert np.linalg.norm(done.model - best) <= 1e-6 * np.linalg.norm(best)
    else:  # a fixed point of a proximal gradient step is optimal
        step = term.g.prox(done.estimate - 4 * smooth(Logistic(), done.model)[1], 4.0)
        assert np.linalg.norm(step - done.estimate) <= 1e-6 * np.linalg.norm(done.estimate)
        assert np.linalg.norm(done.estimate) > 0.1


@methods
def test_terms_that_other_solvers_know(method):
    ridge = run(method(term=Term(np.eye(D), SquaredL2(0.05)), penalty=0.05), 5_000, tolerance=1e-10).model
    np.testing.assert_allclose(ridge, tacit.Problem([(X, Y)], l2=0.05).optimum(), atol=1e-8)
    smooth_l2 = tacit.Problem([(X, Y)], l2=0.05)
    np.testing.assert_allclose(
        run(method(term=Term(np.eye(D), Nothing())), 5_000, smooth_l2, tolerance=1e-10).model,
        smooth_l2.optimum(),
        atol=1e-8,
    )
    boxed = run(method(term=Term(np.eye(D), Box(-1.0, 2.0), c=0.5), penalty=0.1), 20_000, tolerance=1e-10).model
    bounds = [(-0.5, 2.5)] * D  # x - c in the box
    best = scipy.optimize.minimize(
        lambda x: smooth(Logistic(), x)[:2],
        np.zeros(D),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10},
    ).x
    np.testing.assert_allclose(boxed, best, atol=1e-6)


def test_as_printed_the_accelerated_method_need_not_converge():
    settings = {"term": FUSED, "penalty": 0.01}
    best = l1_optimum(Logistic(), FUSED.A.toarray(), 0.02)

    def error(algorithm):
        return np.linalg.norm(run(algorithm, 1_000).model - best) / np.linalg.norm(best)

    assert error(AcceleratedDPADMM(restart=False, **settings)) > 1e-3
    assert error(AcceleratedDPADMM(**settings)) < 1e-9


def test_as_printed_the_accelerated_method_multiplies_differences():
    def apart(algorithm):
        return np.abs(run(algorithm, 300, start=1e-13).model - run(algorithm, 300).model).max()

    assert apart(AcceleratedDPADMM(term=FUSED, penalty=0.1, restart=False)) > 1e9 * 1e-13
    assert apart(AcceleratedDPADMM(term=FUSED, penalty=0.1)) < 10 * 1e-13


# The methods with noise


def in_plain_numpy(term, rho, noise, *, accelerated=False, restart=False, step=None):
    """Algorithms 2 and 3 as the paper has them, with u_0 = 0 and B = -I; restart after Goldstein et al."""
    A, c, g = term.A.toarray(), term.c, term.g
    step = step or 1 / (0.25 + rho * np.linalg.norm(A, 2) ** 2)
    x = x_hat = np.zeros(D)
    u = u_hat = np.zeros(len(A))
    theta, momentum, before, out = 1.0, 0.0, np.inf, [x]
    for P in noise:
        y = g.prox((A @ x_hat - c + u_hat)[None], 1 / rho)[0]
        v = -X.T @ (Y / (1 + np.exp(Y * (X @ x_hat)))) / len(Y) + P
        x_new = x_hat - step * (v + rho * A.T @ (A @ x_hat - y - c + u_hat))
        u_new = u_hat + A @ x_new - y - c
        if not accelerated:
            x_hat, u_hat = x_new, u_new
        else:
            change = rho * np.sum((u_new - u_hat) ** 2) + np.sum((x_new - x_hat) ** 2) / step
            if restart and momentum > 0 and change >= before:
                theta, momentum, x_hat, u_hat = 1.0, 0.0, x, u
            else:
                following = (1 + math.sqrt(1 + 4 * theta**2)) / 2
                momentum, theta, before = (theta - 1) / following, following, change
                x_hat, u_hat = x_new + momentum * (x_new - x), u_new + momentum * (u_new - u)
        x, u = x_new, u_new
        out.append(x)
    return np.array(out)


TERMS = {"fused": FUSED, "offset": Term(FUSED.A, ElasticNet(0.01, 0.1), c=np.linspace(-1, 1, FUSED.rows))}


@pytest.mark.parametrize("term", TERMS.values(), ids=list(TERMS))
@pytest.mark.parametrize(("accelerated", "restart"), [(False, False), (True, False), (True, True)])
def test_trajectories_agree_with_an_independent_implementation(term, accelerated, restart):
    noise = 0.02 * np.random.default_rng(2).normal(size=(100, 1, D))
    settings = {"restart": restart} if accelerated else {}
    method = AcceleratedDPADMM if accelerated else DPADMM
    algorithm = method(term=term, penalty=0.1, budget=G, **settings)
    done = run(algorithm, 100, noise=tacit.RecordedNoise(noise), record=True)
    expected = in_plain_numpy(term, 0.1, noise[:, 0], accelerated=accelerated, restart=restart)
    np.testing.assert_allclose(done.trajectory[:, 0], expected, atol=1e-8)
    mean = run(
        method(term=term, penalty=0.1, budget=G, average=True, **settings), 100, noise=tacit.RecordedNoise(noise)
    )
    np.testing.assert_allclose(mean.model, expected[1:].mean(axis=0), atol=1e-8)


@methods
def test_zero_noise_is_the_plain_method(method):
    quiet = tacit.RecordedNoise(np.zeros((50, 1, D)))
    restart = {"restart": True} if method is AcceleratedDPADMM else {}
    private = run(method(term=FUSED, penalty=0.1, budget=G, **restart), 50, noise=quiet, record=True)
    plain = run(method(term=FUSED, penalty=0.1), 50, record=True)
    np.testing.assert_array_equal(private.trajectory, plain.trajectory)
    assert set(plain.spent[0]) == {Unprotected()}


def test_without_a_term_the_accelerated_method_is_that_of_nesterov():
    """Algorithm 1 of the paper, by the plain loop."""
    method = AcceleratedDPADMM(term=Term(np.eye(3), Nothing()), step=2.0, restart=False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    problem = tacit.Problem([(X, np.sign(rng.normal(size=50)))], l2=0.01)
    run = tacit.simulate(method, problem, tacit.Graph.ring(1), rounds=20, record=True)
    x, y, theta, found = np.zeros(3), np.zeros(3), 1.0, []
    for _ in range(20):
        before, x = x, y - 2.0 * problem.gradient(y[None])[0]
        theta, old = (np.sqrt(4 * theta**2 + 1) + 1) / 2, theta
        y = x + (old - 1) / theta * (x - before)
        found.append(x)
    np.testing.assert_allclose(run.trajectory[1:, 0], found, rtol=1e-13)


@methods
@pytest.mark.parametrize("learnt", [False, True], ids=["public graph", "private graph"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_nothing_leaves_but_noisy_gradients(method, learnt, rate):
    """If noise hid every gradient completely, nothing could separate two different data sets."""
    results = []
    for seed in (0, 1):
        ((rows, labels),) = make_parts(sizes=(50,), d=D, seed=seed)
        problem, noise = Watched([(rows, labels)]), Curtain()
        term = graph_guided(private_graph(problem, noise, G, 0.3), 0.01) if learnt else FUSED
        algorithm = method(term=term, penalty=0.1, budget=G, rate=rate)
        looks = problem.looks
        done = run(algorithm, 20, problem, noise=noise, record=True)
        assert done.private
        assert problem.looks - looks == 20 - algorithm.first  # one gradient a round, and nothing else
        results.append((done, term))
    (one, term), (other, other_term) = results
    assert term.digest == other_term.digest
    np.testing.assert_array_equal(one.trajectory, other.trajectory)
    for a, b in zip(one.state, other.state, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.spent == other.spent


def test_the_noise_has_the_deviation_of_its_event():
    noise = Curtain()
    algorithm = DPADMM(term=FUSED, budget=G, row_norm=2.0, noise_schedule=Geometric(1.0, 0.5))
    done = run(algorithm, 3, noise=noise)
    sensitivity = 2 * 2.0 / 80
    assert [law for law, _ in noise.scales] == ["gaussian"] * 3
    np.testing.assert_allclose(
        [float(scale[0, 0]) for _, scale in noise.scales], [5 * sensitivity * 0.5**k for k in range(3)]
    )
    assert done.spent[0] == Counter(tacit.Gaussian(5 * 0.5**k) for k in range(3))
    assert algorithm.sigma(PROBLEM, 2)[0, 0] == pytest.approx(1.25 * sensitivity)


def test_replacing_a_record_moves_the_gradient_by_up_to_the_sensitivity():
    """The paper's c/n is too small by a factor of two; 2c/n is attained."""
    angle = 1e-3  # two records in nearly opposite directions, both on the wrong side of the model
    records = [[-math.sin(angle), math.cos(angle)], [-math.sin(angle), -math.cos(angle)]]
    rest = np.zeros((9, 2))
    f = np.array([[1e5, 0.0]])
    a, b = (tacit.Problem([(np.vstack([rest, record]), np.ones(10))]) for record in records)
    moved = np.linalg.norm(a.gradient(f) - b.gradient(f))
    assert 1.99 * 1.0 / 10 < moved <= gradient_sensitivity(a)[0, 0] == pytest.approx(2.0 / 10)


def test_printed_u_reveals_the_gradient_and_is_never_called_private():
    """With u_0 of the paper, y_1 is a function of the data without any noise in it."""
    algorithm = DPADMM(term=FUSED, penalty=0.1, budget=G, as_printed=True)
    first, second = (run(algorithm, 1, noise=tacit.SeededNoise(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(first.state.y, second.state.y)
    ((other, labels),) = make_parts(sizes=(80,), d=D, seed=4)
    third = run(algorithm, 1, tacit.Problem([(other, labels)]), noise=tacit.SeededNoise(0))
    assert np.abs(third.state.y - first.state.y).max() > 1e-3
    assert set(first.spent[0]) == {Unprotected()}
    with pytest.raises(tacit.InputError, match="breaks its own promise"):
        run(algorithm, 1, noise=tacit.SecureNoise())
    np.testing.assert_array_equal(run(PLAIN["plain"], 1).state.y, 0)  # u_0 = 0: y_1 is public


@pytest.mark.parametrize(("term", "holds"), [(generalised_lasso(D, 0.002), True), (FUSED, False)])
def test_lemma_4_needs_full_row_rank(term, holds):
    """u* = -(A^T)^+ grad f(x*)/rho, on which Theorem 2 relies, is false for A = [W; I]."""
    done = run(AcceleratedDPADMM(term=term, penalty=0.1), 20_000, tolerance=1e-10)
    assert done.converged
    claimed = -np.linalg.pinv(term.A.T.toarray()) @ PROBLEM.gradient(done.model)[0] / 0.1
    apart = np.linalg.norm(done.state.u[0] - claimed) / np.linalg.norm(claimed)
    assert (apart < 1e-6) if holds else (apart > 0.1)


# Plans


@methods
def test_a_plan_is_what_the_run_spends_and_calibration_meets_the_total(method):
    facts = tacit.Facts(sizes=[80], dimension=D)

    def make(budget):
        return method(term=FUSED, budget=budget, noise_schedule=Geometric(1.0, 0.98))

    best = tacit.calibrate(make, facts, ALONE, 40, epsilon=1.0, delta=1e-5)
    done = run(best, 40, noise=tacit.SeededNoise(0))
    assert done.spent == tacit.plan(best, facts, ALONE, 40).spent
    assert 0.9999 < epsilon(done.spent[0], 1e-5) <= 1.0
    assert len(done.spent[0]) == 40  # every step at a cost of its own


def test_the_tight_accountant_needs_less_noise_than_theorem_1():
    best = tacit.calibrate(lambda b: DPADMM(term=FUSED, budget=b), PROBLEM, ALONE, 100, epsilon=1.0, delta=1e-5)
    settings = {"slope": 1.0, "rows": 80, "rounds": 100, "epsilon": 1.0, "delta": 1e-5}
    alpha = math.log(1e5) / 0.5 + 1
    assert paper_sigma(**settings, replace_one=False) == pytest.approx(math.sqrt(alpha * 100 / (2 * 80**2 * 0.5)))
    assert paper_sigma(**settings) == 2 * paper_sigma(**settings, replace_one=False)
    tight = best.sigma(PROBLEM)[0, 0]
    assert paper_sigma(**settings, replace_one=False) < tight < paper_sigma(**settings)


def test_suggested_rounds_balance_the_two_terms_of_the_bound():
    """With the constant of the proof, c_1 r^2/T and eta sigma^2 d are equal."""
    c_1, distance, slope, step = 7.0, 3.0, 1.0, 4.0
    budget = {"rows": 20_000, "epsilon": 0.5, "delta": 1e-6}
    rounds = suggested_rounds(constant=math.sqrt(2 * c_1) * distance / slope, dimension=50, step=step, **budget)
    sigma = paper_sigma(slope=slope, rounds=rounds, replace_one=False, **budget)
    assert rounds > 100
    assert c_1 * distance**2 / rounds == pytest.approx(step * sigma**2 * 50, rel=0.01)


@methods
@pytest.mark.parametrize("stop", [0, 1, 7])
def test_stopping_saving_and_resuming_changes_nothing(method, stop, tmp_path):
    graph = private_graph(PROBLEM, tacit.SeededNoise(3), G, 0.3)
    algorithm = method(term=graph_guided(graph, 0.01), penalty=0.1, budget=G)
    noise = tacit.SeededNoise(1)
    whole = run(algorithm, 10, noise=noise, record=True)
    run(algorithm, stop, noise=noise, record=True).save(tmp_path / "run.npz")
    saved = tacit.Run.load(tmp_path / "run.npz")
    resumed = run(algorithm, 10, noise=noise, record=True, resume=saved)
    np.testing.assert_array_equal(resumed.trajectory, whole.trajectory)
    assert resumed.spent == whole.spent
    other = method(term=Term(algorithm.term.A, SquaredL2(0.01), cost=G), penalty=0.1, budget=G)
    with pytest.raises(tacit.InputError, match="another algorithm"):
        run(other, 10, noise=noise, resume=saved)


# Bad input


def calibrated(epsilon=1.0, delta=1e-5):
    return tacit.calibrate(lambda b: DPADMM(term=FUSED, budget=b), PROBLEM, ALONE, 3, epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DPADMM(term=L1(1.0)), "Term"),
        (lambda: DPADMM(term=FUSED, penalty=0.0), "penalty"),
        (lambda: DPADMM(term=FUSED, step=-1.0), "step"),
        (lambda: DPADMM(term=FUSED, budget=tacit.Pure(1.0)), "Gaussian"),
        (lambda: DPADMM(term=FUSED, noise_schedule=0.0), "noise_schedule"),
        (lambda: DPADMM(term=FUSED, budget=G, rate=1.5), "rate"),
        (lambda: DPADMM(term=FUSED, rate=0.5), "rate"),
        (lambda: SampledGaussian(1.0, 0.0), "rate"),
        (
            lambda: run(DPADMM(term=FUSED, budget=G, rate=0.5), 1, noise=tacit.RecordedNoise(np.zeros((1, 1, D)))),
            "no sample",
        ),
        (lambda: AcceleratedDPADMM(term=FUSED, decrease=2.0), "decrease"),
        (lambda: DPADMM(term=FUSED).sigma(PROBLEM), "budget"),
        (lambda: run(DPADMM(term=lasso(3, 1.0)), 1), "dimension 8, the term 3"),
        (lambda: run(DPADMM(term=FUSED, budget=G), 1), "needs noise"),
        (lambda: run(DPADMM(term=FUSED, row_norm=0.1), 1), "row of norm"),
        (lambda: run(DPADMM(term=FUSED, budget=G, row_norm=0.1), 1, noise=tacit.SeededNoise(0)), "row of norm"),
        (
            lambda: run(
                DPADMM(term=FUSED, budget=G), 1, tacit.Problem([(X, Y)], loss=Squared()), noise=tacit.SeededNoise(0)
            ),
            "no bound on its slope",
        ),
        (
            lambda: tacit.simulate(
                DPADMM(term=lasso(3, 1.0)), tacit.Problem(make_parts(sizes=(5, 5), d=3)), tacit.Graph.path(2), rounds=1
            ),
            "one agent",
        ),
        (lambda: paper_sigma(slope=1.0, rows=10, rounds=1, epsilon=0.0, delta=1e-5), "epsilon"),
        (lambda: paper_sigma(slope=math.inf, rows=10, rounds=1, epsilon=1.0, delta=1e-5), "slope"),
        (lambda: suggested_rounds(constant=0, rows=9, dimension=2, epsilon=1.0, delta=0.1, step=1.0), "constant"),
        (lambda: paper_sigma(slope=1.0, rows=10, rounds=1, epsilon=1.0, delta=1.0), "delta"),
        (lambda: calibrated(epsilon=0.0), "epsilon"),
        (lambda: calibrated(epsilon=math.inf), "epsilon"),
        (lambda: calibrated(delta=0.0), "delta"),
        (lambda: calibrated(delta=1.5), "delta"),
    ],
)
def test_bad_input_is_refused_in_one_line(make, message):
    with pytest.raises(tacit.InputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


@methods
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_a_custom_copy_of_the_loss_gives_the_same_run(method, rate):
    algorithm = method(term=FUSED, penalty=0.1, budget=G, rate=rate)
    runs = [
        run(algorithm, 20, problem=tacit.Problem([(X, Y)], loss=loss), noise=tacit.SeededNoise(3), record=True)
        for loss in (Logistic(), logistic())
    ]
    np.testing.assert_allclose(runs[1].trajectory, runs[0].trajectory, atol=1e-9)
    assert runs[1].spent == runs[0].spent
