"""What all consensus methods on a graph share: the point that neighbours pull towards, the two steps, the residuals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.graph import View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.errors import InputError
from tacit.privacy.laws import Law, Spherical, law_within, named
from tacit.privacy.mechanisms import objective_perturbed, unprotected
from tacit.privacy.noise import Noise

TINY = 1e-300  # instead of zero, below a fraction line


def centre_of(f: np.ndarray, heard: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The mean over the neighbours j of (f_i + f_j)/2, (n, d), from the sum of what was heard."""
    return (f + heard / np.maximum(V, 1)) / 2  # with V = 0 the centre has the weight 0


class Symbol(NamedTuple):
    """The noise of a primal step at noisy step k: factor_i e_i, with e_i of the law."""

    law: Law
    factor: np.ndarray  # (n, 1)
    noise: Noise | None
    view: View  # it has the agents' ids
    k: int

    def drawn(self, dimension: int) -> np.ndarray:
        """The numbers of a printed version; drawing them twice from seeded or recorded noise gives the same."""
        noise, (law, scale) = needed(self.noise, as_printed=True), named(self.law)
        return self.factor * noise.draw(law, scale, dimension, self.view.ids, self.k)


def primal_step(s: Any, problem: Problem, weight: np.ndarray, e: Symbol | None, as_printed: bool = False) -> Release:
    """argmin O_i(f) + <2 lambda_i + factor e_i, f> + weight ||f - centre||^2.

    Without noise it is the plain step. `as_printed` releases the minimiser as the papers do: without paying for its
    inexactness, and with an e_i that need not protect.
    """
    linear, where = 2 * s.dual, {"weight": weight, "centre": s.centre, "start": s.f}
    if e is None:
        return unprotected(problem.argmin(linear=linear, **where))
    if as_printed:
        return unprotected(problem.argmin(linear=linear + e.drawn(problem.dimension), **where))
    noise = needed(e.noise)
    return objective_perturbed(problem, noise, e.law, linear=linear, factor=e.factor, ids=e.view.ids, t=e.k, **where)


def stated_noise(
    problem: Problem,
    noise: Noise | None,
    view: View,
    k: int,
    *,
    alpha: Hyper | None,
    budget: Budgets | None,
    weight: np.ndarray,
    factor: np.ndarray,
) -> Symbol | None:
    """The noise of step k: by its cost `budget`, or by its rate `alpha`; None without either."""
    if budget is not None:
        return Symbol(law_within(problem, hyper.budget_at(budget, k), weight, factor), factor, noise, view, k)
    return None if alpha is None else Symbol(Spherical(hyper.at("alpha", alpha, k, view.ids)), factor, noise, view, k)


def needed(noise: Noise | None, as_printed: bool = False) -> Noise:
    """The noise source, which a private method needs; a printed variant refuses one that protects."""
    if noise is None:
        raise InputError("a private method needs noise: SecureNoise(), or SeededNoise(seed) to experiment")
    if as_printed and noise.private:
        raise InputError("the printed version breaks its own promise: it does not run with noise that protects")
    return noise


def dual_step(
    s: Any, f: np.ndarray, heard: np.ndarray, V: np.ndarray, penalty: np.ndarray | float, step: np.ndarray | float
) -> Any:
    """lambda_i += step/2 sum_j (f_i - f_j), and the centre for the next primal step.

    By the primal step's optimality, its gradient at f plus noise is -2 lambda_i - 2 eta V_i (f_i - centre_i), so that
    `imbalance`, the gradient of O_i plus noise plus the new 2 lambda_i, follows from released values alone.
    """
    move = step * (V * f - heard)
    return s._replace(
        dual=s.dual + move / 2, centre=centre_of(f, heard, V), imbalance=move - 2 * penalty * V * (f - s.centre)
    )


def residual_norms(s: Any, f: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Primal ||f_i - mean of neighbours|| and dual ||grad O_i(f_i) + 2 lambda_i||, (n,) each: at zero f is optimal."""
    return np.linalg.norm(2 * (f - s.centre), axis=1) * (V[:, 0] > 0), np.linalg.norm(s.imbalance, axis=1)


def mixed(f: np.ndarray, inbox: Inbox, degree: np.ndarray, mixing: float) -> tuple[np.ndarray, np.ndarray]:
    """f_i + mixing sum_j (f_j - f_i), (n, d), and how far the neighbours' rows are from f_i, relative, (n, 1)."""
    pull = inbox.sum() - degree * f
    return f + mixing * pull, relative(pull, degree * f)


def relative(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The length of each row of a part in that of the whole, (n, 1)."""
    length, of = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (part, whole))
    with np.errstate(over="ignore"):  # infinity is a good enough answer for a long part of a tiny whole
        return np.asarray(length / np.maximum(of, TINY))


def relative_residuals(s: Any, f: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Relative to ||f_i|| and ||2 lambda_i||: functions of released values only, so that stopping reveals nothing."""
    primal, dual = residual_norms(s, f, V)
    return (
        primal / np.maximum(np.linalg.norm(f, axis=1), TINY),
        dual / np.maximum(np.linalg.norm(2 * s.dual, axis=1), TINY),
    )
