"""Gradient descent on totals: against plain numpy, against the centre, and what is refused."""

import math

import numpy as np
import pytest
from conftest import SIZES, make_parts

import tacit
from tacit.algorithms import SummedGradientDescent
from tacit.algorithms.summed import mean_gradient, share_deviation
from tacit.core.facts import Facts
from tacit.core.release import Inbox
from tacit.exchange import IdealTotals, Plain, SecretSharedSums, SecretSharedTotals
from tacit.privacy.events import Gaussian, SharedGaussian, Unprotected

D, T, STEP, L2 = 15, 30, 0.5, 0.1
PARTS = make_parts()
SCALE = np.array(SIZES) / np.mean(SIZES)
PROBLEM = tacit.Problem(PARTS, scale=SCALE, l2=L2)
FULL = tacit.Graph.complete(5)
NOISE = 0.05 * np.random.default_rng(7).normal(size=(T, 5, D))
GRID = 2.0**-36


def in_plain_numpy(noise, momentum=0.0):
    """v <- momentum v + 1/N sum_i (grad O_i(f) + e_i), f <- f - step v, with real numbers in place of the grid."""
    f, v, out = np.zeros(D), np.zeros(D), [np.zeros(D)]
    for e in noise:
        total = np.zeros(D)
        for (X, y), scale, share in zip(PARTS, SCALE, e, strict=True):
            total += scale * (X.T @ (-y / (1 + np.exp(y * (X @ f))))) / len(y) + L2 * f + share
        v = momentum * v + total / 5
        f = f - STEP * v
        out.append(f)
    return np.array(out)


def private(**settings):
    return SummedGradientDescent(step=STEP, deviation=0.05, **settings)


@pytest.mark.parametrize("exchange", [IdealTotals(), SecretSharedTotals()])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_trajectory_is_that_of_plain_numpy(exchange, momentum):
    method, noise = private(colluders=1, momentum=momentum), tacit.RecordedNoise(NOISE)
    run = tacit.simulate(method, PROBLEM, FULL, rounds=T, noise=noise, record=True, exchange=exchange)
    # A gradient is off by at most half a step of the grid; without momentum no step makes distances larger.
    np.testing.assert_allclose(
        run.trajectory[:, 2], in_plain_numpy(NOISE, momentum), atol=T * STEP * GRID / (1 - momentum)
    )
    assert np.all(run.trajectory == run.trajectory[:, :1])  # the same bits at all members
    assert np.abs(run.model).max() > 0.1


def test_the_noise_of_all_shares_together_is_what_counts():
    """However it is divided among the members."""
    other = np.zeros_like(NOISE)
    other[:, 3] = NOISE.sum(axis=1)
    one, two = (
        tacit.simulate(private(), PROBLEM, FULL, rounds=T, noise=tacit.RecordedNoise(noise), record=True).trajectory
        for noise in (NOISE, other)
    )
    np.testing.assert_allclose(one, two, atol=T * STEP * GRID)


def test_zero_noise_is_the_plain_method():
    quiet = tacit.RecordedNoise(np.zeros_like(NOISE))
    run = tacit.simulate(private(), PROBLEM, FULL, rounds=T, noise=quiet, record=True)
    plain = tacit.simulate(SummedGradientDescent(step=STEP), PROBLEM, FULL, rounds=T, record=True)
    np.testing.assert_allclose(run.trajectory, plain.trajectory, atol=T * STEP * GRID)
    assert set(plain.spent[0]) == {Unprotected()}


def test_members_with_different_numbers_of_rows_pay_by_their_own():
    """All add the same noise. A record of a member with few rows moves the total by more only if its scale says so."""
    run = tacit.simulate(private(colluders=1, dropouts=1), PROBLEM, FULL, rounds=3, noise=tacit.RecordedNoise(NOISE))
    plan = tacit.plan(private(colluders=1, dropouts=1), PROBLEM, FULL, rounds=3)
    assert run.spent == plan.spent
    for spent, scale, rows in zip(run.spent, SCALE, SIZES, strict=True):
        ((event, times),) = spent.items()
        assert (times, event.members, event.colluders, event.dropouts) == (3, 5, 1, 1)
        assert event.multiplier == pytest.approx(0.05 / (2 * scale / rows), rel=1e-9)  # rows of norm 1, slope 1


