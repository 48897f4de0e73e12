"""The audits, by the names that `tacit train --method` knows the methods by.

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
    RecycledADMM,
    hyper,
)
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.errors import InputError, whole
from tacit.privacy.audit import Audited, audit_dual_perturbed, audit_primal_perturbed, audit_shared, audit_solver
from tacit.privacy.audit.papers import OFFSET, opposite
from tacit.privacy.audit.runs import Case, audit_run
from tacit.privacy.noise import SecureNoise
from tacit.privacy.plan import Facts
from tacit.workflows.recipes import RECIPES

ROUNDS, DELTA = 8, 1e-5
_RADIUS = 512.0  # the others can say 400 x
ALIASES = {"dvp-gaussian": "dvp", "pi-admm2": "pi-admm"}  # names of earlier versions
_X, _FAR = (0.6, 0.8), 400.0


def recipe_case(name: str, epsilon: float, delta: float = DELTA, rounds: int = ROUNDS, *, steer: bool = False) -> Case:
    """A run of the recipe with so many noisy steps, calibrated to (epsilon, delta).

    >>> case = recipe_case("mr-admm", 1.0, rounds=2)
    >>> case.ticks, case.graph.agents, case.facts
    (5, 2, Facts(2 agents, 4 rows, dimension 2, HuberHinge(width=1.0, offset=-30.0)))
    """
    whole("rounds", rounds, 1)
    recipe = RECIPES[name]
    graph = Graph.ring(1) if recipe.alone else Graph.complete(2)
    recipe = replace(recipe, solves=rounds, loss=replace(recipe.loss, offset=OFFSET))  # type: ignore[arg-type]
    setting = recipe.setting([2] * graph.agents, 2, graph, epsilon, delta, _RADIUS)
    said = np.zeros((setting.rounds, graph.agents - 1, 2))
    if steer:  # from where the next noisy step is one of the second half
        said[max(0, setting.rounds - 2) // 2 :] = np.multiply(_FAR, _X)
    step = _step(setting.algorithm, setting.facts, graph)
    return Case(setting.algorithm, setting.rounds, graph, setting.facts, opposite(_X), epsilon, delta, step, said)


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


_RUNS = ("delta", "rounds", "planted")
_ANY = (*_RUNS, "minutes", "steer")
# The function of an audit, and the options that it has besides epsilon, samples, seed, progress and workers.
AUDITS: dict[str, tuple[Callable[..., Audited], tuple[str, ...]]] = {
    **{
        # The settings of one holder of all records say how many rounds there are.
        name: (partial(_audit_recipe, name=name), ("delta", "planted", "minutes") if recipe.alone else _ANY)
        for name, recipe in RECIPES.items()
        if not recipe.shared
    },
    "shared-descent": (audit_shared, (*_RUNS, "minutes", "bug", "members", "colluders")),
    "dvp-paper": (audit_dual_perturbed, ("as_printed", "planted", "minutes")),
    "pvp-paper": (audit_primal_perturbed, ("planted", "minutes")),
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
        if option not in (*known, "samples", "seed", "progress", "workers"):
            raise InputError(f"the audit {name} has no --{option.replace('_', '-')}")
    return run(epsilon, **options)
