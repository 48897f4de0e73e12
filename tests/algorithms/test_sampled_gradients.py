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
from tacit.privacy import sampling
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import SampledGaussian


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


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_the_profile_of_a_sampled_gaussian_covers_every_pair_of_records(rate, multiplier):
    """By numerical integration of the densities; by taking a record out (1, 0) it is attained."""
    x, h = np.linspace(-12 - 12 * multiplier, 12 + 12 * multiplier, 200_001, retstep=True)
    levels = np.array([-2, -0.5, -0.05, 0.0, 0.02, 0.3, 1.0, 3.0])
    claimed = sampling.profile(SampledGaussian(multiplier, rate), levels)
    quadrature = 20 * h**2  # its error where the integrand has a kink: h^2/8 times the slope's jump

    def law(shift):
        return (1 - rate) * norm.pdf(x, 0, multiplier) + rate * norm.pdf(x, shift, multiplier)

    for a, b in ((0.5, -0.5), (1.0, 0.0), (0.0, 1.0), (0.7, -0.3), (0.5, 0.45)):
        true = np.array([np.maximum(law(a) - math.exp(e) * law(b), 0).sum() * h for e in levels])
        assert np.all(true <= claimed + quadrature)
        if (a, b) == (1.0, 0.0):
            np.testing.assert_allclose(true[levels >= 0], claimed[levels >= 0], atol=quadrature)


def test_samples_are_accounted_for():
    whole = epsilon(Counter({tacit.Gaussian(10.0): 100}), 1e-5)
    assert whole <= epsilon(Counter({SampledGaussian(10.0, 1.0): 100}), 1e-5) <= whole * 1.001
    parts = {SampledGaussian(1.0, 0.01): 500}
    added = privacy_loss_distribution.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(500)
    least = added.get_epsilon_for_delta(1e-5)  # of removing a record, which replacing costs at least
    assert least * 0.999 <= epsilon(Counter(parts), 1e-5) <= least * 1.5
    mixed = epsilon(Counter({**parts, tacit.Gaussian(20.0): 1, tacit.Pure(0.01): 1}), 1e-5)
    assert epsilon(Counter(parts), 1e-5) < mixed < epsilon(Counter(parts), 1e-5) + 0.3
    algorithm = DPADMM(term=FUSED, budget=tacit.Gaussian(2.0), rate=0.1)
    done = run(algorithm, 10, noise=tacit.SecureNoise())
    assert done.spent == tacit.plan(algorithm, tacit.Facts(sizes=[80], dimension=D), ALONE, 10).spent
    assert done.private
