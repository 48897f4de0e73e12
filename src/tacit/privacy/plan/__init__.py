"""What a run will cost, before any data is read; and the noise for a cost that is given.

Nothing that a release costs may depend on the data. So the plan of a run is made by running it without data: `Facts`
takes the place of the problem. It knows what is public and answers every question about the data with zeros. The
events are those of the real run by construction: it is the same code (`every_tick`). Where ticks or agents are alike,
one speaks for all (`planner`). `calibration` finds the noise for a cost.
"""

from __future__ import annotations

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.privacy.plan.calibration import CannotKeep, calibrate, largest_budget
from tacit.privacy.plan.every_tick import Plan, paper_total, per_agent_totals
from tacit.privacy.plan.planner import Planner

__all__ = ["CannotKeep", "Plan", "calibrate", "largest_budget", "paper_total", "per_agent_totals", "plan"]


def plan(algorithm: Algorithm, facts: Problem, graph: Graph, rounds: int) -> Plan:
    """The events of `rounds` rounds, from public facts alone.

    >>> from tacit.algorithms import DualPerturbedADMM
    >>> from tacit.core.facts import Facts
    >>> from tacit.privacy.events import Pure
    >>> facts = Facts(sizes=[8000] * 3, dimension=10, l2=0.1)
    >>> p = plan(DualPerturbedADMM(penalty=0.1, budget=Pure(0.1)), facts, Graph.ring(3), rounds=100)
    >>> round(p.epsilon(delta=1e-5), 4)
    4.3068
    """
    return Planner(facts, graph, rounds).plan(algorithm)
