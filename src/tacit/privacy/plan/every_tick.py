"""The plan of a run for which the method takes every tick, without data and without noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm, traits
from tacit.core.alike import Alike
from tacit.core.facts import Facts
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox
from tacit.core.schedule import Schedule, Turn
from tacit.exchange import Link, usual_exchange
from tacit.privacy.accounting import Totals, rounded_up, totals
from tacit.privacy.events import Event
from tacit.privacy.noise import SecureNoise
from tacit.simulation.spent import Spending, Spent, shared
from tacit.simulation.tick import Blocks, tick

_DELTA, _SHOWN = 1e-5, 20  # a plan in a notebook: the delta of its totals, and the most agents


class NoNoise:
    """Stands in for the noise of a run without data."""

    private, grid = False, SecureNoise().grid

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.zeros((len(ids), count), dtype=bool)

    def draw(self, law: str, scale: Any, dimension: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.zeros((len(ids), dimension))

    def perturb(
        self, law: str, value: np.ndarray, factor: Any, scale: Any, ids: np.ndarray, t: int, grid: Any
    ) -> np.ndarray:
        return value

    def add(
        self, law: str, value: np.ndarray, scale: Any, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        return value if onto is None else onto + value

    def mask(self, law: str, value: np.ndarray, scale: Any, ids: np.ndarray, t: int) -> np.ndarray:
        return value


@dataclass(frozen=True)
class Plan:
    """What every agent of a run will release at which cost."""

    events: Sequence[Sequence[Event]]  # for every agent, in the order of its releases; equal agents share a sequence
    spent: Spent  # for every agent, how often it will release at which cost
    paper: np.ndarray | None  # (N,) the paper's own bound on the total of pure epsilons, where it has one

    def _repr_html_(self) -> str:
        from tacit import html  # for notebooks alone

        totals = self.totals(_DELTA)
        rows: list[tuple[object, ...]] = []
        for k, spent in enumerate(self.spent[:_SHOWN]):
            kinds: Counter[str] = Counter()
            for event, count in spent.items():
                kinds[type(event).__name__] += count
            rows.append((k, ", ".join(f"{n} {kind}" for kind, n in kinds.items()), f"{rounded_up(totals[k].best):g}"))
        head = ("agent", "releases", f"epsilon at delta = {_DELTA:g}")
        rest = len(self.events) - len(rows)
        return html.card("Plan", [("agents not shown", rest)] if rest else [], html.table(head, rows))

    def totals(self, delta: float) -> Alike[Totals]:
        """For every agent, the epsilon of the whole run under each accountant."""
        return per_agent_totals(self.spent, delta)

    def epsilon(self, delta: float) -> float:
        """The network's epsilon: the largest of the agents'."""
        return max(t.best for t in self.totals(delta).items)


def walked(algorithm: Algorithm, facts: Facts, graph: Graph, schedule: Schedule, rounds: int) -> Plan:
    """The plan for which all agents take every tick."""
    everybody, link = Blocks(facts, graph.view()), usual_exchange(algorithm).open(graph)
    heard = Inbox(np.zeros((graph.agents, facts.dimension)), graph.indptr, graph.indices)
    return planned(algorithm, everybody, heard, map(schedule.turn, range(rounds)), rounds, link)


def planned(algorithm: Algorithm, blocks: Blocks, heard: Inbox, turns: Iterable[Turn], rounds: int, link: Link) -> Plan:
    """The plan of the agents of some blocks."""
    facts, view = blocks.problem, blocks.view
    state = algorithm.init(facts, view, heard.rows, heard)
    events: list[list[Event]] = [[] for _ in range(facts.agents)]
    spending = Spending(facts.agents)
    for t, turn in enumerate(turns):
        state, release = tick(algorithm, state, blocks, NoNoise(), turn, t, link)
        spending.add(turn.speakers, release.events)
        for agent, event in zip(turn.speakers.tolist(), release.events, strict=True):
            events[agent].append(event)
    return Plan(events, spending.all(), paper_total(algorithm, facts, view, range(rounds)))


def paper_total(algorithm: Algorithm, facts: Problem, view: View, ticks: Iterable[int]) -> np.ndarray | None:
    """The sum of what the paper says that each of these ticks costs, (N,); None where the paper says nothing."""
    if not traits(algorithm).paper_bound(algorithm):
        return None
    method: Any = algorithm
    known: dict[int, np.ndarray] = {}
    total = np.zeros(facts.agents)
    for t in ticks:
        if t not in known:
            known[t] = method.paper_bound(facts, view, t)[:, 0]
        total = total + known[t]
    return total


def per_agent_totals(spent: Spent, delta: float) -> Alike[Totals]:
    """Every agent's totals, computed once for agents that spend the same."""
    return shared(spent).map(lambda counter: totals(counter, delta))
