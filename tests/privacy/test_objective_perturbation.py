"""Both bounds of objective perturbation, pure and Gaussian, against integrals of the true densities."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from private_case import c1_of

import tacit
from tacit.algorithms import RecycledADMM
from tacit.core.facts import Facts
from tacit.core.losses import HuberHinge, Logistic
from tacit.privacy.accounting import totals
from tacit.privacy.events import Gaussian, ObjectiveGaussian, Pure
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.plan import plan


class Pair:
    """Two neighbouring data sets of one record each, in d = 1 or 2: J(f) = C L(y f.x) + mu/2 ||f||^2 + shift.f.

    The minimiser of J(f) + e.f is where grad J = -e: its density at f is that of e there, times det of the Hessian.
    """

    def __init__(self, loss, C, mu, one, other, shift):
        self.loss, self.C, self.mu = loss, C, mu
        self.records = [(np.atleast_1d(np.asarray(x, float)), y) for x, y in (one, other)]
        self.shift = np.atleast_1d(np.asarray(shift, float))

    def slope_and_curvature(self, z, y):
        m = y * z
        if isinstance(self.loss, Logistic):
            q = (1 - np.tanh(m / 2)) / 2
            return -y * q, q * (1 - q)
        w = self.loss.width
        slope = np.where(m >= 1 + w, 0.0, np.where(m <= 1 - w, -1.0, -(1 + w - m) / (2 * w)))
        return y * slope, np.where(abs(1 - m) <= w, 1 / (2 * w), 0.0)

    def gradient(self, which, f):
        x, y = self.records[which]
        return self.C * self.slope_and_curvature(f @ x, y)[0][..., None] * x + self.mu * f + self.shift

    def determinant(self, which, f):
        x, y = self.records[which]
        return self.mu ** len(x) * (1 + self.C * self.slope_and_curvature(f @ x, y)[1] * (x @ x) / self.mu)

    def log_gaussian(self, which, f, sigma):
        g = self.gradient(which, f)
        constant = -len(self.shift) / 2 * math.log(2 * math.pi * sigma**2)
        return constant - (g**2).sum(axis=-1) / (2 * sigma**2) + np.log(self.determinant(which, f))

    def log_spherical(self, which, f, rate):
        return -rate * np.linalg.norm(self.gradient(which, f), axis=-1) + np.log(self.determinant(which, f))

    def log_moment(self, a, sigma, which=0):
        """ln of the integral of p^a q^(1-a), by the midpoint rule where |a grad J - (a-1) grad J'| <= 9 sigma."""
        f, volume = self.grid((9 * sigma + (2 * a - 1) * self.C) / self.mu)
        p, q = (self.log_gaussian(k, f, sigma) for k in (which, 1 - which))
        log = a * p + (1 - a) * q
        return float(log.max() + math.log(np.exp(log - log.max()).sum()) + math.log(volume))

    def excess(self, epsilon, sigma, which=0):
        """The integral of (p - e^epsilon q)+: the least delta at this epsilon."""
        f, volume = self.grid((9 * sigma + self.C) / self.mu)
        p, q = (self.log_gaussian(k, f, sigma) for k in (which, 1 - which))
        return float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum() * volume)

    def grid(self, half):
        """Midpoints around where the noise is zero if the record is, and the volume of their cells."""
        d = len(self.shift)
        points = {1: 20_001, 2: 400}[d]
        axis = (np.arange(points) + 0.5) / points * 2 * half - half
        return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1) - self.shift / self.mu, (
            2 * half / points
        ) ** d

    @property
    def max_curvature(self):
        return c1_of(self.loss)

    def divergence(self, a, sigma, which=0):
        return self.log_moment(a, sigma, which) / (a - 1)

    def event(self, sigma):
        return ObjectiveGaussian(sigma / (2 * self.C), self.max_curvature * self.C / self.mu)


TILTED = ((math.sqrt(0.9999), 0.01), 1), ((-math.sqrt(0.9999), 0.01), 1)  # both misclassified far down
PAIRS = {
    "opposite": lambda loss, C, mu: Pair(loss, C, mu, (1.0, 1), (-1.0, 1), 0.0),
    "opposite, off centre": lambda loss, C, mu: Pair(loss, C, mu, (1.0, 1), (-1.0, 1), -0.9 * mu),
    "against a zero row": lambda loss, C, mu: Pair(loss, C, mu, (1.0, 1), (0.0, -1), -(1 + 0.2) * mu),
    "short rows": lambda loss, C, mu: Pair(loss, C, mu, (0.6, -1), (-0.3, -1), 0.3 * mu),
    "labels": lambda loss, C, mu: Pair(loss, C, mu, (1.0, 1), (1.0, -1), 0.5 * mu),
    "orthogonal": lambda loss, C, mu: Pair(loss, C, mu, ((1.0, 0.0), 1), ((0.0, 1.0), 1), (-0.8 * mu, -0.8 * mu)),
    "tilted": lambda loss, C, mu: Pair(loss, C, mu, *TILTED, (0.0, 800.0 * mu)),
    "short in the plane": lambda loss, C, mu: Pair(loss, C, mu, ((0.5, 0.5), 1), ((-0.1, 0.7), -1), (0.1, -0.4 * mu)),
}
LOSSES = [Logistic(), HuberHinge(width=0.5)]


