"""The labels of a classifier: which classes there are, how frequent they are, and how much their records count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.data.columns import Classes, Label, Multiclass
from tacit.errors import InputError


def known_classes(given: Any) -> np.ndarray:
    """The public classes that somebody gives, sorted."""
    try:
        known = np.unique(np.asarray(given))
    except (TypeError, ValueError):
        raise InputError(f"classes must be labels of the same type, not {given!r}") from None
    if known.ndim != 1 or len(known) < 2 or len(known) != np.size(given):
        raise InputError(f"classes must be two or more different labels, not {given!r}")
    return known


def label_of(classes: np.ndarray, shares: tuple[float, ...] | None, weights: tuple[float, ...] | None) -> Label:
    """What a recipe needs to know of classes; their names do not matter to it."""
    if len(classes) == 2:
        share = None if shares is None else shares[1]
        two = None if weights is None else (weights[0], weights[1])
        return Classes("y", positive=("1",), negative=("0",), positive_share=share, weights=two)
    return Multiclass("y", classes=tuple(map(str, range(len(classes)))), shares=shares, weights=weights)


def targets(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The labels as losses take them: -1 and +1, or 0, 1, ... for several classes."""
    if not np.all(np.isin(y, classes)):
        raise InputError(f"y has a label that is not one of the classes {classes.tolist()}")
    place = np.searchsorted(classes, y).astype(float)
    return 2 * place - 1 if len(classes) == 2 else place


def public_shares(given: Any, classes: np.ndarray) -> tuple[float, ...] | None:
    """How frequent each class is: from the share of the second of two, or from one number for each of several.

    >>> public_shares(0.25, np.array(["no", "yes"]))
    (0.75, 0.25)
    """
    if given is None:
        return None
    try:
        share = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        share = np.empty((0, 0))
    if len(classes) == 2 and share.shape == () and 0 < share < 1:
        return 1 - float(share), float(share)
    if len(classes) > 2 and share.shape == (len(classes),) and share.min() > 0 and abs(share.sum() - 1) <= 1e-6:
        return tuple(share.tolist())
    each = "" if len(classes) == 2 else f"; of {len(classes)} classes, for each one, and they add up to 1"
    raise InputError(f"positive_share lies between 0 and 1{each}; not {given!r}")


def class_weights(given: Any, classes: np.ndarray, shares: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """How much a record of each class counts; "balanced" gives every class the same sum.

    >>> class_weights({"yes": 3}, np.array(["no", "yes"]), None)
    (1.0, 3.0)
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        if shares is None:
            raise InputError(
                "class_weight='balanced' of a private fit needs public shares: give positive_share, or weights by class"
            )
        return tuple(1 / (len(classes) * share) for share in shares)
    if not isinstance(given, Mapping):
        raise InputError(f"class_weight is 'balanced' or a dict from class to weight, not {given!r}")
    known = classes.tolist()
    if unknown := [name for name in given if name not in known]:
        raise InputError(f"class_weight has {unknown[0]!r}, which is not one of the classes {known}")
    try:
        weights = tuple(float(given.get(name, 1.0)) for name in known)
    except (TypeError, ValueError):
        weights = ()
    if not weights or not all(0 < w < np.inf for w in weights):
        raise InputError(f"the weight of a class is a positive number; class_weight is {given!r}")
    return weights
