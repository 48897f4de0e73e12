"""Gradients of secret samples of the records: what they are, and what they cost."""

import math
from collections import Counter

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from composite_case import ALONE, FUSED, Curtain, D, G, X, Y, run
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import norm

import tacit
from tacit.algorithms import DPADMM
from tacit.privacy.accounting import epsilon, gaussian_epsilon, totals
from tacit.privacy.events import Laplace, SampledGaussian
from tacit.privacy.formulas import sampling


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_sampled_gradient_is_that_of_the_sample(sparse):
    problem = tacit.Problem([(scipy.sparse.csr_array(X) if sparse else X, Y)], l2=0.1)
    f, rate = np.linspace(-1, 1, D)[None], 0.25
    chosen = np.random.default_rng(0).random((1, 80)) < rate
    part = tacit.Problem([(X[chosen[0]], Y[chosen[0]])]).gradient(f) * chosen.sum() / 80  # 1/B sum over the sample
    np.testing.assert_allclose(problem.sampled_gradient(f, chosen, rate), part / rate + 0.1 * f, atol=1e-14)
    np.testing.assert_allclose(problem.sampled_gradient(f, np.ones((1, 80)), 1.0), problem.gradient(f), atol=1e-14)


def test_a_sampled_step_follows_the_recorded_sample():
    rng = np.random.default_rng(5)
    chosen, noise = rng.random((1, 1, 80)) < 0.2, 0.1 * rng.normal(size=(1, 1, D))
    algorithm = DPADMM(term=FUSED, penalty=0.1, budget=G, rate=0.2, step=0.5)
    done = run(algorithm, 1, noise=tacit.RecordedNoise(noise, chosen))
    gradient = -(X * Y[:, None])[chosen[0, 0]].sum(axis=0) / 2 / 80 / 0.2  # at zero every slope is -y/2
    np.testing.assert_allclose(done.model, -0.5 * (gradient + noise[0, 0]), atol=1e-14)
    assert done.spent[0] == Counter({SampledGaussian(5.0, 0.2): 1})
    curtain = Curtain()
    run(algorithm, 1, noise=curtain)
    assert float(curtain.scales[0][1][0, 0]) == pytest.approx(5 * 2 / 80 / 0.2)


@pytest.mark.parametrize("noise", [tacit.SeededNoise(3), tacit.SecureNoise()], ids=["seeded", "secure"])
def test_every_record_joins_with_the_rate_and_on_its_own(noise):
    chosen = noise.choose(0.3, 20_000, np.array([0, 1]), 7)
    assert chosen.shape == (2, 20_000)
    np.testing.assert_allclose(chosen.mean(axis=1), 0.3, atol=5 * math.sqrt(0.21 / 20_000))
    assert abs((chosen[0] & chosen[1]).mean() - 0.09) < 5 * math.sqrt(0.09 * 0.91 / 20_000)
    assert noise.choose(1.0, 50, np.array([0]), 0).all()


LEVELS = np.array([-2, -0.5, -0.05, 0.0, 0.02, 0.3, 1.0, 3.0])


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_the_profile_of_a_sampled_gaussian_covers_every_pair_of_records(rate, multiplier):
    """By numerical integration of the densities, over a grid of pairs; by opposite records it is attained, and records
    that are a fifth longer than the event allows would not be covered."""
    x, h = np.linspace(-12 - 12 * multiplier, 12 + 12 * multiplier, 20_001, retstep=True)
    claimed = sampling.profile(SampledGaussian(multiplier, rate), LEVELS)
    quadrature = 20 * h**2  # its error where the integrand has a kink: h^2/8 times the slope's jump

    def law(shift):
        return (1 - rate) * norm.pdf(x, 0, multiplier) + rate * norm.pdf(x, shift, multiplier)

    def true(a, b):
        P, Q = law(a), law(b)
        return np.array([np.maximum(P - math.exp(e) * Q, 0).sum() * h for e in LEVELS])

    records = np.linspace(-0.5, 0.5, 9)
    for a in records:
        for b in records:
            assert np.all(true(a, b) <= claimed + quadrature)
    np.testing.assert_allclose(true(0.5, -0.5), claimed, atol=quadrature)
    assert np.any(true(0.6, -0.6) > claimed + quadrature)


def test_the_profile_covers_pairs_of_records_in_the_plane():
    """What the proof does by turning one record away from the other, by integration in two dimensions."""
    rate, multiplier, levels = 0.2, 0.4, np.array([-0.5, 0.0, 0.1, 0.5, 1.0])
    axis, h = np.linspace(-4, 4, 321, retstep=True)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    claimed = sampling.profile(SampledGaussian(multiplier, rate), levels)

    def law(a):
        def at(c):
            return norm.pdf(x, c[0], multiplier) * norm.pdf(y, c[1], multiplier)

        return (1 - rate) * at((0, 0)) + rate * at(a)

    previous = None
    for angle in np.linspace(0, math.pi, 7):
        for length in (0.5, 0.3, 0.0):
            P, Q = law((0.5, 0.0)), law((length * math.cos(angle), length * math.sin(angle)))
            for first, second in ((P, Q), (Q, P)):
                true = np.array([np.maximum(first - math.exp(e) * second, 0).sum() * h**2 for e in levels])
                assert np.all(true <= claimed + 2e-4)
                if length == 0.5 and first is P:
                    assert previous is None or np.all(true >= previous - 2e-4)  # turning away costs more
                    previous = true
    np.testing.assert_allclose(previous, claimed, atol=2e-4)


