"""Fit one model for several organisations, and compare it with pooling the data and with each organisation alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.algorithms.averaged import Averaged
from tacit.core.problem import Problem
from tacit.data import Classes, Dataset, Schema, Target
from tacit.errors import InputError
from tacit.privacy.coalitions import Guarantee
from tacit.privacy.noise import Noise, SecureNoise
from tacit.run.budget import USUAL_DELTA
from tacit.run.metrics import Metrics, as_plain
from tacit.run.model import Model
from tacit.run.parts import name_of
from tacit.run.setting import Setting
from tacit.simulation.result import Run

if TYPE_CHECKING:
    from tacit.engines import Ray
    from tacit.privacy.ledger import About, Ledger
    from tacit.simulation.hostile import Hostile


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
    setting: Setting,
    data: Dataset,
    schema: Schema,
    parts: Sequence[np.ndarray],
    *,
    names: Sequence[str] | None = None,
    test: Dataset | None = None,
    hostile: Hostile | None = None,
    noise: Noise | None = None,
    engine: Ray | None = None,
    progress: Callable[[int], None] | None = None,
    prepared: Callable[[], None] | None = None,
) -> Trained:
    """Fits one model to the rows that each organisation holds, without a budget, and compares it with others.

    setting : the run
    data, schema, parts, names : the records, and which rows belong to which organisation
    test : held-out records, to measure errors
    hostile : members that lie; the model is then the honest members' mean
    noise : for a method in which agents draw random numbers
    engine : where the agents are, if not in this process
    progress : called after each tick, with the number of ticks done
    prepared : called when the pooled optimum is computed; that compiles the solver on first use
    """
    names = [f"agent {i}" for i in range(len(parts))] if names is None else list(names)
    loss, l2, sizes = setting.facts.loss, setting.facts.l2, setting.facts.sizes
    problem = setting.problem(data.parts(parts))
    optimum = problem.optimum()
    if prepared is not None:
        prepared()
    done = setting.simulate(data.parts(parts), noise, hostile=hostile, engine=engine, progress=progress)
    run, rounds = done.run, done.run.rounds // setting.ticks_a_round
    pooled_problem = problem.pooled()

    def evaluated(who: str, rows: int, f: np.ndarray) -> Evaluation:
        measured = None if test is None else Model(f, schema, loss).measured(test)
        return Evaluation(who, rows, float(pooled_problem.average_loss(f)[0]), measured)

    # An organisation alone has the same regularisation for each row: scale 1.
    alone = Problem(data.parts(parts), loss=loss, l2=l2).argmin(linear=0, weight=0, centre=0) if l2 > 0 else None
    rows = int(sizes.sum())
    training = how(setting, rounds, names, hostile) | {"converged": run.converged}
    spent = None if run.seeded else setting.guarantee(USUAL_DELTA, run.spent)
    privacy = {"private": False, "statement": without_budget(spent)}
    return Trained(
        model=Model(done.weights, schema, loss, training, privacy),
        run=run,
        rounds=rounds,
        together=evaluated("together, nothing pooled", rows, done.weights),
        pooled=evaluated("all data pooled (the optimum)", rows, optimum),
        alone=[] if alone is None else [evaluated(f"{names[i]} alone", int(n), alone[i]) for i, n in enumerate(sizes)],
    )


def without_budget(spent: Guarantee | None) -> str:
    """What a run without a budget says about privacy. Its method may add noise: then it says what a record costs,
    unless the noise was seeded (None). Nobody has checked that its schema is public."""
    if spent is None:
        return "not private: no budget was agreed on, and whatever noise there was is seeded"
    if math.isinf(spent.epsilon):
        return "not private: exact values were exchanged between the agents"
    return (
        f"not private: no budget was agreed on; with its noise the run was {spent}-differentially private, if its "
        "schema and all its settings were public"
    )


def train_privately(
    setting: Setting,
    data: Dataset,
    schema: Schema,
    parts: Sequence[np.ndarray],
    *,
    noise: Noise | None = None,
    names: Sequence[str] | None = None,
    test: Dataset | None = None,
    sites: bool = False,
    hostile: Hostile | None = None,
    engine: Ray | None = None,
    ledger: Ledger | None = None,
    about: About | None = None,
    prepared: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> PrivatelyTrained:
    """Fits one model so that the whole run is private for every record of every agent, within its budget.

    The result holds no loss and no comparison with an optimum. What is `measured` is not private: it is about the
    held-out records.

    setting : the run
    data, schema, parts, names : the records, and which rows belong to which agent
    noise : where the noise comes from; `SecureNoise` by default
    test : held-out records, to measure the error
    sites : whether a column of the records decides which agent holds a record; then the guarantee is within a site
    hostile : members that lie
    engine : where the agents are, if not in this process
    ledger, about : what pays for the run before any noise is drawn, and what it says about the run
    prepared : called with the number of ticks when the settings are known
    progress : called after each tick, with the number of ticks done
    """
    spec = setting.spec
    if spec.budget is None:
        raise InputError("a private run needs a budget")
    if hostile is not None and (spec.count or spec.trust.reserve is not None):
        raise InputError("members that lie send rows: there is no noisy count with them, and no shared noise")
    names = [f"agent {i}" for i in range(len(parts))] if names is None else list(names)
    noise = SecureNoise() if noise is None else noise
    with setting.pay(ledger, about) as keep:
        done = setting.simulate(
            data.parts(parts), noise, hostile=hostile, engine=engine, prepared=prepared, progress=progress
        )
        keep(done.leaves)
    run, count, graph = done.run, done.count, setting.graph
    if count is not None:
        assert isinstance(schema.label, Classes)
        schema = replace(schema, label=replace(schema.label, positive_share=count.share))
    found = setting.guarantee(spec.budget.delta, run.spent)
    claim = (
        f"{found}-differentially private for every record, one record replaced by another"
        f"{_within(schema) if sites else ''}{', ' + found.against if graph.agents > 1 else ''}"
    )
    statement = claim if run.private else f"not private: the noise was seeded; with fresh noise it is {claim}"
    training = how(done.setting, done.setting.full_rounds, names, hostile) | {"radius": done.setting.facts.radius}
    training |= _described(setting)  # as it was agreed on, and as its digest names it: before the count
    if count is not None:
        training["positive_share"] = "measured by a noisy count, which is part of epsilon"
    privacy = {"private": run.private, "statement": statement, "epsilon": found.epsilon, "delta": found.delta}
    if spec.budget.reason:
        privacy["delta was allowed because"] = spec.budget.reason
    privacy |= found.as_plain()
    model = Model(done.weights, schema, done.setting.facts.loss, training, privacy)
    return PrivatelyTrained(
        model=model,
        rounds=done.setting.full_rounds,
        messages=done.messages,
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


def how(setting: Setting, rounds: int, names: Sequence[str], hostile: object | None = None) -> dict[str, Any]:
    """How a model was trained, for the model file.

    setting, rounds : the run, and how many rounds it took
    names : of the agents
    hostile : members that lied
    """
    algorithm, robust = setting.algorithm, setting.spec.trust.robust
    averaging = isinstance(algorithm, Averaged)
    method = algorithm.method if isinstance(algorithm, Averaged) else algorithm
    listened = {"robust": robust, "simulated attack": None if hostile is None else str(hostile)}
    return {
        **{name: text for name, text in listened.items() if text is not None},
        "algorithm": type(method).__name__,
        "parameters": _parameters(method),
        "averaged at the end": averaging,
        "l2": setting.facts.l2,
        "rounds": rounds,
        "agents": [{"name": name, "rows": int(n)} for name, n in zip(names, setting.facts.sizes, strict=True)],
        "edges": [list(edge) for edge in setting.graph.edges],
        **_described(setting),
    }


def _described(setting: Setting) -> dict[str, Any]:
    """The spec, and its digest; nothing for a method of one's own, which no file can say."""
    try:
        return setting.spec.described
    except InputError:
        return {}


def _parameters(value: Any) -> Any:
    """All parameters, as JSON has them; of a composite term what it is, and a digest of its matrix."""
    if name_of(value) == "term":
        return {"g": type(value.g).__name__} | _parameters(value.g) | {"rows": value.rows, "digest": value.digest}
    if is_dataclass(value):
        return {field.name: _parameters(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return str(value)  # JSON knows no infinity
    return [_parameters(each) for each in value] if isinstance(value, tuple | list) else value


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
        "private": trained.model.privacy["private"],  # a budget is what a run is private by: noise alone claims nothing
        "consensus_error": float(run.history["consensus_error"][-1]),
        "bytes": int(run.history["bytes"][-1]),
        **as_plain(trained.together.measured),
        "together": _plain(trained.together),
        "pooled": _plain(trained.pooled),
        "alone": [_plain(a) for a in trained.alone],
    }


def _plain(model: Evaluation) -> dict[str, Any]:
    return {"who": model.who, "rows": model.rows, "loss": model.loss} | as_plain(model.measured)
