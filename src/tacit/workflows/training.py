"""Fit one model for several organisations, and compare it with pooling the data and with each organisation alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.core.problem import Problem
from tacit.data import Classes, Dataset, Schema
from tacit.errors import InputError, whole
from tacit.privacy.accounting import rounded_up
from tacit.privacy.noise import Noise, SecureNoise
from tacit.privacy.plan import per_agent_totals
from tacit.simulation.run import Run
from tacit.simulation.simulate import simulate
from tacit.workflows.model import Model
from tacit.workflows.recipes import Recipe

if TYPE_CHECKING:
    from tacit.attacks.poisoning import Hostile

_FAR = 2.0**12  # how far from zero a lying member goes if exact values have no bound


@dataclass(frozen=True)
class Evaluation:
    """How good one model is."""

    who: str
    rows: int  # how many training rows it learned from
    loss: float  # average loss over the training rows of all organisations
    error: float | None  # on the held-out rows of all organisations


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
    private: bool
    epsilon: float  # what the agent that spends most has spent
    delta: float
    error: float | None  # on the held-out rows


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
        robust=robust,
        exchange=hostile,
        progress=progress,
    )
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    statement = "private" if run.private else "not private: exact values were exchanged between the agents"
    pooled_problem = problem.pooled()

    def evaluated(who: str, rows: int, f: np.ndarray) -> Evaluation:
        error = None if test is None else Model(f, schema, type(loss).__name__).error(test)
        return Evaluation(who, rows, float(pooled_problem.average_loss(f)[0]), error)

    # An organisation alone has the same regularisation for each row: scale 1.
    alone = Problem(data.parts(parts), loss=loss, l2=l2).argmin(linear=0, weight=0, centre=0) if l2 > 0 else None
    rows, done = int(sizes.sum()), run.rounds // every
    how = _how(algorithm, l2, done, run.converged, _agents(names, sizes), graph)
    privacy = {"private": run.private, "statement": statement}
    return Trained(
        model=Model(weights, schema, type(loss).__name__, _listening(robust, hostile) | how, privacy),
        run=run,
        rounds=done,
        together=evaluated("together, nothing pooled", rows, weights),
        pooled=evaluated("all data pooled (the optimum)", rows, optimum),
        alone=[] if alone is None else [evaluated(f"{names[i]} alone", int(n), alone[i]) for i, n in enumerate(sizes)],
    )


def ticks_a_round(algorithm: Algorithm, graph: Graph) -> int:
    """How many ticks make a round: one if all agents speak at once; one for each agent if they hand on a token."""
    return -(-graph.agents // len(algorithm.schedule(graph).turn(1).speakers))


def train_privately(
    recipe: Recipe,
    data: Dataset,
    schema: Schema,
    parts: Sequence[np.ndarray],
    graph: Graph,
    *,
    epsilon: float,
    delta: float,
    noise: Noise | None = None,
    names: Sequence[str] | None = None,
    test: Dataset | None = None,
    sites: bool = False,
    robust: str | None = None,
    hostile: Hostile | None = None,
    prepared: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> PrivatelyTrained:
    """Fits one model so that the whole run is (epsilon, delta)-private for every record of every agent.

    All settings follow from the numbers of rows, the graph and the budget. The result holds no loss and no comparison
    with an optimum. Its `error` is not private: it is measured on the held-out records.

    recipe : the method
    data, schema, parts, names : the records, and which rows belong to which agent
    graph : who talks to whom
    epsilon, delta : the total budget
    noise : where the noise comes from; `SecureNoise` by default
    test : held-out records, to measure the error
    sites : whether a column of the records decides which agent holds a record; then the guarantee is within a site
    robust, hostile : how members listen, and which of them lie
    prepared : called with the number of ticks when the settings are known
    progress : called after each tick, with the number of ticks done
    """
    names = [f"agent {i}" for i in range(len(parts))] if names is None else list(names)
    sizes = np.array([len(rows) for rows in parts])
    setting = recipe.setting(sizes, schema.dimension, graph, epsilon, delta)
    if prepared is not None:
        prepared(setting.rounds)
    noise = SecureNoise() if noise is None else noise
    facts = setting.facts
    rows: list[tuple[Any, Any]] = list(data.parts(parts))
    if hostile is not None:
        hostile = hostile.against(setting.algorithm.schedule(graph), facts.radius, robust)
        rows = hostile.parts(rows)
    problem = Problem(rows, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
    run = simulate(
        setting.algorithm,
        problem,
        graph,
        rounds=setting.rounds,
        noise=noise,
        robust=robust,
        exchange=hostile,
        progress=progress,
    )
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    spent = max(total.best for total in per_agent_totals(run.spent, delta))
    guarantee = (
        f"({rounded_up(spent):g}, {delta:g})-differentially private for every record, one record replaced by another"
        f"{_within(schema) if sites else ''}"
    )
    rounds = run.rounds // ticks_a_round(setting.algorithm, graph)
    statement = guarantee if run.private else f"not private: the noise was seeded; with fresh noise it is {guarantee}"
    how = _how(setting.algorithm, facts.l2, rounds, run.converged, _agents(names, sizes), graph)
    training = _listening(robust, hostile) | how | {"radius": facts.radius}
    privacy = {"private": run.private, "statement": statement, "epsilon": spent, "delta": delta}
    model = Model(weights, schema, type(facts.loss).__name__, training, privacy)
    error = None if test is None else model.error(test)
    return PrivatelyTrained(model, rounds, int(run.history["messages"][-1]), run.private, spent, delta, error)


def _within(schema: Schema) -> str:
    """What the guarantee leaves out, because it is public, if a column says which site holds a record."""
    if schema.sites is not None:
        return " of the same site; the number of rows of each site is public"
    return (
        " of the same site; the names of the sites, which were read from the records, and their numbers of rows are "
        "public"
    )


def _listening(robust: str | None, hostile: Hostile | None) -> dict[str, Any]:
    """How members listened and who lied, for the model file."""
    listened = {"robust": robust, "simulated attack": None if hostile is None else str(hostile)}
    return {name: text for name, text in listened.items() if text is not None}


def _agents(names: Sequence[str], sizes: np.ndarray) -> list[dict[str, Any]]:
    return [{"name": name, "rows": int(n)} for name, n in zip(names, sizes, strict=True)]


def _how(
    algorithm: Algorithm, l2: float, rounds: int, converged: bool, agents: list[dict[str, Any]], graph: Graph
) -> dict[str, Any]:
    """How a model was trained, for the model file."""
    return {
        "algorithm": type(algorithm).__name__,
        "parameters": asdict(algorithm),
        "l2": l2,
        "rounds": rounds,
        "converged": converged,
        "agents": agents,
        "edges": [list(edge) for edge in graph.edges],
    }


def one_sided(data: Dataset, parts: Sequence[np.ndarray], names: Sequence[str], schema: Schema) -> list[str]:
    """The organisations whose rows are all of one class."""
    if not isinstance(schema.label, Classes) or data.y is None:
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
        "together": asdict(trained.together),
        "pooled": asdict(trained.pooled),
        "alone": [asdict(a) for a in trained.alone],
    }
