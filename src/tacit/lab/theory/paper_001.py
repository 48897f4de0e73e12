"""What "DP-ADMM" (paper 001) proves about DP-ADMM. About its accelerated method it proves nothing.

Members that share the noise compute the rounds of one holder of all records, whose noisy gradient is the mean of
theirs: so the theorems are about `SummedDPADMM` with a `DPADMM`, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import DPADMM, SummedDPADMM
from tacit.composite.prox import L1
from tacit.errors import InputError
from tacit.lab.theory import dp_admm as theory
from tacit.lab.theory.convergence import lipschitz
from tacit.lab.theory.planned import Planned, Theorem


class _Pooled(NamedTuple):
    """The run of one holder of all records."""

    method: DPADMM
    rows: int  # n
    rounds: int  # T
    slope: float  # c, the largest gradient of a record: in the mean gradient it counts for c/n
    smoothness: float  # L_f
    step: float  # eta/gamma
    sigma: float  # the root of the mean of sigma_t^2; 0 without noise


def _pooled(planned: Planned) -> _Pooled:
    method, facts, N = planned.method, planned.facts, planned.graph.agents
    own: DPADMM = method.method if isinstance(method, SummedDPADMM) else method
    n, rounds = int(facts.sizes.sum()), planned.rounds - own.first
    slope = facts.loss.max_slope * own.row_norm * float(facts.row_weight.max()) * n / N
    smoothness = float(lipschitz(float(facts.scale.mean()), facts.l2, loss=facts.loss, row_norm=own.row_norm))
    if isinstance(method, SummedDPADMM):
        assert own.step is not None  # it is refused otherwise
        sigma = 0.0 if method.deviation is None else method.deviation / np.sqrt(N)
        return _Pooled(own, n, rounds, slope, smoothness, own.step, float(sigma))
    squares = [0.0] if own.budget is None else [float(own.sigma(facts, k)[0, 0]) ** 2 for k in range(rounds)]
    step = float(own.step_size(facts)[0, 0])
    return _Pooled(own, n, rounds, slope, smoothness, step, float(np.sqrt(np.mean(squares))))


def _total(planned: Planned) -> tuple[float, float]:
    if planned.total is None:
        raise InputError("it needs the total of the run, epsilon and delta")
    return planned.total


def _noise(planned: Planned) -> str:
    run, (epsilon, delta) = _pooled(planned), _total(planned)
    known: dict[str, Any] = {"slope": run.slope, "rows": run.rows, "rounds": run.rounds}
    ours, printed = (
        theory.paper_sigma(**known, epsilon=epsilon, delta=delta, replace_one=replaced) for replaced in (True, False)
    )
    return (
        f"for epsilon = {epsilon:g} at delta = {delta:g} it asks for noise of deviation {ours:.4g} on a gradient "
        f"({printed:.4g} if neighbours differ by adding or removing a record, as in the paper); this plan has "
        f"{run.sigma:.4g}"
    )


def _rounds(planned: Planned) -> str:
    """In the unit of the loss: the unknown constant goes with one over the root of the unit, and T with neither."""
    run, (epsilon, delta) = _pooled(planned), _total(planned)
    T = theory.suggested_rounds(
        constant=1.0,
        rows=run.rows,
        dimension=planned.facts.dimension,
        epsilon=epsilon,
        delta=delta,
        step=float(planned.facts.scale.mean()) / run.smoothness,
    )
    return f"it suggests {T:,} rounds times an unknown constant; this plan takes {run.rounds:,}"


def _bound(planned: Planned) -> str:
    """The subgradient of g = strength ||.||_1 has entries of at most the strength."""
    run = _pooled(planned)
    term, reference = run.method.term, planned.aim.reference
    if not isinstance(term.g, L1):
        raise InputError(f"a bound on the slope of g is known for L1, not for {type(term.g).__name__}")
    largest = 1 / (run.smoothness + run.method.penalty * term.norm)
    if run.step > largest * (1 + 1e-9):
        raise InputError(f"it needs a step of at most 1/(L_f + rho ||A^T A||) = {largest:.4g}, not {run.step:.4g}")
    x = np.zeros(term.dimension)
    best = theory.Optimum(x=x, y=np.zeros(term.rows), w=np.full(term.rows, term.g.strength))
    start = np.eye(1, term.dimension)[0] * reference  # as far from the optimum as zero is from the reference
    bound = theory.criterion_bound(
        best, start=start, penalty=run.method.penalty, step=run.step, sigma=run.sigma, rounds=run.rounds
    )
    C = float(planned.facts.scale.mean())
    return (
        f"after {run.rounds:,} rounds the averages of x and y have a mean R of at most {bound / C:.4g} in the unit of "
        f"the loss, if the optimum has the norm {reference:g}"
    )


def _covered(method: DPADMM | SummedDPADMM) -> bool:
    """The steps (3), (5) and (7), with noise on whole gradients, from u_0 = 0."""
    own = method.method if isinstance(method, SummedDPADMM) else method
    return type(own) is DPADMM and not own.exact and not own.as_printed and own.rate == 1


def _private(method: DPADMM | SummedDPADMM) -> bool:
    noisy = method.deviation if isinstance(method, SummedDPADMM) else method.budget
    return _covered(method) and noisy is not None


_PAPER, _ABOUT = "dp-admm", (DPADMM, SummedDPADMM)
THEOREMS = (
    Theorem(_PAPER, "Theorem 1", _ABOUT, _noise, when=_private),
    Theorem(_PAPER, "Theorem 2", _ABOUT, _rounds, when=_private),
    Theorem(_PAPER, "Theorem 2, by (18)", _ABOUT, _bound, when=_covered, of_a_run=(theory.criterion,)),
)
