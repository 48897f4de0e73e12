"""Secret-shared sums over several rounds: what they reveal of single agents, although no single row is seen.

`tacit.exchange.revealed` counts the sums of one round, for rows that may be anything. More rounds of such rows add
nothing: each round has unknowns of its own. But the rows of a method without noise are not anything. In consensus ADMM
on least squares the whole run follows from a fixed number of secrets, the d(d+3)/2 numbers of H_i and g_i of each
agent, and every round adds d equations for each sum. With 2 lambda_i = L_i and s_i = sum_j f_j over the neighbours,

    f_i(t+1) = (H_i + 2 eta V_i)^-1 (eta V_i f_i(t) + eta s_i(t) - L_i(t) - g_i)                    (8)
    L_i(t+1) = L_i(t) + eta (V_i f_i(t+1) - s_i(t+1))                                               (9)

so after some rounds there are more equations than secrets. Two agents that look the same to the coalition (a symmetry
of the graph) can be told apart, but not named.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from tacit.algorithms import ConsensusADMM
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.exchange import SecretSharedSums
from tacit.simulation.simulate import simulate

_PRIME = 2**61 - 1
_ROUNDING = 1e-10  # fits that miss the sums by less have found them: fixed point has 43 bits


def determined(graph: Graph, coalition: Collection[int], rounds: int, seed: int = 0) -> list[int]:
    """The agents outside a coalition whose H_i and g_i, in one dimension, follow from the sums that its members hear in
    so many rounds, for nearly all values: no others nearby give the same sums.

    That is so if and only if the unit vectors of H_i and g_i are in the row space of the sums' derivatives. The run and
    its derivatives are computed exactly, modulo a prime of 61 bits, at random values. A rank that is found there is
    attained for nearly all real values; that a rank is missed has a probability of about 1e-15.

    >>> determined(Graph.complete(4), [0, 1], rounds=3), determined(Graph.complete(4), [0, 1], rounds=4)
    ([], [2, 3])
    """
    ours, N, p = set(coalition), graph.agents, _PRIME
    if not ours <= set(range(N)):
        raise InputError(f"the coalition {sorted(ours)} has agents that are not in the graph")
    others = [i for i in range(N) if i not in ours]
    rng = np.random.default_rng(seed)
    draw = [int(v) for v in rng.integers(1, p, size=2 * N + 1)]
    eta, H, g = draw[0], draw[1 : N + 1], draw[N + 1 :]
    place = {i: 2 * k for k, i in enumerate(others)}  # of the derivatives by H_i, then g_i
    width = 1 + 2 * len(others)  # a number, and its derivatives

    def ring(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=object)

    f, L, equations = [ring([0] * width)] * N, [ring([0] * width)] * N, []
    degree = [int(v) for v in graph.degree]
    for _ in range(rounds):
        s = [sum((f[j] for j in graph.neighbours(i)), ring([0] * width)) % p for i in range(N)]
        new = []
        for i in range(N):
            q = pow(H[i] + 2 * eta * degree[i], -1, p)
            right = eta * degree[i] * f[i] + eta * s[i] - L[i]
            right[0] -= g[i]
            if i in place:
                right[2 + place[i]] -= 1
            x = q * right % p
            if i in place:
                x[1 + place[i]] -= q * x[0]  # the derivative of q by H_i is -q^2
            new.append(x % p)
        f = new
        s = [sum((f[j] for j in graph.neighbours(i)), ring([0] * width)) % p for i in range(N)]
        L = [(L[i] + eta * (degree[i] * f[i] - s[i])) % p for i in range(N)]
        equations += [s[i][1:] for i in sorted(ours)]
    alone = {int(np.flatnonzero(row)[0]) for row in _reduced(equations) if np.count_nonzero(row) == 1}
    return [i for i in others if {place[i], place[i] + 1} <= alone]


def _reduced(rows: list[np.ndarray]) -> list[np.ndarray]:
    """The non-zero rows of the reduced echelon form modulo the prime."""
    p, done = _PRIME, 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in range(done, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = rows[done] * pow(int(rows[done][column]), -1, p) % p
        for r in range(len(rows)):
            if r != done and rows[r][column]:
                rows[r] = (rows[r] - rows[r][column] * rows[done]) % p
        done += 1
    return rows[:done]


def overheard_sums(problem: Problem, graph: Graph, penalty: float, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Runs consensus ADMM with secret-shared sums: what each agent said and heard in each round, (T, N, d) each."""
    said: list[np.ndarray] = []
    heard: list[np.ndarray] = []

    class Noted(SecretSharedSums):
        """The protocol itself, with notes."""

        def open(self, graph: Graph) -> Any:
            link = super().open(graph)
            deliver = link.deliver

            def noted(release: Release, turn: Turn, t: int) -> Inbox:
                inbox = deliver(release, turn, t)
                said.append(release.value.copy())
                heard.append(inbox.sum())
                return inbox

            link.deliver = noted  # type: ignore[method-assign]
            return link

    simulate(ConsensusADMM(penalty=penalty), problem, graph, rounds=rounds, exchange=Noted())
    return np.array(said), np.array(heard)


