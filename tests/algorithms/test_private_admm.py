"""The private methods against the papers' iterations and against closed forms, both written out by hand here.

Nothing below takes a formula from the package, but for the bound on rounding in the mask's test: the iterations go
agent by agent and edge by edge with plain Newton steps, the costs come from grids, and the Gaussian bound is held
against integrals of the true densities.
"""

import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import (
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RecycledADMM,
)
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.rounding import Solved, most_pull
from tacit.privacy.accounting import gaussian_epsilon, objective_epsilon, renyi_divergence, totals
from tacit.privacy.events import Free, Gaussian, ObjectiveGaussian, Pure, Unprotected
from tacit.privacy.noise import largest_draw
from tacit.privacy.plan import Facts, calibrate, plan

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


def neighbours(i):
    return [b if a == i else a for a, b in GRAPH.edges if i in (a, b)]


DEGREE = [len(neighbours(i)) for i in range(5)]


def problem(tolerance=1e-11, **settings):
    return tacit.Problem(PARTS, scale=SCALE, l2=RHO, tolerance=tolerance, **settings)


def run(method, noise=None, rounds=ROUNDS, p=None, start=START):
    noise = tacit.RecordedNoise(NOISE) if noise is None else noise
    return tacit.simulate(method, p or problem(), GRAPH, rounds=rounds, start=start, noise=noise, record=True)


# The papers' iterations.


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


def dvp_step(f, lam, e, t, i, printed=False):
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


def dual_perturbed(printed=False):
    f, lam, path = START, np.zeros((5, D)), [START]
    for t, e in enumerate(NOISE):
        f = each(functools.partial(dvp_step, f, lam, e, t, printed=printed))
        lam = stepped(lam, f, PENALTIES[t])
        path.append(f)
    return np.array(path)


def primal_perturbed(centre, final):
    """Paper 004, (18)-(20), and (21)-(23) at t = final, from V; c_pi = (f_p + V_i - e_p)/2 is the printed centre."""
    f, V, last, lam, path = START, START, np.zeros((5, D)), np.zeros((5, D)), [START]
    for t, e in enumerate(NOISE):
        if t == final:
            f = V = each(functools.partial(dvp_step, V, lam, e, t))
            last = np.zeros((5, D))
        else:
            own = f - last if centre == "printed" else V
            f = each(
                lambda i, own=own, V=V, lam=lam, t=t: minimiser(
                    i, 2 * lam[i], [(PENALTIES[t, i], (own[i] + V[j]) / 2) for j in neighbours(i)]
                )
            )
            V, last = f + e, e
        lam = stepped(lam, V, PENALTIES[t])
        path.append(V)
    return np.array(path)


def penalty_perturbed(theta):
    """M-ADMM: eta_i sum_j ||f + e_i - (f_i + f_j)/2||^2, the noise in every square."""
    f, lam, path = START, np.zeros((5, D)), [START]
    for eta, e in zip(GROWING, NOISE, strict=True):
        f = each(
            lambda i, f=f, lam=lam, eta=eta, e=e: minimiser(
                i, 2 * lam[i], [(eta[i], (f[i] + f[j]) / 2 - e[i]) for j in neighbours(i)]
            )
        )
        lam = stepped(lam, f, [theta] * 5)
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


def mixed(f, by):
    """f_i + by sum_j (f_j - f_i)."""
    return f - 2 * stepped(np.zeros((5, D)), f, [by] * 5)


def one_shot(mixing):
    f = each(lambda i: SCALE[i] * minimiser(i, NOISE[0, i], []))
    path = [START]
    for _ in range(ROUNDS):
        f = mixed(f, mixing)
        path.append(f)
    return np.array(path)


def descent(step, mixing, exchanges):
    """The recorded noise is what the step as it leaves carries."""
    f, path = START, [START]
    for t in range(ROUNDS):
        if t % exchanges == 0:
            g = each(lambda i, f=f: gradient_and_hessian(i, f[i])[0])
            f = f - step * g + NOISE[t // exchanges]
        f = mixed(f, mixing)
        path.append(f)
    return np.array(path)


CONSTANT = np.full((ROUNDS, 5), 0.7)
TRAJECTORIES = {
    "dvp": (lambda: DualPerturbedADMM(penalty=PENALTIES, alpha=ALPHAS), dual_perturbed, ROUNDS),
    "dvp as printed": (
        lambda: DualPerturbedADMM(penalty=PENALTIES, alpha=ALPHAS, as_printed=True),
        lambda: dual_perturbed(printed=True),
        ROUNDS,
    ),
    **{
        f"pvp {centre} final={final}": (
            lambda centre=centre, final=final: PrimalPerturbedADMM(
                penalty=PENALTIES, alpha=ALPHAS, centre=centre, final=final
            ),
            lambda centre=centre, final=final: primal_perturbed(centre, final),
            ROUNDS,
        )
        for centre in ("released", "printed")
        for final in (None, 3, ROUNDS - 1)
    },
    "m-admm": (
        lambda: PenaltyPerturbedADMM(penalty=GROWING, alpha=ALPHAS, dual_step=0.6),
        lambda: penalty_perturbed(0.6),
        ROUNDS,
    ),
    "r-admm": (
        lambda: RecycledADMM(penalty=0.7, gamma=GAMMA, alpha=ALPHAS),
        lambda: recycled(CONSTANT, None),
        2 * ROUNDS,
    ),
    "mr-admm (15)": (
        lambda: RecycledADMM(penalty=GROWING, gamma=GAMMA, alpha=ALPHAS),
        lambda: recycled(GROWING, None),
        2 * ROUNDS,
    ),
    "mr-admm common": (
        lambda: RecycledADMM(penalty=GROWING, gamma=GAMMA, alpha=ALPHAS, dual_step=0.6),
        lambda: recycled(GROWING, 0.6),
        2 * ROUNDS,
    ),
    "one-shot": (lambda: OneShotAveraging(mixing=0.1, budget=Pure(1.0)), lambda: one_shot(0.1), ROUNDS),
    "descent": (
        lambda: GradientDescent(step=0.3, mixing=0.1, exchanges=2, budget=Gaussian(1.0)),
        lambda: descent(0.3, 0.1, 2),
        ROUNDS,
    ),
}


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_trajectories_are_those_of_the_papers(name):
    method, paper, rounds = TRAJECTORIES[name]
    np.testing.assert_allclose(run(method(), rounds=rounds).trajectory, paper(), rtol=0, atol=1e-8)


def test_the_trajectories_reach_both_branches():
    """Some agent has Phi > 0 in some step and none in another; the graph is not regular; no two agents are alike."""
    phis = [zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i])[1] for t in range(ROUNDS) for i in range(5)]
    assert 0 < np.count_nonzero(phis) < len(phis)
    assert len(set(DEGREE)) > 1
    assert len(set(SIZES)) == 5


