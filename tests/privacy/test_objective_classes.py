"""Objective perturbation with several classes: both lemmas of docs/privacy.md by maximisation, and the costs against
densities that are written down from the softmax alone."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

import tacit
from tacit.algorithms import DualPerturbedADMM, OneShotAveraging, RecycledADMM
from tacit.core.facts import Facts
from tacit.core.losses import Logistic
from tacit.core.multinomial import Multinomial
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, ObjectiveGaussian, ObjectiveGaussianClasses, Pure
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.laws import BudgetTooSmall
from tacit.privacy.plan import plan

ONE = tacit.Graph.ring(1)


def hessian(p):
    return np.diag(p) - np.outer(p, p)


def log_det(M):
    sign, value = np.linalg.slogdet(M)
    return value if sign > 0 else -math.inf


def largest(function, start, tries=12, seed=0):
    """The largest value that a search from several random starts finds."""
    rng = np.random.default_rng(seed)
    found = -math.inf
    for _ in range(tries):
        x = start(rng)
        best = minimize(lambda v: -function(v), x, method="Nelder-Mead", options={"maxfev": 300 * len(x)})
        best = minimize(lambda v: -function(v), best.x, method="BFGS")
        found = max(found, -best.fun)
    return found


def psd(v, n, k):
    """n x n of rank k, from its factor."""
    U = v.reshape(n, k)
    return U @ U.T


@pytest.mark.parametrize(("n", "k", "T"), [(2, 1, 0.4), (3, 2, 3.0), (4, 2, 20.0), (3, 3, 1.0)])
def test_determinants_differ_by_no_more_than_the_first_lemma_says_and_by_that(n, k, T):
    mu, bound = 0.7, k * math.log1p(T / (k * 0.7))

    def apart(v):
        old, new, more = (psd(each, n, k if j < 2 else n) for j, each in enumerate(np.split(v, [n * k, 2 * n * k])))
        old, new = (E * T / max(np.trace(E), 1e-12) for E in (old, new))
        return abs(log_det(mu * np.eye(n) + more + new) - log_det(mu * np.eye(n) + more + old * math.tanh(v[0] ** 2)))

    found = largest(apart, lambda rng: rng.normal(size=2 * n * k + n * n) * 0.5)
    assert found <= bound + 1e-9
    assert found >= 0.97 * bound
    single = math.log1p(T / mu)  # one factor with the same trace
    assert k == 1 or found > 1.05 * single


@pytest.mark.parametrize("x", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_moments_of_determinants_are_at_most_what_the_second_lemma_says(k, x):
    n, mu = 2 * k if k < 3 else 4, 1.3
    for share in (0.1, 0.5, 0.9):
        a = 1 + share / x
        spent = float(ObjectiveGaussianClasses(1e8, x, k + 1).renyi(np.array([a]))[0]) * (a - 1)

        def excess(v, a=a):
            old, new, more = (psd(each, n, k if j < 2 else n) for j, each in enumerate(np.split(v, [n * k, 2 * n * k])))
            old, new = (E * x * mu / max(np.linalg.norm(E), 1e-12) for E in (old, new))
            A = mu * np.eye(n) + more
            return a * log_det(A + old) - (a - 1) * log_det(A + new) - log_det(A + a * old - (a - 1) * new)

        found = largest(excess, lambda rng: rng.normal(size=2 * n * k + n * n) * 0.4, tries=2)
        assert found <= spent * (1 + 1e-6)
        if n >= 2 * k and a >= 2:  # there is room for two that are orthogonal; E' of rank one is the worst
            assert found >= 0.98 * spent


@pytest.mark.parametrize("K", [2, 3, 6])
def test_what_a_record_of_several_classes_adds_to_a_hessian(K):
    """The largest determinant, the largest Frobenius norm and the largest eigenvalue, over all probabilities."""
    eye, uniform = np.eye(K), lambda rng: rng.normal(size=K)
    for t in (0.01, 2.0, 500.0):
        found = largest(lambda v, t=t: log_det(eye + t * hessian(softmax(v))), uniform)
        stated = float(Multinomial(K).most_bent(np.array([t]))[0])
        assert stated * (1 - 1e-6) <= found <= stated * (1 + 1e-9)
        assert K == 2 or stated > 1.3 * math.log1p(t / 2)  # of one factor
    norm = largest(lambda v: np.linalg.norm(hessian(softmax(v))), uniform)
    widest = largest(lambda v: np.linalg.eigvalsh(hessian(softmax(v)))[-1], uniform)
    assert widest <= norm + 1e-9
    assert 0.499 < norm <= 0.5 + 1e-9


class Pair:
    """Two neighbouring data sets of one record each: J(F) = q L(F x + offset, y) + mu/2 ||F||^2 + <shift, F>."""

    def __init__(self, K, one, other, *, q=1.0, mu=1.0, shift=0.0, weights=None, offset=0.0):
        self.K, self.q, self.mu, self.offset = K, q, mu, offset
        self.weights = np.ones(K) if weights is None else np.asarray(weights)
        self.records = [(np.atleast_1d(np.asarray(x, float)), y) for x, y in (one, other)]
        self.d = len(self.records[0][0])
        self.shift = np.broadcast_to(np.asarray(shift, float), (K, self.d))

    def bent(self, which, F):
        """p, (..., K), for models F, (..., K, d)."""
        return softmax(F @ self.records[which][0] + self.offset, axis=-1)

    def gradient(self, which, F):
        x, y = self.records[which]
        slope = self.bent(which, F) - np.eye(self.K)[y]
        return self.q * self.weights[y] * slope[..., None] * x + self.mu * F + self.shift

    def log_determinant(self, which, F):
        x, y = self.records[which]
        p, t = self.bent(which, F), self.q * self.weights[y] / self.mu * (x @ x)
        M = np.eye(self.K) + t * (p[..., None] * np.eye(self.K) - p[..., None] * p[..., None, :])
        return self.K * self.d * math.log(self.mu) + np.linalg.slogdet(M)[1]

    def log_spherical(self, which, F, rate):
        return -rate * np.linalg.norm(self.gradient(which, F), axis=(-2, -1)) + self.log_determinant(which, F)

    def log_gaussian(self, which, F, sigma):
        g = self.gradient(which, F)
        size = self.K * self.d
        constant = -size / 2 * math.log(2 * math.pi * sigma**2)
        return constant - (g**2).sum(axis=(-2, -1)) / (2 * sigma**2) + self.log_determinant(which, F)

    def informative(self, half, points):
        """For d = 1: models F on a grid of the K - 1 directions in which scores differ, and the volume of its cells.
        In the direction (1, ..., 1) the two densities have the same normal factor, of which the mean is taken out."""
        basis = np.linalg.svd(np.eye(self.K) - 1 / self.K)[0][:, : self.K - 1]
        axis = (np.arange(points) + 0.5) / points * 2 * half - half
        grid = np.stack(np.meshgrid(*[axis] * (self.K - 1), indexing="ij"), axis=-1)
        F = (grid @ basis.T)[..., None] - self.shift / self.mu
        return F, (2 * half / points) ** (self.K - 1)

    def densities(self, sigma, a=1.0):
        """ln p and ln p' of the K - 1 informative numbers, and the volume of a cell."""
        half = (9 * sigma + (2 * a - 1) * 2 * self.q * self.weights.max()) / self.mu
        F, volume = self.informative(half, {2: 20_001, 3: 501}[self.K])
        one = 0.5 * math.log(2 * math.pi * sigma**2) - math.log(self.mu)  # of the factor that is left out
        return *(self.log_gaussian(k, F, sigma) + one for k in (0, 1)), volume


