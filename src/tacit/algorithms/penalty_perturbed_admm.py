"""Private consensus ADMM by penalty perturbation (M-ADMM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import dual_step, primal_step, relative_residuals, stated_noise
from tacit.algorithms.dual_perturbed_admm import State
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.noise import Noise


@dataclass(frozen=True)
class PenaltyPerturbedADMM:
    """M-ADMM: Zhang, Khalili, Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms" (2018),
    as it stands beside R-ADMM in "Recycled ADMM", II.D.

    With the noise e_i of density exp(-alpha_i ||e||) inside the penalty, which each agent raises over time:

        f_i(t+1)      = argmin O_i(f) + 2 lambda_i(t).f + eta_i(t+1) sum_j ||f + e_i(t+1) - (f_i(t) + f_j(t))/2||^2
        lambda_i(t+1) = lambda_i(t) + theta/2 sum_j (f_i(t+1) - f_j(t+1))

    The noise is the linear term 2 eta_i V_i e_i. All agents share theta, the `dual_step`: with dual steps of their own
    the agents would converge to the minimiser of sum O_i/eta_i. `alpha` may differ from agent to agent, and should:
    with one for all, the agent of least degree pays most and the others pay for noise that they do not need. `budget`
    does that by itself: it gives every agent the least noise with which its step costs that much.
    """

    traits: ClassVar[Traits] = Traits(
        multiclass=True,
        released=True,
        laws=(Pure, Gaussian),
        draws=given("alpha", "budget"),
        sums=always,
        paper_bound=given("alpha"),
    )

    penalty: Hyper = 1.0  # eta_i(t)
    alpha: Hyper | None = None  # alpha_i(t)
    dual_step: float = 1.0  # theta
    budget: Budgets | None = None

    def __post_init__(self) -> None:
        hyper.freeze(self, "penalty", "alpha", growing=("penalty",))
        hyper.noise_checked(self.alpha, self.budget, varies=True)
        hyper.number("dual_step", self.dual_step)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, penalty=self.penalty, alpha=self.alpha)
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Rounds with the same settings cost the same."""
        return hyper.kinds(np.arange(rounds), self.penalty, self.alpha, self.budget)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_i(0) is given, data-independent and known to the neighbours; lambda_i(0) = 0."""
        return State.at_start(start, heard, view)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The primal step, with noise in the objective."""
        weight = hyper.at("penalty", self.penalty, t, view.ids) * view.degree
        if (self.alpha is not None or self.budget is not None) and not np.all(view.degree > 0):
            raise InputError("an agent without neighbours has no penalty, and so no noise that hides its data")
        e = stated_noise(
            problem, noise, view, t, alpha=self.alpha, budget=self.budget, weight=weight, factor=2 * weight
        )
        release = primal_step(s, problem, weight, e)
        return s._replace(f=release.value), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The dual step, with the step that is common to all."""
        eta = hyper.at("penalty", self.penalty, t, view.ids)
        return dual_step(s, s.f, inbox.sum(), view.degree, eta, self.dual_step)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: f_i, as it was released."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        return relative_residuals(s, s.f, view.degree)

    def paper_bound(self, problem: Problem, view: View, t: int) -> np.ndarray:
        """C (1.4 c1 + alpha_i) / (eta_i V_i B_i), (n, 1); infinite unless 2 c1 < B_i/C (rho/N + 2 eta_i(1) V_i)."""
        alpha = hyper.paper_noise("M-ADMM", self.alpha, t, view.ids)
        weight, first = (hyper.at("penalty", self.penalty, k, view.ids) * view.degree for k in (t, 0))
        bound = problem.row_weight * (1.4 * problem.loss.max_curvature + alpha) / weight
        return np.where(hyper.jacobian_condition(problem, problem.l2 + 2 * first), bound, np.inf)
