"""The audits, by the names that `tacit train --method` knows the methods by.

**The setting.** An audit is sharp where one record moves what leaves by all that the proof allows. So the loss has a
public offset of -30: at every model that a run reaches, all records of class +1 are misclassified by far, and the loss
is a straight line of the largest slope. The agent has two records, x and 0; the neighbouring data set has -x in place
of x, with ||x|| = 1. Their gradients differ by 2 g C/B, exactly. x has two entries that are not zero, so noise that is
too small in some direction shows.

**Several classes.** `mr-admm-classes` and the like have labels of three classes. By the offset all records seem to be
of another class than they are, so that the slope is sqrt(2) at all models that a run reaches.

**Steering.** A record that says the same in every round hides noise that is used twice: what leaves twice with the same
noise says no more than once. With `steer`, the others pull the model from the middle of the run to where x is
classified well and has no gradient any more. Then the record's influence changes between rounds. The audit is less
sharp: in these rounds the two gradients differ by half as much.

**Samples.** With a `rate` below 1 every gradient is that of a secret sample, which a record joins with that
probability. The model stays at zero, and in each of many rounds the record either moves the gradient or does not. A
sample that is drawn once shows in all rounds together, or in none: seldom, and then by far. So the guess is by the sum
of all releases. That is no Gaussian mechanism: the bound is the distribution-free one.

**What correct code shows** follows from the plan: m_k, the noise over what a record moves, gives mu^2 = sum 1/m_k^2,
where a step that is steered counts a quarter. With samples the mean moves by rate/m in each of R rounds, and the spread
is larger by that of joining: mu^2 = R (rate/m)^2 / (1 + rate (1 - rate)/(2m)^2), up to the central limit theorem.
Some methods show less than they pay for (`_SHOWN`).

**The method** is that of `Recipe.setting`, as `tacit train` calibrates it for two agents, with `rounds` noisy steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tacit.algorithms import (
    DPADMM,
    Averaged,
    DualPerturbedADMM,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    RecycledADMM,
    hyper,
)
from tacit.core.algorithm import Algorithm
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.multinomial import Multinomial
from tacit.errors import InputError, whole
from tacit.lab.audit import Audited, audit_dual_perturbed, audit_primal_perturbed, audit_shared, audit_solver
from tacit.lab.audit.papers import OFFSET, opposite
from tacit.lab.audit.runs import AGENT, Case, audit_run
from tacit.privacy.noise import SecureNoise
from tacit.privacy.plan import calibrate, plan
from tacit.privacy.sensitivity import gradient_sensitivity
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES

ROUNDS, SAMPLED_ROUNDS, DELTA = 8, 32, 1e-5
_RADIUS = 512.0  # the others can say 400 x
ALIASES = {"dvp-gaussian": "dvp", "pi-admm2": "pi-admm"}  # names of earlier versions
_X, _FAR = (0.6, 0.8), 400.0
# The least share of mu that methods show which pay for more than they reveal. rcd pays for as many layers as its most
# visited coordinate has visits, and each coordinate moves by 0.6 of a layer at least. Random aggregators hide a little
# more than their noise does: 0.86 or more was measured (`tacit audit ra-gd --epsilon 4 --steer --samples 20000`).
_SHOWN = {"rcd": 0.6, "ra-admm": 0.8, "ra-gd": 0.8}
_CLASSES, _CERTAIN = 3, (-OFFSET, OFFSET, OFFSET)  # records have the label 1, and seem to be of class 0
_TRUE = (0.0, 1.0, 0.0)
_STILL = 1e-6  # a step so small that the model stays at zero


def recipe_case(
    name: str,
    epsilon: float,
    delta: float = DELTA,
    rounds: int = ROUNDS,
    *,
    steer: bool = False,
    several: bool = False,
) -> Case:
    """A run of the recipe with so many noisy steps, calibrated to (epsilon, delta); `several` classes, or two.

    >>> case = recipe_case("mr-admm", 1.0, rounds=2)
    >>> case.ticks, case.graph.agents, case.facts
    (5, 2, Facts(2 agents, 4 rows, dimension 2, HuberHinge(width=1.0, offset=-30.0)))
    """
    whole("rounds", rounds, 1)
    recipe = RECIPES[name]
    graph = Graph.ring(1) if recipe.traits.alone else Graph.complete(2)
    loss = Multinomial(_CLASSES, offset=_CERTAIN) if several else replace(recipe.loss, offset=OFFSET)  # type: ignore
    recipe, d = replace(recipe, name="", solves=rounds, loss=loss), 2 * (_CLASSES if several else 1)
    setting = recipe.setting([2] * graph.agents, d, graph, Budget(epsilon, delta), radius=_RADIUS)
    said = np.zeros((setting.rounds, graph.agents - 1, d))
    if steer:  # from where the next noisy step is one of the second half
        pull = np.outer(_TRUE, _X).ravel() if several else np.array(_X)
        said[max(0, setting.rounds - 2) // 2 :] = _FAR * pull
    step = _step(setting.algorithm, setting.facts, graph)
    case = Case(setting.algorithm, setting.rounds, graph, setting.facts, opposite(_X), epsilon, delta, step, said)
    return replace(case, mu=_SHOWN.get(name, 1.0) * _apart(case))


def sampled_case(name: str, epsilon: float, delta: float, rate: float, rounds: int = SAMPLED_ROUNDS) -> Case:
    """So many gradients of secret samples, calibrated to (epsilon, delta): for the methods that can sample.

    >>> case = sampled_case("dp-admm", 2.0, 1e-5, rate=0.05, rounds=8)
    >>> case.ticks, case.algorithm.rate, case.gaussian
    (8, 0.05, False)
    """
    whole("rounds", rounds, 1)
    if not 0 < rate < 1:
        raise InputError(f"--rate is the probability with which a record joins a sample, between 0 and 1, not {rate:g}")
    recipe, graph = RECIPES[name], Graph.ring(1)
    recipe = replace(recipe, name="", loss=replace(recipe.loss, offset=OFFSET))  # type: ignore[arg-type]
    setting = recipe.setting([2], 1, graph, Budget(epsilon, delta), radius=_RADIUS)
    method = setting.algorithm
    assert isinstance(method, DPADMM)
    algorithm = calibrate(
        lambda budget: replace(method, budget=budget, rate=rate, step=_STILL),
        setting.facts,
        graph,
        rounds,
        epsilon=epsilon,
        delta=delta,
    )
    m = algorithm.sigma(setting.facts)[0, 0] / gradient_sensitivity(setting.facts, rate=rate)[0, 0]
    mu = math.sqrt(rounds * (rate / m) ** 2 / (1 + rate * (1 - rate) / (2 * m) ** 2))
    rows = opposite((1.0,))
    return Case(
        algorithm, rounds, graph, setting.facts, rows, epsilon, delta, mu=float(mu), together=True, gaussian=False
    )


def _apart(case: Case) -> float:
    """How far apart the two data sets are with correct code."""
    events = iter(plan(case.algorithm, case.facts, case.graph, case.ticks).events[AGENT])
    steered, square = False, 0.0
    for t, (speaks, hears) in enumerate(case.roles):
        if speaks and (multiplier := getattr(next(events), "multiplier", None)) is not None:
            square += (0.25 if steered else 1.0) / multiplier**2
        steered = steered or (hears > 0 and case.said is not None and bool(case.said[t].any()))
    return math.sqrt(square)


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
    rounds: int | None = None,
    rate: float | None = None,
    steer: bool = False,
    several: bool = False,
    planted: bool = False,
    **effort: object,
) -> Audited:
    if rate is not None:
        case = sampled_case(name, epsilon, delta, rate, SAMPLED_ROUNDS if rounds is None else rounds)
    elif rounds is not None and RECIPES[name].traits.alone:
        raise InputError(f"the settings of {name} say how many rounds there are: --rounds goes with --rate")
    else:
        case = recipe_case(name, epsilon, delta, ROUNDS if rounds is None else rounds, steer=steer, several=several)
    return audit_run(case, planted=planted, **effort)  # type: ignore[arg-type]


_RUNS = ("delta", "rounds", "planted")
_ANY = (*_RUNS, "minutes", "steer")
# The function of an audit, and the options that it has besides epsilon, samples, seed, progress and workers.
AUDITS: dict[str, tuple[Callable[..., Audited], tuple[str, ...]]] = {
    **{
        name: (partial(_audit_recipe, name=name), (*_RUNS, "minutes", "rate") if recipe.traits.alone else _ANY)
        for name, recipe in RECIPES.items()
        if not recipe.traits.totals
    },
    **{
        f"{name}-classes": (partial(_audit_recipe, name=name, several=True), _ANY)
        for name, recipe in RECIPES.items()
        if recipe.traits.multiclass and not recipe.traits.totals
    },
    "shared-descent": (audit_shared, (*_ANY, "bug", "members", "colluders")),
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
