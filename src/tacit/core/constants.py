"""What is public of the objectives of a block of agents, besides their numbers of rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.core.losses import Logistic, Loss
from tacit.errors import InputError

RADIUS = 4096.0  # how far from zero the models of a private run may lie, by default
# Results from models that lie farther out are mostly rounding, and in the end infinite.
LARGEST_RADIUS = 2.0**40


class Constants(NamedTuple):
    """The loss L, and what `Problem` says about the others."""

    loss: Loss
    scale: np.ndarray  # (n,)
    l2: float
    tolerance: float
    radius: float


def constants(
    agents: int, loss: Loss | None, scale: float | np.ndarray, l2: float, tolerance: float, radius: float
) -> Constants:
    """The constants of so many agents, checked."""
    loss = Logistic() if loss is None else loss
    if not isinstance(loss, Loss):
        raise InputError(f"loss is one of tacit.losses, such as Logistic() or a CustomLoss, not {loss!r}")
    if not (l2 >= 0 and math.isfinite(l2)):
        raise InputError(f"l2 must be zero or a positive number, not {l2}")
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise InputError(f"tolerance must be a positive gradient norm, not {tolerance}")
    check_radius(radius)
    scales = np.asarray(scale, dtype=float)
    if scales.shape not in ((), (agents,)) or not np.all((scales > 0) & np.isfinite(scales)):
        raise InputError(f"scale must be a positive number, or one for each of {agents} agents, not {scale}")
    return Constants(loss, np.broadcast_to(scales, agents).copy(), float(l2), float(tolerance), float(radius))


def check_radius(radius: float) -> None:
    """Refuses what is not a positive number, or is larger than double precision can carry.

    >>> check_radius(10**400)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: the radius of models is at most 2^40
    """
    if not radius > 0:
        raise InputError(f"the radius of models must be a positive number, not {radius}")
    if radius > LARGEST_RADIUS:
        raise InputError("the radius of models is at most 2^40")
