"""One case for all private methods with a budget, and the pieces of the papers' iterations that several of them share.

Nothing below takes a formula from the package: the iterations go agent by agent and edge by edge, with plain Newton
steps.
"""

import math
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import (
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RecycledADMM,
)
from tacit.core.facts import Facts
from tacit.core.losses import HuberHinge

GRAPH = tacit.Graph.random(5, 6, seed=2)
D, ROUNDS, RHO, GAMMA = 15, 6, 0.5, 0.4
PARTS = make_parts()
SIZES = [len(y) for _, y in PARTS]
SCALE = np.array([3.0, 1.0, 2.0, 4.0, 0.5])
RNG = np.random.default_rng(8)
NOISE = RNG.normal(size=(ROUNDS, 5, D))
START = RNG.normal(size=(5, D))
PENALTIES = RNG.uniform(0.2, 1.5, size=(ROUNDS, 5))  # up and down
GROWING = np.sort(PENALTIES, axis=0)
ALPHAS = np.geomspace(0.02, 2.0, 5 * ROUNDS)[RNG.permutation(5 * ROUNDS)].reshape(ROUNDS, 5)
CONSTANT = np.full((ROUNDS, 5), 0.7)


def neighbours(i):
    return [b if a == i else a for a, b in GRAPH.edges if i in (a, b)]


DEGREE = [len(neighbours(i)) for i in range(5)]
FACTS = Facts(sizes=SIZES, dimension=D, scale=SCALE, l2=RHO, tolerance=1e-11)


def problem(tolerance=1e-11, **settings):
    return tacit.Problem(PARTS, scale=SCALE, l2=RHO, tolerance=tolerance, **settings)


def run(method, noise=None, rounds=ROUNDS, p=None, start=START):
    noise = tacit.RecordedNoise(NOISE) if noise is None else noise
    return tacit.simulate(method, p or problem(), GRAPH, rounds=rounds, start=start, noise=noise, record=True)


# Settings that reach every branch of the formulas: noise by alpha, and noise by what a step may cost.
WITH_ALPHA = {
    "dvp": DualPerturbedADMM(PENALTIES, ALPHAS),
    "pvp": PrimalPerturbedADMM(PENALTIES, ALPHAS),
    "pvp printed": PrimalPerturbedADMM(PENALTIES, ALPHAS, "printed"),
    "pvp final": PrimalPerturbedADMM(PENALTIES, ALPHAS, final=2),
    "m-admm": PenaltyPerturbedADMM(GROWING, ALPHAS),
    "mr-admm": RecycledADMM(GROWING, GAMMA, ALPHAS),
    "mr-admm output": RecycledADMM(GROWING, GAMMA, ALPHAS, noise_on="output"),
}
METHODS = {
    "dvp": lambda b: DualPerturbedADMM(PENALTIES, budget=b),
    "pvp": lambda b: PrimalPerturbedADMM(PENALTIES, budget=b),
    "pvp printed final": lambda b: PrimalPerturbedADMM(PENALTIES, centre="printed", final=2, budget=b),
    "m-admm": lambda b: PenaltyPerturbedADMM(GROWING, budget=b),
    "mr-admm": lambda b: RecycledADMM(GROWING, GAMMA, budget=b),
    "mr-admm output": lambda b: RecycledADMM(GROWING, GAMMA, budget=b, noise_on="output"),
    "r-admm geometric": lambda b: RecycledADMM(Geometric(0.5, 1.2, cap=0.7), GAMMA, budget=b),
    "one-shot": lambda b: OneShotAveraging(mixing=0.2, budget=b),
    "descent": lambda b: GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=b),
}


def gradient_and_hessian(i, f):
    X, y = PARTS[i]
    g, H = RHO * f, RHO * np.eye(D)
    for x, label in zip(X, y, strict=True):
        q = 1 / (1 + math.exp(label * float(x @ f)))
        g = g - SCALE[i] / len(y) * label * q * x
        H = H + SCALE[i] / len(y) * q * (1 - q) * np.outer(x, x)
    return g, H


def minimiser(i, linear, squares, more=0.0):
    """argmin O_i(f) + linear.f + more/2 ||f||^2 + sum of w ||f - c||^2 over the pairs (w, c)."""
    f = np.zeros(D)
    for _ in range(40):
        g, H = gradient_and_hessian(i, f)
        g = g + linear + more * f + sum(2 * w * (f - c) for w, c in squares)
        f = f - np.linalg.solve(H + (more + 2 * sum(w for w, _ in squares)) * np.eye(D), g)
        if np.linalg.norm(g) < 1e-10:
            return f
    raise AssertionError("Newton has not converged")


