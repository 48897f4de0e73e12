"""The agents of a run: what the loop of a simulation asks of them, and all of them in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.exchange import Link
from tacit.exchange.listening import Listening
from tacit.privacy.events import Event
from tacit.privacy.noise import Noise
from tacit.simulation.tick import Blocks, tick


@dataclass(frozen=True)
class SimulatedRun:
    """What a run consists of, wherever its agents are."""

    algorithm: Algorithm
    problem: Problem
    graph: Graph
    noise: Noise | None
    start: np.ndarray  # (N, d)
    link: Link
    listening: Listening | None


class WentBack(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """Agents were lost. All agents are again where they were after `done` ticks."""

    def __init__(self, done: int) -> None:
        super().__init__(f"back to tick {done}")
        self.done = done


class Agents(Protocol):
    """All agents of a run."""

    def tick(self, turn: Turn, t: int) -> Sequence[Event]:
        """The speakers of the turn speak, its listeners listen: what it has cost each speaker."""
        ...

    def state(self) -> Any:
        """The state of all agents."""
        ...

    def heard(self) -> np.ndarray | None:
        """What robust listeners remember of their neighbours."""
        ...

    def restore(self, state: Any, heard: np.ndarray | None, done: int) -> None:
        """Puts all agents into an earlier state, after `done` ticks."""
        ...

    def estimate(self) -> np.ndarray:
        """Each agent's model, (N, d)."""
        ...

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each agent is from agreement and from optimality, (N,) each."""
        ...

    def average_loss(self, f: np.ndarray | None = None) -> np.ndarray:
        """The average loss of each agent on its own rows, (N,), of its own model, or of f, (d,)."""
        ...


class Together:
    """All agents, in this process."""

    def __init__(self, setting: SimulatedRun, overheard: Callable[[int, Turn, Release], None] | None = None) -> None:
        self._setting, self._overheard = setting, overheard
        algorithm, problem, graph, f0 = setting.algorithm, setting.problem, setting.graph, setting.start
        self._blocks = Blocks(problem, graph.view())
        self._state = algorithm.init(problem, self._blocks.view, f0, Inbox(f0, graph.indptr, graph.indices))

    def tick(self, turn: Turn, t: int) -> Sequence[Event]:
        """One tick; the eavesdropper hears what was said."""
        s = self._setting
        self._state, release = tick(s.algorithm, self._state, self._blocks, s.noise, turn, t, s.link, s.listening)
        if self._overheard is not None:
            self._overheard(t, turn, release)
        return release.events

    def stride(self, holders: np.ndarray) -> None:
        """Many ticks of a token at once, compiled."""
        self._state = self._setting.algorithm.stride(self._state, self._setting.problem, holders)  # type: ignore[attr-defined]

    def state(self) -> Any:
        return self._state

    def heard(self) -> np.ndarray | None:
        return None if self._setting.listening is None else self._setting.listening.memory

    def restore(self, state: Any, heard: np.ndarray | None, done: int) -> None:
        self._state = state
        if self._setting.listening is not None:
            self._setting.listening.memory = heard

    def estimate(self) -> np.ndarray:
        return self._setting.algorithm.estimate(self._state)

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        return self._setting.algorithm.residuals(self._state, self._blocks.view)

    def average_loss(self, f: np.ndarray | None = None) -> np.ndarray:
        return self._setting.problem.average_loss(self.estimate() if f is None else f)
