"""Paper 004's experiments: DVP and PVP with the constants of Fig. 3, and runs of them (figures: `dynamic_dp`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tacit.algorithms import DualPerturbedADMM, PrimalPerturbedADMM
from tacit.core.algorithm import Algorithm
from tacit.lab.papers.experiment import DELTA, Lab, ProblemSpec, Runs

ETA = 1.0
SHOWN = (0.01, 0.1, 0.5, 1.0)  # Fig. 3
GRID = (0.01, 0.05, 0.1, 0.3, 0.5, 1.0)  # Fig. 4 and 5
DVP, DVP_PRINTED = "DVP", "DVP as printed"
PVP, PVP_PRINTED, PVP_TABLE = "PVP, released centre", "PVP, printed centre", "PVP, printed centre, C = 1750"
ITERATIONS, LOSS, ERROR, ALPHA = "iteration t", "average training loss", "test error", "α of one step"
NON_PRIVATE = "ADMM, not private"
ZERO_MODEL = math.log(2)  # the loss of the model zero
DUAL, _PRIMAL, _TABLE = ProblemSpec(l2=10**-2.5), ProblemSpec(scale=146.0, l2=0.1), ProblemSpec(scale=1750.0, l2=0.1)
NOISELESS = ProblemSpec(l2=1e-10)
METHODS: dict[str, tuple[Callable[..., Algorithm], ProblemSpec]] = {
    DVP: (DualPerturbedADMM, DUAL),
    DVP_PRINTED: (partial(DualPerturbedADMM, as_printed=True), DUAL),
    PVP: (partial(PrimalPerturbedADMM, centre="released"), _PRIMAL),
    PVP_PRINTED: (partial(PrimalPerturbedADMM, centre="printed"), _PRIMAL),
    PVP_TABLE: (partial(PrimalPerturbedADMM, centre="printed"), _TABLE),
}


def method(lab: Lab, name: str, alpha: float) -> tuple[Algorithm, ProblemSpec]:
    """The method of that name; PVP takes its final step after T iterations."""
    make, spec = METHODS[name]
    final = {"final": lab.size.rounds} if spec != DUAL else {}
    return make(penalty=ETA, alpha=alpha, **final), spec


def runs(lab: Lab, name: str, alpha: float) -> Runs:
    """T iterations and the final one."""
    return lab.runs(*method(lab, name, alpha), lab.size.rounds + 1)


def totals(lab: Lab, name: str, alpha: float) -> tuple[float, float]:
    """The plain sum and the tight epsilon of all steps, for the agent that pays most."""
    each = lab.plan(*method(lab, name, alpha), lab.size.rounds + 1).totals(DELTA)
    return max(t.plain_sum for t in each), max(t.best for t in each)


def line(name: str) -> str:
    """The style of a method's curve."""
    return ":" if name == PVP_TABLE else "--" if "printed" in name else "-"


def grid(lab: Lab) -> tuple[float, ...]:
    """The alphas of Fig. 4 and 5."""
    return SHOWN if lab.size.quick else GRID