# What a step costs.


def worst(rate, i, mu, loss):
    """The cost of a linear term with a density exp(-rate ||.||): a record at slope 1, another one at its worst."""
    one = SCALE[i] / SIZES[i]
    if isinstance(loss, HuberHinge):
        return 2 * rate * one + math.log(1 + one / (2 * loss.width * mu))
    q = np.linspace(0, 1, 100_001)
    for width in (1e-5, 1e-10):  # a grid, and a finer one around its best point
        best = q[np.argmax(rate * one * q + np.log1p(one * q * (1 - q) / mu))]
        q = np.clip(np.linspace(best - width, best + width, 100_001), 0, 1)
    return rate * one + np.max(rate * one * q + np.log1p(one * q * (1 - q) / mu))


def moved(i, m, tolerance=1e-11):
    """By how much replacing a record moves a minimiser of convexity m."""
    return (2 * SCALE[i] / SIZES[i] + 2 * tolerance) / m


# Whoever adds noise to a minimiser pays for what rounding does to it, on top of the closed form: a bound from public
# numbers, with a radius of 4096 for the models. It is never below zero, and here never above a millionth of the rest.
OF_ROUNDING = 1e-6


def assert_no_less_and_hardly_more(found, closed_form):
    found, closed_form = np.asarray(found), np.asarray(closed_form)
    assert np.all(closed_form <= found)
    assert np.all(found <= closed_form * (1 + OF_ROUNDING))


def c1_of(loss):
    return 1 / (2 * loss.width) if isinstance(loss, HuberHinge) else 0.25


def dvp_cost(t, i, loss):
    zeta, phi = zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i], c1_of(loss))
    mu = RHO + phi + 2 * PENALTIES[t, i] * DEGREE[i]
    return 1.001 * worst(zeta * SIZES[i] / SCALE[i], i, mu, loss)


def pvp_cost(centre, t, i, loss):
    m = RHO + (2 * PENALTIES[t, i] * DEGREE[i] if centre == "released" else 0)
    return m * SIZES[i] * ALPHAS[t, i] / (2 * SCALE[i]) * moved(i, m)


def m_cost(t, i, loss):
    weight = GROWING[t, i] * DEGREE[i]
    return 1.001 * worst(ALPHAS[t, i] / (2 * weight), i, RHO + 2 * weight, loss)


def r_cost(t, i, loss):
    if t % 2:
        return 0.0
    return 1.001 * worst(ALPHAS[t // 2, i], i, RHO + 2 * GROWING[t // 2, i] * DEGREE[i], loss)


COSTS = {
    "dvp": (DualPerturbedADMM(PENALTIES, ALPHAS), dvp_cost),
    "pvp": (PrimalPerturbedADMM(PENALTIES, ALPHAS), functools.partial(pvp_cost, "released")),
    "pvp printed": (PrimalPerturbedADMM(PENALTIES, ALPHAS, "printed"), functools.partial(pvp_cost, "printed")),
    "pvp final": (
        PrimalPerturbedADMM(PENALTIES, ALPHAS, final=2),
        lambda t, i, loss: dvp_cost(t, i, loss) if t == 2 else pvp_cost("released", t, i, loss),
    ),
    "m-admm": (PenaltyPerturbedADMM(GROWING, ALPHAS), m_cost),
    "mr-admm": (RecycledADMM(GROWING, GAMMA, ALPHAS), r_cost),
}


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


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(width=0.3)], ids=["logistic", "huber"])
@pytest.mark.parametrize("name", COSTS)
def test_every_event_is_its_closed_form(name, loss):
    method, cost = COSTS[name]
    for i, events in enumerate(in_order(method, 4, problem(loss=loss))):
        for t, event in enumerate(events):
            expected = cost(t, i, loss)
            if expected == 0:
                assert isinstance(event, Free)
            else:
                assert isinstance(event, Pure)
                if name.startswith("pvp") and (name, t) != ("pvp final", 2):  # noise on the minimiser
                    assert_no_less_and_hardly_more(event.epsilon, expected)
                else:
                    assert event.epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("centre", ["released", "printed"])
