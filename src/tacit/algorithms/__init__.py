"""One file a method. What every method has in common is `Algorithm`, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    _names = {
        "tacit.algorithms.accelerated_dp_admm": ("AcceleratedDPADMM",),
        "tacit.algorithms.averaged": ("Averaged",),
        "tacit.algorithms.censored_admm": ("CensoredADMM",),
        "tacit.algorithms.consensus_admm": ("ConsensusADMM",),
        "tacit.algorithms.dgd": ("DGD",),
        "tacit.algorithms.dp_admm": ("DPADMM",),
        "tacit.algorithms.dual_perturbed_admm": ("DualPerturbedADMM",),
        "tacit.algorithms.extra": ("EXTRA",),
        "tacit.algorithms.gradient_descent": ("GradientDescent",),
        "tacit.algorithms.hyper": ("Geometric",),
        "tacit.algorithms.incremental_admm": ("Between", "IncrementalADMM"),
        "tacit.algorithms.one_shot_averaging": ("OneShotAveraging",),
        "tacit.algorithms.parallel_walk_admm": ("ParallelWalkADMM",),
        "tacit.algorithms.penalty_perturbed_admm": ("PenaltyPerturbedADMM",),
        "tacit.algorithms.primal_perturbed_admm": ("PrimalPerturbedADMM",),
        "tacit.algorithms.random_aggregation_admm": ("RandomAggregationADMM",),
        "tacit.algorithms.random_aggregation_gd": ("RandomAggregationGD",),
        "tacit.algorithms.random_coordinate_descent": ("RandomCoordinateDescent",),
        "tacit.algorithms.recycled_admm": ("RecycledADMM",),
        "tacit.algorithms.sharing_admm": ("SharingADMM",),
        "tacit.algorithms.summed_dp_admm": ("SummedDPADMM",),
        "tacit.algorithms.summed_gradient_descent": ("SummedGradientDescent",),
        "tacit.algorithms.token_gradient_descent": ("TokenGradientDescent",),
        "tacit.algorithms.walk_admm": ("WalkADMM",),
        "tacit.algorithms.walk_proximal_gradient": ("WalkProximalGradient",),
        "tacit.core.algorithm": ("Algorithm",),
        "tacit.core.schedule": ("RandomWalk",),
    }
    __getattr__ = lazily(__name__, _names)
