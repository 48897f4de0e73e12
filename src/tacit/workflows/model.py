"""A fitted linear model as a file.

A model file is JSON, and these are its fields:

    format    "tacit-model"
    version   1
    loss      "Logistic", "HuberHinge" or "Squared": the loss that was minimised
    features  the names of the features, in order
    weights   one number a feature: the score of a record is the sum of weight * feature
    schema    how a record becomes features (the fields of `tacit.data.Schema`, as plain data)
    training  how the model was trained: algorithm, parameters, rounds, the agents and their numbers of rows
    privacy   {"private": bool, "statement": str}: whether the model is private, and the guarantee in words
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data import Classes, Dataset, Schema
from tacit.errors import InputError
from tacit.files import replacing

__all__ = ["Model"]

_FORMAT, _VERSION = "tacit-model", 1
_LOSSES = ("Logistic", "HuberHinge", "Squared")


@dataclass(frozen=True)
class Model:
    """Weights, and everything needed to use them on a file of records."""

    weights: np.ndarray  # (d,)
    schema: Schema
    loss: str
    training: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.loss not in _LOSSES:
            raise InputError(f"a model's loss is one of {', '.join(_LOSSES)}, not {self.loss!r}")
        if self.weights.shape != (self.schema.dimension,):
            raise InputError(
                f"a model needs one weight for each of its schema's {self.schema.dimension} features, "
                f"not an array of shape {self.weights.shape}"
            )
        if not np.all(np.isfinite(self.weights)):
            raise InputError("the weights of a model must be finite")

    def scores(self, data: Dataset) -> np.ndarray:
        """f.x of every record."""
        return np.asarray(data.X @ self.weights)

    def probabilities(self, data: Dataset) -> np.ndarray | None:
        """P(label is +1) of every record; None if the loss gives no probabilities."""
        if self.loss != "Logistic":
            return None
        return np.exp(-np.logaddexp(0.0, -self.scores(data)))

    def predictions(self, data: Dataset) -> np.ndarray:
        """The label of every record as the file would write it, or the number that the label stands for."""
        scores, label = self.scores(data), self.schema.label
        if isinstance(label, Classes):
            return np.where(scores > 0, label.positive[0], label.negative[0])
        lo, hi = label.bounds
        return lo + (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0 * (hi - lo)

    def error(self, data: Dataset) -> float:
        """On labelled records: the share of wrong labels, or for numbers the root mean square error."""
        assert data.y is not None
        if isinstance(self.schema.label, Classes):
            return float(np.mean((self.scores(data) > 0) != (data.y > 0)))
        lo, hi = self.schema.label.bounds
        miss = (np.clip(self.scores(data), -1.0, 1.0) - data.y) / 2.0 * (hi - lo)
        return float(np.sqrt(np.mean(miss**2)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file. If that fails, an older file stays as it was."""
        plain = {
            "format": _FORMAT,
            "version": _VERSION,
            "loss": self.loss,
            "features": list(self.schema.feature_names),
            "weights": self.weights.tolist(),
            "schema": self.schema.to_dict(),
            "training": self.training,
            "privacy": self.privacy,
        }
        with replacing(path) as draft:
            draft.write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Reads a model file."""
        name = Path(path).name
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            if plain["format"] != _FORMAT or plain["version"] != _VERSION:
                raise InputError(
                    f"it says {plain['format']!r} version {plain['version']!r}, this tacit reads {_FORMAT!r} version "
                    f"{_VERSION}: use the tacit that wrote it"
                )
            schema = Schema.from_dict(plain["schema"])
            if tuple(plain["features"]) != schema.feature_names:
                raise InputError("its features are not those of its schema")
            weights = np.asarray(plain["weights"], dtype=float)
            return cls(weights, schema, plain["loss"], plain["training"], plain["privacy"])
        except FileNotFoundError:
            raise InputError(f"there is no model file {path}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except KeyError as error:
            raise InputError(f"{name} is not a model file: it has no {error}") from None
        except json.JSONDecodeError:
            raise InputError(f"{name} is not a model file: it is not JSON") from None
        except (ValueError, TypeError, OverflowError, RecursionError, InputError) as error:
            raise InputError(f"{name} is not a model file: {error}") from None
