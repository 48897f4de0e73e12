"""Noise in pairs of doubles: errors within what is proven, and the very numbers that balls give from the same bits."""

import ctypes
import ctypes.util
import os
import pickle
import platform
import struct
import sys

import numpy as np
import pytest
from flint import arb, ctx

from tacit.errors import InputError
from tacit.privacy import exact_noise, fast_noise, head_tail, noise
from tacit.privacy.head_tail import LOG_ERROR, TURN_ERROR, Pair, Words
from tacit.privacy.noise import SecureNoise

LAWS = ("spherical", "gaussian", "laplace", "uniform")
INPUTS = 5000 if "TACIT_DRAWS" not in os.environ else 100_000  # `make statistics` takes more


@pytest.fixture(autouse=True)
def precise():
    with ctx.workprec(256):
        yield


def numbers(seed, count=INPUTS):
    """Words of 96 bits: uniform ones, small ones, those near 1, near the ends of every table's pieces, and patterns."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, size=(3, count))
    part = count // 10
    words[0, :part] >>= rng.integers(0, 21, size=part)
    words[0, part : 2 * part] = 2**32 - 1 - (words[0, part : 2 * part] >> rng.integers(8, 33, size=part))
    words[0, 2 * part : 3 * part] = (rng.integers(0, 4096, size=part) << 20) - rng.integers(0, 2, size=part)
    words[1, 2 * part : 3 * part] = rng.choice([0, 1, 2**32 - 1], size=part)
    words[:, 3 * part : 4 * part] = rng.choice([0, 1, 2**11, 2**31, 2**32 - 1], size=(3, part))
    return np.abs(words)


def exact(words):
    """The middles of what the words leave open."""
    whole = (words[0].astype(object) << 64) + (words[1].astype(object) << 32) + words[2].astype(object)
    return [arb((2 * int(w) + 1, -97)) for w in whole]


def distance(found, truth):
    """The largest |head + tail - truth|."""
    heads, tails = (np.broadcast_to(part, len(truth)).tolist() for part in found)
    return max(float(abs(arb(h) + arb(t) - x)) for h, t, x in zip(heads, tails, truth, strict=True))


def test_the_logarithm_is_as_close_as_is_proven_and_no_closer_than_it_must_be():
    """The bound holds, and one that is 2^10 times smaller is found out."""
    words = numbers(0)
    words[0] = np.maximum(words[0], 2**12)
    head, tail, error = head_tail.minus_log(Words(*words))
    off = distance((head, tail), [-x.log() for x in exact(words)])
    assert LOG_ERROR * 2**-10 < off <= LOG_ERROR - 2.0**-76.9  # which are for the bits that are not known
    assert np.all(error == LOG_ERROR)
    np.testing.assert_array_equal(head * 2**38, np.round(head * 2**38))
    assert np.abs(head).max() < 16
    assert np.abs(tail).max() < 2.0**-23


def test_nothing_is_said_of_the_logarithm_of_a_small_number():
    words = Words(*(np.array([[0, 2**12 - 1, 2**12], [2**32 - 1] * 3, [0] * 3])))
    assert head_tail.minus_log(words)[2].tolist() == [np.inf, np.inf, LOG_ERROR]


def test_sines_and_cosines_are_as_close_as_is_proven_and_no_closer_than_they_must_be():
    words = numbers(1)
    found = head_tail.turned(Words(*words))
    sines, cosines = zip(*((2 * x).sin_cos_pi() for x in exact(words)), strict=True)
    for (head, tail), truth in zip(found, (cosines, sines), strict=True):
        assert TURN_ERROR * 2**-10 < distance((head, tail), truth) <= TURN_ERROR
        np.testing.assert_array_equal(head * 2**26, np.round(head * 2**26))
        assert np.abs(head).max() <= 1
        assert np.abs(tail).max() < 2.0**-25


def test_products_roots_and_quotients_are_as_close_as_is_proven():
    rng = np.random.default_rng(2)

    def some(tail):
        x = rng.uniform(1, 2, size=2000) * 2.0 ** rng.integers(-20, 20, size=2000)
        return x, rng.uniform(-tail, tail, size=2000) * x

    def pairs():
        x, rest = some(2.0**-25)
        return Pair(head_tail.cut(x), rest)

    def relative(found, truth):
        return max(
            float(abs((arb(h) + arb(t)) / x - 1))
            for h, t, x in zip(found.head.tolist(), found.tail.tolist(), truth, strict=True)
        )

    def values(head, tail):
        return [arb(h) + arb(t) for h, t in zip(head.tolist(), tail.tolist(), strict=True)]

    a, b, x, y = pairs(), pairs(), some(2.0**-2.1), some(2.0**-24)
    both = zip(values(*a), values(*b), strict=True)
    assert 2.0**-84 < relative(head_tail.times(a, b), [p * q for p, q in both]) <= 2.0**-74
    assert 2.0**-85 < relative(head_tail.root(*x), [p.sqrt() for p in values(*x)]) <= 2.0**-75
    both = zip(values(*y), values(*a), strict=True)
    assert 2.0**-84 < relative(head_tail.over(*y, a), [p / q for p, q in both]) <= 2.0**-74
    s, lost = head_tail.two_sum(x[0], y[0])
    assert all(p == q + r for p, q, r in zip(values(s, lost), values(x[0], 0 * s), values(y[0], 0 * s), strict=True))


@pytest.mark.parametrize("k", [1, 7, 3000])
def test_sums_are_as_close_as_is_proven(k):
    words = numbers(3, 3 * k).reshape(3, 3, k)
    words[0] = np.maximum(words[0], 2**12)
    head, tail, error = head_tail.minus_log(Words(*words))
    total, rest, off = fast_noise._total(head, tail, error)
    rows = zip(head.tolist(), tail.tolist(), strict=True)
    truth = [sum((arb(h) + arb(t) for h, t in zip(*row, strict=True)), arb(0)) for row in rows]
    assert distance((total[:, 0], rest[:, 0]), truth) <= k * k * 2.0**-99
    assert np.all(off[:, 0] >= k * LOG_ERROR)


class Bits:
    """Random bytes in place of the CSPRNG's. The bits behind the first ones of a number do not depend on the order in
    which they are asked for: they are all the same."""

    def __init__(self, seed, count, planted=()):
        self.rng, self.more, self.refined, self.planted = np.random.default_rng(seed), 8 * count, 0, list(planted)

    def __call__(self, size):
        if size == self.more:
            self.refined += 1
            return b"\x5a" * size
        raw = bytearray(self.rng.bytes(size))
        for place, pattern in self.planted:
            raw[12 * place : 12 * place + 12] = pattern
        return bytes(raw)


class Watched:
    """`fast_noise.rounded`, which counts the rows and those that it leaves open."""

    def __init__(self, monkeypatch):
        self.rows = self.open = 0
        self._rounded = fast_noise.rounded
        monkeypatch.setattr(fast_noise, "rounded", self)

    def __call__(self, *how):
        points, certain = self._rounded(*how)
        self.rows, self.open = self.rows + len(certain), self.open + int((~certain).sum())
        return points, certain


def both_ways(monkeypatch, law, value, scale, grid, onto=None, planted=(), seed=0):
    """The same draw in pairs of doubles and in balls, as bytes."""
    count, found = exact_noise.UNIFORMS[law](value.shape[1]), []
    for fast in (True, False):
        monkeypatch.setattr(noise, "_FEW", 0)
        monkeypatch.setattr(head_tail, "rounds_to_nearest", lambda fast=fast: fast)
        source = SecureNoise(grid=grid, random_bytes=Bits(seed, count, planted))
        found.append(source.add(law, value, scale, np.arange(len(value)), 0, onto=onto))
    return found


def same(a, b):
    return np.array_equal(a.view(np.int64), b.view(np.int64))  # to the sign of zero


@pytest.mark.parametrize("d", [1, 2, 3, 101])
@pytest.mark.parametrize("law", LAWS)
def test_blocks_are_what_balls_are(monkeypatch, law, d):
    """Scales from 1e-6 to 1e9, grids fine and coarse, values of all sizes, public values beneath, several blocks."""
    rng = np.random.default_rng(d)
    watched, n = Watched(monkeypatch), 12
    monkeypatch.setattr(noise, "_BLOCK", 5 * exact_noise.UNIFORMS[law](d))
    sizes = np.array([0, 1, 1, 1e-3, 1, 1e4, 1e4, 1e8, 1e20, 1e300, -1e300, 1])[:, None]
    grids = [2.0**-36] if d > 100 else [2.0**-36, 2.0**-3, 2.0**5]
    for grid in grids:
        scale = 10.0 ** rng.permutation(np.linspace(-6, 9, n))[:, None]
        value = rng.normal(size=(n, d)) * sizes
        onto = None if grid == 2.0**-3 else rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 9, size=(n, 1))
        assert same(*both_ways(monkeypatch, law, value, scale, grid, onto, seed=d))
    assert watched.rows == len(grids) * n
    assert watched.open < watched.rows / 2  # the two rows of 1e300, and few besides


@pytest.mark.parametrize("law", LAWS)
def test_extreme_bits_are_left_to_balls(monkeypatch, law):
    """Numbers next to 0 and to 1, and angles at the ends of a turn."""
    patterns = [b"\0" * 12, b"\xff" * 12, b"\0" * 11 + b"\1", b"\x80" + b"\0" * 11, b"\0" * 6 + b"\xff" * 6]
    value = np.random.default_rng(5).normal(size=(1, 5))
    for pattern in patterns:
        for place in (range(99), *([k] for k in range(exact_noise.UNIFORMS[law](5)))):
            planted = [(k, pattern) for k in place if k < exact_noise.UNIFORMS[law](5)]
            if law == "spherical" and len(planted) > 1:
                continue  # a vector of zeros has no direction: all bits the same never end
            assert same(*both_ways(monkeypatch, law, value, 0.7, 2.0**-36, planted=planted))


def near_ties(law, d, rows, delta, seed):
    """Values under which the sum, in steps, is `delta` from the middle between two points of the grid. Two doubles,
    value and onto, have the 106 bits for that."""
    unit, grid, count = 1.2345 * 2.0**50, 2.0**-36, exact_noise.UNIFORMS[law](d)
    raw = Bits(seed, count)(rows * count * 12)
    words = [int.from_bytes(raw[k : k + 12], "big") for k in range(0, len(raw), 12)]
    value, onto = np.empty((rows, d)), np.empty((rows, d))
    for i in range(rows):
        uniforms = [arb((2 * w + 1, -97)) for w in words[i * count : (i + 1) * count]]
        for j, z in enumerate(exact_noise._SHAPES[law](uniforms, d)):
            missing = arb(7919 * i + j) + arb(0.5) + arb(delta[i, j]) - z * arb(unit)
            value[i, j] = float(missing)
            onto[i, j] = float(missing - arb(value[i, j]))
    return value * grid, unit * grid, grid, onto * grid


def deltas(rows, d, seed, most=2):
    """Distances from a tie of 2^-36 to 2^-most steps, where the bound is of about 2^-20."""
    rng = np.random.default_rng(seed)
    return 2.0 ** -rng.uniform(most, 36, size=(rows, d)) * rng.choice([-1, 1], size=(rows, d))


@pytest.mark.parametrize("d", [1, 3, 4])
@pytest.mark.parametrize("law", LAWS)
def test_near_ties_are_rounded_as_balls_are(monkeypatch, law, d):
    watched, rows = Watched(monkeypatch), 300 // d
    assert same(*both_ways(monkeypatch, law, *near_ties(law, d, rows, deltas(rows, d, 1), seed=4), seed=4))
    assert rows / 10 < watched.open < rows  # some were left open, some were not


@pytest.mark.parametrize("law", LAWS)
def test_closer_than_the_bits_tell(monkeypatch, law):
    """Within 2^-50 of a tie the 96 bits do not decide: both ways ask for more, and for the same."""
    case = near_ties(law, 2, 4, np.full((4, 2), 2.0**-50), seed=6)
    count, found = exact_noise.UNIFORMS[law](2), []
    for fast in (True, False):
        monkeypatch.setattr(noise, "_FEW", 0)
        monkeypatch.setattr(head_tail, "rounds_to_nearest", lambda fast=fast: fast)
        bits = Bits(6, count)
        value, scale, grid, onto = case
        source = SecureNoise(grid=grid, random_bytes=bits)
        found.append(source.add(law, value, scale, np.arange(4), 0, onto=onto))
        assert bits.refined >= 4
    assert same(*found)


@pytest.mark.parametrize("law", ["spherical", "gaussian", "laplace"])
def test_a_bound_that_is_too_small_is_found_out(monkeypatch, law):
    """By a factor of 2^10. (The bound of uniform noise is hidden behind that of the sum.)"""
    true = fast_noise._LAWS[law]

    def short(words, d, unit):
        steps = true(words, d, unit)
        return steps._replace(error=steps.error * 2.0**-10)

    monkeypatch.setitem(fast_noise._LAWS, law, short)
    assert not same(*both_ways(monkeypatch, law, *near_ties(law, 1, 600, deltas(600, 1, 2, 24), seed=7), seed=7))


def test_a_source_with_a_state_is_not_copied():
    """Two copies would give the same noise."""
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="two copies could give the same noise"):
        pickle.dumps(SecureNoise(random_bytes=rng.bytes))
    copied = pickle.loads(pickle.dumps(SecureNoise(grid=2.0**-20)))
    assert copied.grid == 2.0**-20
    rows = [each.draw("gaussian", 1.0, 4, np.arange(2), 0) for each in (copied, copied, SecureNoise())]
    assert len({row.tobytes() for row in rows}) == 3


@pytest.mark.parametrize("law", ["spherical", "gaussian", "laplace"])
def test_bits_that_are_used_twice_are_found_out(monkeypatch, law):
    every = fast_noise._every_other
    monkeypatch.setattr(fast_noise, "_every_other", lambda words, first: every(words, 0))
    assert not same(*both_ways(monkeypatch, law, np.zeros((5, 4)), 1.0, 2.0**-36))


def test_a_grid_that_is_no_power_of_two_is_left_to_balls():
    value, unit = np.zeros((2, 3)), np.ones((2, 1))
    raw = np.random.default_rng(0).bytes(2 * 4 * 12)
    for step, certain in ((0.25, True), (0.1, False)):
        assert fast_noise.rounded("gaussian", raw, value, value, unit, unit * step)[1].tolist() == [certain] * 2


def test_a_grid_so_fine_that_denormal_numbers_count_is_left_to_balls():
    """A processor that takes them for zero would move a value by whole steps."""
    value, unit = np.zeros((2, 3)), np.ones((2, 1))
    raw = np.random.default_rng(0).bytes(2 * 4 * 12)
    for step, certain in ((2.0**-90, True), (2.0**-1000, False)):
        assert fast_noise.rounded("gaussian", raw, value, value, unit * step, unit * step)[1].tolist() == [certain] * 2


class Processor:
    """The control word of the processor's floating-point unit (x86-64 with the GNU C library)."""

    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("m"))
        self.before = ctypes.create_string_buffer(32)
        self.library.fegetenv(self.before)

    def __enter__(self):
        return self

    def set(self, bits):
        changed = bytearray(self.before.raw)
        struct.pack_into("<I", changed, 28, struct.unpack_from("<I", changed, 28)[0] | bits)
        self.library.fesetenv(ctypes.create_string_buffer(bytes(changed), 32))

    def __exit__(self, *_):
        self.library.fesetenv(self.before)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not sys.platform.startswith("linux"), reason="sets registers of x86-64"
)
def test_another_mode_of_the_processor_changes_nothing(monkeypatch):
    """Libraries change it behind one's back: denormal numbers as zero, or another direction of rounding, in which pairs
    of doubles are not used."""
    watched, value, found = Watched(monkeypatch), np.full((20, 5), 0.3), []
    tiny = np.full(1, 2.0**-1060)
    for bits in (0, 1 << 15 | 1 << 6, 1 << 13, 2 << 13, 3 << 13):
        with Processor() as processor:
            processor.set(bits)
            flushed, nearest = (tiny * 1.5 == 0).all(), head_tail.rounds_to_nearest()
            source = SecureNoise(random_bytes=np.random.default_rng(1).bytes)
            found.append(source.add("gaussian", value, 0.7, np.arange(20), 0))
        assert flushed == (bits == 1 << 15 | 1 << 6)
        assert nearest == (bits < 1 << 13 or bits > 1 << 15)
    assert watched.rows == 40
    assert all(same(found[0], other) for other in found)
