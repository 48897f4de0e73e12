"""Minimises one agent's objective where a d x d Hessian costs too much: Newton's method by conjugate gradients.

    F(f) = sum_r c_r L(x_r.f, y_r) + rho/2 ||f||^2 + b.f

Newton's step q solves (X^T D X + rho I) q = -g, D the weighted curvatures, only as well as the distance from the end
asks for. Three things keep that cheap:

- Far out most rows are hardly curved. Those whose D_r is small beside the accuracy of the step are left out.
- CG is preconditioned by BFGS (in two-loop form) with the pairs (p, H p) that it met in the steps before: Morales,
  Nocedal, SIAM J. Optim. 10 (2000). What one step learnt about the large eigenvalues, the next does not learn again.
- Below that lies a diagonal, for features of different size.

All of it is made anew in each call, so nothing has to be kept, and nothing is remembered.
"""

from __future__ import annotations

import numpy as np

from tacit.core import losses
from tacit.core.jit import entry, inlined, kernel
from tacit.core.solvers.dense import combine, dot
from tacit.core.solvers.linesearch import good_enough, near_root
from tacit.core.solvers.quasi_newton import curved_rows
from tacit.core.solvers.rows import (
    add_squares_times,
    add_transposed_times,
    add_weighted_diagonal,
    at_once,
    stored,
    times,
)

FEWEST_FEATURES = 129  # below, a Hessian of a part of the rows costs less than it saves (quasi_newton)
_MEMORY = 30  # pairs that precondition, at most
_FEWEST_PAIRS = 6
_WORTH = 8  # a pair costs about this many numbers for each feature; all pairs together, about a pass over the data
_LOOSEST = 0.3  # relative residual of a step, at most
_LEFT_OUT = 0.3  # rows with a curvature below this fraction of the residual (and of the largest curvature)
_MAX_PRODUCTS = 250  # with the Hessian, for a step
_MAX_ITERATIONS = 300
_CAREFUL = 30  # iterations after which every step has to go down for certain
_PATIENCE = 40  # iterations without a smaller gradient than ever: digits have run out


@kernel
def _gradient(kind, shape, rows, lo, hi, y, c, rho, b, f, z, s, g):  # type: ignore[no-untyped-def]
    """One pass over the rows: fills z (margins at f) and g (gradient at f); returns ||g||."""
    combine(b, rho, f, g)
    for first in range(lo, hi, len(s)):
        last = min(first + len(s), hi)
        times(rows, first, last, f, s)
        for r in range(first, last):
            z[r - lo] = s[r - first]
            s[r - first] = c[r] * losses.slope(kind, shape, s[r - first], y[r])
        add_transposed_times(rows, first, last, s, g)
    return np.sqrt(dot(g, g))


@inlined
def _precondition(r, base, S, Y, sy, oldest, pairs, v, alpha):  # type: ignore[no-untyped-def]
    """v := (BFGS inverse Hessian) r"""
    combine(r, 0.0, r, v)
    for j in range(pairs - 1, -1, -1):
        i = (oldest + j) % len(sy)
        alpha[j] = dot(S[i], v) / sy[i]
        combine(v, -alpha[j], Y[i], v)
    for j in range(len(v)):
        v[j] /= base[j]
    for j in range(pairs):
        i = (oldest + j) % len(sy)
        combine(v, alpha[j] - dot(Y[i], v) / sy[i], S[i], v)


@inlined
def _newton_step(rows, kept, w, rho, g, residual, base, S, Y, sy, oldest, pairs, q, r, p, v, Hp, alpha):  # type: ignore[no-untyped-def]
    """q := -H^-1 g by CG, until the residual is small enough; returns how many pairs are new (some may be lost)."""
    memory, new, before = len(sy) // 2, 0, 1.0
    combine(g, -2.0, g, r)
    for j in range(len(q)):
        q[j] = 0.0
    for k in range(_MAX_PRODUCTS):
        _precondition(r, base, S, Y, sy, oldest, pairs, v, alpha)
        now = dot(r, v)
        combine(v, now / before if k > 0 else 0.0, p if k > 0 else v, p)
        before = now
        for j in range(len(p)):
            Hp[j] = rho * p[j]
        add_squares_times(rows, kept, w, p, Hp)
        curvature = dot(p, Hp)
        if not curvature > 0.0 or not np.isfinite(curvature):
            if k == 0:
                combine(v, 0.0, v, q)
            break
        t = now / curvature
        combine(q, t, p, q)
        combine(r, -t, Hp, r)
        # The directions are conjugate, so their order does not matter: the last take the place of the first.
        i = (oldest + pairs + k % memory) % len(sy)
        combine(p, 0.0, p, S[i])
        combine(Hp, 0.0, Hp, Y[i])
        sy[i] = curvature
        new = min(k + 1, memory)
        if dot(r, r) <= residual * residual:
            break
    return new