@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "huber"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_gaussian_bound_holds_for_the_true_densities(name, loss):
    planar = len(PAIRS[name](loss, 1.0, 1.0).shift) == 2
    sloppy = (2e-2 if planar else 4e-3) if isinstance(loss, HuberHinge) else 1e-4  # quadrature jumps over the corners
    settings = [(0.3, 2.0), (1.0, 0.7), (1.0, 2.0), (8.0, 0.7)]
    for mu, sigma in settings if planar else [*settings, (0.1, 3.0), (0.3, 0.3), (8.0, 0.3)]:
        pair = PAIRS[name](loss, 1.0, mu)
        event = pair.event(sigma)
        for which in (0, 1):
            assert pair.log_moment(1.0, sigma, which) == pytest.approx(0, abs=sloppy)  # densities integrate to one
            for share in (0.1, 0.5, 0.9):
                a = min(1 + share / event.curvature, 12.0)
                bound = float(event.renyi(np.array([a]))[0])
                assert pair.log_moment(a, sigma, which) <= (a - 1) * bound + sloppy


@pytest.mark.parametrize("x", [0.01, 0.5, 3.0])
def test_the_gaussian_bound_is_the_formula_of_its_definition(x):
    a = 1 + np.array([0.01, 0.5, 0.95]) / x
    expected = a / 2 / 1.7**2 + (np.log(1 + x) - np.log(1 + a * x) - np.log(1 - (a - 1) * x)) / (a - 1)
    np.testing.assert_allclose(ObjectiveGaussian(1.7, x).renyi(a), expected, rtol=1e-9)
    with np.errstate(divide="ignore"):
        assert np.all(ObjectiveGaussian(1.7, x).renyi(1 + np.array([1.0001, 1.5, 50.0]) / x) == math.inf)


@pytest.mark.parametrize(
    ("name", "loss"), [("tilted", Logistic()), ("tilted", HuberHinge()), ("opposite", HuberHinge())]
)
def test_the_gaussian_bound_is_near_where_noise_dominates(name, loss):
    """And with the distance of one record instead of two, the bound would be false."""
    C, mu, sigma = 0.05, 1.0, 0.1
    pair = PAIRS[name](loss, C, mu)
    event = pair.event(sigma)
    for a in (1.5, 3.0, 6.0):
        bound = float(event.renyi(np.array([a]))[0])
        assert 0.95 * bound <= pair.divergence(a, sigma) <= bound * (1 + 1e-6)
        halved = ObjectiveGaussian(2 * event.multiplier, event.curvature)
        assert pair.divergence(a, sigma) > 2 * float(halved.renyi(np.array([a]))[0])


def test_without_the_term_for_the_curvature_the_bound_would_be_false():
    """A small mu: the one record bends the objective where the other leaves it flat."""
    pair = Pair(Logistic(), 1.0, 1e-3, (1.0, 1), (0.0, 1), 0.0)
    sigma = 100.0
    event = pair.event(sigma)
    a = 1 + 0.9 / event.curvature
    bound = float(event.renyi(np.array([a]))[0])
    noise_alone = float(Gaussian(event.multiplier).renyi(np.array([a]))[0])
    assert 5 * noise_alone < pair.divergence(a, sigma) <= bound


def test_accountants_without_a_rule_for_the_minimiser_say_nothing():
    """Composed with whatever else: only Renyi divergences add up, and they do."""
    event, orders = ObjectiveGaussian(3.0, 0.1), np.array([1.5, 4.0])
    for others in ({}, {Gaussian(2.0): 3}, {Pure(0.1): 2}):
        spent = totals(Counter({event: 5, **others}), 1e-5)
        assert (spent.plain_sum, spent.distribution, spent.zcdp) == (math.inf, None, None)
        assert spent.best == spent.renyi < math.inf
        assert spent.renyi > totals(Counter({Gaussian(3.0): 5, **others}), 1e-5).renyi  # it pays for the curvature
    assert np.all(event.renyi(orders) > Gaussian(3.0).renyi(orders))


SINGLE = [(4.0, 0.1, 1e-5), (1.0, 0.5, 1e-3), (0.5, 0.05, 1e-4), (2.0, 3.0, 1e-6)]  # multiplier, curvature, delta


@pytest.mark.parametrize(("m", "x", "delta"), SINGLE)
@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "huber"])
def test_the_bound_on_a_single_release_holds_for_the_true_densities(loss, m, x, delta):
    """The integral of (p - e^epsilon q)+ is at most delta."""
    event = ObjectiveGaussian(m, x)
    epsilon = event.alone(delta)
    assert epsilon == pytest.approx(math.log1p(x) + gaussian_epsilon(m, delta / 2), rel=1e-12)
    assert totals(Counter({event: 1}), delta).distribution == epsilon
    assert totals(Counter({event: 2}), delta).distribution is None
    for name in PAIRS:
        pair = PAIRS[name](loss, 1.0, c1_of(loss) / x)
        assert pair.event(2 * m).multiplier == m
        assert pair.event(2 * m).curvature == pytest.approx(x)
        for which in (0, 1):
            assert pair.excess(epsilon, 2 * m, which) <= delta


