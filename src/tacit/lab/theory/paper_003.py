"""What "Local Differential Privacy in Decentralized Optimization" (paper 003) proves about ADMM with random penalties,
gradient descent with random aggregators, and random coordinate descent.

The paper's f_i is an agent's whole objective, with its scale, and F their sum. Bounds on F are divided by the sum of
the scales here, so that they are in the unit of an `Aim`: the mean loss of a record. All start from zero, at the
distance `reference` from the optimum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.algorithms import GradientDescent, RandomAggregationADMM, RandomAggregationGD, RandomCoordinateDescent
from tacit.algorithms.aggregation import Protection
from tacit.errors import InputError
from tacit.lab.theory import descent
from tacit.lab.theory.convergence import lipschitz
from tacit.lab.theory.planned import Planned, Theorem
from tacit.lab.theory.random_penalties import edges, linear_rate, noise_floor
from tacit.privacy.laws import Normal
from tacit.privacy.sensitivity import gradient_sensitivity, layer_sensitivity


def _private(method: Any) -> bool:
    return getattr(method, "beta", None) is not None or method.budget is not None


def _row_norm(method: Any) -> float:
    return float(getattr(method, "row_norm", 1.0))


def _deviations(planned: Planned, step: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, bool]:
    """The largest deviation of the noise on a coordinate of x_i over the run, in units of the step, (agents,), and
    whether the noise is normal. `moved` is the sensitivity of the gradient, (agents, 1)."""
    method, agents = planned.method, planned.graph.agents
    if not _private(method):
        return np.zeros(agents), True
    beta, found, normal = getattr(method, "beta", None), [], True
    same = len(step) == 1 and not isinstance(method.budget, tuple) and isinstance(beta, int | float | None)
    for k in range(1 if same else planned.rounds):
        eta = step[min(k, len(step) - 1)][:, None]
        how = Protection(None, beta, method.budget, 1.0, np.arange(agents), k)
        law = how.law(eta * moved, planned.facts.dimension)
        normal = normal and isinstance(law, Normal)
        deviation = law.deviation if isinstance(law, Normal) else math.sqrt(2) / law.rate
        found.append(np.broadcast_to(deviation / eta, (agents, 1))[:, 0])
    return np.max(found, axis=0), normal


def _smoothness(planned: Planned) -> np.ndarray:
    facts = planned.facts
    return np.asarray(lipschitz(facts.scale, facts.l2, loss=facts.loss, row_norm=_row_norm(planned.method)))


def _slopes(planned: Planned) -> np.ndarray:
    """A bound on the gradient of the data term of each f_i."""
    return np.asarray(planned.facts.scale * planned.facts.loss.max_slope * _row_norm(planned.method))


def _gap(planned: Planned, M: float) -> float:
    """F(0) - F(x*), over N: by the slope of the data term, or by the smoothness; l2 only lowers it."""
    reference = planned.aim.reference
    return min(float(_slopes(planned).mean()) * reference, M / 2 * reference**2)


def _within(planned: Planned, excess: float) -> str:
    """Whether an excess of F/N is within the accuracy, in words."""
    loss, accuracy = excess / float(planned.facts.scale.mean()), planned.aim.accuracy
    met = "at most" if loss <= accuracy else "more than"
    return f"within {loss:.4g} of the optimum's in the mean, which is {met} the {accuracy:g} that is asked for"


def _random_penalties(planned: Planned) -> str:
    planned.needs_few_agents()
    method, facts, graph = planned.method, planned.facts, planned.graph
    if graph.agents < 2:
        raise InputError("it is about agents that talk: at least two")
    D = np.broadcast_to(np.asarray(method.penalty, dtype=float), (graph.agents,))
    zeta = float(D.min()) / graph.agents if method.dual_step is None else method.dual_step
    low, high = (D * (1 - w) / graph.degree for w in reversed(method.own))  # Gamma_i = D_i - rho_i V_i is w D_i
    noisy = _private(method)
    rate = linear_rate(
        edges(graph),
        m=facts.l2,
        L=_smoothness(planned),
        D=D,
        zeta=zeta,
        rho=(low, high),
        exact=method.exact,
        noisy=noisy,
    )
    if not (noisy and rate.holds):
        return str(rate)
    deviations, _ = _deviations(planned, (1 / D)[None], gradient_sensitivity(facts, method.row_norm))
    reference = planned.aim.reference
    # A^T lambda* = grad f(x*), and lambda* lies in the range of A: ||lambda*||^2 <= ||grad f(x*)||^2/s.
    dual = float(((_slopes(planned) + facts.l2 * reference) ** 2).sum()) / float(rate.least[0])
    start = float(D.sum()) * reference**2 + dual / zeta
    bound = noise_floor(rate).bound(start, facts.dimension * (deviations / D) ** 2, planned.rounds)
    away = math.sqrt(bound / (graph.agents * float(D.min())))
    return f"{rate}; with the noise, models end within {away:.4g} of the optimum in the root mean square"


def _steps(planned: Planned) -> np.ndarray:
    """(steps, agents), or (1, agents) if all are the same."""
    step = planned.method.step
    constant = isinstance(step, int | float)
    return np.stack([planned.at("step", k) for k in range(1 if constant else planned.rounds)])


def _random_aggregation(planned: Planned) -> str:
    planned.needs_complete()
    method, facts, N = planned.method, planned.facts, planned.graph.agents
    steps = _steps(planned)
    deviations, _ = _deviations(planned, steps, gradient_sensitivity(facts, method.row_norm))
    farthest = facts.radius if method.ball is None else min(facts.radius, method.ball)
    inverse = 1 / (steps * np.sqrt(np.arange(1, len(steps) + 1))[:, None])
    falls = len(steps) == planned.rounds and float(np.ptp(inverse)) <= 1e-9 * float(inverse.max())
    bound = descent.random_aggregation(
        start=N * planned.aim.reference**2,
        agents=N,
        gradient=float(_slopes(planned).max()) + facts.l2 * farthest,
        noise=math.sqrt(facts.dimension) * float(deviations.max()),
        rounds=planned.rounds,
        c=float(inverse.max()) if falls else None,
    )
    steps_said = "" if falls else "with steps 1/(c sqrt(k)) and the best c, which this plan does not take, "
    return f"{steps_said}the loss at the average of all models is {_within(planned, bound / N)}"


def _curvature_of_step(planned: Planned, step: float) -> float:
    """M with step = 1/M: an f_i that is smooth with less is smooth with M, too."""
    least = float(_smoothness(planned).max())
    if step * least > 1 + 1e-9:
        raise InputError(f"it needs a step of at most 1/M = {1 / least:.4g}, not {step:.4g}")
    return 1 / step


def _from_the_mean(planned: Planned) -> tuple[float, float, bool]:
    """M, the deviation of the noise on each x_i, and whether it is normal, where all step from the mean of all."""
    planned.needs_complete()
    steps = _steps(planned)
    if np.ptp(steps) > 0:
        raise InputError("it is about one step for all rounds")
    step = float(steps[0, 0])
    own = planned.method
    if isinstance(own, GradientDescent) and (own.exchanges > 1 or abs(own.mixing * planned.graph.agents - 1) > 1e-9):
        raise InputError("it is about steps from the mean of all models: one exchange, with a mixing of 1/agents")
    M = _curvature_of_step(planned, step)
    moved = gradient_sensitivity(planned.facts, _row_norm(planned.method))
    deviations, normal = _deviations(planned, steps[:1], moved)
    return M, step * math.sqrt(float((deviations**2).mean())), normal


def _after(planned: Planned, M: float, error: float) -> str:
    N = planned.graph.agents
    bound = descent.contraction(gap=N * _gap(planned, M), m=planned.facts.l2, M=M, rounds=planned.rounds, error=error)
    return _within(planned, bound / N)


def _by_slope(planned: Planned) -> str:
    M, deviation, normal = _from_the_mean(planned)
    if not normal:
        raise InputError("it is about normal noise; give --epsilon")
    facts = planned.facts
    known: dict[str, Any] = {"deviation": deviation, "l2": facts.l2, "d": facts.dimension}
    row_norm, C = _row_norm(planned.method), float(facts.scale.mean())
    slope = descent.error_by_slope(
        agents=planned.graph.agents, slope=C * facts.loss.max_slope, row_norm=row_norm, **known
    )
    curved = descent.error_by_curvature(curvature=C * facts.loss.max_curvature, row_norm=row_norm, **known)
    return (
        f"the loss is {_after(planned, M, slope)}; by the curvature of the loss, which is beyond the paper, "
        f"{_after(planned, M, curved)}"
    )


def _by_largest_entry(planned: Planned) -> str:
    """A row of Euclidean norm r has a 1-norm of at most sqrt(d) r."""
    M, deviation, normal = _from_the_mean(planned)
    if not normal:
        raise InputError("it is about normal noise; give --epsilon")
    d = planned.facts.dimension
    error = descent.error_by_largest_entry(
        agents=planned.graph.agents,
        gradient_l1=float(_slopes(planned).mean()) * math.sqrt(d),
        deviation=deviation,
        d=d,
        l2=planned.facts.l2,
    )
    return f"the loss is {_after(planned, M, error)}"


def _coordinates(planned: Planned) -> str:
    planned.needs_complete()
    method, facts, N = planned.method, planned.facts, planned.graph.agents
    if method.block > 1:
        raise InputError(f"it is about single coordinates, not about blocks of {method.block}")
    step = 1 / float(_smoothness(planned).max()) if method.step is None else method.step
    M = _curvature_of_step(planned, step)
    deviations, _ = _deviations(planned, np.full((1, N), step), layer_sensitivity(facts, method.row_norm))
    bound = descent.coordinate_descent(
        gap=_gap(planned, M),
        m=facts.l2,
        M=M,
        d=facts.dimension,
        rounds=planned.rounds,
        deviation=step * math.sqrt(float((deviations**2).mean()) / N),
    )
    return f"the loss is {_within(planned, bound)}"


def _is_mean(method: Any) -> bool:
    """Whether an agent steps from the mean of what it hears, as in Appendix J."""
    if isinstance(method, GradientDescent):
        return True
    return not method.min_max and method.weight == (0.5, 0.5) and method.ball is None


_PAPER = "local-dp"
_ADMM, _GD, _MEAN = (RandomAggregationADMM,), (RandomAggregationGD,), (RandomAggregationGD, GradientDescent)
THEOREMS = (
    Theorem(_PAPER, "Theorem 3.1", _ADMM, _random_penalties, when=lambda m: m.exact and not _private(m)),
    Theorem(
        _PAPER,
        "Theorem 3.2",
        _ADMM,
        _random_penalties,
        when=lambda m: not m.exact and not _private(m) and m.ball is None,
    ),
    Theorem(
        _PAPER, "Theorem 3.3", _ADMM, _random_penalties, when=lambda m: not m.exact and _private(m) and m.ball is None
    ),
    Theorem(_PAPER, "Theorem 3.4", _GD, _random_aggregation, when=lambda m: not m.min_max),
    Theorem(_PAPER, "Theorem 4.1", _MEAN, _by_slope, when=_is_mean),
    Theorem(_PAPER, "Theorem 4.2", _MEAN, _by_largest_entry, when=_is_mean),
    Theorem(_PAPER, "(74)", (RandomCoordinateDescent,), _coordinates),
)