@pytest.mark.parametrize(("colluders", "dropouts"), [(0, 0), (1, 0), (1, 2), (4, 0)])
def test_the_deviation_keeps_the_budget_of_the_member_with_the_largest_sensitivity(colluders, dropouts):
    facts = Facts(sizes=SIZES, dimension=D, l2=L2)  # scale 1: the smallest member's record counts most
    s = share_deviation(facts, Gaussian(20.0), colluders=colluders, dropouts=dropouts)
    events = [SharedGaussian(s / (2 / rows), 5, colluders, dropouts).gaussian.multiplier for rows in SIZES]
    assert min(events) == pytest.approx(20.0, rel=1e-9)
    assert s == pytest.approx(20.0 * 2 / min(SIZES) / math.sqrt(5 - colluders - dropouts), rel=1e-9)


def test_a_member_that_lies_moves_no_model_beyond_the_radius():
    near = tacit.Problem(PARTS, l2=L2, radius=2.0)
    method, view = private(), FULL.view(np.array([0]))
    start = np.zeros((1, D))
    state = method.init(near.take(np.array([0])), view, start, Inbox(np.zeros((4, D)), [0, 4]))
    for t in range(3):
        inbox = tacit.exchange.totals.TotalInbox(np.full((1, D), 2.0**26), np.array([[5]]))
        state = method.listen(state, inbox, view, t)
        assert np.linalg.norm(method.estimate(state)) <= 2.0 * (1 + 1e-12)


def test_a_model_without_noise_may_be_as_large_as_it_is():
    far = tacit.Problem([([[1e-4]], [1.0]), ([[1e-4]], [1.0])], loss=tacit.losses.Squared(), radius=10.0)
    run = tacit.simulate(SummedGradientDescent(step=5e7), far, tacit.Graph.ring(2), rounds=100)
    np.testing.assert_allclose(run.model, far.optimum(), rtol=1e-3)
    assert run.model[0] > 1000


@pytest.mark.parametrize(
    ("graph", "colluders", "dropouts", "message"),
    [
        (tacit.Graph.ring(5), 2, 0, "2 members can cut this graph in two, so shared noise allows 1 colluders"),
        (tacit.Graph.ring(5), 1, 1, "not 2"),
        (tacit.Graph.star(5), 1, 0, "allows 0 colluders"),
        (FULL, 4, 1, "leave none"),
    ],
)
def test_graphs_that_the_reserve_can_cut_are_refused(graph, colluders, dropouts, message):
    method = private(colluders=colluders, dropouts=dropouts)
    for use in (tacit.simulate, tacit.plan):
        with pytest.raises(tacit.GraphError, match=message):
            use(method, PROBLEM, graph, rounds=1)


@pytest.mark.parametrize(("graph", "colluders"), [(tacit.Graph.ring(5), 1), (tacit.Graph.star(5), 0), (FULL, 4)])
def test_graphs_that_it_cannot_cut_are_not(graph, colluders):
    run = tacit.simulate(private(colluders=colluders), PROBLEM, graph, rounds=2, noise=tacit.RecordedNoise(NOISE))
    np.testing.assert_allclose(run.model, in_plain_numpy(NOISE[:2])[-1], atol=1e-10)  # the graph changes no number


@pytest.mark.parametrize("exchange", [Plain(), SecretSharedSums()])
def test_shares_leave_in_totals_only(exchange):
    with pytest.raises(tacit.TacitError):
        tacit.simulate(private(), PROBLEM, FULL, rounds=1, noise=tacit.SeededNoise(0), exchange=exchange)


def test_refusals():
    with pytest.raises(tacit.InputError, match="exchange totals"):
        mean_gradient(Inbox(np.zeros((4, D)), [0, 4]))
    with pytest.raises(tacit.InputError, match="start must be the same"):
        tacit.simulate(private(), PROBLEM, FULL, rounds=1, start=np.eye(5, D), noise=tacit.SeededNoise(0))
    with pytest.raises(tacit.InputError, match="needs noise"):
        tacit.simulate(private(), PROBLEM, FULL, rounds=1)
    for wrong in (
        {"step": 0.0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"deviation": 0.0},
        {"colluders": -1},
        {"dropouts": 0.5},
    ):
        with pytest.raises(tacit.InputError):
            SummedGradientDescent(**{"step": 1.0, "deviation": 1.0} | wrong)
    with pytest.raises(tacit.InputError, match="nobody is left"):
        share_deviation(PROBLEM, Gaussian(1.0), colluders=4, dropouts=1)
