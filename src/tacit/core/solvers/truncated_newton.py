"""Newton's method with conjugate gradients: it needs values, gradients and products with the Hessian."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tacit.core.solvers.block import RowStore

_NEWTON, _HALVINGS = 200, 40  # steps, and tries for each of them: far more than a convex problem takes


class Convex(Protocol):
    """A convex function of an array."""

    def value(self, F: np.ndarray, /) -> float:
        """The value of the objective at F."""
        ...

    def gradient(self, F: np.ndarray, /) -> tuple[np.ndarray, Any]:
        """At F, and what `curved` needs to know of that point."""
        ...

    def curved(self, at: Any, V: np.ndarray, /) -> np.ndarray:
        """The Hessian at a point times V."""
        ...


def minimise(objective: Convex, F: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
    """The minimiser from F on, and its gradient norm: at most the tolerance, or where no step makes the gradient
    shorter or the value less."""
    G, at = objective.gradient(F)
    norm = float(np.linalg.norm(G))
    for _ in range(_NEWTON):
        if not norm > tolerance:
            break
        step, value, t = _step(objective, G, at, norm), objective.value(F), 1.0
        slope = float((G * step).sum())
        for _ in range(_HALVINGS):
            new = F + t * step
            G_new, at_new = objective.gradient(new)
            norm_new = float(np.linalg.norm(G_new))
            if norm_new < norm / 2 or objective.value(new) < value + 0.1 * t * slope:
                break
            t /= 2
        else:
            break
        F, G, at, norm = new, G_new, at_new, norm_new
    return F, norm


def descend(objective: Convex, F: np.ndarray, step: float, steps: int, limit: float) -> tuple[np.ndarray, float]:
    """Gradient descent from F on, by so many steps at most, until the gradient's norm is at most the limit: the point,
    and that norm. Slow, but with progress that is proved (`tacit.core.rounding`)."""
    for _ in range(steps + 1):
        G = objective.gradient(F)[0]
        norm = float(np.linalg.norm(G))
        if norm <= limit:
            break
        F = F - step * G
    return F, norm


def _step(objective: Convex, G: np.ndarray, at: Any, norm: float) -> np.ndarray:
    """-H^-1 G by conjugate gradients, the more exactly the nearer the end is."""
    step, r = np.zeros_like(G), -G
    q, rr = r.copy(), float((r * r).sum())
    target = (min(0.1, norm**0.5) * norm) ** 2
    for _ in range(2 * G.size):
        if rr <= target:
            break
        Hq = objective.curved(at, q)
        curvature = float((q * Hq).sum())
        if not curvature > 0:  # without l2 and far out, or where numbers are too small for their squares
            break
        alpha = rr / curvature
        step += alpha * q
        r -= alpha * Hq
        last, rr = rr, float((r * r).sum())
        q = r + (rr / last) * q
    return step


class NewtonStore(RowStore):
    """Rows whose objectives are minimised here, one agent after the other."""

    compiled = False

    def objective(self, i: int, rho: float, b: np.ndarray) -> Convex:
        """The data term of agent i + rho/2 ||f||^2 + b.f, of a model as `shaped` gives it."""
        raise NotImplementedError

    def shaped(self, f: np.ndarray) -> np.ndarray:
        """A row of models in the shape that the objective takes."""
        return f

    def minimise(self, ids: np.ndarray, rho: np.ndarray, b: np.ndarray, f: np.ndarray, aims: np.ndarray) -> np.ndarray:
        norms = np.empty(len(ids))
        for k, i in enumerate(ids):
            F, norms[k] = minimise(self.objective(i, float(rho[k]), b[k]), self.shaped(f[k]), float(aims[k]))
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
            objective, F = self.objective(i, float(rho[k]), b[k]), self.shaped(-b[k] / rho[k])
            F, norms[k] = descend(objective, F, step[k], int(steps[k]), limit[k])
            f[k] = F.ravel()
        return norms
