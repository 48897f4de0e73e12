"""DP-ADMM and DP-AccADMM on totals: against plain numpy, and against the methods of one holder of all records."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse
from composite_case import FUSED, Curtain, D, G, W, methods
from conftest import make_parts

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM, Geometric, SummedDPADMM
from tacit.algorithms.summed import share_deviation
from tacit.composite import ElasticNet, GroupL1, Nothing, Term, generalised_lasso, graph_guided, lasso, private_graph
from tacit.exchange import SecretSharedTotals
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import Gaussian, Unprotected

SIZES = (7, 40, 23, 10)
PARTS = make_parts(sizes=SIZES, d=D, seed=3)
SCALE = np.array(SIZES) / np.mean(SIZES)  # every row counts alike
L2, RHO, T = 0.02, 0.1, 60
PROBLEM = tacit.Problem(PARTS, scale=SCALE, l2=L2)
X, Y = np.concatenate([part[0] for part in PARTS]), np.concatenate([part[1] for part in PARTS])
POOLED = tacit.Problem([(X, Y)], l2=L2)
FULL, ALONE = tacit.Graph.complete(4), tacit.Graph.ring(1)
SHARES = 0.01 * np.random.default_rng(5).normal(size=(T, 4, D))
TERMS = {
    "fused": FUSED,
    "lasso": lasso(D, 0.01),
    "grid": generalised_lasso((2, 4), 0.01),
    "groups": Term(np.eye(D), GroupL1(0.02, (0, 0, 0, 1, 1, 1, 2, 2))),
    "offset": Term(FUSED.A, ElasticNet(0.01, 0.1), c=np.linspace(-1, 1, FUSED.rows)),
    "nothing": Term(np.eye(D), Nothing()),
}
terms = pytest.mark.parametrize("term", TERMS.values(), ids=list(TERMS))


def step(term):
    return 1 / (0.25 + L2 + RHO * term.norm)


def central(kind, term, **settings):
    return kind(term=term, penalty=RHO, step=step(term), **settings)


def summed(kind, term, *, deviation=None, colluders=0, **settings):
    return SummedDPADMM(method=central(kind, term, **settings), deviation=deviation, colluders=colluders)


def rounded(x):
    return np.round(x * 2**36) / 2**36


def in_plain_numpy(term, noise, accelerated):
    """Algorithms 2 and 3 of the paper with u_0 = 0 and B = -I. The gradient is the mean of the members' parts, rounded
    to the grid of shares: momentum without restart multiplies roundings (tests/algorithms/test_dp_admm.py)."""
    A, size = term.A.toarray(), step(term)
    x = x_hat = np.zeros(D)
    u = u_hat = np.zeros(len(A))
    theta, out = 1.0, [x]
    for shares in noise:
        y = term.g.prox((A @ x_hat - term.c + u_hat)[None], 1 / RHO)[0]
        total = np.zeros(D)
        for (rows, labels), scale, share in zip(PARTS, SCALE, shares, strict=True):
            slopes = -labels / (1 + np.exp(labels * (rows @ x_hat)))
            total += rounded(scale * rows.T @ slopes / len(labels) + L2 * x_hat + share)
        x_new = x_hat - size * (total / 4 + RHO * A.T @ (A @ x_hat - y - term.c + u_hat))
        u_new = u_hat + A @ x_new - y - term.c
        following = (1 + math.sqrt(1 + 4 * theta**2)) / 2
        momentum = (theta - 1) / following if accelerated else 0.0
        x_hat, u_hat = x_new + momentum * (x_new - x), u_new + momentum * (u_new - u)
        x, u, theta = x_new, u_new, following
        out.append(x)
    return np.array(out)


@terms
@methods
def test_trajectories_agree_with_an_independent_implementation(method, term):
    algorithm = summed(method, term, deviation=0.01, colluders=1)
    run = tacit.simulate(algorithm, PROBLEM, FULL, rounds=T, noise=tacit.RecordedNoise(SHARES), record=True)
    expected = in_plain_numpy(term, SHARES, method is AcceleratedDPADMM)
    np.testing.assert_allclose(run.trajectory[:, 1], expected, atol=1e-12)
    mean = tacit.simulate(
        summed(method, term, deviation=0.01, colluders=1, average=True),
        PROBLEM,
        FULL,
        rounds=T,
        noise=tacit.RecordedNoise(SHARES),
    )
    np.testing.assert_allclose(mean.model, expected[1:].mean(axis=0), atol=1e-12)


@methods
@pytest.mark.parametrize("exchange", [None, SecretSharedTotals()], ids=["ideal", "secret-shared"])
def test_all_members_have_the_same_bits_at_every_round(method, exchange):
    algorithm = summed(method, FUSED, deviation=0.01, colluders=1)
    state = None
    for rounds in (1, 7, 20):
        run = tacit.simulate(
            algorithm, PROBLEM, FULL, rounds=rounds, noise=tacit.RecordedNoise(SHARES), record=True, exchange=exchange
        )
        assert np.all(run.trajectory == run.trajectory[:, :1])
        for rows in run.state:
            np.testing.assert_array_equal(rows, np.repeat(rows[:1], 4, axis=0))
        state = run.state
    assert state is not None
    assert np.abs(state.u).max() > 0


@terms
@methods
def test_without_noise_it_is_the_method_on_the_pooled_records(method, term):
    """To the rounding to the grid."""
    run = tacit.simulate(summed(method, term), PROBLEM, FULL, rounds=T, record=True)
    one = tacit.simulate(central(method, term), POOLED, ALONE, rounds=T, record=True)
    np.testing.assert_allclose(run.trajectory[:, 3], one.trajectory[:, 0], atol=1e-8)
    assert set(run.spent[0]) == {Unprotected()}
    assert np.abs(one.model).max() > 0.01


@terms
@methods
def test_the_same_noise_in_all_gives_the_trajectory_of_the_centre(method, term):
    """Which rounds nothing to a grid: 30 rounds, before momentum has multiplied the difference."""
    mean = tacit.RecordedNoise(SHARES.mean(axis=1, keepdims=True))
    one = tacit.simulate(central(method, term, budget=G), POOLED, ALONE, rounds=30, noise=mean, record=True)
    algorithm = summed(method, term, deviation=0.01)
    run = tacit.simulate(algorithm, PROBLEM, FULL, rounds=30, noise=tacit.RecordedNoise(SHARES), record=True)
    np.testing.assert_allclose(run.trajectory[:, 0], one.trajectory[:, 0], atol=1e-9)


@methods
def test_zero_noise_is_the_plain_method(method):
    quiet = tacit.RecordedNoise(np.zeros((T, 4, D)))
    restart = {"restart": False} if method is AcceleratedDPADMM else {}
    private = tacit.simulate(summed(method, FUSED, deviation=0.01), PROBLEM, FULL, rounds=T, noise=quiet, record=True)
    plain = tacit.simulate(summed(method, FUSED, **restart), PROBLEM, FULL, rounds=T, record=True)
    np.testing.assert_allclose(private.trajectory, plain.trajectory, atol=1e-9)


@terms
@methods
def test_the_plain_method_reaches_the_centralised_optimum(method, term):
    """The centre's method reaches it (tests/algorithms/test_dp_admm.py)."""
    run = tacit.simulate(summed(method, term), PROBLEM, FULL, rounds=20_000, tolerance=1e-9, measure_every=10)
    best = tacit.simulate(central(method, term), POOLED, ALONE, rounds=40_000, tolerance=1e-11, measure_every=10)
    assert run.converged
    assert np.linalg.norm(run.model - best.model) <= 1e-6 * np.linalg.norm(best.model)


