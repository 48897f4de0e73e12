"""Methods on one problem: how far above its minimum each ends.

The objective is F(f) = sum_i O_i(f) (`Problem`), at the average of the agents' models, and the gap of a run is
(F(f) - min F)/sum_i scale_i: with the usual scales, a mean loss per record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.engines import Local, Workers
from tacit.engines.work import Tell
from tacit.errors import GraphError, InputError
from tacit.lab.comparison.contenders import Contender, run_name
from tacit.lab.comparison.lines import as_usual
from tacit.lab.comparison.results import Achieved, MethodResult
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import CannotKeep, per_agent_totals
from tacit.run.budget import Budget
from tacit.run.exact import ALGORITHMS, ROUNDS, TOLERANCE, usual_penalty
from tacit.run.metrics import Objective
from tacit.run.parts import name_of
from tacit.run.recipes import RECIPES, Built, NoiseLevel, Recipe
from tacit.run.setting import Setting, ticks_a_round
from tacit.run.spec import RunSpec
from tacit.run.trust import Reserve, Trust
from tacit.simulation.simulate import simulate

_WEAK = 0.05  # a regulariser, relative to the loss's curvature, that a recipe's gradient steps are not too long for
_SOLVED = 1e-7  # the gradient norm to which private steps are solved, as in a comparison on records


class _Line(NamedTuple):
    """One method, ready to run."""

    title: str
    algorithm: Any
    rounds: int
    problem: Problem  # what it minimises
    graph: Graph
    tolerance: float | None = None
    reserve: Reserve | None = None


def on_problem(
    methods: Sequence[str | Contender | RunSpec],
    problem: Problem,
    graph: Graph,
    *,
    budget: Budget | None,
    delta: float,
    seeds: int,
    shared: Mapping[Reserve, Graph],
    workers: Workers | None,
    tell: Tell | None,
) -> list[MethodResult]:
    """What each method achieves with every seed of the noise. It leaves out those that cannot keep the budget, or
    cannot run on the graph."""
    lines: dict[str, _Line] = {}
    for method in methods:
        try:
            lines |= _lines(method, problem, graph, budget, shared)
        except (CannotKeep, GraphError):
            continue
    todo = [(name, seed) for name in lines for seed in range(seeds)]
    whole = problem.pooled()
    least = float(whole.value(problem.optimum())[0])
    work = _GapOfOne(lines, whole, least, delta)
    with Local(1).open() if workers is None else nullcontext(workers) as at:
        found = dict(zip(todo, at.map(work, todo, None if tell is None else partial(tell, "runs")), strict=True))
    return [
        MethodResult(
            name, line.title, [found[name, k] for k in range(seeds)], delta, problem.agents, reserve=line.reserve
        )
        for name, line in lines.items()
    ]


def _lines(
    method: str | Contender | RunSpec,
    problem: Problem,
    graph: Graph,
    budget: Budget | None,
    shared: Mapping[Reserve, Graph],
) -> dict[str, _Line]:
    """A method by its name; one that shares its noise has a name for each number of colluders."""
    if isinstance(method, RunSpec):
        if method.count or method.trust.robust is not None:
            raise InputError(
                "a run with a noisy count, or with robust listening, is compared on records, not on a Problem"
            )
        setting = Setting.of(method, problem.sizes, problem.dimension)
        return {run_name(method): _restated_line(setting, name_of(method.method), problem)}
    if isinstance(method, Contender):
        made = method.made(problem, graph, budget)
        return {method.name: _Line(type(made).__name__, made, method.rounds, problem, graph)}
    if method in RECIPES and budget is not None:
        recipe = _restated(RECIPES[method], problem)
        if recipe.traits.alone:
            raise InputError(f"{method} is for one holder of all records: compare it on records, not on a Problem")
        if not recipe.traits.totals:
            return {method: _recipe_line(recipe, problem, graph, budget, None)}
        return {
            f"{method}:{reserve.colluders}": _recipe_line(recipe, problem, talk, budget, reserve)
            for reserve, talk in shared.items()
        }
    exact, unit = ALGORITHMS[method], float(problem.scale.mean())
    if exact.gradient:
        penalty = float(problem.smoothness().max())
    else:
        sizes = problem.sizes.tolist()
        penalty = unit * usual_penalty(method, problem.loss, l2=problem.l2 / unit, row_norm=1.0, sizes=sizes)
    made = exact.make(penalty, graph)
    rounds = ROUNDS * ticks_a_round(made, graph)
    return {method: _Line(f"{exact.title}, no privacy", made, rounds, problem, graph, TOLERANCE)}


@dataclass(frozen=True)
class _Regularised:
    """Builds what a recipe does, with the regulariser of the problem, which is public."""

    recipe: Recipe
    l2: float

    def __call__(self, recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
        make, rounds, l2 = self.recipe.build(recipe, level, graph)
        return make, rounds, max(l2, self.l2)


def _restated(recipe: Recipe, problem: Problem) -> Recipe:
    """The recipe for the problem's own loss and regulariser."""
    loss: Any = problem.loss
    l2, most = problem.l2 / float(problem.scale.mean()), _WEAK * problem.loss.max_curvature
    if l2 > most:
        raise InputError(
            f"private methods that are given by name have steps for weak regularisers: l2 over the mean scale is "
            f"{l2:.3g}, and may be {most:.3g}; lower l2, or give a tacit.Contender with your own settings"
        )
    return replace(recipe, name="", loss=loss, build=_Regularised(recipe, l2))


def _recipe_line(recipe: Recipe, problem: Problem, graph: Graph, budget: Budget, reserve: Reserve | None) -> _Line:
    found = recipe.setting(problem.sizes, problem.dimension, graph, budget, Trust.of(reserve))
    return _restated_line(found, recipe.title, problem)


def _restated_line(setting: Setting, title: str, problem: Problem) -> _Line:
    """The run on this problem's records, with the loss and the weights of the run."""
    facts = setting.facts
    own = problem.restated(loss=facts.loss, scale=facts.scale, l2=facts.l2, tolerance=_SOLVED, radius=facts.radius)
    tolerance, reserve = setting.spec.tolerance, setting.spec.trust.reserve
    return _Line(title, setting.algorithm, setting.rounds, own, setting.graph, tolerance, reserve)


@dataclass(frozen=True)
class _GapOfOne:
    lines: dict[str, _Line]
    whole: Problem
    least: float
    delta: float

    def __call__(self, what: tuple[str, int]) -> Achieved:
        name, seed = what
        line = self.lines[name]
        every = line.rounds if line.tolerance is None else ticks_a_round(line.algorithm, line.graph)
        with nullcontext() if line.tolerance is None else as_usual():
            run = simulate(
                line.algorithm,
                line.problem,
                line.graph,
                rounds=line.rounds,
                noise=SeededNoise(seed),
                tolerance=line.tolerance,
                measure_every=every,
            )
        value, scale = float(self.whole.value(run.model)[0]), float(self.whole.scale[0])
        # At the minimum rounding alone may take the difference below zero.
        gap = max(value - self.least, 0.0) / scale
        spent = max(total.best for total in per_agent_totals(run.spent, self.delta).items)
        loss = float(self.whole.average_loss(run.model)[0])
        measured = [Objective(int(np.sum(line.problem.sizes)), gap)]
        return Achieved(measured, loss, spent, run.rounds, int(run.history["messages"][-1]))