def test_the_bound_on_a_single_release_is_near_where_noise_dominates():
    """Records that differ by almost twice a unit vector, and bend nothing: the Gaussian mechanism itself."""
    pair = PAIRS["tilted"](Logistic(), 0.05, 1.0)
    event = pair.event(0.1)
    for delta in (1e-3, 1e-6):
        epsilon = event.alone(delta)
        assert 0.4 * delta < pair.excess(epsilon - math.log1p(event.curvature), 0.1) <= 0.5 * delta
        assert pair.excess(epsilon / 2, 0.1) > delta
    # Where there is no tail to speak of, the proof begins at sqrt(3)/m + 1/(2 m^2).
    assert ObjectiveGaussian(4.0, 0.1).alone(0.2) == math.log(1.1) + math.sqrt(3) / 4 + 1 / 32


@pytest.mark.parametrize("x", [1e-12, 1e-6, 0.01, 0.5, 3.0])
def test_the_curvature_term_is_the_worst_of_all_rank_one_updates(x):
    """[a ln det H - (a-1) ln det H' - ln det(a H - (a-1) H')]/(a-1) over H = I + p uu^T, H' = I + q vv^T."""
    rng = np.random.default_rng(0)
    for a in 1 + np.array([1e-3, 0.3, 0.95]) * min(1 / x, 30):
        # Of the event, less what a Gaussian with the same multiplier costs.
        event = ObjectiveGaussian(1e9, x)
        term = float(event.renyi(np.array([a]))[0]) - a / 2e18
        found = []
        for p, q, angle in [
            (x, x, math.pi / 2),
            *zip(*x * rng.random((2, 300)), rng.uniform(0, math.pi, 300), strict=True),
        ]:
            M = (1 + a * p) * (1 - (a - 1) * q) + a * (a - 1) * p * q * math.cos(angle) ** 2
            M2 = np.linalg.det(
                np.eye(2)
                + a * p * np.diag([1.0, 0])
                - (a - 1) * q * np.outer(*[[math.cos(angle), math.sin(angle)]] * 2)
            )
            assert pytest.approx(M2, rel=1e-9) == M
            found.append((a * math.log1p(p) - (a - 1) * math.log1p(q) - math.log(M)) / (a - 1))
        assert max(found) <= term * (1 + 1e-9) + 1e-12
        if x > 1e-3:
            assert found[0] == pytest.approx(term, rel=1e-6)


def pure_cost(pair, rate):
    """Of one step of R-ADMM at alpha = rate, one agent alone with one record, as the package charges it."""
    facts = Facts(sizes=[1], dimension=len(pair.shift), loss=pair.loss, scale=pair.C, l2=pair.mu)
    ((event,),) = plan(RecycledADMM(alpha=rate), facts, tacit.Graph.ring(1), 1).events
    return event.epsilon / 1.001  # without the mask for an inexact minimiser


@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "huber"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_pure_bound_holds_for_the_true_densities(name, loss):
    for mu, rate in itertools.product((0.05, 1.0, 8.0), (0.05, 0.5, 3.0)):
        pair = PAIRS[name](loss, 1.0, mu)
        cost = pure_cost(pair, rate)
        d, centre = len(pair.shift), -pair.shift / mu
        half = (20 / rate + 2) / mu
        axis = np.linspace(-half, half, {1: 10_001, 2: 201}[d])
        near = np.linspace(-4, 4, {1: 10_001, 2: 101}[d])
        for points in (axis, near):
            f = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1) + centre
            loss_of_privacy = pair.log_spherical(0, f, rate) - pair.log_spherical(1, f, rate)
            assert np.abs(loss_of_privacy).max() <= cost * (1 + 1e-12)


def test_the_pure_bound_is_attained_by_logistic_records():
    """One record at the slope q where noise and curvature together reveal most, the other far on its wrong side."""
    s, R, big = 1e-4, 60.0, 1e9
    c = math.sqrt(1 - s * s)
    for mu, rate in itertools.product((0.02, 0.3, 5.0), (0.05, 0.5, 3.0)):
        q = np.linspace(1e-6, 1 - 1e-6, 200_001)
        q = float(q[np.argmax(rate * q + np.log1p(q * (1 - q) / mu))])
        z = math.log(1 / q - 1)  # u.f = z has the slope q
        f = np.array([(z + R) / (2 * c), (z - R) / (2 * s)])  # and u'.f = -R the slope 1
        pair = Pair(Logistic(), 1.0, mu, ((c, s), 1), ((-c, s), 1), np.array([big, 0.0]) - mu * f)
        ratio = float(pair.log_spherical(0, f, rate) - pair.log_spherical(1, f, rate))
        cost = pure_cost(pair, rate)
        assert 0.999 * cost <= ratio <= cost * (1 + 1e-5)
        assert ratio > 1.01 * (cost / 2)
