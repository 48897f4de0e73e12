"""Several classes: the multinomial loss, its minimisers, and what one record can move."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime, minimize

import tacit
from tacit.algorithms import (
    ConsensusADMM,
    DualPerturbedADMM,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomCoordinateDescent,
    RecycledADMM,
)
from tacit.core.multinomial import Multinomial
from tacit.core.problem import Problem
from tacit.core.solvers import truncated_newton
from tacit.errors import InputError, NotConverged
from tacit.privacy.sensitivity import gradient_sensitivity

K, D = 4, 5


def parts_of(seed=0, sizes=(30, 17, 9), sparse=False):
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        X = rng.normal(size=(n, D))
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        y = rng.integers(0, K, size=n)
        parts.append((scipy.sparse.csr_array(X) if sparse else X, y))
    return parts


def plain_objective(X, y, F, scale, l2, weights=None, offset=None):
    """O of one agent, row by row, as it is written down."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        z = F @ x + (0 if offset is None else np.asarray(offset))
        weight = 1.0 if weights is None else weights[label]
        total += weight * (np.log(np.sum(np.exp(z))) - z[label])
    return scale / len(y) * total + l2 / 2 * np.sum(F**2)


LOSSES = [Multinomial(K), Multinomial(K, offset=(0.5, -1.0, 0.0, 2.0), weights=(1.0, 3.0, 0.5, 1.0))]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_value_gradient_and_minimiser_against_an_independent_implementation(loss, sparse):
    parts = parts_of(sparse=sparse)
    problem = Problem(parts, loss=loss, scale=[1.0, 2.0, 0.5], l2=0.2)
    assert problem.dimension == K * D
    f = np.random.default_rng(1).normal(size=(3, K * D))
    linear, centre = np.random.default_rng(2).normal(size=(2, 3, K * D))
    found = problem.argmin(linear=linear, weight=0.3, centre=centre)
    for i, (X, y) in enumerate(parts_of()):

        def objective(flat, X=X, y=y, i=i):
            model = flat.reshape(K, D)
            return plain_objective(X, y, model, [1.0, 2.0, 0.5][i], 0.2, loss.weights, loss.offset)

        assert problem.value(f)[i] == pytest.approx(objective(f[i]), rel=1e-12)
        np.testing.assert_allclose(problem.gradient(f)[i], approx_fprime(f[i], objective, 1e-7), atol=1e-5)

        def perturbed(flat, i=i, objective=objective):
            return objective(flat) + linear[i] @ flat + 0.3 * np.sum((flat - centre[i]) ** 2)

        best = minimize(perturbed, np.zeros(K * D), tol=1e-12)
        np.testing.assert_allclose(found[i], best.x, atol=2e-5)
    assert np.all(np.linalg.norm(problem.gradient(found) + linear + 0.6 * (found - centre), axis=1) <= 1e-9)


def test_two_classes_are_the_logistic_loss():
    """With F = (-f/2, f/2) the scores differ by f.x: the loss of paper 000."""
    rng = np.random.default_rng(3)
    X, f = rng.normal(size=(20, D)), rng.normal(size=D)
    y = rng.integers(0, 2, size=20)
    several = Problem([(X, y)], loss=Multinomial(2)).value(np.concatenate([-f / 2, f / 2]))
    binary = Problem([(X, 2.0 * y - 1)]).value(f)
    np.testing.assert_allclose(several, binary, rtol=1e-12)


