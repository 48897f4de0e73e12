"""Private consensus ADMM by dual variable perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import Symbol, centre_of, dual_step, primal_step, relative_residuals
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.laws import Spherical, law_within
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    f: np.ndarray  # (n, d) f_p(t), as released
    dual: np.ndarray  # (n, d) lambda_p(t)
    centre: np.ndarray  # (n, d) mean over the neighbours i of (f_p(t) + f_i(t))/2
    imbalance: np.ndarray  # (n, d) the gradient at f_p(t), with Phi and noise, plus 2 lambda_p(t)

    @classmethod
    def at_start(cls, start: np.ndarray, heard: Inbox, view: View) -> State:
        """lambda = 0, and the centre of what all know of each other."""
        centre = centre_of(start, heard.sum(), view.degree)
        return cls(start, np.zeros_like(start), centre, np.full_like(start, np.nan))


@dataclass(frozen=True)
class DualPerturbedADMM:
    """Dual variable perturbation (DVP): Zhang and Zhu, "Dynamic Differential Privacy for ADMM-Based Distributed
    Classification Learning", IEEE TIFS 12 (2017), Algorithm 2, corrected.

    With C, B_p, rho = l2, c1 the bound on L'', N_p the degree, and e_p of density exp(-zeta_p ||e||):

        mu_p(t+1)     = lambda_p(t) + C/(2 B_p) e_p(t+1)                                                    (14)
        f_p(t+1)      = argmin Z_p(f) + Phi/2 ||f||^2 + 2 mu_p(t+1).f + eta sum_i ||f - (f_p(t)+f_i(t))/2||^2   (15)
        lambda_p(t+1) = lambda_p(t) + eta/2 sum_j (f_p(t+1) - f_j(t+1))                                     (16)

    `alpha` is the epsilon of one step (and a thousandth more, for the inexact minimiser): the guarantee over T steps is
    their composition, not alpha. `budget` states the cost instead: `Pure(e)` gives the least noise with which a step
    costs e, `Gaussian(m)` normal noise. With neither it is plain ADMM. `as_printed` runs the printed algorithm, which
    breaks its promise, for comparison. All agents need the same penalty: with penalties of their own they converge to
    the minimiser of sum O_p/eta_p (M-ADMM is for that).
    """

    traits: ClassVar[Traits] = Traits(
        multiclass=True,
        released=True,
        laws=(Pure, Gaussian),
        draws=given("alpha", "budget"),
        sums=always,
        paper_bound=given("alpha"),
    )

    penalty: Hyper = 1.0  # eta
    alpha: Hyper | None = None  # alpha_p(t)
    budget: Budgets | None = None
    as_printed: bool = False

    def __post_init__(self) -> None:
        hyper.freeze(self, "penalty", "alpha")
        hyper.noise_checked(self.alpha, self.budget, self.as_printed, varies=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, penalty=self.penalty, alpha=self.alpha)
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Rounds with the same settings cost the same."""
        return hyper.kinds(np.arange(rounds), self.penalty, self.alpha, self.budget)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_p(0) is given, data-independent and known to the neighbours; lambda_p(0) = 0."""
        return State.at_start(start, heard, view)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The step with a noisy multiplier: (14) and (15)."""
        eta = hyper.at("penalty", self.penalty, t, view.ids)
        alpha = None if self.alpha is None else hyper.at("alpha", self.alpha, t, view.ids)
        release = dual_perturbed_step(
            s, problem, noise, eta=eta, alpha=alpha, budget=self.budget, view=view, k=t, as_printed=self.as_printed
        )
        return s._replace(f=release.value), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """(16), from what was released."""
        eta = hyper.at("penalty", self.penalty, t, view.ids)
        return dual_step(s, s.f, inbox.sum(), view.degree, eta, eta)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: f_p, as it was released."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        return relative_residuals(s, s.f, view.degree)

    def paper_bound(self, problem: Problem, view: View, t: int) -> np.ndarray:
        """What the paper says step t costs, (n, 1): alpha."""
        return hyper.paper_noise("DVP", self.alpha, t, view.ids)


def dual_perturbed_step(
    s: State,
    problem: Problem,
    noise: Noise | None,
    *,
    eta: np.ndarray,
    alpha: np.ndarray | None,
    budget: Budgets | None,
    view: View,
    k: int,
    as_printed: bool,
) -> Release:
    """(14) and (15) from s; the last step of primal perturbation is one of these, too."""
    weight = eta * view.degree
    C_over_B = problem.row_weight
    e, phi = None, np.zeros_like(weight)
    if budget is not None:
        e = Symbol(law_within(problem, hyper.budget_at(budget, k), weight, C_over_B), C_over_B, noise, view, k)
    elif alpha is not None:
        zeta, phi = paper_noise(problem, eta, view, alpha, as_printed)
        e = Symbol(Spherical(zeta), C_over_B, noise, view, k)
    more = weight + phi / 2  # Phi/2 ||f||^2 + w ||f - c||^2 is one square more, around a nearer centre
    centre = s.centre * np.divide(weight, more, out=np.zeros_like(more), where=more > 0)
    return primal_step(s._replace(centre=centre), problem, more, e, as_printed)


def paper_noise(
    problem: Problem, eta: np.ndarray, view: View, alpha: np.ndarray, as_printed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """zeta_p and Phi of Algorithm 2, (n, 1) each.

    alpha_hat = alpha - 2 ln(1 + c1 / (B_p/C (rho + 2 eta N_p))) is what remains after the Jacobian, and Phi = 0.
    Where less than alpha/2 would remain, Phi makes alpha_hat = alpha/2; the paper does so only below 0, near which the
    noise has no bound. It prints zeta = alpha_hat, but replacing a record moves e_p by up to 2: its proof needs half.
    All this is for slopes of at most 1.
    """
    if 1 < problem.loss.max_slope < np.inf:
        raise InputError(
            f"alpha is the paper's, for losses of slope at most 1, not {problem.loss.max_slope:g} as {problem.loss!r} "
            "has: say how private a step is by budget"
        )
    curvature = problem.l2 + 2 * eta * view.degree  # rho + 2 eta N_p
    c1 = problem.loss.max_curvature * problem.row_weight
    with np.errstate(divide="ignore", over="ignore"):  # an agent alone without l2; a huge alpha
        alpha_hat = alpha - 2 * np.log1p(c1 / curvature)
        tight = alpha_hat <= 0 if as_printed else alpha_hat < alpha / 2
        phi = np.where(tight, np.maximum(c1 / np.expm1(alpha / 4) - curvature, 0.0), 0.0)
    alpha_hat = np.where(tight, alpha / 2, alpha_hat)
    return alpha_hat if as_printed else alpha_hat / 2, phi
