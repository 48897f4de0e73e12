"""Settings for a run without privacy, where nobody chooses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tacit.algorithms import (
    DGD,
    EXTRA,
    Algorithm,
    Between,
    CensoredADMM,
    ConsensusADMM,
    IncrementalADMM,
    ParallelWalkADMM,
    TokenGradientDescent,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.core.graph import Graph
from tacit.core.losses import Loss

L2, ROUNDS, TOLERANCE = 3e-5, 1000, 1e-4  # for rows of norm about 1
_TOKENS = 2  # of parallel walks
_STEPS, _START = Between(0.9, 1.1), 1.0  # what PI-ADMM1 keeps secret: step sizes as in paper 002's experiments


class Exact(NamedTuple):
    """A method that exchanges exact values."""

    title: str
    make: Callable[[float, Graph], Algorithm]  # from the penalty
    token: bool = False  # whether one agent speaks at a time
    gradient: bool = False  # whether it takes steps along the gradient, of length 1/penalty
    draws: bool = False  # whether agents draw random numbers


ALGORITHMS: dict[str, Exact] = {
    "admm": Exact("consensus ADMM", lambda rho, _: ConsensusADMM(penalty=rho)),
    "coca": Exact("ADMM, silent without news", lambda rho, _: CensoredADMM(penalty=rho)),
    "i-admm": Exact("ADMM on a token, in a cycle", lambda rho, _: IncrementalADMM(penalty=rho), token=True),
    "pi-admm1": Exact(
        "the same with secret starts and step sizes, which is not private",
        lambda rho, _: IncrementalADMM(penalty=rho, initial=_START, gamma=_STEPS),
        token=True,
        draws=True,
    ),
    "w-admm": Exact("ADMM on a token, at random", lambda rho, _: WalkADMM(penalty=rho), token=True),
    "pw-admm": Exact(
        "ADMM on two tokens, at random", lambda rho, _: ParallelWalkADMM(tokens=_TOKENS, penalty=rho), token=True
    ),
    # With half the usual weight for neighbours no eigenvalue of W is negative, and the step 1/L is safe.
    "dgd": Exact(
        "gradient descent; ends near the optimum",
        lambda rho, graph: DGD(step=1 / rho, mixing=graph.mixing / 2),
        gradient=True,
    ),
    "extra": Exact(
        "gradient descent, corrected", lambda rho, graph: EXTRA(step=1 / rho, mixing=graph.mixing / 2), gradient=True
    ),
    "wpg": Exact(
        "gradient descent on a token, in a cycle",
        lambda rho, _: WalkProximalGradient(step=1 / rho),
        token=True,
        gradient=True,
    ),
    "token-gd": Exact(
        "the same without memory; ends near the optimum",
        lambda rho, _: TokenGradientDescent(step=1 / rho),
        token=True,
        gradient=True,
    ),
}


def usual_penalty(name: str, loss: Loss, *, l2: float, row_norm: float, sizes: Sequence[int]) -> float:
    """In units where a row's loss has scale 1.

    For ADMM what converged fastest over several data sets, by the curvature; with an `l2` far above the usual one, that
    is most of the curvature. For steps along the gradient a bound on the smoothness of every agent's objective.

    name : of the method
    loss, l2 : the objective
    row_norm, sizes : the norm of the longest row, and the numbers of rows of the agents
    """
    if ALGORITHMS[name].gradient:
        return float(np.max(sizes) / np.mean(sizes)) * loss.max_curvature * row_norm**2 + l2
    return (1e-2 if loss.numbers else 1e-3) + max(l2 - L2, 0.0) / 2