LINE = {
    "opposite": ((1.0, 0), (-1.0, 0)),
    "against a zero row": ((1.0, 0), (0.0, 1)),
    "labels": ((1.0, 0), (1.0, 1)),
    "short rows": ((0.6, 1), (-0.3, 0)),
}


def integral(log, volume):
    return float(log.max() + math.log(np.exp(log - log.max()).sum()) + math.log(volume))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("name", LINE)
def test_the_gaussian_cost_holds_for_the_true_densities(name, K):
    for mu, sigma, off in [(0.3, 2.0, 0.0), (1.0, 0.7, 0.4), (0.1, 3.0, 0.0), (8.0, 0.7, -2.0)]:
        shift = np.linspace(-off, off, K)[:, None]
        pair = Pair(K, *LINE[name], mu=mu, shift=shift)
        event = ObjectiveGaussianClasses(sigma / (2 * math.sqrt(2)), 0.5 / mu, K)
        for share, order in itertools.product((0.1, 0.5, 0.9), (1, -1)):
            a = min(1 + share / event.curvature, 8.0)
            p, q, volume = pair.densities(sigma, a)
            assert integral(p, volume) == pytest.approx(0, abs=1e-4)  # they integrate to one
            p, q = (p, q)[::order]
            bound = float(event.renyi(np.array([a]))[0])
            assert integral(a * p + (1 - a) * q, volume) <= (a - 1) * bound + 1e-4


