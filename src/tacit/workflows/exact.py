"""Settings for a run without privacy, where nobody chooses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.algorithms import CensoredADMM, ConsensusADMM, IncrementalADMM, WalkADMM
from tacit.core.losses import Loss

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "admm": ConsensusADMM,
    "coca": CensoredADMM,
    "i-admm": IncrementalADMM,
    "w-admm": WalkADMM,
}
L2, ROUNDS, TOLERANCE = 3e-5, 1000, 1e-4  # for rows of norm about 1


def usual_penalty(loss: Loss, l2: float = 0.0) -> float:
    """In units where a row's loss has scale 1: what converged fastest over several data sets, by the curvature.

    With an `l2` far above the usual one, that is most of the curvature.
    """
    return (1e-2 if loss.numbers else 1e-3) + l2 / 2
