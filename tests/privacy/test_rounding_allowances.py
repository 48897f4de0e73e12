"""What every charge adds for rounding: against literal values, mpmath and balls, never against the function itself.

The literals were computed once with mpmath from the formulas of `tacit.core.rounding`, with 50 digits; `by_formula`
computes them again.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb

import tacit
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.multinomial import Multinomial
from tacit.core.rounding import Solved, gradient_error, most_pull
from tacit.privacy import accounting, exact_noise, fast_noise
from tacit.privacy.events import SampledGaussian
from tacit.privacy.formulas import sampling
from tacit.privacy.laws import Normal
from tacit.privacy.mechanisms import objective_perturbed, second_moment_perturbed
from tacit.privacy.noise import largest_draw
from tacit.privacy.sensitivity import gradient_sensitivity, layer_sensitivity, minimiser_sensitivity, record_weight

U = mp.mpf(2) ** -53
PRECISE = 1e-12  # relative: the literals have 17 digits


def gamma(n):
    return n * U / (1 - n * U)


def exactly(function):
    def inside(*how):
        with mp.workdps(50):
            return float(function(*how))

    return inside


# Draws that are too large to happen


def test_the_largest_draw():
    assert [largest_draw("gaussian", d) for d in (1, 4, 100)] == [21.0, 22.0, 30.0]
    assert [largest_draw(law, 7) for law in ("spherical", "laplace")] == [314.0, 314.0]
    assert largest_draw("uniform", 9) == 3.0


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 300, 10_000])
def test_a_larger_draw_has_a_probability_below_that_of_guessing_a_key(d):
    """||Z||^2/2 has a Gamma law of d/2; the radius of spherical noise, and the sum of d Laplace numbers' absolute
    values, one of d."""
    with mp.workdps(30):
        beyond = mp.gammainc(mp.mpf(d) / 2, mp.mpf(largest_draw("gaussian", d)) ** 2 / 2, mp.inf, regularized=True)
        assert mp.log(beyond) < -200
        for law in ("spherical", "laplace"):
            assert mp.log(mp.gammainc(d, largest_draw(law, d), mp.inf, regularized=True)) < -200


# Gradients


@exactly
def by_formula(C, B, d, g, k, r, R, roundings, errors):
    """2 g r C/B, a little more for norms that were computed, and so many times what rounding does to a gradient."""
    exact = 2 * g * r * mp.mpf(C) / B * (1 + mp.mpf(1e-12)) ** 2 * (1 + d * mp.mpf(2) ** -52)
    error = mp.mpf(1.01) * C * r * (k * gamma(d) * r * R + roundings * U * (g + k) + gamma(B + 3) * g)
    return exact + errors * error


def facts(loss, C, B, d, R):
    return tacit.Facts(sizes=[B], dimension=d, loss=loss, scale=C, l2=0.1, radius=R)


CASES = {  # the loss, its g, k and roundings; C, B, d, r, radius: rounding is a visible part of each
    "logistic": (Logistic(), 1.0, 0.25, 8, (30.0, 10**6, 50, 1.0, 4096.0)),
    "hinge": (HuberHinge(0.1), 1.0, 5.0, 8, (7.0, 1000, 9, 2.0, 1e6)),
    "heavy": (Logistic(weights=(1.0, 3.0)), 3.0, 0.75, 8, (0.5, 400_000, 2, 0.5, 1e5)),
}
LITERALS = {
    "logistic": (6.001414502034395e-05, 6.005001019872019e-05),
    "hinge": (0.028000565154584184, 0.028000847731848248),
    "heavy": (3.7501429733506723e-06, 3.7501010974279866e-06),
}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_has_four_times_its_rounding_and_a_layer_that_of_its_dimension(name):
    """All coordinates of a layer, each of a gradient of its own: 2 sqrt(d) times."""
    loss, g, k, roundings, (C, B, d, r, R) = CASES[name]
    plain, layer = LITERALS[name]
    given = facts(loss, C, B, d, R)
    assert by_formula(C, B, d, g, k, r, R, roundings, 4) == pytest.approx(plain, rel=PRECISE, abs=0)
    assert gradient_sensitivity(given, r).item() == pytest.approx(plain, rel=PRECISE, abs=0)
    assert gradient_sensitivity(given, r, rate=0.25).item() == pytest.approx(4 * plain, rel=PRECISE, abs=0)
    assert by_formula(C, B, d, g, k, r, R, roundings, 2 * math.sqrt(d)) == pytest.approx(layer, rel=PRECISE, abs=0)
    assert layer_sensitivity(given, r).item() == pytest.approx(layer, rel=PRECISE, abs=0)
    assert plain > (1 + 1e-9) * 2 * g * r * C / B  # rounding can be seen


def test_rows_whose_norm_was_computed_count_for_a_little_more():
    """1e-12 for the norm, once for the check and once for the row itself, and 2^-52 for each of 1,000 features."""
    given = facts(Logistic(), 1.0, 1, 1000, 1.0)
    assert float(Fraction(record_weight(given).item()) - 1) == pytest.approx(2.222044604926231e-12, rel=1e-3, abs=0)


TAU = 7.0066060484853285e-09


def test_a_minimiser_has_that_of_its_solver():
    """mu = 0.1 + 2 * 0.3, a pull of at most 4 (mu R + g r C): a literal for tau, and (2 g r C/B + 2 tau)/mu."""
    C, B, d, R = 30.0, 10**5, 50, 4096.0
    given, mu = facts(Logistic(), C, B, d, R), np.array([[0.7]])
    assert most_pull(given, mu).item() == pytest.approx(4 * (0.7 * 4096 + 30), rel=1e-15)
    found = Solved(given, mu, most_pull(given, mu)).tau.item()
    assert found == pytest.approx(tau_of(C, B, d, R, 0.7, 4 * (0.7 * 4096 + 30)), rel=PRECISE, abs=0)
    assert found == pytest.approx(TAU, rel=PRECISE, abs=0)
    weight = np.array([[0.3]])
    moved = minimiser_sensitivity(given, np.array([[0.7]]), weight).item()
    assert moved == pytest.approx((by_formula(C, B, d, 1.0, 0.25, 1.0, R, 8, 0) + 2 * TAU) / 0.7, rel=PRECISE, abs=0)


@exactly
def tau_of(C, B, d, R, mu, linear, tolerance=1e-9):
    """Of the logistic loss and rows of norm 1: g = 1, k = 1/4."""
    C, mu, linear = mp.mpf(C), mp.mpf(mu), mp.mpf(linear)
    curved = (1 + mp.mpf(1e-9)) * (C / 4 + mu)
    size = (linear + 2 * C) / mu
    one = mp.mpf(1.01) * C * (gamma(d) * size / 4 + 8 * U * mp.mpf(1.25) + gamma(B + 3))
    error = 3 * one + 24 * U * ((mu + curved) * size + C)
    return (1 + gamma(d + 4)) * max(mp.mpf(tolerance), error) + error


class Asked(tacit.SeededNoise):
    """No noise; keeps what it was asked for."""

    grid = 2.0**-36

    def perturb(self, law, value, factor, scale, ids, t, grid):
        self.linear_grid = np.ravel(grid)[0]
        return value

    def mask(self, law, value, scale, ids, t):
        self.masked = np.ravel(scale)[0]
        return value

    def add(self, law, value, scale, ids, t, onto=None):
        self.added = np.ravel(scale)[0]
        return value


@pytest.mark.parametrize(("deviation", "literal"), [(1.0, 2.5287983373352722e-05), (1e6, 32130.92243490762)])
def test_the_mask_of_an_objective(deviation, literal):
    """It hides a shift of 2 tau/mu at a thousandth of the cost, where the linear term is as large as its bound and the
    largest draw together, and lies on a grid of at most 2^52 steps. With a deviation of a million, the draw counts."""
    C, B, d, R, mu = 30.0, 10**4, 4, 4096.0, 0.7
    rng = np.random.default_rng(0)
    X = rng.normal(size=(B, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    problem = tacit.Problem([(X, np.where(X[:, 0] > 0, 1, -1))], scale=C, l2=0.1, radius=R)
    noise, zero, one = Asked(0), np.zeros((1, d)), np.ones((1, 1))
    objective_perturbed(
        problem, noise, Normal(deviation * one), linear=zero, weight=0.3 * one, centre=zero, start=zero, factor=one,
        ids=np.arange(1), t=0,
    )  # fmt: skip
    farthest = 4 * (mu * R + C) + deviation * (math.sqrt(d) + 20)
    grid = 2.0 ** max(-36, math.ceil(math.log2(farthest)) - 52)
    assert noise.linear_grid == grid
    tau = tau_of(C, B, d, R, mu, farthest + grid * math.sqrt(d) / 2) + grid * math.sqrt(d) / 2
    multiplier = deviation / by_formula(C, B, d, 1.0, 0.25, 1.0, R, 8, 0)
    assert noise.masked == pytest.approx(2 * tau / mu * multiplier / math.sqrt(1e-3), rel=PRECISE, abs=0)
    assert noise.masked == pytest.approx(literal, rel=PRECISE, abs=0)


def test_the_second_moment():
    """sqrt(2) r^2 (1 + 1e-12)^3/B + 2 (B + 8) 2^-52 r^2, of 5,000 rows of norm 2."""
    problem = tacit.Problem([(np.full((5000, 2), 1.0), np.ones(5000))])
    noise = Asked(0)
    second_moment_perturbed(problem, noise, tacit.Gaussian(1.0), row_norm=2.0, ids=np.arange(1), t=0)
    assert noise.added == pytest.approx(0.001131370858797865, rel=1e-14, abs=0)


# What rounding really does


@pytest.mark.parametrize("R", [1.0, 4096.0, 1e9])
@pytest.mark.parametrize("make", [lambda rng, shape: rng.normal(size=shape), lambda rng, shape: np.ones(shape)])
def test_no_computed_gradient_is_further_off_than_is_allowed_for(make, R):
    """Of the Huber hinge, whose slope is a rational number. Of margins that cancel, too."""
    rng, d, B = np.random.default_rng(1), 12, 60
    X = make(rng, (B, d)) * rng.choice([-1.0, 1.0], size=(B, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-15)
    y = rng.choice([-1.0, 1.0], size=B)
    problem, most = tacit.Problem([(X, y)], loss=HuberHinge(1.0), scale=3.0, radius=R), 0.0
    allowed = gradient_error(problem, R).item()
    for _ in range(4):
        f = make(rng, (1, d)) * rng.choice([-1.0, 1.0], size=(1, d))
        f *= R / np.linalg.norm(f) / (1 + 1e-15)
        found, point = problem.data_gradient(f)[0], [Fraction(v) for v in f[0]]
        true = [Fraction(0)] * d
        for row, label in zip(X, y, strict=True):
            x = [Fraction(v) for v in row]
            margin = Fraction(label) * sum(a * b for a, b in zip(x, point, strict=True))
            slope = -max(Fraction(0), min(Fraction(1), (2 - margin) / 2)) * Fraction(label)
            true = [a + Fraction(3) / B * slope * b for a, b in zip(true, x, strict=True)]
        off = math.sqrt(sum(float(Fraction(v) - w) ** 2 for v, w in zip(found, true, strict=True)))
        most = max(most, off)
    assert 0 < most <= allowed


# Noise in pairs of doubles


@pytest.mark.parametrize("law", ["spherical", "gaussian", "laplace", "uniform"])
def test_the_last_sum_of_fast_noise_has_a_bound_of_its_own(law):
    """Noise of a few steps of the grid is known to 2^-66 steps. Onto a public value of 2^51 steps it is added in parts,
    whose rounding is all that is left open near a tie. Rows that are called certain are those of balls."""
    d, n = 1, 1200
    rng, count = np.random.default_rng(3), exact_noise.UNIFORMS[law](d)
    raw = rng.bytes(12 * n * count)
    words = [int.from_bytes(raw[k : k + 12], "big") for k in range(0, len(raw), 12)]
    base = np.floor(2.0 ** rng.uniform(50, 53, size=(n, d))) + rng.choice([0.0, 0.25, 0.5], size=(n, d))
    value = np.empty((n, d))
    for i in range(n):
        (z,) = exact_noise._SHAPES[law]([arb((2 * w + 1, -97)) for w in words[i * count : (i + 1) * count]], d)
        value[i] = float(arb(0.5) - z) + rng.choice([-1, 1]) * 2.0 ** -rng.uniform(51, 56)
    one = np.ones((n, 1))
    found, certain = fast_noise.rounded(law, raw, value, base, one, one)
    for i in np.flatnonzero(certain):
        exact = exact_noise.rounded(law, words[i * count : (i + 1) * count], 96, value[i], base[i], 1.0, 1.0)
        assert exact is not None
        assert np.array_equal(exact, found[i])
    assert 0 < certain.sum() < n  # it knows what it does not know


# Losses that count as infinite


@pytest.mark.parametrize("steps", [1, 40, 700])
def test_what_all_steps_on_samples_lose_in_their_tails_is_a_millionth_of_delta(monkeypatch, steps):
    """Together, not each; and it is taken off the delta of the rest."""
    tails, rests, delta = [], [], 1e-5
    honest, composed = sampling.largest_loss, accounting._composed

    def largest(event, tail):
        tails.append(tail)
        return honest(event, tail)

    def rest(spent, precision, interval, largest, delta):
        rests.append(delta)
        return composed(spent, precision, interval, largest, delta)

    monkeypatch.setattr(sampling, "largest_loss", largest)
    monkeypatch.setattr(accounting, "_composed", rest)
    accounting.totals({SampledGaussian(2.0, 0.05): steps, SampledGaussian(3.0, 0.05): 1}, delta)
    assert len(tails) == 2
    assert tails[0] * steps + tails[1] == pytest.approx(1e-6 * delta, rel=1e-9, abs=0)
    fft = 1e-15 * max(100, steps + 1)
    assert len(rests) >= 1
    assert all(each == pytest.approx((1 - 1e-6) * delta - fft, rel=1e-9, abs=1e-22) for each in rests)


def test_several_classes_have_a_rounding_for_each_class():
    """20 classes: 36 roundings of a slope, 9 more of a margin."""
    given = tacit.Facts(sizes=[1000], dimension=5 * 20, loss=Multinomial(20), scale=2.0, l2=0.1, radius=100.0)
    assert gradient_error(given, 100.0).item() == pytest.approx(1.5558091637710536e-12, rel=PRECISE, abs=0)
