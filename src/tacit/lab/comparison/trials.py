"""Compare private methods at the same total budget with the usual alternatives, on the same records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse

from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Squared
from tacit.core.problem import Problem
from tacit.data import Classes, Dataset, Label, Multiclass, Schema, Target
from tacit.engines import Local, Workers
from tacit.engines.work import Tell
from tacit.errors import GraphError, InputError
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import CannotKeep, per_agent_totals
from tacit.run import metrics
from tacit.run.exact import L2
from tacit.run.label_losses import exact_loss
from tacit.run.limits import Budget
from tacit.run.metrics import Metrics
from tacit.run.model import Model
from tacit.run.recipes import RECIPES, Recipe
from tacit.run.setting import Setting
from tacit.run.trust import LOCAL, Reserve, Trust
from tacit.simulation.hostile import Hostile

REFERENCE_LOSS = HuberHinge(1.0)  # all methods for two classes are measured by this loss, whichever they minimise
Divide = Callable[[Dataset, int], list[np.ndarray]]  # from training rows and a seed to the rows of each agent
_SOLVED = 1e-7  # the gradient norm to which members' own problems are solved
_TEST_SHARE = 5_222 / 45_222  # the papers train on 40,000 rows of Adult
_AS_GOOD_AS = 0.002  # two errors closer than this count as equal: the method with fewer messages is recommended
_AS_GOOD_AS_RMSE = 0.01  # of the constant's: the same for numbers
_AS_GOOD_AS_AUC = 0.005


@dataclass(frozen=True, eq=False)
class Trial:
    """One division of the records: the rows that the agents train on, and the test rows."""

    parts: list[tuple[Any, np.ndarray]]
    test: Dataset
    schema: Schema
    seed: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows each agent has."""
        return tuple(len(y) for _, y in self.parts)

    @cached_property
    def training(self) -> Dataset:
        """All training rows in one place."""
        rows = [X for X, _ in self.parts]
        X = scipy.sparse.vstack(rows, format="csr") if scipy.sparse.issparse(rows[0]) else np.vstack(rows)
        return Dataset(X, self.labels, self.test.names, np.arange(len(self.labels)))

    @cached_property
    def labels(self) -> np.ndarray:
        """The labels of all training rows."""
        return np.concatenate([y for _, y in self.parts])


def trial(data: Dataset, schema: Schema, divide: Divide, seed: int) -> Trial:
    """One division of the records into test rows and the rows of each agent."""
    train, test = data.split(train=len(data) - round(_TEST_SHARE * len(data)), seed=seed)
    return Trial([(X, np.asarray(y)) for X, y in train.parts(divide(train, seed))], test, schema, seed)


@dataclass(frozen=True)
class MethodResult:
    """What one method achieves, over all trials."""

    name: str
    title: str
    # On test rows, or of an objective: for each trial one of each model.
    measured: Sequence[Sequence[Metrics | metrics.Objective]]
    losses: list[float]  # of the training rows, by one loss for all methods
    epsilon: float  # the most that an agent spends, at delta; infinite without privacy
    delta: float
    decentralised: bool
    rounds: int
    messages: int
    members: int
    reserve: Reserve | None = None  # whose noise cannot be counted on, if the members share it

    @property
    def colluders(self) -> int | None:
        """Against how many members together epsilon holds; None where nothing is private, or a centre knows all."""
        if not (self.private and self.decentralised):
            return None
        return self.members - 1 if self.reserve is None else self.reserve.colluders

    @property
    def trusts_nobody(self) -> bool:
        """Whether it protects every member against all others together."""
        return self.colluders == self.members - 1

    @property
    def private(self) -> bool:
        """Whether the method keeps a finite epsilon."""
        return bool(np.isfinite(self.epsilon))

    @cached_property
    def errors(self) -> list[float]:
        """For each trial the mean error of the models, or for numbers their root mean square error."""
        return [float(np.mean([each.miss for each in trial])) for trial in self.measured]

    @property
    def error(self) -> float:
        """The mean error over all trials."""
        return float(np.mean(self.errors))

    @property
    def two_classes(self) -> bool:
        """Whether the label has two classes: then there is a ranking."""
        return isinstance(self.measured[0][0], metrics.TwoClasses)

    @property
    def error_name(self) -> str:
        """The name of what `error` measures."""
        return {metrics.Numbers: "RMSE", metrics.Objective: "gap"}.get(type(self.measured[0][0]), "error")

    @property
    def metrics(self) -> list[str]:
        """The names of what was measured."""
        return [field.name for field in fields(self.measured[0][0])]

    def mean(self, name: str) -> float | None:
        """The mean over models and trials of one of the metrics, such as "auc"; None where it has no value."""
        found = [getattr(each, name) for trial in self.measured for each in trial]
        return None if any(value is None for value in found) else float(np.mean(found))

    @property
    def loss(self) -> float:
        """The mean loss over all trials."""
        return float(np.mean(self.losses))


