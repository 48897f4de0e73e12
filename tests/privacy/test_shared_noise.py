"""Shared noise: the law of a sum of rounded Gaussians, computed exactly, and the variance of the noise that is drawn.

The proof is in docs/privacy.md ("Shared noise"), in its symbols. K = sum_h round(c_h + G_h) is what n honest members
say together, in steps of the grid; K* = round(C + G + U_2 + ... + U_n) is a function of the Gaussian mechanism. Real
shares are at least 64 steps wide, where K and K* cannot be told apart at any precision; here they are narrow.
"""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.stats import chi2, kstest, norm

import tacit
from tacit.algorithms import SummedGradientDescent
from tacit.core.losses import HuberHinge
from tacit.privacy.events import Gaussian
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.mechanisms import gradient_share
from tacit.privacy.noise import SecureNoise, SeededNoise
from tacit.privacy.sensitivity import SHARE_GRID, NoRoom, gradient_sensitivity, require_shares

MIDDLES = {  # c_h: whole numbers, halves, where rounding decides most, and anything
    "whole": (0.0, 0.0, 0.0, 0.0),
    "one half": (0.5, 0.0, 0.0, 0.0),
    "halves": (0.5, 0.5, 0.5, 0.5),
    "any": (0.3, -0.41, 0.77, 0.123),
}
MEMBERS = [2, 3, pytest.param(4, marks=pytest.mark.slow)]
REACH = 14  # deviations on either side; beyond, no law has more than 1e-40


def convolved(laws):
    """The law of a sum, from {value: probability} of its addends."""
    total = {0: mpf(1)}
    for law in laws:
        new = {}
        for a, p in total.items():
            for b, q in law.items():
                new[a + b] = new.get(a + b, 0) + p * q
        total = new
    return total


def around(c, s):
    return range(math.floor(c - REACH * s) - 2, math.ceil(c + REACH * s) + 3)


@cache
def law_of_sum(middles, s):
    """{k: P(K = k)}: the convolution of the members' laws. That of the last members is there for the next case, too."""
    return convolved([law_of_sum(middles[1:], s), law_of_one(middles[0], s)]) if middles else convolved([])


@cache
def law_of_one(c, s):
    edges = [mpmath.ncdf((mpf(k) - mpf("0.5") - mpf(c)) / mpf(s)) for k in [*around(c, s), around(c, s)[-1] + 1]]
    return {k: b - a for k, a, b in zip(around(c, s), edges, edges[1:], strict=False)}


def iterated(order, x):
    """The standard normal density, integrated `order` times from minus infinity."""
    before, now = mpmath.npdf(x), mpmath.ncdf(x)
    for k in range(1, order):
        before, now = now, (x * now + before) / k
    return now


@cache
def law_of_rounded_sum(middles, s):
    """{k: P(K* = k)}: the density of C + G + U_1 + ... + U_n at k, as an n-fold difference of an n-fold integral."""
    n, C, S = len(middles), sum(map(mpf, middles)), mpf(s) * mpmath.sqrt(len(middles))
    law = {}
    for k in around(float(C), float(S) + n / REACH):
        x = k - C + mpf(n) / 2
        pieces = ((-1) ** j * mpmath.binomial(n, j) * S ** (n - 1) * iterated(n, (x - j) / S) for j in range(n + 1))
        law[k] = mpmath.fsum(pieces)
    return law


def apart(middles, s):
    """The largest difference of a probability, and the distance in total variation."""
    p, q = law_of_sum(middles, s), law_of_rounded_sum(middles, s)
    differences = [abs(p.get(k, mpf(0)) - q.get(k, mpf(0))) for k in p.keys() | q.keys()]
    return max(differences), sum(differences) / 2


