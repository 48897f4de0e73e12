"""Divisions of the records, and one run of a method on one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from tacit.core.losses import HuberHinge, Squared
from tacit.data import Classes, Dataset, Multiclass, Schema
from tacit.lab.comparison.results import Achieved
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import per_agent_totals
from tacit.run import metrics
from tacit.run.metrics import Metrics
from tacit.run.model import Model
from tacit.run.setting import Setting
from tacit.simulation.hostile import Hostile

REFERENCE_LOSS = HuberHinge(1.0)  # all methods for two classes are measured by this loss, whichever they minimise
Divide = Callable[[Dataset, int], list[np.ndarray]]  # from training rows and a seed to the rows of each agent
_SOLVED = 1e-7  # the gradient norm to which members' own problems are solved
_TEST_SHARE = 5_222 / 45_222  # the papers train on 40,000 rows of Adult


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


class Outcome(NamedTuple):
    """What one method achieves in one trial."""

    models: list[Model]  # the error of the method is the mean of their errors
    epsilon: float
    rounds: int
    messages: int

    def measured(self, trial: Trial) -> Achieved:
        """How good the models are."""
        measured = [model.measured(trial.test) for model in self.models]
        return Achieved(measured, _loss(self.models, trial), self.epsilon, self.rounds, self.messages)


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


def same_answer(trial: Trial) -> Achieved:
    """How good it is to give every record the same answer, the best one for the training rows."""
    label, y, test = trial.schema.label, trial.labels, trial.test
    assert test.y is not None
    same = np.zeros(len(test))
    if isinstance(label, Classes):
        found: Metrics = metrics.two_classes(test.y, same, same + float(np.mean(y > 0)) > 0.5)
        return Achieved([found], float(np.mean(REFERENCE_LOSS.value(np.zeros(len(y)), y))))
    if isinstance(label, Multiclass):
        shares = (np.bincount(y.astype(int), minlength=label.outputs) + 0.5) / (len(y) + 0.5 * label.outputs)
        found = metrics.several_classes(test.y, same + shares.argmax(), np.tile(shares, (len(test), 1)))
        return Achieved([found], float(-np.mean(np.log(shares[y.astype(int)]))))
    lo, hi = label.bounds
    unit = (hi - lo) / 2
    found = metrics.numbers(lo + unit * (test.y + 1), same + lo + unit * (float(np.mean(y)) + 1))
    return Achieved([found], float(np.var(y) / 2))


def _loss(models: list[Model], trial: Trial) -> float:
    """The mean loss of the training rows, by one loss for all methods, whichever they minimise."""
    data, y = trial.training, trial.labels
    if isinstance(trial.schema.label, Multiclass):
        return float(np.mean([metrics.log_loss(y, np.asarray(m.probabilities(data))) for m in models]))
    reference = REFERENCE_LOSS if isinstance(trial.schema.label, Classes) else Squared()
    return float(np.mean([np.mean(reference.value(m.scores(data), y)) for m in models]))
