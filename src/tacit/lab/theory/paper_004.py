"""What "Dynamic Differential Privacy" (paper 004) proves about dual and primal variable perturbation.

The paper bounds C times the loss, with C the scale of the agent: the accuracy of an `Aim` is multiplied by C here.
Agents of different scale, degree or noise need different numbers of rows; the most is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.algorithms import ConsensusADMM, DualPerturbedADMM, PrimalPerturbedADMM
from tacit.algorithms.dual_perturbed_admm import paper_noise
from tacit.algorithms.primal_perturbed_admm import paper_rate
from tacit.core.algorithm import traits
from tacit.errors import InputError
from tacit.lab.theory import design, excess, samples
from tacit.lab.theory.planned import Planned, Theorem, raised_in_words, rows_in_words


def _shared(planned: Planned, C: float, parts: int) -> dict[str, Any]:
    """What all of these theorems take; one that holds with probability 1 - parts delta gets a part of the failure."""
    reference, accuracy, failure = planned.aim
    return {"f_ref": reference, "alpha_acc": C * accuracy, "delta": failure / parts, "C": C}


def _without_noise(planned: Planned) -> str:
    planned.needs_two_classes()
    rows = max(samples.consensus_admm(**_shared(planned, C, 1)) for C in set(planned.facts.scale.tolist()))
    private = traits(planned.method).draws(planned.method)
    return rows_in_words(rows, planned, " without noise" if private else "")


def _dual(planned: Planned) -> str:
    """Theorem 10 is about the limit, and Corollary 11 about the iterate."""
    planned.needs_two_classes()
    settings = set(zip(planned.facts.scale.tolist(), planned.noise(planned.rounds).tolist(), strict=True))
    d, curved = planned.facts.dimension, planned.facts.loss.max_curvature
    rows = max(samples.dvp(**_shared(planned, C, 2), alpha=alpha, d=d, c1=curved) for C, alpha in settings)
    return rows_in_words(rows, planned)


def _primal(calculator: Callable[..., float], parts: int, *curvatures: str, what: str = "") -> Callable[[Planned], str]:
    """One of the theorems on primal perturbation. The released centre has e_p + e_i where the printed one has
    e_p - e_i, with the same bound on the norm, and less noise: the theorems hold for both."""

    def say(planned: Planned) -> str:
        planned.needs_two_classes()
        if planned.graph.agents < 2:
            raise InputError("it is about agents with neighbours")
        alphas, etas = planned.noise(planned.rounds), planned.extreme("penalty", planned.rounds, np.max)
        of_each = (planned.facts.scale, planned.graph.degree, alphas, etas)
        rest = {"d": planned.facts.dimension} | dict.fromkeys(curvatures, planned.facts.loss.max_curvature)
        rows = max(
            calculator(**_shared(planned, C, parts), alpha=alpha, degree=degree, eta=eta, **rest)
            for C, degree, alpha, eta in set(zip(*(x.tolist() for x in of_each), strict=True))
        )
        return rows_in_words(rows, planned, what)

    return say


def _noisy_objective(planned: Planned) -> str:
    facts = planned.facts
    eta, alpha = planned.extreme("penalty", planned.rounds, np.min)[:, None], planned.noise(planned.rounds)[:, None]
    zeta, phi = paper_noise(facts, eta, planned.graph.view(), alpha, planned.method.as_printed)
    if np.any(phi > 0):
        raise InputError("it is about steps in which Phi is 0: take a larger alpha")
    rest = {"d": facts.dimension, "rho": facts.l2}
    of_each = zip(facts.scale, facts.sizes, zeta[:, 0], strict=True)
    return raised_in_words(
        planned,
        excess.perturbed_objective,
        *({**rest, "rate": z, "C": C, "rows": int(B), "unit": C} for C, B, z in of_each),
    )


def _rate(planned: Planned) -> np.ndarray:
    """zeta of primal perturbation, the least of each agent."""
    m = np.full(planned.graph.agents, planned.facts.l2)
    if planned.method.centre == "released":
        m = m + 2 * planned.extreme("penalty", planned.rounds, np.min) * planned.graph.degree
    return paper_rate(planned.facts, planned.noise(planned.rounds)[:, None], m[:, None])[:, 0]


def _noisy_centres(planned: Planned) -> str:
    """Lemma 19. The neighbours' noise may be stronger than the agent's: all have the least rate."""
    eta, N = planned.extreme("penalty", planned.rounds, np.max), planned.graph.degree
    rest = {"d": planned.facts.dimension, "rate": float(_rate(planned).min()), "rho": planned.facts.l2}
    of_each = zip(planned.facts.scale, eta, N, strict=True)
    return raised_in_words(
        planned, excess.perturbed_penalties, *({**rest, "eta": e, "degree": int(n), "unit": C} for C, e, n in of_each)
    )


def _noisy_output(planned: Planned) -> str:
    """What Lemma 20 says of noise on the minimiser."""
    facts = planned.facts
    rest = {"d": facts.dimension, "rho": facts.l2, "c4": facts.loss.max_curvature}
    of_each = zip(facts.scale, _rate(planned), strict=True)
    return raised_in_words(
        planned, excess.perturbed_output, *({**rest, "rate": z, "C": C, "unit": C} for C, z in of_each)
    )


def _designed(planned: Planned) -> str:
    if planned.measured is None:
        raise InputError("it needs losses that were measured at several alphas; give --design")
    return design.designed(planned.measured)


_PAPER = "dynamic-dp"
_DVP, _PVP = (DualPerturbedADMM,), (PrimalPerturbedADMM,)
_HIDDEN = _primal(samples.pvp_hidden, 2, what=" for the model that is not released")
_RELEASED = _primal(samples.pvp, 3, "c4")
_OUTPUT = _primal(samples.pvp_output, 5, "c1", "c4")
DESIGN = Theorem(_PAPER, "problem (28)", (*_DVP, *_PVP), _designed)
THEOREMS = (
    Theorem(_PAPER, "Theorem 9", (ConsensusADMM, *_DVP, *_PVP), _without_noise),
    Theorem(_PAPER, "Theorem 10 and Corollary 11", _DVP, _dual),
    Theorem(_PAPER, "Lemmas 17 and 18", _DVP, _noisy_objective),
    Theorem(_PAPER, "Theorem 12", _PVP, _HIDDEN),
    Theorem(_PAPER, "Theorem 13 and Corollary 14", _PVP, _RELEASED),
    Theorem(_PAPER, "Lemma 19", _PVP, _noisy_centres),
    Theorem(_PAPER, "Lemma 20", _PVP, _noisy_output),
    Theorem(_PAPER, "Corollary 15", _PVP, _OUTPUT, when=lambda method: method.final is not None),
    DESIGN,
)
