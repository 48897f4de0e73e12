"""Whether a record is among an agent's rows, and what its label is, from the agent's gradients."""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear

from tacit.lab.attacks.reconstruction import quadratic
from tacit.lab.attacks.stationarity import Gradients

_OUTSIDE = 1e-5  # of a record's norm, may lie outside the span of the rows by rounding


def second_moment(known: Gradients, rows: int, weight: float, logistic: bool) -> np.ndarray:
    """X'X of the squared loss, (d, d). For the logistic loss, the span of the gradients, which is that of the rows, if
    there are fewer than dimensions; else four times the curvature of the nearest quadratic, a rough estimate. One
    gradient gives the span of one row, whatever the loss."""
    if (logistic and rows < known.points.shape[1]) or len(known.points) == 1:
        basis = np.linalg.svd(known.values, full_matrices=False)[2][:rows]
        return np.asarray(basis.T @ basis)
    return quadratic(known, rows).curvature * ((4 if logistic else 1) / weight)


def leverage(moment: np.ndarray, X: np.ndarray, rows: int) -> np.ndarray:
    """x'(X'X)^+ x of each candidate, (m,); infinite if it does not lie in the span of the agent's rows.

    The sum over the agent's own rows is their rank, so that of a member is at most 1, and in the mean rank/n. A record
    that is not a member has no such bound. If the agent has fewer rows than there are dimensions, a stranger does not
    lie in their span, except by chance: then the leverage tells members and strangers apart without error. The more
    rows an agent has, the less it tells.
    """
    eigenvalues, vectors = np.linalg.eigh((moment + moment.T) / 2)
    kept = np.argsort(eigenvalues)[::-1][:rows]
    kept = kept[eigenvalues[kept] > _OUTSIDE**2 * eigenvalues.max()]
    inside = X @ vectors[:, kept]
    out = (inside**2 / eigenvalues[kept]).sum(axis=1)
    outside = np.linalg.norm(X - inside @ vectors[:, kept].T, axis=1) > _OUTSIDE * np.linalg.norm(X, axis=1)
    return np.where(outside & (rows < len(moment)), np.inf, out)


def auc(members: np.ndarray, strangers: np.ndarray) -> float:
    """How often a member has the lower score than a stranger; a tie is half: 1 is certainty, 1/2 is a coin.

    >>> auc(np.array([0.1, 0.2]), np.array([0.15, np.inf]))
    0.75
    """
    ordered = np.sort(strangers)
    lower, not_higher = (np.searchsorted(ordered, members, side=side) for side in ("left", "right"))
    return 1 - float(np.mean((lower + not_higher) / 2)) / len(strangers)


def moments(known: Gradients, X: np.ndarray, weight: float, logistic: bool) -> np.ndarray:
    """X'y, (d,), by somebody who knows the features X of the agent's rows and its data gradients.

    For the squared loss the gradient at f is c X'(Xf - y). For the logistic loss y s(-y z) = (y - tanh(z/2))/2, so it
    is c/2 X'(tanh(Xf/2) - y). Either way all that gradients say of the labels is X'y, and one gradient says it.
    """
    Z = known.points @ X.T
    each = (np.tanh(Z / 2) if logistic else Z) @ X - known.values * ((2 if logistic else 1) / weight)
    return np.asarray(each.mean(axis=0))


def labels(X: np.ndarray, cross: np.ndarray, signs: bool) -> np.ndarray:
    """The labels from X and X'y. These are d equations: n <= d independent rows have one solution. If labels are -1 and
    +1, the box [-1, 1]^n helps: it holds only one solution for up to about 2d rows in general position.

    >>> X = np.array([[1.0, 0.5], [0.2, 1.0], [0.9, -0.4]])
    >>> labels(X, X.T @ [1, -1, 1], signs=True).tolist()
    [1.0, -1.0, 1.0]
    """
    if not signs:
        return np.asarray(np.linalg.lstsq(X.T, cross, rcond=None)[0])
    found = lsq_linear(X.T, cross, bounds=(-1, 1), method="bvls", tol=1e-12).x
    return np.where(found >= 0, 1.0, -1.0)