def test_nothing_of_the_records_is_in_the_state_but_totals():
    """If noise hid every part completely, nothing could separate two different data sets."""
    states = []
    for seed in (0, 1):
        problem = tacit.Problem(make_parts(sizes=SIZES, d=D, seed=seed), scale=SCALE, l2=L2)
        algorithm = summed(AcceleratedDPADMM, FUSED, deviation=0.01, colluders=1)
        states.append(tacit.simulate(algorithm, problem, FULL, rounds=10, noise=Curtain()).state)
    for a, b in zip(*states, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_costs_what_was_calibrated():
    """Against the coalition that is assumed, for the member that pays most."""

    def make(budget):
        deviation = share_deviation(PROBLEM, budget, colluders=1, dropouts=0)
        return summed(DPADMM, FUSED, deviation=deviation, colluders=1)

    method = tacit.calibrate(make, PROBLEM, FULL, 20, epsilon=5.0, delta=1e-5)
    run = tacit.simulate(method, PROBLEM, FULL, rounds=20, noise=tacit.SecureNoise())
    assert run.private
    costs = [epsilon(spent, 1e-5) for spent in run.spent]
    assert max(costs) == pytest.approx(5.0, rel=1e-3)
    assert max(costs) <= 5.0
    # Every row has the same weight in the total, so a record of any member costs as much as one of another.
    assert min(costs) == pytest.approx(5.0, rel=1e-3)
    # The centre's noise on the mean, times sqrt(N/(N - t)).
    one = tacit.calibrate(
        lambda budget: central(DPADMM, FUSED, budget=budget), POOLED, ALONE, 20, epsilon=5.0, delta=1e-5
    )
    assert method.deviation / math.sqrt(4) == pytest.approx(one.sigma(POOLED)[0, 0] * math.sqrt(4 / 3), rel=1e-3)


def test_longer_rows_need_their_norm():
    long = [(3 * rows, labels) for rows, labels in PARTS]
    problem = tacit.Problem(long, scale=SCALE)
    with pytest.raises(tacit.InputError, match="norm"):
        tacit.simulate(summed(DPADMM, FUSED, deviation=0.1), problem, FULL, rounds=1, noise=tacit.SeededNoise(0))
    plans = [
        tacit.plan(summed(DPADMM, FUSED, deviation=0.1, row_norm=norm), problem, FULL, rounds=1).spent[0]
        for norm in (3.0, 6.0)
    ]
    (three,), (six,) = plans
    assert three.multiplier == pytest.approx(2 * six.multiplier, rel=1e-9)


def test_another_term_is_another_run(tmp_path):
    """The whole term is in a run's identity, with its sparse matrix; stopping and resuming changes nothing."""
    algorithm, noise = summed(DPADMM, FUSED, deviation=0.01), tacit.SeededNoise(2)
    tacit.simulate(algorithm, PROBLEM, FULL, rounds=5, noise=noise).save(tmp_path / "run.npz")
    stopped = tacit.Run.load(tmp_path / "run.npz")
    resumed = tacit.simulate(algorithm, PROBLEM, FULL, rounds=9, noise=noise, resume=stopped)
    whole = tacit.simulate(algorithm, PROBLEM, FULL, rounds=9, noise=noise)
    for a, b in zip(resumed.state, whole.state, strict=True):
        np.testing.assert_array_equal(a, b)
    moved = scipy.sparse.csr_array(FUSED.A.toarray()[::-1])
    for other in (
        summed(DPADMM, graph_guided(W, 0.03), deviation=0.01),
        summed(DPADMM, Term(moved, FUSED.g), deviation=0.01),
        summed(AcceleratedDPADMM, FUSED, deviation=0.01),
    ):
        with pytest.raises(tacit.InputError, match="another algorithm"):
            tacit.simulate(other, PROBLEM, FULL, rounds=9, noise=noise, resume=stopped)


def test_refusals():
    learnt = graph_guided(private_graph(POOLED, tacit.SecureNoise(), Gaussian(0.01), 0.3), 0.01)
    paid = dataclasses.replace(FUSED, cost=Gaussian(3.0))
    printed = dataclasses.replace(FUSED, cost=Unprotected())
    for term in (learnt, paid, printed):
        with pytest.raises(tacit.InputError, match="learnt from records"):
            summed(DPADMM, term, deviation=0.1)
    for setting, value in {
        "budget": G,
        "noise_schedule": Geometric(1.0, 0.9),
        "as_printed": True,
        "exact": True,
    }.items():
        with pytest.raises(tacit.InputError, match=f"{setting} of the method must be"):
            summed(DPADMM, FUSED, **{setting: value})
    with pytest.raises(tacit.InputError, match="budget of the method"):
        summed(DPADMM, FUSED, budget=G, rate=0.5)
    with pytest.raises(tacit.InputError, match="needs a step"):
        SummedDPADMM(method=DPADMM(term=FUSED))
    with pytest.raises(tacit.InputError, match="not None"):
        SummedDPADMM(method=None)
    with pytest.raises(tacit.InputError, match="dimension 8, the term 3"):
        tacit.simulate(summed(DPADMM, lasso(3, 0.1)), PROBLEM, FULL, rounds=1)
    with pytest.raises(tacit.InputError, match="start must be the same"):
        tacit.simulate(summed(DPADMM, FUSED), PROBLEM, FULL, rounds=1, start=np.eye(4, D))
    with pytest.raises(tacit.InputError, match="needs noise"):
        tacit.simulate(summed(DPADMM, FUSED, deviation=0.1), PROBLEM, FULL, rounds=1)
    with pytest.raises(tacit.GraphError, match="can cut"):
        tacit.simulate(summed(DPADMM, FUSED, deviation=0.1, colluders=1), PROBLEM, tacit.Graph.star(4), rounds=1)
