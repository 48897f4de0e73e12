"""How good a model is on labelled records. Nothing here is private: a published number tells about those records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

_GROUPS = 10  # of records with like probabilities, whose observed share is compared with the predicted one


@dataclass(frozen=True)
class TwoClasses:
    """A model of two classes on labelled records."""

    records: int
    error: float  # the share of wrong labels
    majority_error: float  # of always giving the more frequent label
    auc: float | None  # the probability that a positive record scores above a negative one; None without both
    average_precision: float | None  # the mean over the positives of the precision at their score
    positives: int
    positives_predicted: int
    true_positives: int  # positives that are predicted
    calibration_error: float | None  # how far predicted and observed shares are apart, on average; None without them

    @property
    def one_class(self) -> bool:
        """Whether the model gives the same label to every record."""
        return self.positives_predicted in (0, self.records)

    @property
    def miss(self) -> float:
        """The one number that says how bad the model is: the error."""
        return self.error


@dataclass(frozen=True)
class SeveralClasses:
    """A model of several classes on labelled records."""

    records: int
    error: float
    majority_error: float
    log_loss: float

    @property
    def miss(self) -> float:
        """The one number that says how bad the model is: the error."""
        return self.error


@dataclass(frozen=True)
class Numbers:
    """A model of a number on labelled records, in the units of the label."""

    records: int
    rmse: float
    mae: float
    r2: float | None  # the share of the variance that is explained; None where all labels are the same

    @property
    def miss(self) -> float:
        """The one number that says how bad the model is: the root mean square error."""
        return self.rmse


Metrics = TwoClasses | SeveralClasses | Numbers


@dataclass(frozen=True)
class Objective:
    """A model on the objective that it should minimise."""

    records: int
    gap: float  # how far the objective lies above its minimum, divided by the sum of the agents' scales

    @property
    def miss(self) -> float:
        """The one number that says how bad the model is: the gap."""
        return self.gap


def as_plain(measured: Metrics | None) -> dict[str, Any]:
    """Metrics for JSON: those of numbers have an `error`, too, which is the root mean square error."""
    return {"error": None} if measured is None else {"error": measured.miss} | asdict(measured)


def two_classes(
    y: np.ndarray, scores: np.ndarray, predicted: np.ndarray, probabilities: np.ndarray | None = None
) -> TwoClasses:
    """Of labels, (n,), of which those above zero are positive; scores, (n,); and `predicted`, (n,) of bool.

    >>> scores = np.array([3.0, 1.0, 2.0, 2.5])
    >>> found = two_classes(np.array([1, -1, 1, -1]), scores, scores > 1)
    >>> found.error, found.auc, found.average_precision, found.positives_predicted
    (0.25, 0.75, 0.8333333333333333, 3)
    """
    positive = np.asarray(y) > 0
    n, p = len(positive), int(positive.sum())
    tied = _tied(scores, positive)
    return TwoClasses(
        records=n,
        error=float(np.mean(predicted != positive)),
        majority_error=min(p, n - p) / n,
        auc=_auc(p, n, tied),
        average_precision=_average_precision(p, n, tied),
        positives=p,
        positives_predicted=int(np.sum(predicted)),
        true_positives=int(np.sum(predicted & positive)),
        calibration_error=None if probabilities is None else _calibration_error(positive, probabilities),
    )


def several_classes(y: np.ndarray, predicted: np.ndarray, probabilities: np.ndarray) -> SeveralClasses:
    """Of labels 0, 1, ..., (n,), the predicted ones, (n,), and the probabilities of the classes, (n, K)."""
    labels = np.asarray(y).astype(int)
    counts = np.bincount(labels)
    return SeveralClasses(
        records=len(labels),
        error=float(np.mean(predicted != labels)),
        majority_error=1 - float(counts.max()) / len(labels),
        log_loss=log_loss(labels, probabilities),
    )


def log_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    """The mean of -ln of the probability of each label, (n,), from those of all classes, (n, K)."""
    own = probabilities[np.arange(len(y)), np.asarray(y).astype(int)]
    return float(-np.mean(np.log(np.maximum(own, np.finfo(float).tiny))))


def numbers(y: np.ndarray, predicted: np.ndarray) -> Numbers:
    """Of labels and predictions in the same units, (n,) each.

    >>> numbers(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    Numbers(records=3, rmse=0.5773502691896257, mae=0.3333333333333333, r2=0.5)
    """
    miss = np.asarray(predicted, float) - y
    spread = float(np.sum((y - np.mean(y)) ** 2))
    return Numbers(
        records=len(y),
        rmse=float(np.sqrt(np.mean(miss**2))),
        mae=float(np.mean(np.abs(miss))),
        r2=1 - float(np.sum(miss**2)) / spread if spread > 0 else None,
    )


class _Tied(NamedTuple):
    """Groups of records with the same score, from the lowest score to the highest."""

    below: np.ndarray  # (k,) records with a lower score
    same: np.ndarray  # (k,) records in the group
    positive: np.ndarray  # (k,) positive ones among them


def _tied(scores: np.ndarray, positive: np.ndarray) -> _Tied:
    """Sorts once. (scipy.stats has ranks, too, but takes most of a second to import.)

    >>> [each.tolist() for each in _tied(np.array([2.0, 1.0, 2.0]), np.array([True, True, False]))]
    [[0, 1], [1, 2], [1, 1]]
    """
    order = np.argsort(scores)  # ties in any order: of them, only counts are used
    ordered = scores[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of each group
    return _Tied(first, np.diff(first, append=len(order)), np.add.reduceat(positive[order], first, dtype=np.int64))


def _auc(positive: int, records: int, tied: _Tied) -> float | None:
    """By ranks; records with the same score count half (Mann and Whitney, 1947)."""
    if positive in (0, records):
        return None
    ranks = float(np.sum(tied.positive * (tied.below + (tied.same + 1) / 2)))
    return (ranks - positive * (positive + 1) / 2) / (positive * (records - positive))


def _average_precision(positive: int, records: int, tied: _Tied) -> float | None:
    """Records with the same score stand at the same place."""
    if not positive:
        return None
    found = np.cumsum(tied.positive[::-1])[::-1]  # positive ones with this score or a higher one
    return float(np.sum(tied.positive * found / (records - tied.below)) / positive)


def _calibration_error(positive: np.ndarray, probabilities: np.ndarray) -> float:
    """The mean over ten groups of like probabilities, weighted by size, of |observed share - predicted share|.

    >>> _calibration_error(np.arange(100) < 6, np.full(100, 0.06)) < 1e-9
    True
    """
    n = len(positive)
    ordered = np.append(np.sort(probabilities), np.inf)
    start = -(-np.arange(1, _GROUPS) * n // _GROUPS)
    # Equal probabilities are in one group, whatever their order: a group begins with the next value that is new.
    begins = ordered[start]
    again = np.searchsorted(ordered, begins) < start
    begins[again] = ordered[np.searchsorted(ordered[:-1], begins[again], side="right")]
    group = np.searchsorted(begins, probabilities, side="right")
    return float(np.abs(np.bincount(group, weights=positive - probabilities)).sum() / n)
