"""Private methods at the same total budget, beside what a user would pick instead, on the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import OneShotAveraging
from tacit.data import Dataset
from tacit.errors import InputError
from tacit.graph import Graph
from tacit.losses import HuberHinge, Logistic
from tacit.noise import SeededNoise
from tacit.plan import Facts, plan
from tacit.problem import Problem
from tacit.recipes import RECIPES, Setting
from tacit.simulate import simulate

YARDSTICK = HuberHinge(1.0)  # the loss by which all methods are measured, whatever they minimise
_AS_GOOD_AS = 0.002  # errors nearer than that are not told apart: the cheaper method is recommended


class Trial(NamedTuple):
    """One division of the records: what the agents train on, and what nobody has seen."""

    parts: list[tuple[Any, np.ndarray]]
    test: Dataset
    seed: int


@dataclass(frozen=True)
class Contender:
    """One line of the comparison."""

    name: str
    title: str
    errors: list[float]  # on test rows, one a trial
    losses: list[float]  # of the training rows, by the yardstick
    epsilon: float  # what the worst-off agent spends at delta; infinite without privacy
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
    """What a method gives in one trial."""

    models: np.ndarray  # (k, d): the result is the mean over these of their errors
    epsilon: float
    rounds: int
    messages: int


def contenders(graph: Graph, epsilon: float, delta: float) -> dict[str, tuple[str, bool, Callable[[Trial], Outcome]]]:
    """Every method by name: its title, whether it does without a middle, and how to run it."""

    def by_recipe(name: str) -> Callable[[Trial], Outcome]:
        return lambda trial: _run(trial, graph, _setting(RECIPES[name], trial, graph, epsilon, delta), delta)

    def stopped_early(trial: Trial) -> Outcome:
        # The noise and the penalty of recycled ADMM, without its even steps: half the messages.
        recipe = replace(RECIPES["dvp"], solves=RECIPES["r-admm"].solves, reach=RECIPES["r-admm"].reach)
        return _run(trial, graph, _setting(recipe, trial, graph, epsilon, delta), delta)

    def alone(trial: Trial) -> Outcome:
        setting = _setting(RECIPES["one-shot"], trial, graph, epsilon, delta)
        silent = replace(setting.algorithm, mixing=0.0)  # type: ignore[type-var]
        outcome = _run(trial, graph, Setting(silent, 1, setting.loss, setting.l2), delta)
        return outcome._replace(rounds=0, messages=0)

    def central(trial: Trial) -> Outcome:
        X, y = _stacked(trial)
        middle = Trial([(X, y)], trial.test, trial.seed)
        one = Graph.ring(1)
        setting = _setting(RECIPES["gradient-descent"], middle, one, epsilon, delta)
        return _run(middle, one, setting, delta)

    def pooled(trial: Trial) -> Outcome:
        problem = Problem(trial.parts, loss=Logistic(), scale=_scales(trial), l2=3e-5, tolerance=1e-6)
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
    progress: Callable[[str], None] | None = None,
) -> Iterator[Contender]:
    """Runs every method in every trial; a method that cannot keep the budget is left out."""
    for name, (title, decentralised, run) in contenders(graph, epsilon, delta).items():
        if progress is not None:
            progress(name)
        try:
            outcomes = [run(trial) for trial in trials]
        except InputError as impossible:
            if "budget" not in str(impossible) and "no positive parameter" not in str(impossible):
                raise
            continue
        yield Contender(
            name, title,
            errors=[_error(o.models, trial.test) for o, trial in zip(outcomes, trials, strict=True)],
            losses=[_loss(o.models, trial) for o, trial in zip(outcomes, trials, strict=True)],
            epsilon=max(o.epsilon for o in outcomes), delta=delta, decentralised=decentralised,
            rounds=outcomes[0].rounds, messages=outcomes[0].messages,
        )  # fmt: skip


def recommended(results: list[Contender]) -> Contender:
    """Of the private methods without a middle that are as good as the best, the one with the fewest messages."""
    candidates = [c for c in results if c.private and c.decentralised]
    if not candidates:
        raise InputError("no method can keep this budget on this many records")
    best = min(c.error for c in candidates)
    return min((c for c in candidates if c.error <= best + _AS_GOOD_AS), key=lambda c: (c.messages, c.error))


def _setting(recipe: Any, trial: Trial, graph: Graph, epsilon: float, delta: float) -> Setting:
    sizes = [len(y) for _, y in trial.parts]
    return recipe.setting(sizes, trial.parts[0][0].shape[1], graph, epsilon, delta)


def _run(trial: Trial, graph: Graph, setting: Setting, delta: float) -> Outcome:
    problem = Problem(trial.parts, loss=setting.loss, scale=_scales(trial), l2=setting.l2, tolerance=1e-7)
    noise = SeededNoise(trial.seed)
    run = simulate(setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise)
    spent = plan(setting.algorithm, Facts.of(problem), graph, setting.rounds).epsilon(delta)
    silent = isinstance(setting.algorithm, OneShotAveraging) and setting.algorithm.mixing == 0
    models = run.estimate / problem.scale[:, None] if silent else run.model[None]
    return Outcome(models, spent, setting.rounds, int(run.history["messages"][-1]))


def _scales(trial: Trial) -> np.ndarray:
    sizes = np.array([len(y) for _, y in trial.parts])
    return sizes / sizes.mean()


def _stacked(trial: Trial) -> tuple[Any, np.ndarray]:
    import scipy.sparse

    rows = [X for X, _ in trial.parts]
    stacked = scipy.sparse.vstack(rows, format="csr") if scipy.sparse.issparse(rows[0]) else np.vstack(rows)
    return stacked, np.concatenate([y for _, y in trial.parts])


def _error(models: np.ndarray, test: Dataset) -> float:
    assert test.y is not None
    return float(np.mean([np.mean((np.asarray(test.X @ f) > 0) != (test.y > 0)) for f in models]))


def _loss(models: np.ndarray, trial: Trial) -> float:
    X, y = _stacked(trial)
    return float(np.mean([np.mean(YARDSTICK.value(np.asarray(X @ f), y)) for f in models]))
