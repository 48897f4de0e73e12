"""Laws of noise: what noise of a law costs, and the law for a given cost.

`Spherical` noise costs a `Pure` event; `Normal` noise costs an event of Renyi divergences. Outputs may have `TwoSided`
noise, too: a Laplace mechanism on every coordinate. A method names the law itself (the papers' way), or what a step may
cost, and gets the law from `law_within`, `output_law_within` or `coordinate_law_within`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.core.alike import Alike
from tacit.core.multinomial import Multinomial
from tacit.core.problem import ROUNDING, Problem
from tacit.errors import InputError
from tacit.privacy.events import (
    Event,
    Gaussian,
    Laplace,
    LaplaceVector,
    ObjectiveGaussian,
    ObjectiveGaussianClasses,
    Pure,
)
from tacit.privacy.noise import LawName
from tacit.privacy.sensitivity import convexity_of, record_weight, slope_change

FOR_INEXACTNESS = 1e-3  # the share of a step's cost that pays for a minimiser that is not exact

Budget = Pure | Gaussian  # what one noisy step may cost


class BudgetTooSmall(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """The budget of a step does not even pay for the curvature of the loss."""


class Spherical(NamedTuple):
    """Noise with a density proportional to exp(-rate ||e||)."""

    rate: np.ndarray  # (n, 1)


class Normal(NamedTuple):
    """Noise with independent entries N(0, deviation^2)."""

    deviation: np.ndarray  # (n, 1)


class TwoSided(NamedTuple):
    """Noise with independent entries of density proportional to exp(-rate |e|): Laplace's."""

    rate: np.ndarray  # (n, 1)


Law = Spherical | Normal
OutputLaw = Spherical | Normal | TwoSided


def law_within(problem: Problem, budget: Budget, weight: np.ndarray, factor: np.ndarray) -> Law:
    """The law of noise with which `objective_perturbed` costs exactly the budget."""
    one, mu = record_weight(problem), convexity_of(problem, weight)
    if isinstance(budget, Gaussian):
        return Normal(budget.multiplier * math.sqrt(1 + FOR_INEXACTNESS) * slope_change(problem) / factor)
    target = budget.epsilon / (1 + FOR_INEXACTNESS)
    low, high = np.zeros_like(mu), target / (problem.loss.max_slope * one)  # the cost is at least rate g C/B
    if np.any(problem.loss.most_bent(one / mu) >= target):
        raise BudgetTooSmall(
            f"a step at {budget} cannot even pay for the curvature of the loss: raise l2, the penalty or the budget, "
            'or take noise on the output (noise_on="output" of recycled ADMM), which does not pay for it'
        )
    for _ in range(60):
        middle = (low + high) / 2
        fits = spherical_cost(problem, middle, mu) <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return Spherical(low * (1 - ROUNDING) * factor)  # rounding must not push the cost above the budget


def output_law_within(budget: Budget, moved: np.ndarray) -> Law:
    """The law of noise with which a value that moves by `moved`, (n, 1), costs exactly the budget."""
    return Spherical(budget.epsilon / moved) if isinstance(budget, Pure) else Normal(budget.multiplier * moved)


def coordinate_law_within(budget: Budget, moved: np.ndarray, dimension: int) -> Normal | TwoSided:
    """The law of independent noise on each coordinate with which a value that moves by `moved`, (n, 1), in the
    Euclidean norm costs exactly the budget."""
    if isinstance(budget, Pure):
        return TwoSided(budget.epsilon / (math.sqrt(dimension) * moved))
    return Normal(budget.multiplier * moved)


def named(law: OutputLaw) -> tuple[LawName, np.ndarray]:
    """The name by which a source of noise knows the law, and its scale."""
    if isinstance(law, Spherical):
        return "spherical", 1 / law.rate
    return ("laplace", 1 / law.rate) if isinstance(law, TwoSided) else ("gaussian", law.deviation)


def events_of(law: OutputLaw, moved: np.ndarray, dimension: int) -> Alike[Event]:
    """What noise of the law costs on a value of which neighbours differ by at most `moved` in the Euclidean norm."""
    if isinstance(law, Spherical):
        return Alike.by(Pure, (law.rate * moved)[:, 0])
    if isinstance(law, Normal):
        return Alike.by(Gaussian, (law.deviation / moved)[:, 0])
    multipliers = (1 / (law.rate * moved))[:, 0]
    if dimension == 1:
        return Alike.by(Laplace, multipliers)
    return Alike.by(lambda m: LaplaceVector(m, dimension), multipliers)


def spherical_cost(problem: Problem, rate: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """The cost of a linear term with a density exp(-rate ||e||). One of the two records can be anything, at slope g;
    the slope and the curvature of the other one count together."""
    one = record_weight(problem)
    return rate * problem.loss.max_slope * one + problem.loss.worst_record(rate * one, one / mu)


def normal_cost(problem: Problem, multiplier: np.ndarray, mu: np.ndarray) -> Alike[Event]:
    """The cost of a linear term with normal noise, so many times what a record moves the gradient by."""
    ratio = problem.loss.max_curvature * record_weight(problem) / mu
    if isinstance(problem.loss, Multinomial):
        K = problem.loss.classes
        return Alike.by(lambda m, x: ObjectiveGaussianClasses(m, x, K), multiplier[:, 0], ratio[:, 0])
    return Alike.by(ObjectiveGaussian, multiplier[:, 0], ratio[:, 0])
