"""One tick of a run: some agents speak, some listen. Agents come in blocks; a method does not know how large."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Release
from tacit.core.schedule import Turn
from tacit.exchange import Link, usual_exchange
from tacit.exchange.listening import Listening
from tacit.privacy.events import Unprotected
from tacit.privacy.noise import Noise


class Blocks:
    """The agents of a network in blocks: what each block holds and knows. Blocks of one agent are kept, for tokens, and
    the last larger block, because a broadcast has the same turn again and again."""

    def __init__(self, problem: Problem, graph: Graph) -> None:
        self.problem, self.graph, self.view = problem, graph, graph.view()
        self._alone: dict[int, tuple[Problem, View]] = {}
        self._ids, self._several = self.view.ids, (problem, self.view)

    def of(self, ids: np.ndarray) -> tuple[Problem, View]:
        """The problem of these agents, and their view of the graph."""
        if len(ids) != 1:
            if ids is not self._ids:
                self._ids, self._several = ids, (self.problem.take(ids), self.graph.view(ids))
            return self._several
        agent = int(ids[0])
        if agent not in self._alone:
            self._alone[agent] = self.problem.take(ids), self.graph.view(ids)
        return self._alone[agent]


def tick(
    algorithm: Algorithm,
    state: Any,
    blocks: Blocks,
    noise: Noise | None,
    turn: Turn,
    t: int,
    link: Link | None = None,
    listening: Listening | None = None,
) -> tuple[Any, Release]:
    """The new state of all agents, and what left: the speakers of the turn speak, its listeners listen.

    algorithm, state   the method, and the state of all agents before the tick
    blocks             the problem and the graph
    noise              the source of noise
    turn, t            which agents speak and listen, and the number of the tick
    link               how messages travel; by default the usual exchange of the method
    listening          how they are read; by default, private messages are clipped to the problem's radius"""
    own = _rows(state, turn.speakers)
    said, release = algorithm.speak(own, *blocks.of(turn.speakers), noise, t)
    state = _put(state, turn.speakers, own, said)
    if not len(turn.listeners):
        return state, release
    own = _rows(state, turn.listeners)
    inbox = (link or usual_exchange(algorithm).open(blocks.graph)).deliver(release, turn, t)
    if listening is None and not all(isinstance(event, Unprotected) for event in release.events):
        listening = Listening(blocks.problem.radius)
    if listening is not None:
        inbox = listening.read(inbox, release.value, t).inbox
    after = algorithm.listen(own, inbox, blocks.of(turn.listeners)[1], t)
    return _put(state, turn.listeners, own, after), release


def _rows(state: Any, ids: np.ndarray) -> Any:
    if _everybody(ids, state):
        return state
    if len(ids) == 1:  # a view will do: a state's arrays are never written to
        i = int(ids[0])
        return type(state)(*[array[i : i + 1] for array in state])
    return type(state)(*[array[ids] for array in state])


def _put(state: Any, ids: np.ndarray, before: Any, after: Any) -> Any:
    """The state with new rows for these agents; arrays that they did not change are not copied."""
    if _everybody(ids, state):
        return after
    whole = list(state)
    for k, rows in enumerate(after):
        if rows is not before[k]:
            whole[k] = whole[k].copy()
            whole[k][ids] = rows
    return type(state)(*whole)


def _everybody(ids: np.ndarray, state: Any) -> bool:
    n = len(state[0])
    return len(ids) == n and bool(np.all(ids == np.arange(n)))
