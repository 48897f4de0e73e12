"""What an eavesdropper knows, and what it tries to find out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from tacit.algorithms import IncrementalADMM
from tacit.algorithms.incremental_admm import State
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.exchange import Plain
from tacit.privacy.noise import Noise
from tacit.simulation.tick import Blocks, tick


class States(NamedTuple):
    """What the holder of the token has after its tick, for each tick: the truth, or an estimate of it."""

    x: np.ndarray  # (K, d) x_{i_k}^{k+1}
    y: np.ndarray  # (K, d) y_{i_k}^{k+1}

    def errors(self, truth: States) -> States:
        """||x - true x|| and ||y - true y||, (K,) each."""
        return States(*(np.linalg.norm(a - b, axis=1) for a, b in zip(self, truth, strict=True)))


class Transcript:
    """The tokens that an eavesdropper on all links hears, and which agents held them. N and rho are public.

    Give it to `simulate` as `overheard`. The token is 0 at first. A tick in which several speak is the preparation:
    no token is passed, and the eavesdropper does not hear what the agents say to each other then. That is in `parts`,
    (N, d), for colluders: each agent's row goes to all its neighbours.
    """

    def __init__(self, agents: int, penalty: float) -> None:
        self.agents, self.penalty = agents, penalty
        self._holders: list[int] = []
        self._receivers: list[int] = []
        self._tokens: list[np.ndarray] = []
        self.parts: np.ndarray | None = None

    def __call__(self, t: int, turn: Turn, release: Release) -> None:
        if len(turn.speakers) == 1:
            self._holders.append(int(turn.speakers[0]))
            self._receivers.append(int(turn.listeners[0]))
            self._tokens.append(release.value[0])
        elif len(turn.listeners):
            self.parts = release.value

    def __len__(self) -> int:
        return len(self._holders)

    def within(self, coalition: Collection[int]) -> Transcript:
        """The same as a coalition of agents knows it: NaN for the tokens that none of them handed on or received."""
        out = Transcript(self.agents, self.penalty)
        out._holders, out._receivers, out.parts = self._holders, self._receivers, self.parts
        ends = zip(self._holders, self._receivers, strict=True)
        known = [holder in coalition or receiver in coalition for holder, receiver in ends]
        out._tokens = [z if k else np.full_like(z, np.nan) for z, k in zip(self._tokens, known, strict=True)]
        return out

    @property
    def holders(self) -> np.ndarray:
        """The agent i_k that held the token at each tick, (K,)."""
        return np.array(self._holders, dtype=int)

    @property
    def receivers(self) -> np.ndarray:
        """i_{k+1}, (K,): to whom the token was handed on."""
        return np.array(self._receivers, dtype=int)

    @property
    def tokens(self) -> np.ndarray:
        """z^0, ..., z^K, (K+1, d)."""
        if not self._tokens:
            raise InputError("nothing was overheard: the transcript has no tokens")
        return np.array([np.zeros_like(self._tokens[0]), *self._tokens])

    @property
    def moves(self) -> np.ndarray:
        """N Delta^{k+1}, (K, d): by how much the holder's S_i = x_i - y_i/rho grew, by (5)."""
        return self.agents * np.diff(self.tokens, axis=0)

    @property
    def previous(self) -> np.ndarray:
        """The tick of the holder's last visit before this one, (K,); -1 if this is its first."""
        last = np.full(self.agents, -1)
        out = np.empty(len(self), dtype=int)
        for k, i in enumerate(self._holders):
            out[k], last[i] = last[i], k
        return out

    @property
    def sums(self) -> np.ndarray:
        """S_i after each tick, (K, d), from S_i^0 = 0: whatever the steps and the noise, the moves add up to it."""
        out = self.moves
        for k, before in enumerate(self.previous):
            if before >= 0:
                out[k] += out[before]
        return out

    def visits(self, agent: int) -> np.ndarray:
        """The ticks at which this agent held the token."""
        return np.flatnonzero(self.holders == agent)

    def by_visit(self, values: np.ndarray) -> np.ndarray:
        """(most visits, N, ...) of what was given for each tick, (K, ...); NaN where an agent had fewer visits."""
        ticks = [self.visits(i) for i in range(self.agents)]
        out = np.full((max(map(len, ticks)), self.agents, *values.shape[1:]), np.nan)
        for i, own in enumerate(ticks):
            out[: len(own), i] = values[own]
        return out


class Overheard(NamedTuple):
    """A run as an eavesdropper knows it, and as it was."""

    heard: Transcript
    truth: States
    gradient: np.ndarray  # (K, d) of f_i, as the holder knows it: without noise, y_i is that


def listen_in(
    algorithm: IncrementalADMM,
    problem: Problem,
    graph: Graph,
    ticks: int,
    noise: Noise | None = None,
    progress: Callable[[int], None] | None = None,
) -> Overheard:
    """Runs the method from zero until the token has been handed on `ticks` times. `progress` is called with the number
    of ticks done.

    The gradient is the one that the holder took: at the minimiser of (4a) without its noise, or of (8) at x_i^k.
    """
    if ticks < 1:
        raise InputError(f"an eavesdropper needs a tick or more to hear something, not {ticks}")
    heard, schedule = Transcript(graph.agents, algorithm.penalty), algorithm.schedule(graph)
    zero = problem.as_rows(0.0, "start").copy()
    state = algorithm.init(problem, graph.view(), zero, Inbox(zero, graph.indptr, graph.indices))
    blocks, link = Blocks(problem, graph.view()), Plain().open(graph)
    true_x, true_y, gradient, t = [], [], [], 0
    while len(heard) < ticks:
        turn, before = schedule.turn(t), state
        state, release = tick(algorithm, state, blocks, noise, turn, t, link)
        heard(t, turn, release)
        t += 1
        if len(turn.speakers) > 1:
            continue
        i = turn.speakers
        true_x.append(state.x[i[0]])
        true_y.append(state.y[i[0]])
        gradient.append(_gradient(algorithm, blocks.of(i)[0], before, state, i))
        if progress is not None:
            progress(len(heard))
    return Overheard(heard, States(np.array(true_x), np.array(true_y)), np.array(gradient))


def _gradient(algorithm: IncrementalADMM, own: Problem, before: State, after: State, i: np.ndarray) -> np.ndarray:
    x = after.x[i]
    if not algorithm.exact:
        x = before.x[i]
    elif algorithm.deviation is not None or algorithm.budget is not None:
        rho = algorithm.penalty
        x = own.argmin(linear=0.0, weight=rho / 2, centre=before.token[i] + before.y[i] / rho, start=before.x[i])
    return own.gradient(x)[0]
