"""All other agents against one."""

from __future__ import annotations

import numpy as np


def colluders(
    x: np.ndarray, y: np.ndarray, token: np.ndarray, penalty: float, victim: int, guess: np.ndarray | None = None
) -> np.ndarray:
    """The victim's y_i = grad f_i(x_i), (d,), from x and y of all others, (N, d); its own rows are not used.

    The token is the mean of all S_j = x_j - y_j/rho (4c), so N-1 agents that combine theirs know S_i, secret
    offset or not, and y_i = rho (x_i - S_i). A guess of x_i is the token itself, to which it converges; there the
    result is -sum of the others' y: paper 002's (20), which lacks the sign. A better guess is that of `recursion`.
    """
    others = np.delete(x - y / penalty, victim, axis=0).sum(axis=0)
    return penalty * ((token if guess is None else guess) - (len(x) * token - others))