@pytest.mark.parametrize("K", [2, 3])
def test_without_its_term_for_the_curvature_the_gaussian_cost_would_be_false(K):
    """A small mu: the one record bends the objective where the other leaves it flat."""
    mu, sigma = 1e-2, 100.0
    pair, event = Pair(K, (1.0, 0), (0.0, 0), mu=mu), ObjectiveGaussianClasses(sigma / (2 * math.sqrt(2)), 0.5 / mu, K)
    a = 1 + 0.9 / event.curvature
    # Far from zero the record neither bends nor differs from its neighbour but by a constant gradient.
    near = 12.0 / math.sqrt(K)
    F, volume = pair.informative(near, {2: 20_001, 3: 801}[K])
    one = 0.5 * math.log(2 * math.pi * sigma**2) - math.log(mu)
    p, q = (pair.log_gaussian(k, F, sigma) + one for k in (0, 1))
    bent = p - q  # the log ratio: there the determinant, and almost nothing else
    most = (K - 1) * math.log1p(2 * event.curvature / K)
    assert bent.max() == pytest.approx(most, abs=1e-2)
    # The least delta at half of that: what an event near zero shows, and the noise alone would not.
    shown = float(np.maximum(np.exp(p) - np.exp(most / 2 + q), 0).sum() * volume)
    assert gaussian_epsilon(event.multiplier, shown) < most / 2
    assert event.alone(shown) > most / 2
    assert float(event.renyi(np.array([a]))[0]) > float(Gaussian(event.multiplier).renyi(np.array([a]))[0])


@pytest.mark.parametrize(("m", "x", "delta"), [(4.0, 0.1, 1e-5), (1.0, 0.5, 1e-3), (0.5, 0.05, 1e-4), (2.0, 3.0, 1e-6)])
@pytest.mark.parametrize("K", [2, 3])
def test_the_cost_of_a_single_release_holds_for_the_true_densities(K, m, x, delta):
    epsilon = ObjectiveGaussianClasses(m, x, K).alone(delta)
    pairs = {2: 2, 3: 18, 10: 4050}  # 2 (K (K-1)/2)^2
    assert epsilon == pytest.approx((K - 1) * math.log1p(2 * x / K) + gaussian_epsilon(m, delta / pairs[K]), rel=1e-12)
    for name in LINE:
        pair = Pair(K, *LINE[name], mu=0.5 / x)
        p, q, volume = pair.densities(m * 2 * math.sqrt(2))
        for p_, q_ in ((p, q), (q, p)):
            assert float(np.maximum(np.exp(p_) - np.exp(epsilon + q_), 0).sum() * volume) <= delta


def pure_cost(K, d, rate, *, mu, q=1.0, weights=()):
    """Of one step of R-ADMM at alpha = rate, one agent alone with one record, as the package charges it."""
    facts = Facts(sizes=[1], dimension=K * d, loss=Multinomial(K, weights=weights), scale=q, l2=mu)
    ((event,),) = plan(RecycledADMM(alpha=rate), facts, ONE, 1).events
    assert isinstance(event, Pure)
    return event.epsilon / 1.001  # without the mask for an inexact minimiser


