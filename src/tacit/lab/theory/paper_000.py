"""What "Recycled ADMM" (paper 000) proves about R-ADMM and MR-ADMM."""

from __future__ import annotations

import numpy as np

from tacit.algorithms import RecycledADMM
from tacit.errors import InputError
from tacit.lab.theory import convergence, excess, samples
from tacit.lab.theory.planned import Planned, Theorem, raised_in_words, rows_in_words


def _solves(planned: Planned) -> int:
    """K: the odd iterations solve, the even ones recycle."""
    return (planned.rounds + 1) // 2


def _converges(planned: Planned) -> str:
    """(i) and (ii) at the method's gamma, and the least gamma; where the penalty grows, at both ends of the run."""
    planned.needs_few_agents()
    if planned.graph.agents < 2:
        raise InputError("it is about agents that talk: at least two")
    facts, last = planned.facts, _solves(planned) - 1
    M = convergence.lipschitz(facts.scale, facts.l2, loss=facts.loss)
    first, final = planned.at("penalty", 0), planned.at("penalty", last)
    if np.ptp([first, final]) == 0:  # the penalty never falls: it is one number
        eta, gamma = float(first[0]), planned.method.gamma
        met = dict(
            zip(("iii", "iv"), np.array(convergence.check_constant(planned.graph, eta, gamma, M)) > 0, strict=True)
        )
        return _conditions(planned, eta, eta, M, met)
    said = []
    for k in sorted({0, max(last - 1, 0)}):
        eta_now, eta_next = planned.at("penalty", k), planned.at("penalty", min(k + 1, last))
        found = convergence.check(planned.graph, eta_now, planned.method.gamma, M, eta_next=eta_next)
        met = {"i": found.holds_i, "ii": found.holds_ii}
        said.append(f"from solve {k + 1} to the next: {_conditions(planned, eta_now, eta_next, M, met)}")
    return " ".join(said)


def _conditions(
    planned: Planned, eta: float | np.ndarray, after: float | np.ndarray, M: float | np.ndarray, met: dict[str, bool]
) -> str:
    """What holds at L = mu = 2 is given: the paper has a form of its own for a constant penalty."""
    usual = " and ".join(f"({name}) {'holds' if holds else 'fails'}" for name, holds in met.items())
    best = convergence.best_constants(planned.graph, eta, planned.method.gamma, M, eta_next=after)
    least = convergence.smallest_gamma(planned.graph, eta, M, eta_next=after)
    gamma = str(least) if least.gamma is None else f"The smallest gamma that meets (i) and (ii) is {least.gamma:.6g}."
    return f"at L = mu = 2 {usual}; at the best L and mu: {best} {gamma}"


def _without_noise(planned: Planned) -> str:
    planned.needs_two_classes()
    reference, accuracy, failure = planned.aim
    return rows_in_words(samples.mr_admm(f_ref=reference, tau=accuracy, delta=failure), planned, " without noise")


def _with_noise(planned: Planned) -> str:
    """It holds with probability 1 - 2 delta. The accuracy is in the unit of the loss, as the theorem's tau is."""
    planned.needs_two_classes()
    reference, accuracy, failure = planned.aim
    settings = set(zip(planned.noise(_solves(planned)).tolist(), planned.facts.scale.tolist(), strict=True))
    rows = max(
        samples.mr_admm_private(
            f_ref=reference,
            tau=accuracy,
            delta=failure / 2,
            alpha=alpha,
            d=planned.facts.dimension,
            agents=planned.graph.agents,
            C=C,
        )
        for alpha, C in settings
    )
    return rows_in_words(rows, planned)


def _noise_of_a_step(planned: Planned) -> str:
    """Lemma E.1, where the noise is not multiplied by C/B."""
    facts, rates = planned.facts, planned.noise(_solves(planned))
    return raised_in_words(
        planned,
        excess.perturbed_objective,
        *(
            {"d": facts.dimension, "rate": a, "rho": facts.l2, "unit": C}
            for C, a in zip(facts.scale, rates, strict=True)
        ),
    )


_PAPER = "recycled-admm"
_ABOUT = (RecycledADMM,)
THEOREMS = (
    # With a dual step of its own the method is not (26)-(27).
    Theorem(_PAPER, "Theorem IV.1", _ABOUT, _converges, when=lambda method: method.dual_step is None),
    Theorem(_PAPER, "Theorem VI.1", _ABOUT, _without_noise),
    Theorem(_PAPER, "Theorem VI.2", _ABOUT, _with_noise, when=lambda method: method.noise_on == "objective"),
    Theorem(_PAPER, "Lemmas E.1 and E.3", _ABOUT, _noise_of_a_step, when=lambda method: method.noise_on == "objective"),
)
