"""One tick of a run: some agents speak, some listen. Agents come in blocks; a method does not know how large."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.alike import distinct
from tacit.core.graph import View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.exchange import Link
from tacit.exchange.listening import Listening
from tacit.privacy.events import Event
from tacit.privacy.noise import Noise


class Blocks:
    """The agents of a process in blocks: what each block holds and knows. Blocks of one agent are kept, for tokens, and
    the last larger block, because a broadcast has the same turn again and again. Agents are named by their places."""

    def __init__(self, problem: Problem, view: View) -> None:
        self.problem, self.view = problem, view
        self._alone: dict[int, tuple[Problem, View]] = {}
        self._places, self._several = np.arange(problem.agents), (problem, view)

    def of(self, places: np.ndarray) -> tuple[Problem, View]:
        """The problem of these agents, and their view of the graph."""
        if len(places) != 1:
            if places is not self._places:
                self._places = places
                self._several = self.problem.take(places), self.view.take(places)
            return self._several
        agent = int(places[0])
        if agent not in self._alone:
            self._alone[agent] = self.problem.take(places), self.view.take(places)
        return self._alone[agent]


def tick(
    algorithm: Algorithm,
    state: Any,
    blocks: Blocks,
    noise: Noise | None,
    turn: Turn,
    t: int,
    link: Link,
    listening: Listening | None = None,
) -> tuple[Any, Release]:
    """The new state of all agents, and what left: the speakers of the turn speak, its listeners listen.

    algorithm, state   the method, and the state of all agents before the tick
    blocks             what the agents hold and know
    noise              the source of noise
    turn, t            which agents speak and listen, and the number of the tick
    link               how messages travel
    listening          how they are read; by default, private messages are clipped to the problem's radius"""
    state, release = speak(algorithm, state, blocks, noise, turn.speakers, t)
    if not len(turn.listeners):
        return state, release
    inbox = link.deliver(release, turn, t)
    if listening is None and protected(release.events):
        listening = Listening(blocks.problem.radius)
    return listen(algorithm, state, blocks, turn.listeners, inbox, release.value, t, listening), release


def speak(
    algorithm: Algorithm, state: Any, blocks: Blocks, noise: Noise | None, speakers: np.ndarray, t: int
) -> tuple[Any, Release]:
    """The first half of a tick: the new state, and what the speakers say."""
    own = _rows(state, speakers)
    said, release = algorithm.speak(own, *blocks.of(speakers), noise, t)
    return _put(state, speakers, own, said), release


def listen(
    algorithm: Algorithm,
    state: Any,
    blocks: Blocks,
    listeners: np.ndarray,
    inbox: Inbox,
    said: np.ndarray,
    t: int,
    listening: Listening | None,
) -> Any:
    """The second half: the new state, after the listeners have read their inbox; `said` is what the speakers among
    these agents said."""
    if listening is not None:
        inbox = listening.read(inbox, said, t).inbox
    own = _rows(state, listeners)
    after = algorithm.listen(own, inbox, blocks.of(listeners)[1], t)
    return _put(state, listeners, own, after)


def protected(events: Iterable[Event]) -> bool:
    """Whether anything of this is said under an event that protects it."""
    return any(event.protected for event in distinct(events))


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