class Found(NamedTuple):
    """Quadratics that explain the sums that were heard."""

    curvature: np.ndarray  # (agents outside the coalition, d, d)
    slope: np.ndarray  # (agents outside the coalition, d)
    off: float  # how far their sums are from those that were heard, relative


def from_sums(
    graph: Graph,
    own: dict[int, np.ndarray],
    sums: dict[int, np.ndarray],
    penalty: float,
    starts: int = 10,
    seed: int = 0,
) -> Found:
    """H_i and g_i of all agents outside a coalition, by least squares on the sums that its members heard.

    own, sums : by member of the coalition, (T, d): what it said in each round, and the sum that it heard
    penalty   : eta of consensus ADMM, which started from zero
    """
    others = [i for i in range(graph.agents) if i not in own]
    T, d = next(iter(own.values())).shape
    rows, columns = np.triu_indices(d)
    k, each = len(others), len(rows) + d
    heard = np.stack([sums[i] for i in sorted(own)], axis=1)
    size = np.linalg.norm(heard)
    A = np.zeros((graph.agents, graph.agents))
    for a, b in graph.edges:
        A[a, b] = A[b, a] = 1.0
    V = graph.degree[others][:, None]

    def unpacked(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        secrets = v.reshape(k, each)
        H = np.zeros((k, d, d))
        H[:, rows, columns] = H[:, columns, rows] = secrets[:, : len(rows)]
        return H, secrets[:, len(rows) :]

    def residual(v: np.ndarray) -> np.ndarray:
        H, g = unpacked(v)
        inverse = np.linalg.inv(H + 2 * penalty * V[:, :, None] * np.eye(d))
        f, L, out = np.zeros((graph.agents, d)), np.zeros((k, d)), np.empty_like(heard)
        for t in range(T):
            right = penalty * (V * f[others] + (A @ f)[others]) - L - g
            f = np.zeros_like(f)
            f[others] = np.einsum("kij,kj->ki", inverse, right)
            for i, rows_said in own.items():
                f[i] = rows_said[t]
            s = A @ f
            L = L + penalty * (V * f[others] - s[others])
            out[t] = s[sorted(own)]
        return np.asarray((out - heard).ravel() / size)

    rng, best = np.random.default_rng(seed), None
    for _ in range(starts):
        B = rng.normal(size=(k, d, d)) / np.sqrt(d)
        H = B @ B.swapaxes(1, 2) + 0.1 * np.eye(d)
        first = np.concatenate([H[:, rows, columns], rng.normal(size=(k, d))], axis=1).ravel()
        with np.errstate(all="ignore"):
            try:
                fit = least_squares(residual, first, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=300)
            except (ValueError, np.linalg.LinAlgError):  # a start that leads to infinity
                continue
        if best is None or fit.cost < best.cost:
            best = fit
        if np.linalg.norm(best.fun) < _ROUNDING:
            break
    if best is None:
        raise InputError("no start led to quadratics that explain the sums")
    return Found(*unpacked(best.x), float(np.linalg.norm(best.fun)))
