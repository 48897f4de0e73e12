"""What floating point can do to a gradient or a minimiser: bounds from public numbers alone.

A privacy proof is about real numbers. The code that runs has 53 bits, and a neighbour that lies chooses the numbers
that are rounded. So every mechanism pays for the largest error that rounding can make. The bounds here depend on facts
that are public (numbers of rows, dimension, loss, scale, weights, the radius), never on a record and never on what a
neighbour said. So a plan knows them, and no neighbour can make them larger. docs/privacy.md has the proofs.

Throughout u = 2^-53. A sum of n products, in any order and with fused operations or without, is off by at most
gamma_n = n u/(1 - n u) times the sum of the absolute values. C is an agent's scale, B its number of rows, r bounds the
norm of a row, g the slope of the loss and k its curvature; rho = l2 + 2 weight.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.core.problem import UNIT, Problem
from tacit.errors import InputError

_REACH = 4.0  # how many radii a proximal centre may lie away from zero


def _gamma(n: np.ndarray | float) -> np.ndarray | float:
    if np.any(np.asarray(n) > 2**40):
        raise InputError(f"{np.max(n):g} numbers are too many for a private sum in double precision")
    return n * UNIT / (1 - n * UNIT)


def gradient_error(problem: Problem, size: np.ndarray | float, row_norm: float = 1.0) -> np.ndarray:
    """(n, 1): how far the computed gradient of the data term is from the true one at a point of norm at most `size`.

    A margin x.f is off by at most gamma_d r size, its slope by k times that and by the roundings of its own; the sum
    over B rows of what is at most C/B r g each is off by gamma_B C r g.
    """
    C, B, d = problem.scale[:, None], problem.sizes[:, None], problem.dimension
    g, k = problem.loss.max_slope, problem.loss.max_curvature
    slope = k * _gamma(d) * row_norm * size + problem.loss.roundings * UNIT * (g + k)
    if problem.loss.more_sums:
        margin = row_norm * size + problem.loss.farthest_offset
        slope = slope + k * _gamma(problem.loss.more_sums + 1.0) * margin
    return 1.01 * C * row_norm * (slope + _gamma(B + 3) * g)


def most_pull(problem: Problem, rho: np.ndarray, row_norm: float = 1.0) -> np.ndarray:
    """(n, 1): the norm to which the public linear term of a private objective is clipped.

    Honest neighbours keep it well below that norm: the centre of a proximal step lies within some radii of zero, and
    duals are as large as gradients.
    """
    return _REACH * (rho * problem.radius + problem.loss.max_slope * row_norm * problem.scale[:, None])


class Solved:
    """How well the minimiser of (data term) + rho/2 ||f||^2 + b.f can be computed, for any b of norm at most `linear`.

    What `Problem.sure_argmin` returns lies within `tau`/rho of the minimiser, (n, 1). Either a fast solver has ended at
    a computed gradient norm of at most `limit`; then the true norm is at most tau. Or `steps` of gradient descent with
    the step `step` from -b/rho have come that near, by a theorem. `error` bounds the rounding of a gradient on the way.
    """

    def __init__(self, problem: Problem, rho: np.ndarray, linear: np.ndarray, row_norm: float = 1.0) -> None:
        C, g, k = problem.scale[:, None], problem.loss.max_slope, problem.loss.max_curvature
        steepest = C * row_norm * g  # of the data term
        curved = (1 + 1e-9) * (k * C * row_norm**2 + rho)  # L
        # Of every point on the way from -b/rho to the minimiser, and where a computed gradient is small enough.
        size = (linear + steepest + np.maximum(steepest, problem.tolerance)) / rho
        self.error = 3 * gradient_error(problem, size, row_norm) + 24 * UNIT * ((rho + curved) * size + steepest)
        self.limit = np.maximum(problem.tolerance, self.error)
        self.tau = (1 + _gamma(problem.dimension + 4)) * self.limit + self.error
        self.rounding = np.where(self.limit > problem.tolerance, self.tau, self.error)  # not what was asked for
        self.step, condition = 1 / curved, curved / rho
        self.steps = np.ceil(condition * np.log(np.maximum(steepest / self.limit, math.e)))
        # Of the error, 24 u L size, a part grows with rho and a part falls: which is the larger one, for advice.
        with np.errstate(over="ignore"):  # what is too large for a number is the larger one
            self.stiff = rho**2 * _REACH * problem.radius > k * C * row_norm**2 * steepest
        self.steepest = 2 * condition * self.tau  # no computed gradient is steeper where the descent ends
