"""Private consensus ADMM by primal variable perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from tacit.algorithms import dual_perturbed_admm, hyper
from tacit.algorithms.consensus import centre_of, dual_step, needed, relative_residuals
from tacit.algorithms.dual_perturbed_admm import dual_perturbed_step
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release, clipped
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.laws import Spherical, output_law_within
from tacit.privacy.mechanisms import minimiser_perturbed, private_argmin, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import minimiser_sensitivity


class State(NamedTuple):
    """Everything an agent keeps from one round to the next. All but `hidden` is from released values."""

    V: np.ndarray  # (n, d) V_p(t), as released
    hidden: np.ndarray  # (n, d) f_p(t), which never leaves
    dual: np.ndarray  # (n, d) lambda_p(t)
    centre: np.ndarray  # (n, d) mean over the neighbours i of (V_p(t) + V_i(t))/2
    imbalance: np.ndarray  # (n, d) as if V_p(t) had solved the primal step


@dataclass(frozen=True)
class PrimalPerturbedADMM:
    """Primal variable perturbation (PVP): Zhang and Zhu (2017), Algorithm 3, corrected.

    With e_p of density exp(-zeta_p ||e||):

        f_p(t+1)      = argmin Z_p(f) + 2 lambda_p(t).f + eta sum_i ||f - c_pi(t)||^2                 (18)
        V_p(t+1)      = f_p(t+1) + e_p(t+1)                                                          (19)
        lambda_p(t+1) = lambda_p(t) + eta/2 sum_j (V_p(t+1) - V_j(t+1))                              (20)

    Only V_p leaves (the listing of the algorithm broadcasts f_p). The `centre` c_pi is

    - "released": (V_p + V_i)/2. Given what was released, only this round's minimiser depends on the data, and replacing
      a record moves it by 2 g C/(B_p (rho + 2 eta N_p)): that little noise suffices.
    - "printed": (f_p + V_i - e_p)/2 = (2 f_p - V_p + V_i)/2. The hidden f_p is carried over: replacing a record moves
      it by Delta(t+1) = (2 g C/B_p + 2 eta N_p Delta(t))/(rho + 2 eta N_p), which grows from 2 g C/(B_p (rho + 2 eta
      N_p)) up to 2 g C/(rho B_p). So zeta = rho B_p alpha/(2 C), as the paper has it, is enough, and more than enough
      at first: step t is charged zeta Delta(t+1), which tends to alpha. A `budget` gets the noise for Delta(t+1).

    If `final` is given, round `final` (0, 1, ...) is a step of dual perturbation (21)-(23), which is the output. It
    goes from V_p and lambda_p: from the hidden f_p, as printed, it would reveal more than it claims.

    `alpha` is the epsilon of one step (and a little more, for the inexact minimiser), `budget` the other way to say it;
    with neither it is plain ADMM. All agents need the same penalty, as in dual perturbation. `as_printed` broadcasts
    f_p itself, and takes the final step from it.
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
    centre: Literal["released", "printed"] = "released"
    final: int | None = None  # t_s
    budget: Budgets | None = None
    as_printed: bool = False

    def __post_init__(self) -> None:
        hyper.freeze(self, "penalty", "alpha")
        hyper.noise_checked(self.alpha, self.budget, self.as_printed, varies=True)
        if self.final is not None and not (isinstance(self.final, int) and self.final >= 0):
            raise InputError(f"final is a round, 0 or later, not {self.final!r}")
        if self.centre not in ("released", "printed"):
            raise InputError(f"the centre is 'released' or 'printed', not {self.centre!r}")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, penalty=self.penalty, alpha=self.alpha)
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Rounds with the same settings cost the same, but for the final one, and if nothing hidden is carried over."""
        t = np.arange(rounds)
        if self.centre == "printed" and (self.alpha is not None or self.budget is not None):
            return t  # what is hidden moves farther from round to round
        return np.where(t == self.final, -1, hyper.kinds(t, self.penalty, self.alpha, self.budget))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """f_p(0) = V_p(0) is given, data-independent and known to the neighbours; lambda_p(0) = 0."""
        centre = centre_of(start, heard.sum(), view.degree)
        return State(start, start, np.zeros_like(start), centre, np.full_like(start, np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """(18) and (19), or the final (21) and (22)."""
        eta = hyper.at("penalty", self.penalty, t, view.ids)
        alpha = None if self.alpha is None else hyper.at("alpha", self.alpha, t, view.ids)
        carried = self.centre == "printed" or self.as_printed
        if t == self.final:
            base = s.hidden if self.as_printed else s.V
            centre = s.centre + (base - s.V) / 2
            state = dual_perturbed_admm.State(base, s.dual, centre, s.imbalance)
            release = dual_perturbed_step(
                state,
                problem,
                noise,
                eta=eta,
                alpha=alpha,
                budget=self.budget,
                view=view,
                k=t,
                as_printed=self.as_printed,
            )
            return s._replace(V=release.value, hidden=release.value), release
        weight = eta * view.degree
        # The hidden f_p is added to what is public and bounded, so that rounding cannot reveal it.
        centre = clipped(s.centre - s.V, problem.radius) + s.hidden if carried else s.centre
        start = s.hidden if carried else s.V
        where = {"linear": 2 * s.dual, "weight": weight, "centre": centre, "start": start}
        if alpha is None and self.budget is None:
            f = problem.argmin(**where)
            return s._replace(V=f, hidden=f), unprotected(f)
        convexity = np.broadcast_to(problem.l2, weight.shape) if carried else problem.l2 + 2 * weight
        if np.any(convexity <= 0):
            raise InputError("primal perturbation needs l2 above zero for the printed centre and for an agent alone")
        f = private_argmin(problem, **where)
        moved = self._hidden_moved(problem, view, t) if carried else minimiser_sensitivity(problem, convexity, weight)
        law = (
            output_law_within(hyper.budget_at(self.budget, t), moved)
            if self.budget is not None
            else Spherical(paper_rate(problem, alpha, convexity))  # type: ignore[arg-type]
        )
        noise = needed(noise, self.as_printed)
        release = minimiser_perturbed(problem, noise, law, f, moved, ids=view.ids, t=t)
        return s._replace(V=release.value, hidden=f), unprotected(f) if self.as_printed else release

    def _hidden_moved(self, problem: Problem, view: View, t: int) -> np.ndarray:
        """Delta(t+1), (n, 1): by how much replacing a record moves the hidden f_p(t+1), given all that was released.

        Delta(k+1) = (2 g C/B_p + 2 tau_k + 2 w_k Delta(k))/(rho + 2 w_k) with w_k = eta_k N_p. The two objectives of
        round k differ in their gradients by 2 g C/B_p at most, and by 2 w_k times the distance of their centres, which
        is Delta(k); both solvers end within tau_k/(rho + 2 w_k) of their minimisers. Delta is 0 where f_p is known:
        at the start, and after the final step, which releases it.
        """
        first = 0 if self.final is None or self.final > t else self.final + 1
        moved = np.zeros((len(view.ids), 1))
        of_round: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # most penalties are the same in every round
        for k in range(first, t + 1):
            weight = hyper.at("penalty", self.penalty, k, view.ids) * view.degree
            key = weight.tobytes()
            if key not in of_round:
                m = problem.l2 + 2 * weight
                of_round[key] = minimiser_sensitivity(problem, m, weight), 2 * weight / m
            own, kept = of_round[key]
            moved = own + kept * moved
        return moved

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """(20), from what was released."""
        eta = hyper.at("penalty", self.penalty, t, view.ids)
        return dual_step(s, s.V, inbox.sum(), view.degree, eta, eta)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: V_p, as it was released."""
        return s.V

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        return relative_residuals(s, s.V, view.degree)

    def paper_bound(self, problem: Problem, view: View, t: int) -> np.ndarray:
        """What the paper says step t costs, (n, 1): alpha."""
        return hyper.paper_noise("PVP", self.alpha, t, view.ids)


def paper_rate(problem: Problem, alpha: np.ndarray, convexity: np.ndarray) -> np.ndarray:
    """zeta_p of Algorithm 3, (n, 1): m B_p alpha/(2 C), with m = rho for the printed centre."""
    C_over_B = problem.row_weight
    return convexity * alpha / (2 * problem.loss.max_slope * C_over_B)
