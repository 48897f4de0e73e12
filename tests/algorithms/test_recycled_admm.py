"""Recycled ADMM: against the paper's iterations; its even step needs neither data nor noise."""

import numpy as np
import pytest
from private_case import (
    ALPHAS,
    CONSTANT,
    DEGREE,
    GAMMA,
    GRAPH,
    GROWING,
    NOISE,
    ROUNDS,
    START,
    D,
    each,
    gradient_and_hessian,
    minimiser,
    neighbours,
    problem,
    run,
    stepped,
)

import tacit
from tacit.algorithms import Geometric, RecycledADMM
from tacit.privacy.events import Free, Gaussian, Pure


def recycled(penalties, theta, exchanges=2 * ROUNDS):
    """Paper 000, (18), (15), (19), (17); the even step with the true gradient and the noise itself."""
    f, lam, path = START, np.zeros((5, D)), [START]
    for t in range(exchanges):
        eta, e = penalties[t // 2], NOISE[t // 2]
        if t % 2 == 0:
            f = each(
                lambda i, f=f, lam=lam, eta=eta, e=e: minimiser(
                    i, 2 * lam[i] + e[i], [(eta[i], (f[i] + f[j]) / 2) for j in neighbours(i)]
                )
            )
            lam = stepped(lam, f, eta if theta is None else [theta] * 5)
        else:
            f = each(
                lambda i, f=f, lam=lam, eta=eta, e=e: (
                    f[i]
                    - (
                        2 * lam[i]
                        + e[i]
                        + gradient_and_hessian(i, f[i])[0]
                        + sum(eta[i] * (f[i] - f[j]) for j in neighbours(i))
                    )
                    / (2 * eta[i] * DEGREE[i] + GAMMA)
                )
            )
        path.append(f)
    return np.array(path)


@pytest.mark.parametrize(
    ("penalty", "penalties", "dual_step"),
    [(0.7, CONSTANT, None), (GROWING, GROWING, None), (GROWING, GROWING, 0.6)],
    ids=["r-admm", "mr-admm (15)", "mr-admm common"],
)
def test_trajectory_is_that_of_the_paper(penalty, penalties, dual_step):
    method = RecycledADMM(penalty=penalty, gamma=GAMMA, alpha=ALPHAS, dual_step=dual_step)
    expected = recycled(penalties, dual_step)
    np.testing.assert_allclose(run(method, rounds=2 * ROUNDS).trajectory, expected, rtol=0, atol=1e-8)


def test_an_array_or_a_schedule_of_one_constant_is_that_constant():
    one = run(RecycledADMM(0.7, GAMMA, alpha=1.0), rounds=2 * ROUNDS).trajectory
    for penalty, alpha, theta in (
        (CONSTANT, np.ones((ROUNDS, 5)), None),
        (Geometric(0.7, 1.0), Geometric([1.0] * 5, 1.0), None),
        (Geometric(0.7, 2.0, cap=0.7), 1.0, 0.7),
    ):
        other = run(RecycledADMM(penalty, GAMMA, alpha=alpha, dual_step=theta), rounds=2 * ROUNDS).trajectory
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)
    grown = run(RecycledADMM(Geometric(GROWING[0], 1.1), GAMMA, alpha=1.0), rounds=2 * ROUNDS).trajectory
    powers = GROWING[0] * 1.1 ** np.arange(ROUNDS)[:, None]
    np.testing.assert_allclose(
        run(RecycledADMM(powers, GAMMA, alpha=1.0), rounds=2 * ROUNDS).trajectory, grown, atol=1e-9
    )


class Untouchable:
    """Data, or noise, that must not be read."""

    def __getattribute__(self, name):
        raise AssertionError(f"the even step asked for {name}")


@pytest.mark.parametrize("settings", [{"alpha": 1.0}, {"budget": Pure(1.0)}, {"budget": Gaussian(2.0)}])
def test_the_even_step_looks_at_nothing(settings):
    method = RecycledADMM(GROWING, GAMMA, dual_step=0.6, **settings)
    odd, even = run(method, rounds=1), run(method, rounds=2)
    _, release = method.speak(odd.state, Untouchable(), GRAPH.view(), Untouchable(), 1)
    np.testing.assert_array_equal(release.value, even.estimate)
    assert all(isinstance(event, Free) for event in release.events)
    with pytest.raises(AssertionError, match="the even step asked for gradient"):
        method.__class__(GROWING, GAMMA, alpha=1.0, as_printed=True).speak(
            odd.state, Untouchable(), GRAPH.view(), Untouchable(), 1
        )


def test_recycling_as_printed_is_the_same_algebra_and_reveals_the_residual():
    method = {"penalty": GROWING, "gamma": GAMMA, "alpha": ALPHAS}
    for theta in (None, 0.6):
        shipped = run(RecycledADMM(**method, dual_step=theta), rounds=8)
        printed = run(RecycledADMM(**method, dual_step=theta, as_printed=True), rounds=8)
        np.testing.assert_allclose(printed.trajectory, shipped.trajectory, rtol=0, atol=1e-6)
    loose = problem(tolerance=1e-3)
    shipped = run(RecycledADMM(**method), rounds=2, p=loose).trajectory[2]
    printed = run(RecycledADMM(**method, as_printed=True), rounds=2, p=loose).trajectory[2]
    assert np.abs(shipped - printed).max() > 1e-6  # the difference is the solver's residual
    # Seeded noise is drawn a second time for the even step, and must be the same.
    shipped = run(RecycledADMM(**method), tacit.SeededNoise(5), rounds=2).trajectory
    printed = run(RecycledADMM(**method, as_printed=True), tacit.SeededNoise(5), rounds=2).trajectory
    assert np.abs(shipped - printed)[2].max() < 1e-2 < np.abs(shipped[2] - shipped[1]).max()
