"""The loop: every agent of a graph, in one process."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast, Turn
from tacit.errors import InputError, whole
from tacit.exchange import Exchange, Link, Plain, SecretSharedSums
from tacit.exchange.listening import Listening, check_robust
from tacit.files import replacing
from tacit.privacy.events import Event, Free, Unprotected, from_plain, to_plain
from tacit.privacy.noise import Noise

_FORMAT = 2
_STRIDE = 10_000  # ticks that a compiled loop takes at once: a fraction of a second


@dataclass
class Run:
    """What a simulation did: the state to go on from, and what was seen on the way.

    Of a private run, the model and what the agents sent are protected. State, history and the problem's digest are
    not: they are for the eyes of the simulator, who has the data anyway, and so is the file that `save` writes. A run
    that is resumed twice releases twice, and is charged for it only by a ledger.
    """

    state: Any  # the algorithm's State, after `rounds` rounds
    rounds: int
    estimate: np.ndarray  # (N, d) every agent's model
    history: dict[str, np.ndarray]  # one entry for the start and for every measured round, which "round" counts
    spent: list[Counter[Event]]  # for every agent, how often it released at which cost
    trajectory: np.ndarray | None  # (measured rounds, N, d) every agent's variable, as in `history`; if recorded
    converged: bool  # whether the residuals fell below the given tolerance
    seeded: bool  # whether its noise could be drawn again by who knows the seed: then nothing of it is private
    identity: dict[str, str] = field(repr=False)  # of algorithm, problem and graph: what a resumed run must match
    heard: np.ndarray | None = field(
        default=None, repr=False
    )  # what robust listeners remember (`tacit.exchange.listening`)

    def __repr__(self) -> str:
        return f"Run({len(self.estimate)} agents, {self.rounds} rounds, private={self.private})"

    @property
    def model(self) -> np.ndarray:
        """(d,) the average over agents."""
        return self.estimate.mean(axis=0)

    @property
    def private(self) -> bool:
        """Whether everything that left an agent left under an event of finite cost, with noise that protects."""
        return not self.seeded and not any(isinstance(e, Unprotected) for counter in self.spent for e in counter)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the run to an .npz file (arrays and JSON text, no pickle), whole or not at all."""
        meta = {
            "format": _FORMAT,
            "rounds": self.rounds,
            "converged": self.converged,
            "seeded": self.seeded,
            "identity": self.identity,
            "spent": [[[to_plain(event), n] for event, n in counter.items()] for counter in self.spent],
            "history": list(self.history),
        }
        arrays: dict[str, Any] = {f"state_{name}": array for name, array in _arrays(self.state).items()}
        arrays |= {f"history_{name}": array for name, array in self.history.items()}
        arrays |= {"estimate": self.estimate}
        arrays |= {name: array for name in ("trajectory", "heard") if (array := getattr(self, name)) is not None}
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Reads what `save` wrote. The state comes back as a plain mapping until a simulation resumes it."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            meta = json.loads(str(arrays.pop("meta")))
            if meta["format"] != _FORMAT:
                raise InputError(
                    f"{path} is a run of format {meta['format']}, this tacit reads {_FORMAT}: use the one that wrote it"
                )
            return cls(
                state={k.removeprefix("state_"): v for k, v in arrays.items() if k.startswith("state_")},
                rounds=meta["rounds"],
                estimate=arrays["estimate"],
                history={name: arrays[f"history_{name}"] for name in meta["history"]},
                spent=[Counter({from_plain(event): n for event, n in counter}) for counter in meta["spent"]],
                trajectory=arrays.get("trajectory"),
                converged=meta["converged"],
                seeded=meta["seeded"],
                identity=meta["identity"],
                heard=arrays.get("heard"),
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a saved run: {error}") from None


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

    `start`, (N, d) or (d,), is public: neighbours know each other's before the first round; zero by default.
    `record` keeps the trajectory. `tolerance` stops the run when no agent's residuals are above it. History and
    trajectory have every round, or only the first, the last and every `measure_every`-th: looking at everybody's loss
    takes as long as a short round does. `resume` goes on from an earlier run until `rounds` rounds are done in all:
    nothing changes by the interruption. `overheard` is called with every tick, its turn and what was said, as by
    somebody who listens on all links; `progress` with the number of rounds done. `exchange` is how messages travel:
    `Plain()`, or `SecretSharedSums()` for methods that need only `inbox.sum()`. `robust` ("clipping", "trimmed" or
    "median") is how what was said is read, against members that lie (`tacit.exchange.listening`). In a private run nothing is
    heard beyond the problem's radius.

    >>> from tacit.algorithms import ConsensusADMM
    >>> problem = Problem([([[1.0], [0.5]], [1, -1]), ([[-1.0]], [1])], l2=0.1)
    >>> run = simulate(ConsensusADMM(penalty=0.2), problem, Graph.path(2), rounds=200)
    >>> bool(abs(run.model - problem.optimum()) < 1e-8)
    True
    """
    if graph.agents != problem.agents:
        raise InputError(f"the graph has {graph.agents} agents, the problem {problem.agents}")
    whole("rounds", rounds, 0)
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"tolerance must be a positive number, not {tolerance}")
    whole("measure_every", measure_every, 1)
    if resume is not None and not isinstance(resume, Run):
        raise InputError(f"resume is a Run, such as Run.load reads from a file, not {resume!r}")
    if exchange is not None and (isinstance(exchange, type) or not hasattr(exchange, "open")):
        raise InputError(f"exchange is Plain() or SecretSharedSums(), not {exchange!r}")
    if overheard is not None and not callable(overheard):
        raise InputError(f"overheard is a function of tick, turn and release, not {overheard!r}")
    if resume is not None and start is not None:
        raise InputError("start is for a new run; a resumed run goes on from where it stopped")
    if overheard is not None and exchange is not None:
        raise InputError("overheard is for plain messages, which need no exchange")
    blocks, schedule = Blocks(problem, graph), algorithm.schedule(graph)
    if robust is not None:
        check_robust(robust, int(graph.degree.min()))
        if not isinstance(schedule, Broadcast) or isinstance(exchange, SecretSharedSums):
            raise InputError(
                "robust listening compares rows: it is for methods in which all speak at once, in the open"
            )
    view = blocks.view
    f0 = problem.as_rows(0.0 if start is None else start, "start").copy()
    if not np.all(np.isfinite(f0)):
        raise InputError("start must be finite")
    state = algorithm.init(problem, view, f0, Inbox(f0, graph.indptr, graph.indices))
    identity = {
        "algorithm": f"{type(algorithm).__name__} {json.dumps(asdict(algorithm), sort_keys=True, default=_listed)}",
        "problem": problem.fingerprint(),
        "graph": json.dumps(graph.edges),
        **({} if robust is None else {"robust": robust}),
    }

    link = (exchange or Plain()).open(graph)
    listening = None
    if robust is not None:  # exact values may be as large as they are
        radius = math.inf if noise is None else problem.radius
        memory = None if resume is None else resume.heard
        listening = Listening(radius, robust, schedule.period, memory)  # type: ignore[attr-defined]
    done, sent = 0, link.sent
    history: list[dict[str, float]] = []
    spent: list[Counter[Event]] = [Counter() for _ in range(graph.agents)]
    trajectory: list[np.ndarray] = []
    if resume is not None:
        state = _resumed(resume, state, identity)
        done, spent = resume.rounds, [counter.copy() for counter in resume.spent]
        history = [dict(zip(resume.history, row, strict=True)) for row in zip(*resume.history.values(), strict=True)]
        sent.update({name: already + int(history[-1][name]) for name, already in sent.items()})
        if record and resume.trajectory is None:
            raise InputError("the run to resume was not recorded: its trajectory cannot be continued")
        trajectory = list(resume.trajectory) if record and resume.trajectory is not None else []
        if done > rounds:
            raise InputError(f"the run to resume has {done} rounds already, more than the {rounds} asked for")
    else:
        history.append(_measure(algorithm, state, problem, view, done, sent))
        if record:
            trajectory.append(algorithm.estimate(state).copy())

    def is_converged() -> bool:
        last = history[-1]  # a residual that is not known yet is NaN, and not below anything
        return tolerance is not None and all(last[name] <= tolerance for name in ("primal_residual", "dual_residual"))

    converged = done > 0 and is_converged()
    strides = getattr(algorithm, "strides", False) and overheard is None and exchange is None
    while done < rounds and not converged:
        t = done
        if strides:  # only where nothing is protected, and one agent speaks to one
            done = min(rounds, t + _STRIDE, t - t % measure_every + measure_every)
            turns = [schedule.turn(k) for k in range(t, done)]
            holders = np.array([turn.speakers[0] for turn in turns] + [turns[-1].listeners[0]])
            state = algorithm.stride(state, problem, holders)  # type: ignore[attr-defined]
            for agent, visits in enumerate(np.bincount(holders[:-1], minlength=graph.agents)):
                spent[agent] += Counter({Unprotected(): int(visits)})
            sent["messages"] += len(turns)
            sent["bytes"] += len(turns) * f0[0].nbytes
        else:
            done, turn = t + 1, schedule.turn(t)
            state, release = tick(algorithm, state, blocks, noise, turn, t, link, listening)
            if tolerance is not None and not all(isinstance(event, Unprotected | Free) for event in release.events):
                raise InputError(
                    "a private run has a fixed number of rounds, leave out tolerance: who stops by what was released "
                    "pays for more than was planned"
                )
            for agent, event in zip(turn.speakers, release.events, strict=True):
                spent[agent][event] += 1
            if overheard is not None:
                overheard(t, turn, release)
        if done % measure_every == 0 or done == rounds:
            history.append(_measure(algorithm, state, problem, view, done, sent))
            if record:
                trajectory.append(algorithm.estimate(state).copy())
            converged = is_converged()
        if progress is not None:
            progress(done)

    return Run(
        state=state,
        rounds=done,
        estimate=algorithm.estimate(state),
        history={name: np.array([row[name] for row in history]) for name in history[0]},
        spent=spent,
        trajectory=np.array(trajectory) if record else None,
        converged=converged,
        seeded=(noise is not None and not noise.private) or (resume is not None and resume.seeded),
        identity=identity,
        heard=None if listening is None else listening.memory,
    )


class Blocks:
    """The agents of a network in blocks: what each block holds and knows. Those of one agent are kept, for tokens, and
    the last of several, since who broadcasts has the same turn again and again."""

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
    """One round: the speakers of the turn speak, its listeners listen. Unless exact values leave, or members listen
    robustly, what is heard is read within the problem's radius."""
    own = _rows(state, turn.speakers)
    said, release = algorithm.speak(own, *blocks.of(turn.speakers), noise, t)
    state = _put(state, turn.speakers, own, said)
    if not len(turn.listeners):
        return state, release
    own = _rows(state, turn.listeners)
    inbox = (link or Plain().open(blocks.graph)).deliver(release, turn, t)
    if listening is None and not all(isinstance(event, Unprotected) for event in release.events):
        listening = Listening(blocks.problem.radius)
    if listening is not None:
        inbox = listening.read(inbox, release.value, t).inbox
    after = algorithm.listen(own, inbox, blocks.of(turn.listeners)[1], t)
    return _put(state, turn.listeners, own, after), release


def _measure(
    algorithm: Algorithm, state: Any, problem: Problem, view: View, done: int, sent: dict[str, int]
) -> dict[str, float]:
    """What a simulator, who sees everybody, can say of the present state."""
    f = algorithm.estimate(state)
    primal, dual = algorithm.residuals(state, view)
    own = problem.average_loss(f)
    model = own if len(f) == 1 else problem.average_loss(f.mean(axis=0))  # one agent's model is everybody's
    return {
        "round": done,
        "loss": float(own.mean()),  # each agent on its own rows: L(t) of paper 000, section VIII
        "model_loss": float(np.average(model, weights=problem.scale)),  # of run.model
        "consensus_error": float(np.linalg.norm(f - f.mean(axis=0), axis=1).max()),
        "primal_residual": float(primal.max()),
        "dual_residual": float(dual.max()),
        **sent,
    }


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


def _resumed(run: Run, fresh: Any, identity: dict[str, str]) -> Any:
    for name in {*identity, *run.identity}:
        if run.identity.get(name) != identity.get(name):
            raise InputError(f"the run to resume had another {name}: it cannot go on with this one")
    arrays, expected = _arrays(run.state), fresh._asdict()
    fits = arrays.keys() == expected.keys() and all(
        arrays[name].shape == array.shape and arrays[name].dtype == array.dtype for name, array in expected.items()
    )
    measured = run.history.get("round", np.empty(0))
    whole = len(measured) > 0 and measured[-1] == run.rounds and {len(measured)} == set(map(len, run.history.values()))
    recorded = run.trajectory is None or len(run.trajectory) == len(measured)
    if not (fits and whole and recorded) or len(run.spent) != len(fresh[0]):
        raise InputError("the run to resume is damaged: its parts do not fit together")
    return type(fresh)(**arrays)


def _arrays(state: Any) -> dict[str, np.ndarray]:
    """The arrays of a state by name, whether it is a NamedTuple or was read from a file."""
    return state if isinstance(state, dict) else state._asdict()


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)
