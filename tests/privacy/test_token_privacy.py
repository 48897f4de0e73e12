"""What the perturbed token methods cost: planned, spent, calibrated; and what they do not protect."""

import math
from collections import Counter

import numpy as np
import pytest

import tacit
from tacit.algorithms import Between, IncrementalADMM, WalkADMM
from tacit.core.facts import Facts
from tacit.core.schedule import RandomWalk
from tacit.privacy.accounting import totals
from tacit.privacy.events import Free, Gaussian, Unprotected

N, D, TICKS = 5, 3, 23
GRAPH = tacit.Graph.random_with_cycle(N, 8, seed=0)
GAUSS = Gaussian(4.0)


def make_parts(rows=(20, 30, 25, 40, 35), norm=1.0, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for n in rows:
        X = rng.normal(size=(n, D))
        X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
        parts.append((X, np.where(rng.random(n) < 0.5, 1.0, -1.0)))
    return parts


def visits(method, ticks=TICKS, graph=GRAPH):
    schedule = method.schedule(graph)
    return np.bincount([int(schedule.turn(t).speakers[0]) for t in range(ticks)], minlength=graph.agents)


METHODS = {
    "cycle": lambda budget: IncrementalADMM(penalty=1.0, budget=budget),
    "first-order": lambda budget: IncrementalADMM(penalty=0.5, exact=False, budget=budget),
    "walk": lambda budget: WalkADMM(penalty=1.0, budget=budget),
    "walk with choice": lambda budget: WalkADMM(penalty=1.0, order=RandomWalk(3, choice=2), budget=budget),
}
methods = pytest.mark.parametrize("make", METHODS.values(), ids=list(METHODS))


@methods
def test_a_run_spends_what_was_planned_once_a_visit(make):
    problem, method = tacit.Problem(make_parts(), l2=0.1), make(GAUSS)
    run = tacit.simulate(method, problem, GRAPH, rounds=TICKS, noise=tacit.SecureNoise())
    assert run.spent == tacit.plan(method, problem, GRAPH, TICKS).spent
    assert run.private
    for counter, count in zip(run.spent, visits(method), strict=True):
        assert sum(counter.values()) == count
        assert all(event.multiplier == pytest.approx(GAUSS.multiplier) for event in counter)


def test_the_preparation_is_free():
    problem = tacit.Problem(make_parts(), l2=0.1)
    method = IncrementalADMM(penalty=1.0, initial=10.0, offset=5.0, budget=GAUSS)
    run = tacit.simulate(method, problem, GRAPH, rounds=TICKS, noise=tacit.SecureNoise())
    assert run.spent == tacit.plan(method, problem, GRAPH, TICKS).spent
    for counter in run.spent:
        assert sum(n for event, n in counter.items() if isinstance(event, Free)) == 1


@methods
def test_calibration_is_for_the_agent_that_is_visited_most(make):
    """A total of (1, 1e-5) in 23 ticks: by composition, n visits of multiplier m cost as one of m/sqrt(n)."""
    facts = Facts(sizes=[20, 30, 25, 40, 35], dimension=D, l2=0.1)
    method = tacit.calibrate(make, facts, GRAPH, TICKS, epsilon=1.0, delta=1e-5)
    count = visits(method)
    assert count.sum() == TICKS
    assert count.max() > count.min()  # uneven, on a walk by more than on a cycle
    epsilons = np.array([t.best for t in tacit.plan(method, facts, GRAPH, TICKS).totals(1e-5)])
    assert 0.99 < epsilons.max() <= 1.0
    assert epsilons.argmax() in np.flatnonzero(count == count.max())
    for epsilon, n in zip(epsilons, count, strict=True):
        one = totals(Counter([Gaussian(method.budget.multiplier / math.sqrt(n))]), 1e-5).best
        assert epsilon == pytest.approx(one, rel=1e-3)
    assert epsilons[count == count.min()].max() < epsilons.max()


def test_the_papers_noise_means_an_epsilon_of_45_thousand():
    """Logistic, rows of norm 1, N = 100, b = 30, rho = 1, sigma = 1e-3, 2000 ticks, so 20 visits: Delta = 2/(b rho),
    zCDP = 20 Delta^2/(2 sigma^2) = 44,444 (docs/errata.md). N(0, sigma) with sigma the variance: 84."""
    graph = tacit.Graph.random_with_cycle(100, 1485, seed=0)
    facts = Facts(sizes=[30] * 100, dimension=2)
    for deviation, expected in ((1e-3, 45_871), (math.sqrt(1e-3), 83.8)):
        plan = tacit.plan(IncrementalADMM(exact=False, deviation=deviation), facts, graph, 2000)
        assert all(sum(counter.values()) == 20 for counter in plan.spent)
        zcdp = 20 * (2 / 30) ** 2 / (2 * deviation**2)
        closed = zcdp + 2 * math.sqrt(zcdp * math.log(1e5))
        best = plan.totals(1e-5)[0]
        assert best.zcdp <= closed * (1 + 1e-6)
        assert best.best == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_the_sensitivity_is_kept_and_nearly_reached(exact):
    """By x_i of two data sets that differ in one record, at a token where the slopes are steep."""
    parts, rho = make_parts(rows=(6, 6, 6, 6, 6)), 2.0
    X, y = parts[0]
    moved = []
    for seed in range(50):
        u = np.random.default_rng(seed).normal(size=D)
        u /= np.linalg.norm(u)
        tokens = []
        for record in (u, -u):
            other = X.copy()
            other[0] = record
            problem = tacit.Problem([(other, np.append(-1.0, y[1:])), *parts[1:]], l2=0.1, tolerance=1e-12)
            method = IncrementalADMM(penalty=rho, exact=exact, order=(0, 1, 2, 3, 4))
            start = np.zeros((N, D))
            if not exact:
                start[0] = 20 * u  # (8) takes the gradient there
            run = tacit.simulate(method, problem, tacit.Graph.complete(N), rounds=1, start=start)
            tokens.append(run.estimate[0])
        moved.append(np.linalg.norm(tokens[0] - tokens[1]))
    event = next(
        iter(
            tacit.plan(
                IncrementalADMM(penalty=rho, exact=exact, deviation=1.0, order=(0, 1, 2, 3, 4)),
                Facts(sizes=[6] * N, dimension=D, l2=0.1),
                tacit.Graph.complete(N),
                1,
            ).spent[0]
        )
    )
    bound = 1 / event.multiplier
    assert bound == pytest.approx(2 / (6 * (rho + (0.1 if exact else 0.0))), rel=1e-6)
    assert max(moved) <= bound
    assert max(moved) >= 0.45 * bound  # where the slope is 1/2 at the start, or 1 and 0 far out


def test_rows_may_have_another_bound():
    long = make_parts(norm=2.0)
    problem = tacit.Problem(long, l2=0.1)
    with pytest.raises(tacit.InputError, match="row of norm 2, above the 1 that the privacy proof"):
        tacit.simulate(
            IncrementalADMM(deviation=1.0, penalty=3.0), problem, GRAPH, rounds=1, noise=tacit.SeededNoise(0)
        )
    facts = Facts.of(problem)
    one, two = (
        next(e for c in tacit.plan(IncrementalADMM(deviation=1.0, row_norm=r), facts, GRAPH, 1).spent for e in c)
        for r in (1.0, 2.0)
    )
    assert one.multiplier == pytest.approx(2 * two.multiplier)


def test_the_squared_loss_is_not_protected_and_says_so():
    problem = tacit.Problem(make_parts(), loss=tacit.losses.Squared(), l2=0.1)
    run = tacit.simulate(
        IncrementalADMM(penalty=3.0, deviation=1.0), problem, GRAPH, rounds=TICKS, noise=tacit.SecureNoise()
    )
    assert set().union(*run.spent) == {Unprotected()}
    assert not run.private
    assert tacit.plan(IncrementalADMM(penalty=3.0, deviation=1.0), problem, GRAPH, TICKS).epsilon(1e-5) == math.inf
    with pytest.raises(tacit.InputError, match="Squared has no bound on its slope"):
        tacit.plan(IncrementalADMM(penalty=3.0, budget=GAUSS), problem, GRAPH, TICKS)


@pytest.mark.parametrize(
    "options",
    [{}, {"initial": 10.0}, {"initial": 10.0, "gamma": Between(0.9, 1.1)}, {"offset": 10.0}],
    ids=["i-admm", "random start", "pi-admm1", "offset"],
)
def test_random_starts_steps_and_offsets_are_no_differential_privacy(options):
    problem = tacit.Problem(make_parts(), l2=0.1)
    run = tacit.simulate(IncrementalADMM(**options), problem, GRAPH, rounds=TICKS, noise=tacit.SecureNoise())
    assert all(Unprotected() in counter for counter in run.spent)
    assert not run.private


@pytest.mark.parametrize("exact", [True, False])
def test_zero_noise_is_the_plain_method(exact):
    problem = tacit.Problem(make_parts(), l2=0.1)
    options = {"rounds": TICKS, "record": True}
    quiet = tacit.RecordedNoise(np.zeros((TICKS, N, D)))
    plain = tacit.simulate(IncrementalADMM(exact=exact), problem, GRAPH, **options)
    noisy = tacit.simulate(IncrementalADMM(exact=exact, budget=GAUSS), problem, GRAPH, noise=quiet, **options)
    np.testing.assert_allclose(noisy.trajectory, plain.trajectory, atol=1e-12)


def test_a_private_run_does_not_stop_by_what_it_released():
    problem = tacit.Problem(make_parts(), l2=0.1)
    with pytest.raises(tacit.InputError, match="fixed number of rounds"):
        tacit.simulate(
            IncrementalADMM(budget=GAUSS), problem, GRAPH, rounds=9, tolerance=1.0, noise=tacit.SeededNoise(0)
        )