@pytest.mark.parametrize("weights", [None, (1.0, 3.0, 0.5)])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("d", [1, 2])
def test_the_pure_cost_holds_for_the_true_densities(K, d, weights):
    weights = None if weights is None else weights[:K]
    rng = np.random.default_rng(d)
    for mu, rate in itertools.product((0.05, 1.0, 8.0), (0.05, 0.5, 3.0)):
        cost = pure_cost(K, d, rate, mu=mu, weights=weights or ())
        for _ in range(60):
            rows = rng.normal(size=(2, d))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            shift = rng.normal(size=(K, d)) * mu * 10 ** rng.uniform(-1, 2)
            one, other = ((x, int(y)) for x, y in zip(rows, rng.integers(0, K, size=2), strict=True))
            pair = Pair(K, one, other, mu=mu, shift=shift, weights=weights, offset=rng.normal(size=K))
            near = rng.normal(size=(300, K, d)) * 10 ** rng.uniform(-2, 2, size=(300, 1, 1))
            F = np.concatenate([near, near - shift / mu])
            lost = pair.log_spherical(0, F, rate) - pair.log_spherical(1, F, rate)
            assert np.abs(lost).max() <= cost * (1 + 1e-9)


def worst_ratio(K, rate, mu, tries=10, seed=0):
    """The largest log ratio of densities at a point, over what remains to be chosen there: the two records' p, and the
    gradient of everything else. (Rows that are not parallel make the two p independent.) d = 2, q = 1."""
    x, other = np.array([1.0, 0.0]), np.array([-math.sqrt(1 - 1e-6), 1e-3])
    e, eye = np.eye(K)[0], np.eye(K)

    def ratio(v):
        p, new, rest = softmax(v[:K]), softmax(v[K : 2 * K]), v[2 * K :].reshape(K, 2)
        was = np.linalg.norm(rest + np.outer(p - e, x))
        now = np.linalg.norm(rest + np.outer(new - e, other))
        return rate * (now - was) + log_det(eye + hessian(p) / mu) - log_det(eye + hessian(new) / mu)

    def start(rng):
        new = np.where(np.arange(K) == 0, -6.0, np.where(np.arange(K) == 1, 6.0, -6.0))
        p = rng.normal(size=K)
        pull = 300 * (np.outer(softmax(new) - e, other) - np.outer(softmax(p) - e, x))
        return np.concatenate([p, new, pull.ravel()])

    return largest(ratio, start, tries, seed)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_pure_cost_is_nearly_attained_and_one_factor_would_be_false(K):
    for mu, rate in [(0.01, 0.05), (0.01, 0.5), (0.3, 0.05), (0.3, 1.0)]:
        found, cost = worst_ratio(K, rate, mu, tries=4), pure_cost(K, 2, rate, mu=mu)
        assert found <= cost * (1 + 1e-9)
        assert found >= (0.9999 if K == 2 else 0.9) * cost
        if K > 2 and rate < 0.1:
            assert found > 1.1 * (2 * math.sqrt(2) * rate + math.log1p(0.5 / mu))


def test_two_classes_cost_what_one_score_with_longer_rows_costs():
    """F = (f, -f)/sqrt(2): a logistic loss of a row sqrt(2) times as long."""
    a, t = np.array([0.0, 0.3, 1.0, 5.0]), np.array([3.0, 9.0, 2.0, 0.1])
    np.testing.assert_allclose(
        Multinomial(2).worst_record(a, t), Logistic().worst_record(math.sqrt(2) * a, 2 * t), rtol=1e-12
    )
    orders = np.array([2.0, 3.5, 9.0, 60.0])
    for m, x in [(3.0, 0.01), (0.7, 0.015)]:
        one, two = ObjectiveGaussian(m, x), ObjectiveGaussianClasses(m, x, 2)
        np.testing.assert_allclose(two.renyi(orders), one.renyi(orders), rtol=1e-8)
        assert np.all(two.renyi(orders) >= one.renyi(orders) * (1 - 1e-12))
        assert two.alone(1e-5) == pytest.approx(one.alone(1e-5), rel=1e-12)


def test_more_classes_cost_more_but_with_gaussian_noise_hardly():
    orders = np.array([1.01, 2.0, 9.0, 40.0])
    costs = [ObjectiveGaussianClasses(3.0, 0.01, K).renyi(orders) for K in (2, 3, 5, 50)]
    assert all(np.all(more >= less) for less, more in itertools.pairwise(costs))
    assert np.all(costs[-1] <= costs[0] * 1.001)
    with np.errstate(divide="ignore"):
        assert ObjectiveGaussianClasses(3.0, 0.01, 3).renyi(np.array([101.1]))[0] == math.inf


