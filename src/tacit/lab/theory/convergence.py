"""When R-ADMM and MR-ADMM are proved to converge: the conditions of Theorem IV.1 (paper 000, Zhang, Khalili, Liu).

With D the degrees, A the adjacency, W(t) = diag(eta_i(t)), Dt = diag(2 eta_i(t) V_i + gamma), sigma its least entry and
D_M = diag(M_i^2), where M_i is the Lipschitz constant of the gradient of O_i (Assumption 3):

    (i)   I + W(t+1)(D+A) Dt^-1  >  L mu/(2 sigma) (W(t+1)(D-A))^+ D_M
    (ii)  W(t+1)(D+A)  >  W(t+1)(D+A) Dt^-1 (W(t)(D-A) + 2/L W(t+1)(D+A)) + L mu/(2 sigma (mu-1)) D_M

for some L > 0 and mu > 1; for one constant penalty and L = mu = 2 the paper calls them (iii) and (iv). The products are
not symmetric. The proof uses them only in ||X||_J^2 = <X, J X>, which sees the symmetric part of J, so J > 0 is checked
as: the least eigenvalue of (J + J^T)/2 is positive. That eigenvalue is the margin; a margin that rounding could
explain does not count as positive.

**A bipartite graph never meets (ii).** Let z be +1 on one side and -1 on the other: (D+A) z = 0. Put x = W(t+1)^-1 z
into the quadratic form of (ii): x^T W(t+1)(D+A) = z^T (D+A) = 0 in every term but the last, and what is left,
-L mu/(2 sigma (mu-1)) x^T D_M x, is negative for all penalties, gamma, L and mu. Paths, stars, trees and even rings are
bipartite. On other graphs D+A > 0, and for a penalty that all agents share a large gamma meets (i) and (ii), as the
paper says; for penalties of the agents' own it need not, because W(D+A) need not have a positive symmetric part.

This is a diagnostic and not a gate. The conditions are far from necessary, and part of the proof is wrong
(`docs/theory.md`): with penalties of the agents' own the limit is the minimiser of sum_i O_i/eta_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar

from tacit.core.graph import Graph
from tacit.core.losses import Logistic, Loss
from tacit.errors import InputError, number

__all__ = ["Conditions", "GammaSearch", "best_constants", "check", "check_constant", "lipschitz", "smallest_gamma"]

_BACK_OFF = 1e-6  # relative distance to the edge of (i) at which L and mu are put, and to which gamma is found
_NULL = 1e-10  # a singular value of D-A, relative to the largest, below which it is the null space
_Q_RANGE = 1e9  # q = L mu/(mu-1) is sought this far on either side of where its two terms balance


def lipschitz(
    scale: float | np.ndarray, l2: float, *, loss: Loss | None = None, row_norm: float = 1.0
) -> float | np.ndarray:
    """M_i <= scale_i c1 max||x||^2 + l2, from public facts only: c1 bounds L'' and `row_norm` the norm of any row.

    >>> lipschitz(1750.0, 0.22 / 5)
    437.544
    """
    c1 = (Logistic() if loss is None else loss).max_curvature
    given = np.asarray(scale, dtype=float)
    if not (np.all(given > 0) and np.all(np.isfinite(given))):
        raise InputError(f"scale must be positive, not {scale}")
    number("l2", l2, zero=True)
    number("row_norm", row_norm)
    M = given * c1 * row_norm**2 + l2
    return float(M) if M.ndim == 0 else M


@dataclass(frozen=True)
class Conditions:
    """Whether (i) and (ii) hold for one gamma, L and mu; `str` of it says so in words."""

    gamma: float
    L: float
    mu: float
    margin_i: float  # least eigenvalue of the symmetric part of left minus right side of (i)
    margin_ii: float  # the same for (ii), in units of eta
    holds_i: bool  # the margin is positive, and by more than rounding
    holds_ii: bool
    bipartite: bool
    common_penalty: bool  # eta_i is the same for all agents

    @property
    def holds(self) -> bool:
        """Both hold: Theorem IV.1 applies."""
        return self.holds_i and self.holds_ii

    def __str__(self) -> str:
        which = {(True, True): "(i) and (ii) hold", (True, False): "(i) holds, (ii) does not"}
        which |= {(False, True): "(ii) holds, (i) does not", (False, False): "neither (i) nor (ii) holds"}
        text = (
            f"Theorem IV.1 with gamma = {self.gamma:.6g}, L = {self.L:.4g}, mu = {self.mu:.4g}: "
            f"{which[self.holds_i, self.holds_ii]} (margins {self.margin_i:.3g} and {self.margin_ii:.3g})."
        )
        if self.bipartite:
            text += " The graph is bipartite, so (ii) fails for every gamma, L, mu and penalty."
        if not self.common_penalty:
            text += " The agents' penalties differ, so a limit minimises sum_i O_i/eta_i and not sum_i O_i."
        if not self.holds:
            text += " The conditions are sufficient, not necessary: this says nothing against convergence."
        return text


@dataclass(frozen=True)
class GammaSearch:
    """The smallest gamma that meets (i) and (ii), or None; `str` of it says why."""

    gamma: float | None
    at: Conditions | None  # the conditions there
    searched_to: float  # the largest gamma tried; 0 where there was nothing to try
    bipartite: bool

    def __str__(self) -> str:
        if self.at is not None:
            return f"The smallest gamma that meets (i) and (ii) is {self.gamma:.6g}. {self.at}"
        if self.bipartite:
            return "No gamma meets (ii): the graph is bipartite, so D+A is singular and (ii) fails for every L and mu."
        return (
            f"No gamma up to {self.searched_to:.3g} was found to meet (i) and (ii): the agents' penalties differ so "
            "much that W(t+1)(D+A), the limit of (ii) for large gamma, has no positive symmetric part."
        )


def check(
    graph: Graph,
    eta: float | np.ndarray,
    gamma: float,
    M: float | np.ndarray,
    *,
    eta_next: float | np.ndarray | None = None,
    L: float = 2.0,
    mu: float = 2.0,
) -> Conditions:
    """(i) and (ii) for eta_i(t) = `eta` and eta_i(t+1) = `eta_next` (the same, by default).

    >>> check(Graph.complete(3), eta=1.0, gamma=20.0, M=1.0).holds
    True
    >>> print(check(Graph.ring(4), eta=1.0, gamma=20.0, M=1.0))  # doctest: +ELLIPSIS
    Theorem IV.1 with gamma = 20, L = 2, mu = 2: (i) holds, (ii) does not ... The graph is bipartite, ...
    """
    if not (L > 0 and math.isfinite(L)):
        raise InputError(f"L must be positive, not {L}")
    if not (mu > 1 and math.isfinite(mu)):
        raise InputError(f"mu must be above 1, not {mu}")
    return _Network(graph, eta, eta_next, M).conditions(
        number("gamma", gamma, zero=True), p=L * mu, q=L * mu / (mu - 1)
    )


def check_constant(graph: Graph, eta: float, gamma: float, M: float | np.ndarray) -> tuple[float, float]:
    """The margins of (iii) and (iv), written as printed, for one penalty that never changes.

        (iii)  I + eta (D+A) Dt^-1  >  2/(eta sigma) (D-A)^+ D_M
        (iv)   eta (D+A)  >  2 eta (D+A) Dt^-1 eta D + 2/sigma D_M

    Each holds where its margin is positive. They are (i) and (ii) at L = mu = 2.

    >>> tuple(round(m, 9) for m in check_constant(Graph.complete(3), 1.0, 20.0, 1.0))
    (1.013888889, 0.75)
    """
    if np.ndim(eta) != 0:
        raise InputError("(iii) and (iv) are for one penalty that all agents share; use check() for several")
    net = _Network(graph, eta, None, M)
    dt = 2 * eta * net.V + number("gamma", gamma, zero=True)
    sigma = float(dt.min())
    iii = np.eye(len(dt)) + eta * net.S / dt - 2 / (eta * sigma) * net.pinv_laplacian * net.M2
    iv = eta * net.S - 2 * eta * net.S / dt * eta * net.V - 2 / sigma * np.diag(net.M2)
    return _least(iii), _least(iv)


def best_constants(
    graph: Graph,
    eta: float | np.ndarray,
    gamma: float,
    M: float | np.ndarray,
    *,
    eta_next: float | np.ndarray | None = None,
) -> Conditions:
    """The conditions at the L and mu that suit them best; the parameters are those of `check`.

    With p = L mu and q = L mu/(mu-1), any two positive numbers, 1/L = 1/p + 1/q: (i) knows only p, and (ii) is easiest
    for the largest p. So p goes to the edge of (i), and q maximises the margin of (ii), which is concave in q where
    W(t+1)(D+A) Dt^-1 W(t+1)(D+A) has a non-negative symmetric part. That is so for a penalty that all agents share;
    for others this is a search that may miss.

    >>> best_constants(Graph.complete(3), 1.0, 20.0, 1.0).margin_ii > check(Graph.complete(3), 1.0, 20.0, 1.0).margin_ii
    True
    """
    return _Network(graph, eta, eta_next, M).best(number("gamma", gamma, zero=True))


def smallest_gamma(
    graph: Graph,
    eta: float | np.ndarray,
    M: float | np.ndarray,
    *,
    eta_next: float | np.ndarray | None = None,
    L: float | None = None,
    mu: float | None = None,
) -> GammaSearch:
    """The smallest gamma >= 0 that meets (i) and (ii), to a relative 1e-6, for the best L and mu or for those given.

    A grid that doubles gamma finds the first one that meets them, and bisection the edge before it; it misses a
    gamma that works only between two points of the grid. `gamma` is None on bipartite graphs (proved above),
    and where the agents' penalties differ so much that no point of the grid works.

    >>> search = smallest_gamma(Graph.complete(3), eta=1.0, M=1.0, L=2.0, mu=2.0)
    >>> round(search.gamma, 4)  # (iv) there reads (gamma + 4)(1) > 2 * 1 * 2 + 2
    2.0
    >>> smallest_gamma(Graph.path(3), eta=1.0, M=1.0).gamma is None
    True
    """
    if (L is None) != (mu is None):
        raise InputError("give both L and mu, or neither to have them chosen")
    if L is not None and mu is not None and not (0 < L < math.inf and 1 < mu < math.inf):
        raise InputError(f"L must be positive and mu above 1, not L = {L}, mu = {mu}")
    net = _Network(graph, eta, eta_next, M)
    if net.bipartite:
        return GammaSearch(None, None, 0.0, True)

    def at(gamma: float) -> Conditions:
        if L is None or mu is None:
            return net.best(gamma)
        return net.conditions(gamma, p=L * mu, q=L * mu / (mu - 1))

    enough = net.enough_gamma(2.0 if L is None else L, 2.0 if mu is None else mu)
    low, found = 0.0, at(0.0)
    for gamma in enough * 2.0 ** np.arange(-40, 1):
        if found.holds:
            break
        low, found = found.gamma, at(float(gamma))
    if not found.holds:
        return GammaSearch(None, None, float(enough), False)
    while found.gamma - low > _BACK_OFF * found.gamma:
        middle = at((low + found.gamma) / 2)
        low, found = (low, middle) if middle.holds else (middle.gamma, found)
    return GammaSearch(found.gamma, found, found.gamma, False)


class _Network:
    """The matrices of (i) and (ii) that do not depend on gamma, L and mu."""

    def __init__(self, graph: Graph, eta: Any, eta_next: Any, M: Any) -> None:
        n = graph.agents
        if n < 2:
            raise InputError("the conditions are about agents that talk: at least two are needed")
        self.eta = _each("eta", eta, n)
        self.eta_next = self.eta if eta_next is None else _each("eta_next", eta_next, n)
        if np.any(self.eta_next < self.eta):
            i = int(np.argmax(self.eta_next < self.eta))
            raise InputError(f"Theorem IV.1 needs penalties that never fall: agent {i} has {self.eta_next[i]} next")
        self.M2 = _each("M", M, n) ** 2
        A = nx.to_numpy_array(graph.to_networkx())
        self.V = A.sum(axis=1)
        self.S = np.diag(self.V) + A  # D+A
        laplacian = np.diag(self.V) - A  # D-A
        self.WS = self.eta_next[:, None] * self.S  # W(t+1)(D+A)
        self.WL = self.eta[:, None] * laplacian  # W(t)(D-A)
        self.pinv_laplacian = np.linalg.pinv(laplacian, rcond=_NULL, hermitian=True)
        self.KM = np.linalg.pinv(self.eta_next[:, None] * laplacian, rcond=_NULL) * self.M2  # (W(t+1)(D-A))^+ D_M
        self.bipartite = nx.is_bipartite(graph.to_networkx())
        self.common = bool(np.ptp(self.eta) == 0 and np.ptp(self.eta_next) == 0)

    def conditions(self, gamma: float, p: float, q: float) -> Conditions:
        """(i) and (ii) at p = L mu and q = L mu/(mu-1)."""
        dt = 2 * self.eta * self.V + gamma
        sigma = float(dt.min())
        mu = 1 + p / q
        L = p / mu
        left_i, right_i = np.eye(len(dt)) + self.WS / dt, p / (2 * sigma) * self.KM
        left_ii = self.WS
        right_ii = self.WS / dt @ (self.WL + 2 / L * self.WS) + q / (2 * sigma) * np.diag(self.M2)
        i, ii = _least(left_i - right_i), _least(left_ii - right_ii)
        return Conditions(
            gamma=gamma,
            L=L,
            mu=mu,
            margin_i=i,
            margin_ii=ii,
            holds_i=i > _rounding(left_i, right_i),
            holds_ii=ii > _rounding(left_ii, right_ii),
            bipartite=self.bipartite,
            common_penalty=self.common,
        )

    def best(self, gamma: float) -> Conditions:
        """The conditions at the p and q described in `best_constants`."""
        dt = 2 * self.eta * self.V + gamma
        sigma = float(dt.min())
        left = _symmetric(np.eye(len(dt)) + self.WS / dt)
        if _least(left) <= 0:  # (i) asks that p be taken from a matrix that is not positive to begin with
            return self.conditions(gamma, p=4.0, q=4.0)
        p = 2 * sigma / float(scipy.linalg.eigvalsh(_symmetric(self.KM), left)[-1]) * (1 - _BACK_OFF)
        # 2/q W(D+A) Dt^-1 W(D+A) and q/(2 sigma) D_M, the terms of (ii) that q trades, balance about here:
        balance = 2 * float(np.linalg.norm(self.WS, 2)) / math.sqrt(float(self.M2.max()))

        def loss(log_q: float) -> float:
            return -self.conditions(gamma, p, math.exp(log_q)).margin_ii

        span = math.log(_Q_RANGE)
        middle = math.log(balance)
        found = minimize_scalar(loss, bounds=(middle - span, middle + span), method="bounded", options={"xatol": 1e-7})
        return self.conditions(gamma, p, math.exp(found.x))

    def enough_gamma(self, L: float, mu: float) -> float:
        """A gamma that surely meets (i) and (ii) where W(t+1)(D+A) has a positive symmetric part.

        sigma >= gamma and ||Dt^-1|| <= 1/gamma bound every term but that one by its norm. Where it has none, the same
        number with the sign dropped: from there on (ii) fails for this L.
        """
        ws, wl, km = (float(np.linalg.norm(X, 2)) for X in (self.WS, self.WL, self.KM))
        s = max(abs(_least(self.WS)), _rounding(self.WS, self.WS))
        ii = (ws * (wl + 2 / L * ws) + L * mu / (2 * (mu - 1)) * float(self.M2.max())) / s
        return 2 * max(ii, ws + L * mu / 2 * km)


def _symmetric(J: np.ndarray) -> np.ndarray:
    return (J + J.T) / 2


def _least(J: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(_symmetric(J))[0])


def _rounding(left: np.ndarray, right: np.ndarray) -> float:
    norms = float(np.linalg.norm(left) + np.linalg.norm(right))
    return 16 * len(left) * float(np.finfo(float).eps) * norms


def _each(name: str, value: Any, n: int) -> np.ndarray:
    given = np.asarray(value, dtype=float)
    if given.shape not in ((), (n,)):
        raise InputError(f"{name} is one number or one for each of the {n} agents, not of shape {given.shape}")
    if not (np.all(given > 0) and np.all(np.isfinite(given))):
        raise InputError(f"{name} must be positive and finite, not {value}")
    return np.broadcast_to(given, (n,)).copy()
