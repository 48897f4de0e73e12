"""Fit one model for several organisations, and say what it was worth: against pooling, and against staying alone."""

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

_FAR = 2.0**12  # of a member that lies where exact values have no bound


@dataclass(frozen=True)
class Line:
    """One line of the comparison."""

    who: str
    rows: int  # how many training rows it learned from
    loss: float  # average loss over the training rows of all organisations
    error: float | None  # on the held-out rows of all organisations


@dataclass(frozen=True)
class Trained:
    """A model trained together, and what else could have been had."""

    model: Model
    run: Run
    rounds: int  # in which everybody spoke once
    together: Line
    pooled: Line  # the optimum that only somebody with everybody's data could compute
    alone: list[Line]  # each organisation on its own rows


@dataclass(frozen=True)
class PrivatelyTrained:
    """A model trained together under a total budget."""

    model: Model
    rounds: int  # in which everybody spoke once
    messages: int
    private: bool
    epsilon: float  # what the agent that spends most has spent
    delta: float
    error: float | None  # on the held-out rows


def hold_out(parts: Sequence[np.ndarray], share: float, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Each organisation keeps `share` of its rows for testing, and at least one for training.

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
    """Fits one model to the rows that each organisation holds, every row counting alike.

    A round is as many ticks as let everybody speak once. `prepared` is called once the optimum for comparison is there
    (which compiles the solver on first use). `robust` is how members listen, `hostile` who of them lies: the model is
    then that of the honest ones, on average.
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
        algorithm, poisoned, graph, rounds=rounds * every, tolerance=tolerance, measure_every=every, robust=robust,
        exchange=hostile, progress=progress,
    )  # fmt: skip
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    statement = "private" if run.private else "not private: exact values were exchanged between the agents"
    pooled_problem = problem.pooled()

    def line(who: str, rows: int, f: np.ndarray) -> Line:
        error = None if test is None else Model(f, schema, type(loss).__name__).error(test)
        return Line(who, rows, float(pooled_problem.average_loss(f)[0]), error)

    # Alone means the same regularisation for each row: scale 1 for everybody.
    alone = Problem(data.parts(parts), loss=loss, l2=l2).argmin(linear=0, weight=0, centre=0) if l2 > 0 else None
    return Trained(
        model=Model(
            weights,
            schema,
            type(loss).__name__,
            training=_how(algorithm, l2, run.rounds // every, run.converged, names, sizes, graph, robust, hostile),
            privacy={"private": run.private, "statement": statement},
        ),
        run=run,
        rounds=run.rounds // every,
        together=line("together, nothing pooled", int(sizes.sum()), weights),
        pooled=line("all data pooled (the optimum)", int(sizes.sum()), optimum),
        alone=[] if alone is None else [line(f"{names[i]} alone", int(sizes[i]), alone[i]) for i in range(len(names))],
    )


def ticks_a_round(algorithm: Algorithm, graph: Graph) -> int:
    """How many ticks make a round: one where all speak at once, and one for each agent where a token goes about."""
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
    """Fits one model so that no agent's records give away more than (epsilon, delta) over the whole run.

    All settings follow from the numbers of rows, the graph and the budget. `prepared` is called with the number of
    ticks once they are settled. Nothing but the model, what the agents exchange, and public facts is kept: no loss, no
    comparison with an optimum. `error` alone looks at records, those held out; who publishes it tells about them.
    `sites` says that a column of the records decided which agent holds which; then the guarantee is within a site.
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
        setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise, robust=robust, exchange=hostile,
        progress=progress,
    )  # fmt: skip
    weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
    spent = max(total.best for total in per_agent_totals(run.spent, delta))
    guarantee = (
        f"({rounded_up(spent):g}, {delta:g})-differentially private for every record, one record replaced by another"
        f"{_within(schema) if sites else ''}"
    )
    rounds = run.rounds // ticks_a_round(setting.algorithm, graph)
    statement = guarantee if run.private else f"not private: the noise was seeded; with fresh noise it is {guarantee}"
    model = Model(
        weights, schema, type(facts.loss).__name__,
        training=_how(setting.algorithm, facts.l2, rounds, run.converged, names, sizes, graph, robust, hostile)
        | {"radius": facts.radius},
        privacy={"private": run.private, "statement": statement, "epsilon": spent, "delta": delta},
    )  # fmt: skip
    error = None if test is None else model.error(test)
    return PrivatelyTrained(
        model, rounds, int(run.history["messages"][-1]), run.private, spent, delta, error
    )  # fmt: skip


def _within(schema: Schema) -> str:
    """What else is public, and so left out of the guarantee, where a column says which site holds a record."""
    if schema.sites is not None:
        return " of the same site; the number of rows of each site is public"
    return (
        " of the same site; the names of the sites, which were read from the records, and their numbers of rows are "
        "public"
    )


def _how(
    algorithm: Algorithm, l2: float, rounds: int, converged: bool, names: Sequence[str], sizes: np.ndarray,
    graph: Graph, robust: str | None, hostile: Hostile | None,
) -> dict[str, Any]:  # fmt: skip
    """How a model came about, for its file."""
    return {
        **({} if robust is None else {"robust": robust}),
        **({} if hostile is None else {"simulated attack": str(hostile)}),
        "algorithm": type(algorithm).__name__,
        "parameters": asdict(algorithm),
        "l2": l2,
        "rounds": rounds,
        "converged": converged,
        "agents": [{"name": name, "rows": int(n)} for name, n in zip(names, sizes, strict=True)],
        "edges": [list(edge) for edge in graph.edges],
    }


def one_sided(data: Dataset, parts: Sequence[np.ndarray], names: Sequence[str], schema: Schema) -> list[str]:
    """The organisations whose rows are all of one class: allowed, but worth a warning."""
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
