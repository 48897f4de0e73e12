"""tacit: several organisations fit one model together, talking only to their neighbours on a graph.

problem = tacit.Problem(parts, loss=tacit.losses.Logistic(), scale=1750.0, l2=0.044)
graph = tacit.Graph.ring(5)
run = tacit.simulate(tacit.algorithms.ConsensusADMM(penalty=1.0), problem, graph, rounds=50)
run.model
"""

from tacit import algorithms, composite, data, exchange, losses
from tacit.errors import GraphError, InputError, NotConnected, NotConverged, TacitError
from tacit.graph import Graph
from tacit.noise import RecordedNoise, SecureNoise, SeededNoise
from tacit.plan import CannotKeep, Facts, Plan, calibrate, plan
from tacit.privacy.events import Gaussian, Pure
from tacit.problem import Problem
from tacit.simulate import Run, simulate

__version__ = "0.1.0"
__all__ = [
    "CannotKeep",
    "Facts",
    "Gaussian",
    "Graph",
    "GraphError",
    "InputError",
    "NotConnected",
    "NotConverged",
    "Plan",
    "Problem",
    "Pure",
    "RecordedNoise",
    "Run",
    "SecureNoise",
    "SeededNoise",
    "TacitError",
    "algorithms",
    "calibrate",
    "composite",
    "data",
    "exchange",
    "losses",
    "plan",
    "simulate",
]
