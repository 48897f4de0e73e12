"""Compare private methods at the same total budget with the usual alternatives, on the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from tacit.attacks.poisoning import Hostile
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.problem import Problem
from tacit.data import Dataset
from tacit.errors import GraphError, InputError
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import CannotKeep, per_agent_totals
from tacit.simulation.simulate import simulate
from tacit.workflows.recipes import RECIPES, Recipe, Setting

REFERENCE_LOSS = HuberHinge(1.0)  # all methods are measured by this loss, whichever loss they minimise
_AS_GOOD_AS = 0.002  # two errors closer than this count as equal: the method with fewer messages is recommended


@dataclass(frozen=True, eq=False)
class Trial:
    """One division of the records: the rows that the agents train on, and the test rows."""

    parts: list[tuple[Any, np.ndarray]]
    test: Dataset
    seed: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows each agent has."""
        return tuple(len(y) for _, y in self.parts)

    @property
    def dimension(self) -> int:
        """How many features there are."""
        return int(self.parts[0][0].shape[1])

    @cached_property
    def stacked(self) -> tuple[Any, np.ndarray]:
        """All training rows in one place."""
        rows = [X for X, _ in self.parts]
        X = scipy.sparse.vstack(rows, format="csr") if scipy.sparse.issparse(rows[0]) else np.vstack(rows)
        return X, np.concatenate([y for _, y in self.parts])


@dataclass(frozen=True)
class MethodResult:
    """What one method achieves, over all trials."""

    name: str
    title: str
    errors: list[float]  # on test rows, one a trial
    losses: list[float]  # of the training rows, by `REFERENCE_LOSS`
    epsilon: float  # the most that an agent spends, at delta; infinite without privacy
    delta: float
    decentralised: bool
    rounds: int
    messages: int

    @property
    def private(self) -> bool:
        """Whether the method keeps a finite epsilon."""
        return bool(np.isfinite(self.epsilon))

    @property
    def error(self) -> float:
        """The mean over trials."""
        return float(np.mean(self.errors))

    @property
    def loss(self) -> float:
        """The mean over trials."""
        return float(np.mean(self.losses))


class Outcome(NamedTuple):
    """What one method achieves in one trial."""

    models: np.ndarray  # (k, d): the error of the method is the mean of their errors
    epsilon: float
    rounds: int
    messages: int


class Trust(NamedTuple):
    """How members listen, and how many of them lie (KIND:COUNT), in a simulation."""

    robust: str | None = None
    hostile: str | None = None


TRUSTING = Trust()


def methods(
    graph: Graph, epsilon: float, delta: float, trust: Trust = TRUSTING
) -> dict[str, tuple[str, bool, Callable[[Trial], Outcome]]]:
    """Every method by name: its title, whether it is decentralised, and the function that runs it in a trial."""

    @lru_cache
    def setting(recipe: Recipe, sizes: tuple[int, ...], dimension: int, talk: Graph) -> Setting:
        # A setting depends on the sizes alone: trials of the same sizes share it.
        return recipe.setting(sizes, dimension, talk, epsilon, delta)

    def outcome(trial: Trial, recipe: Recipe, talk: Graph = graph) -> Outcome:
        found = setting(recipe, trial.sizes, trial.dimension, talk)
        return _run(trial, talk, found, delta, trust=trust if talk.agents > 1 else TRUSTING)

    def by_recipe(name: str) -> Callable[[Trial], Outcome]:
        return lambda trial: outcome(trial, RECIPES[name])

    def stopped_early(trial: Trial) -> Outcome:
        # The noise and the penalty of recycled ADMM, without its even steps: half the messages.
        recycled = RECIPES["r-admm"]
        return outcome(trial, replace(RECIPES["dvp"], solves=recycled.solves, reach=recycled.reach))

    def alone(trial: Trial) -> Outcome:
        # The first round of one-shot averaging, without the averaging: every agent keeps its own model.
        first = replace(setting(RECIPES["one-shot"], trial.sizes, trial.dimension, graph), rounds=1)
        silent = replace(first, algorithm=replace(first.algorithm, mixing=0.0))
        return _run(trial, graph, silent, delta, apart=True)._replace(rounds=0, messages=0)

    def central(trial: Trial) -> Outcome:
        return outcome(Trial([trial.stacked], trial.test, trial.seed), RECIPES["gradient-descent"], Graph.ring(1))

    def pooled(trial: Trial) -> Outcome:
        sizes = np.array(trial.sizes)
        problem = Problem(trial.parts, loss=Logistic(), scale=sizes / sizes.mean(), l2=3e-5, tolerance=1e-6)
        return Outcome(problem.optimum()[None], np.inf, 0, 0)

    return {
        **{name: (recipe.title, True, by_recipe(name)) for name, recipe in RECIPES.items()},
        "early-stopping": ("recycled ADMM's noise, plain ADMM, half the messages", True, stopped_early),
        "alone": ("each organisation by itself, private", True, alone),
        "central": ("DP gradient descent on pooled records", False, central),
        "no-privacy": ("pooled records, no privacy", False, pooled),
    }