@entry
def minimise(places, ids, kind, shape, rows, starts, ends, y, c, rhos, linear, models, aims, norms):  # type: ignore[no-untyped-def]
    """For the listed places k of a block: moves models[k] to agent ids[k]'s minimiser, fills norms[k] with the norm of
    the gradient there, which is to be aims[k] at most."""
    d = models.shape[1]
    g, g_new, f_new, G, base = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    q, residual, p, v, Hp = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    s, alpha = np.empty(at_once(d)), np.empty(_MEMORY)
    for k in places:
        lo, hi, rho, b, f = starts[ids[k]], ends[ids[k]], rhos[k], linear[k], models[k]
        n = hi - lo
        memory = min(_MEMORY, max(_FEWEST_PAIRS, stored(rows, lo, hi) // (_WORTH * d)))
        S, Y, sy = np.empty((2 * memory, d)), np.empty((2 * memory, d)), np.empty(2 * memory)
        z, z_new, w, kept = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
        for j in range(d):
            G[j] = 0.0
        add_weighted_diagonal(rows, lo, hi, c[lo:hi], G)
        norm = _gradient(kind, shape, rows, lo, hi, y, c, rho, b, f, z, s, g)
        norm_0, least_norm, patience, oldest, pairs = norm, norm, _PATIENCE, 0, 0
        for iteration in range(_MAX_ITERATIONS):
            # Half the aim leaves room for what rounding hides from us.
            if norm <= 0.5 * aims[k] or not np.isfinite(norm) or patience == 0:
                break
            relative = max(min(_LOOSEST, np.sqrt(norm / norm_0)), 0.25 * aims[k] / norm)
            m, mean = curved_rows(kind, shape, y, c, lo, z, 1, _LEFT_OUT * relative, kept, w)
            ridge = rho + 1e-8 * norm / (1.0 + np.sqrt(dot(f, f)))  # so that no step leaves the range of numbers
            for j in range(d):
                base[j] = ridge + mean * G[j]
            new = _newton_step(
                rows,
                kept[:m],
                w,
                ridge,
                g,
                relative * norm,
                base,
                S,
                Y,
                sy,
                oldest,
                pairs,
                q,
                residual,
                p,
                v,
                Hp,
                alpha,
            )
            lost = max(pairs + new - memory, 0)
            oldest, pairs = (oldest + lost) % len(sy), pairs + new - lost

            # Full step first; margins are computed afresh, so that no rounding builds up over the iterations.
            careful, t = iteration >= _CAREFUL, 1.0
            for shortened in (False, True):  # a loop, so that the compiler sees one gradient, not two
                combine(f, t, q, f_new)
                norm_new = _gradient(kind, shape, rows, lo, hi, y, c, rho, b, f_new, z_new, s, g_new)
                slope_0, slope_t = dot(g, q), dot(g_new, q)
                accepted = good_enough(slope_t, slope_0) and not careful
                if shortened or accepted or norm_new <= 0.5 * (least_norm if careful else aims[k]):
                    break
                combine(z_new, -1.0, z, z_new)  # from here on X q
                bq, fq, qq = dot(b, q), dot(f, q), dot(q, q)
                t = near_root(kind, shape, y, c, lo, rho, z, z_new, bq, fq, qq, slope_0, slope_t, careful)
            if not np.isfinite(norm_new):
                break
            combine(f_new, 0.0, f_new, f)
            z, z_new = z_new, z
            g, g_new, norm = g_new, g, norm_new
            patience = _PATIENCE if norm < least_norm else patience - 1
            least_norm = min(norm, least_norm)
        norms[k] = norm if np.isfinite(norm) else np.inf
