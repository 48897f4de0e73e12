"""The variance and the fourth moment of every way in which noise is drawn.

A sum of n independent terms is taken for wrong if it is more than six deviations away from its mean. For a normal sum
that has a probability of 2e-9; these are skewed a little, and stay far below 1e-6 for each test. A variance that is off
by 5% lies twice as far out or more: it is planted, and found. Balls take long: they get points that fill the cube
evenly (Sobol's), whose means are known to be within 1%, without any chance.
"""

import math

import numpy as np
import pytest
from scipy.stats import qmc

from tacit.privacy import exact_noise, head_tail
from tacit.privacy.noise import SecureNoise, SeededNoise

N, D = 100_000, 4
LAWS = ("gaussian", "laplace", "spherical", "uniform")
IDS = np.arange(N)
TAILS = 0.06  # of the fourth moment of Laplace noise: what lies beyond the outermost of 4,096 points


def moments(law, d):
    """Of the draws of scale 1: what is summed up, and E of it to the powers 1, 2 and 4: independent terms.

    For the spherical law it is the squared radius, a Gamma(d) number r: E r^k = d (d + 1) ... (d + k - 1).
    """
    if law == "spherical":
        rising = [math.prod(range(d, d + k)) for k in (2, 4, 8)]
        return (lambda z: (z**2).sum(axis=1)), rising
    if law == "uniform":  # from its middle: E (u - 1/2)^2k = 1/((2k + 1) 4^k)
        return (lambda z: ((z - 0.5) ** 2).ravel()), [1 / 12, 1 / 80, 1 / (9 * 256)]
    return (lambda z: (z**2).ravel()), [1, 3, 105] if law == "gaussian" else [2, 24, math.factorial(8)]


def deviations(law, z):
    """How many deviations the second and the fourth moment of draws of scale 1, (n, d), are away from the law's."""
    squares, (second, fourth, eighth) = moments(law, z.shape[1])
    square = squares(z)
    n = len(square)
    return (
        (square.mean() - second) / math.sqrt((fourth - second**2) / n),
        ((square**2).mean() - fourth) / math.sqrt((eighth - fourth**2) / n),
    )


def looks_right(law, z):
    return np.max(np.abs(deviations(law, z))) <= 6


def draws(source, way, law, scale=0.7, t=0):
    """(N, D) of a source's noise in one of its four ways, of scale 1."""
    zero = np.zeros((N, D))
    if way == "draw":
        z = source.draw(law, scale, D, IDS, t)
    elif way == "perturb":
        return source.perturb(law, zero, 2.0, scale, IDS, t, 2.0**-36) / (2 * scale)
    elif way == "add":
        z = source.add(law, zero, scale, IDS, t, onto=zero)
    else:
        z = source.mask(law, zero, np.full((N, 1), scale), IDS, t)
    return z / scale


@pytest.mark.parametrize("way", ["draw", "perturb", "add", "mask"])
@pytest.mark.parametrize("law", LAWS)
def test_seeded_noise_has_the_moments_of_its_law(law, way):
    assert looks_right(law, draws(SeededNoise(5), way, law))


@pytest.mark.parametrize("law", LAWS)
def test_secure_noise_has_the_moments_of_its_law(law):
    assert looks_right(law, draws(SecureNoise(), "add", law))


@pytest.mark.parametrize("law", LAWS)
def test_secure_noise_is_drawn_added_and_masked_in_one_way(law):
    """The same bytes give the same noise."""
    found = []
    for way in ("draw", "perturb", "add", "mask"):
        rng = np.random.default_rng(1)
        source, few = SecureNoise(random_bytes=rng.bytes), np.arange(50)
        zero = np.zeros((50, 3))
        found.append(
            {
                "draw": lambda s=source, few=few: s.draw(law, 0.5, 3, few, 0),
                "perturb": lambda s=source, few=few, zero=zero: s.perturb(law, zero, 2.0, 0.25, few, 0, s.grid),
                "add": lambda s=source, few=few, zero=zero: s.add(law, zero, 0.5, few, 0),
                "mask": lambda s=source, few=few, zero=zero: s.mask(law, zero, 0.5, few, 0),
            }[way]()
        )
    assert all(np.array_equal(found[0], each) for each in found[1:])
    assert found[0].any()


@pytest.mark.parametrize("law", LAWS)
def test_a_variance_that_is_off_by_a_twentieth_is_found(law):
    z = draws(SeededNoise(6), "draw", law)
    for factor in (0.95, 1.05):
        wrong = z * math.sqrt(factor) if law != "uniform" else 0.5 + (z - 0.5) * math.sqrt(factor)
        assert abs(deviations(law, wrong)[0]) > 9


def test_a_fourth_moment_that_is_off_is_found():
    """Normals of which one in a hundred is twice as wide, all of the right variance: tails that are too heavy."""
    z, rng = draws(SeededNoise(7), "draw", "gaussian"), np.random.default_rng(0)
    heavy = z * np.where(rng.random(z.shape) < 0.01, 2.0, 1.0) / math.sqrt(1.03)
    assert abs(deviations("gaussian", heavy)[0]) < 6 < deviations("gaussian", heavy)[1]


@pytest.mark.parametrize("fast", [True, False], ids=["pairs of doubles", "balls"])
@pytest.mark.parametrize("law", LAWS)
def test_both_ways_of_secure_noise_have_the_moments(monkeypatch, law, fast):
    """By integration over the cube of uniform numbers."""
    rows, d = 2**15 if fast else 2**12, 2
    count = exact_noise.UNIFORMS[law](d)
    points = qmc.Sobol(count, seed=np.random.default_rng(3)).random(rows)
    raw = b"".join(int(u * 2**96).to_bytes(12, "big") for u in points.ravel())
    place = [0]

    def planned(size):
        place[0] += size
        return raw[place[0] - size : place[0]]

    monkeypatch.setattr(head_tail, "rounds_to_nearest", lambda: fast)
    z = SecureNoise(random_bytes=planned).draw(law, 1.0, d, np.arange(rows), 0)
    squares, (second, fourth, _) = moments(law, d)
    square = squares(z)
    assert square.mean() == pytest.approx(second, rel=0.01)
    assert (square**2).mean() == pytest.approx(fourth, rel=0.01 if law in ("gaussian", "uniform") else TAILS)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.97])
@pytest.mark.parametrize("make", [SecureNoise, lambda: SeededNoise(5)], ids=["secure", "seeded"])
def test_records_join_a_sample_with_its_rate(make, rate):
    chosen = make().choose(rate, 40, np.arange(10_000), 0)
    off = (chosen.mean() - rate) / math.sqrt(rate * (1 - rate) / chosen.size)
    assert abs(off) <= 6
    per_record = chosen.mean(axis=0)
    assert np.abs(per_record - rate).max() <= 6 * math.sqrt(rate * (1 - rate) / 10_000)
