"""Laplace noise on a value that a secret uniform number blurs: amplification, divergence, the transcript's epsilon."""

import copy
import json
import math
import pickle
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts
from scipy.integrate import quad

import tacit
from tacit.algorithms import Geometric, RandomAggregationADMM, RandomAggregationGD, RandomCoordinateDescent
from tacit.privacy import accounting, filters
from tacit.privacy.events import BlurredLaplace, Laplace, LaplaceVector, from_plain, to_plain
from tacit.privacy.formulas import blurred
from tacit.privacy.ledger.entries import Cap
from tacit.privacy.transcript import ForOwnEyes, epsilon_of_transcript, realised_events

ORDERS = np.array([1.001, 1.5, 2.0, 10.0, 100.0])
POINTS = [(w, s) for w in (0.01, 0.3, 2.0, 10.0, 120.0) for s in (0.002, 0.1, 1.0, 3.0)]
points = pytest.mark.parametrize(("width", "shift"), POINTS)


def density(x, h):
    """By integration of the two densities that it is made of, piece by piece."""
    if x < 0:
        x = -x
    if x >= h:
        return (math.exp(h - x) - math.exp(-h - x)) / (4 * h)
    return (2 - math.exp(-(x + h)) - math.exp(-(h - x))) / (4 * h)


def pieces(f, width, shift):
    h = width / 2
    kinks = sorted({-h, h, shift - h, shift + h})
    return sum(
        quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
        for a, b in zip([-h - 60, *kinks], [*kinks, h + shift + 60], strict=True)
    )


@points
def test_density_and_distribution_function(width, shift):
    h = width / 2
    x = np.array([-h - shift, -h / 2, 0.0, h / 3, h, h + shift])
    convolved = [
        quad(lambda u, v=v: math.exp(-abs(v - u)) / (2 * width), -h, h, points=[np.clip(v, -h, h)], limit=200)[0]
        for v in x
    ]
    np.testing.assert_allclose(np.exp(blurred.log_density(x, h)), convolved, rtol=1e-9)
    np.testing.assert_allclose(
        blurred.cdf(x, h),
        [
            sum(quad(density, a, b, args=(h,), limit=200)[0] for a, b in ((-h - 60, -h), (-h, 0), (0, h)) if b <= v)
            + quad(density, max([p for p in (-h - 60, -h, 0, h) if p <= v]), v, args=(h,), limit=200)[0]
            for v in x
        ],
        atol=1e-9,
    )


def test_no_interval_is_laplace():
    x = np.linspace(-5, 5, 11)
    np.testing.assert_allclose(blurred.log_density(x, 0.0), -np.abs(x) - math.log(2))
    np.testing.assert_allclose(blurred.loss(x, 0.0, 0.3), 0.3)
    np.testing.assert_allclose(blurred.log_density(x, 1e-7), -np.abs(x) - math.log(2), atol=1e-6)


@points
def test_the_loss_is_the_largest_over_all_shifts_and_never_above_the_worst_case(width, shift):
    """(10), by brute force over t. The ends do it, away from the middle; Theorem 2.3's proof takes the other end."""
    x, t = np.linspace(-width - 5, width + 5, 401), np.linspace(-shift, shift, 201)
    brute = np.abs(blurred.log_density(x[:, None], width / 2) - blurred.log_density(x[:, None] - t, width / 2)).max(
        axis=1
    )
    found = blurred.loss(x, width / 2, shift)
    np.testing.assert_allclose(found, brute, rtol=1e-9, atol=1e-12)
    assert np.all(found <= shift * (1 + 1e-9))


@points
def test_the_likelihood_ratio_is_monotone(width, shift):
    x = np.linspace(-width - 3, width + 3 + shift, 3001)
    ratio = blurred.log_density(x, width / 2) - blurred.log_density(x - shift, width / 2)
    assert np.all(np.diff(ratio) <= 1e-12)


