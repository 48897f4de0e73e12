"""Minimises one agent's objective in the space of f: quasi-Newton, started from a Hessian.

    F(f) = sum_r c_r L(x_r.f, y_r) + rho/2 ||f||^2 + b.f

The Hessian is assembled once, at the start, from a fixed fraction of the rows (it only preconditions), and
BFGS updates in their two-loop form carry the rest: more passes over the data than Newton's method takes, but each
costs a fraction of the Hessian that it saves. Far out, where few rows are curved, it is Newton's method with a Hessian
of those rows at each step. Where there are so many features that newton_cg comes first, this stands
behind it, up to MOST_FEATURES.
"""

from __future__ import annotations

import numpy as np

from tacit.core import losses
from tacit.core.jit import entry, inlined, kernel
from tacit.core.solvers.dense import all_finite, combine, dot, factorise, solve_factorised
from tacit.core.solvers.linesearch import MAX_TRIALS, good_enough, near_root
from tacit.core.solvers.rows import add_transposed_times, add_weighted_squares, times

MOST_FEATURES = 2000  # with which a d x d Hessian can be built
_ROWS_PER_FEATURE = 20  # rows that go into the Hessian, for each feature
_MEMORY = 30  # BFGS pairs kept before the Hessian is built again, from all rows
_CAREFUL_MEMORY = 1  # the same after the first time: where BFGS has failed, plain Newton should succeed
_LEFT_OUT = 1e-3  # rows with a curvature below this fraction of the largest
_MAX_ITERATIONS = 1000
_PATIENCE = 20  # careful steps that found neither a smaller value nor a smaller gradient: digits have run out


@kernel
def gradient(kind, shape, rows, lo, hi, y, c, rho, b, f, z, s, g):  # type: ignore[no-untyped-def]
    """Fills s (slopes at the margins z) and g (gradient at f); returns ||g||."""
    for r in range(hi - lo):
        s[r] = c[lo + r] * losses.slope(kind, shape, z[r], y[lo + r])
    combine(b, rho, f, g)
    add_transposed_times(rows, lo, hi, s, g)
    return np.sqrt(dot(g, g))


@kernel
def curved_rows(kind, shape, y, c, lo, z, stride, smallest, kept, w):  # type: ignore[no-untyped-def]
    """Which of every stride-th row are curved, relative to the most curved one; w gets their weighted curvatures.
    Returns their number, and the mean curvature."""
    total, weights, largest = 0.0, 0.0, 0.0
    for r in range(0, len(z), stride):
        w[r] = stride * c[lo + r] * losses.curvature(kind, shape, z[r], y[lo + r])
        total += w[r]
        weights += stride * c[lo + r]
        largest = max(largest, w[r])
    m = 0
    for r in range(0, len(z), stride):
        if w[r] > smallest * largest:
            kept[m], w[m] = lo + r, w[r]
            m += 1
    return m, total / weights


@inlined
def _hessian(rows, kept, w, rho, H, least):  # type: ignore[no-untyped-def]
    """Fills the lower triangle of H with the Hessian, from the kept rows.

    `least` is a curvature below which a step would leave the range of numbers.
    """
    for i in range(H.shape[0]):
        for j in range(H.shape[0]):
            H[i, j] = 0.0
    add_weighted_squares(rows, kept, w, H)
    trace = 0.0
    for j in range(H.shape[0]):
        trace += H[j, j]
    # A ridge far below the data's scale keeps the factor defined when rho = 0 and the rows are collinear.
    ridge = rho + 1e-12 * (trace / H.shape[0] + rho) + least
    for j in range(H.shape[0]):
        H[j, j] += ridge


@inlined
def _direction(g, H, S, Y, sy, pairs, q, alpha):  # type: ignore[no-untyped-def]
    """q := -(BFGS inverse Hessian) g, by the two-loop recursion over the kept pairs."""
    combine(g, 0.0, g, q)
    for k in range(pairs - 1, -1, -1):
        alpha[k] = dot(S[k], q) / sy[k]
        combine(q, -alpha[k], Y[k], q)
    solve_factorised(H, q)
    for k in range(pairs):
        combine(q, alpha[k] - dot(Y[k], q) / sy[k], S[k], q)
    combine(q, -2.0, q, q)


