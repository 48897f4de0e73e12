"""Fit one model for several organisations, and compare it with pooling the data and with each organisation alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.algorithms import Averaged
from tacit.composite import Term
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.core.problem import Problem
from tacit.data import Classes, Dataset, Label, Schema, Target
from tacit.engines import Ray
from tacit.errors import InputError, whole
from tacit.privacy.coalitions import Guarantee, guarantee
from tacit.privacy.ledger import About, Ledger
from tacit.privacy.noise import Noise, SecureNoise
from tacit.privacy.plan import plan
from tacit.simulation.run import Run
from tacit.simulation.simulate import simulate
from tacit.workflows.metrics import Metrics, as_plain
from tacit.workflows.model import Model
from tacit.workflows.recipes import Recipe, Reserve, Setting
from tacit.workflows.share import noisy_share, share_event
from tacit.workflows.spending import paid, require_as_planned, worst

if TYPE_CHECKING:
    from tacit.attacks.poisoning import Hostile

_FAR = 2.0**12  # how far from zero a lying member goes if exact values have no bound


@dataclass(frozen=True)
class Evaluation:
    """How good one model is."""

    who: str
    rows: int  # how many training rows it learned from
    loss: float  # average loss over the training rows of all organisations
    measured: Metrics | None  # on the held-out rows of all organisations

    @property
    def error(self) -> float | None:
        """The share of wrong labels, or for numbers the root mean square error."""
        return None if self.measured is None else self.measured.miss


@dataclass(frozen=True)
class Trained:
    """A model trained together, and the alternatives to compare it with."""

    model: Model
    run: Run
    rounds: int  # in each of them every agent speaks once
    together: Evaluation
    pooled: Evaluation  # the optimum on all data, which needs all data in one place
    alone: list[Evaluation]  # each organisation on its own rows


@dataclass(frozen=True)
class PrivatelyTrained:
    """A model trained together under a total budget."""

    model: Model
    rounds: int  # in each of them every agent speaks once
    messages: int
    bytes: int  # of all messages
    private: bool
    guarantee: Guarantee  # of the agent that spends most
    measured: Metrics | None  # on the held-out rows
    positive_share: float | None = None  # if a noisy count measured it

    @property
    def epsilon(self) -> float:
        """What the agent that spends most has spent."""
        return self.guarantee.epsilon

    @property
    def delta(self) -> float:
        """At which epsilon is stated."""
        return self.guarantee.delta

    @property
    def error(self) -> float | None:
        """The share of wrong labels, or for numbers the root mean square error."""
        return None if self.measured is None else self.measured.miss


def hold_out(parts: Sequence[np.ndarray], share: float, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Each organisation sets `share` of its rows aside for testing and keeps at least one row for training.

    >>> kept, held = hold_out([np.arange(10), np.arange(10, 12)], share=0.25)
    >>> [len(k) for k in kept], len(held)
    ([8, 2], 2)
    """
    if not 0 <= share < 1:
        raise InputError(f"the share of rows held out must be at least 0 and below 1, not {share}")
    rng = np.random.default_rng(seed)
    kept, held = [], []
    for rows in parts:
        shuffled = rng.permutation(rows)
        n = min(int(share * len(rows)), len(rows) - 1)
        held.append(shuffled[:n])
        kept.append(np.sort(shuffled[n:]))
    return kept, np.sort(np.concatenate(held))


