"""Incremental ADMM (paper 002, Ye, Chen, Xiao, Skoglund, Poor): when it converges; what (17) says of eavesdroppers.

PI-ADMM1 takes the step rho gamma at agent i, and keeps rho in the token (5). Write dx, dy for the change of x_i and y_i
in a visit. The exact step (12) says y_i^{k+1} = grad f_i(x_i^{k+1}); from the second visit on y_i^k = grad f_i(x_i^k),
too. Then the augmented Lagrangian (3) falls in a visit by

    f_i(x) - f_i(x + dx) + <y, dx> + rho/2 ||dx||^2 + 1/gamma (<dy, dx> - ||dy||^2/rho) + rho N/2 ||dz||^2
        >=  (rho - L)/2 ||dx||^2 + 1/gamma (<dy, dx> - ||dy||^2/rho) + rho N/2 ||dz||^2,

since rho gamma (z - x - dx) = dy, and f_i(x + dx) <= f_i(x) + <y, dx> + L/2 ||dx||^2.

- *Convex f_i*: <dy, dx> >= ||dy||^2/L, so for **rho > L nothing rises, whatever gamma > 0 is**.
- *Any L-smooth f_i*: <dy, dx> >= -L ||dx||^2 and ||dy|| <= L ||dx||, so rho > L and
  gamma > 2 L (rho + L)/(rho (rho - L)) will do: without N.

The Lagrangian is at least F(z) + (rho - L)/2 sum_i ||z - x_i||^2, by y_i = grad f_i(x_i), so it converges, dx and dz
vanish, and, for gamma bounded away from zero, the residuals of the KKT conditions do: Theorem 1, without (15b).

The paper's (15b) asks for gamma > 2(rho + 2)N, 2,400 in the setting of Fig. 3, where gamma is about 1; it and Lemma 2's
rho >= 2L + 2 add numbers of different units. In the first cycle a random start has y_i^0 = rho x_i^0, not the gradient,
and the Lagrangian may rise: property 1) of Lemmas 2 and 4 holds from the second cycle on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.core.problem import Problem
from tacit.errors import InputError, number, whole

__all__ = ["Descent", "augmented_lagrangian", "descent", "dual_error_bound", "kkt_residuals", "state_error_bound"]


@dataclass(frozen=True)
class Descent:
    """Which conditions a penalty and the least step size gamma meet."""

    steep_enough: bool  # (15a), rho > L
    gamma_above: float  # (15b): what the paper asks of gamma; infinite if not rho > L
    gamma_above_smooth: float  # what suffices for any L-smooth f_i, exact steps, from the second cycle on
    gamma: float  # the least that is drawn
    lemma_2: bool  # rho >= 2L + 2, for gamma = 1

    @property
    def paper(self) -> bool:
        """Whether the paper's conditions (15a) and (15b) hold."""
        return self.steep_enough and self.gamma > self.gamma_above

    @property
    def convex(self) -> bool:
        """What suffices for convex f_i and exact steps, from the second cycle on."""
        return self.steep_enough

    @property
    def smooth(self) -> bool:
        """What suffices for any L-smooth f_i and exact steps, from the second cycle on."""
        return self.steep_enough and self.gamma > self.gamma_above_smooth

    def __str__(self) -> str:
        if not self.steep_enough:
            return "(15a) fails: the penalty rho is not above L"
        meets = "holds" if self.paper else "fails"
        return (
            f"(15a) holds; (15b) {meets}: it asks for gamma above {self.gamma_above:.6g}, the least is {self.gamma:g}. "
            "For convex objectives and exact steps (15a) suffices"
        )


def descent(rho: float, L: float, agents: int, gamma: float = 1.0) -> Descent:
    """(15a), (15b), the condition of Lemma 2, and those of this module's docstring.

    rho, L : the penalty, and the Lipschitz constant of the gradients of all f_i
    gamma : the least step size that is drawn

    >>> print(descent(rho=10.0, L=2.0, agents=100, gamma=0.9))
    (15a) holds; (15b) fails: it asks for gamma above 2400, the least is 0.9. For convex objectives and exact steps \
(15a) suffices
    """
    for name, value in (("rho", rho), ("L", L), ("gamma", gamma)):
        number(name, value)
    whole("agents", agents, 1)
    above = smooth = math.inf
    if rho > L:
        above = max((2 * rho**2 + 4 * rho + 1) / (rho - L), 2 * (rho + 2) * agents)
        smooth = 2 * L * (rho + L) / (rho * (rho - L))
    return Descent(rho > L, above, smooth, float(gamma), rho >= 2 * L + 2)


def augmented_lagrangian(problem: Problem, x: np.ndarray, y: np.ndarray, z: np.ndarray, rho: float) -> float:
    """(3): sum_i f_i(x_i) + <y_i, z - x_i> + rho/2 ||z - x_i||^2, for x and y of shape (N, d), z of shape (d,).

    >>> problem = Problem([(np.eye(1), [1.0])], l2=0.0)
    >>> round(augmented_lagrangian(problem, np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), 2.0), 6)  # ln 2 + 1 + 1
    2.693147
    """
    apart = z - x
    return float(problem.value(x).sum() + (y * apart).sum() + rho / 2 * (apart**2).sum())


def kkt_residuals(problem: Problem, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, float]:
    """How far (33a), (33b) and (33c) are from being met: max ||grad f_i(x_i) - y_i||, ||sum_i y_i||, max ||z - x_i||.

    >>> problem = Problem([(np.eye(1), [1.0])], l2=1.0)
    >>> best = problem.optimum()
    >>> max(kkt_residuals(problem, best[None], np.zeros((1, 1)), best)) < 1e-8
    True
    """
    gradient = np.linalg.norm(problem.gradient(x) - y, axis=1).max()
    return float(gradient), float(np.linalg.norm(y.sum(axis=0))), float(np.linalg.norm(z - x, axis=1).max())


def state_error_bound(last_error: float, visits_ago: int) -> float:
    """(17), x: an eavesdropper who takes z^{K+1} for x_i^{K+1}, wrong by `last_error`, is wrong by 2^n times as much
    about the state n visits ago. By (11) the state before a visit is 2 x_i - N Delta - z: attained.

    >>> state_error_bound(0.1, 3)
    0.8
    """
    return 2.0 ** _visits(visits_ago) * last_error


def dual_error_bound(
    last_error: float, visits_ago: int, rho: float, visits: int | None = None, *, as_printed: bool = False
) -> float:
    """(17), y: rho 2^n times as much, since S_i = x_i - y_i/rho is public (errata 2): attained.

    As printed, for the agent's number of `visits`, floor(K/N) + 1: rho (2^visits - 2^n). That adds up what is wrong in
    the changes of y_i and leaves out y_i^0, which is wrong the other way round; for n < visits it is never less.

    >>> dual_error_bound(0.1, 3, rho=10.0), dual_error_bound(0.1, 3, rho=10.0, visits=6, as_printed=True)
    (8.0, 56.0)
    """
    n = _visits(visits_ago)
    if not as_printed:
        return rho * 2.0**n * last_error
    if visits is None or not visits > n:
        raise InputError(f"as printed it needs the number of the agent's visits, above {n}, not {visits}")
    return rho * (2.0**visits - 2.0**n) * last_error


def _visits(n: int) -> int:
    if not (n >= 0 and n == int(n)):
        raise InputError(f"the number of visits is a whole number, 0 or more, not {n}")
    return int(n)