class Outcome(NamedTuple):
    """What one method achieves in one trial."""

    models: list[Model]  # the error of the method is the mean of their errors
    epsilon: float
    rounds: int
    messages: int


@dataclass(frozen=True)
class Method:
    """One line of a comparison: a recipe at a budget on a graph. It can be sent to another process."""

    title: str
    graph: Graph
    budget: Budget
    recipe: Recipe | None = None  # None: no privacy at all
    trust: Trust = LOCAL
    hostile: str | None = None  # how members lie, and how many: KIND:COUNT
    pooled: bool = False  # all records in one place
    alone: bool = False  # every agent keeps its own model
    several: bool = False  # whether it takes a label of several classes

    @property
    def delta(self) -> float:
        """At which epsilon is stated."""
        return self.budget.delta

    @property
    def reserve(self) -> Reserve | None:
        """Whose noise cannot be counted on, if the members share it."""
        return self.trust.reserve

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting | None:
        """How it runs on so many rows of each agent; None without privacy."""
        if self.recipe is None:
            return None
        recipe = self.recipe.for_label(schema.label)
        found = recipe.setting(sizes, schema.model_dimension, self.graph, self.budget, self.trust)
        if not self.alone:
            return found
        # The first round of one-shot averaging, without the averaging.
        method: Any = found.algorithm
        return replace(found, spec=replace(found.spec, rounds=1, method=replace(method, mixing=0.0)), recipe=None)

    def sizes(self, trial: Trial) -> tuple[int, ...]:
        """How many rows each agent has; the setting depends on the trial by these alone."""
        return (len(trial.labels),) if self.pooled else trial.sizes

    def suits(self, label: Label) -> bool:
        """Whether it takes such a label, and members that listen so."""
        token = self.recipe is not None and self.recipe.traits.token
        return (self.several or not isinstance(label, Multiclass)) and not (self.trust.robust and token)

    def run(self, trial: Trial, setting: Setting | None = None) -> Outcome:
        """One run, with the setting for these sizes."""
        if self.recipe is None:
            sizes, loss = np.array(trial.sizes), exact_loss(None, trial.schema.label)
            problem = Problem(trial.parts, loss=loss, scale=sizes / sizes.mean(), l2=L2, tolerance=1e-6)
            return Outcome([Model(problem.optimum(), trial.schema, loss)], np.inf, 0, 0)
        setting = self.setting(self.sizes(trial), trial.schema) if setting is None else setting
        assert setting is not None
        if self.pooled:
            trial = replace(trial, parts=[(trial.training.X, trial.labels)])
        found = run_setting(trial, setting, apart=self.alone, delta=self.delta, hostile=self.hostile)
        return found._replace(rounds=0, messages=0) if self.alone else found


class Line(Protocol):
    """What `run_methods` needs to know of a method."""

    @property
    def title(self) -> str: ...
    @property
    def delta(self) -> float: ...
    @property
    def pooled(self) -> bool: ...
    @property
    def reserve(self) -> Reserve | None: ...
    def suits(self, label: Label) -> bool: ...
    def sizes(self, trial: Trial) -> tuple[int, ...]: ...
    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting | None: ...
    def run(self, trial: Trial, setting: Setting | None) -> Outcome: ...


