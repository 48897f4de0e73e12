"""Paper 002: the augmented Lagrangian falls where the conditions hold, and rises where not; (17) is attained."""

import math
import warnings

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import Between, IncrementalADMM
from tacit.core.losses import Logistic, Squared
from tacit.errors import InputError
from tacit.lab.attacks import listen_in
from tacit.lab.theory.incremental import (
    augmented_lagrangian,
    descent,
    dual_error_bound,
    kkt_residuals,
    state_error_bound,
)

N, D = 5, 4
RING = tacit.Graph.ring(N)


def problem(loss):
    """Squares are made so steep that L is attained."""
    parts = make_parts(d=D)[:N]
    if isinstance(loss, Squared):
        parts = [(np.diag([1.0, 0.7, 0.3, 0.1]), y[:D]) for _, y in parts]
    return tacit.Problem(parts, loss=loss, scale=4.0, l2=0.05, tolerance=1e-12)


def path(algorithm, p, ticks, seed=0):
    """The states x^k, y^k, z^k for k = 0, 1, ..., ticks."""
    noise = tacit.SeededNoise(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a penalty below L is what some tests are about
        first = tacit.simulate(algorithm, p, RING, rounds=int(algorithm.initial > 0), noise=noise)
        overheard = listen_in(algorithm, p, RING, ticks, noise)
    x, y = first.state.x.copy(), first.state.y.copy()
    states = [(x.copy(), y.copy(), np.zeros(D))]
    for k, i in enumerate(overheard.heard.holders):
        x[i], y[i] = overheard.truth.x[k], overheard.truth.y[k]
        states.append((x.copy(), y.copy(), overheard.heard.tokens[k + 1]))
    return states


def lagrangians(algorithm, p, ticks, seed=0):
    return np.array([augmented_lagrangian(p, *s, algorithm.penalty) for s in path(algorithm, p, ticks, seed)])


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
@pytest.mark.parametrize("gamma", [None, (0.9, 1.1), (0.05, 4.0), (30.0, 40.0)], ids=str)
def test_for_convex_objectives_a_penalty_above_l_suffices(loss, gamma):
    """Property 1) and 2) of Lemmas 2 and 4 from the second cycle on, and the KKT conditions of Theorem 1 in the end."""
    p = problem(loss)
    L = float(p.smoothness().max())
    algorithm = IncrementalADMM(
        penalty=1.01 * L, initial=5.0, gamma=None if gamma is None else Between(*gamma), exact=True
    )
    assert descent(algorithm.penalty, L, N, 0.05).convex
    assert not descent(algorithm.penalty, L, N, 0.05).paper
    states = path(algorithm, p, 40 * N)
    value = np.array([augmented_lagrangian(p, *s, algorithm.penalty) for s in states])
    rounding = 1e-11 * np.abs(value).max()
    assert np.all(np.diff(value[N:]) <= rounding)
    assert value[N:].min() >= p.value(p.optimum()).sum() - rounding
    begin, end = (max(kkt_residuals(p, *s)) for s in (states[N], states[-1]))
    assert end < 1e-2 * begin


def test_below_l_the_lagrangian_rises():
    """So the test above can fail: half of L, and the same squares."""
    p = problem(Squared())
    L = float(p.smoothness().max())
    value = lagrangians(IncrementalADMM(penalty=0.5 * L, initial=5.0), p, 20 * N)
    assert np.diff(value[N:]).max() > 1e-3


def test_in_the_first_cycle_of_a_random_start_the_lagrangian_can_rise():
    """y_i^0 = rho v is no gradient: 1) of Lemmas 2 and 4 does not hold from k = 0 on, though their conditions do."""
    p = problem(Squared())
    L = float(p.smoothness().max())
    rho = 2 * L + 2
    assert descent(rho, L, N).lemma_2
    value = lagrangians(IncrementalADMM(penalty=rho, initial=5.0), p, 3 * N)
    assert np.diff(value[: N + 1]).max() > 1.0
    assert value[0] < p.value(p.optimum()).sum()  # nor is it bounded below by F(x*), 2)
    assert np.diff(value[N:]).max() <= 0
    gamma = descent(rho, L, N).gamma_above * 1.01
    meets = IncrementalADMM(penalty=rho, initial=5.0, gamma=Between(gamma, gamma))
    assert descent(rho, L, N, gamma).paper
    value = lagrangians(meets, p, 3 * N)
    assert np.diff(value[: N + 1]).max() > 1.0
    assert np.diff(value[N:]).max() <= 1e-9


def one_dimension(h, rho, gamma, cycles, seed):
    """PI-ADMM1 for f_i = h_i x^2/2, and its Lagrangian after every visit, from the gradients on."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=len(h))
    y = h * x  # as after the first cycle
    S = x - y / rho
    out = []
    for k in range(cycles * len(h)):
        i, z = k % len(h), S.mean()
        step = rho * gamma(rng)
        x[i] = (step * z + y[i]) / (h[i] + step)
        y[i] += step * (z - x[i])
        S[i] = x[i] - y[i] / rho
        new = S.mean()
        out.append((h * x**2 / 2 + y * (new - x) + rho / 2 * (new - x) ** 2).sum())
    return np.array(out)


def test_for_smooth_objectives_that_are_not_convex():
    """Curvatures of both signs, with a convex sum: gamma above 2 L (rho + L)/(rho (rho - L)), which has no N."""
    h = np.array([1.0, -0.9, 1.0, -1.0, 1.0])
    for rho in (1.2, 2.0, 9.0):
        least = descent(rho, 1.0, 5).gamma_above_smooth
        assert least < descent(rho, 1.0, 5).gamma_above
        for seed in range(5):
            value = one_dimension(h, rho, lambda rng, least=least: least * rng.uniform(1.001, 3), 300, seed)
            assert np.all(np.diff(value) <= 1e-12 * np.abs(value[0]))
            assert value[-1] < value[0]
    rises = one_dimension(h, 1.2, lambda rng: 0.3, 300, 0)
    assert np.diff(rises).max() > 1e-6


def test_the_bounds_of_remark_3_are_attained():
    """The eavesdropper takes z^{K+1} for x_i^{K+1} and goes backwards by (11); the last agent's last three visits."""
    p = problem(Logistic())
    algorithm = IncrementalADMM(penalty=10.0, initial=5.0)
    visits = 12
    overheard = listen_in(algorithm, p, RING, visits * N, tacit.SeededNoise(1))
    heard, truth = overheard.heard, overheard.truth
    z, moves = heard.tokens, heard.moves
    agent = heard.holders[-1]
    ticks = heard.visits(agent)
    guess, sums = z[-1], heard.sums
    error = np.linalg.norm(guess - truth.x[ticks[-1]])
    assert error > 0
    for n in range(1, visits):
        tick, before = ticks[-n], ticks[-n - 1]
        guess = 2 * guess - moves[tick] - z[tick]  # (11), backwards
        off_x = np.linalg.norm(guess - truth.x[before])
        assert off_x == pytest.approx(state_error_bound(error, n), rel=1e-6)
        off_y = np.linalg.norm(10.0 * (guess - sums[before]) - truth.y[before])
        assert off_y == pytest.approx(dual_error_bound(error, n, 10.0), rel=1e-6)
        printed = dual_error_bound(error, n, 10.0, visits, as_printed=True)
        assert printed >= off_y * (1 - 1e-6)
    assert printed == pytest.approx(off_y, rel=1e-6)  # for the first visit they are the same


def test_the_conditions_of_the_paper_in_its_setting():
    found = descent(rho=10.0, L=2.0, agents=100, gamma=0.9)
    assert found.gamma_above == max((200 + 40 + 1) / 8, 2 * 12 * 100)
    assert found.gamma_above_smooth == 2 * 2 * 12 / 80
    assert (found.paper, found.smooth, found.convex, found.lemma_2) == (False, True, True, True)
    assert descent(10.0, 2.0, 100, 2401.0).paper
    assert not descent(2.0, 2.0, 100, 1e9).convex
    assert math.isinf(descent(2.0, 2.0, 100).gamma_above)
    assert "(15a) fails" in str(descent(1.0, 2.0, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: descent(0.0, 1.0, 3), "rho must be a positive number"),
        (lambda: descent(1.0, 1.0, 0), "agents must be a whole number"),
        (lambda: state_error_bound(1.0, -1), "whole number"),
        (lambda: dual_error_bound(1.0, 3, 1.0, as_printed=True), "visits"),
    ],
)
def test_bad_input_of_incremental(call, words):
    with pytest.raises(InputError, match=words):
        call()
