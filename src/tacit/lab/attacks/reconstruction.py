"""Records from gradients: what a few rows at an agent do not hide.

Let an agent have n rows x_r with labels y_r that count c each, and let its data gradients be known at several points
(`stationarity`). What follows from them depends on the loss.

*Squared loss.* The gradient is H x + g with H = c X'X and g = -c X'y, and no number of gradients has more in it. So X
and y are known up to a rotation Q of the n rows: QX and Qy have the same gradients everywhere. One row is known up to a
sign. A column of ones tells which Q is meant, up to those with Q1 = 1: then two rows are known up to their order. If
the labels are -1 and +1, too, and both occur, then three are.

*Logistic loss.* With w_r = y_r x_r the gradient at f is -c sum_r s(-w_r.f) w_r, s the logistic function. It is not
linear in f, and for different w_r the functions s(-w_r.f) are linearly independent: no rotation is left over. All w_r
follow, up to their order, from enough gradients; a column whose sign is known (of ones, say) tells y_r and x_r apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment
from scipy.special import expit

from tacit.lab.attacks.stationarity import Gradients

_NOISE = 1e-8  # by which gradients may be off, relative to the largest: solvers stop at 1e-9
_SAME = 1e-3  # by which rows of two fits may differ, relative
_SMALL = 1e-3  # gradients below this share of the largest do not count in full


class Quadratic(NamedTuple):
    """A data term 1/2 x.Hx + g.x."""

    curvature: np.ndarray  # (d, d) H
    slope: np.ndarray  # (d,) g
    directions: int  # in how many the points differ; H is known if they are d, or as many as there are rows

    def per_row(self, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """X'X and X'y of the squared loss, from rows that count `weight` each."""
        return self.curvature / weight, -self.slope / weight


def quadratic(known: Gradients, rows: int) -> Quadratic:
    """H and g of at most so many rows, by regression of the data gradients on their points.

    The regression gives A = HV for the directions V in which the points differ. H is positive and has a rank of at most
    `rows`, so that H = A (V'A)^+ A' where V has as many directions as that: what was not visited follows.

    >>> x = np.array([1.0, 2.0, 0.0])
    >>> points = np.eye(3)[:2]
    >>> found = quadratic(Gradients(np.vstack([0 * x, points]), np.outer([0.0, 1.0, 2.0], x)), rows=1)
    >>> bool(np.allclose(found.curvature, np.outer(x, x)))
    True
    """
    points, values = known
    centre, level = points.mean(axis=0), values.mean(axis=0)
    U, size, Vt = np.linalg.svd(points - centre, full_matrices=False)
    kept = size > _NOISE * max(float(size[0]), np.finfo(float).tiny)
    V = Vt[kept].T
    A = (values - level).T @ (U[:, kept] / size[kept])
    inner = (V.T @ A + A.T @ V) / 2
    eigenvalues, vectors = np.linalg.eigh(inner)
    best = eigenvalues.argsort()[::-1][:rows]
    best = best[eigenvalues[best] > _NOISE * float(eigenvalues.max(initial=0.0))]
    B = A @ vectors[:, best]
    H = B @ (B / eigenvalues[best]).T
    return Quadratic(H, level - H @ centre, int(kept.sum()))


class Reconstructed(NamedTuple):
    """Rows and labels as an attack has them. `labels` is None where only y_r x_r is known, which is in `rows` then."""

    rows: np.ndarray  # (n, d)
    labels: np.ndarray | None  # (n,)

    @property
    def signed(self) -> np.ndarray:
        """The rows y_r x_r, or x_r where no labels are known."""
        return self.rows if self.labels is None else self.labels[:, None] * self.rows


def of_squared(
    found: Quadratic, rows: int, weight: float, *, ones: int | None = None, signs: bool = False
) -> Reconstructed | None:
    """The rows behind a quadratic, up to their order, where they are determined; else None.

    ones  : a column that is 1 in every row, if there is one
    signs : whether labels are -1 and +1
    """
    moment, cross = found.per_row(weight)
    if found.directions < min(rows, len(moment)) or rows > min(3, len(moment)):
        return None
    eigenvalues, vectors = np.linalg.eigh(moment)
    if not eigenvalues[-rows] > _NOISE * eigenvalues[-1]:  # rows that depend on each other
        return None
    X = np.sqrt(eigenvalues[-rows:])[:, None] * vectors[:, -rows:].T
    y = X @ cross / eigenvalues[-rows:]
    if rows == 1:
        sign = 1.0 if ones is None or X[0, ones] > 0 else -1.0
        return Reconstructed(sign * X, sign * y)
    if ones is None:
        return None
    turned, meant = [X[:, ones]], [np.ones(rows)]
    if rows == 3:
        positive = round((3 + float(X[:, ones] @ y)) / 2)
        if not signs or positive not in (1, 2):
            return None
        turned.append(y)
        meant.append(np.where(np.arange(3) < positive, 1.0, -1.0))
    Q = _frame(meant) @ _frame(turned).T
    return Reconstructed(Q @ X, Q @ y)


def _frame(vectors: list[np.ndarray]) -> np.ndarray:
    """An orthonormal basis whose first vectors are these, made orthonormal one after the other."""
    given = np.stack(vectors, axis=1)
    Q, R = np.linalg.qr(np.c_[given, np.eye(len(given))])
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)


def of_logistic(
    known: Gradients, rows: int, weight: float, *, positive: int | None = None, starts: int = 40, seed: int = 0
) -> tuple[Reconstructed, float]:
    """The rows behind the data gradients of the logistic loss, by least squares from several starts; and how far the
    gradients of these rows are from the known ones, relative. If that is not small, no start has led to the rows.

    All gradients lie in the span of the rows: with fewer rows than dimensions, the fit is in that span. Every other
    start has the second moment of the nearest quadratic (at zero its curvature is c/4 W'W), in a random rotation. Where
    the points are so far out that the gradients are nearly zero, that is too small: the other starts are random rows of
    norm about 1, every other one on the side of -gradient.

    positive : a column that is positive in every row, which tells the labels
    """
    points, values = known
    basis = np.linalg.svd(values, full_matrices=False)[2][:rows].T
    P, G = points @ basis, values @ basis / weight
    k = basis.shape[1]
    root = _root(quadratic(Gradients(P, G), rows).curvature * 4)
    size = np.linalg.norm(G, axis=1, keepdims=True)
    each = 1 / (size + _SMALL * size.max()) / np.sqrt(len(G))  # small gradients count, too
    mean = -np.sqrt(k) * G.mean(axis=0) / np.linalg.norm(G.mean(axis=0))

    def residual(w: np.ndarray) -> np.ndarray:
        W = w.reshape(rows, k)
        return np.asarray((each * (-expit(-P @ W.T) @ W - G)).ravel())

    def jacobian(w: np.ndarray) -> np.ndarray:
        W = w.reshape(rows, k)
        s = expit(-P @ W.T)
        out = np.einsum("kr,rj,kl->kjrl", s * (1 - s), W, P)
        out[:, range(k), :, range(k)] -= s
        return (each[:, :, None, None] * out).reshape(-1, rows * k)

    rng, best, least = np.random.default_rng(seed), np.zeros((rows, k)), np.inf
    for start in range(starts):
        if start % 2:
            first = np.linalg.qr(rng.normal(size=(rows, rows)))[0][:, :k] @ root
        else:
            first = rng.normal(size=(rows, k)) + (mean if start % 4 else 0.0)
            first *= 2 ** rng.uniform(-1, 1, size=(rows, 1)) / np.linalg.norm(first, axis=1, keepdims=True)
        fit = least_squares(residual, first.ravel(), jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400)
        off, found = float(np.linalg.norm(fit.fun)), fit.x.reshape(rows, k)
        # A fit that is good to the noise may still lie in a flat valley beside the rows: then a second one differs.
        agreed = max(off, least) < _NOISE and row_errors(found, best).max() < _SAME
        if off < least:
            best, least = found, off
        if agreed:
            break
    W = best @ basis.T
    if positive is None:
        return Reconstructed(W, None), least
    labels = np.where(W[:, positive] >= 0, 1.0, -1.0)
    return Reconstructed(labels[:, None] * W, labels), least


def _root(H: np.ndarray) -> np.ndarray:
    eigenvalues, vectors = np.linalg.eigh((H + H.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 1e-12))) @ vectors.T)


def row_errors(found: np.ndarray, true: np.ndarray, signed: bool = False) -> np.ndarray:
    """How far each true row is from the one that was found for it, relative to its own norm, (n,): rows are matched one
    to one, as well as possible. If `signed`, a row counts as its negative.

    >>> row_errors(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 2.0]])).tolist()
    [0.0, 0.5]
    """
    apart = np.linalg.norm(true[:, None] - found, axis=2)
    if signed:
        apart = np.minimum(apart, np.linalg.norm(true[:, None] + found, axis=2))
    apart /= np.linalg.norm(true, axis=1)[:, None]
    mine, its = linear_sum_assignment(apart)
    return np.asarray(apart[mine, its])
