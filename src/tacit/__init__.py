"""tacit: several organisations fit one model together, talking only to their neighbours on a graph.

In four lines:

    problem = tacit.Problem(parts, loss=tacit.losses.Logistic(), scale=1750.0, l2=0.044)
    graph = tacit.Graph.ring(5)
    run = tacit.simulate(tacit.algorithms.ConsensusADMM(penalty=1.0), problem, graph, rounds=50)
    run.model
"""

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit import algorithms, composite, data, engines, exchange, losses
    from tacit.core.facts import Facts
    from tacit.core.graph import Graph
    from tacit.core.problem import Problem
    from tacit.errors import GraphError, InputError, NotConnected, NotConverged, TacitError
    from tacit.lab.comparison.compare import compare
    from tacit.lab.comparison.comparison_table import Comparison
    from tacit.lab.comparison.contenders import Contender
    from tacit.privacy.events import Gaussian, Pure
    from tacit.privacy.noise import RecordedNoise, SecureNoise, SeededNoise
    from tacit.privacy.plan import CannotKeep, Plan, calibrate, plan
    from tacit.run.budget import Budget
    from tacit.run.request import Request
    from tacit.run.spec import RunSpec
    from tacit.run.trust import Trust
    from tacit.simulation.result import Run
    from tacit.simulation.simulate import simulate

__version__ = "0.2.0"
# The module of each name, in the order of the imports above. It is imported when the name is first used: the compiler
# alone takes half a second, and `tacit --version` must not wait for it.
_MODULES = {
    "tacit": ("algorithms", "composite", "data", "engines", "exchange", "losses"),
    "tacit.core.facts": ("Facts",),
    "tacit.core.graph": ("Graph",),
    "tacit.core.problem": ("Problem",),
    "tacit.errors": ("GraphError", "InputError", "NotConnected", "NotConverged", "TacitError"),
    "tacit.privacy.events": ("Gaussian", "Pure"),
    "tacit.privacy.noise": ("RecordedNoise", "SecureNoise", "SeededNoise"),
    "tacit.privacy.plan": ("CannotKeep", "Plan", "calibrate", "plan"),
    "tacit.run.budget": ("Budget",),
    "tacit.run.request": ("Request",),
    "tacit.run.spec": ("RunSpec",),
    "tacit.run.trust": ("Trust",),
    "tacit.simulation.result": ("Run",),
    "tacit.simulation.simulate": ("simulate",),
    "tacit.lab.comparison.comparison_table": ("Comparison",),
    "tacit.lab.comparison.compare": ("compare",),
    "tacit.lab.comparison.contenders": ("Contender",),
}

__all__ = [
    "Budget",
    "CannotKeep",
    "Comparison",
    "Contender",
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
    "Request",
    "Run",
    "RunSpec",
    "SecureNoise",
    "SeededNoise",
    "TacitError",
    "Trust",
    "algorithms",
    "calibrate",
    "compare",
    "composite",
    "data",
    "engines",
    "exchange",
    "losses",
    "plan",
    "simulate",
]


if not TYPE_CHECKING:
    __getattr__ = lazily("tacit", _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