def test_many_samples_against_a_convolution_by_hand():
    """Losses rounded down and up to a fine grid enclose the accountant; a step of half the cost would lie below."""
    m, q, steps, delta, h = 1.0, 0.02, 200, 1e-5, 1e-5
    x, w = np.linspace(-9, 9, 100_001, retstep=True)
    P = ((1 - q) * norm.pdf(x) + q * norm.pdf(x - 0.5)) * w
    loss = np.log((1 - q + q * np.exp(x / 2 - 0.125)) / (1 - q + q * np.exp(-x / 2 - 0.125)))
    size = 1 << 20

    def least(cells):
        mass = np.bincount(cells.astype(int) % size, weights=P, minlength=size)
        total = np.fft.irfft(np.fft.rfft(mass) ** steps, size)
        value = ((np.arange(size) + size // 2) % size - size // 2) * h
        low, high = 0.0, 4.0
        while high - low > 1e-6:
            e = (low + high) / 2
            above = value > e
            low, high = (e, high) if total[above] @ -np.expm1(e - value[above]) > delta else (low, e)
        return high

    found = epsilon(Counter({SampledGaussian(m, q): steps}), delta)
    assert least(np.floor(loss / h)) <= found <= least(np.ceil(loss / h)) + 2e-3
    assert least(np.ceil(loss / 2 / h)) < 0.6 * found


@pytest.mark.parametrize(("m", "q", "n"), [(1.0, 0.01, 1), (50.0, 0.001, 10), (1.0, 1e-6, 1)])
def test_small_totals_of_samples(m, q, n):
    """One lies on its exact profile, and the grid adds no more than a thousandth; many are near a Gaussian."""
    delta = 1e-7
    found = totals(Counter({SampledGaussian(m, q): n}), delta).distribution
    one = sampling.profile(SampledGaussian(m, q), np.array([found, found * 0.999]))
    assert one[0] <= delta
    assert n > 1 or one[1] > delta
    if n > 1:  # losses this small add up to those of a Gaussian with the same variance
        gaussian = gaussian_epsilon(1 / math.sqrt(n * sampling.spread(SampledGaussian(m, q))), delta)
        assert found == pytest.approx(gaussian, rel=0.02)


def test_samples_beside_others_that_delta_covers():
    spent = {tacit.Pure(8.8e-9): 119, Laplace(1.08e10, 2624): 7498, SampledGaussian(154838, 1.13e-5): 3}
    assert epsilon(Counter(spent), 0.046) == 0
    few = {tacit.Pure(8.8e-9): 119, tacit.Pure(0.5): 1, SampledGaussian(154838, 1.13e-5): 3}
    assert 0 < epsilon(Counter(few), 0.046) < 0.5


def test_samples_are_accounted_for():
    whole = epsilon(Counter({tacit.Gaussian(10.0): 100}), 1e-5)
    assert whole <= epsilon(Counter({SampledGaussian(10.0, 1.0): 100}), 1e-5) <= whole * 1.001
    parts = {SampledGaussian(1.0, 0.01): 500}
    added = privacy_loss_distribution.from_gaussian_mechanism(2.0, sampling_prob=0.01).self_compose(500)
    least = added.get_epsilon_for_delta(1e-5)  # of removing a record, half a replacement, which costs more
    assert least < epsilon(Counter(parts), 1e-5) <= least * 2.1
    mixed = epsilon(Counter({**parts, tacit.Gaussian(20.0): 1, tacit.Pure(0.01): 1}), 1e-5)
    assert epsilon(Counter(parts), 1e-5) < mixed < epsilon(Counter(parts), 1e-5) + 0.3
    algorithm = DPADMM(term=FUSED, budget=tacit.Gaussian(2.0), rate=0.1)
    done = run(algorithm, 10, noise=tacit.SecureNoise())
    assert done.spent == tacit.plan(algorithm, tacit.Facts(sizes=[80], dimension=D), ALONE, 10).spent
    assert done.private


@pytest.mark.parametrize("event", [SampledGaussian(0.7, 0.01), SampledGaussian(2.0, 0.3), SampledGaussian(1.0, 1.0)])
def test_a_loss_distribution_covers_the_profile_to_its_last_point(event):
    """And beyond it: what is left there counts as an infinite loss."""
    for largest in (0.5, 2.0):
        found = sampling.loss_distribution(event, 0.01, largest)
        levels = np.array([0.0, 0.4, 0.99, 1.0, 1.5]) * largest
        exact = sampling.profile(event, levels)
        stated = np.array([found.get_delta_for_epsilon(level) for level in levels])
        assert np.all(stated >= exact * (1 - 1e-9))
        assert stated[3] <= exact[3] * 1.1