def zeta_and_phi(alpha, i, eta, c1=0.25, printed=False):
    """Paper 004, Algorithm 2, as its proof needs it: zeta is half of alpha_hat, and that keeps half of alpha."""
    curvature = RHO + 2 * eta * DEGREE[i]
    alpha_hat, phi = alpha - 2 * math.log(1 + c1 / (SIZES[i] / SCALE[i] * curvature)), 0.0
    if alpha_hat <= 0 if printed else alpha_hat < alpha / 2:
        phi = c1 / (SIZES[i] / SCALE[i] * (math.exp(alpha / 4) - 1)) - curvature
        alpha_hat = alpha / 2
    return alpha_hat if printed else alpha_hat / 2, phi


def dual_perturbed_step(f, lam, e, t, i, printed=False):
    """Paper 004, (14) and (15)."""
    eta = PENALTIES[t, i]
    _, phi = zeta_and_phi(ALPHAS[t, i], i, eta, printed=printed)
    mu = lam[i] + SCALE[i] / (2 * SIZES[i]) * e[i]
    return minimiser(i, 2 * mu, [(eta, (f[i] + f[j]) / 2) for j in neighbours(i)], phi)


def stepped(lam, f, theta):
    """lambda_i + theta_i/2 sum_j (f_i - f_j), edge by edge."""
    out = lam.copy()
    for a, b in GRAPH.edges:
        out[a] += theta[a] / 2 * (f[a] - f[b])
        out[b] += theta[b] / 2 * (f[b] - f[a])
    return out


def each(step):
    return np.array([step(i) for i in range(5)])


def mixed(f, by):
    """f_i + by sum_j (f_j - f_i)."""
    return f - 2 * stepped(np.zeros((5, D)), f, [by] * 5)


def moved(i, m, tolerance=1e-11):
    """By how much replacing a record moves a minimiser of convexity m."""
    return (2 * SCALE[i] / SIZES[i] + 2 * tolerance) / m


def hidden_moved(i, t, tolerance=1e-11):
    """The same for the hidden model of round t with PVP's printed centre, which carries all earlier rounds on."""
    if t < 0:
        return 0.0
    pull = 2 * PENALTIES[t, i] * DEGREE[i]
    return moved(i, RHO + pull, tolerance) + pull / (RHO + pull) * hidden_moved(i, t - 1, tolerance)


# Whoever adds noise to a minimiser pays for what rounding does to it, on top of the closed form: a bound from public
# numbers, with a radius of 4096 for the models. It is never below zero, and here never above a millionth of the rest.
OF_ROUNDING = 1e-6


def assert_no_less_and_hardly_more(found, closed_form):
    found, closed_form = np.asarray(found), np.asarray(closed_form)
    assert np.all(closed_form <= found)
    assert np.all(found <= closed_form * (1 + OF_ROUNDING))


def c1_of(loss):
    return 1 / (2 * loss.width) if isinstance(loss, HuberHinge) else 0.25


def in_order(method, rounds, p, noise=None):
    """The events of every agent in the order of their release."""
    spent, out = [Counter() for _ in range(5)], [[] for _ in range(5)]
    done = None
    for t in range(rounds):
        done = tacit.simulate(method, p, GRAPH, rounds=t + 1, noise=noise or tacit.SeededNoise(3), resume=done)
        for i in range(5):
            ((event, _),) = (done.spent[i] - spent[i]).items()
            out[i].append(event)
        spent = [counter.copy() for counter in done.spent]
    return out


class Spy(tacit.RecordedNoise):
    """Recorded noise that remembers what it was asked for."""

    def __init__(self, private=False, grid=0.0):
        super().__init__(NOISE)
        self.asked, self.private, self.grid = [], private, grid

    def draw(self, law, scale, dimension, ids, t):
        self.asked.append(("draw", law, np.broadcast_to(scale, (5, 1))[:, 0], t))
        return super().draw(law, scale, dimension, ids, t)

    def add(self, law, value, scale, ids, t, onto=None):
        self.asked.append(("add", law, np.broadcast_to(scale, (5, 1))[:, 0], t))
        return value + super().draw(law, scale, value.shape[1], ids, t) + (0.0 if onto is None else onto)

    def mask(self, law, value, scale, ids, t):
        self.asked.append(("mask", law, np.broadcast_to(scale, (5, 1))[:, 0], t))
        return value


def asked(method, rounds=1, grid=0.0, p=None):
    spy = Spy(grid=grid)
    run(method, spy, rounds, p)
    return spy.asked


def refused(match, make, **settings):
    with pytest.raises(tacit.InputError, match=match) as caught:
        run(make(), rounds=settings.pop("rounds", 2), **settings)
    assert "\n" not in str(caught.value)