def test_agents_agree_on_the_optimum():
    problem = Problem(parts_of(), loss=Multinomial(K), l2=0.2)
    run = tacit.simulate(ConsensusADMM(penalty=0.3), problem, tacit.Graph.ring(3), rounds=300)
    np.testing.assert_allclose(run.estimate, np.tile(problem.optimum(), (3, 1)), atol=1e-8)
    token = tacit.simulate(IncrementalADMM(penalty=2.0), problem, tacit.Graph.ring(3), rounds=900)
    np.testing.assert_allclose(token.estimate, np.tile(problem.optimum(), (3, 1)), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_record_moves_the_gradient_by_no_more_than_is_claimed_and_nearly_that(loss):
    """Two records that pull as hard as they can, in directions that do not cancel."""
    x, other = np.eye(D)[:2]
    heavy = int(np.argmax(loss.weights))
    wrong = np.zeros((K, D))
    wrong[heavy] = -50.0 * (x + other)  # nearly sure that it is not the class that it is
    moved, rest = [], parts_of(sizes=(9,))[0]
    for record in (x, other):
        X, y = np.vstack([rest[0], record]), np.append(rest[1], heavy)
        problem = Problem([(X, y)], loss=loss)
        moved.append(problem.data_gradient(wrong.ravel())[0])
    claimed = float(gradient_sensitivity(problem)[0, 0])
    apart = float(np.linalg.norm(moved[0] - moved[1]))
    assert 0.55 * claimed <= apart <= claimed  # sqrt(2) of 2: the two records are orthogonal
    rng = np.random.default_rng(4)
    for _ in range(200):
        F = rng.normal(size=K * D) * 10 ** rng.uniform(-2, 2)
        pair = []
        for _ in range(2):
            record = rng.normal(size=D)
            X, y = np.vstack([rest[0], record / np.linalg.norm(record)]), np.append(rest[1], rng.integers(K))
            pair.append(Problem([(X, y)], loss=loss).data_gradient(F)[0])
        assert np.linalg.norm(pair[0] - pair[1]) <= claimed


BUDGET = tacit.Gaussian(5.0)


def test_a_method_whose_proof_is_about_one_score_refuses():
    problem = Problem(parts_of(), loss=Multinomial(K), l2=0.2)
    method = RandomCoordinateDescent(budget=BUDGET)
    with pytest.raises(InputError, match="not for several classes: take primal"):
        tacit.simulate(method, problem, tacit.Graph.ring(3), rounds=4, noise=tacit.SecureNoise())


@pytest.mark.parametrize(
    "method",
    [
        PrimalPerturbedADMM(penalty=0.2, budget=BUDGET),
        GradientDescent(step=0.5, mixing=0.2, budget=BUDGET),
        IncrementalADMM(penalty=2.0, budget=BUDGET),
        DualPerturbedADMM(penalty=0.2, budget=BUDGET),
        PenaltyPerturbedADMM(penalty=0.2, budget=BUDGET),
        RecycledADMM(penalty=0.2, budget=BUDGET),
        RecycledADMM(penalty=0.2, alpha=1.0),
        RecycledADMM(penalty=0.2, budget=BUDGET, noise_on="output"),
        PrimalPerturbedADMM(penalty=0.2, budget=tacit.Pure(1.0), final=3),
        OneShotAveraging(mixing=0.2, budget=BUDGET),
    ],
    ids=lambda method: type(method).__name__,
)
def test_methods_whose_proof_carries_over_cost_what_the_plan_says(method):
    problem = Problem(parts_of(), loss=Multinomial(K), l2=0.2)
    run = tacit.simulate(method, problem, tacit.Graph.ring(3), rounds=6, noise=tacit.SecureNoise())
    assert run.private
    assert run.spent == tacit.plan(method, problem, tacit.Graph.ring(3), 6).spent


def test_where_the_fast_solver_gives_up_descent_gets_there():
    """`descend` reaches its limit from -b/rho, whatever the labels."""
    problem = Problem(parts_of(), loss=Multinomial(K), l2=0.2)
    rho, b = np.full(3, 0.8), np.random.default_rng(5).normal(size=(3, K * D))
    f = np.zeros((3, K * D))
    curved = 0.5 * problem.scale + rho
    norms = problem.store.descend(np.arange(3), rho, b, f, 1 / curved, np.full(3, 400.0), np.full(3, 1e-9))
    assert np.all(norms <= 1e-9)
    best = np.zeros((3, K * D))
    problem.store.minimise(np.arange(3), rho, b, best, np.full(3, 1e-10))
    np.testing.assert_allclose(f, best, atol=1e-8)


def test_no_division_by_zero_where_nothing_is_curved():
    """Without l2 and with scores that are sure of everything; or with numbers that are too small to be squared."""
    far = Problem([(np.ones((1, 1)), [0])], loss=Multinomial(2))
    with pytest.raises(NotConverged):
        far.argmin(linear=0, weight=0, centre=0, start=np.array([-500.0, 500.0]))
    tiny = Problem([(np.zeros((1, 1)), [0])], loss=Multinomial(2), l2=1e-10, tolerance=1e-200)
    with pytest.raises(NotConverged):
        tiny.argmin(linear=np.full((1, 2), 1e-160), weight=0, centre=0)


def test_a_plan_knows_that_there_is_a_row_for_every_class():
    with pytest.raises(InputError, match="3 times the number of features, not 7"):
        tacit.Facts(sizes=[10], dimension=7, loss=Multinomial(3))


def test_labels_of_classes_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match="labels of 4 classes are 0 to 3"):
        Problem([(np.eye(2), [0, 4])], loss=Multinomial(4))
    with pytest.raises(InputError, match="labels of 4 classes are 0 to 3"):
        Problem([(np.eye(2), [0, 1.5])], loss=Multinomial(4))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_product_with_the_hessian_is_the_derivative_of_the_gradient(loss):
    """Of several classes, and of one score: central differences along random directions."""
    rng = np.random.default_rng(4)
    for problem in (
        Problem(parts_of(), loss=loss, scale=[1.0, 2.0, 0.5]),
        Problem([(X, 2.0 * (y > 1) - 1) for X, y in parts_of()], scale=[1.0, 2.0, 0.5]),
    ):
        ids, (f, v) = np.arange(3), rng.normal(size=(2, 3, problem.dimension))
        numeric = (problem.data_gradient(f + 1e-6 * v) - problem.data_gradient(f - 1e-6 * v)) / 2e-6
        np.testing.assert_allclose(problem.store.curved(ids, f, v), numeric, rtol=1e-6, atol=1e-8)


def test_a_step_of_newton_goes_down():
    """A quartic with a narrow valley: a full step from far away goes up. No step is accepted that does not make the
    value less or the gradient half as long."""
    seen = []

    class Valley:
        def value(self, F):
            return float(np.hypot(1, 30 * F).sum())

        def gradient(self, F):
            seen.append(F.copy())
            return 900 * F / np.hypot(1, 30 * F), F

        def curved(self, at, V):
            return 900 * np.hypot(1, 30 * at) ** -3.0 * V

    valley, start = Valley(), np.array([[0.9, -0.4]])
    found, norm = truncated_newton.minimise(valley, start, 1e-9)
    assert norm <= 1e-9
    np.testing.assert_allclose(found, 0, atol=1e-9)
    assert max(valley.value(each) for each in seen) > 10 * valley.value(start)  # there were such steps
