"""What "Privacy-preserving Incremental ADMM" (paper 002) proves about I-ADMM and PI-ADMM1.

The paper announces a proof for PI-ADMM2, the method with noise, and has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.algorithms import IncrementalADMM
from tacit.core.schedule import RandomWalk
from tacit.lab.theory import incremental
from tacit.lab.theory.convergence import lipschitz
from tacit.lab.theory.planned import Planned, Theorem


def _plain(method: IncrementalADMM) -> bool:
    """Exact steps on a cycle, without noise, from a start that leads to the optimum."""
    noisy = method.deviation is not None or method.budget is not None
    return method.exact and not noisy and not method.as_printed and not isinstance(method.order, RandomWalk)


def _unit_steps(method: IncrementalADMM) -> bool:
    """I-ADMM, and Algorithm 2, which is I-ADMM from a random start."""
    return _plain(method) and method.gamma is None


def _random_steps(method: IncrementalADMM) -> bool:
    """Whether the method is PI-ADMM1."""
    return _plain(method) and method.gamma is not None


def _descent(planned: Planned, gamma: Any) -> tuple[incremental.Descent, float, float]:
    rho, facts = planned.method.penalty, planned.facts
    # A public bound on the curvature of every agent's objective: the true L depends on the records.
    L = float(np.max(lipschitz(facts.scale, facts.l2, loss=facts.loss, row_norm=planned.method.row_norm)))
    return incremental.descent(rho, L, planned.graph.agents, float(np.min(gamma))), rho, L


def _steep(planned: Planned) -> str:
    found, rho, L = _descent(planned, 1.0)
    return (
        f"its condition rho >= 2 L + 2 {'holds' if found.lemma_2 else 'fails'} for rho = {rho:g} and L = {L:.4g}, a "
        f"bound for all records; for convex objectives rho > L suffices, which {'holds' if found.convex else 'fails'}"
    )


def _converges(planned: Planned) -> str:
    found, rho, L = _descent(planned, planned.method.gamma.low)
    return f"for rho = {rho:g} and L = {L:.4g}, a bound for all records: {found}"


def _overheard(planned: Planned) -> str:
    state, gradient = (
        incremental.state_error_bound(1.0, 1),
        incremental.dual_error_bound(1.0, 1, planned.method.penalty),
    )
    return (
        "an eavesdropper that knows the last state of an agent to within e knows the one before the visit to within "
        f"{state:g} e and its gradient to within {gradient:g} e, and n visits ago to within 2^n times e"
    )


_PAPER, _ABOUT = "incremental-admm", (IncrementalADMM,)
_OF_A_RUN = (incremental.augmented_lagrangian, incremental.kkt_residuals)
THEOREMS = (
    Theorem(_PAPER, "Lemma 2", _ABOUT, _steep, when=_unit_steps, of_a_run=_OF_A_RUN),
    Theorem(_PAPER, "Lemma 4 and Theorem 1", _ABOUT, _converges, when=_random_steps, of_a_run=_OF_A_RUN),
    # A secret offset hides S_i, from which the bound on y_i follows.
    Theorem(_PAPER, "Remark 3, (17)", _ABOUT, _overheard, when=lambda m: _unit_steps(m) and m.offset == 0),
)
