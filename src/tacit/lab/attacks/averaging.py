"""Noise on a gradient is averaged away over the visits of a token."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import chdtri

from tacit.lab.attacks.overheard import States, Transcript
from tacit.lab.attacks.recursion import recursion

_DOUBT = 0.05  # a fit is not believed whose residuals are larger than the noise makes them so often


def averaged(
    heard: Transcript, noise: float, *, exact: bool, quadratic: bool = False, agents: Iterable[int] | None = None
) -> States:
    """The gradients of PI-ADMM2, by regression over an agent's visits. `noise` is rho times the deviation of the noise
    on x_i, which is public.

    `recursion` has x_i as it left, with its noise e, and y_i = rho (c - x_i), c = z + y_i^before/rho. Then

        (4a)   y_i + rho e = rho (c - argmin)           is a function of c
        (8)    y_i + rho e = grad f_i(x_i^before)       is a function of x_i^before

    the same at all visits, and the noise of different visits is independent. If x_i^0 is secret, `recursion` is wrong
    by 2^-v x_i^0 at visit v, so y_i and the argument are wrong by multiples of that: a term 2^-v takes it up, which the
    first visit determines. For `quadratic` objectives the
    function is affine, and is fitted to all visits. For others a constant, an affine function or one of second order
    is fitted to the last visits: of all these the one that averages most, among those whose residuals are as small as
    the noise makes them. `y` has its values, and those of `recursion` at the visits before.

    `agents` are those to attack, all by default.
    """
    states = recursion(heard)
    x, y, d = states.x, states.y.copy(), states.x.shape[1]
    for i in range(heard.agents) if agents is None else agents:
        k = heard.visits(i)
        u = heard.tokens[k].copy() if exact else np.zeros_like(x[k])  # before the first visit `recursion` has zero
        u[1:] += states.y[k[:-1]] / heard.penalty if exact else x[k[:-1]]
        u = u - u[-1]
        start = 2.0 ** -np.arange(len(k))[:, None]
        second = np.stack([u[:, a] * u[:, b] for a in range(d) for b in range(a + 1)], axis=1)
        models = [[u, start]] if quadratic else [[], [start], [u], [u, start], [u, second], [u, second, start]]
        least = np.inf
        for terms in models:
            for last in range(len(k) if quadratic else 2 * d + 4, len(k) + 1):
                A = np.column_stack([np.ones(last), *(term[-last:] for term in terms)])
                Q, R = np.linalg.qr(A / np.linalg.norm(A, axis=0))
                if last <= A.shape[1] or np.abs(np.diagonal(R)).min() < 1e-9:  # terms cannot be told apart
                    continue
                fitted = Q @ (Q.T @ states.y[k[-last:]])
                share = float(Q[-1] @ Q[-1])  # of the variance of the noise, at the last visit
                left = float(((states.y[k[-last:]] - fitted) ** 2).sum())
                believed = quadratic or left < noise**2 * chdtri(d * (last - A.shape[1]), _DOUBT)
                if share < least and believed:
                    least, y[k] = share, states.y[k]
                    y[k[-last:]] = fitted
    return States(x, y)