@pytest.mark.parametrize(("width", "shift"), [(0.2, 0.01), (1.0, 0.3), (10.0, 0.01), (4.0, 2.0)])
def test_amplification_is_what_samples_say(width, shift):
    """A false alarm of 1e-6: 4.9 standard errors."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-width / 2, width / 2, 400_000) + rng.laplace(size=400_000)
    sample = blurred.loss(x, width / 2, shift) / shift
    error = 4.9 * sample.std() / math.sqrt(len(x))
    exact = blurred.amplification(width, shift)
    assert abs(sample.mean() - exact) < error
    assert abs(sample.mean() - 1.02 * exact) > error  # it would see two per cent


def printed_by_the_book(width, shift):
    """(11), as double integrals over [0, omega] with beta = 1."""
    inner = lambda x, low: quad(lambda y: math.exp(-abs(x - y)) / (2 * width), low, low + width, points=[x])[0]  # noqa: E731
    end = (width - shift) / 2
    first, second = (quad(inner, 0, end, args=(low,), epsrel=1e-10)[0] for low in (0.0, -shift))
    return math.log(math.exp(shift) * (1 - 2 * first) + 2 * second) / shift


@pytest.mark.parametrize(
    ("shift", "omegas", "below", "lowest"), [(0.001, (0.1, 1.0, 10), 80, 0.9965), (0.1, (0.2, 1.0, 9), 46, 0.9461)]
)
def test_the_printed_amplification_is_no_bound(shift, omegas, below, lowest):
    """On the grid of Fig. 1, alpha B = 0.001 with omega from 0.1 to 1 and beta from 2 to 10, and at alpha B = 0.1."""
    assert blurred.printed_amplification(2.0, 0.5) == pytest.approx(printed_by_the_book(2.0, 0.5), rel=1e-8)
    grid = [(omega * beta, shift * beta) for omega in np.linspace(*omegas) for beta in np.linspace(2, 10, 9)]
    exact = np.array([blurred.amplification(*point) for point in grid])
    printed = np.array([blurred.printed_amplification(*point) for point in grid])
    assert (printed < exact).sum() == below
    assert (printed / exact).min() == pytest.approx(lowest, abs=1e-4)
    assert np.all(np.diff(exact.reshape(-1, 9), axis=0) < 0)  # it falls with omega and with beta, as in Fig. 1
    assert np.all(np.diff(exact.reshape(-1, 9), axis=1) < 0)


# The Renyi divergence.


@points
def test_the_divergence_is_an_upper_bound_and_near(width, shift):
    h = width / 2
    bound = BlurredLaplace(1 / shift, width).renyi(ORDERS)
    for a, found in zip(ORDERS, bound, strict=True):
        if a * shift > 100:
            continue

        def beyond_tangent(x, a=a):  # its integral is the moment minus 1
            L = math.log(density(x, h)) - math.log(density(x - shift, h))
            return density(x - shift, h) * (math.expm1(a * L) - a * math.expm1(L))

        exact = math.log1p(pieces(beyond_tangent, width, shift)) / (a - 1)
        gridded = (2 * a - 1) / (a - 1) * width * 2.0**-37  # the uniform number lies on a grid
        assert exact * (1 - 1e-7) <= found <= exact * (1 + 2e-3) + gridded
    assert np.all(bound <= Laplace(1 / shift).renyi(ORDERS) * (1 + 1e-12))
    assert np.all(bound <= shift)


def test_the_divergence_is_what_samples_say():
    """E_Q[R^a] at a = 3, with a false alarm of 1e-6; a forgotten half of the interval would show."""
    width, shift, a = 3.0, 0.8, 3.0
    rng = np.random.default_rng(2)
    x = shift + rng.uniform(-width / 2, width / 2, 2_000_000) + rng.laplace(size=2_000_000)
    R = np.exp(blurred.log_density(x, width / 2) - blurred.log_density(x - shift, width / 2)) ** a
    error = 4.9 * R.std() / math.sqrt(len(x))
    assert abs(R.mean() - math.exp((a - 1) * BlurredLaplace(1 / shift, width).renyi(a))) < error
    assert abs(R.mean() - math.exp((a - 1) * BlurredLaplace(1 / shift, width / 2).renyi(a))) > error


def test_the_divergence_grows_with_the_shift():
    shifts = np.linspace(0.02, 2, 60)
    found = np.array([blurred.renyi_divergence(BlurredLaplace(1 / s, 4.0), ORDERS) for s in shifts])
    assert np.all(np.diff(found, axis=0) > 0)


def test_blurred_events_under_all_accountants():
    event = BlurredLaplace(20.0, 3.0)
    assert from_plain(to_plain(event)) == event
    found, plain = (accounting.totals(Counter({e: 200}), 1e-5) for e in (event, Laplace(20.0)))
    assert found.plain_sum == plain.plain_sum
    assert found.distribution is None
    assert found.renyi < 0.7 * plain.renyi
    tiny = BlurredLaplace(1e6, 3.0)  # too small a shift for the chords: no credit, no less
    np.testing.assert_array_equal(tiny.renyi(ORDERS), Laplace(1e6).renyi(ORDERS))
    wide = BlurredLaplace(2.0, 0.0)
    np.testing.assert_array_equal(wide.renyi(ORDERS), Laplace(2.0).renyi(ORDERS))
    for bad in (
        {"multiplier": 0.0, "width": 1.0},
        {"multiplier": 1.0, "width": -1.0},
        {"multiplier": 1.0, "width": math.inf},
    ):
        with pytest.raises(tacit.InputError, match="BlurredLaplace needs"):
            BlurredLaplace(**bad)


# A vector with Laplace noise and a Euclidean bound.


def test_equal_moves_are_the_worst_for_a_vector():
    rng, d, m = np.random.default_rng(3), 6, 2.0
    event = LaplaceVector(m, d)
    bound = event.renyi(ORDERS)
    for spread in (0.2, 1.0, 4.0):
        for _ in range(50):
            move = np.abs(rng.normal(size=d)) ** spread
            move /= np.linalg.norm(move) * m  # in units of the noise
            total = sum(Laplace(1 / s).renyi(ORDERS) for s in move if s > 0)
            assert np.all(total <= bound * (1 + 1e-9))
            assert move.sum() <= accounting.plain_sum({event: 1}) * (1 + 1e-12)
    np.testing.assert_allclose(bound, d * Laplace(m * math.sqrt(d)).renyi(ORDERS))
    assert from_plain(to_plain(event)) == event
    spent = accounting.totals(Counter({event: 50}), 1e-5)
    assert spent.distribution is None  # one coordinate alone has a larger total variation than equal moves
    assert spent.zcdp == accounting.totals(Counter({tacit.Gaussian(m): 50}), 1e-5).zcdp
    with pytest.raises(tacit.InputError, match="LaplaceVector needs a whole number of coordinates"):
        LaplaceVector(1.0, 0)


# Transcripts.

PAPER = {"penalty": 10.0, "dual_step": 0.5, "beta": Geometric(1.02, 1.02)}


def transcript(method, seed, rounds=100):
    """The paper's setting: N = 10, |E| = 20, 100 rows each of 14 features, l2 = 1."""
    p = tacit.Problem(make_parts(sizes=(100,) * 10, d=14, seed=seed), l2=1.0)
    graph = tacit.Graph.random(10, 20, seed)
    return p, graph, tacit.simulate(method, p, graph, rounds=rounds, noise=tacit.SeededNoise(seed), record=True)


