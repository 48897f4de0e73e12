"""Settings for a run without privacy, where nobody chooses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm, Traits, traits
from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.run.parts import KINDS, METHODS

L2, ROUNDS, TOLERANCE = 3e-5, 1000, 1e-4  # for rows of norm about 1
# The radius of agents. Numbers and labels are scaled to public bounds, so no model of them lies farther out, unless l2
# is below 1e-9. Double precision has enough digits for what lies within. A simulation has none.
RADIUS = 2.0**16
_TOKENS = 2  # of parallel walks
_STEPS, _START = (0.9, 1.1), 1.0  # what PI-ADMM1 keeps secret: step sizes as in paper 002's experiments


@dataclass(frozen=True)
class Exact:
    """A method that exchanges exact values."""

    kind: str  # of its method (`tacit.run.parts.METHODS`)
    title: str
    settings: Callable[[float, Graph], dict[str, Any]]  # from the penalty
    gradient: bool = False  # whether it takes steps along the gradient, of length 1/penalty

    def make(self, penalty: float, graph: Graph) -> Algorithm:
        """The method with this penalty."""
        made: Algorithm = METHODS[self.kind](**self.settings(penalty, graph))
        return made

    @property
    def traits(self) -> Traits:
        """What the method of this recipe declares of itself."""
        return traits(METHODS[self.kind])


def _penalty(rho: float, graph: Graph) -> dict[str, Any]:
    return {"penalty": rho}


def _secret(rho: float, graph: Graph) -> dict[str, Any]:
    return {"penalty": rho, "initial": _START, "gamma": KINDS["between"](*_STEPS)}


def _tokens(rho: float, graph: Graph) -> dict[str, Any]:
    return {"tokens": _TOKENS, "penalty": rho}


def _step(rho: float, graph: Graph) -> dict[str, Any]:
    return {"step": 1 / rho}


def _mixed_step(rho: float, graph: Graph) -> dict[str, Any]:
    # With half the usual weight for neighbours no eigenvalue of W is negative, and the step 1/L is safe.
    return {"step": 1 / rho, "mixing": graph.mixing / 2}


ALGORITHMS: dict[str, Exact] = {
    "admm": Exact("admm", "consensus ADMM", _penalty),
    "coca": Exact("coca", "ADMM, silent without news", _penalty),
    "i-admm": Exact("i-admm", "ADMM on a token, in a cycle", _penalty),
    "pi-admm1": Exact("i-admm", "the same with secret starts and step sizes, which is not private", _secret),
    "w-admm": Exact("w-admm", "ADMM on a token, at random", _penalty),
    "pw-admm": Exact("pw-admm", "ADMM on two tokens, at random", _tokens),
    "dgd": Exact("dgd", "gradient descent; ends near the optimum", _mixed_step, gradient=True),
    "extra": Exact("extra", "gradient descent, corrected", _mixed_step, gradient=True),
    "wpg": Exact("wpg", "gradient descent on a token, in a cycle", _step, gradient=True),
    "token-gd": Exact("token-gd", "the same without memory; ends near the optimum", _step, gradient=True),
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
