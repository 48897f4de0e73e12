"""Private consensus ADMM by dual variable perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.algorithms.consensus import TINY, centre_of, dual_step, residual_norms
from tacit.errors import InputError
from tacit.graph import Graph, View
from tacit.mechanisms import objective_perturbed
from tacit.noise import Noise
from tacit.problem import Problem
from tacit.release import Inbox, Release
from tacit.schedule import Broadcast


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    f: np.ndarray  # (n, d) f_p(t), as released
    dual: np.ndarray  # (n, d) lambda_p(t)
    centre: np.ndarray  # (n, d) mean over the neighbours i of (f_p(t) + f_i(t))/2
    shift: np.ndarray  # (n, d) how far the last round moved the centre


@dataclass(frozen=True, kw_only=True)
class DualPerturbedADMM:
    """Dual variable perturbation (DVP): Zhang and Zhu, "Dynamic Differential Privacy for ADMM-Based Distributed
    Classification Learning", IEEE TIFS 12 (2017), Algorithm 2, corrected.

    With C, B_p, rho = l2, c1 the bound on L'', N_p the degree, and e_p of density exp(-zeta_p ||e||):

        mu_p(t+1)     = lambda_p(t) + C/(2 B_p) e_p(t+1)                                                    (14)
        f_p(t+1)      = argmin Z_p(f) + Phi/2 ||f||^2 + 2 mu_p(t+1).f + eta sum_i ||f - (f_p(t)+f_i(t))/2||^2   (15)
        lambda_p(t+1) = lambda_p(t) + eta/2 sum_j (f_p(t+1) - f_j(t+1))                                     (16)

    alpha_hat = alpha - 2 ln(1 + c1 / (B_p/C (rho + 2 eta N_p))), and Phi = 0; where that would leave less than half of
    alpha, Phi is chosen so that alpha_hat = alpha/2 (the paper switches at 0, where the noise has no bound).

    The paper prints zeta = alpha_hat. Replacing a record moves e_p by up to 2, so zeta = alpha_hat/2 is what its proof
    needs; `as_printed` runs the printed one, for comparison.

    `alpha` is the epsilon of one step: the guarantee over T steps is their composition, not alpha.
    """

    penalty: float = 1.0  # eta
    alpha: float = 1.0  # alpha_p(t), for every agent and step
    as_printed: bool = False

    def __post_init__(self) -> None:
        for name in ("penalty", "alpha"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise InputError(f"{name} must be a positive number, not {getattr(self, name)}")

    def schedule(self, graph: Graph) -> Broadcast:
        """Everybody speaks to all neighbours in every round."""
        return Broadcast(graph)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_p(0) is given, data-independent and known to the neighbours; lambda_p(0) = 0."""
        zero = np.zeros_like(start)
        return State(start, zero, centre_of(start, heard.sum(), view.degree), np.full_like(start, np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """(14) and (15)."""
        if noise is None:
            raise InputError("dual perturbation needs noise: SecureNoise(), or SeededNoise(seed) to experiment")
        if self.as_printed and noise.private:
            raise InputError(
                "the printed version breaks its own promise: it does not run with noise that is to protect"
            )
        C_over_B = (problem.scale / problem.sizes)[:, None]
        curvature = problem.l2 + 2 * self.penalty * view.degree  # rho + 2 eta N_p
        c1 = problem.loss.max_curvature * C_over_B
        alpha_hat = self.alpha - 2 * np.log1p(c1 / curvature)
        tight = alpha_hat < self.alpha / 2
        phi = np.where(tight, np.maximum(c1 / math.expm1(self.alpha / 4) - curvature, 0.0), 0.0)
        alpha_hat = np.where(tight, self.alpha / 2, alpha_hat)
        zeta = alpha_hat if self.as_printed else alpha_hat / 2

        weight = self.penalty * view.degree
        release = objective_perturbed(
            problem,
            noise,
            linear=2 * s.dual,
            weight=weight + phi / 2,  # Phi/2 ||f||^2 + w ||f - c||^2 is one square more, around a nearer centre
            centre=s.centre * weight / (weight + phi / 2),
            start=s.f,
            factor=C_over_B,
            rate=zeta,
            ids=view.ids,
            t=t,
        )
        return s._replace(f=release.value), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """(16), from what was released."""
        return dual_step(s, inbox.sum(), view.degree, self.penalty)

    def estimate(self, s: State) -> np.ndarray:
        """f_p, as released."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Relative to ||f_p|| and ||2 lambda_p||: functions of released values only, so that stopping tells nothing."""
        primal, dual = residual_norms(s.f, s.centre, s.shift, self.penalty, view.degree)
        return (
            primal / np.maximum(np.linalg.norm(s.f, axis=1), TINY),
            dual / np.maximum(np.linalg.norm(2 * s.dual, axis=1), TINY),
        )
