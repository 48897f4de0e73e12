"""At which ticks every agent of a run speaks; agents that speak at the same kinds of ticks share one sequence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.core.alike import Alike, numbered
from tacit.core.schedule import Schedule


class Stretch(NamedTuple):
    """Ticks one after the other at each of which all agents speak, in order, or only some."""

    ticks: np.ndarray | None  # (s,) if some speak: the ticks at which `agents` do; None if all agents speak
    agents: np.ndarray  # (s,)
    first: int
    stop: int


def stretches(schedule: Schedule, agents: int, rounds: int) -> list[Stretch]:
    """Who speaks, tick by tick."""
    found: list[Stretch] = []
    everybody, last = np.arange(agents), None
    ticks: list[int] = []
    speakers: list[np.ndarray] = []
    begin, nobody, all_speak = 0, np.zeros(0, dtype=int), True

    def close(stop: int) -> None:
        if stop > begin:
            some = nobody if all_speak else np.concatenate(speakers)
            when = None if all_speak else np.repeat(ticks, [len(each) for each in speakers])
            found.append(Stretch(when, some, begin, stop))

    for t in range(rounds):
        turn = schedule.turn(t)
        if turn is not last:
            last = turn
            whole = len(turn.speakers) == agents and bool((turn.speakers == everybody).all())
            if whole != all_speak:
                close(t)
                begin, all_speak, ticks, speakers = t, whole, [], []
        if not all_speak:
            ticks.append(t)
            speakers.append(turn.speakers)
    close(rounds)
    return found


def sequences(found: list[Stretch], kinds: np.ndarray, agents: int) -> Alike[np.ndarray]:
    """For every agent the kinds of the ticks at which it speaks, in order; `kinds`, (rounds,), has that of every tick.

    >>> from tacit.core.graph import Graph
    >>> from tacit.core.schedule import Broadcast, Cycle, Then
    >>> graph = Graph.ring(3)
    >>> who = stretches(Then(Cycle(graph, [0, 1, 2]), 4, Broadcast(graph)), 3, rounds=6)
    >>> sequences(who, np.array([0, 0, 0, 1, 2, 2]), 3)
    (array([0, 1, 2, 2]), array([0, 2, 2]), array([0, 2, 2]))
    """
    parts = [
        Alike.same(kinds[first:stop], agents) if ticks is None else _of_some(who, kinds[ticks], agents)
        for ticks, who, first, stop in found
    ]
    if not parts:
        return Alike.same(kinds[:0], agents)
    which, first = numbered(*(part.which for part in parts))
    return Alike([np.concatenate([part[k] for part in parts]) for k in first.tolist()], which)


def _of_some(who: np.ndarray, kinds: np.ndarray, agents: int) -> Alike[np.ndarray]:
    """The same, where `who` speaks at ticks of these kinds, one after the other."""
    order = np.argsort(who, kind="stable")
    counts = np.bincount(who, minlength=agents)
    begins, mine = np.cumsum(counts) - counts, kinds[order]
    which = np.zeros(agents, dtype=np.int32)
    found: list[np.ndarray] = []
    for count in np.unique(counts).tolist():
        same = np.flatnonzero(counts == count)
        rows = mine[begins[same][:, None] + np.arange(count)]
        number, first = numbered(np.zeros(len(same), dtype=int), *rows.T)
        which[same] = len(found) + number
        found += list(rows[first])
    return Alike(found, which)