def test_output_perturbation_pays_for_what_the_solver_leaves_open(centre):
    """A tolerance that is no trifle: alpha (1 + tau/(C/B)), and for a budget as much more noise."""
    p = problem(tolerance=1e-3)
    for i, (event,) in enumerate(in_order(PrimalPerturbedADMM(PENALTIES, ALPHAS, centre), 1, p)):
        assert_no_less_and_hardly_more(event.epsilon, ALPHAS[0, i] * (1 + 1e-3 * SIZES[i] / SCALE[i]))
    for budget, by in ((Pure(1.5), 1 / 1.5), (Gaussian(2.5), 2.5)):
        method = PrimalPerturbedADMM(PENALTIES, centre=centre, budget=budget)
        ((_, _, scale, _),) = asked(method, p=p)
        for i in range(5):
            m = RHO + (2 * PENALTIES[0, i] * DEGREE[i] if centre == "released" else 0)
            assert_no_less_and_hardly_more(scale[i], by * moved(i, m, tolerance=1e-3))
        assert plan(method, p, GRAPH, 1).spent == run(method, rounds=1, p=p).spent


def test_the_papers_own_bounds():
    view, p = GRAPH.view(), problem()
    for t, i in itertools.product(range(4), range(5)):
        one = SCALE[i] / SIZES[i]
        for method in (COSTS["dvp"][0], COSTS["pvp"][0], COSTS["pvp printed"][0]):
            assert method.paper_bound(p, view, t)[i, 0] == ALPHAS[t, i]
        m = COSTS["m-admm"][0].paper_bound(p, view, t)[i, 0]
        assert m == pytest.approx(one * (1.4 * 0.25 + ALPHAS[t, i]) / (GROWING[t, i] * DEGREE[i]), rel=1e-12)
        r = COSTS["mr-admm"][0].paper_bound(p, view, t)[i, 0]
        mu = RHO + 2 * GROWING[t // 2, i] * DEGREE[i]
        expected = 0.0 if t % 2 else 2 * one * (1.4 * 0.25 / mu + ALPHAS[t // 2, i])  # (32)
        assert r == pytest.approx(expected, rel=1e-12)
    # The plan adds them up; where the paper has a bound for the shipped method, ours is below it.
    for name, paper_claims in (("dvp", True), ("pvp", True), ("m-admm", False), ("mr-admm", False)):
        method, cost = COSTS[name]
        total = plan(method, p, GRAPH, 4).paper
        one_by_one = sum(method.paper_bound(p, view, t)[:, 0] for t in range(4))
        np.testing.assert_allclose(total, one_by_one, rtol=1e-12)
        if paper_claims:
            ours = [sum(cost(t, i, Logistic()) for t in range(4)) for i in range(5)]
            assert np.all(np.array(ours) <= total * (1 + 1e-8))
    assert plan(DualPerturbedADMM(budget=Pure(1.0)), p, GRAPH, 4).paper is None
    with pytest.raises(tacit.InputError, match="stated in alpha"):
        RecycledADMM(budget=Pure(1.0)).paper_bound(p, view, 0)


METHODS = {
    "dvp": lambda b: DualPerturbedADMM(PENALTIES, budget=b),
    "pvp": lambda b: PrimalPerturbedADMM(PENALTIES, budget=b),
    "pvp printed final": lambda b: PrimalPerturbedADMM(PENALTIES, centre="printed", final=2, budget=b),
    "m-admm": lambda b: PenaltyPerturbedADMM(GROWING, budget=b),
    "mr-admm": lambda b: RecycledADMM(GROWING, GAMMA, budget=b),
    "r-admm geometric": lambda b: RecycledADMM(Geometric(0.5, 1.2, cap=0.7), GAMMA, budget=b),
    "one-shot": lambda b: OneShotAveraging(mixing=0.2, budget=b),
    "descent": lambda b: GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=b),
}
PURE = [name for name in METHODS if name != "descent"]


def convexities(name, t, i):
    """Strong convexity of what is minimised at exchange t."""
    eta = {"m-admm": GROWING[t, i], "mr-admm": GROWING[t // 2, i]}.get(name, PENALTIES[t, i])
    if name == "r-admm geometric":
        eta = min(0.5 * 1.2 ** (t // 2), 0.7)
    return RHO + (0 if name == "one-shot" else 2 * eta * DEGREE[i])


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(width=0.3)], ids=["logistic", "huber"])
@pytest.mark.parametrize("name", PURE)
def test_a_pure_budget_is_used_up_and_kept(name, loss):
    for events in in_order(METHODS[name](Pure(1.5)), 4, problem(loss=loss)):
        paid = [e for e in events if not isinstance(e, Free)]
        assert len(paid) == {"mr-admm": 2, "r-admm geometric": 2, "one-shot": 1}.get(name, 4)
        for event in paid:
            assert isinstance(event, Pure)
            assert 1.5 * (1 - 1e-9) <= event.epsilon <= 1.5 * (1 + 1e-15)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(width=0.3)], ids=["logistic", "huber"])
@pytest.mark.parametrize("name", METHODS)
def test_a_gaussian_budget_is_used_up_and_kept(name, loss):
    for i, events in enumerate(in_order(METHODS[name](Gaussian(2.5)), 4, problem(loss=loss))):
        for t, event in enumerate(events):
            if isinstance(event, Free):
                assert (name in ("mr-admm", "r-admm geometric", "descent") and t % 2) or (name == "one-shot" and t)
                continue
            assert event.multiplier == pytest.approx(2.5, rel=1e-12)
            output = name in ("pvp", "descent") or (name == "pvp printed final" and t != 2)
            assert isinstance(event, Gaussian if output else ObjectiveGaussian)
            if not output:
                x = c1_of(loss) * SCALE[i] / (SIZES[i] * convexities(name, t, i))
                assert event.curvature == pytest.approx(x, rel=1e-9)


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


def test_the_noise_is_drawn_with_the_papers_scales():
    (dvp, _, dvp2, _) = asked(COSTS["dvp"][0], 2)
    for drawn, t in ((dvp, 0), (dvp2, 1)):
        assert drawn[:2] == ("draw", "spherical")
        assert drawn[3] == t
        expected = [1 / zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i])[0] for i in range(5)]
        np.testing.assert_allclose(drawn[2], expected, rtol=1e-12)
    for name, centre in (("pvp", "released"), ("pvp printed", "printed")):
        ((kind, law, scale, t),) = asked(COSTS[name][0])
        assert (kind, law, t) == ("add", "spherical", 0)
        m = [RHO + (2 * PENALTIES[0, i] * DEGREE[i] if centre == "released" else 0) for i in range(5)]
        zeta = [m[i] * SIZES[i] * ALPHAS[0, i] / (2 * SCALE[i]) for i in range(5)]  # rho B alpha/(2 C), as printed
        np.testing.assert_allclose(scale, 1 / np.array(zeta), rtol=1e-12)
    for name in ("m-admm", "mr-admm"):
        (kind, law, scale, _), _ = asked(COSTS[name][0])
        assert (kind, law) == ("draw", "spherical")
        np.testing.assert_allclose(scale, 1 / ALPHAS[0], rtol=1e-12)
    third = asked(COSTS["mr-admm"][0], 5)[4]  # exchanges 0, 2, 4 are noisy, with a mask each
    np.testing.assert_allclose(third[2], 1 / ALPHAS[2], rtol=1e-12)
    assert third[3] == 2


