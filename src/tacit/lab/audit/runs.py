"""Many runs of one agent, side by side, on either of two neighbouring data sets.

The agent runs as it does in an organisation's own process: a block that speaks and listens when its schedule says so.
All other agents are the attacker. They say what they like, and they hear everything that the agent says. So the
transcript, all that the agent releases in a run, is all that the others can learn about its records.

A transcript has all released numbers as they are. If a minimiser leaves, it also has the last digits of the first one.
Noise in an objective lies on a grid. If the minimiser left without a mask, the linear term that belongs to it could be
computed for each of the two data sets, and only the true one would lie on that grid: however large the noise, the last
digits would reveal the record (Mironov 2012 found this for noise in floating point).

The copies of the agent lie side by side in one block. A method does not know how large a block is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.facts import Facts
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox
from tacit.core.schedule import role
from tacit.engines import Workers
from tacit.exchange.listening import Listening
from tacit.lab.audit.guess import Progress, audit_transcripts
from tacit.lab.audit.lower_bounds import Audited, check_samples, seeded_bytes
from tacit.privacy.noise import LawName, Noise, SecureNoise

_SIZE = 500  # runs in a batch
AGENT = 0  # whose records are under attack


@dataclass(frozen=True)
class Case:
    """A run that is audited: the method, its public setting, the two data sets, and what it claims."""

    algorithm: Algorithm
    ticks: int
    graph: Graph
    facts: Facts
    rows: tuple[np.ndarray, np.ndarray]  # (B, d) each, of which one row differs; all have the label +1
    epsilon: float
    delta: float = 0.0  # of a pure claim
    step: float | None = None  # of the grid on which the first release would lie without its mask
    said: np.ndarray | None = None  # (ticks, neighbours, d) what the others say at every tick; zeros, if not given
    mu: float | None = None  # how far apart the two data sets are with correct code, if that is known
    together: bool = False  # whether a transcript is the sum of all releases: for rounds that all say the same
    gaussian: bool = True  # whether the claim is that of a Gaussian mechanism, if delta is not 0

    @cached_property
    def roles(self) -> list[tuple[bool, int]]:
        """For every tick, whether the agent speaks, and how many agents it hears."""
        schedule = self.algorithm.schedule(self.graph)
        parts = [role(schedule.turn(t), AGENT) for t in range(self.ticks)]
        return [(part.speaks, len(part.hears)) for part in parts]

    def problem(self, which: int, copies: int) -> Problem:
        """So many copies of the agent, with one of the two data sets."""
        rows, facts = self.rows[which], self.facts
        return Problem(
            [(rows, np.ones(len(rows)))] * copies,
            loss=facts.loss,
            scale=float(facts.scale[AGENT]),
            l2=facts.l2,
            tolerance=facts.tolerance,
            radius=facts.radius,
        )

    def transcripts(self, problem: Problem, noise: Noise) -> np.ndarray:
        """(copies, numbers): all that each copy of the agent says in one run."""
        copies, d = problem.agents, problem.dimension
        view = View(np.arange(copies), np.full((copies, 1), float(self.graph.degree[AGENT])), self.graph.agents)
        start, listening = np.zeros((copies, d)), Listening(self.facts.radius)
        neighbours = int(self.graph.degree[AGENT])

        def inbox(rows: np.ndarray) -> Inbox:
            return Inbox(np.tile(rows, (copies, 1)), len(rows) * np.arange(copies + 1))

        state, released = self.algorithm.init(problem, view, start, inbox(np.zeros((neighbours, d)))), []
        for t, (speaks, hears) in enumerate(self.roles):
            own = start
            if speaks:
                state, release = self.algorithm.speak(state, problem, view, noise, t)
                released.append(own := release.value)
            if hears:
                heard = inbox(np.zeros((hears, d)) if self.said is None else self.said[t])
                state = self.algorithm.listen(state, listening.read(heard, own, t).inbox, view, t)
        if self.together:
            return np.sum(released, axis=0)
        if self.step is not None:
            turns = 2 * np.pi * np.remainder(released[0] / self.step, 1.0)
            released += [np.cos(turns), np.sin(turns)]
        return np.concatenate(released, axis=1)


class HalfTheNoise(SecureNoise):
    """Draws half of the noise: a bug that an audit must catch."""

    def _rounded(
        self, law: LawName, value: np.ndarray, base: np.ndarray, scale: np.ndarray, step: np.ndarray
    ) -> np.ndarray:
        return super()._rounded(law, value, base, scale / 2, step)


@dataclass(frozen=True)
class _Batches:
    """Runs of a case, a batch at a time. A run has its own source of noise."""

    case: Case
    size: int
    seed: int
    source: Callable[..., Noise]

    @cached_property
    def problems(self) -> list[Problem]:
        return [self.case.problem(which, self.size) for which in (0, 1)]

    def __call__(self, which: int, batch: int) -> np.ndarray:
        noise = self.source(random_bytes=seeded_bytes(self.seed, which, batch))
        return self.case.transcripts(self.problems[which], noise)


def audit_run(
    case: Case,
    *,
    planted: bool = False,
    seed: int = 0,
    samples: int = 40_000,
    minutes: float | None = None,
    progress: Progress | None = None,
    source: Callable[..., Noise] | None = None,
    workers: Workers | None = None,
) -> Audited:
    """Runs the case with `SecureNoise` on both data sets and reports a lower bound on epsilon.

    planted   with a bug that the audit should catch: half the noise
    seed      of the bits that the noise is made of, so that an audit can be repeated
    samples, minutes, progress, workers   as in `audit_transcripts`
    source    makes another noise, from `random_bytes`
    """
    check_samples(samples)
    size = min(_SIZE, samples // 5)
    return audit_transcripts(
        _Batches(case, size, seed, source or (HalfTheNoise if planted else SecureNoise)),
        size=size,
        epsilon=case.epsilon,
        delta=case.delta,
        mu=case.mu,
        gaussian=case.gaussian,
        samples=samples,
        minutes=minutes,
        progress=progress,
        workers=workers,
    )
