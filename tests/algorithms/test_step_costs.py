"""What a noisy step costs, and the noise that it gets: closed forms, the papers' bounds, budgets used up and kept.

The costs come from grids; only the bound on rounding in the mask's test comes from the package.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from private_case import (
    ALPHAS,
    DEGREE,
    GRAPH,
    GROWING,
    METHODS,
    PARTS,
    PENALTIES,
    RHO,
    SCALE,
    SIZES,
    WITH_ALPHA,
    D,
    asked,
    assert_no_less_and_hardly_more,
    c1_of,
    hidden_moved,
    in_order,
    moved,
    problem,
    zeta_and_phi,
)

import tacit
from tacit.algorithms import DualPerturbedADMM, PenaltyPerturbedADMM, RecycledADMM
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.rounding import Solved, most_pull
from tacit.privacy.events import Free, Gaussian, ObjectiveGaussian, Pure
from tacit.privacy.noise import largest_draw
from tacit.privacy.plan import plan


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


def dvp_cost(t, i, loss):
    zeta, phi = zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i], c1_of(loss))
    mu = RHO + phi + 2 * PENALTIES[t, i] * DEGREE[i]
    return 1.001 * worst(zeta * SIZES[i] / SCALE[i], i, mu, loss)


def pvp_cost(centre, t, i, loss):
    m = RHO + (2 * PENALTIES[t, i] * DEGREE[i] if centre == "released" else 0)
    rate = m * SIZES[i] * ALPHAS[t, i] / (2 * SCALE[i])
    return rate * (moved(i, m) if centre == "released" else hidden_moved(i, t))


def m_cost(t, i, loss):
    weight = GROWING[t, i] * DEGREE[i]
    return 1.001 * worst(ALPHAS[t, i] / (2 * weight), i, RHO + 2 * weight, loss)


def r_cost(t, i, loss):
    if t % 2:
        return 0.0
    return 1.001 * worst(ALPHAS[t // 2, i], i, RHO + 2 * GROWING[t // 2, i] * DEGREE[i], loss)


def r_output_cost(t, i, loss):
    return 0.0 if t % 2 else ALPHAS[t // 2, i] * moved(i, RHO + 2 * GROWING[t // 2, i] * DEGREE[i])


COSTS = {
    "dvp": dvp_cost,
    "pvp": functools.partial(pvp_cost, "released"),
    "pvp printed": functools.partial(pvp_cost, "printed"),
    "pvp final": lambda t, i, loss: dvp_cost(t, i, loss) if t == 2 else pvp_cost("released", t, i, loss),
    "m-admm": m_cost,
    "mr-admm": r_cost,
    "mr-admm output": r_output_cost,
}


OUTPUT = {"pvp", "pvp printed", "pvp final", "mr-admm output"}  # noise on the minimiser


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(width=0.3)], ids=["logistic", "huber"])
@pytest.mark.parametrize("name", COSTS)
def test_every_event_is_its_closed_form(name, loss):
    method, cost = WITH_ALPHA[name], COSTS[name]
    found = in_order(method, 4, problem(loss=loss))
    assert [len(events) for events in found] == [4] * 5
    for i, events in enumerate(found):
        for t, event in enumerate(events):
            expected = cost(t, i, loss)
            if expected == 0:
                assert isinstance(event, Free)
            else:
                assert isinstance(event, Pure)
                if name in OUTPUT and (name, t) != ("pvp final", 2):
                    assert_no_less_and_hardly_more(event.epsilon, expected)
                else:
                    assert event.epsilon == pytest.approx(expected, rel=1e-9)


def test_a_bound_of_a_paper_needs_its_condition():
    """(32) and M-ADMM's bound replace -ln(1 - x) by 1.4 x, which is larger up to x = 1/2 and smaller above 0.52."""
    view, p = GRAPH.view(), problem()
    one = SCALE / SIZES
    eta = 2 * 0.25 * one / (2 * np.array(DEGREE))  # 2 c1 = B/C 2 eta V: with l2 just inside, without it just outside
    for method in (RecycledADMM, PenaltyPerturbedADMM):
        inside = method(np.array([eta, 9 * eta]), alpha=1.0)
        assert np.isfinite(plan(inside, p, GRAPH, 2).paper).all()
        flat = tacit.Problem(PARTS, scale=SCALE, l2=0.0)
        for t in (0, 2 if method is RecycledADMM else 1):  # a penalty that grows later does not mend it
            assert np.isinf(inside.paper_bound(flat, view, t)).all()
        enough = method(np.array([eta * (1 + 1e-9), 9 * eta]), alpha=1.0)
        assert np.isfinite(enough.paper_bound(flat, view, 0)).all()
    x = 0.6
    assert -math.log(1 - x) > 1.4 * x  # why the condition is there
    assert np.isinf(WITH_ALPHA["mr-admm output"].paper_bound(p, view, 0)).all()  # the paper states none
    assert (WITH_ALPHA["mr-admm output"].paper_bound(p, view, 1) == 0).all()