def test_gaussian_noise_has_the_deviation_of_its_multiplier():
    factor = {
        "dvp": [SCALE[i] / SIZES[i] for i in range(5)],
        "m-admm": [2 * GROWING[0, i] * DEGREE[i] for i in range(5)],
        "mr-admm": [1.0] * 5,
        "one-shot": [1.0] * 5,
    }
    for name, by in factor.items():
        (kind, law, scale, _), _ = asked(METHODS[name](Gaussian(2.5)))
        assert (kind, law) == ("draw", "gaussian")
        expected = [2.5 * math.sqrt(1.001) * 2 * SCALE[i] / SIZES[i] / by[i] for i in range(5)]
        np.testing.assert_allclose(scale, expected, rtol=1e-9)
    for name in ("pvp", "pvp printed final"):
        ((kind, law, scale, _),) = asked(METHODS[name](Gaussian(2.5)))
        assert (kind, law) == ("add", "gaussian")
        m = [RHO + (2 * PENALTIES[0, i] * DEGREE[i] if name == "pvp" else 0) for i in range(5)]
        assert_no_less_and_hardly_more(scale, [2.5 * moved(i, m[i]) for i in range(5)])
    ((kind, law, scale, _),) = asked(METHODS["descent"](Gaussian(2.5)))
    assert (kind, law) == ("add", "gaussian")
    np.testing.assert_allclose(scale, [0.1 * 2.5 * 2 * SCALE[i] / SIZES[i] for i in range(5)], rtol=1e-9)


@pytest.mark.parametrize("grid", [0.0, 2.0**-20])
def test_the_mask_pays_for_the_inexact_minimiser(grid):
    """A thousandth of the step's cost, for a shift of 2 tau/mu, with tau of the solver, its rounding included, and of
    the rounded linear term: it is the term that is rounded, noise and all, so the noise's factor is not in it."""
    p = problem(tolerance=1e-7)

    def tau(mu, by, scale, law):
        most = most_pull(p, mu)
        of_the_grid = grid * math.sqrt(D) / 2
        solved = Solved(p, mu, most + by * scale * largest_draw(law, D) + of_the_grid).tau
        assert np.all(1e-7 + of_the_grid <= solved + of_the_grid)
        assert np.all(solved <= 1.01e-7)  # here rounding is a small part of it
        return (solved + of_the_grid)[:, 0]

    mu = RHO + 2 * GROWING[0] * DEGREE
    for name, by in (("m-admm", 2 * GROWING[0] * DEGREE), ("mr-admm", np.ones(5))):
        (_, _, drawn, _), (kind, law, scale, t) = asked(COSTS[name][0], grid=grid, p=p)
        assert (kind, law, t) == ("mask", "spherical", 0)
        cost = [worst(ALPHAS[0, i] / by[i], i, mu[i], Logistic()) for i in range(5)]
        shift = 2 * tau(mu[:, None], by[:, None], drawn[:, None], law) / mu
        np.testing.assert_allclose(shift / scale, 1e-3 * np.array(cost), rtol=1e-9)
        (_, _, drawn, _), (kind, law, scale, t) = asked(METHODS[name](Gaussian(2.5)), grid=grid, p=p)
        assert (kind, law, t) == ("mask", "gaussian", 0)
        shift = 2 * tau(mu[:, None], by[:, None], drawn[:, None], law) / mu
        precision = (shift / scale) ** 2  # 1/multiplier^2 of the mask; the step itself has the rest
        np.testing.assert_allclose(precision, 1e-3 / 1.001 / 2.5**2, rtol=1e-9)


# Special cases, and the versions that are printed.


def test_without_noise_all_are_consensus_admm():
    """Sizes that leave Phi = 0; the penalty and the dual step of all are one number."""
    big = tacit.Problem(make_parts(sizes=(150, 90, 120, 200, 100)), scale=3.0, l2=RHO, tolerance=1e-11)
    silent = tacit.RecordedNoise(np.zeros((ROUNDS, 5, D)))
    admm = tacit.simulate(ConsensusADMM(penalty=0.7), big, GRAPH, rounds=ROUNDS, start=START, record=True).trajectory
    for settings in ({"alpha": 2.0}, {"alpha": None}, {"budget": Pure(2.0)}, {"budget": Gaussian(1.0)}):
        for method in (
            DualPerturbedADMM(penalty=0.7, **settings),
            PrimalPerturbedADMM(penalty=0.7, **settings),
            PrimalPerturbedADMM(penalty=0.7, centre="printed", **settings),
            PrimalPerturbedADMM(penalty=0.7, final=2, **settings),
            PenaltyPerturbedADMM(penalty=0.7, dual_step=0.7, **settings),
            PenaltyPerturbedADMM(penalty=CONSTANT, dual_step=0.7, **settings),
        ):
            np.testing.assert_allclose(run(method, silent, p=big).trajectory, admm, rtol=0, atol=1e-8)
        recycled = RecycledADMM(0.7, GAMMA, **settings)
        plain = run(RecycledADMM(0.7, GAMMA), silent, 2 * ROUNDS, big).trajectory
        np.testing.assert_allclose(run(recycled, silent, 2 * ROUNDS, big).trajectory, plain, rtol=0, atol=1e-8)
        assert np.abs(plain[1:3] - admm[1:3]).max() > 1e-3  # an even step is no step of ADMM
        np.testing.assert_allclose(plain[1], admm[1], rtol=0, atol=1e-8)


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
    """Data, or noise, that nobody may look at."""

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


