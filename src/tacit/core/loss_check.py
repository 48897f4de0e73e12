"""Whether the functions of a loss are what its bounds say: a check at many points, not a proof.

For a convex loss with slopes s of at most g and curvatures c of at most k, for all a < b:

    |s(a)| <= g,    0 <= c(a) <= k,    0 <= s(b) - s(a) <= k (b - a),    s(a) (b - a) <= L(b) - L(a) <= s(b) (b - a)

up to rounding. The third is what privacy needs of the curvature; it is checked for neighbouring points of a grid and
for neighbouring doubles, so a slope that jumps, or whose last digits are worse than claimed, is found there.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.core import jit, losses
from tacit.core.jit import call_at, drop_stale_kernels, entry
from tacit.core.losses import VALUE, Loss
from tacit.errors import InputError

RAW_SLOPE, RAW_CURVATURE = 3, 4  # of a custom loss: not cut off at the bounds
_UNIT = 2.0**-53
_FARTHEST = 2.0**50  # a prediction of a private run is shorter: models are within 2^40, and rows are not that long
_TARGETS = (0.0, 0.3, 1.0, -1.0, 1e3, -1e6)
_STEPS = 1000  # of the grid, for the length in which a slope can change by its bound
_MOST_STEPS = 50_000
_HALVINGS = 12  # of intervals in which the curvature changes too fast to compare it
_KEPT = 1000  # of those intervals


@entry
def _each(address, which, z, y, out):  # type: ignore[no-untyped-def]
    for r in range(len(z)):
        out[r] = call_at(address, which, z[r], y)


drop_stale_kernels([_each], [Path(__file__), Path(losses.__file__), Path(jit.__file__)])  # those of `losses`, too


class _Claim(NamedTuple):
    """What is claimed, and the points at which it is checked for one target."""

    loss: Any
    y: float
    z: np.ndarray  # ascending

    def at(self, which: int, z: np.ndarray) -> np.ndarray:
        out = np.empty_like(z)
        _each(self.loss.kind, which, z, self.y, out)
        return out

    def off(self, z: np.ndarray, s: np.ndarray) -> np.ndarray:
        """How far rounding moves slopes s at z: as claimed, or, without a bound, in proportion to what goes in."""
        g, k = self.loss.max_slope, self.loss.max_curvature
        size = g + k if math.isfinite(g) else np.abs(s) + k * (1 + np.abs(z) + abs(self.y))
        return self.loss.roundings * _UNIT * size * np.ones_like(z)

    def refuse(self, rule: str, *found: tuple[str, float, float]) -> None:
        seen = ", ".join(f"{function}({float(z)!r}, {self.y!r}) = {float(v)!r}" for function, z, v in found)
        raise InputError(f"{self.loss.name}: {rule}, but {seen}")


def check(loss: Any) -> None:
    """Refuses a `CustomLoss` whose functions do not keep to its bounds, or are not each other's derivatives."""
    for y in _TARGETS if loss.numbers else (-1.0, 1.0):
        _check(_Claim(loss, y, _points(loss, y)))


def _steepest(loss: Loss) -> float:
    """Of the slopes that matter: those at a distance of 1 from the minimum where there is no bound."""
    return loss.max_slope if math.isfinite(loss.max_slope) else loss.max_curvature


def _points(loss: Loss, y: float) -> np.ndarray:
    length = _steepest(loss) / loss.max_curvature
    reach = 8 * max(1.0, length)
    steps = min(_MOST_STEPS, math.ceil(2 * reach / length * _STEPS))
    near = np.linspace(-reach, reach, steps + 1)
    far = np.geomspace(2.0**-50, _FARTHEST, 1000)
    around = np.concatenate([near, far, -far])
    z = np.concatenate([around, y + around])
    return np.unique(np.concatenate([z, np.nextafter(z, math.inf)]))


