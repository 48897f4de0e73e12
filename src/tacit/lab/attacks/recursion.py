"""Following the token with a guess of the step size."""

from __future__ import annotations

import numpy as np

from tacit.algorithms import hyper
from tacit.lab.attacks.overheard import States, Transcript


def recursion(heard: Transcript, *, gamma: float = 1.0, start: float = 0.0) -> States:
    """Paper 002's (11), and the first equations of (18) with a guess in the place of the secret gamma:

        x_i = (N Delta^{k+1} + gamma z^k + x_i^k) / (1 + gamma),    y_i = rho (x_i - S_i)

    from the same x_i^0 for all, and from S_i^0 = 0. S_i = x_i - y_i/rho is known whatever gamma is (`Transcript.sums`).

    With the right gamma and start this is exact. Otherwise, subtracting the true equation, the error e of x_i obeys

        e^{k+1} = (e^k + (guess - gamma) (z^k - x_i)) / (1 + guess)

    so that with a guess of 1 each visit halves what the start was wrong by, and what is added vanishes with the
    residual z - x_i: the better the method converges, the better the attack. Only S_i^0 stays in y_i for good.
    Noise on x_i changes nothing in this: what comes out is the noisy x_i.
    """
    hyper.number("gamma", gamma)
    z, moves = heard.tokens, heard.moves
    x = np.full((heard.agents, z.shape[1]), float(start))
    out = np.empty_like(moves)
    for k, i in enumerate(heard.holders):
        out[k] = x[i] = (moves[k] + gamma * z[k] + x[i]) / (1 + gamma)
    return States(out, heard.penalty * (out - heard.sums))
