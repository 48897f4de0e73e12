"""Rows with a score for each of several classes: values, gradients and minimisers by numpy, one agent after another.

A model F has a row for each class, (K, d), and is handed about flat, (K d,). Agent i has the data term
sum_r c_r L(F x_r, y_r) with the multinomial L(z, y) = ln sum_k exp(z_k) - z_y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from tacit.core.losses import Multinomial
from tacit.core.solvers.block import RowStore
from tacit.core.solvers.rows import Rows

_NEWTON, _HALVINGS = 200, 40  # steps, and tries for each of them: far more than a convex problem takes


class _Agent(NamedTuple):
    """One agent's objective: its data term + rho/2 ||F||^2 + <B, F>."""

    loss: Multinomial
    X: np.ndarray
    y: np.ndarray  # (rows,) of int
    c: np.ndarray  # (rows, 1), class weights included
    rho: float
    B: np.ndarray | float

    def value(self, F: np.ndarray) -> float:
        log_p = log_softmax(self.loss.scores(self.X, F), axis=1)
        own = -np.take_along_axis(log_p, self.y[:, None], axis=1)
        return float((self.c * own).sum() + self.rho / 2 * (F**2).sum() + (self.B * F).sum())

    def gradient(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient, and the probabilities, (rows, K)."""
        P = softmax(self.loss.scores(self.X, F), axis=1)
        slope = P.copy()
        slope[np.arange(len(P)), self.y] -= 1.0
        return np.asarray((self.X.T @ (self.c * slope)).T) + self.rho * F + self.B, P

    def curved(self, P: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The Hessian times V, (K, d): for a row, (diag(p) - p p^T) V x x^T."""
        U = np.asarray(self.X @ V.T)
        W = P * (U - (P * U).sum(axis=1, keepdims=True))
        return np.asarray((self.X.T @ (self.c * W)).T) + self.rho * V

    def newton_step(self, G: np.ndarray, P: np.ndarray, norm: float) -> np.ndarray:
        """-H^-1 G by conjugate gradients, the more exactly the nearer the end is."""
        step, r = np.zeros_like(G), -G
        q, rr = r.copy(), float((r * r).sum())
        target = (min(0.1, norm**0.5) * norm) ** 2
        for _ in range(2 * G.size):
            if rr <= target:
                break
            Hq = self.curved(P, q)
            curvature = float((q * Hq).sum())
            if not curvature > 0:  # without l2 and far out, or where numbers are too small for their squares
                break
            alpha = rr / curvature
            step += alpha * q
            r -= alpha * Hq
            last, rr = rr, float((r * r).sum())
            q = r + (rr / last) * q
        return step

    def minimise(self, F: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
        """Newton's method; ends at the tolerance, or where no step makes the gradient shorter or the value less."""
        G, P = self.gradient(F)
        norm = float(np.linalg.norm(G))
        for _ in range(_NEWTON):
            if not norm > tolerance:
                break
            step, value, t = self.newton_step(G, P, norm), self.value(F), 1.0
            slope = float((G * step).sum())
            for _ in range(_HALVINGS):
                new = F + t * step
                G_new, P_new = self.gradient(new)
                norm_new = float(np.linalg.norm(G_new))
                if norm_new < norm / 2 or self.value(new) < value + 0.1 * t * slope:
                    break
                t /= 2
            else:
                break
            F, G, P, norm = new, G_new, P_new, norm_new
        return F, norm


class ClassStore(RowStore):
    """As `RowStore`, for the multinomial loss."""

    def __init__(
        self, loss: Multinomial, rows: Rows, sizes: np.ndarray, y: np.ndarray, c: np.ndarray, features: int
    ) -> None:
        super().__init__(loss, rows, sizes, y, c, features)
        self.dimension = loss.classes * features
        self._classes = y.astype(int)
        self._weighted = (c * np.asarray(loss.weights)[self._classes])[:, None]

    def _agent(self, i: int, rho: float = 0.0, b: np.ndarray | float = 0.0, rows: np.ndarray | None = None) -> _Agent:
        own = slice(self.lo[i], self.hi[i]) if rows is None else rows
        B = b if isinstance(b, float) else b.reshape(self._loss.classes, -1)
        return _Agent(self._loss, self._matrix[own], self._classes[own], self._weighted[own], rho, B)

    def _model(self, f: np.ndarray) -> np.ndarray:
        return f.reshape(self._loss.classes, self.features)

    def values(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([self._agent(i).value(self._model(f[k])) for k, i in enumerate(ids)])

    def gradients(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([self._agent(i).gradient(self._model(f[k]))[0].ravel() for k, i in enumerate(ids)])

    def gradients_of(self, ids: np.ndarray, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        out = np.empty((len(ids), self.dimension))
        for k, i in enumerate(ids):
            rows = self.lo[i] + np.flatnonzero(chosen[k, : self.sizes[i]])
            out[k] = self._agent(i, rows=rows).gradient(self._model(f[k]))[0].ravel()
        return out

    def minimise(self, ids: np.ndarray, rho: np.ndarray, b: np.ndarray, f: np.ndarray, aims: np.ndarray) -> np.ndarray:
        norms = np.empty(len(ids))
        for k, i in enumerate(ids):
            F, norms[k] = self._agent(i, float(rho[k]), b[k]).minimise(self._model(f[k]), float(aims[k]))
            f[k] = F.ravel()
        return norms

    def descend(
        self,
        ids: np.ndarray,
        rho: np.ndarray,
        b: np.ndarray,
        f: np.ndarray,
        step: np.ndarray,
        steps: np.ndarray,
        limit: np.ndarray,
    ) -> np.ndarray:
        norms = np.empty(len(ids))
        for k, i in enumerate(ids):
            agent = self._agent(i, float(rho[k]), b[k])
            F = self._model(-b[k] / rho[k])
            for _ in range(int(steps[k]) + 1):
                G = agent.gradient(F)[0]
                norms[k] = np.linalg.norm(G)
                if norms[k] <= limit[k]:
                    break
                F = F - step[k] * G
            f[k] = F.ravel()
        return norms
