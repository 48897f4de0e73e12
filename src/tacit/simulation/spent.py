"""What every agent of a run has released so far: agents that have released the same share one count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tacit.core.alike import Alike, numbered
from tacit.privacy.events import Event

Spent = Sequence[Counter[Event]]  # for every agent, how often it released at which cost


def shared(spent: Spent) -> Alike[Counter[Event]]:
    """The same, with one count for agents that have spent the same."""
    return Alike.gather(spent, lambda counter: frozenset(counter.items()))


class Spending:
    """Counts events. Where all agents speak at once, which of them pay alike is mostly the same at every tick: such
    ticks are counted by groups of agents. Where a few speak, as with a token, each has its own count."""

    def __init__(self, agents: int, before: Spent | None = None) -> None:
        self._agents = agents
        self._groups: list[tuple[np.ndarray, list[Counter[Event]]]] = []  # who is in which, and what each has released
        self._alone: dict[int, Counter[Event]] = {}
        if before is not None:
            found = shared(before)
            self._groups.append((found.which, [counter.copy() for counter in found.items]))

    def add(self, speakers: np.ndarray, events: Sequence[Event], times: int = 1) -> None:
        """One tick, or so many: each of the speakers releases at the cost of its event."""
        if len(speakers) < self._agents or (speakers[1:] <= speakers[:-1]).any():
            for agent, event in zip(speakers.tolist(), events, strict=True):
                self.add_alone(agent, event, times)
            return
        found = Alike.gather(events, lambda event: event)
        counters = next((counts for which, counts in self._groups if np.array_equal(which, found.which)), None)
        if counters is None:
            counters = [Counter() for _ in found.items]
            self._groups.append((found.which, counters))
        for counter, event in zip(counters, found.items, strict=True):
            counter[event] += times

    def add_alone(self, agent: int, event: Event, times: int = 1) -> None:
        """One agent releases so many times."""
        self._alone.setdefault(agent, Counter())[event] += times

    def all(self) -> Alike[Counter[Event]]:
        """For every agent, how often it has released at which cost."""
        if not self._agents:
            return Alike([], np.zeros(0, dtype=np.int32))
        alone = np.zeros(self._agents, dtype=np.int32)
        if self._alone:
            own = shared(list(self._alone.values()))
            alone[list(self._alone)] = 1 + own.which
        which, first = numbered(*(group for group, _ in self._groups), alone)
        counters = []
        for agent in first.tolist():
            total = Counter(self._alone.get(agent, {}))
            for group, found in self._groups:
                total += found[group[agent]]
            counters.append(total)
        return Alike(counters, which)
