"""Accountants against closed forms and high-precision computations that share nothing with them."""

import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from tacit.errors import InputError
from tacit.privacy import accounting
from tacit.privacy.accounting import epsilon, largest_parameter, network_epsilon, totals
from tacit.privacy.events import ZCDP, Free, Gaussian, Laplace, Pure, Unprotected, from_plain, to_plain
from tacit.privacy.formulas.closed_forms import gaussian_epsilon


def kov_delta(eps, k, target):
    """delta of k pure mechanisms at epsilon = target: Kairouz, Oh, Viswanath (2015), Theorem 3.3, in 60 digits."""
    with mpmath.workdps(60):
        e, t = mpmath.mpf(eps), mpmath.mpf(target)
        total = mpmath.mpf(0)
        for j in range(k + 1):
            gain = mpmath.exp((k - j) * e) - mpmath.exp(t + j * e)
            if gain > 0:
                total += mpmath.binomial(k, j) * gain
        return total / (1 + mpmath.exp(e)) ** k


def kov_epsilon(eps, k, delta):
    """The least epsilon with that delta, by bisection on the exact curve."""
    lo, hi = 0.0, k * eps
    if kov_delta(eps, k, 0.0) <= delta:
        return 0.0
    for _ in range(60):
        mid = (lo + hi) / 2
        lo, hi = (lo, mid) if kov_delta(eps, k, mid) <= delta else (mid, hi)
    return hi


def gaussian_delta(multiplier, eps):
    """delta of the Gaussian mechanism: Balle and Wang (2018), Theorem 8."""
    with mpmath.workdps(40):
        s, e = mpmath.mpf(1) / multiplier, mpmath.mpf(eps)
        return mpmath.ncdf(s / 2 - e / s) - mpmath.exp(e) * mpmath.ncdf(-s / 2 - e / s)


def test_the_known_value():
    assert totals(Counter({Pure(0.1): 100}), 1e-5).distribution == pytest.approx(4.3068, abs=1e-4)


@pytest.mark.parametrize(("multiplier", "k"), [(1.0, 1), (3.0, 50), (20.0, 50), (100.0, 1), (0.3, 1)])
def test_gaussians_compose_to_a_gaussian(multiplier, k):
    found = totals(Counter({Gaussian(multiplier): k}), 1e-5)
    together = multiplier / math.sqrt(k)
    assert gaussian_delta(together, found.distribution) <= 1e-5  # never below the truth
    assert gaussian_delta(together, found.distribution * (1 - 2e-3) - 1e-4) > 1e-5  # and hardly above
    assert found.distribution <= found.renyi + 1e-9 <= found.zcdp + 2e-9


def laplace_delta(scale, eps):
    """delta of one Laplace mechanism of sensitivity 1: 1 - exp((eps - 1/scale)/2) below 1/scale."""
    return max(0.0, 1 - math.exp((eps - 1 / scale) / 2))


@pytest.mark.parametrize("scale", [0.5, 1.0, 5.0])
def test_one_laplace(scale):
    delta = 1e-2
    exact = 1 / scale + 2 * math.log(1 - delta)
    found = totals(Counter({Laplace(scale): 1}), delta).distribution
    assert laplace_delta(scale, exact) == pytest.approx(delta)
    assert exact - 1e-9 <= found <= exact + 2e-3 / scale


