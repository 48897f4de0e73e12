"""Audits of single methods with the noise of the papers: dual and primal perturbation, where a step costs alpha."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.algorithms import DualPerturbedADMM, IncrementalADMM, PrimalPerturbedADMM
from tacit.core.algorithm import Algorithm
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import Logistic
from tacit.engines import Workers
from tacit.errors import InputError, number
from tacit.lab.audit.guess import Progress
from tacit.lab.audit.lower_bounds import Audited
from tacit.lab.audit.runs import Case, audit_run
from tacit.privacy.events import Gaussian
from tacit.privacy.laws import FOR_INEXACTNESS
from tacit.privacy.noise import SecureNoise
from tacit.privacy.plan import calibrate

OFFSET = (
    -30.0
)  # at every model that a run reaches, the loss of a record of class +1 is a straight line of the full slope
_PENALTY = 50.0  # so large that the curvature of the loss costs next to nothing
_GRAPH = Graph.complete(2)


def opposite(x: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Two data sets of two records, (2, d) each: x and 0, and -x and 0."""
    none = np.zeros(len(x))
    return np.array([x, none]), np.array([np.negative(x), none])


def audit_dual_perturbed(
    epsilon: float,
    *,
    as_printed: bool = False,
    planted: bool = False,
    seed: int = 0,
    samples: int = 40_000,
    minutes: float | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> Audited:
    """One step of DVP at alpha = epsilon. As printed, it has half the noise."""
    if as_printed and planted:
        raise InputError("the printed version is a bug by itself: leave out the planted one")
    case = _step(lambda a: DualPerturbedADMM(penalty=_PENALTY, alpha=a, as_printed=as_printed), epsilon)
    source = _Open if as_printed else None
    return audit_run(
        case,
        planted=planted,
        seed=seed,
        samples=samples,
        minutes=minutes,
        progress=progress,
        source=source,
        workers=workers,
    )


def audit_primal_perturbed(
    epsilon: float,
    *,
    planted: bool = False,
    seed: int = 0,
    samples: int = 40_000,
    minutes: float | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> Audited:
    """One step of PVP at alpha = epsilon."""
    case = _step(lambda a: PrimalPerturbedADMM(penalty=_PENALTY, alpha=a), epsilon)
    return audit_run(
        case, planted=planted, seed=seed, samples=samples, minutes=minutes, progress=progress, workers=workers
    )


def audit_gaussian(epsilon: float, *, planted: bool = False, seed: int = 0, samples: int = 40_000) -> Audited:
    """Deprecated, `tacit audit dvp --rounds 1`: one step of DVP with normal noise, at (epsilon, 1e-4)."""
    case = _calibrated(lambda budget: DualPerturbedADMM(penalty=_PENALTY, budget=budget), 1, epsilon)
    return audit_run(case, planted=planted, seed=seed, samples=samples)


def audit_token(epsilon: float, *, planted: bool = False, seed: int = 0, samples: int = 40_000) -> Audited:
    """Deprecated, `tacit audit pi-admm`: three visits of the token of PI-ADMM2 to one agent, at (epsilon, 1e-4)."""
    case = _calibrated(lambda budget: IncrementalADMM(penalty=_PENALTY, budget=budget), 6, epsilon)
    return audit_run(case, planted=planted, seed=seed, samples=samples)


def _step(make: Callable[[float], Algorithm], epsilon: float) -> Case:
    """In one dimension, where spherical noise is Laplace's. The mask adds a thousandth to the claim."""
    number("epsilon", epsilon)
    facts = Facts(sizes=[2, 2], dimension=1, loss=Logistic(offset=OFFSET), l2=1e-3)
    return Case(make(epsilon), 1, _GRAPH, facts, opposite((1.0,)), epsilon * (1 + FOR_INEXACTNESS))


def _calibrated(make: Callable[[Gaussian], Algorithm], ticks: int, epsilon: float) -> Case:
    facts = Facts(sizes=[2, 2], dimension=2, loss=Logistic(offset=OFFSET), l2=1e-3)
    algorithm = calibrate(make, facts, _GRAPH, ticks, epsilon=epsilon, delta=1e-4)
    return Case(algorithm, ticks, _GRAPH, facts, opposite((0.6, 0.8)), epsilon, 1e-4)


class _Open(SecureNoise):
    """The same noise, for the printed version, which refuses noise that protects."""

    private = False

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        super().__init__(random_bytes=random_bytes)
