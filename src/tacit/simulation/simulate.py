"""The loop: every agent of a graph, in one process."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Multinomial
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast, Turn
from tacit.errors import InputError, whole
from tacit.exchange import Exchange, IdealTotals, SecretSharedSums, SecretSharedTotals, usual_exchange
from tacit.exchange.listening import Listening, check_robust
from tacit.privacy.events import Event, Free, Unprotected
from tacit.privacy.noise import Noise
from tacit.simulation.run import Run, resumed
from tacit.simulation.tick import Blocks, tick

_STRIDE = 10_000  # ticks that a compiled loop takes at once: a fraction of a second


def simulate(
    algorithm: Algorithm,
    problem: Problem,
    graph: Graph,
    *,
    rounds: int,
    noise: Noise | None = None,
    start: np.ndarray | float | None = None,
    record: bool = False,
    tolerance: float | None = None,
    measure_every: int = 1,
    resume: Run | None = None,
    exchange: Exchange | None = None,
    robust: str | None = None,
    overheard: Callable[[int, Turn, Release], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Runs `rounds` rounds of the algorithm with every agent of the graph in this process.

        noise          the source of noise, for private methods
        start          (N, d) or (d,), zero by default; public: neighbours know each other's before the first round
        record         keeps the trajectory
        tolerance      stops the run when no agent's residuals are above it
        measure_every  history and trajectory have the first, the last and every so many-th round: to measure all
                       agents takes as long as a short round
        resume         goes on from an earlier run until `rounds` rounds are done in all; the result is the same as
                       without the interruption
        exchange       how messages travel: `Plain()`, or `SecretSharedSums()` for methods that need only `inbox.sum()`;
                       for methods on totals `IdealTotals()`, which is their default, or `SecretSharedTotals()`
        robust         "clipping", "trimmed" or "median": how agents read messages, against members that lie
                       (`tacit.exchange.listening`)
        overheard      is called with every tick, its turn and what was said, like an eavesdropper on all links
        progress       is called with the number of rounds done

    In a private run, models are clipped to the problem's radius when they are heard.

    >>> from tacit.algorithms import ConsensusADMM
    >>> problem = Problem([([[1.0], [0.5]], [1, -1]), ([[-1.0]], [1])], l2=0.1)
    >>> run = simulate(ConsensusADMM(penalty=0.2), problem, Graph.path(2), rounds=200)
    >>> bool(abs(run.model - problem.optimum()) < 1e-8)
    True
    """
    _check(algorithm, problem, graph, rounds, start, tolerance, measure_every, resume, exchange, overheard)
    simulation = _Simulation(algorithm, problem, graph, noise, start, record, tolerance, exchange, robust, overheard)
    if resume is None:
        simulation.measure()
    else:
        simulation.restore(resume, rounds)
    while simulation.done < rounds and not simulation.converged:
        simulation.advance(rounds, measure_every)
        if simulation.done % measure_every == 0 or simulation.done == rounds:
            simulation.measure()
        if progress is not None:
            progress(simulation.done)
    return simulation.run()


def _check(
    algorithm: Algorithm,
    problem: Problem,
    graph: Graph,
    rounds: int,
    start: Any,
    tolerance: float | None,
    measure_every: int,
    resume: Run | None,
    exchange: Exchange | None,
    overheard: Any,
) -> None:
    """Refuses arguments of the wrong kind, or that do not go together."""
    if graph.agents != problem.agents:
        raise InputError(f"the graph has {graph.agents} agents, the problem {problem.agents}")
    whole("rounds", rounds, 0)
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"tolerance must be a positive number, not {tolerance}")
    whole("measure_every", measure_every, 1)
    if resume is not None and not isinstance(resume, Run):
        raise InputError(f"resume is a Run, such as Run.load reads from a file, not {resume!r}")
    if exchange is not None and (isinstance(exchange, type) or not hasattr(exchange, "open")):
        raise InputError(f"exchange is Plain(), SecretSharedSums() or SecretSharedTotals(), not {exchange!r}")
    if overheard is not None and not callable(overheard):
        raise InputError(f"overheard is a function of tick, turn and release, not {overheard!r}")
    if resume is not None and start is not None:
        raise InputError("start is for a new run; a resumed run goes on from where it stopped")
    totals = getattr(algorithm, "totals", False)  # no link carries a row
    if isinstance(exchange, IdealTotals | SecretSharedTotals) and not totals:
        raise InputError(
            f"totals are for methods that need the sum over all members; {type(algorithm).__name__} needs its "
            "neighbours' rows: take Plain() or SecretSharedSums()"
        )
    if overheard is not None and (exchange is not None or totals):
        raise InputError("overheard is for plain messages, which need no exchange")


