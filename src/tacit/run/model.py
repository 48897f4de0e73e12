"""A fitted linear model as a file.

A model file is JSON, and these are its fields:

    format    "tacit-model"
    version   2
    loss      the loss that was minimised: {"name": "HuberHinge", "width": 1.0, "offset": 0.0, ...}
    features  the names of the features, in order
    weights   one number for each feature; for several classes, one list of numbers for each class
    schema    how a record becomes features (the fields of `tacit.data.Schema`, as plain data)
    training  how the model was trained: algorithm, parameters, rounds, the agents and their numbers of rows; the run
              as data (spec) and its SHA-256 (spec digest), if its method can be written
    privacy   {"private": bool, "statement": str}: whether the model is private, and the guarantee in words; of a model
              trained under a budget also epsilon, delta, colluders and dropouts (against how many members together
              epsilon holds, and how many may be away), and coalitions: a list of {"colluders", "epsilon"}, what holds
              against so many

The score of a record is the sum of weight * feature, plus the offset of the loss. Files of version 1 are read, too.
They name the loss without its parameters.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.losses import HuberHinge, Logistic, Loss, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.data import Classes, Dataset, Multiclass, Schema, Target
from tacit.errors import InputError
from tacit.files import write_private
from tacit.run import metrics

__all__ = ["Model"]

_FORMAT, _VERSION = "tacit-model", 2
_FINITE = 1e100  # for a weight: no training reaches it, and sums of larger ones may not be finite
_LARGEST = 10  # weights that a notebook shows
_LOSSES = {kind.__name__: kind for kind in (Logistic, HuberHinge, Squared, PseudoHuber, Multinomial)}


@dataclass(frozen=True)
class Model:
    """Weights, and everything needed to use them on a file of records.

    `weights` may come flat, as the agents exchange them.
    """

    weights: np.ndarray  # (d,), or (K, d) for K classes
    schema: Schema
    loss: Loss
    training: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        label = self.schema.label
        if not fits(self.loss, label):
            raise InputError(f"a model of the label {label.column!r} cannot have the loss {self.loss!r}")
        d, k = self.schema.dimension, label.outputs
        shape = (k, d) if isinstance(label, Multiclass) else (d,)
        if self.weights.shape not in (shape, (k * d,)):
            each = f" and {k} classes" if isinstance(label, Multiclass) else ""
            raise InputError(
                f"a model needs one weight for each of its schema's {d} features{each}, "
                f"not an array of shape {self.weights.shape}"
            )
        if not np.all(np.abs(self.weights) < _FINITE):
            raise InputError(f"the weights of a model must be finite, and below {_FINITE:g}")
        object.__setattr__(self, "weights", self.weights.reshape(shape))

    def _repr_html_(self) -> str:
        from tacit import html  # for notebooks alone

        label = self.schema.label
        of = label.classes if isinstance(label, Multiclass) else ("",)
        named = [f"{name} ({each})" if each else name for each in of for name in self.schema.feature_names]
        weights = self.weights.ravel()
        largest = np.argsort(-np.abs(weights), kind="stable")[:_LARGEST]
        facts: list[tuple[str, object]] = [("label", label.column), ("loss", self.loss), ("weights", len(weights))]
        facts += [("privacy", self.privacy["statement"])] if "statement" in self.privacy else []
        return html.card("Model", facts, html.bars([named[k] for k in largest], weights[largest].tolist()))

    def scores(self, data: Dataset) -> np.ndarray:
        """f.x of every record plus the loss's offset, (n,); for several classes one of each, (n, K)."""
        return self._predictions(data) + np.asarray(self.loss.offset)

    def probabilities(self, data: Dataset) -> np.ndarray | None:
        """P(label is +1) of every record, (n,); of each of several classes, (n, K). None if the loss has none."""
        return self.loss.probability(self._predictions(data))

    def predictions(self, data: Dataset, positive: np.ndarray | None = None) -> np.ndarray:
        """The label of every record as the file would write it, or the number that the label stands for.

        `positive` says of which records the label is the positive one; by default those that score above zero.
        """
        label, scores = self.schema.label, self.scores(data)
        if isinstance(label, Multiclass):
            return np.array(label.classes, dtype=object)[scores.argmax(axis=1)]
        if isinstance(label, Classes):
            return np.where(scores > 0 if positive is None else positive, label.positive[0], label.negative[0])
        return self.in_units(np.clip(scores, -1.0, 1.0))

    def in_units(self, scores: np.ndarray) -> np.ndarray:
        """Scores, or labels, of a label that is a number, in its own units."""
        assert isinstance(self.schema.label, Target)
        lo, hi = self.schema.label.bounds
        return lo + (scores + 1.0) / 2.0 * (hi - lo)

    def measured(self, data: Dataset, positive: np.ndarray | None = None) -> metrics.Metrics:
        """How good the model is on labelled records; `positive` as in `predictions`."""
        assert data.y is not None
        label, scores = self.schema.label, self.scores(data)
        if isinstance(label, Classes):
            predicted = scores > 0 if positive is None else positive
            return metrics.two_classes(data.y, scores, predicted, self.probabilities(data))
        if isinstance(label, Multiclass):
            probabilities = self.probabilities(data)
            assert probabilities is not None
            return metrics.several_classes(data.y, scores.argmax(axis=1), probabilities)
        return metrics.numbers(self.in_units(data.y), self.in_units(np.clip(scores, -1.0, 1.0)))

    def _predictions(self, data: Dataset) -> np.ndarray:
        return np.asarray(data.X @ self.weights.T)

    def as_plain(self) -> dict[str, Any]:
        """The fields of the model file."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "loss": _plain_loss(self.loss),
            "features": list(self.schema.feature_names),
            "weights": self.weights.tolist(),
            "schema": self.schema.to_dict(),
            "training": self.training,
            "privacy": self.privacy,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file. If that fails, an older file stays as it was."""
        write_private(path, json.dumps(self.as_plain(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Reads a model file, also one of version 1."""
        name = Path(path).name
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            json.dumps(plain, ensure_ascii=False).encode()  # refuses text that no file can hold
            if plain["format"] != _FORMAT or plain["version"] not in (1, _VERSION):
                raise InputError(
                    f"it says {plain['format']!r} version {plain['version']!r}, this tacit reads {_FORMAT!r} version "
                    f"{_VERSION}: use the tacit that wrote it"
                )
            schema = Schema.from_dict(plain["schema"])
            if tuple(plain["features"]) != schema.feature_names:
                raise InputError("its features are not those of its schema")
            weights = np.asarray(plain["weights"], dtype=float)
            return cls(weights, schema, _loss(plain["loss"]), plain["training"], plain["privacy"])
        except FileNotFoundError:
            raise InputError(f"there is no model file {path}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except KeyError as error:
            raise InputError(f"{name} is not a model file: it has no {error}") from None
        except json.JSONDecodeError:
            raise InputError(f"{name} is not a model file: it is not JSON") from None
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, InputError) as error:
            raise InputError(f"{name} is not a model file: {error}") from None


def fits(loss: Loss, label: object) -> bool:
    """Whether the loss is for such a label."""
    if isinstance(label, Multiclass):
        return isinstance(loss, Multinomial) and loss.classes == len(label.classes)
    # The squared loss was always allowed for two classes, too.
    return not isinstance(loss, Multinomial) and (
        isinstance(loss, Squared) or loss.numbers == isinstance(label, Target)
    )


def _plain_loss(loss: Loss) -> dict[str, Any]:
    if type(loss) not in _LOSSES.values():
        raise InputError(f"a model file can hold the losses {', '.join(_LOSSES)}, not {loss!r}; keep its weights")
    values = {each.name: getattr(loss, each.name) for each in fields(loss)}  # type: ignore[arg-type]
    return {"name": type(loss).__name__, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def _loss(plain: Any) -> Loss:
    # Version 1 names the loss alone. A Huber hinge of its usual width has no probabilities: the width is not known.
    settings = {"name": plain} if isinstance(plain, str) else dict(plain)
    name = settings.pop("name")
    if name not in _LOSSES:
        raise InputError(f"a model's loss is one of {', '.join(_LOSSES)}, not {name!r}")
    kind: Any = _LOSSES[name]
    made: Loss = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()})
    return made
