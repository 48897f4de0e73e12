"""The only place where a `Release` is made: each function states what leaving costs."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InputError, TacitError
from tacit.noise import Noise
from tacit.privacy.events import Event, Free, Pure, Unprotected
from tacit.problem import ROUNDING, Problem
from tacit.release import Release

_POST_PROCESSING = Free("post-processing: computed from released values only")


def unprotected(value: np.ndarray) -> Release:
    """The exact value leaves, without any protection: for the non-private methods.

    >>> unprotected(np.zeros((2, 1))).events
    (Unprotected(), Unprotected())
    """
    return _release(value, [Unprotected()] * len(value))


def post_processed(value: np.ndarray) -> Release:
    """A value computed from released values alone, without another look at the data: it costs nothing."""
    return _release(value, [_POST_PROCESSING] * len(value))


def objective_perturbed(
    problem: Problem,
    noise: Noise,
    *,
    linear: np.ndarray,
    weight: np.ndarray,
    centre: np.ndarray,
    start: np.ndarray,
    factor: np.ndarray,
    rate: np.ndarray,
    ids: np.ndarray,
    t: int,
) -> Release:
    """The minimiser of O_i(f) + <linear_i + factor_i e_i, f> + weight_i ||f - centre_i||^2 leaves.

    e_i is drawn here, with a density proportional to exp(-rate_i ||e||). With g the largest slope of the loss, c its
    largest curvature, C_i the scale, B_i the rows, rows of norm at most 1, mu_i = l2 + 2 weight_i:

    *Noise.* f determines e = -(gradient without noise)/factor. Replacing a record moves that gradient at f by at most
    2 g C_i/B_i, so it moves e by at most that over factor_i, and the density of e by exp(rate_i times that).

    *Jacobian.* The two Hessians are H_0 + a x x^T and H_0 + a' x' x'^T with H_0 >= mu_i and 0 <= a, a' <= c C_i/B_i.
    det(H_0 + a x x^T) = det(H_0) (1 + a x^T H_0^-1 x), so their ratio is at most 1 + c C_i/(B_i mu_i).

    *Inexactness.* Both need the exact minimiser. Ours has a gradient norm of at most tau, so it lies within tau/mu_i;
    with a mask of density exp(-kappa ||z||) on top, densities change by exp(kappa tau/mu_i), on either side. kappa is
    chosen to make that a thousandth of the rest.

    The event is pure, the sum of the three logarithms. Rows longer than 1 and losses without bounds are refused.
    """
    loss, C_over_B = problem.loss, (problem.scale / problem.sizes)[:, None]
    if not math.isfinite(loss.max_slope):
        raise InputError(f"{type(loss).__name__} has no bound on its slope: objective perturbation cannot protect it")
    problem.require_row_norm(1.0)
    mu = problem.l2 + 2 * weight
    shift = 2 * loss.max_slope * C_over_B * (1 + ROUNDING)
    cost = rate * shift / factor + np.log1p(loss.max_curvature * C_over_B * (1 + ROUNDING) / mu)
    symbol = noise.draw("spherical", 1 / rate, problem.dimension, ids, t)
    f = problem.argmin(linear=linear + factor * symbol, weight=weight, centre=centre, start=start)
    tau = problem.tolerance + factor * noise.grid * math.sqrt(problem.dimension) / 2  # a rounded symbol is inexact, too
    extra = cost / 1000
    kappa = extra * mu / (2 * tau)
    return _release(noise.mask(f, 1 / kappa, ids, t), [Pure(float(e)) for e in (cost + extra)[:, 0]])


def _release(value: np.ndarray, events: list[Event]) -> Release:
    if not np.all(np.isfinite(value)):
        agent = int(np.argwhere(~np.isfinite(value))[0][0])
        raise TacitError(f"row {agent} of a release is not finite: the method has diverged; nothing was sent")
    return Release(value, tuple(events))