def compare(
    trials: list[Trial],
    graph: Graph,
    *,
    epsilon: float,
    delta: float,
    trust: Trust = TRUSTING,
    progress: Callable[[str], None] | None = None,
) -> Iterator[MethodResult]:
    """Runs every method in every trial. It leaves out a method that

    - cannot keep the budget,
    - needs a cycle for its token and finds none in the graph,
    - hands a token on, if members listen robustly: a member then has only one message to listen to.

    trials, graph : the divisions of the records, and who talks to whom
    epsilon, delta : the total budget of every agent
    trust : how members listen, and which of them lie
    progress : called with the name of each method before it runs
    """
    for name, (title, decentralised, run) in methods(graph, epsilon, delta, trust).items():
        if trust.robust is not None and name == "pi-admm":
            continue
        if progress is not None:
            progress(name)
        try:
            outcomes = [run(trial) for trial in trials]
        except (CannotKeep, GraphError):
            continue
        yield MethodResult(
            name=name,
            title=title,
            errors=[_error(o.models, trial.test) for o, trial in zip(outcomes, trials, strict=True)],
            losses=[_loss(o.models, trial) for o, trial in zip(outcomes, trials, strict=True)],
            epsilon=max(o.epsilon for o in outcomes),
            delta=delta,
            decentralised=decentralised,
            rounds=outcomes[0].rounds,
            messages=outcomes[0].messages,
        )

    shares = [float(np.mean(trial.test.y > 0)) for trial in trials if trial.test.y is not None]
    errors, losses = [min(share, 1 - share) for share in shares], [1.0] * len(trials)
    yield MethodResult("majority", "always the more frequent answer", errors, losses, np.inf, delta, False, 0, 0)


def recommended(results: list[MethodResult]) -> MethodResult:
    """Of the private, decentralised methods that are as good as the best, the one with the fewest messages."""
    candidates = [c for c in results if c.private and c.decentralised and c.messages > 0]
    if not candidates:
        raise InputError("no method can keep this budget on so few records: raise epsilon, or bring more records")
    best = min(c.error for c in candidates)
    return min((c for c in candidates if c.error <= best + _AS_GOOD_AS), key=lambda c: (c.messages, c.error))


def _run(
    trial: Trial,
    graph: Graph,
    setting: Setting,
    delta: float,
    *,
    apart: bool = False,
    trust: Trust = TRUSTING,
    members: bool = False,
) -> Outcome:
    """One run of one method.

    trial, graph, setting : what to run
    delta : the delta at which the epsilon spent is stated
    apart : give the model of each agent, on the agent's own scale
    trust : how members listen, and which of them lie; if not `TRUSTING`, give the model of each honest member
    members : give the model of each honest member in any case
    """
    facts = setting.facts
    hostile = None if trust.hostile is None else Hostile.parse(trust.hostile, graph.agents, trial.seed)
    if hostile is not None:
        hostile = hostile.against(setting.algorithm.schedule(graph), facts.radius, trust.robust)
    parts = trial.parts if hostile is None else hostile.parts(trial.parts)
    problem = Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
    noise, rounds = SeededNoise(trial.seed), setting.rounds
    run = simulate(
        setting.algorithm,
        problem,
        graph,
        rounds=rounds,
        noise=noise,
        robust=trust.robust,
        exchange=hostile,
        measure_every=rounds,
    )
    spent = max(total.best for total in per_agent_totals(run.spent, delta))
    if members or trust != TRUSTING:
        models = run.estimate if hostile is None else run.estimate[hostile.honest]
    else:
        models = run.estimate / facts.scale[:, None] if apart else run.model[None]
    return Outcome(models, spent, rounds, int(run.history["messages"][-1]))


def _error(models: np.ndarray, test: Dataset) -> float:
    assert test.y is not None
    return float(np.mean([np.mean((np.asarray(test.X @ f) > 0) != (test.y > 0)) for f in models]))


def _loss(models: np.ndarray, trial: Trial) -> float:
    X, y = trial.stacked
    return float(np.mean([np.mean(REFERENCE_LOSS.value(np.asarray(X @ f), y)) for f in models]))
