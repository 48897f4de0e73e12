"""One model for the rows of several members: exactly, or under a total budget, whose cost is known beforehand."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Loss, Multinomial
from tacit.core.problem import Problem
from tacit.data.clipping import longest
from tacit.data.columns import Label
from tacit.errors import InputError
from tacit.privacy.coalitions import Guarantee, guarantee
from tacit.privacy.events import Event
from tacit.privacy.noise import Noise, SecureNoise
from tacit.privacy.plan import Plan, plan
from tacit.simulation.simulate import simulate
from tacit.workflows import exact
from tacit.workflows.losses import exact_loss
from tacit.workflows.recipes import RECIPES, Recipe, Reserve, Setting, recommended
from tacit.workflows.share import noisy_share, share_event
from tacit.workflows.spending import require_as_planned, worst
from tacit.workflows.training import rounds_of, ticks_a_round

Parts = Sequence[tuple[np.ndarray, np.ndarray]]  # rows and labels of each member
_TOLERANCE = 1e-6  # of the residuals: weights then have about five digits of the pooled optimum's


class Fitted(NamedTuple):
    """A model, and how it was found."""

    weights: np.ndarray  # (d,), or (K d,) for K classes
    loss: Loss
    history: dict[str, np.ndarray]
    converged: bool = True


def fit_exactly(parts: Parts, label: Label, graph: Graph, method: str, l2: float | None) -> Fitted:
    """The model of all rows; every row counts alike. Members exchange exact values. A single one minimises at once."""
    name = "admm" if method == "auto" else method
    if name not in exact.ALGORITHMS:
        known = ", ".join(["auto", *exact.ALGORITHMS])
        raise InputError(f"without epsilon, method is one of {known}; not {method!r}")
    loss, sizes = exact_loss(None, label), np.array([len(y) for _, y in parts])
    l2 = exact.L2 if l2 is None else l2
    problem = Problem(parts, loss=loss, scale=sizes / sizes.mean(), l2=l2)
    if graph.agents == 1:
        best = problem.optimum()
        return Fitted(
            best, loss, {"round": np.zeros(1, int), "messages": np.zeros(1), "loss": problem.average_loss(best)}
        )
    row_norm = max(longest(X) for X, _ in parts)
    penalty = exact.usual_penalty(name, loss, l2=l2, row_norm=row_norm, sizes=sizes.tolist())
    algorithm = exact.ALGORITHMS[name].make(penalty, graph)
    every = ticks_a_round(algorithm, graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theorems that do not cover our penalty, which works without them
        run = simulate(
            algorithm,
            problem,
            graph,
            rounds=every * exact.ROUNDS,
            tolerance=_TOLERANCE,
            measure_every=every,
            noise=SecureNoise() if exact.ALGORITHMS[name].draws else None,
        )
    history = {
        "round": run.history["round"] // every,
        "messages": run.history["messages"],
        "loss": run.history["model_loss"],
        "consensus_error": run.history["consensus_error"],
    }
    return Fitted(run.model, loss, history, run.converged)


class Budget(NamedTuple):
    """The total that a private fit may spend."""

    epsilon: float
    delta: float
    reserve: Reserve | None = None  # if the members share the noise


class Planned(NamedTuple):
    """A private fit, before anything is drawn or paid: what it will cost is known, from public facts alone."""

    method: str
    recipe: Recipe  # with the loss for the label
    facts: tuple[tuple[int, ...], int, Graph]  # the members' numbers of rows, the features, and who talks to whom
    budget: Budget
    before: tuple[Event, ...]  # what a noisy count of the positives costs, if there is one
    plan: Plan  # of the rest

    @property
    def events(self) -> list[Event]:
        """What it will cost, at most, for a record of any member."""
        return [*self.before, *worst(self.plan.events)]

    @property
    def guarantee(self) -> Guarantee:
        """What it will cost, at most, against coalitions of every size."""
        graph = self.facts[2]
        connectivity = None if self.budget.reserve is None else graph.connectivity
        spent = [each + Counter(self.before) for each in self.plan.spent]
        return guarantee(spent, self.budget.delta, members=graph.agents, connectivity=connectivity)

    def fit(self, parts: Parts, noise: Noise) -> tuple[Fitted, bytes]:
        """Fits, once it is paid for; also as bytes, for a ledger."""
        graph, (epsilon, delta, reserve) = self.facts[2], self.budget
        recipe, messages = self.recipe, 0
        if self.before:
            assert isinstance(recipe.loss, HuberHinge)
            count = noisy_share([y for _, y in parts], graph, epsilon, delta, noise)
            recipe, messages = replace(recipe, loss=recipe.loss.centred(count.share)), count.messages
        setting, again = _setting(recipe, *self.facts, epsilon, delta, self.before, reserve)
        facts, rounds = setting.facts, setting.rounds
        problem = Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
        run = simulate(setting.algorithm, problem, graph, rounds=rounds, noise=noise, measure_every=rounds)
        require_as_planned(run.spent, again.spent)
        require_as_planned(run.spent, self.plan.spent)
        # The losses along a run are not protected: only what is public is told.
        history = {
            "round": np.array([0, rounds_of(setting, graph)]),
            "messages": np.array([0, messages + int(run.history["messages"][-1])]),
        }
        leaves = json.dumps({"weights": run.model.tolist(), "offset": np.asarray(facts.loss.offset).tolist()})
        return Fitted(run.model, facts.loss, history), leaves.encode()


def plan_privately(
    sizes: Sequence[int], features: int, label: Label, graph: Graph, *, method: str, count: bool, budget: Budget
) -> Planned:
    """The settings for a budget.

    sizes, features : the number of rows of each member, and of features
    label, graph : what the labels are, and who talks to whom
    method : the name of a recipe, or "auto"
    count : whether to measure the share of positives with noise
    budget : the total
    """
    epsilon, delta, reserve = budget.epsilon, budget.delta, budget.reserve
    name = recommended(label, sizes, graph, epsilon, delta, reserve) if method == "auto" else method
    if name not in RECIPES:
        raise InputError(f"with epsilon, method is one of auto, {', '.join(RECIPES)}; not {method!r}")
    recipe, facts = RECIPES[name].for_label(label), (tuple(sizes), features, graph)
    before = (share_event(epsilon, delta),) if count else ()
    _, planned = _setting(recipe, *facts, epsilon, delta, before, reserve)
    return Planned(name, recipe, facts, budget, before, planned)


@lru_cache(maxsize=64)  # it takes a second, and a search for parameters asks for the same again and again
def _setting(
    recipe: Recipe,
    sizes: tuple[int, ...],
    features: int,
    graph: Graph,
    epsilon: float,
    delta: float,
    before: tuple[Event, ...],
    reserve: Reserve | None,
) -> tuple[Setting, Plan]:
    outputs = recipe.loss.classes if isinstance(recipe.loss, Multinomial) else 1
    setting = recipe.setting(sizes, outputs * features, graph, epsilon, delta, before=before, reserve=reserve)
    return setting, plan(setting.algorithm, setting.facts, graph, setting.rounds)
