"""One simulation on many processes of a Ray cluster: each has a shard of the agents, that is, a block of them.

A method does not know how large its block is, so a shard runs the same code as one process with all agents
(`tacit.simulation.tick`). At every tick each shard speaks, then listens. In between, rows travel from one shard to
another through Ray's object store: only those that an agent of the other shard listens to. The driver, which is the
process that called `simulate`, says which tick it is and adds up costs. It sees no rows, but where the simulation
measures all agents, at checkpoints and at the end.

**The same numbers.** The result is that of one process, to the last bit, if the noise is seeded: solvers and noise
depend on an agent's own data and id, and an inbox has its rows in the order of the senders' ids.

**Lost processes.** Every `KEPT` ticks the driver fetches the state of all shards. If a process or a machine is lost,
another process gets its shard, all shards go back to that state, and the run goes on from there. With seeded noise
that changes no number. `SecureNoise` draws afresh, so what is said again is another release: `Run.spent` counts every
release for which noise was drawn, also those that were given up. A run that was planned and paid for in a ledger
then costs more than was planned, and is refused in the end. (As everywhere in tacit, it is assumed that machines
fail independently of what is in the records.)
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tacit import __version__
from tacit.core.algorithm import Algorithm
from tacit.core.alike import Alike
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox
from tacit.core.schedule import Turn
from tacit.engines.ray import Ray
from tacit.errors import EngineError, InputError
from tacit.exchange.listening import Listening
from tacit.exchange.plain import PlainLink
from tacit.privacy.events import Event
from tacit.privacy.noise import Noise
from tacit.simulation.agents import SimulatedRun, WentBack
from tacit.simulation.tick import Blocks, listen, protected, speak

KEPT = 10  # ticks between two checkpoints
_TRIES = 3  # how often a run goes back to the same checkpoint
_PIECE = 1 << 27  # bytes of records that travel at once
_PATIENCE = 5.0  # seconds after which the driver looks whether the cluster still has room for a new process


class Hears(NamedTuple):
    """What the agents of a shard hear: rows of one stack. It has what the shard's own agents say, then what comes from
    the other shards, in their order."""

    indptr: np.ndarray  # (n+1,) as in `Inbox`
    indices: np.ndarray  # rows of the stack
    stack: np.ndarray  # the agents whose rows the stack has
    sends: dict[int, np.ndarray]  # for every other shard that needs some, which rows of this shard


def shares(sizes: np.ndarray, shards: int) -> np.ndarray:
    """The first agent of each shard, and N: agents in the order of their ids, with about as many rows in each shard.

    >>> shares(np.array([5, 1, 1, 1, 1, 1]), 2).tolist()
    [0, 1, 6]
    """
    total, k = np.cumsum(sizes), np.arange(1, shards)
    cuts = np.searchsorted(total, total[-1] * k / shards) + 1
    cuts = np.maximum.accumulate(np.maximum(cuts, k) - k) + k  # at least one agent in each
    return np.concatenate([[0], np.minimum(cuts, len(sizes) - shards + k), [len(sizes)]])


def hearing(graph: Graph, bounds: np.ndarray) -> list[Hears]:
    """What the agents of each shard hear, if all agents speak to their neighbours.

    >>> first, second = hearing(Graph.path(4), np.array([0, 2, 4]))
    >>> first.stack.tolist(), first.indices.tolist(), first.sends
    ([0, 1, 2], [1, 0, 2], {1: array([1])})
    """
    found, places = [], np.empty(graph.agents, dtype=np.int64)
    for lo, hi in pairwise(bounds):
        first, last = graph.indptr[[lo, hi]]
        heard = graph.indices[first:last]  # in the order of the senders, which is that of a sum
        others = np.unique(heard)
        stack = np.concatenate([np.arange(lo, hi), others[(others < lo) | (others >= hi)]])
        places[stack] = np.arange(len(stack))
        found.append(Hears(graph.indptr[lo : hi + 1] - first, places[heard], stack, {}))
    for k, (lo, hi) in enumerate(pairwise(bounds)):
        for j, other in enumerate(found):
            if j != k and len(wanted := other.stack[(other.stack >= lo) & (other.stack < hi)]):
                found[k].sends[j] = wanted - lo
    return found


@dataclass(frozen=True)
class Own:
    """What a shard has of a run, without its records."""

    algorithm: Algorithm
    noise: Noise | None
    listening: Listening | None
    view: View
    hears: Hears
    starts: np.ndarray  # of the stack, (k, d)
    version: str = __version__


class Said(NamedTuple):
    """What the driver learns of a release: no row."""

    events: Sequence[Event]
    silent: np.ndarray | None
    width: int  # bytes of a row


class Shard:
    """Some agents of a run: an actor. One thread: a Ray node has as many actors as it has cores."""

    def __init__(self) -> None:
        self._loaded: list[Problem] = []

    def load(self, agents: Problem) -> None:
        """Some more of the shard's agents. Arrays in shared memory are read-only, which would be another type for the
        compiled kernels, and take room there: they are copied."""
        self._loaded.append(Problem.joined([agents]))

    def begin(self, pickled: bytes) -> None:
        """The state before the first tick. (An error of a constructor would not reach the driver as it is.)"""
        from ray import cloudpickle

        own: Own = cloudpickle.loads(pickled)
        if own.version != __version__:
            raise EngineError(
                f"a machine of the cluster has tacit {__version__}, this one has {own.version}: install the same"
            )
        os.environ["NUMBA_NUM_THREADS"] = "1"
        threadpool_limits(limits=1)
        self._algorithm, self._noise, self._listening = own.algorithm, own.noise, own.listening
        problem = Problem.joined(self._loaded)
        self._agents = np.arange(problem.agents)
        self._blocks = Blocks(problem, own.view)
        self._hears, inbox = own.hears, Inbox(own.starts, own.hears.indptr, own.hears.indices)
        start = own.starts[: problem.agents].copy()
        self._state = own.algorithm.init(self._blocks.problem, own.view, start, inbox)
        self._said: np.ndarray

    def ready(self) -> None:
        """Nothing: a caller that gets an answer knows that the shard is there."""

    def speak(self, t: int) -> Any:
        """What the driver learns of this tick, and the rows for other shards."""
        self._state, said = speak(self._algorithm, self._state, self._blocks, self._noise, self._agents, t)
        self._said = said.value
        summary, rows = Said(said.events, said.silent, said.value[0].nbytes), self._hears.sends.values()
        return (summary, *(said.value[each] for each in rows)) if rows else summary

    def listen(self, t: int, private: bool, *rows: np.ndarray) -> None:
        """The end of the tick, with the rows of other shards; `private` says whether any agent's row is protected."""
        inbox = Inbox(np.concatenate([self._said, *rows]), self._hears.indptr, self._hears.indices)
        listening = self._listening
        if listening is None and private:
            listening = Listening(self._blocks.problem.radius)
        self._state = listen(self._algorithm, self._state, self._blocks, self._agents, inbox, self._said, t, listening)

    def kept(self) -> tuple[Any, np.ndarray | None]:
        """The state, and what robust listeners remember."""
        return self._state, None if self._listening is None else self._listening.memory

    def restore(self, kept: tuple[Any, np.ndarray | None]) -> None:
        """Takes an earlier state over."""
        self._state = kept[0]
        if self._listening is not None:
            self._listening.memory = kept[1]

    def estimate(self) -> np.ndarray:
        """The models of this shard's agents, (n, d)."""
        return self._algorithm.estimate(self._state)

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """The two residuals of this shard's agents, (n,) each."""
        return self._algorithm.residuals(self._state, self._blocks.view)

    def average_loss(self, f: np.ndarray | None) -> np.ndarray:
        """The average loss of this shard's agents, (n,)."""
        return self._blocks.problem.average_loss(self.estimate() if f is None else np.array(f))