@pytest.mark.parametrize("x", [1e-12, 1e-7, 1e-3, 0.4])
def test_the_formula_is_the_one_of_its_definition_where_that_has_digits(x):
    from mpmath import log, mp, mpf, sqrt

    mp.dps = 60
    for K, share in itertools.product((2, 3, 7), (1e-6, 0.01, 0.5, 0.95)):
        a = min(1 + share / x, 1e4)
        A, X, k = mpf(a), mpf(x), K - 1
        y = X / sqrt(k)
        old = k * (A * log(1 + y) - log(1 + A * y)) / (A - 1)
        new = max(-log(1 + X) - log(1 - (A - 1) * X) / (A - 1), A * X**2 / 2)
        found = float(ObjectiveGaussianClasses(1e9, x, K).renyi(np.array([a]))[0]) - a / 2e18
        true = float(old + new)
        assert true * (1 - 1e-6) - 1e-17 * a <= found <= true * (1 + 2e-5) + 1e-17 * a


def test_a_budget_that_cannot_pay_for_several_factors_is_refused_and_the_other_noise_is_named():
    facts = Facts(sizes=[10], dimension=6, loss=Multinomial(3), l2=0.1)
    least = 1.001 * 2 * math.log1p(0.1 / (3 * 0.1))
    one_factor = 1.001 * math.log1p(0.1 / (2 * 0.1))
    assert one_factor < least
    for budget in (one_factor * 1.01, least * (1 - 1e-6)):
        with pytest.raises(BudgetTooSmall, match='noise_on="output"'):
            plan(RecycledADMM(budget=Pure(budget)), facts, ONE, 1)
    spent = plan(RecycledADMM(budget=Pure(least * (1 + 1e-6))), facts, ONE, 1).events[0][0]
    assert spent.epsilon == pytest.approx(least, rel=1e-5)
    plan(RecycledADMM(budget=Pure(one_factor * 1.01), noise_on="output"), facts, ONE, 1)


@pytest.mark.parametrize("law", [Pure, Gaussian])
def test_a_total_that_cannot_pay_is_refused_and_the_other_noise_is_named_and_works(law):
    facts = Facts(sizes=[2000], dimension=6, loss=Multinomial(3), l2=1e-4)
    total = {"epsilon": 0.5, "delta": 1e-5, "law": law}
    with pytest.raises(InputError, match='noise_on="output"'):
        tacit.calibrate(lambda b: RecycledADMM(budget=b, penalty=1e-4), facts, ONE, 9, **total)
    other = tacit.calibrate(lambda b: RecycledADMM(budget=b, penalty=1e-4, noise_on="output"), facts, ONE, 9, **total)
    assert 0.49 < plan(other, facts, ONE, 9).epsilon(1e-5) <= 0.5


def test_the_papers_bounds_say_nothing_of_several_classes():
    facts = Facts(sizes=[1000], dimension=6, loss=Multinomial(3), l2=0.1)
    assert np.all(np.isinf(plan(RecycledADMM(alpha=0.5), facts, ONE, 1).paper))
    with pytest.raises(InputError, match="say how private a step is by budget"):
        plan(DualPerturbedADMM(alpha=0.5), facts, ONE, 1)


def test_one_private_solve_reveals_and_costs_what_is_planned():
    """A whole release with secure noise: its event, and a value that the noise moves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    problem = tacit.Problem([(X, rng.integers(0, 3, size=40))], loss=Multinomial(3), l2=0.2)
    for budget, kind in ((Gaussian(5.0), ObjectiveGaussianClasses), (Pure(2.0), Pure)):
        method = OneShotAveraging(mixing=0.0, budget=budget)
        run = tacit.simulate(method, problem, ONE, rounds=1, noise=tacit.SecureNoise())
        (event,) = run.spent[0]
        assert type(event) is kind
        assert run.spent == tacit.plan(method, problem, ONE, 1).spent