# The lines that are always there, besides recipes: the last one is for a label of classes, or for numbers.
ALTERNATIVES = ("early-stopping", "alone", "central", "no-privacy", "majority", "mean")


def lines(members: int, dropouts: int = 0) -> list[Reserve]:
    """The assumptions for which a comparison shows shared noise: one colluder, and the most that are less than half.

    >>> [reserve.colluders for reserve in lines(5)], [reserve.colluders for reserve in lines(50)]
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
) -> dict[str, Method]:
    """Methods by name, and the alternatives to them. `trust` says how members listen, and `hostile` which of them lie;
    `shared` for which reserves to show shared noise, and on which graph; `only` names recipes and alternatives, in
    place of the usual ones."""
    wanted = {name: recipe for name, recipe in RECIPES.items() if (recipe.usual if only is None else name in only)}
    line, one = partial(Method, budget=budget), Graph.ring(1)
    here = partial(line, trust=trust, hostile=hostile)

    def by_recipe(recipe: Recipe) -> Method:
        if recipe.traits.alone:
            return line(f"{recipe.title}, on pooled records", one, recipe=recipe, pooled=True)
        return here(recipe.title, graph, recipe=recipe, several=recipe.traits.multiclass)

    def sharing(recipe: Recipe, reserve: Reserve, talk: Graph) -> Method:
        title = f"{recipe.title}, if at most {reserve.colluders} of {talk.agents} members collude"
        return line(title, talk, recipe=recipe, trust=Trust.of(reserve), several=recipe.traits.multiclass)

    # The noise and the penalty of recycled ADMM, without its even steps: half the messages.
    recycled = RECIPES["r-admm"]
    early = replace(RECIPES["dvp"], name="", solves=recycled.solves, reach=recycled.reach)
    descent = RECIPES["gradient-descent"]
    alternatives = {
        "early-stopping": here("recycled ADMM's noise, plain ADMM, half the messages", graph, recipe=early),
        "alone": line("each organisation by itself, private", graph, recipe=RECIPES["one-shot"], alone=True),
        "central": line("DP gradient descent on pooled records", one, recipe=descent, pooled=True, several=True),
        "no-privacy": line("pooled records, no privacy", one, pooled=True, several=True),
    }
    return {
        **{name: by_recipe(recipe) for name, recipe in wanted.items() if recipe.traits.alone},
        **{
            name: by_recipe(recipe)
            for name, recipe in wanted.items()
            if not (recipe.traits.totals or recipe.traits.alone)
        },
        **{
            f"{name}:{reserve.colluders}": sharing(recipe, reserve, talk)
            for name, recipe in wanted.items()
            if recipe.traits.totals
            for reserve, talk in ({} if shared is None else shared).items()
        },
        **{name: method for name, method in alternatives.items() if only is None or name in only},
    }


def compare(
    trials: list[Trial],
    graph: Graph,
    *,
    budget: Budget,
    trust: Trust = LOCAL,
    hostile: str | None = None,
    shared: Mapping[Reserve, Graph] | None = None,
    only: Collection[str] | None = None,
    more: Mapping[str, Line] | None = None,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> list[MethodResult]:
    """Runs every method in every trial, or `only` those of these names. It leaves out a method that

    - cannot keep the budget,
    - is not proved for several classes, if the label has them,
    - needs a cycle for its token and finds none in the graph,
    - shares its noise on a graph that so many colluders can cut in two,
    - hands a token on, if members listen robustly: a member then has only one message to listen to.

    trials, graph : the divisions of the records, and who talks to whom
    budget : the total of every agent
    trust, hostile : how members listen, and which of them lie
    shared : for which numbers of colluders to show shared noise, and on which graph
    only : the names of recipes and of `ALTERNATIVES`, in place of the usual ones
    more : methods that are no recipes, by name
    workers : where the runs happen; by default in this process
    tell : called with what is being done, how much of it is done, and of how much
    """
    found: dict[str, Line] = {**methods(graph, budget, trust, hostile, shared, only), **(more or {})}
    results = run_methods(list(found.items()), trials, graph.agents, workers, tell)
    constant = constant_answer(trials, graph.agents, budget.delta)
    return [*(r for r in results if r is not None), *([constant] if only is None or constant.name in only else [])]


def run_methods(
    methods: Sequence[tuple[str, Line]],
    trials: list[Trial],
    members: int,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> list[MethodResult | None]:
    """What each method achieves, over all trials; None for a method that cannot run here. First all settings are
    computed, one for each method and division into sizes: runs share them, wherever they happen."""
    schema = trials[0].schema
    able = [k for k, (_, method) in enumerate(methods) if method.suits(schema.label)]
    each = [method for _, method in methods]
    with Local(1).open() if workers is None else nullcontext(workers) as at:
        sizes = list(dict.fromkeys((k, each[k].sizes(trial)) for k in able for trial in trials))
        prepared = at.map(_Prepare(each, schema), sizes, None if tell is None else partial(tell, "settings"))
        settings = dict(zip(sizes, prepared, strict=True))
        failed = {k for (k, _), (able_to_run, _) in settings.items() if not able_to_run}
        todo = [(k, number) for k in able if k not in failed for number in range(len(trials))]
        found = at.map(_RunOne(each, settings, trials), todo, None if tell is None else partial(tell, "runs"))
    achieved: dict[int, list[_Achieved | None]] = {}
    for (k, _), one in zip(todo, found, strict=True):
        achieved.setdefault(k, []).append(one)
    return [_result(*methods[k], achieved.get(k, [None]), members) for k in range(len(methods))]


class _Achieved(NamedTuple):
    """What one method achieves in one trial, measured."""

    measured: list[Metrics]  # of each model, on the test rows
    loss: float
    epsilon: float
    rounds: int
    messages: int


@dataclass(frozen=True)
class _Prepare:
    methods: list[Line]
    schema: Schema

    def __call__(self, what: tuple[int, tuple[int, ...]]) -> tuple[bool, Setting | None]:
        """Whether the method can run, and its setting, if it needs one."""
        k, sizes = what
        try:
            return True, self.methods[k].setting(sizes, self.schema)
        except (CannotKeep, GraphError):
            return False, None


@dataclass(frozen=True)
class _RunOne:
    methods: list[Line]
    settings: dict[tuple[int, tuple[int, ...]], tuple[bool, Setting | None]]
    trials: list[Trial]

    def __call__(self, what: tuple[int, int]) -> _Achieved | None:
        k, number = what
        method, trial = self.methods[k], self.trials[number]
        try:
            _, setting = self.settings[k, method.sizes(trial)]
            found = method.run(trial, setting)
        except (CannotKeep, GraphError):
            return None
        measured = [model.measured(trial.test) for model in found.models]
        return _Achieved(measured, _loss(found.models, trial), found.epsilon, found.rounds, found.messages)


def _result(name: str, method: Line, achieved: list[_Achieved | None], members: int) -> MethodResult | None:
    found = [one for one in achieved if one is not None]
    if len(found) < len(achieved):
        return None
    return MethodResult(
        name=name,
        title=method.title,
        measured=[one.measured for one in found],
        losses=[one.loss for one in found],
        epsilon=max(one.epsilon for one in found),
        delta=method.delta,
        decentralised=not method.pooled,
        rounds=found[0].rounds,
        messages=found[0].messages,
        members=members,
        reserve=method.reserve,
    )


def constant_answer(trials: list[Trial], members: int, delta: float) -> MethodResult:
    """The same answer for every record, the best one for the training rows: "majority", or "mean" of numbers."""
    numbers = isinstance(trials[0].schema.label, Target)
    constant = [_constant(trial) for trial in trials]
    return MethodResult(
        name="mean" if numbers else "majority",
        title="always the mean label" if numbers else "always the most frequent answer",
        measured=[[found] for found, _ in constant],
        losses=[loss for _, loss in constant],
        epsilon=np.inf,
        delta=delta,
        decentralised=False,
        rounds=0,
        messages=0,
        members=members,
    )


def margin(results: list[MethodResult]) -> float:
    """Two errors closer than this count as equal; `results` end with the constant answer."""
    constant = results[-1]
    return _AS_GOOD_AS_RMSE * constant.error if constant.error_name == "RMSE" else _AS_GOOD_AS


def recommended(results: list[MethodResult]) -> MethodResult:
    """Of the private, decentralised methods that are as good as the best, the one with the fewest messages.

    The best has the least error. Where none has a smaller one than the constant answer, which `results` end with, and
    there are two classes, the best ranks records best (AUC). Shared noise is not among them: it is better under an
    assumption, how many members may collude, which nobody should make because of a table.
    """
    candidates = [c for c in results if c.private and c.trusts_nobody and c.name in RECIPES]
    if not candidates:
        raise InputError("no method can keep this budget on so few records: raise epsilon, or bring more records")

    def loss(c: MethodResult) -> float:
        return c.error if auc is None else 1 - auc[c.name]

    auc, close = None, margin(results)
    if min(c.error for c in candidates) >= results[-1].error - close:
        ranks = {c.name: c.mean("auc") for c in candidates if c.two_classes}
        if ranks and None not in ranks.values():
            auc, close = {name: rank or 0.0 for name, rank in ranks.items()}, _AS_GOOD_AS_AUC
    best = min(map(loss, candidates))
    return min((c for c in candidates if loss(c) <= best + close), key=lambda c: (c.messages, loss(c)))


def run_setting(
    trial: Trial,
    setting: Setting,
    *,
    apart: bool = False,
    delta: float,
    hostile: str | None = None,
    members: bool = False,
) -> Outcome:
    """One run of one method.

    trial, setting : what to run
    delta : at which the epsilon that was spent is stated
    apart : give the model of each agent, on the agent's own scale
    hostile : which members lie. With liars or robust listening, the outcome has the model of each honest member
    members : give the model of each honest member in any case
    """
    liars = None if hostile is None else Hostile.parse(hostile, setting.graph.agents, trial.seed)
    run = setting.simulate(trial.parts, SeededNoise(trial.seed), hostile=liars, solved=_SOLVED).run
    spent = max(total.best for total in per_agent_totals(run.spent, delta))
    if members or liars is not None or setting.spec.trust.robust is not None:
        weights = run.estimate if liars is None else run.estimate[liars.honest]
    else:
        weights = run.estimate / setting.facts.scale[:, None] if apart else run.model[None]
    models = [Model(f, trial.schema, setting.facts.loss) for f in weights]
    return Outcome(models, spent, run.rounds, int(run.history["messages"][-1]))


def _constant(trial: Trial) -> tuple[Metrics, float]:
    """How good it is to give every record the same answer, the best one for the training rows; and its loss."""
    label, y, test = trial.schema.label, trial.labels, trial.test
    assert test.y is not None
    same = np.zeros(len(test))
    if isinstance(label, Classes):
        found: Metrics = metrics.two_classes(test.y, same, same + float(np.mean(y > 0)) > 0.5)
        return found, float(np.mean(REFERENCE_LOSS.value(np.zeros(len(y)), y)))
    if isinstance(label, Multiclass):
        shares = (np.bincount(y.astype(int), minlength=label.outputs) + 0.5) / (len(y) + 0.5 * label.outputs)
        found = metrics.several_classes(test.y, same + shares.argmax(), np.tile(shares, (len(test), 1)))
        return found, float(-np.mean(np.log(shares[y.astype(int)])))
    lo, hi = label.bounds
    unit = (hi - lo) / 2
    found = metrics.numbers(lo + unit * (test.y + 1), same + lo + unit * (float(np.mean(y)) + 1))
    return found, float(np.var(y) / 2)


def _loss(models: list[Model], trial: Trial) -> float:
    """The mean loss of the training rows, by one loss for all methods, whichever they minimise."""
    data, y = trial.training, trial.labels
    if isinstance(trial.schema.label, Multiclass):
        return float(np.mean([metrics.log_loss(y, np.asarray(m.probabilities(data))) for m in models]))
    reference = REFERENCE_LOSS if isinstance(trial.schema.label, Classes) else Squared()
    return float(np.mean([np.mean(reference.value(m.scores(data), y)) for m in models]))
