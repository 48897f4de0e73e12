"""Which agents speak to which, at every tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from tacit.core.graph import Graph
from tacit.errors import GraphError, InputError, whole

__all__ = ["Broadcast", "Cycle", "Prepared", "RandomWalk", "Schedule", "Turn", "Walks", "handed_over", "way"]

_ALONE = "a token needs at least two agents to travel between"


class Turn(NamedTuple):
    """One tick: these agents speak, then those listen, each to some of the speakers (CSR, as in `Inbox`)."""

    speakers: np.ndarray  # (s,) agent ids
    listeners: np.ndarray  # (l,) agent ids
    indptr: np.ndarray  # (l+1,)
    indices: np.ndarray  # positions in `speakers`


class Role(NamedTuple):
    """One agent's part in a turn."""

    speaks: bool
    hears: tuple[int, ...]  # the agents that it listens to, in the order of their rows
    heard_by: frozenset[int]  # the agents that listen to it


def role(turn: Turn, agent: int) -> Role:
    """What an agent does at a tick.

    >>> role(Broadcast(Graph.path(3)).turn(0), 0)
    Role(speaks=True, hears=(1,), heard_by=frozenset({1}))
    """
    hears: tuple[int, ...] = ()
    heard_by = set()
    for k, listener in enumerate(turn.listeners.tolist()):
        senders = turn.speakers[turn.indices[turn.indptr[k] : turn.indptr[k + 1]]].tolist()
        if listener == agent:
            hears = tuple(senders)
        if agent in senders:
            heard_by.add(listener)
    return Role(agent in turn.speakers, hears, frozenset(heard_by))


class Schedule(Protocol):
    """Which agents speak to which, at every tick."""

    def turn(self, t: int, /) -> Turn:
        """The tick t = 0, 1, ..."""
        ...


class _MadeOf:
    """A schedule that is equal to another one if both are made of the same: the same turns at all ticks."""

    _made_of: tuple[object, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MadeOf) and type(other) is type(self) and other._made_of == self._made_of

    def __hash__(self) -> int:
        return hash(type(self))


class Broadcast(_MadeOf):
    """At every tick all agents speak to all their neighbours. An iteration of the method has `period` ticks; what is
    said is used differently in each of them.

    >>> Broadcast(Graph.path(3)).turn(0).indices.tolist()
    [1, 0, 2, 1]
    """

    def __init__(self, graph: Graph, period: int = 1) -> None:
        self.period, self._made_of = period, (graph, period)
        agents = np.arange(graph.agents)
        self._turn = Turn(agents, agents, graph.indptr, graph.indices)

    def turn(self, t: int) -> Turn:
        """The same turn at every tick."""
        return self._turn


class Cycle(_MadeOf):
    """A token goes round: at tick t its holder speaks only to the next agent of `order`.

    >>> [Cycle(Graph.ring(3), order=[0, 1, 2]).turn(t).listeners.tolist() for t in range(3)]
    [[1], [2], [0]]
    """

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        for agent in order:
            whole("an agent of the order", agent, 0)
        if sorted(order) != list(range(graph.agents)):
            raise GraphError(f"a cycle visits each of the {graph.agents} agents once, unlike the order {list(order)}")
        if graph.agents < 2:
            raise GraphError(_ALONE)
        self._turns, self._made_of = [], (graph, tuple(order))
        for holder, following in zip(order, [*order[1:], order[0]], strict=True):
            if following not in graph.neighbours(holder):
                raise GraphError(f"the cycle steps from {holder} to {following}, which are not neighbours")
            self._turns.append(handed_over(holder, following))

    def turn(self, t: int) -> Turn:
        """Tick t, with the token at order[t mod n]."""
        return self._turns[t % len(self._turns)]


