"""One file a method. What every method has in common is `Algorithm`, and nothing else."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, ClassVar, Protocol

import numpy as np

from tacit.algorithms.accelerated_dp_admm import AcceleratedDPADMM
from tacit.algorithms.censored_admm import CensoredADMM
from tacit.algorithms.consensus_admm import ConsensusADMM
from tacit.algorithms.dgd import DGD
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.dual_perturbed_admm import DualPerturbedADMM
from tacit.algorithms.extra import EXTRA
from tacit.algorithms.gradient_descent import GradientDescent
from tacit.algorithms.hyper import Geometric
from tacit.algorithms.incremental_admm import Between, IncrementalADMM
from tacit.algorithms.one_shot_averaging import OneShotAveraging
from tacit.algorithms.parallel_walk_admm import ParallelWalkADMM
from tacit.algorithms.penalty_perturbed_admm import PenaltyPerturbedADMM
from tacit.algorithms.primal_perturbed_admm import PrimalPerturbedADMM
from tacit.algorithms.random_aggregation_admm import RandomAggregationADMM
from tacit.algorithms.random_aggregation_gd import RandomAggregationGD
from tacit.algorithms.random_coordinate_descent import RandomCoordinateDescent
from tacit.algorithms.recycled_admm import RecycledADMM
from tacit.algorithms.sharing_admm import SharingADMM
from tacit.algorithms.token_gradient_descent import TokenGradientDescent
from tacit.algorithms.walk_admm import WalkADMM
from tacit.algorithms.walk_proximal_gradient import WalkProximalGradient
from tacit.graph import Graph, View
from tacit.noise import Noise
from tacit.problem import Problem
from tacit.release import Inbox, Release
from tacit.schedule import RandomWalk, Schedule

__all__ = [
    "DGD",
    "DPADMM",
    "EXTRA",
    "AcceleratedDPADMM",
    "Algorithm",
    "Between",
    "CensoredADMM",
    "ConsensusADMM",
    "DualPerturbedADMM",
    "Geometric",
    "GradientDescent",
    "IncrementalADMM",
    "OneShotAveraging",
    "ParallelWalkADMM",
    "PenaltyPerturbedADMM",
    "PrimalPerturbedADMM",
    "RandomAggregationADMM",
    "RandomAggregationGD",
    "RandomCoordinateDescent",
    "RandomWalk",
    "RecycledADMM",
    "SharingADMM",
    "TokenGradientDescent",
    "WalkADMM",
    "WalkProximalGradient",
]


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters with these methods; the state is a NamedTuple of arrays.

    The first axis of every array of the state is "the agents of this block": all of them where one process
    simulates everybody, one where an organisation runs its own. A method cannot tell which. It may name its parameters
    as it likes: they are given by their places.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def schedule(self, graph: Graph, /) -> Schedule:
        """Who speaks to whom at tick t."""
        ...

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox, /) -> Any:
        """The state before the first tick. The starts, own (n, d) and heard, are public and data-independent."""
        ...

    def speak(self, state: Any, problem: Problem, view: View, noise: Noise | None, t: int, /) -> tuple[Any, Release]:
        """Local work, and what leaves the agent."""
        ...

    def listen(self, state: Any, inbox: Inbox, view: View, t: int, /) -> Any:
        """What the neighbours said, taken in."""
        ...

    def estimate(self, state: Any, /) -> np.ndarray:
        """Each agent's present model, (n, d)."""
        ...

    def residuals(self, state: Any, view: View, /) -> tuple[np.ndarray, np.ndarray]:
        """How far each agent is from agreement and from optimality, both relative, (n,) each."""
        ...