def test_many_laplace_against_simulation_free_convolution():
    """Fifty Laplace steps, convolved on a fine grid by hand: bounds from below and above enclose the accountant."""
    scale, k, delta = 10.0, 50, 1e-5
    e, h = 1 / scale, 1e-5
    # Loss of one step under P: e with probability 1/2, -e with exp(-e)/2, between them density exp((l-e)/2)/4.
    grid = np.arange(-round(e / h), round(e / h) + 1)
    edge = np.exp((np.arange(len(grid) + 1) * h - 2 * e - h / 2) / 2) / 2  # primitive of that density
    mass = np.diff(np.clip(edge, math.exp(-e) / 2, 0.5))
    mass[0] += math.exp(-e) / 2
    mass[-1] += 0.5
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    size = 1 << 21
    spectrum = np.fft.rfft(np.roll(np.pad(mass, (0, size - len(mass))), grid[0]))
    total = np.roll(np.fft.irfft(spectrum**k, size), size // 2)
    loss = (np.arange(size) - size // 2) * h

    def delta_at(eps, shift):
        gain = np.maximum(0.0, -np.expm1(eps - (loss + shift)))
        return float(total[loss + shift > eps] @ gain[loss + shift > eps])

    found = totals(Counter({Laplace(scale): k}), delta).distribution
    slack = k * h  # each step's loss is rounded by at most h/2, either way
    assert delta_at(found, -slack) <= delta * (1 + 1e-6)
    assert delta_at(found * (1 - 3e-3), slack) > delta


def test_zcdp_dominates_what_it_stands_for():
    orders = np.geomspace(1.001, 1e4, 300)
    for event in (Pure(0.01), Pure(1.0), Pure(8.0)):
        assert np.all(event.renyi(orders) <= event.epsilon**2 / 2 * orders * (1 + 1e-12))
    for scale in (0.2, 1.0, 30.0):
        assert np.all(Laplace(scale).renyi(orders) <= orders / (2 * scale**2) * (1 + 1e-12))


def test_zcdp_conversion():
    """The classical bound rho + 2 sqrt(rho log(1/delta)) is never beaten by less than nothing, and xi adds."""
    found = totals(Counter({ZCDP(0.02): 5}), 1e-6)
    assert found.zcdp <= 0.1 + 2 * math.sqrt(0.1 * math.log(1e6))
    same = totals(Counter({Gaussian(math.sqrt(1 / 0.2)): 1}), 1e-6)  # rho = 0.1
    assert same.distribution <= found.zcdp == pytest.approx(same.zcdp)
    assert found.distribution is None  # no rule: not applicable, never approximated
    more = totals(Counter({ZCDP(0.02, xi=0.01): 5}), 1e-6)
    assert found.zcdp < more.zcdp <= found.zcdp + 0.05 + 1e-9


def test_zcdp_adds_up():
    """Values, by the conversion of one ZCDP event of the same totals."""

    def same(events, rho, xi=0.0):
        return totals(Counter(events), 1e-6).zcdp == pytest.approx(
            totals(Counter({ZCDP(rho, xi): 1}), 1e-6).zcdp, rel=1e-9
        )

    assert same({Pure(0.3): 4}, 4 * 0.3**2 / 2)
    assert same({Laplace(5.0, coordinates=3): 4}, 12 / (2 * 25))
    assert same({Gaussian(5.0): 4}, 4 / (2 * 25))
    assert same({ZCDP(0.1, xi=0.2): 4}, 0.4, 0.8)
    assert not same({Pure(0.3): 4}, 4 * 0.3**2 / 4)


def test_many_steps_at_a_tiny_delta_are_not_left_to_the_fft():
    """Exact: 1.60907 (contour integral in 40 digits). What rounding of convolutions could hide is not answered."""
    assert epsilon(Counter({Laplace(300.0): 5000}), 3e-13) >= 1.60907
    assert totals(Counter({Laplace(300.0): 5000}), 3e-13).distribution is None
    assert totals(Counter({Laplace(300.0): 5000}), 1e-9).distribution is not None


def test_what_convolutions_leave_uncertain_is_taken_off_delta(monkeypatch):
    """The more they may have lost, the more is charged: as at a delta that is smaller by just that much."""
    events, delta = Counter({Laplace(10.0): 50}), 1e-5
    monkeypatch.setattr(accounting, "_FFT_NOISE", 0.0)
    certain, at_less = totals(events, delta).distribution, totals(events, delta - 1e-7).distribution
    monkeypatch.setattr(accounting, "_FFT_NOISE", 1e-9)  # 1e-7 in all: a hundredth of delta
    assert certain < totals(events, delta).distribution == pytest.approx(at_less, rel=1e-5)


@pytest.mark.parametrize(("multiplier", "delta"), [(1e7, 1e-9), (1e9, 1e-11), (1e11, 1e-12), (1e3, 1e-6)])
def test_a_gaussian_that_hardly_speaks_is_not_rounded_away(multiplier, delta):
    found = gaussian_epsilon(multiplier, delta)
    assert gaussian_delta(multiplier, found) <= delta


def test_divergences_are_converted_as_dp_accounting_does():
    rng, answers = np.random.default_rng(0), []
    for scale in np.geomspace(1e-14, 1e3, 60):
        for delta in (1e-2, 1e-6, 1e-12):
            divergence = scale * accounting.ORDERS ** rng.uniform(0, 2)
            theirs, _ = rdp_privacy_accountant.compute_epsilon(accounting.ORDERS, divergence, delta)
            answers.append(theirs)
            assert accounting.converted(divergence, delta) == pytest.approx(theirs, rel=1e-12, abs=1e-14)
    assert 0.0 in answers  # where the divergence is so small that delta pays for all
    assert max(answers) > 100


def test_what_is_no_divergence_counts_as_infinite():
    fine = np.full(len(accounting.ORDERS), 0.1)
    for odd in (math.nan, -1e-9):
        broken = fine.copy()
        broken[100] = odd
        assert accounting.converted(broken, 1e-5) >= accounting.converted(fine, 1e-5) > 0


def test_extreme_parameters_are_answered():
    for event in (Gaussian(1e-200), Laplace(1e-200), Pure(1e200)):
        assert epsilon(Counter({event: 3}), 1e-5) > 1e3
    for event in (Gaussian(1e200), Laplace(1e200), Pure(1e-200)):
        assert 0 <= epsilon(Counter({event: 3}), 1e-5) < 1e-9


def test_mixed_events_cost_at_least_each_and_at_most_the_sum():
    a, b, c = Counter({Pure(0.1): 10}), Counter({Gaussian(5.0): 4}), Counter({Laplace(20.0, coordinates=6): 2})
    both = epsilon(a + b + c, 1e-5)
    assert both > max(epsilon(x, 1e-5) for x in (a, b, c))
    assert both <= sum(epsilon(x, 1e-5 / 3) for x in (a, b, c))
    assert epsilon(Counter({Laplace(20.0, coordinates=6): 2}), 1e-5) == epsilon(Counter({Laplace(20.0): 12}), 1e-5)


def test_edges():
    assert totals(Counter(), 1e-5).best == 0.0
    assert epsilon(Counter({Free("said so"): 3}), 1e-5) == 0.0
    assert epsilon(Counter({Unprotected(): 1, Pure(0.1): 1}), 1e-5) == math.inf
    assert epsilon(Counter({Pure(1e-12): 1}), 1e-5) == 0.0  # its whole effect is below delta
    assert 0 <= epsilon(Counter({Pure(1e-12): 1}), 1e-14) <= 1e-12
    assert totals(Counter({Pure(1e-6): 1}), 1e-12).renyi > 0.9e-6  # tiny divergences do not round off to nothing
    assert epsilon(Counter({Pure(500.0): 3}), 1e-5) == pytest.approx(1500, rel=1e-6)
    assert network_epsilon([Counter({Pure(0.1): 2}), Counter({Pure(0.3): 1})], 1e-9) == pytest.approx(0.3, rel=1e-3)
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="delta must lie between"):
            epsilon(Counter({Pure(1.0): 1}), delta)
    for bad in (0.0, -1.0, math.inf, math.nan):
        for kind in (Pure, Laplace, Gaussian, ZCDP):
            with pytest.raises(InputError, match="positive, finite"):
                kind(bad)


def test_more_rounds_never_cost_less():
    for event in (Pure(0.2), Laplace(4.0), Gaussian(6.0), ZCDP(0.01)):
        costs = [epsilon(Counter({event: n}), 1e-5) for n in (1, 2, 3, 10, 11, 40, 100)]
        assert costs == sorted(costs)


@pytest.mark.parametrize(
    "make",
    [lambda p: Pure(p), lambda p: Laplace(1 / p), lambda p: Gaussian(1 / p), lambda p: ZCDP(p)],
    ids=["pure", "laplace", "gaussian", "zcdp"],
)
@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
def test_calibration_never_exceeds_and_hardly_wastes(make, target):
    p = largest_parameter(lambda p: Counter({make(p): 50}), target, 1e-5)
    assert epsilon(Counter({make(p): 50}), 1e-5) <= target
    assert epsilon(Counter({make(p * 1.01): 50}), 1e-5) > target


def test_plain_data_round_trip():
    for event in (Free("x"), Unprotected(), Pure(0.5), Laplace(2.0, 7), Gaussian(3.0), ZCDP(0.1, 0.2)):
        assert from_plain(to_plain(event)) == event
    for bad in ({}, {"event": "Pure"}, {"event": "Magic"}, {"event": "Pure", "epsilon": 1.0, "more": 2}):
        with pytest.raises(InputError, match="not a privacy event"):
            from_plain(bad)


# What takes seconds comes last


@pytest.mark.parametrize(
    ("eps", "k", "delta"),
    [(0.1, 100, 1e-5), (0.1, 1, 1e-5), (1.0, 50, 1e-5), (0.01, 500, 1e-6), (2.0, 3, 1e-9), (1e-3, 50, 1e-5),
     (0.3, 20, 0.1), (5.0, 50, 1e-5), (1e-6, 50, 1e-5), (1e-9, 10, 1e-5), (0.123456, 77, 1e-10)],
)  # fmt: skip
def test_optimal_composition_of_pure_events(eps, k, delta):
    exact = kov_epsilon(eps, k, delta)
    found = totals(Counter({Pure(eps): k}), delta).distribution
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-6) + 1e-12
    # Two halves told apart go through privacy-loss distributions: the same optimum, up to the grid.
    if k > 1 and exact > 0:
        half = totals(Counter({Pure(eps): k // 2, Pure(eps * (1 + 1e-12)): k - k // 2}), delta).distribution
        assert exact * (1 - 1e-9) <= half <= exact * (1 + 2e-3) + 2e-3 * eps


@pytest.mark.parametrize("event", [Pure(0.7), Pure(1e-7), Laplace(1.3), Laplace(1e4), Laplace(0.01), Gaussian(2.0)])
def test_renyi_divergences_by_integration(event):
    orders = np.array([1.5, 2.0, 7.0])
    for a, found in zip(orders, event.renyi(orders), strict=True):
        with mpmath.workdps(50):
            if isinstance(event, Pure):
                p = 1 / (1 + mpmath.exp(-mpmath.mpf(event.epsilon)))
                moment = p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)
            else:
                s = mpmath.mpf(event.multiplier)
                if isinstance(event, Laplace):

                    def f(x, m, s=s):
                        return mpmath.exp(-abs(x - m) / s) / (2 * s)
                else:

                    def f(x, m, s=s):
                        return mpmath.npdf(x, m, s)

                moment = mpmath.quad(lambda x: f(x, 0) ** a * f(x, 1) ** (1 - a), [-mpmath.inf, 0, 1, mpmath.inf])  # noqa: B023
            assert float(mpmath.log(moment) / (a - 1)) == pytest.approx(found, rel=1e-9)