def train(
    algorithm: Algorithm,
    data: Dataset,
    schema: Schema,
    parts: Sequence[np.ndarray],
    graph: Graph,
    *,
    loss: Loss,
    l2: float,
    rounds: int,
    tolerance: float | None = None,
    names: Sequence[str] | None = None,
    test: Dataset | None = None,
    robust: str | None = None,
    hostile: Hostile | None = None,
    noise: Noise | None = None,
    engine: Ray | None = None,
    progress: Callable[[int], None] | None = None,
    prepared: Callable[[], None] | None = None,
) -> Trained:
    """Fits one model to the rows that each organisation holds. Every row has the same weight.

    algorithm, loss, l2 : the method, and the objective of each agent
    data, schema, parts, names : the records, and which rows belong to which organisation
    graph : who talks to whom
    rounds, tolerance : stop after so many rounds, or when all residuals are below the tolerance
    test : held-out records, to measure errors
    robust, hostile : how members listen, and which of them lie; with liars the model is the honest members' mean
    noise : for a method in which agents draw random numbers
    engine : where the agents are, if not in this process
    progress : called after each tick, with the number of ticks done
    prepared : called when the pooled optimum is computed; that compiles the solver on first use
    """
    whole("rounds", rounds, 1)
    names = [f"agent {i}" for i in range(len(parts))] if names is None else list(names)
    sizes = np.array([len(rows) for rows in parts])
    problem = Problem(data.parts(parts), loss=loss, scale=sizes / sizes.mean(), l2=l2)
    optimum = problem.optimum()
    if prepared is not None:
        prepared()
    every = ticks_a_round(algorithm, graph)
    poisoned = problem
    if hostile is not None:
        hostile = hostile.against(algorithm.schedule(graph), _FAR, robust)
        poisoned = Problem(hostile.parts(data.parts(parts)), loss=loss, scale=sizes / sizes.mean(), l2=l2)
    run = simulate(
        algorithm,
        poisoned,
        graph,
        rounds=rounds * every,
        tolerance=tolerance,
        measure_every=every,
        noise=noise,
        robust=robust,
        exchange=hostile,
        engine=engine,
        progress=progress,
    )
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    statement = "private" if run.private else "not private: exact values were exchanged between the agents"
    pooled_problem = problem.pooled()

    def evaluated(who: str, rows: int, f: np.ndarray) -> Evaluation:
        measured = None if test is None else Model(f, schema, loss).measured(test)
        return Evaluation(who, rows, float(pooled_problem.average_loss(f)[0]), measured)

    # An organisation alone has the same regularisation for each row: scale 1.
    alone = Problem(data.parts(parts), loss=loss, l2=l2).argmin(linear=0, weight=0, centre=0) if l2 > 0 else None
    rows, done = int(sizes.sum()), run.rounds // every
    trained = how(algorithm, l2, done, agents=list(zip(names, sizes, strict=True)), graph=graph) | {
        "converged": run.converged
    }
    privacy = {"private": run.private, "statement": statement}
    return Trained(
        model=Model(weights, schema, loss, _listening(robust, hostile) | trained, privacy),
        run=run,
        rounds=done,
        together=evaluated("together, nothing pooled", rows, weights),
        pooled=evaluated("all data pooled (the optimum)", rows, optimum),
        alone=[] if alone is None else [evaluated(f"{names[i]} alone", int(n), alone[i]) for i, n in enumerate(sizes)],
    )