def test_recycling_as_printed_is_the_same_algebra_and_tells_the_residual():
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


def test_dual_perturbation_as_printed_has_half_of_the_noise():
    """zeta = alpha_hat instead of half of it, and Phi only where alpha_hat is below 0."""
    p, method = problem(), {"penalty": PENALTIES, "alpha": ALPHAS}
    ((kind, _, scale, _),) = asked(DualPerturbedADMM(**method, as_printed=True))
    assert kind == "draw"
    alpha_hat = [zeta_and_phi(ALPHAS[0, i], i, PENALTIES[0, i], printed=True)[0] for i in range(5)]
    np.testing.assert_allclose(scale, 1 / np.array(alpha_hat), rtol=1e-12)
    tight = {"penalty": 0.2, "alpha": 0.01}
    ((_, _, scale, _),) = asked(DualPerturbedADMM(**tight, as_printed=True))
    hats = [0.01 - 2 * math.log(1 + 0.25 * SCALE[i] / SIZES[i] / (RHO + 0.4 * DEGREE[i])) for i in range(5)]
    np.testing.assert_allclose(scale, [1 / (h if h > 0 else 0.005) for h in hats], rtol=1e-12)
    assert min(hats) <= 0
    shipped, printed = (run(DualPerturbedADMM(**method, as_printed=a), p=p) for a in (False, True))
    assert np.abs(shipped.trajectory - printed.trajectory).max() > 1e-3  # Phi


def test_primal_perturbation_as_printed_broadcasts_the_minimiser():
    method = {"penalty": PENALTIES, "alpha": ALPHAS, "final": 2}
    shipped, printed = (PrimalPerturbedADMM(**method, centre="printed", as_printed=a) for a in (False, True))
    p, view, noise = problem(), GRAPH.view(), tacit.RecordedNoise(NOISE)
    state = run(shipped, rounds=1).state
    after, release = printed.speak(state, p, view, noise, 1)
    honest, honest_release = shipped.speak(state, p, view, noise, 1)
    np.testing.assert_array_equal(after.hidden, release.value)  # f_p left
    np.testing.assert_allclose(honest_release.value, release.value + NOISE[1], atol=1e-12)
    np.testing.assert_array_equal(honest.V, honest_release.value)
    final, _ = printed.speak(state, p, view, noise, 2)
    honest, _ = shipped.speak(state, p, view, noise, 2)
    assert np.abs(final.V - honest.V).max() > 1e-3  # from f_p, not from V_p


