"""Rows with a score for each of several classes: values, gradients and minimisers by numpy, one agent after another.

A model F has a row for each class, (K, d), and is handed about flat, (K d,). Agent i has the data term
sum_r c_r L(F x_r, y_r) with the multinomial L(z, y) = ln sum_k exp(z_k) - z_y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from tacit.core.multinomial import Multinomial
from tacit.core.solvers.rows import Rows
from tacit.core.solvers.truncated_newton import NewtonStore


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


class ClassStore(NewtonStore):
    """As `RowStore`, for the multinomial loss."""

    def __init__(
        self, loss: Multinomial, rows: Rows, sizes: np.ndarray, y: np.ndarray, c: np.ndarray, features: int
    ) -> None:
        super().__init__(loss, rows, sizes, y, c, features)
        self.dimension = loss.classes * features
        self._classes = y.astype(int)
        self._weighted = (c * np.asarray(loss.weights)[self._classes])[:, None]

    def objective(
        self, i: int, rho: float = 0.0, b: np.ndarray | float = 0.0, rows: np.ndarray | None = None
    ) -> _Agent:
        own = slice(self.lo[i], self.hi[i]) if rows is None else rows
        B = b if isinstance(b, float) else b.reshape(self._loss.classes, -1)
        return _Agent(self._loss, self._matrix[own], self._classes[own], self._weighted[own], rho, B)

    def shaped(self, f: np.ndarray) -> np.ndarray:
        return f.reshape(self._loss.classes, self.features)

    def values(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([self.objective(i).value(self.shaped(f[k])) for k, i in enumerate(ids)])

    def gradients(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([self.objective(i).gradient(self.shaped(f[k]))[0].ravel() for k, i in enumerate(ids)])

    def gradients_of(self, ids: np.ndarray, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        out = np.empty((len(ids), self.dimension))
        for k, i in enumerate(ids):
            rows = self.lo[i] + np.flatnonzero(chosen[k, : self.sizes[i]])
            out[k] = self.objective(i, rows=rows).gradient(self.shaped(f[k]))[0].ravel()
        return out

    def curved(self, ids: np.ndarray, f: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.empty((len(ids), self.dimension))
        for k, i in enumerate(ids):
            agent = self.objective(i)
            out[k] = agent.curved(agent.gradient(self.shaped(f[k]))[1], self.shaped(v[k])).ravel()
        return out
