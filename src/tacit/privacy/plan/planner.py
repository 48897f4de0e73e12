"""The plan of a run in which one tick speaks for all that cost the same, and one agent for all that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tacit.core.algorithm import Algorithm, kinds, traits
from tacit.core.alike import Alike, numbered
from tacit.core.facts import Facts
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Schedule, Turn
from tacit.errors import InputError, whole
from tacit.exchange import Link, usual_exchange
from tacit.exchange.plain import PlainLink
from tacit.exchange.totals import TotalInbox
from tacit.privacy.events import MOST_ROUNDS, Event
from tacit.privacy.plan.every_tick import NoNoise, Plan, paper_total, walked
from tacit.simulation.sequences import Stretch, sequences, stretches
from tacit.simulation.spent import Spending
from tacit.simulation.tick import Blocks, tick


class _NotAlike(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """Equal agents need not have equal plans: the method tells them apart, or they speak at different ticks."""


class _Unnamed(NDArrayOperatorsMixin):
    """Stands for the ids of agents of which nothing may depend but their number: a method that looks at them ends the
    attempt to plan for classes of agents."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _NotAlike

    # numpy's operators all end in `__array_ufunc__`.
    __array_ufunc__ = __array__ = __getattr__ = __getitem__ = __iter__ = __contains__ = _refuse


class _Classes(Blocks):
    """One agent of each class in place of a network."""

    def __init__(self, facts: Facts, graph: Graph, first: np.ndarray) -> None:
        self.problem = facts.take(first)
        self.view = View(_Unnamed(len(first)), graph.view(first).degree, graph.agents)  # type: ignore[arg-type]

    def of(self, places: np.ndarray) -> tuple[Problem, View]:
        if len(places) == self.problem.agents:
            return self.problem, self.view
        ids: Any = _Unnamed(len(places))
        return self.problem.take(places), View(ids, self.view.degree[places], self.view.network)


class _Total:
    """The sum of the rows of all agents, from one row for each class."""

    def __init__(self, members: np.ndarray) -> None:
        self._members, self.sent = members, {"messages": 0, "bytes": 0}

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        count = len(release.value)
        total = self._members @ release.value
        return TotalInbox(np.tile(total, (count, 1)), np.full((count, 1), self._members.sum()))


