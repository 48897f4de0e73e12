"""The audits, by the names that `tacit train --algorithm` knows the methods by.

**The setting.** An audit is sharp where one record moves what leaves by all that the proof allows. So the loss has a
public offset of -30: at every model that a run reaches, all records of class +1 are misclassified by far, and the loss
is a straight line of the largest slope. The agent has two records, x and 0; the neighbouring data set has -x in place
of x, with ||x|| = 1. Their gradients differ by 2 g C/B, exactly. x has two entries that are not zero, so noise that is
too small in some direction shows.

**Steering.** A record that says the same in every round hides noise that is used twice: what leaves twice with the same
noise says no more than once. With `steer`, the others pull the model from the middle of the run to where x is
classified well and has no gradient any more. Then the record's influence changes between rounds. The audit is less
sharp: in these rounds the two gradients differ by half as much.

**The method** is that of `Recipe.setting`, as `tacit train` calibrates it for two agents, with `rounds` noisy steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tacit.algorithms import (
    Averaged,
    DualPerturbedADMM,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RecycledADMM,
    hyper,
)
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Logistic
from tacit.errors import InputError, number, whole
from tacit.privacy.audit import Audited, audit_shared, audit_solver
from tacit.privacy.audit.runs import Case, audit_run
from tacit.privacy.laws import FOR_INEXACTNESS
from tacit.privacy.noise import SecureNoise
from tacit.privacy.plan import Facts
from tacit.workflows.recipes import RECIPES

ROUNDS, DELTA = 8, 1e-5
_RADIUS = 512.0  # the others can say 400 x
ALIASES = {"dvp-gaussian": "dvp", "pi-admm2": "pi-admm"}  # names of earlier versions
_OFFSET, _X, _FAR = -30.0, (0.6, 0.8), 400.0
_PENALTY = 50.0  # of the papers' methods: so large that the curvature of the loss costs next to nothing


def recipe_case(name: str, epsilon: float, delta: float = DELTA, rounds: int = ROUNDS, *, steer: bool = False) -> Case:
    """A run of the recipe with so many noisy steps, calibrated to (epsilon, delta).

    >>> case = recipe_case("mr-admm", 1.0, rounds=2)
    >>> case.ticks, case.graph.agents, case.facts
    (5, 2, Facts(2 agents, 4 rows, dimension 2, HuberHinge(width=1.0, offset=-30.0)))
    """
    whole("rounds", rounds, 1)
    recipe, graph = RECIPES[name], Graph.complete(2)
    recipe = replace(recipe, solves=rounds, loss=replace(recipe.loss, offset=_OFFSET))  # type: ignore[arg-type]
    setting = recipe.setting([2, 2], 2, graph, epsilon, delta, _RADIUS)
    said = np.zeros((setting.rounds, 1, 2))
    if steer:  # from where the next noisy step is one of the second half
        said[max(0, setting.rounds - 2) // 2 :] = np.multiply(_FAR, _X)
    step = _step(setting.algorithm, setting.facts, graph)
    return Case(setting.algorithm, setting.rounds, graph, setting.facts, _rows(_X), epsilon, delta, step, said)


def _step(algorithm: Algorithm, facts: Facts, graph: Graph) -> float | None:
    """With a noisy linear term b on the grid of `SecureNoise`, and a straight loss of gradient g, the minimiser is
    -(b + g)/rho: it lies on a grid of so many times the step, moved by g/rho. None if the noise is on the output."""
    method = algorithm.method if isinstance(algorithm, Averaged) else algorithm
    rho = facts.l2
    if isinstance(method, DualPerturbedADMM | PenaltyPerturbedADMM | RecycledADMM):
        rho += 2 * float(hyper.at("penalty", method.penalty, 0, np.zeros(1, dtype=int))[0, 0]) * int(graph.degree[0])
    elif not isinstance(method, OneShotAveraging):
        return None
    return SecureNoise().grid / rho


def paper_case(make: Callable[[float], Algorithm], epsilon: float) -> Case:
    """One step of a paper's method at alpha = epsilon, with its spherical noise, in one dimension: there it is
    Laplace's. The mask adds a thousandth to the claim."""
    number("epsilon", epsilon)
    facts = Facts(sizes=[2, 2], dimension=1, loss=Logistic(offset=_OFFSET), l2=1e-3)
    claim = epsilon * (1 + FOR_INEXACTNESS)
    return Case(make(epsilon), 1, Graph.complete(2), facts, _rows((1.0,)), claim)


def _rows(x: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    none = np.zeros(len(x))
    return np.array([x, none]), np.array([np.negative(x), none])


def _audit_recipe(
    epsilon: float,
    *,
    name: str,
    delta: float = DELTA,
    rounds: int = ROUNDS,
    steer: bool = False,
    planted: bool = False,
    **effort: object,
) -> Audited:
    case = recipe_case(name, epsilon, delta, rounds, steer=steer)
    return audit_run(case, planted=planted, **effort)  # type: ignore[arg-type]


def _audit_dual_paper(epsilon: float, *, as_printed: bool = False, planted: bool = False, **effort: object) -> Audited:
    """`as_printed`, the method has twice the rate that its proof needs: half the noise."""
    case = paper_case(lambda a: DualPerturbedADMM(penalty=_PENALTY, alpha=a, as_printed=as_printed), epsilon)
    if as_printed and planted:
        raise InputError("--as-printed is a bug by itself: leave out --planted")
    source = _Open if as_printed else None
    return audit_run(case, planted=planted, source=source, **effort)  # type: ignore[arg-type]


class _Open(SecureNoise):
    """The same noise, for the printed version, which refuses noise that protects."""

    private = False

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        super().__init__(random_bytes=random_bytes)


def _audit_primal_paper(epsilon: float, *, planted: bool = False, **effort: object) -> Audited:
    case = paper_case(lambda a: PrimalPerturbedADMM(penalty=_PENALTY, alpha=a), epsilon)
    return audit_run(case, planted=planted, **effort)  # type: ignore[arg-type]


_RUNS = ("delta", "rounds", "planted")
# The function of an audit, and the options that it has besides epsilon, samples, seed and progress.
AUDITS: dict[str, tuple[Callable[..., Audited], tuple[str, ...]]] = {
    **{
        name: (partial(_audit_recipe, name=name), (*_RUNS, "minutes", "steer"))
        for name in RECIPES
        if name != "shared-descent"
    },
    "shared-descent": (audit_shared, (*_RUNS, "minutes", "bug", "members", "colluders")),
    "dvp-paper": (_audit_dual_paper, ("as_printed", "planted", "minutes")),
    "pvp-paper": (_audit_primal_paper, ("planted", "minutes")),
    "solver": (audit_solver, ("planted",)),
}


def audit_named(name: str, epsilon: float, **options: object) -> Audited:
    """The audit of a method; an option that it does not have is refused.

    >>> audit_named("solver", 1.0, rounds=3)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: the audit solver has no --rounds
    """
    run, known = AUDITS[name]
    for option in options:
        if option not in (*known, "samples", "seed", "progress"):
            raise InputError(f"the audit {name} has no --{option.replace('_', '-')}")
    return run(epsilon, **options)
