"""The step along a direction of a convex function, from its derivative alone (values round off near the minimum)."""

from __future__ import annotations

import numba

# A step is good enough when it leaves this fraction of the initial slope.
ENOUGH = 0.5


@numba.njit(nogil=True)
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