PRINTED = {
    "dvp": DualPerturbedADMM(alpha=1.0, as_printed=True),
    "pvp": PrimalPerturbedADMM(alpha=1.0, final=1, as_printed=True),
    "r-admm": RecycledADMM(alpha=1.0, as_printed=True),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_versions_are_unprotected_and_refuse_noise_that_protects(name):
    done = run(PRINTED[name], rounds=4)
    assert all(counter == Counter({Unprotected(): 4}) for counter in done.spent)
    assert totals(done.spent[0], 1e-5).best == math.inf
    assert plan(PRINTED[name], problem(), GRAPH, 4).spent == done.spent
    with pytest.raises(tacit.InputError, match="printed version breaks its own promise"):
        run(PRINTED[name], tacit.SecureNoise())


@pytest.mark.parametrize("name", METHODS)
def test_without_noise_there_is_no_private_run(name):
    with pytest.raises(tacit.InputError, match="a private method needs noise"):
        tacit.simulate(METHODS[name](Gaussian(2.0)), problem(), GRAPH, rounds=1)
    plain = tacit.simulate(METHODS[name](None), problem(), GRAPH, rounds=3)
    assert all(counter == Counter({Unprotected(): 3}) for counter in plain.spent)


# Plans.

FACTS = Facts(sizes=SIZES, dimension=D, scale=SCALE, l2=RHO, tolerance=1e-11)


@pytest.mark.parametrize("settings", [*(f"{name} alpha" for name in COSTS), *METHODS])
def test_a_plan_is_what_the_run_spends(settings):
    name = settings.removesuffix(" alpha")
    budgets = [None] if settings != name else [Gaussian(2.5)] if name == "descent" else [Gaussian(2.5), Pure(1.5)]
    for budget in budgets:
        method = COSTS[name][0] if budget is None else METHODS[name](budget)
        done = run(method, tacit.SeededNoise(1), rounds=5)
        planned = plan(method, FACTS, GRAPH, 5)
        assert planned.spent == done.spent
        assert planned.spent == plan(method, problem(), GRAPH, 5).spent
        assert [Counter(events) for events in planned.events] == done.spent
        assert all(len(events) == 5 for events in planned.events)
        each_total = [totals(counter, 1e-5) for counter in done.spent]
        assert planned.totals(1e-5) == each_total
        assert planned.epsilon(1e-5) == max(t.best for t in each_total)
    loss = HuberHinge(width=0.3)
    if settings == name:
        facts = Facts(sizes=SIZES, dimension=D, scale=SCALE, l2=RHO, tolerance=1e-11, loss=loss)
        assert plan(method, facts, GRAPH, 2).spent == run(method, tacit.SeededNoise(1), 2, problem(loss=loss)).spent


LOOKS = {"_store", "gradient", "data_gradient", "sampled_gradient", "sampled_data_gradient", "argmin", "sure_argmin",
         "value", "average_loss", "second_moment", "smoothness", "require_row_norm", "take"}  # fmt: skip


def test_a_plan_looks_at_no_data():
    class Guarded(tacit.Problem):
        def __getattribute__(self, name):
            if name in LOOKS:
                raise AssertionError(f"the plan asked for {name}")
            return super().__getattribute__(name)

        sizes, dimension, agents = np.array(SIZES), D, 5

    guarded = Guarded.__new__(Guarded)
    guarded.loss, guarded.scale, guarded.l2, guarded.tolerance = Logistic(), SCALE, RHO, 1e-11
    guarded.radius = FACTS.radius
    for name, make in METHODS.items():
        assert plan(make(Gaussian(2.0)), guarded, GRAPH, 3).spent == plan(make(Gaussian(2.0)), FACTS, GRAPH, 3).spent, (
            name
        )


@pytest.mark.parametrize(
    ("name", "law"),  # gradient descent has Gaussian noise only
    [pair for pair in itertools.product(METHODS, (Pure, Gaussian)) if pair != ("descent", Pure)],
)
def test_calibration_meets_its_target_from_below(name, law):
    facts = Facts(sizes=[700, 4000, 2300, 6100, 1200], dimension=D, scale=SCALE, l2=RHO)
    best = calibrate(METHODS[name], facts, GRAPH, 6, epsilon=2.0, delta=1e-6, law=law)
    assert isinstance(best.budget, law)
    assert 2.0 * 0.99 <= plan(best, facts, GRAPH, 6).epsilon(1e-6) <= 2.0


def test_calibration_by_the_agent_that_pays_most():
    """With noise of one alpha for all the agents' totals differ: the largest is what counts."""
    facts = Facts(sizes=[6100, 4000, 2300, 700, 1200], dimension=D, scale=SCALE, l2=RHO)
    made = calibrate(
        lambda b: PenaltyPerturbedADMM(GROWING, alpha=1000 * b.epsilon),
        facts,
        GRAPH,
        5,
        epsilon=1.0,
        delta=1e-6,
        law=Pure,
    )
    each_total = [t.best for t in plan(made, facts, GRAPH, 5).totals(1e-6)]
    assert 0.99 <= max(each_total) <= 1.0
    assert each_total[0] < 0.5
    assert np.argmax(each_total) == 3


# The two theorems, against the true densities of the minimiser.


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
                bound = float(renyi_divergence(event, np.array([a]))[0])
                assert pair.log_moment(a, sigma, which) <= (a - 1) * bound + sloppy


@pytest.mark.parametrize("x", [0.01, 0.5, 3.0])
def test_the_gaussian_bound_is_the_formula_of_its_definition(x):
    a = 1 + np.array([0.01, 0.5, 0.95]) / x
    expected = a / 2 / 1.7**2 + (np.log(1 + x) - np.log(1 + a * x) - np.log(1 - (a - 1) * x)) / (a - 1)
    np.testing.assert_allclose(renyi_divergence(ObjectiveGaussian(1.7, x), a), expected, rtol=1e-9)
    with np.errstate(divide="ignore"):
        assert np.all(renyi_divergence(ObjectiveGaussian(1.7, x), 1 + np.array([1.0001, 1.5, 50.0]) / x) == math.inf)


@pytest.mark.parametrize(
    ("name", "loss"), [("tilted", Logistic()), ("tilted", HuberHinge()), ("opposite", HuberHinge())]
)
def test_the_gaussian_bound_is_near_where_noise_dominates(name, loss):
    """And with the distance of one record instead of two, the bound would be false."""
    C, mu, sigma = 0.05, 1.0, 0.1
    pair = PAIRS[name](loss, C, mu)
    event = pair.event(sigma)
    for a in (1.5, 3.0, 6.0):
        bound = float(renyi_divergence(event, np.array([a]))[0])
        assert 0.95 * bound <= pair.divergence(a, sigma) <= bound * (1 + 1e-6)
        halved = ObjectiveGaussian(2 * event.multiplier, event.curvature)
        assert pair.divergence(a, sigma) > 2 * float(renyi_divergence(halved, np.array([a]))[0])


def test_without_the_term_for_the_curvature_the_bound_would_be_false():
    """A small mu: the one record bends the objective where the other leaves it flat."""
    pair = Pair(Logistic(), 1.0, 1e-3, (1.0, 1), (0.0, 1), 0.0)
    sigma = 100.0
    event = pair.event(sigma)
    a = 1 + 0.9 / event.curvature
    bound = float(renyi_divergence(event, np.array([a]))[0])
    noise_alone = float(renyi_divergence(Gaussian(event.multiplier), np.array([a]))[0])
    assert 5 * noise_alone < pair.divergence(a, sigma) <= bound


def test_accountants_without_a_rule_for_the_minimiser_say_nothing():
    """Composed with whatever else: only Renyi divergences add up, and they do."""
    event, orders = ObjectiveGaussian(3.0, 0.1), np.array([1.5, 4.0])
    for others in ({}, {Gaussian(2.0): 3}, {Pure(0.1): 2}):
        spent = totals(Counter({event: 5, **others}), 1e-5)
        assert (spent.plain_sum, spent.distribution, spent.zcdp) == (math.inf, None, None)
        assert spent.best == spent.renyi < math.inf
        assert spent.renyi > totals(Counter({Gaussian(3.0): 5, **others}), 1e-5).renyi  # it pays for the curvature
    assert np.all(renyi_divergence(event, orders) > renyi_divergence(Gaussian(3.0), orders))


SINGLE = [(4.0, 0.1, 1e-5), (1.0, 0.5, 1e-3), (0.5, 0.05, 1e-4), (2.0, 3.0, 1e-6)]  # multiplier, curvature, delta


@pytest.mark.parametrize(("m", "x", "delta"), SINGLE)
@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "huber"])
def test_the_bound_on_a_single_release_holds_for_the_true_densities(loss, m, x, delta):
    """The integral of (p - e^epsilon q)+ is at most delta."""
    event = ObjectiveGaussian(m, x)
    epsilon = objective_epsilon(event, delta)
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
        epsilon = objective_epsilon(event, delta)
        assert 0.4 * delta < pair.excess(epsilon - math.log1p(event.curvature), 0.1) <= 0.5 * delta
        assert pair.excess(epsilon / 2, 0.1) > delta
    # Where there is no tail to speak of, the proof begins at sqrt(3)/m + 1/(2 m^2).
    assert objective_epsilon(ObjectiveGaussian(4.0, 0.1), 0.2) == math.log(1.1) + math.sqrt(3) / 4 + 1 / 32