class Planner:
    """Plans for one network. What follows from who speaks when is computed once for methods that speak at the same
    ticks: calibration plans several times."""

    def __init__(self, facts: Problem, graph: Graph, rounds: int) -> None:
        if graph.agents != facts.agents:
            raise InputError(f"the graph has {graph.agents} agents, the facts have {facts.agents}")
        whole("rounds", rounds, 0)
        if rounds > MOST_ROUNDS:
            raise InputError(
                f"a run has at most {MOST_ROUNDS:,} rounds, not {rounds:,}: its plan says what each of them costs"
            )
        self._facts = facts if isinstance(facts, Facts) else Facts.of(facts)
        self._graph, self._rounds = graph, rounds
        self._who: tuple[Schedule, list[Stretch]] | None = None
        self._spoken: tuple[list[Stretch], np.ndarray, Alike[np.ndarray], Alike[np.ndarray]] | None = None

    def plan(self, algorithm: Algorithm) -> Plan:
        """For classes of agents, if they differ in nothing else; for every agent; or, where nothing is declared, by
        taking every tick."""
        facts, graph, rounds = self._facts, self._graph, self._rounds
        schedule = algorithm.schedule(graph)
        if self._who is None or self._who[0] != schedule:
            self._who = schedule, stretches(schedule, graph.agents, rounds)
        who, alike = self._who[1], kinds(algorithm, facts, rounds)
        if alike is None and all(stretch.ticks is None for stretch in who):
            tries = [(self._classes, np.arange(rounds))]
        else:
            tries = [] if alike is None else [(self._classes, alike), (self._singles, alike)]
        for speakers, ticks in tries:
            try:
                return self._of_kinds(algorithm, schedule, who, ticks, speakers)
            except _NotAlike:
                pass
        return walked(algorithm, facts, graph, schedule, rounds)

    @cached_property
    def _classes(self) -> _Speakers:
        """One agent for all of equal size, scale and degree."""
        facts, graph = self._facts, self._graph
        which, first = numbered(facts.sizes, facts.scale, graph.degree)
        starts = np.concatenate([[0], np.cumsum(graph.degree[first])])
        senders = which[np.concatenate([graph.neighbours(i) for i in first])]
        return _Speakers(which, first, starts, senders, _Classes(facts, graph, first), unnamed=True)

    @cached_property
    def _singles(self) -> _Speakers:
        """Every agent speaks for itself."""
        facts, graph, agents = self._facts, self._graph, np.arange(self._graph.agents)
        return _Speakers(agents, agents, graph.indptr, graph.indices, Blocks(facts, graph.view()), unnamed=False)

    def _of_kinds(
        self, algorithm: Algorithm, schedule: Schedule, who: list[Stretch], alike: np.ndarray, speakers: _Speakers
    ) -> Plan:
        """The plan for which the method speaks at the first tick of every kind of ticks, `alike`, (rounds,)."""
        ticks, starts = numbered(alike)
        times = np.zeros(len(starts), dtype=int)
        order: list[int] = []  # of the kinds of ticks at which all agents speak
        for stretch in who:
            if stretch.ticks is None:
                here = ticks[stretch.first : stretch.stop]
                new = [at for at in numbered(here)[1].tolist() if not times[here[at]]]
                order += here[new].tolist()
                starts[here[new]] = stretch.first + np.array(new, dtype=int)
                times += np.bincount(here, minlength=len(starts))
        costs, events = self._costs(algorithm, schedule, speakers, starts, times, _of_some(who, ticks, speakers.which))
        spoken, alone = self._sequences(who, ticks)
        which = speakers.which
        merged, _ = numbered(np.zeros(costs.shape[1], dtype=int), *costs)  # classes that pay alike
        group, first = numbered(merged[which], spoken.which)
        paid = costs[:, which[first]]  # (kinds, groups of agents that pay the same in the same order)
        in_order = _in_order(events, paid, spoken.which[first].tolist(), spoken.items)
        spending = Spending(len(first))
        for kind in order:
            spending.add(np.arange(len(first)), _named(events, paid[kind]), int(times[kind]))
        for g, agent in enumerate(first.tolist()):
            for kind, count in Counter(alone[agent].tolist()).items():
                spending.add_alone(g, events[paid[kind, g]], count)
        spent = spending.all()
        paper = paper_total(algorithm, speakers.blocks.problem, speakers.blocks.view, starts[ticks].tolist())
        return Plan(
            Alike(in_order, group),
            Alike(spent.items, spent.which[group]),
            None if paper is None else paper[which],
        )

    def _costs(
        self,
        algorithm: Algorithm,
        schedule: Schedule,
        speakers: _Speakers,
        starts: np.ndarray,
        times: np.ndarray,
        some: dict[int, np.ndarray],
    ) -> tuple[np.ndarray, list[Event]]:
        """What a tick of every kind costs every class, as the number of an event, (kinds, classes), and the events;
        -1 where a class does not speak."""
        blocks, near, senders = speakers.blocks, speakers.near, speakers.senders
        heard = Inbox(np.zeros((blocks.problem.agents, self._facts.dimension)), near, senders)
        state = algorithm.init(blocks.problem, blocks.view, heard.rows, heard)
        everybody, nobody = np.arange(blocks.problem.agents), np.arange(0)
        link: Link = usual_exchange(algorithm).open(self._graph)
        if speakers.unnamed:
            link = _Total(np.bincount(speakers.which)) if traits(algorithm).totals else PlainLink()
        known: dict[Event, int] = {}
        costs = np.full((len(starts), len(everybody)), -1, dtype=np.int32)
        for kind in np.argsort(starts, kind="stable").tolist():
            t = int(starts[kind])
            if not times[kind]:  # what some say comes back to themselves
                here = some[kind]
                turn = Turn(here, here, np.arange(len(here) + 1), np.arange(len(here)))
            else:
                turn = schedule.turn(t)
                if speakers.unnamed and len(turn.listeners):
                    all_hear = len(turn.listeners) == self._graph.agents
                    if not (all_hear and turn.indptr is self._graph.indptr and turn.indices is self._graph.indices):
                        raise _NotAlike
                    turn = Turn(everybody, everybody, near, senders)
                elif speakers.unnamed:
                    turn = Turn(everybody, nobody, np.zeros(1, dtype=int), nobody)
            state, release = tick(algorithm, state, blocks, NoNoise(), turn, t, link)
            found = Alike.gather(release.events, lambda event: event)
            numbers = np.array([known.setdefault(event, len(known)) for event in found.items], dtype=np.int32)
            costs[kind, turn.speakers] = numbers[found.which]
        return costs, list(known)

    def _sequences(self, who: list[Stretch], ticks: np.ndarray) -> tuple[Alike[np.ndarray], Alike[np.ndarray]]:
        """For every agent the kinds of the ticks at which it speaks; and of those at which not all speak."""
        if self._spoken is None or self._spoken[0] is not who or not np.array_equal(self._spoken[1], ticks):
            alone = [stretch for stretch in who if stretch.ticks is not None]
            both = (sequences(each, ticks, self._graph.agents) for each in (who, alone))
            self._spoken = (who, ticks, *both)  # type: ignore[assignment]
        assert self._spoken is not None
        return self._spoken[2], self._spoken[3]


class _Speakers(NamedTuple):
    """The agents that speak in a plan, each for a class of agents."""

    which: np.ndarray  # (N,) the class of every agent
    first: np.ndarray  # (classes,) the agent that speaks for it
    near: np.ndarray  # (classes+1,) whom each of them hears (CSR)
    senders: np.ndarray
    blocks: Blocks
    unnamed: bool  # whether they have no ids


def _of_some(who: list[Stretch], ticks: np.ndarray, which: np.ndarray) -> dict[int, np.ndarray]:
    """Which classes speak at ticks of a kind at which not everybody does."""
    pairs = [(ticks[stretch.ticks], which[stretch.agents]) for stretch in who if stretch.ticks is not None]
    if not pairs:
        return {}
    kind, place = (np.concatenate(column) for column in zip(*pairs, strict=True))
    size = int(which.max()) + 1
    found: dict[int, list[int]] = {}
    for code in np.unique(kind.astype(np.int64) * size + place).tolist():
        found.setdefault(code // size, []).append(code % size)
    return {kind: np.array(places) for kind, places in found.items()}


def _named(known: list[Event], numbers: np.ndarray) -> Alike[Event]:
    """The events with these numbers."""
    which, first = numbered(numbers)
    return Alike([known[number] for number in numbers[first].tolist()], which)


def _in_order(
    known: list[Event], paid: np.ndarray, mine: list[int], spoken: Sequence[np.ndarray]
) -> list[Alike[Event]]:
    """The events of each group of agents, in the order of their ticks: `paid`, (kinds, groups), has their numbers,
    `mine` says which of the sequences of kinds is a group's."""
    once = [(*numbered(sequence), sequence) for sequence in spoken]  # mostly one for all
    found = []
    for g, k in enumerate(mine):
        order, first, sequence = once[k]
        named = _named(known, paid[sequence[first], g])
        found.append(Alike(named.items, order if len(named.items) == len(named) else named.which[order]))
    return found
