"""The paper's own attack: all equations at once."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import lsqr, splu

from tacit.errors import InputError
from tacit.lab.attacks.overheard import States, Transcript

PRINTED = 20  # iterations after which MATLAB's lsqr(A, b) stops; the paper only names that function


def least_squares(heard: Transcript, *, iterations: int | None = PRINTED) -> States:
    """Paper 002's (23): the least-squares solution of (18) with gamma = 1,

        x_i^0 - y_i^0/rho = 0                                                   for every agent
        x_i^{k+1} - x_i^k/2 = (N Delta^{k+1} + z^k)/2                           for every tick
        y_i^{k+1} - y_i^k + rho/2 x_i^k = rho/2 (z^k - N Delta^{k+1})
        sum_i y_i = 0                                                           at the end, by the KKT conditions

    where z^{k+1} takes the place of x_i^{k+1} in the last N ticks. `iterations` of lsqr, or None for the solution.

    The solution is no better: putting z for x at the end runs (11) backwards, which doubles the error at each
    visit, and (11) run forwards from any start halves it (`recursion`).
    """
    N, K, rho = heard.agents, len(heard), heard.penalty
    if K < N:
        raise InputError(f"the attack needs a visit to each of the {N} agents; {K} ticks were overheard")
    z, moves = heard.tokens, heard.moves
    # Unknowns: x_i^0, then x after each tick; and y likewise, `half` further on.
    half = N + K
    agents, ticks, before = np.arange(N), np.arange(K), heard.previous
    x_now, x_old = N + ticks, np.where(before < 0, heard.holders, N + before)
    last = np.full(N, -1)
    last[heard.holders] = ticks
    if last.min() < 0:
        raise InputError(f"agent {int(last.argmin())} never held the token: the attack needs a visit to each")
    of_x, of_y, kkt = N + ticks, N + K + ticks, N + 2 * K
    entries = [
        (agents, agents, 1.0),
        (agents, half + agents, -1 / rho),
        (of_x, x_now, 1.0),
        (of_x, x_old, -0.5),
        (of_y, half + x_now, 1.0),
        (of_y, half + x_old, -1.0),
        (of_y, x_old, rho / 2),
        (np.full(N, kkt), half + N + last, 1.0),
    ]
    rows, columns, values = (
        np.concatenate([np.broadcast_to(e[place], len(e[0])) for e in entries]) for place in range(3)
    )
    A = scipy.sparse.csc_matrix((values, (rows, columns)), shape=(kkt + 1, 2 * half))
    b = np.vstack([np.zeros((N, z.shape[1])), (moves + z[:-1]) / 2, rho / 2 * (z[:-1] - moves), np.zeros_like(z[:1])])
    known = np.zeros(2 * half, dtype=bool)
    known[half - N : half] = True
    v = np.zeros((2 * half, z.shape[1]))
    v[known] = z[-N:]
    v[~known] = _solved(A[:, ~known], b - A @ v, iterations)
    return States(v[N:half], v[half + N :])


def _solved(A: scipy.sparse.csc_matrix, b: np.ndarray, iterations: int | None) -> np.ndarray:
    """argmin_v ||A v - b||^2, for every column of b."""
    if iterations is not None:
        return np.stack([lsqr(A, column, iter_lim=iterations)[0] for column in b.T], axis=1)
    m, n = A.shape  # r + A v = b, A^T r = 0: without squaring the condition number
    augmented = scipy.sparse.bmat([[scipy.sparse.eye(m), A], [A.T, None]]).tocsc()
    try:
        return splu(augmented).solve(np.vstack([b, np.zeros((n, b.shape[1]))]))[m:]
    except RuntimeError:  # each visit halves the weight of the start, in the end to zero
        raise InputError(f"the equations are singular in floating point: {n} unknowns are too many to solve") from None
