"""The loop: every agent of a graph, in one process."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.algorithm import Algorithm, traits
from tacit.core.alike import distinct
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Release
from tacit.core.schedule import Broadcast, Turn
from tacit.errors import InputError, whole
from tacit.exchange import Exchange, IdealTotals, SecretSharedSums, SecretSharedTotals, usual_exchange
from tacit.exchange.listening import Listening, check_robust
from tacit.privacy.events import Unprotected
from tacit.privacy.noise import Noise
from tacit.simulation.agents import Agents, SimulatedRun, Together, WentBack
from tacit.simulation.result import Run, resumed
from tacit.simulation.spent import Spending

if TYPE_CHECKING:
    from tacit.engines import Engine, Ray

_STRIDE = 10_000  # ticks that a compiled loop takes at once: a fraction of a second
_MEASURED = 100  # times that a private run is measured by default, at most


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
    measure_every: int | None = None,
    resume: Run | None = None,
    exchange: Exchange | None = None,
    robust: str | None = None,
    overheard: Callable[[int, Turn, Release], None] | None = None,
    progress: Callable[[int], None] | None = None,
    engine: Engine | None = None,
) -> Run:
    """Runs `rounds` rounds of the algorithm with every agent of the graph, in this process if no engine is given.

        noise          the source of noise, for private methods
        start          (N, d) or (d,), zero by default; public: neighbours know each other's before the first round
        record         keeps the trajectory
        tolerance      stops the run when no agent's residuals are above it
        measure_every  history and trajectory have the first, the last and every so many-th round; results do not
                       depend on it. To measure all agents takes as long as a short round. By default every round is
                       measured; of a private run (noise that protects, nothing recorded) that is longer than 100
                       rounds, about 100 of them
        resume         goes on from an earlier run until `rounds` rounds are done in all; the result is the same as
                       without the interruption
        exchange       how messages travel: `Plain()`, or `SecretSharedSums()` for methods that need only `inbox.sum()`;
                       for methods on totals `IdealTotals()`, which is their default, or `SecretSharedTotals()`
        robust         "clipping", "trimmed" or "median": how agents read messages, against members that lie
                       (`tacit.exchange.listening`)
        overheard      is called with every tick, its turn and what was said, like an eavesdropper on all links
        progress       is called with the number of rounds done
        engine         `tacit.engines.Ray(shards=2)`: the agents are divided among processes of a Ray cluster, with the
                       same result to the last bit (`tacit.simulation.shards`)

    In a private run, models are clipped to the problem's radius when they are heard.

    >>> from tacit.algorithms import ConsensusADMM
    >>> problem = Problem([([[1.0], [0.5]], [1, -1]), ([[-1.0]], [1])], l2=0.1)
    >>> run = simulate(ConsensusADMM(penalty=0.2), problem, Graph.path(2), rounds=200)
    >>> bool(abs(run.model - problem.optimum()) < 1e-8)
    True
    """
    _check(algorithm, problem, graph, rounds, start, tolerance, measure_every, resume, exchange, overheard)
    if measure_every is None:
        sparse = noise is not None and noise.private and not record and tolerance is None
        measure_every = max(1, math.ceil(rounds / _MEASURED)) if sparse else 1
    simulation = _Simulation(algorithm, problem, graph, noise, start, record, tolerance, exchange, robust)
    with simulation.agents_on(engine, overheard):
        while True:
            try:
                if not simulation.history:
                    simulation.begin(resume, rounds)
                while simulation.done < rounds and not simulation.converged:
                    simulation.advance(rounds, measure_every)
                    if simulation.done % measure_every == 0 or simulation.done == rounds:
                        simulation.measure()
                    if progress is not None:
                        progress(simulation.done)
                return simulation.run()
            except WentBack as back:
                simulation.go_back(back.done)


def _check(
    algorithm: Algorithm,
    problem: Problem,
    graph: Graph,
    rounds: int,
    start: Any,
    tolerance: float | None,
    measure_every: int | None,
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
    if measure_every is not None:
        whole("measure_every", measure_every, 1)
    if resume is not None and not isinstance(resume, Run):
        raise InputError(f"resume is a Run, such as Run.load reads from a file, not {resume!r}")
    if exchange is not None and (isinstance(exchange, type) or not hasattr(exchange, "open")):
        raise InputError(f"exchange is Plain(), SecretSharedSums() or SecretSharedTotals(), not {exchange!r}")
    if overheard is not None and not callable(overheard):
        raise InputError(f"overheard is a function of tick, turn and release, not {overheard!r}")
    if resume is not None and start is not None:
        raise InputError("start is for a new run; a resumed run goes on from where it stopped")
    totals = traits(algorithm).totals  # no link carries a row
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
    ) -> None:
        self.algorithm, self.problem, self.graph, self.noise = algorithm, problem, graph, noise
        self.record, self.tolerance, self.schedule = record, tolerance, algorithm.schedule(graph)
        f0 = problem.as_rows(0.0 if start is None else start, "start").copy()
        if not np.all(np.isfinite(f0)):
            raise InputError("start must be finite")
        self.link = (exchange or usual_exchange(algorithm)).open(graph)
        listening = self._listening(robust, exchange)
        self.setting = SimulatedRun(algorithm, problem, graph, noise, f0, self.link, listening)
        self.agents: Agents
        self.identity = {
            "algorithm": f"{type(algorithm).__name__} {json.dumps(asdict(algorithm), sort_keys=True, default=_listed)}",
            "problem": problem.fingerprint(),
            "graph": graph.fingerprint(),
            **({} if robust is None else {"robust": robust}),
        }
        # Compiled, where nothing is protected, no eavesdropper listens, and one agent speaks to one.
        compiled = traits(algorithm).strides(algorithm) and problem.store.compiled
        self.strides = compiled and exchange is None
        self.done, self.converged, self.seeded = 0, False, noise is not None and not noise.private
        self.history: list[dict[str, float]] = []
        self.spending = Spending(graph.agents)
        self.trajectory: list[np.ndarray] = []
        self._begun, self._unpaid = 0, Counter[int]()  # ticks that were begun, and releases not yet counted in `spent`

    @contextmanager
    def agents_on(
        self, engine: Engine | None, overheard: Callable[[int, Turn, Release], None] | None
    ) -> Iterator[None]:
        """Starts all agents, here or on an engine, and ends them."""
        if (ray := _on_ray(engine)) is None:
            self.agents = Together(self.setting, overheard)
            self.strides = self.strides and overheard is None
            yield
            return
        if overheard is not None:
            raise InputError("overheard needs all messages in one process: leave out engine")
        from tacit.simulation.shards import Shards  # as slow to import as its cluster is to start

        self.strides = False
        with Shards.opened(ray, self.setting) as self.agents:
            yield

    def _listening(self, robust: str | None, exchange: Exchange | None) -> Listening | None:
        method: Any = self.algorithm
        totals = traits(method).totals
        if robust is None:
            bounds = method.bounds(self.problem) if totals else None
            # Without bounds, private messages are read within the radius: `tick`.
            return None if bounds is None else Listening(self.problem.radius, bounds=bounds)
        check_robust(robust, int(self.graph.degree.min()))
        sums = isinstance(exchange, SecretSharedSums) or totals
        if not isinstance(self.schedule, Broadcast) or sums:
            raise InputError(
                "robust listening compares rows: it is for methods in which all speak at once, in the open"
            )
        radius = math.inf if self.noise is None else self.problem.radius  # exact values may be as large as they are
        return Listening(radius, robust, self.schedule.period)

    def begin(self, run: Run | None, rounds: int) -> None:
        """Measures the start, or goes on from an earlier run."""
        if run is None:
            return self.measure()
        state = resumed(run, self.agents.state(), self.identity)
        self.done, self.spending = run.rounds, Spending(len(run.spent), run.spent)
        self.history = [dict(zip(run.history, row, strict=True)) for row in zip(*run.history.values(), strict=True)]
        self.link.sent.update({name: n + int(self.history[-1][name]) for name, n in self.link.sent.items()})
        if self.record:
            if run.trajectory is None:
                raise InputError("the run to resume was not recorded: its trajectory cannot be continued")
            self.trajectory = list(run.trajectory)
        if self.done > rounds:
            raise InputError(f"the run to resume has {self.done} rounds already, more than the {rounds} asked for")
        self.agents.restore(state, run.heard, self.done)
        self.seeded = self.seeded or run.seeded
        self.converged = self.done > 0 and self._is_converged()

    def advance(self, rounds: int, measure_every: int) -> None:
        """By one tick, or by as many as need not be measured."""
        if self.strides:
            self._stride(min(rounds, self.done + _STRIDE, self.done - self.done % measure_every + measure_every))
        else:
            self._tick()

    def go_back(self, done: int) -> None:
        """Agents were lost, and all are where they were after `done` ticks: what was measured since did not happen.

        What was released since did happen, and stays in `spent`. Noise that is drawn again from a seed is the same
        noise, so the same release. Fresh noise makes another release, which is counted, too.
        """
        self.done, self.converged = done, False
        self.history = [row for row in self.history if row["round"] <= done]
        del self.trajectory[len(self.history) :]

    def _tick(self) -> None:
        t, turn = self.done, self.schedule.turn(self.done)
        if t >= self._begun or (self.noise is not None and self.noise.private):
            self._unpaid[t] += 1
        self._begun = max(self._begun, t + 1)
        events = self.agents.tick(turn, t)
        if self.tolerance is not None and any(event.protected and not event.free for event in distinct(events)):
            raise InputError(
                "a private run has a fixed number of rounds, leave out tolerance: to stop by what was released "
                "costs more than was planned"
            )
        for _ in range(self._unpaid.pop(t, 0)):
            self.spending.add(turn.speakers, events)
        self.done = t + 1

    def _stride(self, until: int) -> None:
        turns = [self.schedule.turn(t) for t in range(self.done, until)]
        holders = np.array([turn.speakers[0] for turn in turns] + [turns[-1].listeners[0]])
        assert isinstance(self.agents, Together)
        self.agents.stride(holders)
        for agent, visits in Counter(holders[:-1].tolist()).items():
            self.spending.add_alone(agent, Unprotected(), visits)
        self.link.sent["messages"] += len(turns)
        self.link.sent["bytes"] += len(turns) * 8 * self.problem.dimension
        self.done = until

    def measure(self) -> None:
        """Measures all agents, which only a simulation can do."""
        f = self.agents.estimate()
        primal, dual = self.agents.residuals()
        own = self.agents.average_loss()
        model = own if len(f) == 1 else self.agents.average_loss(f.mean(axis=0))  # a single agent's is the average
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
        """The result of the rounds so far."""
        return Run(
            state=self.agents.state(),
            rounds=self.done,
            estimate=self.agents.estimate(),
            history={name: np.array([row[name] for row in self.history]) for name in self.history[0]},
            spent=self.spending.all(),
            trajectory=np.array(self.trajectory) if self.record else None,
            converged=self.converged,
            seeded=self.seeded,
            identity=self.identity,
            heard=self.agents.heard(),
        )


def _on_ray(engine: Engine | None) -> Ray | None:
    """The cluster with the agents; None for this process."""
    if engine is None:
        return None
    from tacit.engines import Local, Ray

    if isinstance(engine, Local | Ray):
        return None if isinstance(engine, Local) else engine
    raise InputError(f"engine is tacit.engines.Ray(), or nothing for this process; not {engine!r}")


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)
