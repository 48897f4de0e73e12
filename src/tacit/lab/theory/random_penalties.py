"""ADMM with random penalties (paper 003, Xiao, Ye, Devadas): when it converges, how fast, and what noise leaves.

For min sum_i f_i(x_i) s.t. sum_i A_i x_i = c, by (12), or by (13) with the tangent of f_i. Write e_i = x_i - x_i*,
l = lambda - lambda*, r = sum_j A_j e_j, d for the change of a quantity in a step, s_i = ||A_i||, rho_i for the largest
entry of its diagonal and r_i for the largest |rho_i - rho0|. With A_i^T rho_i A_i + Gamma_i = D_i I the step says

    grad f_i = A_i^T lambda^k - A_i^T rho_i r^k - D_i dx_i,        lambda^{k+1} = lambda^k - zeta r^{k+1},

where the gradient is taken at x_i^{k+1} in (12) and at x_i^k in (13). Its product with e_i^{k+1}, summed over i, the
strong convexity m_i, and r^k = r^{k+1} - sum_j A_j dx_j give, in ||u||_G^2 = sum_i D_i ||e_i||^2 + ||l||^2/zeta,

    ||u^k||_G^2 - ||u^{k+1}||_G^2  >=  sum_i (2 m_i - a N rho_i^2 s_i^2 - a r_i^2 s_i^2) ||e_i||^2
        + sum_i (D_i - N s_i^2/a) ||dx_i||^2 + (2 rho0 - N/a - zeta)/zeta^2 ||dlambda||^2

for every a > 0, the paper's alpha; for (13), m_i in place of 2 m_i, and D_i - L_i in place of D_i. The same equation
for grad f_i bounds ||l||^2 by a sum of five squares, and a share p of ||u^{k+1}||_G^2 is left over: (42) and (47).

**Corrected**; `as_printed=True` gives what the paper prints.

- ||l||^2 <= ||A_i^T l||^2/(least positive singular value of A_i)^2, in (37), needs A_i of full row rank. For consensus
  it is false: A_i^T l sees the edges at agent i only. But l lies in the range of A = [A_1 ... A_N], so
  ||l||^2 <= sum_i ||A_i^T l||^2/s with s the least positive eigenvalue of A A^T: s takes the place of N sigma_i,min^2.
- f_i is "sqrt(M_i)-smooth". (44) takes M_i for the constant of the gradient, which is L_i = sqrt(M_i); so do the second
  terms of (47) and (48). As printed they depend on the unit of f, and for L_i < 1 allow a D_i with which (13) diverges.
- The theorem states G with zeta where the proof has, and needs, 1/zeta.
- The third term of (42) and (47) has lost a 1/N on the way from (38). This is harmless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from tacit.core.graph import Graph
from tacit.errors import InputError

__all__ = ["LinearRate", "NoiseFloor", "edges", "linear_rate", "noise_floor"]

_NULL = 1e-10  # a squared singular value, relative to the largest, below which it is zero


@dataclass(frozen=True)
class LinearRate:
    """(42) and (43), or (47) and (48): ||u^k - u*||_G^2 >= (1 + p) ||u^{k+1} - u*||_G^2 if p is positive."""

    p: float  # 0 where the conditions cannot be met
    alpha: float  # the alpha of the proof; NaN where there is none
    alpha_above: float  # what rho0, zeta and D_i ask of alpha
    alpha_below: float  # what m_i asks of it
    proximal: bool  # D_i >= rho_i ||A_i||^2, so that Gamma_i is not negative
    least: np.ndarray  # (N,) the s by which agent i divides
    D: np.ndarray  # (N,)
    zeta: float
    noisy: bool  # the constants allow for noise on x_i

    @property
    def holds(self) -> bool:
        """(43) or (48): the method converges linearly, whatever penalties are drawn."""
        return self.p > 0 and self.proximal

    def __str__(self) -> str:
        if self.holds:
            return (
                f"the distance falls by a factor of at least {1 + self.p:.6g} in each round (alpha = {self.alpha:.4g})"
            )
        if not self.proximal:
            return "Gamma_i is negative: D_i has to be at least rho_i ||A_i||^2"
        return (
            f"the conditions have no solution: alpha has to be above {self.alpha_above:.4g} and below "
            f"{self.alpha_below:.4g}. They are sufficient, not necessary: this says nothing against convergence"
        )


def edges(graph: Graph) -> np.ndarray:
    """A, (N, edges, 1), of consensus on a graph, x_i - x_j = 0 for each edge, in one coordinate: all others are alike.

    >>> edges(Graph.path(2)).tolist()
    [[[1.0]], [[-1.0]]]
    """
    A = np.zeros((graph.agents, len(graph.edges), 1))
    for e, (i, j) in enumerate(graph.edges):
        A[i, e], A[j, e] = 1.0, -1.0
    return A


def linear_rate(
    A: np.ndarray,
    *,
    m: float | np.ndarray,
    L: float | np.ndarray,
    D: float | np.ndarray,
    zeta: float,
    rho: tuple[float | np.ndarray, float | np.ndarray],
    rho0: float | None = None,
    exact: bool = False,
    noisy: bool = False,
    as_printed: bool = False,
) -> LinearRate:
    """The p of (42) if `exact`, of (47) if not, for the alpha that makes it largest, and whether (43) or (48) holds.

    A : (N, m, d), the constraint
    m, L : strong convexity of f_i, and the Lipschitz constant of its gradient; one number, or one for each agent
    D, zeta, rho : D_i, the dual step, and the two ends between which the entries of rho_i are drawn
    rho0 : the number around which they lie; halfway between the least and the largest by default
    noisy : six squares in place of five in (54), as `noise_floor` needs it

    >>> A = edges(Graph.complete(3))
    >>> found = linear_rate(A, m=1.0, L=1.0, D=3.0, zeta=0.02, rho=(0.05, 0.06))
    >>> found.holds, round(found.p, 5)
    (True, 0.00149)
    >>> rest = dict(m=1.0, L=1.25, D=10.0, zeta=0.5, rho=(0.0, 10 / 9))
    >>> print(linear_rate(edges(Graph.complete(10)), **rest))  # doctest: +ELLIPSIS
    the conditions have no solution: alpha has to be above 16.36 and below 0.00878. ...
    """
    if exact and noisy:
        raise InputError("noise is proved for (13), where the gradient is taken before it: exact=True has no such rate")
    A = np.asarray(A, dtype=float)
    if A.ndim != 3 or not A.any():
        raise InputError(f"A is (N, m, d) and not zero; it has the shape {A.shape}")
    N = len(A)
    m, L, D, low, high = (_each(*x, N) for x in (("m", m), ("L", L), ("D", D), ("rho", rho[0]), ("rho", rho[1])))
    if np.any(low > high) or np.any(low < 0) or np.any(m <= 0) or np.any(m > L) or np.any(D <= 0) or not zeta > 0:
        raise InputError("0 <= rho_low <= rho_high, 0 < m <= L, D > 0 and zeta > 0 are needed")
    centre = (low.min() + high.max()) / 2 if rho0 is None else rho0
    off = np.maximum(np.abs(low - centre), np.abs(high - centre)) ** 2  # r_i^2
    squares = [_positive_squares(block) for block in A]
    s2 = np.array([x[-1] for x in squares])  # ||A_i||^2
    each = np.array([x[0] for x in squares])
    least = N * each if as_printed else np.full(N, _positive_squares(np.concatenate(list(A), axis=1))[0])
    terms, most = 6 if noisy else 5, high**2
    convex, smooth, lag = (2 * m, L**2, np.zeros(N)) if exact else (m, 2 * L**2, L**2 if as_printed else L)
    moved = terms * (D**2 + (0 if exact else 2 * L**2)) / (zeta * least)
    moved = moved + terms * N * s2 * (most * s2 / least).sum() / zeta
    dual = terms * (((N if as_printed else 1) * most / zeta**2 + 1) * s2 / least).sum()

    def shares(alpha: float) -> float:
        e = (convex - alpha * (N * most + off) * s2) / (terms * smooth / (zeta * least) + D)
        dx = (D - lag - N * s2 / alpha) / moved
        return float(min(e.min(), dx.min(), (2 * centre / zeta - N / (alpha * zeta) - 1) / dual))

    below = float(np.min(convex / np.maximum((N * most + off) * s2, 1e-300)))
    room = np.append((D - lag) / s2, 2 * centre - zeta)  # N/alpha has to be below each
    above = N / float(room.min()) if room.min() > 0 else math.inf
    p, alpha = 0.0, math.nan
    if above < below:  # the least of concave functions of alpha is concave: it has one maximum
        found = minimize_scalar(lambda x: -shares(x), bounds=(above, below), method="bounded", options={"xatol": 1e-12})
        p, alpha = max(shares(found.x), 0.0), float(found.x)
    return LinearRate(p, alpha, above, below, bool(np.all(high * s2 * (1 - 1e-12) <= D)), least, D, float(zeta), noisy)


@dataclass(frozen=True)
class NoiseFloor:
    """(58): ||u^{k+1} - u*||_G^2 <= a (||u^k - u*||_G^2 + sum_i weight_i ||Delta_i^{k+1}||^2)."""

    a: float
    weight: np.ndarray  # (N,)

    def bound(self, start: float, variance: float | np.ndarray, rounds: int) -> float:
        """On the mean of ||u^k - u*||_G^2 after so many rounds, from `start`, with E||Delta_i||^2 = `variance`.

        >>> NoiseFloor(0.5, np.array([1.0, 1.0])).bound(8.0, 1.0, 3)  # 8/8 + 2 (1/2 + 1/4 + 1/8)
        2.75
        """
        decay = self.a**rounds
        noise = float((self.weight * np.broadcast_to(variance, self.weight.shape)).sum())
        return decay * start + self.a * (1 - decay) / (1 - self.a) * noise


def noise_floor(rate: LinearRate, share: float = 0.5) -> NoiseFloor:
    """Theorem 3.3: a = 1/(1 + (1 - share) p) and weight_i = 6 p D_i^2/(zeta s) + D_i/(share p).

    Noise adds 2 D_i <e_i, Delta_i> and one more square, D_i^2 ||Delta_i||^2, to the inequalities of the module's
    docstring; 2 <e_i, Delta_i> <= share p ||e_i||^2 + ||Delta_i||^2/(share p). `share` is the paper's epsilon hat.

    >>> found = linear_rate(edges(Graph.complete(3)), m=1.0, L=1.0, D=3.0, zeta=0.02, rho=(0.05, 0.06), noisy=True)
    >>> round(noise_floor(found).a, 5)
    0.99938
    """
    if not 0 < share < 1:
        raise InputError(f"the share lies between 0 and 1, not at {share}")
    if not (rate.noisy and rate.holds):
        raise InputError("a noise floor needs a rate that holds, computed with noisy=True")
    weight = 6 * rate.p * rate.D**2 / (rate.zeta * rate.least) + rate.D / (share * rate.p)
    return NoiseFloor(1 / (1 + (1 - share) * rate.p), weight)


def _positive_squares(A: np.ndarray) -> np.ndarray:
    """The squares of the singular values that are not zero, from the least to the largest."""
    squares = np.linalg.svd(A, compute_uv=False)[::-1] ** 2
    found = squares[squares > _NULL * squares[-1]]
    if not len(found):
        raise InputError("every agent takes part in the constraint: some A_i is zero")
    return found


def _each(name: str, value: Any, N: int) -> np.ndarray:
    given = np.asarray(value, dtype=float)
    if given.shape not in ((), (N,)) or not np.all(np.isfinite(given)):
        raise InputError(f"{name} is one finite number or one for each of the {N} agents, not {value}")
    return np.broadcast_to(given, (N,)).copy()