def test_the_papers_own_bounds():
    view, p = GRAPH.view(), problem()
    for t, i in itertools.product(range(4), range(5)):
        one = SCALE[i] / SIZES[i]
        for method in (WITH_ALPHA["dvp"], WITH_ALPHA["pvp"], WITH_ALPHA["pvp printed"]):
            assert method.paper_bound(p, view, t)[i, 0] == ALPHAS[t, i]
        m = WITH_ALPHA["m-admm"].paper_bound(p, view, t)[i, 0]
        assert m == pytest.approx(one * (1.4 * 0.25 + ALPHAS[t, i]) / (GROWING[t, i] * DEGREE[i]), rel=1e-12)
        r = WITH_ALPHA["mr-admm"].paper_bound(p, view, t)[i, 0]
        mu = RHO + 2 * GROWING[t // 2, i] * DEGREE[i]
        expected = 0.0 if t % 2 else 2 * one * (1.4 * 0.25 / mu + ALPHAS[t // 2, i])  # (32)
        assert r == pytest.approx(expected, rel=1e-12)
    # The plan adds them up; where the paper has a bound for the shipped method, ours is below it.
    for name, paper_claims in (("dvp", True), ("pvp", True), ("m-admm", False), ("mr-admm", False)):
        method, cost = WITH_ALPHA[name], COSTS[name]
        total = plan(method, p, GRAPH, 4).paper
        one_by_one = sum(method.paper_bound(p, view, t)[:, 0] for t in range(4))
        np.testing.assert_allclose(total, one_by_one, rtol=1e-12)
        if paper_claims:
            ours = [sum(cost(t, i, Logistic()) for t in range(4)) for i in range(5)]
            assert np.all(np.array(ours) <= total * (1 + 1e-8))
    assert plan(DualPerturbedADMM(budget=Pure(1.0)), p, GRAPH, 4).paper is None
    with pytest.raises(tacit.InputError, match="stated in alpha"):
        RecycledADMM(budget=Pure(1.0)).paper_bound(p, view, 0)


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
        assert len(paid) == {"mr-admm": 2, "mr-admm output": 2, "r-admm geometric": 2, "one-shot": 1}.get(name, 4)
        for event in paid:
            assert isinstance(event, Pure)
            assert 1.5 * (1 - 1e-9) <= event.epsilon <= 1.5 * (1 + 1e-15)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(width=0.3)], ids=["logistic", "huber"])
@pytest.mark.parametrize("name", METHODS)
def test_a_gaussian_budget_is_used_up_and_kept(name, loss):
    found = in_order(METHODS[name](Gaussian(2.5)), 4, problem(loss=loss))
    assert [len(events) for events in found] == [4] * 5
    for i, events in enumerate(found):
        for t, event in enumerate(events):
            if isinstance(event, Free):
                assert (("r-admm" in name or name == "descent") and t % 2) or (name == "one-shot" and t)
                continue
            assert event.multiplier == pytest.approx(2.5, rel=1e-12)
            output = name in ("pvp", "mr-admm output", "descent") or (name == "pvp printed final" and t != 2)
            assert isinstance(event, Gaussian if output else ObjectiveGaussian)
            if not output:
                x = c1_of(loss) * SCALE[i] / (SIZES[i] * convexities(name, t, i))
                assert event.curvature == pytest.approx(x, rel=1e-9)


def test_the_noise_is_drawn_with_the_papers_scales():
    (dvp, _, dvp2, _) = asked(WITH_ALPHA["dvp"], 2)
    for drawn, t in ((dvp, 0), (dvp2, 1)):
        assert drawn[:2] == ("draw", "spherical")
        assert drawn[3] == t
        expected = [1 / zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i])[0] for i in range(5)]
        np.testing.assert_allclose(drawn[2], expected, rtol=1e-12)
    for name, centre in (("pvp", "released"), ("pvp printed", "printed")):
        ((kind, law, scale, t),) = asked(WITH_ALPHA[name])
        assert (kind, law, t) == ("add", "spherical", 0)
        m = [RHO + (2 * PENALTIES[0, i] * DEGREE[i] if centre == "released" else 0) for i in range(5)]
        zeta = [m[i] * SIZES[i] * ALPHAS[0, i] / (2 * SCALE[i]) for i in range(5)]  # rho B alpha/(2 C), as printed
        np.testing.assert_allclose(scale, 1 / np.array(zeta), rtol=1e-12)
    for name in ("m-admm", "mr-admm"):
        (kind, law, scale, _), _ = asked(WITH_ALPHA[name])
        assert (kind, law) == ("draw", "spherical")
        np.testing.assert_allclose(scale, 1 / ALPHAS[0], rtol=1e-12)
    third = asked(WITH_ALPHA["mr-admm"], 5)[4]  # exchanges 0, 2, 4 are noisy, with a mask each
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
        m = [RHO + 2 * PENALTIES[0, i] * DEGREE[i] for i in range(5)]  # the hidden model has no past in round 0
        assert_no_less_and_hardly_more(scale, [2.5 * moved(i, m[i]) for i in range(5)])
    ((kind, law, scale, _),) = asked(METHODS["mr-admm output"](Gaussian(2.5)))
    assert (kind, law) == ("add", "gaussian")
    m = [RHO + 2 * GROWING[0, i] * DEGREE[i] for i in range(5)]
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
        (_, _, drawn, _), (kind, law, scale, t) = asked(WITH_ALPHA[name], grid=grid, p=p)
        assert (kind, law, t) == ("mask", "spherical", 0)
        cost = [worst(ALPHAS[0, i] / by[i], i, mu[i], Logistic()) for i in range(5)]
        shift = 2 * tau(mu[:, None], by[:, None], drawn[:, None], law) / mu
        np.testing.assert_allclose(shift / scale, 1e-3 * np.array(cost), rtol=1e-9)
        (_, _, drawn, _), (kind, law, scale, t) = asked(METHODS[name](Gaussian(2.5)), grid=grid, p=p)
        assert (kind, law, t) == ("mask", "gaussian", 0)
        shift = 2 * tau(mu[:, None], by[:, None], drawn[:, None], law) / mu
        precision = (shift / scale) ** 2  # 1/multiplier^2 of the mask; the step itself has the rest
        np.testing.assert_allclose(precision, 1e-3 / 1.001 / 2.5**2, rtol=1e-9)