@pytest.mark.parametrize(
    ("method", "low", "high"),
    [
        (RandomAggregationADMM(**PAPER), 0.22, 0.32),
        (RandomAggregationGD(step=Geometric(0.93, 0.93), beta=PAPER["beta"]), 0.10, 0.25),
        (RandomAggregationGD(step=Geometric(0.93, 0.93), beta=PAPER["beta"], min_max=True), 0.50, 0.75),
    ],
    ids=["admm", "gd", "min-max"],
)
def test_the_transcripts_epsilon_is_below_the_worst_case(method, low, high):
    reductions = []
    for seed in range(3):
        p, graph, run = transcript(method, seed)
        found, worst = epsilon_of_transcript(method, p, graph, run)
        assert np.all(found.look() <= worst * (1 + 1e-9))
        reductions.append(1 - found.look().sum() / worst.sum())
    assert low < np.mean(reductions) < high


def test_the_worst_case_is_28_times_what_the_paper_sums_up():
    method = RandomAggregationADMM(**PAPER)
    p, graph, run = transcript(method, 0)
    _, worst = epsilon_of_transcript(method, p, graph, run)
    printed = sum(1.02 ** (k + 1) * 0.1 * 0.01 for k in range(100))  # without 2 records and 14 coordinates
    np.testing.assert_allclose(worst.sum(axis=0), 28 * printed, rtol=1e-9)
    spent = max(accounting.plain_sum(counter) for counter in run.spent)
    assert spent == pytest.approx(2 * math.sqrt(14) * printed, rel=1e-9)  # by the Euclidean bound on rows


def test_the_transcripts_epsilon_is_that_of_the_definition():
    """(10) for one agent, round and coordinate, with integrals."""
    method = RandomAggregationADMM(**PAPER)
    p, graph, run = transcript(method, 1, rounds=3)
    x, k, i = run.trajectory, 2, 4
    dual = sum(0.5 * sum(x[r, j] - x[r, i] for j in graph.neighbours(i)) for r in (1, 2))
    rest = (dual - p.take([i]).gradient(x[k, [i]])[0]) / 10.0
    ends = np.array([x[k, i] + rest, x[k, graph.neighbours(i)].mean(axis=0) + rest])
    beta, B, total = 1.02**3, 0.02, 0.0
    for l in range(14):  # noqa: E741 (the paper's index)

        def mass(t, l=l):  # noqa: E741
            lo, hi = ends[:, l].min() + t, ends[:, l].max() + t
            return quad(
                lambda y: math.exp(-beta * abs(x[k + 1, i, l] - y)), lo, hi, points=[np.clip(x[k + 1, i, l], lo, hi)]
            )[0]

        total += max(abs(math.log(mass(0) / mass(t))) for t in np.linspace(-B / 10, B / 10, 21))
    found, _ = epsilon_of_transcript(method, p, graph, run)
    assert found.look()[k, i] == pytest.approx(total, rel=1e-7)


