"""The step along a direction of a convex function, from its derivative alone (values round off near the minimum)."""

from __future__ import annotations

from tacit.core import losses
from tacit.core.jit import inlined

MAX_TRIALS = 40
_ENOUGH = 0.5  # a step is good enough when it leaves this fraction of the initial slope


@inlined
def good_enough(slope_t, slope_0):  # type: ignore[no-untyped-def]
    """Whether phi'(t) ends the search.

    Past the root phi may have increased, if its second derivative jumps there (as that of a Huber hinge does): rare
    enough for a first try. Where that is not good enough, quasi_newton starts to look at values.
    """
    return abs(slope_t) <= _ENOUGH * abs(slope_0)


@inlined
def goes_down(slope_t, slope_0):  # type: ignore[no-untyped-def]
    """Whether the step ends before the root, so that a convex function has decreased, and not far before it."""
    return _ENOUGH * slope_0 <= slope_t <= 0.0


@inlined
def next_trial(t, slope_t, below, slope_below, above, slope_above):  # type: ignore[no-untyped-def]
    """Shrinks the bracket of the root of an increasing phi' with the trial (t, phi'(t)); returns the next trial.

    below/above are the ends of the bracket; above < 0 says that no upper end is known yet.
    """
    if slope_t < 0.0:
        below, slope_below = t, slope_t
    else:
        above, slope_above = t, slope_t
    if above < 0.0:
        return 4.0 * t, below, slope_below, above, slope_above
    secant = below - slope_below * (above - below) / (slope_above - slope_below)
    width = above - below  # keep off the ends, so that the bracket shrinks by a fixed factor
    t = min(max(secant, below + 0.1 * width), above - 0.1 * width)
    return t, below, slope_below, above, slope_above


@inlined
def near_root(kind, shape, y, c, lo, rho, z, u, bq, fq, qq, slope_0, slope_t, careful):  # type: ignore[no-untyped-def]
    """A step along q at which the slope is small enough, found from t = 1, where it is slope_t; u is X q. If `careful`,
    the function decreases."""
    t, below, slope_below, above, slope_above = 1.0, 0.0, slope_0, -1.0, 0.0
    for _ in range(MAX_TRIALS):
        t, below, slope_below, above, slope_above = next_trial(t, slope_t, below, slope_below, above, slope_above)
        slope_t = bq + rho * (fq + t * qq)
        for r in range(len(z)):
            slope_t += c[lo + r] * losses.slope(kind, shape, z[r] + t * u[r], y[lo + r]) * u[r]
        if goes_down(slope_t, slope_0) or (good_enough(slope_t, slope_0) and not careful):
            return t
    return below if careful else t
