"""One file a method. What every method has in common is `Algorithm`, and nothing else."""

from __future__ import annotations

from tacit.algorithms.accelerated_dp_admm import AcceleratedDPADMM
from tacit.algorithms.averaged import Averaged
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
from tacit.algorithms.summed_dp_admm import SummedDPADMM
from tacit.algorithms.summed_gradient_descent import SummedGradientDescent
from tacit.algorithms.token_gradient_descent import TokenGradientDescent
from tacit.algorithms.walk_admm import WalkADMM
from tacit.algorithms.walk_proximal_gradient import WalkProximalGradient
from tacit.core.algorithm import Algorithm
from tacit.core.schedule import RandomWalk

__all__ = [
    "DGD",
    "DPADMM",
    "EXTRA",
    "AcceleratedDPADMM",
    "Algorithm",
    "Averaged",
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
    "SummedDPADMM",
    "SummedGradientDescent",
    "TokenGradientDescent",
    "WalkADMM",
    "WalkProximalGradient",
]
