"""What paper 001 says about noise and rounds: Theorems 1 and 2, R(x, y) and its bound (18), as calculators.

They are for comparison: tacit's own noise comes from `tacit.calibrate`, whose accountant is tight.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.composite.composite import Composite
from tacit.errors import InputError, number, whole


class Optimum(NamedTuple):
    """A minimiser of f(x) + g(A x - c), and the subgradient of g there: grad f(x*) + A^T w = 0."""

    x: np.ndarray  # (d,)
    y: np.ndarray  # (m,) A x* - c
    w: np.ndarray  # (m,) g'(y*) = rho u*


def criterion(composite: Composite, x: np.ndarray, y: np.ndarray, best: Optimum) -> float:
    """R(x, y) = f(x) - f(x*) - <grad f(x*), x - x*> + g(y) - g(y*) - <g'(y*), y - y*>, zero or more.

    >>> from tacit.composite.term import lasso
    >>> from tacit.core.problem import Problem
    >>> flat = Composite(Problem([([[1.0]], [1])]), lasso(1, 1.0))  # 0 is optimal: the slope of the loss is -1/2 there
    >>> best = Optimum(np.zeros(1), np.zeros(1), np.array([0.5]))
    >>> criterion(flat, np.zeros(1), np.array([2.0]), best)  # |2| - 2/2
    1.0
    """
    f, g = composite.problem, composite.term.g
    smooth = f.value(x)[0] - f.value(best.x)[0] - f.gradient(best.x)[0] @ (x - best.x)
    rest = g.value(y[None])[0] - g.value(best.y[None])[0] - best.w @ (y - best.y)
    return float(smooth + rest)


def criterion_bound(
    best: Optimum,
    *,
    start: np.ndarray,
    penalty: float,
    step: float,
    sigma: float,
    rounds: int,
    smoothness: float | None = None,
) -> float:
    """(18), on the mean of R(mean of the x_t, mean of the y_t) of DP-ADMM from u_0 = 0:

        [ ||x_0 - x*||^2/step + ||w||^2/rho ]/(2T) + step sigma^2 d,      step = eta/gamma.

    The line before (18) has ||x_0 - x*||_G^2/eta = ||x_0 - x*||^2/step - rho ||A (x_0 - x*)||^2, which takes away its
    rho ||A x_0 - y* - c||^2, and rho ||u_0 - u*||^2 = ||w||^2/rho. For the noise it has eta sigma^2 d, by the prox
    being non-expansive; but without noise x_t would be exactly step P_t elsewhere, which makes it step sigma^2 d. With
    a `smoothness` L_f it is the printed eta = 1/L_f, which is larger. It needs eta <= 1/L_f and G >= I: a step of at
    most 1/(L_f + rho ||A^T A||), the default of `DPADMM`.

    >>> best = Optimum(np.ones(2), np.ones(2), np.array([0.5, 0.0]))
    >>> criterion_bound(best, start=np.zeros(2), penalty=0.25, step=0.5, sigma=0.1, rounds=10)  # (4 + 1)/20 + 0.01
    0.26
    """
    for name, value in (("penalty", penalty), ("step", step)):
        number(name, value)
    whole("rounds", rounds, 1)
    number("sigma", sigma, zero=True)
    away = float(((start - best.x) ** 2).sum()) / step + float((best.w**2).sum()) / penalty
    eta = step if smoothness is None else 1 / smoothness
    return away / (2 * rounds) + eta * sigma**2 * len(best.x)


def renyi_order(epsilon: float, delta: float, mu: float = 0.5) -> float:
    """alpha = log(1/delta)/((1 - mu) epsilon) + 1, (13)."""
    for name, value, top in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0), ("mu", mu, 1.0)):
        if not 0 < value < top:
            raise InputError(f"{name} must lie above 0 and below {top:g}, not at {value}")
    return math.log(1 / delta) / ((1 - mu) * epsilon) + 1


def paper_sigma(
    *,
    slope: float,
    rows: int,
    rounds: int,
    epsilon: float,
    delta: float,
    mu: float = 0.5,
    replace_one: bool = True,
) -> float:
    """sigma of Theorem 1, (8): sqrt(c^2 alpha T / (2 n^2 epsilon mu)); c, the `slope`, bounds every record's gradient.

    The paper's sensitivity c/n is for adding or removing a record; `replace_one` takes 2c/n, which doubles sigma.

    >>> paper_sigma(slope=1.0, rows=1000, rounds=100, epsilon=1.0, delta=1e-5, replace_one=False)  # doctest: +ELLIPSIS
    0.0490...
    """
    alpha = renyi_order(epsilon, delta, mu)
    number("slope", slope)
    for name, value in (("rows", rows), ("rounds", rounds)):
        whole(name, value, 1)
    moved = (2 if replace_one else 1) * slope / rows
    return moved * math.sqrt(alpha * rounds / (2 * epsilon * mu))


def suggested_rounds(
    *, constant: float, rows: int, dimension: int, epsilon: float, delta: float, step: float, mu: float = 0.5
) -> int:
    """T of Theorem 2, (19): constant * n sqrt(epsilon mu) / sqrt(alpha eta d), rounded, at least 1.

    The paper leaves the constant open. Its proof balances c_1 ||x_0 - x*||^2/T with eta sigma^2 d, which makes it
    sqrt(2 c_1) ||x_0 - x*||/c: unknown, since x* is. With it, the bound (9) is 2 c_1 ||x_0 - x*||^2/T. eta is the
    theory's step, 1/L_f.

    >>> suggested_rounds(constant=1.0, rows=32561, dimension=123, epsilon=1.0, delta=1e-5, step=4.0)
    212
    """
    alpha = renyi_order(epsilon, delta, mu)
    for name, value in (("constant", constant), ("rows", rows), ("dimension", dimension), ("step", step)):
        number(name, value)
    return max(1, round(constant * rows * math.sqrt(epsilon * mu) / math.sqrt(alpha * step * dimension)))
