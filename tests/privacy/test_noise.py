"""Noise: the right laws, exactly, and testers that would notice wrong ones.

Every statistical test here has a false-alarm rate below 1e-6: it fails when a p-value falls below 1e-6 divided by the
number of p-values that it looks at. Next to each stands the same test on a planted bug, which has to fail.
"""

import math
import os

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit.errors import InputError
from tacit.privacy.noise import RecordedNoise, SecureNoise, SeededNoise

LAWS = ("spherical", "gaussian", "laplace")
ALARM = 1e-6
DRAWS, D = int(os.environ.get("TACIT_DRAWS", "16000")), 4  # `make statistics` takes 250,000: a million coordinates
ERROR = 12 / math.sqrt(DRAWS)  # of a scale that is found out but once in 1e8 times: 9.5 percent, or 2.4
IDS = np.arange(1)


def p_values(law, z, scale):
    """Of the hypothesis that the rows of z, (n, d), are draws of that law and scale."""
    z = z / scale
    d = z.shape[1]
    if law == "gaussian":
        return [stats.kstest(z.ravel(), stats.norm.cdf).pvalue, *_independent(z)]
    if law == "laplace":
        return [stats.kstest(z.ravel(), stats.laplace.cdf).pvalue, *_independent(z)]
    radius = np.linalg.norm(z, axis=1)
    direction = z / radius[:, None]
    return [
        stats.kstest(radius, stats.gamma(d).cdf).pvalue,
        # Every coordinate, and a slanted direction, of a uniform unit vector: (1 + u)/2 is Beta((d-1)/2, (d-1)/2).
        *(stats.kstest((1 + u) / 2, stats.beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue for u in direction.T),
        stats.kstest((1 + direction.sum(axis=1) / math.sqrt(d)) / 2, stats.beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue,
        stats.spearmanr(radius, direction[:, 0]).pvalue,
    ]


def _independent(z):
    return [stats.spearmanr(z[:, j], z[:, j + 1]).pvalue for j in range(z.shape[1] - 1)]


def looks_right(law, z, scale):
    found = p_values(law, z, scale)
    return min(found) > ALARM / len(found)


def many(source, law, scale, draws=DRAWS, d=D):
    """draws x d noise: one agent after the other, so that streams of different agents are pooled."""
    return source.draw(law, scale, d, np.arange(draws), t=3)


@pytest.fixture(scope="module")
def secure():
    return {law: many(SecureNoise(), law, 0.7) for law in LAWS}


@pytest.mark.parametrize("law", LAWS)
def test_secure_noise_has_its_law(secure, law):
    assert looks_right(law, secure[law], 0.7)


@pytest.mark.parametrize("law", LAWS)
def test_seeded_noise_has_its_law(law):
    assert looks_right(law, many(SeededNoise(1), law, 0.7), 0.7)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("error", [1 - ERROR, 1 + ERROR], ids=["small", "large"])
def test_the_tester_rejects_a_scale_that_is_a_little_off(secure, law, error):
    assert not looks_right(law, secure[law] * error, 0.7)


def test_the_tester_rejects_a_wrong_direction():
    """Directions from a cube instead of a ball, and radii of the right law: a classical mistake."""
    rng = np.random.default_rng(0)
    cube = rng.uniform(-1, 1, size=(DRAWS, D))
    wrong = cube / np.linalg.norm(cube, axis=1, keepdims=True) * rng.gamma(D, size=(DRAWS, 1))
    assert not looks_right("spherical", wrong, 1.0)


def test_the_tester_rejects_a_radius_of_the_wrong_shape(secure):
    """Gamma(d-1) instead of Gamma(d), and a Laplace in place of a Gaussian of the same variance."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(DRAWS, D))
    wrong = z / np.linalg.norm(z, axis=1, keepdims=True) * rng.gamma(D - 1, size=(DRAWS, 1))
    assert not looks_right("spherical", wrong, 1.0)
    assert not looks_right("gaussian", secure["laplace"] / (0.7 * math.sqrt(2)), 1.0)


def test_the_tester_rejects_noise_that_repeats():
    z = np.random.default_rng(0).normal(size=(DRAWS, D))
    z[:, 1] = z[:, 0]
    assert not looks_right("gaussian", z, 1.0)


@pytest.mark.parametrize("law", LAWS)
def test_secure_results_lie_on_the_grid(law):
    grid = 2.0**-10
    z = SecureNoise(grid=grid).add(law, np.full((20, 3), 0.123456), 0.01, np.arange(20), 0)
    np.testing.assert_array_equal(z / grid, np.round(z / grid))
    assert len(np.unique(z)) > 3


class FixedBytes:
    """A stand-in for the CSPRNG: replays given bytes, then zeros; counts what was asked for."""

    def __init__(self, seed):
        self.rng, self.asked = np.random.default_rng(seed), 0

    def __call__(self, n):
        self.asked += 1
        return self.rng.bytes(n)


@pytest.mark.parametrize("law", LAWS)
def test_more_bits_are_drawn_until_the_rounding_is_certain(law):
    """With 8 bits to begin with almost every rounding is open at first, and yet the law comes out right."""
    source = SecureNoise(grid=2.0**-20, random_bytes=(stub := FixedBytes(0)), bits=8)
    z = np.concatenate([source.draw(law, 1.0, D, IDS, 0) for _ in range(4000)])
    assert stub.asked > 7000  # refined, nearly always
    assert looks_right(law, z, 1.0)


def test_refinement_keeps_the_bits_it_has():
    """The first bits decide: a result from 8 + 64 + ... bits is the one that all of those bits at once would give."""
    for seed in range(20):
        first = np.random.default_rng(seed).bytes(2)
        rest = os.urandom(400)

        def coarse(n, state=[], first=first, rest=rest):  # noqa: B006
            state.append(n)
            done = sum(state[1:-1])
            return first if len(state) == 1 else rest[done : done + n]

        small = SecureNoise(bits=8, random_bytes=coarse).draw("laplace", 1.0, 1, IDS, 0)
        words = [first[k : k + 1] + rest[8 * k : 8 * k + 8] for k in range(2)]
        large = SecureNoise(bits=72, random_bytes=lambda n, w=words: b"".join(w)).draw("laplace", 1.0, 1, IDS, 0)
        np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize("public", [0.0, 60000.0])
def test_rounding_is_that_of_the_exact_sum(public):
    """Against 200-digit arithmetic: round(public + value + Z) with Z from the very same bits. The public part does not
    swallow digits of the value."""
    bits = 36 if public else 30
    for seed in range(50):
        raw = np.random.default_rng(seed).bytes(24)
        value = (1e-3 if public else 1e3) * np.random.default_rng(seed + 99).normal(size=(1, 1))
        source = SecureNoise(grid=2.0**-bits, random_bytes=lambda n, raw=raw: raw)
        found = source.add("laplace", value, 0.3, IDS, 0, onto=np.full((1, 1), public))
        with mpmath.workdps(200):
            u, v = (mpmath.mpf(int.from_bytes(raw[k : k + 12], "big")) / 2**96 for k in (0, 12))
            exact = public + mpmath.mpf(float(value[0, 0])) + mpmath.mpf(0.3) * (mpmath.log(v) - mpmath.log(u))
            assert int(mpmath.floor(exact * 2**bits + mpmath.mpf(1) / 2)) == int(found[0, 0] * 2**bits)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("d", [1, 3])
def test_odd_dimensions_and_scales_of_their_own(law, d):
    """Agents with scales of their own, in dimensions that leave half a pair of normals over."""
    n = 6000
    scales = np.where(np.arange(n) % 2, 5.0, 0.2)[:, None]
    for source in (SecureNoise(), SeededNoise(2)):
        z = source.draw(law, scales, d, np.arange(n), 0)
        found = []
        for odd in (0, 1):
            part = z[odd::2] / scales[odd]
            if d == 1 and law == "spherical":
                found.append(stats.kstest(part.ravel(), stats.laplace.cdf).pvalue)  # a sign and a Gamma(1)
            else:
                found += p_values(law, part, 1.0)
                found += [stats.spearmanr(part[:, 0], part[:, 2]).pvalue] if d == 3 else []
        assert min(found) > ALARM / len(found)


def test_masks_are_spherical():
    ids = np.arange(6000)
    for source in (SecureNoise(), SeededNoise(3)):
        value = np.full((6000, 4), 2.5)
        assert looks_right("spherical", source.mask("spherical", value, 0.3, ids, 0) - value, 0.3)
        assert looks_right("gaussian", source.add("gaussian", value, 0.3, ids, 0) - value, 0.3)


def test_secure_noise_refuses_what_it_cannot_do_exactly():
    with pytest.raises(InputError, match="power of two"):
        SecureNoise(grid=0.1)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="positive, finite scale"):
            SecureNoise().draw("gaussian", bad, 2, IDS, 0)
    for bits in (0, -8, 100):
        with pytest.raises(InputError, match="multiple of 8"):
            SecureNoise(bits=bits)
    with pytest.raises(InputError, match="instead of"):
        SecureNoise(random_bytes=lambda n: b"short").draw("gaussian", 1.0, 2, IDS, 0)
    with pytest.raises(InputError, match="law of noise"):
        SeededNoise(0).draw("normal", 1.0, 2, IDS, 0)
    with pytest.raises(InputError, match="finite values"):
        SecureNoise().add("gaussian", np.array([[math.nan]]), 1.0, IDS, 0)


def test_a_value_beyond_the_grid_leaves_as_its_end():
    """That a value is large is no reason to fail: what a neighbour may know of it is what the noise lets through."""
    source = SecureNoise(random_bytes=FixedBytes(3))
    ends = source.add("gaussian", np.array([[1e300, -1e300, 2.0**17 + 99.0]]), 1.0, IDS, 0)
    np.testing.assert_array_equal(ends, [[2.0**17, -(2.0**17), 2.0**17]])
    fine = SecureNoise(grid=2.0**-50).add("gaussian", np.full((1, 1), 1e6), 1.0, IDS, 0)
    np.testing.assert_array_equal(fine, [[8.0]])


@pytest.mark.parametrize("law", LAWS)
def test_no_public_value_swallows_the_noise(law):
    """In the linear term of an objective, and under a value that leaves: the noise is there in all its digits."""
    source, n, d, big = SecureNoise(random_bytes=FixedBytes(8)), 3000, D, 60000.0
    ids, value = np.arange(n), np.full((n, d), big)
    assert looks_right(law, source.perturb(law, value, 0.25, 4e-3, ids, 0, source.grid) - value, 1e-3)
    assert looks_right(law, source.add(law, np.full((n, d), -1e-3), 1e-3, ids, 0, onto=value) - (big - 1e-3), 1e-3)


def test_seeded_noise_is_keyed_by_seed_agent_tick_and_use():
    source = SeededNoise(5)
    whole = source.draw("spherical", 1.0, 6, np.arange(10), t=2)
    np.testing.assert_array_equal(SeededNoise(5).draw("spherical", 1.0, 6, np.array([7, 3]), t=2), whole[[7, 3]])
    others = [
        SeededNoise(6).draw("spherical", 1.0, 6, np.arange(10), t=2),
        source.draw("spherical", 1.0, 6, np.arange(10), t=3),
        source.draw("spherical", 1.0, 6, np.arange(10, 20), t=2),
        source.add("spherical", np.zeros((10, 6)), 1.0, np.arange(10), t=2),
        source.mask("spherical", np.zeros((10, 6)), 1.0, np.arange(10), t=2),
    ]
    for other in others:
        assert np.abs(other - whole).min() > 0
    scaled = source.draw("spherical", np.arange(1, 11)[:, None], 6, np.arange(10), t=2)
    np.testing.assert_allclose(scaled, whole * np.arange(1, 11)[:, None])
    with pytest.raises(InputError, match="seed"):
        SeededNoise(-1)


@pytest.mark.parametrize("law", LAWS)
def test_seeded_noise_of_different_uses_has_nothing_in_common(law):
    """The noise in an objective, on a value and on a minimiser, of the same agents in the same tick."""
    ids, source = np.arange(10), SeededNoise(5)
    draws = [source.draw(law, 1.0, 6, ids, t=2, tag=tag) for tag in (0, 1, 2)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(draws[i] - draws[j]).min() > 0
    zero = np.zeros((10, 6))
    np.testing.assert_array_equal(source.draw(law, 1.0, 6, ids, t=2), draws[0])
    np.testing.assert_array_equal(source.add(law, zero, 1.0, ids, t=2), draws[1])
    np.testing.assert_array_equal(source.mask(law, zero, 1.0, ids, t=2), draws[2])


def test_recorded_noise_replays():
    array = np.random.default_rng(0).normal(size=(3, 5, 2))
    source = RecordedNoise(array)
    np.testing.assert_array_equal(source.draw("spherical", 9.0, 2, np.array([4, 1]), t=1), array[1, [4, 1]])
    np.testing.assert_array_equal(
        source.add("gaussian", np.ones((2, 2)), 9.0, np.array([0, 2]), t=0), 1 + array[0, [0, 2]]
    )
    np.testing.assert_array_equal(
        source.mask("spherical", np.ones((2, 2)), 9.0, np.array([0, 2]), t=0), np.ones((2, 2))
    )
    for step, ids, d in ((3, [0], 2), (-1, [0], 2), (0, [5], 2), (0, [-1], 2), (0, [0], 3)):
        with pytest.raises(InputError, match="recorded noise of shape"):
            source.draw("spherical", 1.0, d, np.array(ids), t=step)


def test_only_secure_noise_may_be_called_private():
    assert SecureNoise().private
    assert not SeededNoise(0).private
    assert not RecordedNoise(np.zeros((1, 1, 1))).private