class Walks(_MadeOf):
    """Tokens walk at random, one step a tick, in turn: at tick t token t mod m goes to a neighbour of its holder.

    The neighbour is drawn from all of them. With a choice c > 1, c neighbours are drawn, and the token goes to the one
    that it has visited least (of several, the first that was drawn). The walks are public: every agent draws the same
    ones from the seed.

    >>> walk = Walks(Graph.ring(5), seed=1)
    >>> all(walk.turn(t).listeners == walk.turn(t + 1).speakers for t in range(9))
    True
    """

    def __init__(self, graph: Graph, seed: int, choice: int = 1, tokens: int = 1) -> None:
        whole("choice", choice, 1)
        whole("tokens", tokens, 1)
        self._graph, self._choice, self._made_of = graph, choice, (graph, seed, choice, tokens)
        self._rng = np.random.default_rng(seed)
        self._holders = [int(i) for i in self._rng.permutation(graph.agents)[np.arange(tokens) % graph.agents]]
        self._visits = np.zeros((tokens, graph.agents), dtype=int)
        self._turns: list[Turn] = []

    def turn(self, t: int) -> Turn:
        """Tick t; the walks are drawn up to the latest tick that was asked for."""
        while len(self._turns) <= t:
            token = len(self._turns) % len(self._holders)
            holder, visits = self._holders[token], self._visits[token]
            visits[holder] += 1
            near = self._graph.neighbours(holder)
            if self._choice == 1:
                following = int(near[self._rng.integers(len(near))])
            else:
                drawn = self._rng.choice(near, min(self._choice, len(near)), replace=False)
                following = int(drawn[visits[drawn].argmin()])
            self._holders[token] = following
            self._turns.append(handed_over(holder, following))
        return self._turns[t]


@dataclass(frozen=True)
class RandomWalk:
    """How `Walks` walk: from which seed, and with how much choice."""

    seed: int = 0
    choice: int = 1

    def __post_init__(self) -> None:
        whole("a walk's seed", self.seed, 0)
        whole("a walk's choice", self.choice, 1)

    def on(self, graph: Graph, tokens: int = 1) -> Walks:
        """The walks on a graph."""
        if graph.agents < 2:
            raise GraphError(_ALONE)
        return Walks(graph, self.seed, self.choice, tokens)


def way(graph: Graph, order: Sequence[int] | RandomWalk | None) -> Cycle | Walks:
    """The path of one token: a random walk, the given cycle, or a cycle that is found in the graph."""
    if isinstance(order, RandomWalk):
        return order.on(graph)
    if order is not None and not isinstance(order, list | tuple):
        raise InputError(f"the order is the agents of a cycle, or a RandomWalk, not {order!r}")
    if order is None:
        from tacit.core.hamiltonian import hamiltonian_cycle

        order = hamiltonian_cycle(graph)
    return Cycle(graph, order)


class Prepared(_MadeOf):
    """A first tick for all agents, before another schedule: they speak to all neighbours (`aloud`), or only compute."""

    def __init__(self, graph: Graph, then: Schedule, *, aloud: bool) -> None:
        self._made_of = graph, then, aloud
        agents, none = np.arange(graph.agents), np.arange(0)
        self._first = Broadcast(graph).turn(0) if aloud else Turn(agents, none, np.zeros(1, dtype=int), none)
        self._then = then

    def turn(self, t: int) -> Turn:
        """The preparation, then tick t - 1 of the other schedule."""
        return self._then.turn(t - 1) if t else self._first


class Then(_MadeOf):
    """One schedule for `ticks` ticks, then another."""

    def __init__(self, first: Schedule, ticks: int, then: Schedule) -> None:
        self._first, self._ticks, self._then = self._made_of = first, ticks, then

    def turn(self, t: int) -> Turn:
        """Tick t of the first, or tick t - ticks of the other."""
        return self._first.turn(t) if t < self._ticks else self._then.turn(t - self._ticks)


@cache
def handed_over(holder: int, following: int) -> Turn:
    """The holder speaks to one agent only."""
    return Turn(np.array([holder]), np.array([following]), np.array([0, 1]), np.array([0]))