def aliases(s):
    """a(s), for any s: what all terms m != 0 of the characteristic function are together, at most."""
    return 2 * sum(mpmath.exp(-2 * mp.pi**2 * mpf(s) ** 2 * (m - mpf("0.5")) ** 2) for m in range(1, 40))


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def test_the_law_of_the_rounded_sum_is_that_of_an_integral():
    """The closed form against numerical integration over the uniform numbers."""
    for middles, s in (((0.3, -0.41), 0.5), ((0.5, 0.0), 1.0), ((0.3, -0.41, 0.77), 0.7)):
        n, C, S = len(middles), sum(middles), s * math.sqrt(len(middles))
        for k in (-1, 0, 2):

            def window(x, k=k, C=C, S=S):
                return norm.cdf((k + 0.5 - C - x) / S) - norm.cdf((k - 0.5 - C - x) / S)

            if n == 2:
                found = quad(window, -0.5, 0.5, epsabs=1e-13)[0]
            else:  # the sum of two uniform numbers has the density 1 - |x|
                found = 2 * sum(
                    quad(lambda x, side=side: (1 - x) * window(side * x) / 2, 0, 1, epsabs=1e-13)[0] for side in (1, -1)
                )
            assert abs(float(law_of_rounded_sum(middles, s)[k]) - found) < 1e-12


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("case", MIDDLES)
@pytest.mark.parametrize("s", [0.3, 0.5, 1.0, 2.0, 4.0])
def test_no_probability_differs_by_more_than_the_proof_says(n, case, s):
    middles = MIDDLES[case][:n]
    for law in (law_of_sum(middles, s), law_of_rounded_sum(middles, s)):
        assert abs(sum(law.values()) - 1) < 1e-35
    bound = n * aliases(s) + aliases(s * math.sqrt(n))
    if s >= 1:
        assert aliases(s) <= mpf("2.01") * mpmath.exp(-(mp.pi**2) * mpf(s) ** 2 / 2)
    largest, variation = apart(middles, s)
    assert largest <= bound
    assert variation <= (2 * REACH * s * math.sqrt(n) + n + 4) * bound / 2 + mpf(10) ** -35


@pytest.mark.parametrize("n", [3, 4])
def test_narrow_shares_can_be_told_apart_as_much_as_the_proof_says(n):
    """The largest alias of a sum is that of one member at w = 1/n, of size exp(-2 pi^2 s^2 (n - 1)/n), and the distance
    falls with it: what the tests above bound is there, and they would see a wrong law."""
    ratios = []
    for s in (0.5, 1.0, 2.0):
        distance = apart(MIDDLES["one half"][:n], s)[1]
        ratios.append(distance / mpmath.exp(-2 * mp.pi**2 * mpf(s) ** 2 * (n - 1) / n))
    assert 0.1 < min(ratios) <= max(ratios) < 1
    assert abs(ratios[2] / ratios[1] - 1) < 0.01
    assert apart(MIDDLES["one half"][:n], 0.5)[1] > 5e-3


def test_another_law_would_fail():
    """The rounded sum of shares with 1 % less variance is farther away than the bound at s = 2."""
    middles, s = MIDDLES["any"], 2.0
    p, q = law_of_sum(middles, s * math.sqrt(0.99)), law_of_rounded_sum(middles, s)
    assert max(abs(p.get(k, 0) - q[k]) for k in q) > 1e4 * (4 * aliases(s) + aliases(2 * s))


# The privacy profile


def profile(p, q, epsilon):
    """The least delta at epsilon, both ways."""
    e = mpmath.exp(epsilon)
    return max(mpmath.fsum(max(a - e * b, 0) for a, b in zip(*pair, strict=True)) for pair in ((p, q), (q, p)))