class _Lost(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """A process or an object of the cluster is gone."""


class Shards:
    """All agents of a run, on a cluster; the driver's side of it."""

    def __init__(self, ray: Any, shards: int | None, setting: SimulatedRun) -> None:
        self._ray, self._setting, link = ray, setting, setting.link
        if type(link) is not PlainLink:
            raise InputError(
                "shards exchange plain messages: for other exchanges, and for methods on totals, leave out engine"
            )
        if len(setting.algorithm.schedule(setting.graph).turn(1).speakers) < setting.graph.agents:
            raise InputError("a token visits one agent at a time, so shards would only wait: leave out engine")
        self._link: PlainLink = link
        count = max(1, self._cores()) if shards is None else shards
        self._bounds = shares(setting.problem.sizes, min(count, setting.graph.agents))
        self._hears = hearing(setting.graph, self._bounds)
        self._require_room()
        self._actor = ray.remote(num_cpus=1)(Shard)
        try:
            self._shards = [self._started(k) for k in range(len(self._bounds) - 1)]
            self._keep(0)
        except _Lost as lost:
            raise EngineError("a process of the cluster was lost at the start: perhaps memory runs out") from lost

    @classmethod
    @contextmanager
    def opened(cls, engine: Ray, setting: SimulatedRun) -> Iterator[Shards]:
        """Starts the shards, and ends them."""
        with engine.connected() as ray:
            agents = cls(ray, engine.shards, setting)
            try:
                yield agents
            finally:
                for shard in agents._shards:
                    ray.kill(shard)

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _require_room(self) -> None:
        needed = len(self._bounds) - 1
        if self._cores() < needed:
            raise EngineError(
                f"{needed} shards need a core each, and the cluster has {self._cores()}: add machines, or ask for "
                "fewer shards"
            )

    def _started(self, k: int) -> Any:
        """A new process with shard k at its start. Records travel in pieces, one after the other: Ray's object store
        does not give back the room that it once took."""
        from ray import cloudpickle

        s, hears, agents = self._setting, self._hears[k], np.arange(*self._bounds[k : k + 2])
        own = Own(s.algorithm, s.noise, s.listening, s.graph.view(agents), hears, s.start[hears.stack])
        problem, shard = s.problem.take(agents), self._actor.remote()
        share = s.problem.store.nbytes * problem.sizes.sum() / s.problem.sizes.sum()
        cuts = shares(problem.sizes, min(max(1, math.ceil(share / _PIECE)), len(agents)))
        for lo, hi in pairwise(cuts):
            self._answered(shard.load.remote(problem.take(np.arange(lo, hi)).compact()))
        self._answered(shard.begin.remote(cloudpickle.dumps(own)))
        return shard

    def _answered(self, asked: Any) -> None:
        while not self._ray.wait([asked], timeout=_PATIENCE)[0]:
            self._require_room()
        self._get(asked)

    def _get(self, found: Any) -> Any:
        """What shards answer. Their errors are raised here as they are; what Ray has lost is `_Lost`."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(found)
        except exceptions.RayError as error:
            cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
            if isinstance(cause, exceptions.RayError):
                raise _Lost from error
            raise cause from None

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """If a shard is lost, another process gets it, and all go back to the last checkpoint."""
        try:
            yield
        except _Lost as lost:
            self._tries += 1
            if self._tries > _TRIES:
                raise EngineError(
                    f"processes of the cluster were lost {self._tries} times after round {self._done}: perhaps memory "
                    "runs out; take more shards on more machines"
                ) from lost
            with self._surviving():
                for k, shard in enumerate(self._shards):
                    try:
                        self._get(shard.ready.remote())
                    except _Lost:
                        self._shards[k] = self._started(k)
                self._put(self._kept)
            self._link.sent.update(self._sent)
            raise WentBack(self._done) from None

    def _keep(self, done: int) -> None:
        """Keeps the state of all shards as a checkpoint."""
        self._kept = self._get([shard.kept.remote() for shard in self._shards])
        self._done, self._sent, self._tries = done, dict(self._link.sent), 0

    def _put(self, kept: Sequence[tuple[Any, np.ndarray | None]]) -> None:
        self._get([shard.restore.remote(each) for shard, each in zip(self._shards, kept, strict=True)])

    def tick(self, turn: Turn, t: int) -> Sequence[Event]:
        """All shards speak, then all listen."""
        with self._surviving():
            if t >= self._done + KEPT:
                self._keep(t)
            spoken = [
                shard.speak.options(num_returns=1 + len(hears.sends)).remote(t)
                for shard, hears in zip(self._shards, self._hears, strict=True)
            ]
            rows: list[list[Any]] = [[] for _ in self._shards]  # for each shard
            for k, hears in enumerate(self._hears):
                if hears.sends:
                    spoken[k], *sent = spoken[k]
                    for j, row in zip(hears.sends, sent, strict=True):
                        rows[j].append(row)
            said: list[Said] = self._get(spoken)
            events = Alike.joined([each.events for each in said])
            if len(turn.listeners):
                silent = None if said[0].silent is None else np.concatenate([each.silent for each in said])
                self._link.count(events, silent, turn, said[0].width)
                private = protected(events)
                self._get(
                    [shard.listen.remote(t, private, *row) for shard, row in zip(self._shards, rows, strict=True)]
                )
            return events

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        with self._surviving():
            return list(self._get([getattr(shard, method).remote(*arguments) for shard in self._shards]))

    def state(self) -> Any:
        states = [state for state, _ in self._all("kept")]
        return type(states[0])(*map(np.concatenate, zip(*states, strict=True)))

    def heard(self) -> np.ndarray | None:
        if self._setting.listening is None:
            return None
        memories = [memory for _, memory in self._all("kept")]
        return None if memories[0] is None else np.concatenate(memories, axis=2)

    def restore(self, state: Any, heard: np.ndarray | None, done: int) -> None:
        """Each shard gets its own."""
        cuts, rows = self._bounds[1:-1], np.cumsum([len(hears.indices) for hears in self._hears])[:-1]
        states = [type(state)(*arrays) for arrays in zip(*(np.split(array, cuts) for array in state), strict=True)]
        memories = [None] * len(states) if heard is None else np.split(heard, rows, axis=2)
        self._kept = list(zip(states, memories, strict=True))
        self._done, self._sent = done, dict(self._link.sent)
        with suppress(WentBack), self._surviving():  # it goes back to where it should go
            self._put(self._kept)

    def estimate(self) -> np.ndarray:
        return np.concatenate(self._all("estimate"))

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        primal, dual = zip(*self._all("residuals"), strict=True)
        return np.concatenate(primal), np.concatenate(dual)

    def average_loss(self, f: np.ndarray | None = None) -> np.ndarray:
        return np.concatenate(self._all("average_loss", f))