@pytest.mark.parametrize("x", [1e-12, 1e-6, 0.01, 0.5, 3.0])
def test_the_curvature_term_is_the_worst_of_all_rank_one_updates(x):
    """[a ln det H - (a-1) ln det H' - ln det(a H - (a-1) H')]/(a-1) over H = I + p uu^T, H' = I + q vv^T."""
    rng = np.random.default_rng(0)
    for a in 1 + np.array([1e-3, 0.3, 0.95]) * min(1 / x, 30):
        # Of the event, less what a Gaussian with the same multiplier costs.
        event = ObjectiveGaussian(1e9, x)
        term = float(renyi_divergence(event, np.array([a]))[0]) - a / 2e18
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
    """One record at the slope q where noise and curvature together tell most, the other far on its wrong side."""
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


# Refusals: one line each, before anything has left.


def refused(match, make, **settings):
    with pytest.raises(tacit.InputError, match=match) as caught:
        run(make(), rounds=settings.pop("rounds", 2), **settings)
    assert "\n" not in str(caught.value)


PRIVATE = {
    "dvp": DualPerturbedADMM,
    "pvp": PrimalPerturbedADMM,
    "m-admm": PenaltyPerturbedADMM,
    "r-admm": RecycledADMM,
}


@pytest.mark.parametrize("name", PRIVATE)
def test_bad_settings_are_refused(name):
    make = functools.partial(functools.partial, PRIVATE[name])
    for bad in (0, -1.0, math.nan, math.inf, np.array([[1.0, 0.0]]), np.array([[math.nan] * 5])):
        refused("alpha must be positive and finite", make(alpha=bad))
        refused("penalty must be positive and finite", make(penalty=bad, alpha=1.0))
    refused(r"alpha must be a number or an array .* not of shape \(5,\)", make(alpha=np.ones(5)))
    refused(r"penalty must be a number or an array .* not of shape \(5,\)", make(penalty=np.ones(5)))
    refused("alpha must be a number", make(alpha="much"))
    refused("by alpha or by budget, not by both", make(alpha=1.0, budget=Pure(1.0)))
    refused(r"budget is Pure\(epsilon\) or Gaussian\(multiplier\)", make(budget=1.0))
    refused("alpha is given for 1 noisy steps; the run needs step 2", make(alpha=np.ones((1, 5))), rounds=4)
    refused("penalty is given for 1 noisy steps; the run needs step 2", make(penalty=np.ones((1, 5))), rounds=4)
    refused("alpha is given for 4 agents, the graph has 5", make(alpha=np.ones((2, 4))))
    refused("penalty is given for 4 agents, the graph has 5", make(penalty=np.ones((2, 4))))
    refused("one value for all agents or one for each", make(alpha=Geometric([1.0, 2.0], 1.0)))
    refused("positive, finite ratio", lambda: PRIVATE[name](penalty=Geometric(1.0, -2.0)))
    refused("positive, finite first", lambda: PRIVATE[name](alpha=Geometric(math.nan, 2.0)))
    refused("grown beyond all numbers at step 2", make(alpha=Geometric(1e200, 1e200)), rounds=4)
    falling = np.array([[1.0] * 5, [1.0] * 4 + [0.9]])
    if name in ("m-admm", "r-admm"):
        refused("penalty must not decrease", make(penalty=falling))
        refused("penalty must not decrease", make(penalty=Geometric(1.0, 0.9)))
        refused("penalty must not decrease", make(penalty=Geometric(1.0, [1.0, 1.0, 1.0, 1.0, 0.9])))
        for bad in (0.0, -1.0, math.nan, math.inf):
            refused("dual_step must be a positive number", make(dual_step=bad))
    else:
        PRIVATE[name](penalty=falling)


def test_other_bad_settings_are_refused():
    for bad in (-0.1, math.nan, math.inf):
        refused("gamma must be zero or a positive number", lambda bad=bad: RecycledADMM(gamma=bad))
    refused("the centre is 'released' or 'printed'", lambda: PrimalPerturbedADMM(centre="hidden"))
    refused("a gradient's budget is Gaussian", lambda: GradientDescent(step=0.1, mixing=0.1, budget=Pure(1.0)))
    refused(
        "primal perturbation needs l2 above zero",
        lambda: PrimalPerturbedADMM(alpha=1.0, centre="printed"),
        p=tacit.Problem(PARTS),
    )
    refused("local minimiser needs l2 > 0", lambda: METHODS["one-shot"](Pure(1.0)), p=tacit.Problem(PARTS))


