"""ADMM for a smooth loss plus g(A x - c), private by noise on the gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import TINY, needed
from tacit.composite.term import Term
from tacit.core.algorithm import Traits, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release, clipped
from tacit.core.schedule import Broadcast
from tacit.errors import InputError, NotConverged
from tacit.privacy.events import Gaussian, Unprotected
from tacit.privacy.mechanisms import charged, noisy_gradient, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import gradient_sensitivity


class State(NamedTuple):
    """Everything that is kept from one round to the next: all of it from noisy gradients."""

    x: np.ndarray  # (n, d) x_t
    y: np.ndarray  # (n, m) y_t
    u: np.ndarray  # (n, m) u_t, the multiplier over rho
    x_hat: np.ndarray  # (n, d) where the next round starts from: x_t, or a point ahead of it
    u_hat: np.ndarray  # (n, m)
    mean: np.ndarray  # (n, d) of x_1, ..., x_t
    mean_y: np.ndarray  # (n, m) of y_1, ..., y_t
    theta: np.ndarray  # (n, 1) theta_{t+1} of Nesterov's sequence (1 without acceleration)
    momentum: np.ndarray  # (n, 1) by which x_hat lies ahead
    change: np.ndarray  # (n, 1) c_t, by which the last round moved x and u
    primal: np.ndarray  # (n, 1) ||A x - y - c||
    dual: np.ndarray  # (n, 1) ||grad f + A^T w|| for a subgradient w of g at y
    size_y: np.ndarray  # (n, 1) the largest ||A x - c|| so far, to which `primal` is relative
    size_v: np.ndarray  # (n, 1) the largest noisy gradient so far, to which `dual` is relative


@dataclass(frozen=True, kw_only=True)
class DPADMM:
    """DP-ADMM: Xu, Shang, Liu, Liu, Shen, Gong (paper 001), Algorithm 2, for min f(x) + g(y) s.t. A x - y = c:

        y_t = argmin g(y) + rho/2 ||A x_{t-1} - y - c + u_{t-1}||^2                                         (3)
        x_t = x_{t-1} - step [grad f(x_{t-1}) + P_t + rho A^T (A x_{t-1} - y_t - c + u_{t-1})]              (7)
        u_t = u_{t-1} + A x_t - y_t - c                                                                     (5)

    with f the problem's objective, g, A and c its `term`, rho the `penalty`, P_t normal. The noisy gradient is all that
    leaves; x, y and u follow from it. Without a budget it is the method without noise.

    step = eta/gamma, the only way in which the paper's eta and gamma enter. By default it is 1/(L_f + rho ||A^T A||),
    the theory's eta = 1/L_f with the least gamma; L_f = (largest curvature) C row_norm^2 + l2 is public.

    `budget` is what a gradient costs, `noise_schedule` multiplies its deviation at step k = 0, 1, ... (a number, a
    `Geometric` that decays, or an array). Replacing a record moves the gradient by 2c/n; the paper's c/n is for adding
    or removing one, and its c = max ||grad f_i|| depends on the data: here c is the loss's largest slope times
    `row_norm`, and longer rows are refused.

    u_0 = 0. The paper's u_0 = -(A^T)^+ grad f(x_0)/rho looks at the data without noise; `as_printed` does so, and
    charges every release as unprotected. Theorem 2 bounds the mean of the x_t, the algorithm returns the last one;
    `average` chooses the mean. The state also has that of the y_t, for R of
    `tacit.lab.theory.dp_admm.criterion`. If the term has a cost, a first round pays for it and does nothing else.

    `exact` has (4) in place of (7), without noise: x_t minimises f(x) + rho/2 ||A x - y_t - c + u_{t-1}||^2. It
    converges for every penalty, but slowly for a large one. With A = I and g = strength ||y||_1, once the signs of y
    stay, a round is a proximal point step on the objective with the step 1/rho: it leaves rho/(rho + h) of the
    distance along an eigenvector of the Hessian with the eigenvalue h. At rho = 10 and h = 0.003, 4,000 rounds leave
    30%. A penalty near the curvature of f takes tens to hundreds of rounds.

    At a `rate` below 1 every gradient is that of a secret sample of the records, each of which joins with that
    probability (the paper names the stochastic setting as future work).
    """

    traits: ClassVar[Traits] = Traits(alone=True, laws=(Gaussian,), draws=given("budget"))

    term: Term
    penalty: float = 1.0
    step: float | None = None
    budget: Gaussian | tuple[Gaussian, ...] | None = None  # of one gradient, or of each of them
    noise_schedule: hyper.Hyper = 1.0
    row_norm: float = 1.0
    rate: float = 1.0
    average: bool = False
    as_printed: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.term, Term):
            raise InputError(f"term is a tacit.composite.Term, such as lasso(d, 0.1), not {self.term!r}")
        for name in ("penalty", "step", "row_norm"):
            if getattr(self, name) is not None or name != "step":
                hyper.number(name, getattr(self, name))
        if self.budget is not None and not hyper.is_budget(self.budget, Gaussian):
            raise InputError(f"a gradient's budget is Gaussian(multiplier), or a tuple of these, not {self.budget!r}")
        if not 0 < self.rate <= 1 or (self.rate < 1 and self.budget is None):
            raise InputError(f"rate is a probability, and 1 for a method without noise, not {self.rate}")
        hyper.freeze(self, "noise_schedule")
        if self.exact and (self.budget is not None or self.as_printed):
            raise InputError("exact is for the method without noise: no sensitivity of its minimiser is known here")

    @property
    def first(self) -> int:
        """The tick of the first gradient: 1 if the term has to be paid for, else 0."""
        return 0 if self.term.cost.free else 1

    def step_size(self, problem: Problem) -> np.ndarray:
        """The step eta/gamma of each agent, (n, 1)."""
        if self.step is not None:
            return np.full((problem.agents, 1), self.step)
        smooth = problem.loss.max_curvature * self.row_norm**2 * problem.scale[:, None] + problem.l2
        return 1 / (smooth + self.penalty * self.term.norm)

    def sigma(self, problem: Problem, k: int = 0) -> np.ndarray:
        """The deviation of P_{k+1}, (n, 1)."""
        ids = np.arange(problem.agents)
        return self._multiplier(k, ids) * gradient_sensitivity(problem, self.row_norm, self.rate)

    def schedule(self, graph: Graph) -> Broadcast:
        """The only agent speaks in every round; it has no neighbours."""
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """The round that pays for the term, if there is one; gradients with the same noise cost the same."""
        k = np.arange(rounds) - self.first
        return np.where(k < 0, -1, hyper.kinds(np.maximum(k, 0), self.budget, self.noise_schedule))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_0 is the public start, u_0 = 0."""
        if np.any(view.degree):
            raise InputError(
                f"{type(self).__name__} is for one agent with all rows, on Graph.ring(1): problem.pooled() makes one; "
                "SummedDPADMM is for several"
            )
        return self.start(problem, start)

    def start(self, problem: Problem, start: np.ndarray) -> State:
        """The state before the first round."""
        if problem.dimension != self.term.dimension:
            raise InputError(
                f"the problem has dimension {problem.dimension}, the term {self.term.dimension}: it needs "
                "a column for each weight of the model, the intercept included"
            )
        problem.require_row_norm(self.row_norm)  # the step size also relies on it
        n, zero = len(start), np.zeros((len(start), self.term.rows))
        u, unknown, one = zero, np.full((n, 1), np.nan), np.ones((n, 1))
        if self.as_printed:
            inverse = np.linalg.pinv(self.term.A.T.toarray())
            u = -problem.gradient(start) @ inverse.T / self.penalty
        return State(
            x=start,
            y=zero,
            u=u,
            x_hat=start,
            u_hat=u,
            mean=start,
            mean_y=zero,
            theta=one,
            momentum=0 * one,
            change=np.inf * one,
            primal=unknown,
            dual=unknown,
            size_y=0 * one + TINY,
            size_v=0 * one + TINY,
        )

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """A noisy gradient leaves; the rest is post-processing of it."""
        k = t - self.first
        if k < 0:
            return s, charged(s.x, self.term.cost)
        if self.exact:
            y = self._prox(s)
            x = _minimised(problem, self.term, self.penalty, y + self.term.c - s.u_hat, s.x_hat)
            back = self.penalty * self.term.transposed_times(self.term.times(x - s.x_hat))  # grad f(x_t) + A^T w
            return self._moved(s, x, y, problem.gradient(x), _norm(back), self.step_size(problem), k), unprotected(x)
        release = self._gradient(s.x_hat, problem, view, noise, k)
        return self.advanced(s, release.value, self.step_size(problem), k), release

    def advanced(
        self, s: State, gradient: np.ndarray, step: np.ndarray, k: int, radius: np.ndarray | float = np.inf
    ) -> State:
        """Round k, from a noisy gradient at x_hat, (n, d): it reads no record. x stays within the radius."""
        rho, term = self.penalty, self.term
        y = self._prox(s)
        pull = term.transposed_times(rho * (term.times(s.x_hat) - term.c + s.u_hat - y))  # A^T w: w in g'(y)
        x = clipped(s.x_hat - step * (gradient + pull), radius)  # (7) in closed form
        dual = _norm(x - s.x_hat) / step  # = ||grad f(x_hat) + P + A^T w||
        return self._moved(s, x, y, gradient, dual, step, k)

    def _prox(self, s: State) -> np.ndarray:
        """The proximal step of the second term, (3)."""
        return self.term.g.prox(self.term.times(s.x_hat) - self.term.c + s.u_hat, 1 / self.penalty)

    def _moved(
        self, s: State, x: np.ndarray, y: np.ndarray, gradient: np.ndarray, dual: np.ndarray, step: np.ndarray, k: int
    ) -> State:
        """(5), and what is kept of the round."""
        Ax = self.term.times(x) - self.term.c
        new = s._replace(
            x=x,
            y=y,
            u=s.u_hat + Ax - y,  # (5)
            mean=s.mean + (x - s.mean) / (k + 1),
            mean_y=s.mean_y + (y - s.mean_y) / (k + 1),
            primal=_norm(Ax - y),
            dual=dual,
            size_y=np.maximum(s.size_y, _norm(Ax)),
            size_v=np.maximum(s.size_v, _norm(gradient)),
        )
        return self._ahead(s, new, step)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """Nothing: there are no neighbours."""
        return s

    def estimate(self, s: State) -> np.ndarray:
        """x_t, or the mean of all so far."""
        return s.mean if self.average else s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """||A x - y - c|| and ||grad f + A^T w||, both relative."""
        return (s.primal / s.size_y)[:, 0], (s.dual / s.size_v)[:, 0]

    def _ahead(self, s: State, new: State, step: np.ndarray) -> State:
        """Where the next round starts from: at x_t and u_t."""
        return new._replace(x_hat=new.x, u_hat=new.u)

    def _multiplier(self, k: int, ids: np.ndarray) -> np.ndarray:
        if self.budget is None:
            raise InputError("the method has no noise: give it a budget")
        return hyper.budget_at(self.budget, k).multiplier * hyper.at("noise_schedule", self.noise_schedule, k, ids)

    def _gradient(self, x: np.ndarray, problem: Problem, view: View, noise: Noise | None, k: int) -> Release:
        if self.budget is None:
            return unprotected(problem.gradient(x))
        noise = needed(noise, self.as_printed)
        if noise.private and self.term.seeded:
            raise InputError(
                "the graph of features was made with noise that does not protect: make it with SecureNoise()"
            )
        release = noisy_gradient(
            problem, noise, self._multiplier(k, view.ids), x, row_norm=self.row_norm, rate=self.rate, ids=view.ids, t=k
        )
        return charged(release.value, Unprotected()) if self.as_printed else release


def _minimised(problem: Problem, term: Term, rho: float, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """(4): argmin f(x) + rho/2 ||A x - b||^2 of the only agent, (1, d), to a gradient norm of 1e-6 or less."""

    def slope(x: np.ndarray) -> np.ndarray:
        return np.asarray(problem.gradient(x)[0] + rho * term.transposed_times(term.times(x[None]) - b)[0])

    def value(x: np.ndarray) -> float:
        return float(problem.value(x)[0] + rho / 2 * ((term.times(x[None]) - b) ** 2).sum())

    from scipy.optimize import minimize  # a quarter of a second: only where it is used

    found = minimize(
        value,
        start[0],
        jac=slope,
        method="L-BFGS-B",
        options={"gtol": problem.tolerance, "ftol": 0.0, "maxiter": 10_000},
    )
    reached = float(np.linalg.norm(slope(found.x)))
    if not reached <= max(problem.tolerance, 1e-6):
        raise NotConverged(
            f"(4) was solved to a gradient norm of {reached:.3g} only; use (7), exact=False", reached=found.x
        )
    return np.asarray(found.x)[None]


def _norm(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=1, keepdims=True)