@inlined
def _armijo(kind, shape, y, c, lo, rho, z, u, bq, fq, qq, slope_0):  # type: ignore[no-untyped-def]
    """The longest of the steps 1, 1/2, 1/4, ... that decreases the value as Armijo asks, and whether there is one."""
    for trial in range(MAX_TRIALS):
        t = 0.5**trial
        change = t * bq + rho * (t * fq + t * t / 2.0 * qq)
        for r in range(len(z)):
            at, before = z[r] + t * u[r], losses.value(kind, shape, z[r], y[lo + r])
            change += c[lo + r] * (losses.value(kind, shape, at, y[lo + r]) - before)
        if change <= 1e-4 * t * slope_0:
            return t, True
    return t, False


@entry
def minimise(places, ids, kind, shape, rows, starts, ends, y, c, rhos, linear, models, aims, norms):  # type: ignore[no-untyped-def]
    """For the listed places k of a block: moves models[k] to agent ids[k]'s minimiser, fills norms[k] with the norm of
    the gradient there, which is to be aims[k] at most."""
    d = models.shape[1]
    H = np.empty((d, d))
    g, g_new, q, f_new = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    S, Y = np.empty((_MEMORY, d)), np.empty((_MEMORY, d))
    sy, alpha = np.empty(_MEMORY), np.empty(_MEMORY)
    for k in places:
        lo, hi, rho, b, f = starts[ids[k]], ends[ids[k]], rhos[k], linear[k], models[k]
        n = hi - lo
        z, z_new, s, w = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        kept = np.empty(n, dtype=np.int64)

        times(rows, lo, hi, f, z)
        norm = gradient(kind, shape, rows, lo, hi, y, c, rho, b, f, z, s, g)
        stride = n // (_ROWS_PER_FEATURE * d)
        if stride < 1:
            stride = 1
        pairs, memory, careful, few = 0, 0, False, True  # full at once: the first iteration builds the Hessian
        least_norm, patience = norm, _PATIENCE
        for iteration in range(_MAX_ITERATIONS):
            # Half the aim leaves room for what rounding hides from us.
            if norm <= 0.5 * aims[k] or not np.isfinite(norm) or patience == 0:
                break
            if pairs == memory:
                careful = iteration > 0 and (iteration >= _MEMORY or not few)
                least = 1e-8 * norm / (1.0 + np.sqrt(dot(f, f)))
                smallest = 0.0 if careful else _LEFT_OUT
                m, _ = curved_rows(kind, shape, y, c, lo, z, stride, smallest, kept, w)
                few = 4 * stride * m <= n  # then the Hessian is cheap, even from all rows: Newton's method
                if few and stride > 1:
                    m, _ = curved_rows(kind, shape, y, c, lo, z, 1, smallest, kept, w)
                _hessian(rows, kept[:m], w, rho, H, least)
                factorise(H)
                pairs, stride, memory = 0, 1, _CAREFUL_MEMORY if careful or few else _MEMORY
            _direction(g, H, S, Y, sy, pairs, q, alpha)

            # Full step first; its margins are computed afresh, so that no rounding builds up over the iterations.
            t, found = 1.0, True
            for shortened in (False, True):  # a loop, so that the compiler sees one gradient, not two
                combine(f, t, q, f_new)
                times(rows, lo, hi, f_new, z_new)
                norm_new = gradient(kind, shape, rows, lo, hi, y, c, rho, b, f_new, z_new, s, g_new)
                if shortened:
                    break
                slope_0, slope_t = dot(g, q), dot(g_new, q)
                if careful:
                    # Full Newton steps wherever they are worth it. The norm is compared with the least of all so far:
                    # or two rules of progress could chase each other.
                    accepted = norm_new <= 0.5 * least_norm
                else:
                    accepted = good_enough(slope_t, slope_0) or norm_new <= 0.5 * aims[k]
                if accepted:
                    break
                combine(z_new, -1.0, z, z_new)  # from here on X q
                bq, fq, qq = dot(b, q), dot(f, q), dot(q, q)
                if careful:
                    t, found = _armijo(kind, shape, y, c, lo, rho, z, z_new, bq, fq, qq, slope_0)
                else:
                    t = near_root(kind, shape, y, c, lo, rho, z, z_new, bq, fq, qq, slope_0, slope_t, False)

            combine(f_new, -1.0, f, S[pairs])
            combine(g_new, -1.0, g, Y[pairs])
            sy[pairs] = dot(S[pairs], Y[pairs])
            pairs = pairs + 1 if sy[pairs] > 0.0 else memory  # no curvature left to see: look again
            combine(f_new, 0.0, f_new, f)
            z, z_new = z_new, z
            g, g_new, norm = g_new, g, norm_new
            if norm < least_norm:
                least_norm, patience = norm, _PATIENCE
            elif not found:
                patience -= 1
        norms[k] = norm if all_finite(f) else np.inf