@pytest.mark.parametrize("name", METHODS)
def test_bad_data_are_refused(name):
    for budget in (Gaussian(2.0),) if name == "descent" else (Gaussian(2.0), Pure(1.0)):
        make = functools.partial(METHODS[name], budget)
        longer = [*PARTS[:4], (PARTS[4][0] * 1.01, PARTS[4][1])]
        refused("agent 4 has a row of norm 1.01, above the 1", make, p=tacit.Problem(longer, l2=RHO))
        refused("Squared has no bound on its slope", make, p=tacit.Problem(PARTS, loss=tacit.losses.Squared(), l2=RHO))
    with pytest.raises(tacit.InputError, match=r"agent 0: Logistic needs labels -1 and \+1, found 0"):
        tacit.Problem([(X, np.maximum(y, 0)) for X, y in PARTS])


def test_a_budget_that_cannot_pay_for_the_curvature_is_refused():
    for name in ("dvp", "m-admm", "mr-admm", "one-shot"):
        refused("cannot even pay for the curvature", lambda name=name: METHODS[name](Pure(1e-4)))
    # The least that can be paid is the curvature alone, for the agent to whom it costs most.
    least = max(1.001 * math.log(1 + 0.25 * SCALE[i] / SIZES[i] / RHO) for i in range(5))
    refused("cannot even pay for the curvature", lambda: METHODS["one-shot"](Pure(least * (1 - 1e-6))))
    run(METHODS["one-shot"](Pure(least * (1 + 1e-6))), rounds=1)


def test_an_agent_alone_has_no_penalty_to_hide_in():
    alone = tacit.Problem(PARTS[:1], l2=RHO)
    for settings in ({"alpha": 1.0}, {"budget": Pure(1.0)}, {"budget": Gaussian(1.0)}):
        with pytest.raises(tacit.InputError, match="an agent without neighbours has no penalty"):
            tacit.simulate(
                PenaltyPerturbedADMM(**settings), alone, tacit.Graph.ring(1), rounds=1, noise=tacit.SeededNoise(0)
            )
    tacit.simulate(PenaltyPerturbedADMM(), alone, tacit.Graph.ring(1), rounds=1)


def test_plans_and_calibrations_refuse_bad_facts():
    for bad in ([], [[3, 4]], [3, 0], [2.5, 1.0]):
        with pytest.raises(tacit.InputError, match="numbers of rows"):
            Facts(sizes=bad, dimension=2)
    with pytest.raises(tacit.InputError, match="dimension is 1 or more"):
        Facts(sizes=[3], dimension=0)
    for bad in (0.0, [1.0, 2.0], math.nan):
        with pytest.raises(tacit.InputError, match="scale must be a positive number"):
            Facts(sizes=[3], dimension=1, scale=bad)
    with pytest.raises(tacit.InputError, match="l2 must be"):
        Facts(sizes=[3], dimension=1, l2=-1.0)
    with pytest.raises(tacit.InputError, match="the graph has 3 agents, the facts have 5"):
        plan(METHODS["dvp"](Pure(1.0)), FACTS, tacit.Graph.ring(3), 2)
    for settings, match in (({"epsilon": 0.0}, "epsilon must be"), ({"delta": 1.0}, "delta must lie")):
        with pytest.raises(tacit.InputError, match=match):
            calibrate(METHODS["dvp"], FACTS, GRAPH, 2, **{"epsilon": 1.0, "delta": 1e-5, **settings})


def test_a_pure_target_is_met_next_to_what_the_curvature_costs():
    """Steps too small to pay for the curvature are not the end of the search."""
    facts, graph = Facts(sizes=[50] * 3, dimension=3, l2=0.045), tacit.Graph.ring(3)

    def make(budget):
        return OneShotAveraging(mixing=0.1, budget=budget)

    found = tacit.calibrate(make, facts, graph, 1, epsilon=0.15, delta=1e-6, law=tacit.Pure)
    assert 0.149 < tacit.plan(found, facts, graph, 1).epsilon(1e-6) <= 0.15
    with pytest.raises(tacit.InputError, match="curvature"):
        tacit.calibrate(make, facts, graph, 1, epsilon=0.01, delta=1e-6, law=tacit.Pure)
    with pytest.raises(tacit.InputError, match="what is paid apart from it"):
        tacit.calibrate(make, facts, graph, 1, epsilon=0.01, delta=1e-6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PenaltyPerturbedADMM(dual_step=np.ones((5, 3))), "dual_step must be a positive number"),
        (lambda: RecycledADMM(dual_step=Geometric(1.0, 1.1)), "dual_step must be a positive number"),
        (lambda: RecycledADMM(gamma=np.ones(3)), "gamma must be zero or a positive number"),
        (lambda: PrimalPerturbedADMM(final=-1), "final is a round"),
        (lambda: Geometric(1.0, np.inf), "positive, finite ratio"),
        (lambda: DualPerturbedADMM(budget=tacit.Pure(1.0), as_printed=True), "know no budget"),
        (lambda: DualPerturbedADMM(alpha=np.ones((2, 7))).schedule(tacit.Graph.ring(3)), "7 agents, the graph has 3"),
        (lambda: Facts(sizes=[5], dimension=1, tolerance=-0.05), "tolerance must be a positive"),
        (lambda: tacit.plan(RecycledADMM(), Facts(sizes=[5], dimension=1), tacit.Graph.ring(1), -1), "rounds must be"),
    ],
)  # fmt: skip
def test_settings_of_the_wrong_shape_are_refused(make, says):
    with pytest.raises(tacit.InputError, match=says):
        make()
