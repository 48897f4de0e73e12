"""Sources of noise: `SecureNoise` for anything real, `SeededNoise` for experiments, `RecordedNoise` for tests.

Four laws, each on R^d:

    spherical   density proportional to exp(-||z|| / scale): radius Gamma(d), direction uniform
    gaussian    independent N(0, scale^2)
    laplace     independent, density exp(-|z|/scale) / (2 scale)
    uniform     independent, on (0, scale): for random numbers that serve no privacy

A source offers `draw` (random numbers as they are), `perturb` (noise in the linear term of an objective), `add` (noise
on a value that leaves), `mask` (a little noise on a minimiser that leaves, to pay for its inexactness; see
`tacit.privacy.mechanisms`) and `choose` (a random sample of records). The first four take the scale as a number or as
(n, 1); all take the agents' ids and the tick, which key the stream.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import Philox, SeedSequence
from scipy.special import ndtri

from tacit.errors import InputError

LawName = Literal["spherical", "gaussian", "laplace", "uniform"]
Scale = float | np.ndarray
_FEW = 64  # uniform numbers that are sooner computed one by one
_BLOCK = 2**14  # uniform numbers that are computed at once, so that they stay in the processor's cache


class Noise(Protocol):
    """A source of noise for a block of agents."""

    @property
    def private(self) -> bool:
        """Whether a release with this noise may be called private."""
        ...

    @property
    def grid(self) -> float:
        """The step of the grid on which draws lie; 0 for no grid."""
        ...

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int, /) -> np.ndarray:
        """(n, count) of bool: each true with probability `rate`, independently."""
        ...

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, /) -> np.ndarray:
        """Random numbers of this law, (n, d)."""
        ...

    def perturb(
        self, law: LawName, value: np.ndarray, factor: Scale, scale: Scale, ids: np.ndarray, t: int, grid: Scale, /
    ) -> np.ndarray:
        """(n, d) public value plus factor times noise: the linear term of an objective. Where draws lie on a grid, this
        lies on that of step `grid`, a number or (n, 1)."""
        ...

    def add(
        self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int, /, onto: np.ndarray | None = None
    ) -> np.ndarray:
        """(n, d) value plus noise, as it leaves; `onto` is public and is also added."""
        ...

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int, /) -> np.ndarray:
        """(n, d) value plus the small noise that pays for an inexact minimiser."""
        ...


class _FloatNoise:
    """Noise that is added in floating point, and protects nothing."""

    private, grid = False, 0.0

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        """See `Noise`; `tag` separates uses that share agent and tick."""
        raise NotImplementedError

    def perturb(
        self, law: LawName, value: np.ndarray, factor: Scale, scale: Scale, ids: np.ndarray, t: int, grid: Scale
    ) -> np.ndarray:
        return value + factor * self.draw(law, scale, value.shape[1], ids, t)

    def add(
        self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        value = value if onto is None else onto + value
        return value + self.draw(law, scale, value.shape[1], ids, t, tag=1)


class SeededNoise(_FloatNoise):
    """Reproducible noise for experiments, keyed by (seed, agent, tick): blocks of any size draw the same.

    Whoever knows the seed can subtract the noise: a run with this noise is *not private*, and says so.

    >>> one, all = SeededNoise(7), SeededNoise(7)
    >>> z = all.draw("gaussian", 1.0, 3, ids=np.array([0, 1, 2]), t=5)
    >>> bool(np.all(one.draw("gaussian", 1.0, 3, ids=np.array([2]), t=5) == z[2:]))
    True
    """

    def __init__(self, seed: int) -> None:
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InputError(f"a seed is a whole number, 0 or more, not {seed!r}")
        self._philox = Philox(key=SeedSequence(int(seed)).generate_state(2, np.uint64))
        self._state = self._philox.state

    def _uniforms(self, ids: np.ndarray, t: int, tag: int, count: int) -> np.ndarray:
        """(n, count) uniforms in (0, 1). Philox is a function of a counter: of tag, tick, count, agent and place."""
        blocks = -(-count // 4)  # a counter gives four words
        words = np.empty((len(ids), 4 * blocks), dtype=np.uint64)
        for run in np.split(np.arange(len(ids)), np.flatnonzero(np.diff(ids) != 1) + 1):
            if len(run):  # agents with ids in a row lie in a row: one call for all of them
                self._state["state"]["counter"][:] = (int(ids[run[0]]) * blocks, count, t, tag)
                self._philox.state = self._state
                words[run] = self._philox.random_raw(len(run) * 4 * blocks).reshape(len(run), -1)
        return ((words[:, :count] >> np.uint64(11)) + 0.5) * 2.0**-53

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        return self._uniforms(ids, t, 3, count) < rate

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        scale = _column(scale)
        if law == "laplace":
            u = self._uniforms(ids, t, tag, 2 * dimension)
            return scale * np.log(u[:, :dimension] / u[:, dimension:])  # a difference of two exponentials
        if law == "gaussian":
            return scale * ndtri(self._uniforms(ids, t, tag, dimension))
        if law == "uniform":
            return scale * self._uniforms(ids, t, tag, dimension)
        if law != "spherical":
            raise InputError(f"a law of noise is spherical, gaussian, laplace or uniform, not {law!r}")
        u = self._uniforms(ids, t, tag, 2 * dimension)
        z = ndtri(u[:, :dimension])
        radius = -np.log(u[:, dimension:]).sum(axis=1, keepdims=True)  # Gamma(d)
        return scale * z * (radius / np.linalg.norm(z, axis=1, keepdims=True))

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int) -> np.ndarray:
        return value + self.draw(law, scale, value.shape[1], ids, t, tag=2)


class RecordedNoise(_FloatNoise):
    """Replays arrays of shape (noisy steps, N, d): the paper's noise symbol itself, for step-by-step comparisons; and
    samples of records, `chosen`, of shape (noisy steps, N, records). Where a method draws uniform numbers besides its
    noise, they are those of `uniform`, if given.

    It takes the place of the noise that the paper names, and adds no mask, which no paper has. Not private.

    >>> RecordedNoise(np.ones((1, 2, 3))).draw("spherical", 9.0, 3, ids=np.array([1]), t=0).tolist()
    [[1.0, 1.0, 1.0]]
    """

    def __init__(self, array: np.ndarray, chosen: np.ndarray | None = None, uniform: np.ndarray | None = None) -> None:
        self.array, self.chosen = np.asarray(array, dtype=float), chosen
        self._uniform = None if uniform is None else RecordedNoise(uniform)
        if self.array.ndim != 3:
            raise InputError(f"recorded noise has the shape (noisy steps, N, d), not {self.array.shape}")

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        """The sample that was recorded for this tick."""
        if self.chosen is None or not 0 <= t < len(self.chosen) or self.chosen.shape[2] != count:
            raise InputError(f"recorded noise has no sample of {count} records for step {t}: give it `chosen`")
        return np.asarray(self.chosen[t, ids], dtype=bool)

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        """The recorded rows; law and scale have been applied already, and all uses of a tick get the same."""
        if law == "uniform" and self._uniform is not None:
            return self._uniform.draw(law, scale, dimension, ids, t)
        steps, agents, d = self.array.shape
        known = np.all((np.asarray(ids) >= 0) & (np.asarray(ids) < agents))
        if not (0 <= t < steps and known and d == dimension):
            raise InputError(
                f"recorded noise of shape {self.array.shape} has no step {t} of dimension {dimension} "
                f"for agents {np.asarray(ids).tolist()}"
            )
        return self.array[t, ids]

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int) -> np.ndarray:
        """Returns the value as it is: recorded noise has no mask."""
        return value


class SecureNoise:
    """Noise for anything real: bits of the operating system's CSPRNG, and results exact on a grid.

    Floating-point noise leaks (Mironov 2012): which doubles can occur depends on the value under the noise. Here a
    noisy value is round(value + Z) on a fixed grid, where Z is the *real-valued* random variable: a function of
    infinitely many uniform bits, of which so many are drawn as the rounding of every coordinate needs. Whole blocks of
    rows are computed in pairs of doubles with proven bounds on their errors (`fast_noise`). The few rows that these
    bounds leave open, and blocks of a few numbers, are computed as balls, from the same bits and more
    (`exact_noise`): which of the two it was changes no result. So the result has exactly the law of the ideal mechanism
    followed by rounding, which is post-processing and costs nothing. The grid has 2^53 steps to either side; what lies
    beyond is moved to its end, which is post-processing, too: a large value does not end the run.

    How long a draw takes depends on the bits and on the value: a row that is left open takes longer. This is not
    protected.

    Other bytes than the operating system's (`random_bytes`) are for tests. A source that has a state would give the
    same noise to two processes: it cannot be sent to another one, and must not be used after a fork.
    """

    private = True

    def __init__(
        self, grid: float = 2.0**-36, random_bytes: Callable[[int], bytes] = os.urandom, bits: int = 96
    ) -> None:
        if bits <= 0 or bits % 8:
            raise InputError(f"bits are drawn in bytes: a positive multiple of 8, not {bits}")
        if not (grid > 0 and math.frexp(grid)[0] == 0.5):
            raise InputError(f"the grid is a power of two, so that its points are doubles; not {grid}")
        self.grid, self._random_bytes, self._bits = grid, random_bytes, bits

    def __reduce__(self) -> tuple[Any, ...]:
        if self._random_bytes is not os.urandom:
            raise InputError("noise from a source of its own cannot be copied: two copies could give the same noise")
        return SecureNoise, (self.grid, os.urandom, self._bits)

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        """See `Noise`. The probability is the multiple of 2^-64 at or below the rate."""
        words = np.frombuffer(self._random_bytes(8 * len(ids) * count), dtype="<u8").reshape(len(ids), count)
        return np.full(words.shape, True) if rate >= 1 else words < np.uint64(math.floor(rate * 2**64))

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int) -> np.ndarray:
        return self.add(law, np.zeros((len(ids), dimension)), scale, ids, t)

    def perturb(
        self, law: LawName, value: np.ndarray, factor: Scale, scale: Scale, ids: np.ndarray, t: int, grid: Scale
    ) -> np.ndarray:
        """See `Noise`. The sum is exact and then rounded, so that no large value swallows the noise. The
        rounding, grid * sqrt(d)/2, is paid for by a mask (`tacit.privacy.mechanisms.objective_perturbed`)."""
        return self._rounded(law, value, np.zeros_like(value), _column(factor) * _column(scale), _column(grid))

    def add(
        self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Noise`. All three are added exactly, and then rounded."""
        base = np.zeros_like(value) if onto is None else onto
        return self._rounded(law, value, base, _column(scale), _column(self.grid))

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int) -> np.ndarray:
        return self.add(law, value, scale, ids, t)

    def _rounded(
        self, law: LawName, value: np.ndarray, base: np.ndarray, scale: np.ndarray, step: np.ndarray
    ) -> np.ndarray:
        """round((base + value + Z) / step) * step, exactly; scale and step are columns."""
        from tacit.privacy import exact_noise, fast_noise  # interval arithmetic, 10 MB: only where noise is drawn
        from tacit.privacy.head_tail import rounds_to_nearest

        n, d = value.shape
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(base)) and np.all(np.isfinite(scale) & (scale > 0))):
            raise InputError("secure noise needs finite values and a positive, finite scale")
        value, base, out = np.asarray(value, dtype=float), np.broadcast_to(base, (n, d)), np.empty((n, d))
        scale, step = np.broadcast_to(scale, (n, 1)), np.broadcast_to(step, (n, 1))
        count = exact_noise.UNIFORMS[law](d)
        quick = self._bits == fast_noise.BITS and n * count >= _FEW and rounds_to_nearest()
        rows = max(1, _BLOCK // max(1, count))
        for block in (slice(k, k + rows) for k in range(0, n, rows)):
            v, b, s, g = value[block], base[block], scale[block], step[block]
            raw, certain = self._bytes(len(v) * count * (self._bits // 8)), np.full(len(v), False)
            if quick:
                out[block], certain = fast_noise.rounded(law, raw, v, b, s, g)
            words = _integers(raw, self._bits) if not certain.all() else []
            for i in np.flatnonzero(~certain):
                own = words[i * count : (i + 1) * count]
                out[block.start + i] = self._refined(law, own, v[i], b[i], float(s[i, 0]), float(g[i, 0]))
        return out

    def _refined(
        self, law: LawName, words: list[int], value: np.ndarray, base: np.ndarray, scale: float, step: float
    ) -> np.ndarray:
        """One row: from the words, and from more bits behind each while these leave a rounding open."""
        from tacit.privacy import exact_noise

        bits = self._bits
        while (found := exact_noise.rounded(law, words, bits, value, base, scale, step)) is None:
            more = _integers(self._bytes(8 * len(words)), 64)
            bits, words = bits + 64, [(word << 64) | low for word, low in zip(words, more, strict=True)]
        return found

    def _bytes(self, size: int) -> bytes:
        raw = self._random_bytes(size)
        if len(raw) != size:
            raise InputError(f"the source of randomness gave {len(raw)} bytes instead of {size}")
        return raw


def _integers(raw: bytes, bits: int) -> list[int]:
    size = bits // 8
    return [int.from_bytes(raw[k : k + size], "big") for k in range(0, len(raw), size)]


def coarse_enough(grid: float, reach: np.ndarray) -> np.ndarray:
    """(n, 1): the grid, or the finest coarser one on which numbers up to `reach`, (n, 1), are at most 2^52 steps away.

    >>> (coarse_enough(0.25, np.array([[2.0**49], [2.0**51]])) / 0.25).tolist()
    [[1.0], [2.0]]
    """
    if not grid:
        return np.zeros_like(reach)
    return grid * np.exp2(np.maximum(0.0, np.ceil(np.log2(reach / (grid * 2.0**52)))))


def largest_draw(law: LawName, dimension: int) -> float:
    """A norm that a draw of scale 1 passes with a probability below e^-200, less than the chance to guess a key.

    Gaussian: ||Z|| passes sqrt(d) + t with at most exp(-t^2/2). Spherical: a Gamma(d) passes a > d with at most
    exp(-(a - d - d ln(a/d))), which at a = 2 d + 300 is below e^-200 for every d. Laplace: so is the sum of absolute
    values, and the norm is at most that.
    """
    if law == "uniform":
        return math.sqrt(dimension)
    return math.sqrt(dimension) + 20 if law == "gaussian" else 2.0 * dimension + 300


def _column(scale: Scale) -> np.ndarray:
    """One scale for all agents or one for each, as a column."""
    return np.asarray(scale, dtype=float).reshape(-1, 1)