def gaussian_profile(mu, epsilon):
    """Balle and Wang (2018), Theorem 8."""
    mu = mpf(mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def modular(middles, s, modulus=2**8):
    """The law of K modulo 2^8, by enumeration."""
    law = [mpf(0)] * modulus
    for k, p in law_of_sum(middles, s).items():
        law[k % modulus] += p
    return law


@pytest.mark.parametrize("n", MEMBERS)
@pytest.mark.parametrize("case", MIDDLES)
@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
def test_a_modular_sum_costs_what_the_gaussian_mechanism_costs(n, case, s):
    """One member's value moves by Delta; the others' noise is theirs. At most the Gaussian mechanism with the variance
    of all n shares, and (1 + e^epsilon) times the distance of the laws."""
    middles, S = MIDDLES[case][:n], s * math.sqrt(n)
    for move in (0.25 * S, 1.3 * S):
        moved = (middles[0] + move, *middles[1:])
        p, q = modular(middles, s), modular(moved, s)
        slack = max(apart(middles, s)[1], apart(moved, s)[1])
        for epsilon in (mpf(0), mpf("0.1"), mpf("0.5"), mpf(1), mpf(2)):
            claim = gaussian_profile(move / S, epsilon)
            found = profile(p, q, epsilon)
            assert found <= claim + (1 + mpmath.exp(epsilon)) * slack + mpf(10) ** -35
            if s >= 1:  # the rounding itself hides a little: no slack is used
                assert found < claim


def test_the_claim_without_slack_fails_for_narrow_shares():
    """Shares of a fifth of a step: the others' noise is rounded away, and the sum costs nearly what one share alone
    costs. At half a step this is over: rounding then hides more than it takes away."""
    for s, broken in ((0.2, True), (0.3, True), (0.5, False)):
        S = s * 2
        middles, moved = (0.5 - 0.15 * S, 0.0, 0.0, 0.0), (0.5 + 0.15 * S, 0.0, 0.0, 0.0)
        over = [
            profile(modular(middles, s), modular(moved, s), mpf(e)) > gaussian_profile(0.3, mpf(e))
            for e in (0.0, 0.25, 0.5)
        ]
        assert any(over) == broken
    alone = gaussian_profile(0.6, mpf("0.25"))
    found = profile(modular((0.44, 0.0, 0.0, 0.0), 0.2), modular((0.56, 0.0, 0.0, 0.0), 0.2), mpf("0.25"))
    assert gaussian_profile(0.3, mpf("0.25")) < found <= alone


def test_the_formula_of_the_accountants_is_that_of_the_profile():
    for m, delta in ((1.0, 1e-5), (3.3, 1e-4)):
        assert abs(gaussian_profile(1 / m, mpf(gaussian_epsilon(m, delta))) - delta) < 1e-6 * delta


def test_shares_are_as_wide_as_the_proof_needs():
    """At 64 steps the bound, over all values within 300 deviations, is below e^-20000, for as many members as fit."""
    n, s = 2**43, 64
    S = mpf(2) ** 53
    bound = (600 * S + n) * (n + 1) * mpf("2.01") * mpmath.exp(-(mp.pi**2) * s**2 / 2) + mpmath.exp(-40000)
    assert bound < mpmath.exp(-20000)
    require_shares(64 * SHARE_GRID, np.array([[1.0]]), 5)
    with pytest.raises(NoRoom, match="below 64 steps"):
        require_shares(63.9 * SHARE_GRID, np.array([[1.0]]), 5)
    with pytest.raises(NoRoom, match="have a sum above"):
        require_shares(1.0, np.array([[1.0], [2.0**16]]), 3)
    # More members than the proof of the bound allows do not fit: a row reaches at least 21 deviations.
    with pytest.raises(NoRoom, match="have a sum above"):
        require_shares(64 * SHARE_GRID, np.array([[21 * 64 * SHARE_GRID]]), n)


# The noise that is drawn

FALSE_ALARM = 1e-6
MEMBERS, COLLUDERS, DIMENSION = 5, 2, 400
_REPEATS = 16  # 6400 numbers for each of three members


def test_shares_lie_on_the_grid_of_the_proof_alone():
    """On another grid a sum of shares is rounded more than once."""
    problem = tacit.Problem([(np.array([[1.0]]), [1.0])], loss=HuberHinge(0.5))
    where = {"members": 3, "colluders": 1, "dropouts": 0, "ids": np.arange(1), "t": 0}
    gradient_share(problem, SecureNoise(grid=SHARE_GRID), 1.0, np.zeros((1, 1)), **where)
    for grid in (SHARE_GRID * 2, SHARE_GRID / 2):
        with pytest.raises(tacit.TacitError, match="shares of noise lie on the grid"):
            gradient_share(problem, SecureNoise(grid=grid), 1.0, np.zeros((1, 1)), **where)


def variance_is(values, deviation):
    """Whether normal numbers may have this deviation: chi-squared, two-sided; a false alarm in a million tests."""
    found = float((values**2).sum() / deviation**2)
    return chi2.ppf(FALSE_ALARM / 2, values.size) < found < chi2.isf(FALSE_ALARM / 2, values.size)


def honest_noise(noise, deviation):
    """(repeats, d) the noise in the totals that no coalition knows, through the mechanism; and what the event says."""
    problem = tacit.Problem(
        [(np.zeros((3, DIMENSION)), np.ones(3))] * MEMBERS, loss=HuberHinge(1.0), l2=0.0, radius=1.0
    )
    sums, at = [], np.zeros((MEMBERS, DIMENSION))
    for t in range(_REPEATS):
        release = gradient_share(
            problem,
            noise,
            deviation,
            at,
            members=MEMBERS,
            colluders=COLLUDERS,
            dropouts=0,
            ids=np.arange(MEMBERS),
            t=t,
        )
        sums.append(release.value[: MEMBERS - COLLUDERS].sum(axis=0))
    (event,) = set(release.events)
    return np.array(sums), event.gaussian.multiplier * gradient_sensitivity(problem)[0, 0]


@pytest.mark.parametrize("source", [SecureNoise, lambda: SeededNoise(3)], ids=["secure", "seeded"])
def test_the_noise_of_a_total_has_the_variance_that_is_charged(source):
    """False alarm: 1e-6. 6400 numbers show an error of 10 % in the deviation: 0.19 and 0.21 of the variance are 10.7
    and 11.9 deviations of its estimate, where the test bounds it by 4.9."""
    values, claimed = honest_noise(source(), deviation=0.37)
    assert claimed == pytest.approx(0.37 * math.sqrt(MEMBERS - COLLUDERS), rel=1e-12)
    assert variance_is(values, claimed)
    assert not variance_is(values, claimed * 1.1)
    assert not variance_is(values, claimed / 1.1)
    assert abs(values.sum()) < norm.isf(FALSE_ALARM / 2) * claimed * math.sqrt(values.size)


class Tenth(SecureNoise):
    """A bug: a share is 10 % too narrow."""

    def add(self, law, value, scale, ids, t, onto=None):
        return super().add(law, value, np.asarray(scale) * 0.9, ids, t, onto=onto)


def test_a_share_that_is_a_tenth_too_narrow_is_caught():
    values, claimed = honest_noise(Tenth(), deviation=0.37)
    assert not variance_is(values, claimed)


@pytest.mark.parametrize("source", [SecureNoise, lambda: SeededNoise(4)], ids=["secure", "seeded"])
def test_both_sources_have_the_law_of_the_proof(source):
    """Kolmogorov's test against the normal law, false alarm 1e-6: audits with many runs draw from `SeededNoise`."""
    values, claimed = honest_noise(source(), deviation=0.37)
    assert kstest(values.ravel() / claimed, "norm").pvalue > FALSE_ALARM
    assert kstest(values.ravel() / claimed * 1.25, "norm").pvalue < FALSE_ALARM
    assert np.all(values == np.round(values / SHARE_GRID) * SHARE_GRID)


def test_secure_shares_are_rounded_once():
    """The value and the noise are added exactly and then rounded: on a grid of eighths with shares of half a step the
    frequencies of a share are those of the exact law. Chi-squared, false alarm 1e-6."""
    step, s, c, count = 0.125, 0.5, 0.3, 4000
    drawn = SecureNoise(grid=step).add("gaussian", np.full((1, count), c * step), s * step, np.arange(1), 0)
    k, seen = np.unique(np.round(drawn / step).astype(int), return_counts=True)
    law = law_of_sum((c,), s)
    common = [j for j in law if law[j] * count > 5]
    expected = np.array([float(law[j]) * count for j in common])
    found = np.array([seen[k == j].sum() for j in common])
    expected, found = np.append(expected, count - expected.sum()), np.append(found, count - found.sum())
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, len(common))


def test_the_deviation_of_a_share_gives_the_budget_with_every_number_of_colluders():
    from tacit.algorithms.summed import share_deviation
    from tacit.core.facts import Facts
    from tacit.privacy.plan import plan

    facts = Facts(sizes=[50, 80, 110, 50], dimension=3, scale=np.array([1.0, 2.0, 0.5, 1.0]))
    for colluders in range(4):
        deviation = share_deviation(facts, Gaussian(4.0), colluders=colluders, dropouts=0)
        method = SummedGradientDescent(step=0.1, deviation=deviation, colluders=colluders)
        spent = plan(method, facts, tacit.Graph.complete(4), 1).spent
        multipliers = [event.gaussian.multiplier for counter in spent for event in counter]
        assert min(multipliers) == pytest.approx(4.0, rel=1e-9)
        assert min(multipliers) >= 4.0  # nobody pays more than the budget, whatever its scale
        assert max(multipliers) > 5.0
