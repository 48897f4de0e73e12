"""Some methods at several budgets and with several seeds, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tacit.core.graph import Graph
from tacit.data import Dataset, Schema, Target, partition
from tacit.engines import Workers
from tacit.engines.work import Tell
from tacit.errors import InputError, whole
from tacit.lab.comparison.comparison_table import data_frame
from tacit.lab.comparison.lines import ALTERNATIVES, methods
from tacit.lab.comparison.on_records import constant_answer, run_lines
from tacit.lab.comparison.results import MethodResult
from tacit.lab.comparison.trials import Divide, trial
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found: a row for each method, budget and seed. **Nothing in it is private**: errors are exact.

    A row has `method`, `epsilon` and `delta` (the budget), `seed`, `error` on test rows (of numbers the root mean
    square error), `loss` on training rows, `spent` (the largest epsilon of an agent), `rounds`, `messages`, and every
    metric of the label, such as `auc`. Where a method has several models, a metric is their mean.
    """

    rows: list[dict[str, Any]]
    left_out: list[tuple[str, float]]  # methods that cannot keep a budget, or cannot run here: name, epsilon

    def to_frame(self) -> Any:
        """The rows as a data frame of pandas, or of polars where there is no pandas."""
        return data_frame(self.rows)


def sweep(
    names: Sequence[str],
    budgets: Sequence[float],
    seeds: Sequence[int],
    *,
    data: Dataset,
    schema: Schema,
    graph: Graph,
    delta: float = 1e-5,
    divide: Divide | None = None,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> Sweep:
    """Runs methods at every budget, with every seed, as `tacit compare` does at one budget.

    names : the methods, as `tacit compare` calls them, such as "r-admm", "central" or "majority"
    budgets, delta : the total epsilons of every agent, and the delta of all of them
    seeds : each has its own test rows, division of the training rows and noise
    data, schema : the records, and what they are
    graph : who talks to whom
    divide : from training rows and a seed to the rows of each agent; by default they are shared out evenly
    workers : where the runs happen, such as `with tacit.engines.Local(jobs=8).open() as workers`; by default here
    tell : called with what is being done, how much of it is done, and of how much
    """
    agents = graph.agents
    constant = "mean" if isinstance(schema.label, Target) else "majority"
    known = [*methods(graph, Budget(1.0, delta), only=(*RECIPES, *ALTERNATIVES)), constant]
    for name in names:
        if name not in known:
            raise InputError(f"there is no method {name!r} to sweep; there are {', '.join(known)}")
    if not (names and budgets and seeds):
        raise InputError("a sweep needs at least one method, one budget and one seed")
    for epsilon in budgets:
        Budget(epsilon, delta).check(len(data))
    for seed in seeds:
        whole("a seed", seed, 0)
    share_out = divide or (lambda train, seed: partition.equal(len(train), agents, seed))
    trials = [trial(data, schema, share_out, seed) for seed in seeds]
    at = [
        (epsilon, *line) for epsilon in budgets for line in methods(graph, Budget(epsilon, delta), only=names).items()
    ]
    results = run_lines([(name, method) for _, name, method in at], trials, agents, workers, tell)
    measured = {(epsilon, name): result for (epsilon, name, _), result in zip(at, results, strict=True)}
    if constant in names:
        same = constant_answer(trials, agents, delta)
        measured |= {(epsilon, constant): same for epsilon in budgets}
    found = Sweep([], [])
    for epsilon in budgets:
        for name in [name for name in known if name in names]:  # in the order of a comparison
            if (result := measured.get((epsilon, name))) is None:
                found.left_out.append((name, float(epsilon)))
            else:
                found.rows.extend(_rows(result, float(epsilon), seeds))
    return found


def _rows(result: MethodResult, epsilon: float, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for k, (seed, models) in enumerate(zip(seeds, result.measured, strict=True)):
        metrics = {f.name: [getattr(model, f.name) for model in models] for f in fields(models[0])}
        yield {
            "method": result.name,
            "epsilon": epsilon,
            "delta": result.delta,
            "seed": seed,
            "error": result.errors[k],
            "loss": result.losses[k],
            "spent": result.epsilon,
            "rounds": result.rounds,
            "messages": result.messages,
            **{
                name: None if None in values else float(np.mean(values))
                for name, values in metrics.items()
                if name not in ("error", "loss")
            },
        }
