"""The lines of a comparison on records: what it runs, with the settings for so many rows of each agent."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.data import Label, Multiclass, Schema
from tacit.lab.comparison.trials import Outcome, Trial, run_setting
from tacit.run.budget import Budget
from tacit.run.exact import L2
from tacit.run.label_losses import exact_loss
from tacit.run.model import Model
from tacit.run.recipes import RECIPES, Recipe
from tacit.run.setting import Setting
from tacit.run.trust import LOCAL, Reserve, Trust

# The lines that are always there, besides recipes: the last one is for a label of classes, or for numbers.
ALTERNATIVES = ("early-stopping", "alone", "central", "no-privacy", "majority", "mean")


@dataclass(frozen=True)
class Line:
    """A method on a graph. It can be sent to another process."""

    title: str
    graph: Graph
    budget: Budget | None
    delta: float  # at which epsilon is stated
    trust: Trust = LOCAL
    hostile: str | None = None  # how members lie, and how many: KIND:COUNT
    pooled: bool = False  # all records in one place

    def suits(self, label: Label) -> bool:
        """Whether it takes such a label, and members that listen so."""
        return True

    def sizes(self, trial: Trial) -> tuple[int, ...]:
        """How many rows each agent has; the setting depends on the trial by these alone."""
        return (len(trial.labels),) if self.pooled else trial.sizes

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting | None:
        """How it runs on so many rows of each agent; None if it needs no setting."""
        raise NotImplementedError

    def run(self, trial: Trial, setting: Setting | None) -> Outcome:
        """One run, with the setting for these sizes."""
        assert setting is not None
        with as_usual():
            return run_setting(trial, setting, delta=self.delta, hostile=self.hostile)


@dataclass(frozen=True, kw_only=True)
class Method(Line):
    """A recipe at a budget."""

    recipe: Recipe
    alone: bool = False  # every agent keeps its own model
    several: bool = False  # whether it takes a label of several classes

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """That of the recipe."""
        assert self.budget is not None
        recipe = self.recipe.for_label(schema.label)
        found = recipe.setting(sizes, schema.model_dimension, self.graph, self.budget, self.trust)
        if not self.alone:
            return found
        # The first round of one-shot averaging, without the averaging.
        method: Any = found.algorithm
        return replace(found, spec=replace(found.spec, rounds=1, method=replace(method, mixing=0.0)), recipe=None)

    def suits(self, label: Label) -> bool:
        """Whether it takes such a label, and members that listen so."""
        token = self.recipe.traits.token
        return (self.several or not isinstance(label, Multiclass)) and not (self.trust.robust and token)

    def run(self, trial: Trial, setting: Setting | None) -> Outcome:
        """One run, with the setting for these sizes."""
        assert setting is not None
        if self.pooled:
            trial = replace(trial, parts=[(trial.training.X, trial.labels)])
        found = run_setting(trial, setting, apart=self.alone, delta=self.delta, hostile=self.hostile)
        return found._replace(rounds=0, messages=0) if self.alone else found


class PooledOptimum(Line):
    """The minimum on pooled records, without privacy."""

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> None:
        """It is no run."""

    def run(self, trial: Trial, setting: Setting | None) -> Outcome:
        """The model at the minimum."""
        sizes, loss = np.array(trial.sizes), exact_loss(None, trial.schema.label)
        problem = Problem(trial.parts, loss=loss, scale=sizes / sizes.mean(), l2=L2, tolerance=1e-6)
        return Outcome([Model(problem.optimum(), trial.schema, loss)], np.inf, 0, 0)


def usual_reserves(members: int, dropouts: int = 0) -> list[Reserve]:
    """The assumptions for which a comparison shows shared noise: one colluder, and the most that are less than half.

    >>> [reserve.colluders for reserve in usual_reserves(5)], [reserve.colluders for reserve in usual_reserves(50)]
    ([1, 2], [1, 24])
    """
    chosen = sorted({1, max((members - 1) // 2, 1)})
    return [Reserve(t, dropouts) for t in chosen if t + dropouts < members]


def methods(
    graph: Graph,
    budget: Budget,
    trust: Trust = LOCAL,
    hostile: str | None = None,
    shared: Mapping[Reserve, Graph] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, Line]:
    """Methods by name, and the alternatives to them. `trust` says how members listen, and `hostile` which of them lie;
    `shared` for which reserves to show shared noise, and on which graph; `only` names recipes and alternatives, in
    place of the usual ones."""
    wanted = {name: recipe for name, recipe in RECIPES.items() if (recipe.usual if only is None else name in only)}
    line, one = partial(Method, budget=budget, delta=budget.delta), Graph.ring(1)
    here = partial(line, graph=graph, trust=trust, hostile=hostile)
    pooled, apart, sharing = dict[str, Line](), dict[str, Line](), dict[str, Line]()
    for name, recipe in wanted.items():
        several = recipe.traits.multiclass
        if recipe.traits.alone:
            pooled[name] = line(f"{recipe.title}, on pooled records", one, recipe=recipe, pooled=True)
        elif not recipe.traits.totals:
            apart[name] = here(recipe.title, recipe=recipe, several=several)
        else:
            for reserve, talk in ({} if shared is None else shared).items():
                t = reserve.colluders
                title = f"{recipe.title}, if at most {t} of {talk.agents} members collude"
                sharing[f"{name}:{t}"] = line(title, talk, recipe=recipe, trust=Trust.of(reserve), several=several)
    # The noise and the penalty of recycled ADMM, without its even steps: half the messages.
    recycled, descent = RECIPES["r-admm"], RECIPES["gradient-descent"]
    early = replace(RECIPES["dvp"], name="", solves=recycled.solves, reach=recycled.reach)
    alternatives = {
        "early-stopping": here("recycled ADMM's noise, plain ADMM, half the messages", recipe=early),
        "alone": line("each organisation by itself, private", graph, recipe=RECIPES["one-shot"], alone=True),
        "central": line("DP gradient descent on pooled records", one, recipe=descent, pooled=True, several=True),
        "no-privacy": PooledOptimum("pooled records, no privacy", one, budget, budget.delta, pooled=True),
    }
    chosen = {name: each for name, each in alternatives.items() if only is None or name in only}
    return pooled | apart | sharing | chosen


@contextmanager
def as_usual() -> Iterator[None]:
    """Without warnings that a theorem's conditions do not hold: the default penalty works without them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