class _Simulation:
    """A run in progress: the state of all agents, and what was measured so far."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        graph: Graph,
        noise: Noise | None,
        start: Any,
        record: bool,
        tolerance: float | None,
        exchange: Exchange | None,
        robust: str | None,
        overheard: Callable[[int, Turn, Release], None] | None,
    ) -> None:
        self.algorithm, self.problem, self.noise, self.overheard = algorithm, problem, noise, overheard
        self.record, self.tolerance = record, tolerance
        self.blocks, self.schedule = Blocks(problem, graph), algorithm.schedule(graph)
        self.listening = self._listening(robust, exchange)
        f0 = problem.as_rows(0.0 if start is None else start, "start").copy()
        if not np.all(np.isfinite(f0)):
            raise InputError("start must be finite")
        self.state = algorithm.init(problem, self.blocks.view, f0, Inbox(f0, graph.indptr, graph.indices))
        self.link = (exchange or usual_exchange(algorithm)).open(graph)
        self.identity = {
            "algorithm": f"{type(algorithm).__name__} {json.dumps(asdict(algorithm), sort_keys=True, default=_listed)}",
            "problem": problem.fingerprint(),
            "graph": json.dumps(graph.edges),
            **({} if robust is None else {"robust": robust}),
        }
        # Compiled, where nothing is protected, no eavesdropper listens, and one agent speaks to one.
        compiled = getattr(algorithm, "strides", False) and not isinstance(problem.loss, Multinomial)
        self.strides = compiled and overheard is None and exchange is None
        self.done, self.converged, self.seeded = 0, False, noise is not None and not noise.private
        self.history: list[dict[str, float]] = []
        self.spent: list[Counter[Event]] = [Counter() for _ in range(graph.agents)]
        self.trajectory: list[np.ndarray] = []

    def _listening(self, robust: str | None, exchange: Exchange | None) -> Listening | None:
        if robust is None:
            return None
        check_robust(robust, int(self.blocks.graph.degree.min()))
        sums = isinstance(exchange, SecretSharedSums) or getattr(self.algorithm, "totals", False)
        if not isinstance(self.schedule, Broadcast) or sums:
            raise InputError(
                "robust listening compares rows: it is for methods in which all speak at once, in the open"
            )
        radius = math.inf if self.noise is None else self.problem.radius  # exact values may be as large as they are
        return Listening(radius, robust, self.schedule.period)

    def restore(self, run: Run, rounds: int) -> None:
        """Goes on from an earlier run."""
        self.state = resumed(run, self.state, self.identity)
        self.done, self.spent = run.rounds, [counter.copy() for counter in run.spent]
        self.history = [dict(zip(run.history, row, strict=True)) for row in zip(*run.history.values(), strict=True)]
        self.link.sent.update({name: n + int(self.history[-1][name]) for name, n in self.link.sent.items()})
        if self.record:
            if run.trajectory is None:
                raise InputError("the run to resume was not recorded: its trajectory cannot be continued")
            self.trajectory = list(run.trajectory)
        if self.done > rounds:
            raise InputError(f"the run to resume has {self.done} rounds already, more than the {rounds} asked for")
        if self.listening is not None:
            self.listening.memory = run.heard
        self.seeded = self.seeded or run.seeded
        self.converged = self.done > 0 and self._is_converged()

    def advance(self, rounds: int, measure_every: int) -> None:
        """By one tick, or by as many as need not be measured."""
        if self.strides:
            self._stride(min(rounds, self.done + _STRIDE, self.done - self.done % measure_every + measure_every))
        else:
            self._tick()

    def _tick(self) -> None:
        t, turn = self.done, self.schedule.turn(self.done)
        self.state, release = tick(
            self.algorithm, self.state, self.blocks, self.noise, turn, t, self.link, self.listening
        )
        if self.tolerance is not None and not all(isinstance(event, Unprotected | Free) for event in release.events):
            raise InputError(
                "a private run has a fixed number of rounds, leave out tolerance: to stop by what was released "
                "costs more than was planned"
            )
        for agent, event in zip(turn.speakers, release.events, strict=True):
            self.spent[agent][event] += 1
        if self.overheard is not None:
            self.overheard(t, turn, release)
        self.done = t + 1

    def _stride(self, until: int) -> None:
        turns = [self.schedule.turn(t) for t in range(self.done, until)]
        holders = np.array([turn.speakers[0] for turn in turns] + [turns[-1].listeners[0]])
        self.state = self.algorithm.stride(self.state, self.problem, holders)  # type: ignore[attr-defined]
        for agent, visits in enumerate(np.bincount(holders[:-1], minlength=len(self.spent))):
            self.spent[agent] += Counter({Unprotected(): int(visits)})
        self.link.sent["messages"] += len(turns)
        self.link.sent["bytes"] += len(turns) * 8 * self.problem.dimension
        self.done = until

    def measure(self) -> None:
        """Measures all agents, which only a simulation can do."""
        f = self.algorithm.estimate(self.state)
        primal, dual = self.algorithm.residuals(self.state, self.blocks.view)
        own = self.problem.average_loss(f)
        model = (
            own if len(f) == 1 else self.problem.average_loss(f.mean(axis=0))
        )  # a single agent's model is the average
        measured = {
            "round": self.done,
            "loss": float(own.mean()),  # each agent on its own rows: L(t) of paper 000, section VIII
            "model_loss": float(np.average(model, weights=self.problem.scale)),  # of run.model
            "consensus_error": float(np.linalg.norm(f - f.mean(axis=0), axis=1).max()),
            "primal_residual": float(primal.max()),
            "dual_residual": float(dual.max()),
            **self.link.sent,
        }
        self.history.append(measured)
        if self.record:
            self.trajectory.append(f.copy())
        self.converged = self.done > 0 and self._is_converged()

    def _is_converged(self) -> bool:
        last, tolerance = self.history[-1], self.tolerance  # a residual that is not known yet is NaN: not below
        return tolerance is not None and all(last[name] <= tolerance for name in ("primal_residual", "dual_residual"))

    def run(self) -> Run:
        """The result so far."""
        return Run(
            state=self.state,
            rounds=self.done,
            estimate=self.algorithm.estimate(self.state),
            history={name: np.array([row[name] for row in self.history]) for name in self.history[0]},
            spent=self.spent,
            trajectory=np.array(self.trajectory) if self.record else None,
            converged=self.converged,
            seeded=self.seeded,
            identity=self.identity,
            heard=None if self.listening is None else self.listening.memory,
        )


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)
