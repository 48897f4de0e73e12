"""Recovers the objectives: a secret step size is one number, and a visit has d equations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from tacit.errors import InputError
from tacit.lab.attacks.overheard import States, Transcript
from tacit.lab.attacks.recursion import recursion

_ROUNDS = 30  # of the alternation that finds a start


class Quadratics(NamedTuple):
    """The agents' objectives 1/2 x.Hx + g.x, and the states that go with them."""

    states: States
    curvature: np.ndarray  # (N, d, d) H_i
    slope: np.ndarray  # (N, d) g_i


def quadratics(heard: Transcript, low: float, high: float, agents: Iterable[int] | None = None) -> Quadratics:
    """The states and the objectives of PI-ADMM1 on quadratic objectives with the exact update (4a), for d >= 2.

    y_i = H x_i + g by (9), and y_i = rho (x_i - S_i). So x_i = M S_i + m with M = (I - H/rho)^{-1} and m = M g/rho: in
    a whole run an agent has d(d+3)/2 secret numbers, and one more for each visit, its gamma. From the second visit on,
    a visit has d equations for them,

        N Delta^{k+1} + x_i^k - x_i^{k+1} = gamma (x_i^{k+1} - z^k)

    and soon there are more equations than secrets. Paper 002's Theorem 2 counts the equations without (9). The law of
    gamma is public, between `low` and `high`: least squares relative to the residual x - z, alternately in (M, m) and
    in the gammas, then in all at once. If the two are the same, gamma is known: then the equations are linear, and
    what they find is the secret start.

    `agents` are those to attack, all by default; the rows of the others are NaN.
    """
    if not 0 < low <= high < np.inf:
        raise InputError(f"the step sizes lie between two positive numbers, not {low} and {high}")
    N, d = heard.agents, heard.tokens.shape[1]
    equations = d - (low < high)
    if not equations:
        raise InputError("in one dimension a visit has one equation for one secret gamma: give d = 2 or more")
    guess, sums = recursion(heard), heard.sums
    x, H, g = np.full_like(sums, np.nan), np.full((N, d, d), np.nan), np.full((N, d), np.nan)
    for i in range(N) if agents is None else agents:
        k = heard.visits(i)
        if (len(k) - 1) * equations <= d * (d + 3) // 2:
            raise InputError(f"agent {i} held the token {len(k)} times: too few equations in dimension {d}")
        M, m = _fitted(sums[k], heard.tokens[k], heard.moves[k], guess.x[k], low, high)
        x[k] = sums[k] @ M + m
        H[i] = heard.penalty * (np.eye(d) - np.linalg.inv(M))
        g[i] = heard.penalty * np.linalg.solve(M, m)
    return Quadratics(States(x, heard.penalty * (x - sums)), H, g)


def _fitted(
    S: np.ndarray, z: np.ndarray, moves: np.ndarray, x: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """M and m from one agent's visits, (V, d) each."""
    V, d = S.shape
    rows, columns = np.triu_indices(d)
    symmetric = np.zeros((len(rows), d, d))
    symmetric[range(len(rows)), rows, columns] = symmetric[range(len(rows)), columns, rows] = 1.0
    J = np.concatenate([np.einsum("vi,pij->vjp", S, symmetric), np.tile(np.eye(d), (V, 1, 1))], axis=2)
    count = J.shape[2]  # of secret numbers p: x = J p
    z, moves, gamma = z[1:], moves[1:], np.full(V - 1, np.clip(1.0, low, high))

    def weight(x: np.ndarray) -> np.ndarray:
        return 1 / np.linalg.norm(x[1:] - z, axis=1)[:, None]

    def residual(q: np.ndarray) -> np.ndarray:
        x = J @ q[:count]
        return (w * (moves + x[:-1] - x[1:] - q[count:, None] * (x[1:] - z))).ravel()

    def jacobian(q: np.ndarray) -> np.ndarray:
        out = np.zeros((V - 1, d, len(q)))
        out[:, :, :count] = w[:, :, None] * (J[:-1] - (1 + q[count:, None, None]) * J[1:])
        out[range(V - 1), :, range(count, len(q))] = -w * ((J @ q[:count])[1:] - z)
        return out.reshape(-1, len(q))

    for _ in range(_ROUNDS):
        w = weight(x)
        A = w[:, :, None] * ((1 + gamma[:, None, None]) * J[1:] - J[:-1])
        p = np.linalg.lstsq(A.reshape(-1, count), (w * (moves + gamma[:, None] * z)).ravel(), rcond=None)[0]
        x = J @ p
        far = x[1:] - z
        gamma = np.clip(((moves + x[:-1] - x[1:]) * far).sum(axis=1) / (far**2).sum(axis=1), low, high)
    if low == high:
        return np.tensordot(p[: len(rows)], symmetric, 1), p[len(rows) :]
    w, inside = weight(x), 1e-3 * (high - low)
    bounds = np.tile([[-np.inf], [np.inf]], count + V - 1)
    bounds[:, count:] = [[low], [high]]
    q = least_squares(
        residual,
        np.r_[p, np.clip(gamma, low + inside, high - inside)],
        jacobian,
        bounds=bounds,
        x_scale="jac",
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
        max_nfev=3000,
    ).x
    return np.tensordot(q[: len(rows)], symmetric, 1), q[len(rows) : count]
