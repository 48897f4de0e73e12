"""Minimises one agent's objective when it has few rows, and fewer than features: Newton in the space of its rows.

    F(f) = sum_r c_r L(x_r.f, y_r) + rho/2 ||f||^2 + b.f

Its minimiser is f = -b/rho + X^T a, whose margins are z = m + G a with m = -X b/rho and G = X X^T, which never
changes. With s(z) the weighted slopes and D the weighted curvatures, the gradient is X^T e, e = s + rho a, and
Newton's step a + q solves (rho I + D G) q = -e, by Woodbury a symmetric system of the size of the rows.
"""

from __future__ import annotations

import numpy as np

from tacit.core import losses
from tacit.core.jit import entry, kernel
from tacit.core.solvers.dense import all_finite, combine, dot, factorise, matvec, solve_factorised
from tacit.core.solvers.linesearch import MAX_TRIALS, good_enough, next_trial
from tacit.core.solvers.rows import add_transposed_times, times

MOST_ROWS = 256  # beyond which other solvers do better than a system of this size
_MAX_ITERATIONS = 25  # then quasi_newton has a careful mode


@kernel
def _newton_step(G, D, rho, e, Ge, K, v, q):  # type: ignore[no-untyped-def]
    """q := -(rho I + D G)^-1 e = -(e - R (rho I + R G R)^-1 R G e) / rho with R = sqrt(D)."""
    n = len(e)
    R = q  # until q is known
    for r in range(n):
        R[r] = np.sqrt(D[r])
    for r in range(n):
        v[r] = R[r] * Ge[r]
        for j in range(r + 1):
            K[r, j] = R[r] * G[r, j] * R[j]
        K[r, r] += rho
    factorise(K)
    solve_factorised(K, v)
    for r in range(n):
        q[r] = (R[r] * v[r] - e[r]) / rho


@entry
def minimise(places, ids, first, grams, kind, shape, rows, starts, ends, y, c, rhos, linear, models, aims, norms):  # type: ignore[no-untyped-def]
    """For the listed places k of a block: moves models[k] to agent ids[k]'s minimiser, fills norms[k] with the norm of
    the gradient there, which is to be aims[k] at most, or leaves models[k] alone where digits run out. X X^T of that
    agent lies in `grams` from first[ids[k]] on."""
    g, start = np.empty(models.shape[1]), np.empty(models.shape[1])
    for k in places:
        lo, hi, rho, b, f = starts[ids[k]], ends[ids[k]], rhos[k], linear[k], models[k]
        n = hi - lo
        combine(f, 0.0, f, start)
        G = grams[first[ids[k]] : first[ids[k]] + n * n].reshape((n, n))
        z, m, a, s = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        e, Ge, D, v, q, u = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        K = np.empty((n, n))
        times(rows, lo, hi, f, z)
        times(rows, lo, hi, b, m)
        for r in range(n):
            m[r] /= -rho

        # The first step leaves the given start, which is not of the form above, for Newton's point, which is.
        for r in range(n):
            D[r] = c[lo + r] * losses.curvature(kind, shape, z[r], y[lo + r])
            e[r] = c[lo + r] * losses.slope(kind, shape, z[r], y[lo + r]) + D[r] * (m[r] - z[r])
        matvec(G, e, Ge)
        _newton_step(G, D, rho, e, Ge, K, v, a)
        matvec(G, a, z)
        combine(z, 1.0, m, z)
        for r in range(n):
            s[r] = c[lo + r] * losses.slope(kind, shape, z[r], y[lo + r])

        for _ in range(_MAX_ITERATIONS):
            combine(s, rho, a, e)
            matvec(G, e, Ge)
            # ||gradient||^2 = e.Ge; half the aim leaves room for the rounding of f itself
            squared = dot(e, Ge)
            if squared <= (0.5 * aims[k]) ** 2 or not np.isfinite(squared):
                break
            for r in range(n):
                D[r] = c[lo + r] * losses.curvature(kind, shape, z[r], y[lo + r])
            _newton_step(G, D, rho, e, Ge, K, v, q)
            matvec(G, q, u)
            slope_0, au, qu = dot(e, u), dot(a, u), dot(q, u)
            t, slope_t, below, slope_below, above, slope_above = 1.0, 0.0, 0.0, slope_0, -1.0, 0.0
            for trial in range(MAX_TRIALS):
                if trial > 0:
                    t, below, slope_below, above, slope_above = next_trial(
                        t, slope_t, below, slope_below, above, slope_above
                    )
                for r in range(n):
                    s[r] = c[lo + r] * losses.slope(kind, shape, z[r] + t * u[r], y[lo + r])
                slope_t = dot(s, u) + rho * (au + t * qu)
                if good_enough(slope_t, slope_0):
                    break
            combine(a, t, q, a)
            combine(z, t, u, z)

        # What is stated is the gradient at the f that leaves, not at its representation by a.
        for j in range(len(f)):
            f[j] = -b[j] / rho
        add_transposed_times(rows, lo, hi, a, f)
        times(rows, lo, hi, f, z)
        combine(b, rho, f, g)
        for r in range(n):
            s[r] = c[lo + r] * losses.slope(kind, shape, z[r], y[lo + r])
        add_transposed_times(rows, lo, hi, s, g)
        norms[k] = np.sqrt(dot(g, g))
        if not (np.isfinite(norms[k]) and all_finite(f)):
            norms[k] = np.inf
            combine(start, 0.0, start, f)