def ticks_a_round(algorithm: Algorithm, graph: Graph) -> int:
    """How many ticks make a round: one if all agents speak at once; one for each agent if they hand on a token."""
    return -(-graph.agents // len(algorithm.schedule(graph).turn(1).speakers))


def rounds_of(setting: Setting, graph: Graph) -> int:
    """How many rounds the setting has: in each of them every agent speaks once."""
    algorithm = setting.algorithm
    if isinstance(algorithm, Averaged):
        noisy = algorithm.ticks // ticks_a_round(algorithm.method, graph)
        return noisy + setting.rounds - algorithm.ticks
    return setting.rounds // ticks_a_round(algorithm, graph)


def train_privately(
    recipe: Recipe,
    data: Dataset,
    schema: Schema,
    parts: Sequence[np.ndarray],
    graph: Graph,
    *,
    epsilon: float,
    delta: float,
    reserve: Reserve | None = None,
    noise: Noise | None = None,
    names: Sequence[str] | None = None,
    test: Dataset | None = None,
    sites: bool = False,
    count_positives: bool = False,
    robust: str | None = None,
    hostile: Hostile | None = None,
    engine: Ray | None = None,
    ledger: Ledger | None = None,
    about: About | None = None,
    prepared: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> PrivatelyTrained:
    """Fits one model so that the whole run is (epsilon, delta)-private for every record of every agent.

    All settings follow from the numbers of rows, the graph and the budget. The result holds no loss and no comparison
    with an optimum. What is `measured` is not private: it is about the held-out records.

    recipe : the method
    data, schema, parts, names : the records, and which rows belong to which agent
    graph : who talks to whom
    epsilon, delta : the total budget
    reserve : how many members may collude or be away, for a recipe in which the members share the noise
    noise : where the noise comes from; `SecureNoise` by default
    test : held-out records, to measure the error
    sites : whether a column of the records decides which agent holds a record; then the guarantee is within a site
    count_positives : measure the share of positives with noise, for a part of the budget; a schema can say it instead
    robust, hostile : how members listen, and which of them lie
    engine : where the agents are, if not in this process
    ledger, about : what pays for the run before any noise is drawn, and what it says about the run
    prepared : called with the number of ticks when the settings are known
    progress : called after each tick, with the number of ticks done
    """
    if count_positives and not isinstance(schema.label, Classes):
        raise InputError("a share of positives is for a label of two classes")
    if count_positives and not (robust is None and hostile is None):
        raise InputError(
            "a noisy count of positives is a plain average, which every member that lies can move: give their share "
            "as a number, or leave out robust and hostile"
        )
    if recipe.shared and not (robust is None and hostile is None):
        raise InputError(
            "robust listening and liars are about single rows; members that share their noise see sums alone: leave "
            "out robust and hostile"
        )
    names = [f"agent {i}" for i in range(len(parts))] if names is None else list(names)
    sizes = np.array([len(rows) for rows in parts])
    noise = SecureNoise() if noise is None else noise
    rows: list[tuple[Any, Any]] = list(data.parts(parts))
    before = (share_event(epsilon, delta),) if count_positives else ()

    def setting_for(label: Label) -> Setting:
        return recipe.for_label(label).setting(
            sizes,
            schema.model_dimension,
            graph,
            epsilon,
            delta,
            before=before,
            averaged=robust is None,
            reserve=reserve,
        )

    setting, count = setting_for(schema.label), None  # refuses what cannot be kept before a record is counted
    planned = None if ledger is None else plan(setting.algorithm, setting.facts, graph, setting.rounds)
    events = [] if planned is None else [*before, *worst(planned.events)]
    with paid(ledger, about or About("", "train"), events) as keep:
        if count_positives:
            assert isinstance(schema.label, Classes)
            count = noisy_share([y for _, y in rows], graph, epsilon, delta, noise)
            schema = replace(schema, label=replace(schema.label, positive_share=count.share))
            setting = setting_for(schema.label)
        if prepared is not None:
            prepared(setting.rounds)
        facts = setting.facts
        if hostile is not None:
            hostile = hostile.against(setting.algorithm.schedule(graph), facts.radius, robust)
            rows = hostile.parts(rows)
        problem = Problem(rows, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
        run = simulate(
            setting.algorithm,
            problem,
            graph,
            rounds=setting.rounds,
            measure_every=setting.rounds,  # what is measured on the way is not protected, and not used
            noise=noise,
            robust=robust,
            exchange=hostile,
            engine=engine,
            progress=progress,
        )
        if planned is not None:
            require_as_planned(run.spent, planned.spent)
        keep(json.dumps({"weights": run.model.tolist(), "offset": np.asarray(facts.loss.offset).tolist()}).encode())
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    found = guarantee(
        [each + Counter(before) for each in run.spent],
        delta,
        members=graph.agents,
        connectivity=graph.connectivity if recipe.shared else None,
    )
    claim = (
        f"{found}-differentially private for every record, one record replaced by another"
        f"{_within(schema) if sites else ''}{', ' + found.against if graph.agents > 1 else ''}"
    )
    rounds = rounds_of(setting, graph)
    statement = claim if run.private else f"not private: the noise was seeded; with fresh noise it is {claim}"
    trained = how(setting.algorithm, facts.l2, rounds, agents=list(zip(names, sizes, strict=True)), graph=graph)
    training = _listening(robust, hostile) | trained | {"radius": facts.radius}
    if count is not None:
        training["positive_share"] = "measured by a noisy count, which is part of epsilon"
    privacy = {"private": run.private, "statement": statement, "epsilon": found.epsilon, "delta": delta}
    privacy |= found.as_plain()
    model = Model(weights, schema, facts.loss, training, privacy)
    return PrivatelyTrained(
        model=model,
        rounds=rounds,
        messages=int(run.history["messages"][-1]) + (0 if count is None else count.messages),
        bytes=int(run.history["bytes"][-1]) + (0 if count is None else 8 * count.messages),  # one number each
        private=run.private,
        guarantee=found,
        measured=None if test is None else model.measured(test),
        positive_share=None if count is None else count.share,
    )


def _within(schema: Schema) -> str:
    """What the guarantee leaves out, because it is public, if a column says which site holds a record."""
    if schema.sites is not None:
        return " of the same site (the number of rows of each site is public)"
    return (
        " of the same site (the names of the sites, which were read from the records, and their numbers of rows are "
        "public)"
    )


def _listening(robust: str | None, hostile: Hostile | None) -> dict[str, Any]:
    """How members listened and who lied, for the model file."""
    listened = {"robust": robust, "simulated attack": None if hostile is None else str(hostile)}
    return {name: text for name, text in listened.items() if text is not None}


def how(
    algorithm: Algorithm, l2: float, rounds: int, *, agents: Sequence[tuple[str, int]], graph: Graph
) -> dict[str, Any]:
    """How a model was trained, for the model file.

    algorithm, l2, rounds : the method, the regularisation of each agent, and how many rounds it took
    agents, graph : the name of each agent and its number of rows, and who talked to whom
    """
    averaging = isinstance(algorithm, Averaged)
    method = algorithm.method if isinstance(algorithm, Averaged) else algorithm
    return {
        "algorithm": type(method).__name__,
        "parameters": _parameters(method),
        "averaged at the end": averaging,
        "l2": l2,
        "rounds": rounds,
        "agents": [{"name": name, "rows": int(rows)} for name, rows in agents],
        "edges": [list(edge) for edge in graph.edges],
    }


def _parameters(value: Any) -> Any:
    """All parameters, as JSON has them; of a composite term what it is, and a digest of its matrix."""
    if isinstance(value, Term):
        return {"g": type(value.g).__name__} | _parameters(value.g) | {"rows": value.rows, "digest": value.digest}
    if is_dataclass(value):
        return {field.name: _parameters(getattr(value, field.name)) for field in fields(value)}
    return value


def one_sided(data: Dataset, parts: Sequence[np.ndarray], names: Sequence[str], schema: Schema) -> list[str]:
    """The organisations whose rows are all of one class."""
    if isinstance(schema.label, Target) or data.y is None:
        return []
    return [name for rows, name in zip(parts, names, strict=True) if np.all(data.y[rows] == data.y[rows[0]])]


def as_json(trained: Trained) -> dict[str, Any]:
    """What `tacit train --json` prints."""
    run = trained.run
    return {
        "rounds": trained.rounds,
        "converged": run.converged,
        "private": run.private,
        "consensus_error": float(run.history["consensus_error"][-1]),
        "bytes": int(run.history["bytes"][-1]),
        **as_plain(trained.together.measured),
        "together": _plain(trained.together),
        "pooled": _plain(trained.pooled),
        "alone": [_plain(a) for a in trained.alone],
    }


def _plain(model: Evaluation) -> dict[str, Any]:
    return {"who": model.who, "rows": model.rows, "loss": model.loss} | as_plain(model.measured)
