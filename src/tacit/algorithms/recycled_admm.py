"""Recycled ADMM (R-ADMM), and with a penalty that grows, modified recycled ADMM (MR-ADMM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import (
    Symbol,
    centre_of,
    dual_step,
    needed,
    primal_step,
    relative_residuals,
    stated_noise,
)
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.laws import Law, Spherical, output_law_within
from tacit.privacy.mechanisms import minimiser_perturbed, post_processed, private_argmin, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import convexity_of, minimiser_sensitivity


class State(NamedTuple):
    """Everything an agent keeps from one exchange to the next: all of it from released values."""

    f: np.ndarray  # (n, d) f_i(t), as released
    dual: np.ndarray  # (n, d) lambda_i
    centre: np.ndarray  # (n, d) mean over the neighbours j of (f_i + f_j)/2 after the last even iteration
    heard: np.ndarray  # (n, d) sum over the neighbours of f_j(t)
    imbalance: np.ndarray  # (n, d) the gradient at f_i(2k-1), with noise, plus 2 lambda_i(2k-1)


@dataclass(frozen=True)
class RecycledADMM:
    """R-ADMM and MR-ADMM: Zhang, Khalili, Liu, "Recycled ADMM: Improving the Privacy and Accuracy of Distributed
    Algorithms", Algorithms 1-3. One round of the loop is one exchange; rounds 0, 2, ... are the odd iterations 2k-1.

    With e_i of density exp(-alpha_i(k) ||e||), eta = eta_i(2k-1):

        f_i(2k-1)      = argmin O_i(f) + (2 lambda_i(2k-2) + e_i).f + eta sum_j ||(f_i + f_j)(2k-2)/2 - f||^2     (18)
        lambda_i(2k-1) = lambda_i(2k-2) + theta/2 sum_j (f_i(2k-1) - f_j(2k-1))                                (15)
        f_i(2k)        = f_i(2k-1) - 1/(2 eta V_i + gamma) {2 lambda_i(2k-1) + e_i + grad O_i(f_i(2k-1))
                                                            + eta sum_j (f_i(2k-1) - f_j(2k-1))}               (19)

    The even step (19) costs nothing because the optimality of (18) gives e_i + grad O_i in released values; it is
    computed from those, and never from a stored gradient, which would reveal the solver's residual:

        f_i(2k) = f_i(2k-1) + [2 eta sum_j (f_j(2k-1) - (f_i + f_j)(2k-2)/2) - (theta - eta) sum_j (f_i - f_j)(2k-1)]
                              / (2 eta V_i + gamma)

    theta, the `dual_step`, is the penalty itself if not given, as in (15). If agents have penalties of their own, that
    converges to the minimiser of sum O_i/eta_i: give all of them one dual step. `as_printed` recycles the stored
    gradient, for comparison. `budget` states a noisy step's cost instead of alpha; with neither it is not private.

    `noise_on` = "output" is output perturbation (section VII.B): (18) without e_i, and f_i(2k-1) = minimiser + e_i
    leaves. With mu_i = rho/N + 2 eta V_i, replacing a record moves the minimiser by at most 2 g C/(B_i mu_i), given all
    that was released: the step costs alpha_i times that. The paper does not say what (19) recycles then. The stored
    gradient, -2 lambda_i - 2 eta V_i (minimiser - centre), would tell the minimiser without its noise. So (19) takes
    f_i(2k-1) as released in place of the minimiser: the same formula as above, and free.
    """

    traits: ClassVar[Traits] = Traits(
        multiclass=True,
        released=True,
        laws=(Pure, Gaussian),
        draws=given("alpha", "budget"),
        sums=always,
        paper_bound=given("alpha"),
    )

    penalty: Hyper = 1.0  # eta_i(2k-1)
    gamma: float = 0.5
    alpha: Hyper | None = None  # alpha_i(k)
    dual_step: float | None = None  # theta
    budget: Budgets | None = None
    as_printed: bool = False
    noise_on: Literal["objective", "output"] = "objective"

    def __post_init__(self) -> None:
        hyper.freeze(self, "penalty", "alpha", growing=("penalty",))
        hyper.noise_checked(self.alpha, self.budget, self.as_printed, varies=True)
        if self.noise_on not in ("objective", "output"):
            raise InputError(f"noise_on is 'objective' or 'output', not {self.noise_on!r}")
        if self.as_printed and self.noise_on == "output":
            raise InputError("the paper prints no output perturbation: leave out as_printed")
        if self.dual_step is not None:
            hyper.number("dual_step", self.dual_step)
        hyper.number("gamma", self.gamma, zero=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, penalty=self.penalty, alpha=self.alpha)
        return Broadcast(graph, period=2)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Odd iterations with the same settings cost the same; so do all even ones, which recycle."""
        t = np.arange(rounds)
        odd = hyper.kinds(t // 2, self.penalty, self.alpha, self.budget)
        return np.where(t % 2, -1, odd)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_i(0) is given, data-independent and known to the neighbours; lambda_i(0) = 0."""
        said = heard.sum()
        centre = centre_of(start, said, view.degree)
        return State(start, np.zeros_like(start), centre, said, np.full_like(start, np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """(18) in odd iterations, (19) in even ones."""
        k, V = t // 2, view.degree
        eta = hyper.at("penalty", self.penalty, k, view.ids)
        if t % 2 == 0 and self.noise_on == "output" and self._private:
            release = self._output_perturbed(s, problem, noise, eta * V, view, k)
        elif t % 2 == 0:
            release = primal_step(s, problem, eta * V, self._e(problem, noise, eta * V, view, k), self.as_printed)
        elif self.as_printed:
            release = unprotected(s.f + self._printed_even_step(s, problem, view, noise, eta, k))
        else:
            theta = eta if self.dual_step is None else self.dual_step
            moved = 2 * eta * (s.heard - V * s.centre) - (theta - eta) * (V * s.f - s.heard)
            # An agent alone has V = 0 and does not move, whatever gamma is.
            even = s.f + moved / np.maximum(2 * eta * V + self.gamma, np.finfo(float).tiny)
            release = post_processed(even) if self._private else unprotected(even)
        return s._replace(f=release.value), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """(15) in odd iterations; in even ones lambda stays as it is (17), and the centre for the next (18) is made."""
        heard, V = inbox.sum(), view.degree
        if t % 2:
            return s._replace(heard=heard, centre=centre_of(s.f, heard, V))
        eta = hyper.at("penalty", self.penalty, t // 2, view.ids)
        stepped = dual_step(s, s.f, heard, V, eta, eta if self.dual_step is None else self.dual_step)
        return stepped._replace(heard=heard, centre=s.centre)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: f_i(t), as it was released."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement with the neighbours now, and the imbalance of the last odd iteration, both relative."""
        now = s._replace(centre=centre_of(s.f, s.heard, view.degree))
        return relative_residuals(now, s.f, view.degree)

    def paper_bound(self, problem: Problem, view: View, t: int) -> np.ndarray:
        """(32): 2C/B_i (1.4 c1/(rho/N + 2 eta_i V_i) + alpha_i) in odd iterations, 0 in even ones, (n, 1).

        It is infinite where Theorem V.1 says nothing: where its condition 2 c1 < B_i/C (rho/N + 2 eta_i(1) V_i) fails,
        and for noise on the output, for which the paper has no bound.
        """
        if t % 2:
            return np.zeros((len(view.ids), 1))
        alpha = hyper.paper_noise("R-ADMM", self.alpha, t // 2, view.ids)
        mu, first = (problem.l2 + 2 * hyper.at("penalty", self.penalty, k, view.ids) * view.degree for k in (t // 2, 0))
        proved = hyper.jacobian_condition(problem, first) & (self.noise_on == "objective")
        return np.where(proved, 2 * problem.row_weight * (1.4 * problem.loss.max_curvature / mu + alpha), np.inf)

    @property
    def _private(self) -> bool:
        return self.alpha is not None or self.budget is not None

    def _e(self, problem: Problem, noise: Noise | None, weight: np.ndarray, view: View, k: int) -> Symbol | None:
        """e_i(2k-1)."""
        one = np.ones_like(weight)
        return stated_noise(problem, noise, view, k, alpha=self.alpha, budget=self.budget, weight=weight, factor=one)

    def _output_perturbed(
        self, s: State, problem: Problem, noise: Noise | None, weight: np.ndarray, view: View, k: int
    ) -> Release:
        """(18) without noise, which then is added to its minimiser."""
        moved = minimiser_sensitivity(problem, convexity_of(problem, weight), weight)
        f = private_argmin(problem, linear=2 * s.dual, weight=weight, centre=s.centre, start=s.f)
        law: Law
        if self.budget is not None:
            law = output_law_within(hyper.budget_at(self.budget, k), moved)
        else:
            law = Spherical(hyper.at("alpha", self.alpha, k, view.ids))  # type: ignore[arg-type]
        return minimiser_perturbed(problem, needed(noise), law, f, moved, ids=view.ids, t=k)

    def _printed_even_step(
        self, s: State, problem: Problem, view: View, noise: Noise | None, eta: np.ndarray, k: int
    ) -> np.ndarray:
        """(19) with the gradient of the data, as printed: what it broadcasts reveals the residual of the solver."""
        gradient = problem.gradient(s.f)
        e = self._e(problem, noise, eta * view.degree, view, k)
        if e is not None:
            gradient += e.drawn(problem.dimension)
        uphill = 2 * s.dual + gradient + eta * (view.degree * s.f - s.heard)
        return -uphill / np.maximum(2 * eta * view.degree + self.gamma, np.finfo(float).tiny)
