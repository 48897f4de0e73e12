"""Recycled ADMM: against the paper's iterations; its even step needs neither data nor noise."""

import numpy as np
import pytest
from private_case import (
    ALPHAS,
    CONSTANT,
    DEGREE,
    FACTS,
    GAMMA,
    GRAPH,
    GROWING,
    NOISE,
    RHO,
    ROUNDS,
    SCALE,
    SIZES,
    START,
    D,
    assert_no_less_and_hardly_more,
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
from tacit.privacy.plan import plan


def recycled_output(penalties, theta, exchanges=2 * ROUNDS):
    """Section VII.B: noise on the minimiser of (14); (16) with the gradient that (14) would leave at what was sent."""
    f, lam, path = START, np.zeros((5, D)), [START]
    for t in range(exchanges):
        eta, e = penalties[t // 2], NOISE[t // 2]
        if t % 2 == 0:
            squares = [[(eta[i], (f[i] + f[j]) / 2) for j in neighbours(i)] for i in range(5)]
            f = each(lambda i, lam=lam, s=squares, e=e: minimiser(i, 2 * lam[i], s[i]) + e[i])
            gradient = [-2 * lam[i] - sum(2 * w * (f[i] - c) for w, c in squares[i]) for i in range(5)]
            lam = stepped(lam, f, eta if theta is None else [theta] * 5)
        else:
            f = each(
                lambda i, f=f, lam=lam, eta=eta, g=gradient: (
                    f[i]
                    - (g[i] + 2 * lam[i] + sum(eta[i] * (f[i] - f[j]) for j in neighbours(i)))
                    / (2 * eta[i] * DEGREE[i] + GAMMA)
                )
            )
        path.append(f)
    return np.array(path)


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


@pytest.mark.parametrize(
    ("penalty", "penalties", "dual_step"), [(0.7, CONSTANT, None), (GROWING, GROWING, 0.6)], ids=["r-admm", "mr-admm"]
)
def test_output_perturbation_is_that_of_a_few_lines(penalty, penalties, dual_step):
    settings = {"penalty": penalty, "gamma": GAMMA, "dual_step": dual_step}
    method = RecycledADMM(**settings, alpha=ALPHAS, noise_on="output")
    found = run(method, rounds=2 * ROUNDS).trajectory
    np.testing.assert_allclose(found, recycled_output(penalties, dual_step), rtol=0, atol=1e-9)
    # Without noise it is R-ADMM, and with it it is not the noise of (18).
    silent = tacit.RecordedNoise(np.zeros_like(NOISE))
    one = run(method, silent, 2 * ROUNDS).trajectory
    np.testing.assert_allclose(one, run(RecycledADMM(**settings), rounds=2 * ROUNDS).trajectory, rtol=0, atol=1e-8)
    assert np.abs(found - recycled(penalties, dual_step)).max() > 0.1


def test_the_plan_of_output_perturbation_is_what_the_run_spends():
    for settings in ({"alpha": ALPHAS}, {"budget": Pure(1.0)}, {"budget": Gaussian(2.0)}):
        method = RecycledADMM(GROWING, GAMMA, noise_on="output", **settings)
        planned = plan(method, FACTS, GRAPH, 2 * ROUNDS)
        assert planned.spent == run(method, rounds=2 * ROUNDS).spent
        if "alpha" in settings:  # pure steps add up: alpha 2 C/(B mu), in every second round
            for i in range(5):
                mu = RHO + 2 * GROWING[:, i] * DEGREE[i]
                exact = float(np.sum(ALPHAS[:, i] * 2 * SCALE[i] / SIZES[i] / mu))
                assert_no_less_and_hardly_more(planned.totals(1e-5)[i].plain_sum, exact)


def test_the_noise_of_output_perturbation_is_what_its_sensitivity_needs():
    """Replacing a record moves what is sent, before its noise, by at most what is charged, and by half of it here."""
    graph, start = tacit.Graph.path(2), np.array([[-3000.0, 3000.0]] * 2)  # margins so large that slopes are 0 or 1
    rows = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[-1.0, 0.0], [0.0, 1.0]])]
    labels = np.array([1.0, -1.0])
    method = RecycledADMM(alpha=1.0, noise_on="output")
    sent = []
    for own in rows:
        p = tacit.Problem([(own, labels), (rows[0], labels)], l2=0.01, tolerance=1e-11, radius=1e4)
        done = tacit.simulate(method, p, graph, rounds=1, start=start, noise=tacit.RecordedNoise(np.zeros((1, 2, 2))))
        sent.append(done.estimate[0])
    ((event,),) = [list(done.spent[0])]
    apart = np.linalg.norm(sent[0] - sent[1])
    assert event.epsilon == pytest.approx(1.0 * 2 / 2 / 2.01, rel=1e-6)  # alpha 2 C/(B mu)
    assert apart == pytest.approx(event.epsilon / 2, rel=1e-3)  # one slope goes from 1 to 0; two rows could do twice


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


@pytest.mark.parametrize(
    "settings",
    [{"alpha": 1.0}, {"budget": Pure(1.0)}, {"budget": Gaussian(2.0)}, {"alpha": 1.0, "noise_on": "output"}],
)
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


def test_the_density_of_a_step_depends_on_what_the_neighbours_said():
    """(50) conditions the release of an agent on the agent's own history alone. With the same own history and the same
    noise, other words of a neighbour give another release: the factors must be given all that was released."""
    method, p, view = RecycledADMM(0.7, GAMMA, alpha=1.0), problem(), GRAPH.view()
    state = run(method, rounds=2).state
    said = np.repeat(state.f[:1], 5, axis=0)
    other = method.listen(state, tacit.core.release.Inbox(said, GRAPH.indptr, GRAPH.indices), view, 1)
    np.testing.assert_array_equal(other.f, state.f)
    np.testing.assert_array_equal(other.dual, state.dual)
    noise = tacit.RecordedNoise(NOISE)
    one, two = (method.speak(s, p, view, noise, 2)[1].value for s in (state, other))
    apart = np.linalg.norm(one - two, axis=1)
    assert np.all(apart[np.linalg.norm(other.heard - state.heard, axis=1) > 1e-6] > 1e-3)
    # With the density exp(-||e||), the same release needs another noise, and so has another likelihood.
    needed = [
        gradient_and_hessian(1, one[1])[0] + 2 * s.dual[1] + 2 * 0.7 * DEGREE[1] * (one[1] - s.centre[1])
        for s in (state, other)
    ]
    likelihoods = [np.exp(-np.linalg.norm(e)) for e in needed]
    assert abs(np.log(likelihoods[0] / likelihoods[1])) > 0.01
