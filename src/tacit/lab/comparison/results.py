"""What methods have achieved, and which of them to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tacit.errors import InputError
from tacit.run.metrics import Metrics, Numbers, Objective, TwoClasses
from tacit.run.recipes import RECIPES
from tacit.run.trust import Reserve

_AS_GOOD_AS = 0.002  # two errors closer than this count as equal: the method with fewer messages is recommended
_AS_GOOD_AS_RMSE = 0.01  # of the constant's: the same for numbers
_AS_GOOD_AS_AUC = 0.005


class Achieved(NamedTuple):
    """What one method achieves in one run."""

    measured: Sequence[Metrics | Objective]  # of each model, on the test rows; or of an objective
    loss: float
    epsilon: float = np.inf
    rounds: int = 0
    messages: int = 0


@dataclass(frozen=True)
class MethodResult:
    """What one method achieves, over all trials."""

    name: str
    title: str
    achieved: Sequence[Achieved]  # in each trial
    delta: float
    members: int
    decentralised: bool = True
    reserve: Reserve | None = None  # whose noise cannot be counted on, if the members share it

    @property
    def measured(self) -> list[Sequence[Metrics | Objective]]:
        """For each trial what was measured of each model."""
        return [one.measured for one in self.achieved]

    @property
    def losses(self) -> list[float]:
        """For each trial the loss of the training rows, by one loss for all methods."""
        return [one.loss for one in self.achieved]

    @property
    def epsilon(self) -> float:
        """The most that an agent spends, at delta; infinite without privacy."""
        return max(one.epsilon for one in self.achieved)

    @property
    def rounds(self) -> int:
        """How many rounds one run had."""
        return self.achieved[0].rounds

    @property
    def messages(self) -> int:
        """How many messages were sent in one run."""
        return self.achieved[0].messages

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
        return isinstance(self.measured[0][0], TwoClasses)

    @property
    def error_name(self) -> str:
        """The name of what `error` measures."""
        return {Numbers: "RMSE", Objective: "gap"}.get(type(self.measured[0][0]), "error")

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