def test_it_cannot_be_published_or_used_to_stop(tmp_path):
    secret = ForOwnEyes(np.array([0.25]), "epsilon of a transcript")
    assert "0.25" not in repr(secret) + str(secret)
    for use in (
        lambda: secret < 1,
        lambda: secret >= 0.2,
        lambda: secret == 0.25,
        lambda: bool(secret),
        lambda: float(secret),
        lambda: secret + 1,
        lambda: 2 * secret,
        lambda: sum([secret]),
        lambda: np.asarray(secret),
        lambda: np.max(secret),
        lambda: list(secret),
        lambda: f"{secret}",
        lambda: pickle.dumps(secret),
        lambda: copy.deepcopy(secret),
        lambda: np.savez(tmp_path / "leak.npz", secret=secret),
    ):
        with pytest.raises(tacit.TacitError, match="depends on the records"):
            use()
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.look() == 0.25


def test_realised_events_need_no_records_and_fit_a_filter():
    method = RandomAggregationADMM(**PAPER)
    p, graph, run = transcript(method, 2)
    events = realised_events(method, p, graph, run)
    assert events == realised_events(method, tacit.Facts.of(p), graph, run)
    k, i = 20, 3
    x = run.trajectory
    widths = np.abs(x[k, i] - x[k, graph.neighbours(i)].mean(axis=0)) * 1.02 ** (k + 1)
    np.testing.assert_allclose([e.width for e in events[k][i]], widths, rtol=1e-9)
    np.testing.assert_allclose([e.multiplier for e in events[k][i]], 10.0 / (1.02 ** (k + 1) * 0.02), rtol=1e-9)
    mine = Counter(e for of_round in events for e in of_round[i])
    worst = Counter(Laplace(e.multiplier) for e in mine.elements())
    cap = Cap(3.0, 1e-5)
    blurry, plain = (filters.filter_epsilon(Counter(), counter, cap) for counter in (mine, worst))
    assert blurry < 0.95 * plain
    amplified, all_coordinates, vector = (
        sum(n * e.renyi(10.0) for e, n in c.items()) for c in (mine, worst, run.spent[i])
    )
    assert 0.6 < amplified / all_coordinates < 0.75
    assert vector < all_coordinates / 13  # the Euclidean bound on rows does more, and is there before the run


def test_refusals():
    p, graph, run = transcript(RandomAggregationADMM(**PAPER), 0, rounds=2)
    normal = RandomAggregationADMM(penalty=10.0, dual_step=0.5, budget=tacit.Gaussian(2.0))
    with pytest.raises(tacit.InputError, match="only a run with Laplace noise"):
        epsilon_of_transcript(normal, p, graph, run)
    exact = RandomAggregationADMM(**PAPER, exact=True)
    with pytest.raises(tacit.InputError, match="not uniform on an interval"):
        epsilon_of_transcript(exact, p, graph, run)
    run.trajectory = None
    with pytest.raises(tacit.InputError, match="record=True"):
        epsilon_of_transcript(RandomAggregationADMM(**PAPER), p, graph, run)
    with pytest.raises(tacit.InputError, match="longer than the shift"):
        blurred.printed_amplification(0.1, 0.2)
    for width, shift in ((-1.0, 0.1), (1.0, 0.0), (math.nan, 1.0)):
        with pytest.raises(tacit.InputError, match="an interval has a length"):
            blurred.amplification(width, shift)
    assert RandomCoordinateDescent(step=0.1) != exact


@pytest.mark.parametrize("apart", [0.125, 0.25, 0.5])
def test_uniform_numbers_on_a_grid_are_paid_for(apart):
    """Uniform numbers have 36 bits after the point. On an interval of 2^36 times `apart` they lie so far apart that the
    density of the sum has waves, the same between any two of them: cosh(x - apart/2), up to a factor. A shift shows in
    these, though the interval is so long that it would hide everything else."""
    shift, n = 0.1, 20_000
    x = (np.arange(n) + 0.5) / n * apart
    wave, moved = (np.cosh(np.mod(place, apart) - apart / 2) for place in (x, x - shift))
    wave, moved = wave / wave.mean(), moved / moved.mean()
    orders = np.array([1.5, 2.0, 10.0])
    shown = [math.log((wave * (wave / moved) ** (a - 1)).mean()) / (a - 1) for a in orders]
    stated = blurred.renyi_divergence(BlurredLaplace(1 / shift, apart * 2.0**36), orders)
    assert np.all(np.array(shown) > 1e-7)
    assert np.all(stated >= shown)