def _check(claim: _Claim) -> None:
    loss, z = claim.loss, claim.z
    g, k = loss.max_slope, loss.max_curvature
    v, s, c = (claim.at(which, z) for which in (VALUE, RAW_SLOPE, RAW_CURVATURE))
    for name, which, found in (("value", VALUE, v), ("slope", RAW_SLOPE, s), ("curvature", RAW_CURVATURE, c)):
        for i in np.flatnonzero(~np.isfinite(found))[:1]:
            claim.refuse(f"{name} is a finite number everywhere", (name, z[i], found[i]))
        for i in np.flatnonzero(claim.at(which, z) != found)[:1]:
            claim.refuse(f"{name} depends on z and y alone", (name, z[i], found[i]))
    off = claim.off(z, s)
    for i in _worst(np.abs(s) - g - off):
        claim.refuse(f"|slope| is at most max_slope = {g}", ("slope", z[i], s[i]))
    for i in _worst(-c - off):
        claim.refuse("a convex loss has no curvature below 0", ("curvature", z[i], c[i]))
    for i in _worst(c - k - off):
        claim.refuse(f"curvature is at most max_curvature = {k}", ("curvature", z[i], c[i]))

    step, rise = np.diff(z), np.diff(s)
    for i in _worst(rise - k * step * (1 + 8 * _UNIT) - off[1:] - off[:-1]):
        claim.refuse(f"slope rises by at most max_curvature = {k} times the distance", *_two("slope", z, s, i))
    for i in _worst(np.maximum.accumulate(s) - s - 2 * off):
        j = int(np.argmax(s[:i]))
        claim.refuse("the slope of a convex loss never falls", ("slope", z[j], s[j]), ("slope", z[i], s[i]))

    # Values need not be that accurate: they only guide solvers.
    change, off_value = np.diff(v), 1e-9 * (np.abs(v[1:]) + np.abs(v[:-1]) + _steepest(loss) ** 2 / k)
    for i in _worst(np.maximum(s[:-1] * step - change, change - s[1:] * step) - off_value):
        claim.refuse("slope is the derivative of value", *_two("value", z, v, i), *_two("slope", z, s, i))
    _compare_curvature(claim)


def _compare_curvature(claim: _Claim) -> None:
    """The mean curvature between two points lies in the range of those at the ends and in the middle. It may lie beyond
    by half of that range (a peak between the three), and where that is not enough, the interval is halved."""
    k = claim.loss.max_curvature
    a, b = claim.z[:-1], claim.z[1:]
    wide = b - a > 1e-7 * _steepest(claim.loss) / k + 1e-10 * np.abs(a)
    a, b = a[wide], b[wide]
    for halvings in range(_HALVINGS):
        middle = a + (b - a) / 2
        c = np.array([claim.at(RAW_CURVATURE, z) for z in (a, middle, b)])
        s = np.array([claim.at(RAW_SLOPE, z) for z in (a, b)])
        off = claim.off(a, s[0]) + claim.off(b, s[1])
        mean, least, most = (s[1] - s[0]) / (b - a), c.min(axis=0), c.max(axis=0)
        beyond = np.maximum(mean - most, least - mean) - (most - least) / 2 - 1e-6 * k - off / (b - a)
        wrong = np.argsort(-beyond)[: min(_KEPT, np.count_nonzero(beyond > 0))]
        if not len(wrong):
            return
        if halvings == _HALVINGS - 1:
            i = wrong[0]
            told = (("slope", a[i], s[0, i]), ("slope", b[i], s[1, i]), ("curvature", a[i], c[0, i]))
            claim.refuse("curvature is the derivative of slope", *told)
        a, middle, b = a[wrong], middle[wrong], b[wrong]
        a, b = np.concatenate([a, middle]), np.concatenate([middle, b])


def _worst(excess: np.ndarray) -> list[int]:
    """Where a rule is broken most, if it is broken anywhere."""
    i = int(np.argmax(excess))
    return [i] if excess[i] > 0 else []


def _two(name: str, z: np.ndarray, found: np.ndarray, i: int) -> list[tuple[str, float, float]]:
    return [(name, z[i], found[i]), (name, z[i + 1], found[i + 1])]
