"""What the random aggregators of paper 003 are worth, given what was released: for the owner of the records, or as a
charge.

A run of `RandomAggregationADMM` or `RandomAggregationGD` with Laplace noise is charged for its worst case, which does
not count on the random weights. Two things can be said afterwards:

`epsilon_of_transcript`, the paper's epsilon(X), (10), looks at where the released value lies in its interval, and so at
the gradient: it is a function of the records and no guarantee; to publish it or to stop by it would leak.

`realised_events` looks only at the lengths of the intervals, which follow from what was released. The events are
valid, but they depend on releases: only a filter may add them up (`tacit.privacy.filters`, as the ledger
does), with a budget fixed beforehand; to stop by the filter is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.random_aggregation_admm import RandomAggregationADMM
from tacit.algorithms.random_aggregation_gd import RandomAggregationGD
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Inbox
from tacit.errors import InputError, TacitError
from tacit.exchange import Plain
from tacit.exchange.listening import Listening
from tacit.privacy.events import BlurredLaplace
from tacit.privacy.formulas import blurred
from tacit.privacy.sensitivity import gradient_sensitivity
from tacit.simulation.result import Run
from tacit.simulation.tick import Blocks, tick

__all__ = ["ForOwnEyes", "epsilon_of_transcript", "realised_events"]

RandomAggregation = RandomAggregationADMM | RandomAggregationGD


class ForOwnEyes:
    """Numbers that depend on the records and must not leave: only `look` shows them. They cannot be printed, compared,
    computed with or saved.

    >>> secret = ForOwnEyes(np.array([0.7]), "epsilon of a transcript")
    >>> secret
    <epsilon of a transcript: depends on the records, not to be released; look() shows it>
    >>> secret < 1.0
    Traceback (most recent call last):
        ...
    tacit.errors.TacitError: epsilon of a transcript depends on the records: to stop by it or to publish it ...
    """

    def __init__(self, value: np.ndarray, name: str) -> None:
        self.__value, self.__name = value, name

    def look(self) -> np.ndarray:
        """The numbers, for a reader who has the records anyway."""
        return self.__value.copy()

    def __repr__(self) -> str:
        return f"<{self.__name}: depends on the records, not to be released; look() shows it>"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TacitError(
            f"{self.__name} depends on the records: to stop by it or to publish it is a release that nothing paid "
            "for; the guarantee is the worst case"
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __bool__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __float__ = __int__ = __index__ = __array__ = __iter__ = __len__ = __getitem__ = _refuse
    __format__ = __reduce__ = __reduce_ex__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def epsilon_of_transcript(
    algorithm: RandomAggregation, problem: Problem, graph: Graph, run: Run
) -> tuple[ForOwnEyes, np.ndarray]:
    """For every round and agent, (rounds, N), the sum over the coordinates of (10); and its bound, never passed:
    d times what the noise makes of the most that one coordinate can move.

    The sum over the rounds of the first is the paper's epsilon(X), that of the second its worst case with all d
    coordinates and the sensitivity of replacing a record.
    """
    found, bounds = [], []
    for x, low, high, rate, shift in _rounds(algorithm, problem, graph, run):
        half, middle = np.abs(high - low) / 2 * rate, (low + high) / 2
        found.append(blurred.loss((x - middle) * rate, half, shift).sum(axis=1))
        bounds.append(shift[:, 0] * problem.dimension)
    shape = (-1, graph.agents)
    return ForOwnEyes(np.reshape(found, shape), "epsilon of a transcript"), np.reshape(bounds, shape)


def realised_events(
    algorithm: RandomAggregation, problem: Problem, graph: Graph, run: Run
) -> list[list[list[BlurredLaplace]]]:
    """For every round and agent, the events of its coordinates, by the lengths of the intervals: to be charged one by
    one under a filter; each holds given all that was released before."""
    return [
        [
            [BlurredLaplace(float(1 / s), float(w)) for w in widths]
            for s, widths in zip(shift[:, 0], np.abs(high - low) * rate, strict=True)
        ]
        for _, low, high, rate, shift in _rounds(algorithm, Facts.of(problem), graph, run)  # without the records
    ]


class _Replay:
    """Noise that makes a run release again what it has released."""

    private, grid = False, 0.0

    def __init__(self, trajectory: np.ndarray) -> None:
        self._trajectory = trajectory

    def draw(self, law: str, scale: Any, dimension: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.zeros((len(ids), dimension))

    def add(
        self, law: str, value: np.ndarray, scale: Any, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        return self._trajectory[t + 1, ids]

    choose = mask = draw


def _rounds(
    algorithm: RandomAggregation, problem: Problem, graph: Graph, run: Run
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Round by round: what was released, the ends of its interval, the rate of the noise, the most that a coordinate
    moves between neighbours in units of the noise, (N, 1)."""
    if algorithm.beta is None:
        raise InputError("only a run with Laplace noise by its rate, beta, has an epsilon of its transcript")
    if run.trajectory is None or len(run.trajectory) != run.rounds + 1:
        raise InputError("not every round was recorded: simulate it with record=True and measure_every=1")
    view, schedule, noise = graph.view(), algorithm.schedule(graph), _Replay(run.trajectory)
    blocks, link = Blocks(problem, view), Plain().open(graph)
    robust = run.identity.get("robust")
    listening = None if robust is None else Listening(problem.radius, robust, schedule.period)
    start = run.trajectory[0]
    state: Any = algorithm.init(problem, view, start, Inbox(start, graph.indptr, graph.indices))
    for t in range(run.rounds):
        low, high, step = algorithm.interval(state, problem, view, t)
        rate = hyper.at("beta", algorithm.beta, t, view.ids)
        shift = rate * step * gradient_sensitivity(problem, algorithm.row_norm)
        yield run.trajectory[t + 1], low, high, rate, shift
        state, _ = tick(algorithm, state, blocks, noise, schedule.turn(t), t, link, listening)  # type: ignore[arg-type]
