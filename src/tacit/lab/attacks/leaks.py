"""All that follows from an agent's gradients, measured against the truth: Hessian, records, who is in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit.core.losses import Logistic, Squared
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.lab.attacks.membership import auc, labels, leverage, moments, second_moment
from tacit.lab.attacks.reconstruction import Reconstructed, of_logistic, of_squared, quadratic, row_errors
from tacit.lab.attacks.stationarity import Gradients

MOST_ROWS = 6  # that are reconstructed from a logistic loss: beyond, the fit takes long and often ends elsewhere


class Attacked(NamedTuple):
    """The agents' records, which the attack is to find, and what is public about them besides their numbers."""

    problem: Problem
    parts: Sequence[tuple[np.ndarray, np.ndarray]]
    signs: bool  # labels are -1 and +1
    positive: int | None  # a column that is positive in every row
    ones: int | None  # a column that is 1 in every row
    others: np.ndarray  # (m, d+1) records that no agent holds, with their labels

    @property
    def logistic(self) -> bool:
        """Whether the loss is the logistic one; else it is the squared one."""
        if self.problem.loss not in (Logistic(), Squared()):
            raise InputError(f"the attacks on records are for Logistic() and Squared(), not {self.problem.loss!r}")
        return self.problem.loss == Logistic()


class Leak(NamedTuple):
    """What was learnt of one agent. All errors are relative to the truth; NaN where nothing is determined."""

    heard: int  # how many of its gradients
    gradients: float
    curvature: float  # of the squared loss: that of X'X
    records: float  # of its worst record, features and label
    labels: float  # by somebody who knows the features: the share of wrong labels, or the error of numbers
    membership: float  # the AUC of members against others
    guessed_records: float  # the same with the mean record in place of each
    guessed_labels: float  # the same with the most frequent label, or the mean
    found: Reconstructed | None


def leak(known: Gradients, attacked: Attacked, agent: int) -> Leak:
    """From the gradients of one agent's objective at some points."""
    problem, (X, y), logistic = attacked.problem.take([agent]), attacked.parts[agent], attacked.logistic
    n, d, heard = len(X), X.shape[1], len(known.points)
    weight = float(problem.row_weight[0, 0])
    mean = attacked.others.mean(axis=0)
    if attacked.signs:
        mean[-1] = 1.0 if mean[-1] >= 0 else -1.0
    guesses = row_errors(np.tile(mean, (n, 1)), np.c_[X, y]).max(), _missed(np.full(n, mean[-1]), y, attacked.signs)
    if not heard:
        return Leak(0, *(math.nan,) * 5, *guesses, None)
    data = known.data(problem.l2)
    true = np.concatenate([problem.gradient(point[None]) for point in known.points])
    found = _records(data, attacked, n, weight)
    curvature = math.nan
    if not logistic and heard > min(n, d):
        curvature = _relative(quadratic(data, n).curvature, weight * X.T @ X)
    told = labels(X, moments(data, X, weight, logistic), attacked.signs)
    membership = math.nan
    if heard > min(n, d) or n == 1 < d:
        moment = second_moment(data, n, weight, logistic)
        membership = auc(leverage(moment, X, n), leverage(moment, attacked.others[:, :-1], n))
    return Leak(
        heard,
        _relative(known.values, true),
        curvature,
        math.nan if found is None else _worst(found, X, y, attacked.positive is None),
        _missed(told, y, attacked.signs),
        membership,
        *guesses,
        found,
    )


def _records(data: Gradients, attacked: Attacked, n: int, weight: float) -> Reconstructed | None:
    """The records, where enough gradients determine them."""
    if len(data.points) <= n:
        if attacked.logistic and n == 1 and not data.points[0].any():  # at zero the gradient is -c/2 y x
            return of_logistic(data, 1, weight, positive=attacked.positive)[0]
        return None
    if not attacked.logistic:
        ones = attacked.positive if n == 1 else attacked.ones  # of one row the sign is enough
        return of_squared(quadratic(data, n), n, weight, ones=ones, signs=attacked.signs)
    return of_logistic(data, n, weight, positive=attacked.positive)[0] if n <= MOST_ROWS else None


def _worst(found: Reconstructed, X: np.ndarray, y: np.ndarray, either: bool) -> float:
    if found.labels is None:
        return float(row_errors(found.rows, y[:, None] * X).max())
    return float(row_errors(np.c_[found.rows, found.labels], np.c_[X, y], signed=either).max())


def _missed(told: np.ndarray, y: np.ndarray, signs: bool) -> float:
    return float((told != y).mean()) if signs else _relative(told, y)


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), np.finfo(float).tiny))
