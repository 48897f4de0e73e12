"""The audit of shared noise: a coalition of members that sees every total, and knows its own rows and noise.

A run is some rounds of `SummedGradientDescent` among N members, calibrated to (epsilon, delta) against t colluders. It
goes through `tick`, as in `simulate`, and its totals through the protocol that agents run (`SecretSharedTotals`). Many
runs lie side by side: in the protocol, a member's row has one entry for each run.

The two data sets differ in one record of member 0, where a record reveals most: the loss has its largest slope at all
points that the run reaches. The last t members collude. From every total they subtract their own rows, and guess the
data set by a linear discriminant that pilot runs have fixed: it knows nothing about the method
(`tacit.lab.audit.guess`).

**Steering.** Noise that is used twice hides as well as noise that is used once, as long as the record says the same in
every round. With `steer`, the coalition moves the total: it holds the model at zero in the first half of the rounds,
and in the second half where -1 is classified well and has no gradient. Then the two gradients differ by half as much.
What it adds is no larger than two honest rows can be, so no public bound on totals stops it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.algorithms import SummedGradientDescent
from tacit.algorithms.summed import check_graph, share_deviation
from tacit.core.facts import Facts
from tacit.core.graph import Graph, View
from tacit.core.losses import HuberHinge
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.engines import Workers
from tacit.errors import InputError, whole
from tacit.exchange.totals import SecretSharedTotals, TotalInbox
from tacit.lab.audit.guess import Progress, audit_transcripts
from tacit.lab.audit.lower_bounds import Audited, check_samples, seeded_bytes
from tacit.privacy.accounting import gaussian_steps
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import LawName, Noise, Scale, SecureNoise, SeededNoise
from tacit.privacy.plan import calibrate
from tacit.privacy.sensitivity import SHARE_GRID
from tacit.simulation.tick import Blocks, tick

ROUNDS, DELTA = 3, 1e-5
BUGS = {
    "share": "one member, which does not collude, forgets its share of the noise",
    "variance": "a share is as if nobody colluded: N/(N - t) is forgotten",
    "reuse": "every member draws its share once, and uses it in every round",
    "rounding": "rows are rounded to steps that are 5 to 10 times as wide as a share, and nothing is charged for it",
}
_STEP, _MOMENTUM, _L2 = 1e-3, 0.9, 1e-3  # models stay near zero, where the loss has its largest slope
_AWAY = -2.5  # where a record -1 has no gradient, and a record 1 the largest: the margin has to leave (0.5, 1.5)
_PUSH = 1.5  # the most that the coalition adds to a total: with the 1/2 of member 0 it moves the model there at once
_STRAY = 0.1  # by which noise moves a model that is steered, in one deviation
_RECORDS = 500_000  # in memory at a time
_MOST_ROWS = 4096  # of one member


def audit_shared(
    epsilon: float,
    *,
    delta: float = DELTA,
    rounds: int = ROUNDS,
    members: int = 5,
    colluders: int | None = None,
    steer: bool = False,
    planted: bool = False,
    bug: str | None = None,
    secure: bool = True,
    seed: int = 0,
    samples: int = 40_000,
    minutes: float | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> Audited:
    """Some rounds of shared-descent at (epsilon, delta), against `colluders` of the members; by default the most that
    are fewer than half.

    The noise is `SecureNoise`, with bits from the seed, so that an audit can be repeated. If not `secure`, and with a
    `bug` (one of `BUGS`; `planted` is the first), it is `SeededNoise`: the same law, in a fraction of the time.
    """
    check_samples(samples)
    whole("members", members, 2)
    whole("rounds", rounds, 1)
    colluders = (members - 1) // 2 if colluders is None else colluders
    check_graph(Graph.complete(members), colluders, 0)  # refuses as many colluders as members
    bug = "share" if planted and bug is None else bug
    _check(bug, steer, members, colluders, rounds)
    half = _records(epsilon, delta, rounds, members, colluders, steer=steer, coarse=bug == "rounding")
    algorithm = _calibrated(epsilon, members, colluders, rows=2 * half, delta=delta, rounds=rounds)
    if steer:
        algorithm = replace(algorithm, step=-_AWAY * members / (0.5 + _PUSH), momentum=0.0)
    runs = SideBySide(
        members,
        colluders,
        half,
        rounds=rounds,
        size=max(1, min(samples // 5, _RECORDS // (2 * half * members))),
        steer=steer,
    )
    assert algorithm.deviation is not None
    full = runs.first + (rounds - runs.first) / 4 if steer else rounds
    mu = math.sqrt(full / (members - colluders)) / (half * algorithm.deviation)  # a record moves a total by 1/half
    if bug == "variance":
        algorithm = replace(algorithm, deviation=algorithm.deviation * math.sqrt(1 - colluders / members))
    return audit_transcripts(
        _Seen(runs, algorithm, seed, bug, secure),
        size=runs.size,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        samples=samples,
        minutes=minutes,
        progress=progress,
        against=f"{colluders} of the {members} members together",
        workers=workers,
    )


def _check(bug: str | None, steer: bool, members: int, colluders: int, rounds: int) -> None:
    """Refuses a bug that cannot show, and steering that moves nothing."""
    if bug is not None and bug not in BUGS:
        raise InputError(f"no bug {bug!r}: one of {', '.join(BUGS)}")
    if bug is not None and members - colluders < 2:
        raise InputError(f"against {colluders} of {members} members no noise is shared, so no bug can spoil it")
    if bug == "variance" and colluders == 0:
        raise InputError("without colluders N/(N - t) is 1: nothing can be forgotten")
    if steer and (colluders == 0 or rounds < 2):
        raise InputError("to steer takes a colluder, and a round after it: --colluders 1 --rounds 2, or more")
    if steer and bug == "rounding":
        raise InputError("the bug rounding rounds away what the coalition adds to steer: audit it without --steer")


@dataclass(frozen=True)
class _Seen:
    """What the coalition sees, a batch of runs at a time."""

    runs: SideBySide
    algorithm: SummedGradientDescent
    seed: int
    bug: str | None
    secure: bool

    def __call__(self, which: int, batch: int) -> np.ndarray:
        noise: Noise = SeededNoise(self.seed)
        if self.bug == "share":
            noise = _Forgotten(self.seed, self.runs.size)
        elif self.bug == "reuse":
            noise = _Reused(self.seed, self.runs.rounds)
        elif self.bug == "rounding":
            noise = _Coarse(self.seed)
        elif self.bug is None and self.secure:
            noise = SecureNoise(random_bytes=seeded_bytes(self.seed, which, batch))
        # Seeded streams of two batches, and of the two data sets, must not coincide.
        return self.runs.seen(self.algorithm, noise, which, (2 * batch + which) * self.runs.rounds)


class SideBySide(Blocks):
    """Many runs side by side: agent r + i size is member i of run r.

    A member has 2 `half` records, each 1, -1 or 0, all of class +1; so each adds -1, +1 or 0 over their number to the
    gradient, exactly. Member 0 has `half` records -1, and one record that is 1 in one data set and -1 in the other: its
    gradient is 1/2 -+ 1/(2 half). The gradients of the others are 0. This is where rounding to whole numbers is worst:
    the noise of the others is rounded away, and that of member 0 decides between two whole numbers.
    """

    def __init__(
        self, members: int, colluders: int, half: int, size: int, rounds: int = ROUNDS, *, steer: bool = False
    ) -> None:
        self.members, self.colluders, self.size, self.half, self.rounds = members, colluders, size, half, rounds
        self.steer, self.first = steer, rounds // 2  # the first half of the rounds
        self.graph, ids = Graph.complete(members), np.arange(members * size)
        self.view = View(ids, np.full((len(ids), 1), members - 1.0), members)
        self.turn = Turn(ids, ids, np.zeros(len(ids) + 1, dtype=int), np.zeros(0, dtype=int))
        self.problems = [self._problem(record) for record in (1.0, -1.0)]
        self.problem = self.problems[0]

    def of(self, ids: np.ndarray) -> tuple[Problem, View]:
        """All of them: everybody speaks and listens at every tick."""
        return self.problem, self.view

    def seen(self, algorithm: SummedGradientDescent, noise: Noise, which: int, t: int) -> np.ndarray:
        """(size, rounds) what the coalition sees in runs on one of the two data sets that begin with tick t."""
        link, start = _SeenTotals(self), np.zeros((len(self.view.ids), 1))
        self.problem = self.problems[which]
        state = algorithm.init(self.problem, self.view, start, Inbox(start, self.turn.indptr, self.turn.indices))
        for k in range(self.rounds):
            if self.steer:
                link.added = self._push(algorithm, algorithm.estimate(state)[: self.size, 0], k)
            state, _ = tick(algorithm, state, self, noise, self.turn, t + k, link)
        self.models = algorithm.estimate(state)
        return np.array(link.seen).T

    def _push(self, algorithm: SummedGradientDescent, f: np.ndarray, k: int) -> np.ndarray:
        """(size,) what the coalition adds to the total at round k, so that the next model lies where it wants it. The
        models are public; of the records it knows all but the one in question."""
        aim, known = (0.0 if k + 1 < self.first else _AWAY), (0.5 if k < self.first else 0.0)
        wanted = self.members * (f - aim) / algorithm.step - known - self.members * _L2 * f
        return np.asarray(np.round(np.clip(wanted, -_PUSH, _PUSH) / SHARE_GRID) * SHARE_GRID)

    def _problem(self, record: float) -> Problem:
        rows, none = np.zeros((2 * self.half, 1)), np.zeros((2 * self.half, 1))
        rows[0], rows[1 : 1 + self.half] = record, -1.0
        labels = np.ones(2 * self.half)
        parts = [(rows, labels)] * self.size + [(none, labels)] * ((self.members - 1) * self.size)
        return Problem(parts, **_public())


class _SeenTotals:
    """The members' protocol, with an entry of their rows for each run; and what the coalition makes of its totals."""

    def __init__(self, runs: SideBySide) -> None:
        self.sent: dict[str, int] = {}
        self.seen: list[np.ndarray] = []
        self.added: np.ndarray | float = 0.0  # by the coalition
        self._runs, self._link = runs, SecretSharedTotals().open(runs.graph)
        everybody = np.arange(runs.members)
        self._turn = Turn(everybody, everybody, runs.graph.indptr, runs.graph.indices)

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """Every member hears the total of its own run."""
        runs = self._runs
        rows = release.value.reshape(runs.members, runs.size).copy()
        rows[-1] += self.added  # the last member colludes, if anybody does
        wide = release._replace(value=rows, events=release.events[:: runs.size])
        totals = self._link.deliver(wide, self._turn, t).sum()  # (members, size): the same for all members
        self.seen.append(totals[-1] - rows[runs.members - runs.colluders :].sum(axis=0))
        return TotalInbox(totals.reshape(-1, 1), np.full((len(release.value), 1), runs.members))


class _Forgotten(SeededNoise):
    """A bug to catch: member 1 adds no noise."""

    def __init__(self, seed: int, size: int) -> None:
        super().__init__(seed)
        self._size = size

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        drawn = super().draw(law, scale, dimension, ids, t, tag)
        drawn[ids // self._size == 1] = 0.0
        return drawn


class _Reused(SeededNoise):
    """A bug to catch: the noise of the first round of a run is that of all its rounds."""

    def __init__(self, seed: int, rounds: int) -> None:
        super().__init__(seed)
        self._rounds = rounds

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        return super().draw(law, scale, dimension, ids, t - t % self._rounds, tag)


class _Coarse(SeededNoise):
    """A bug to catch: rows are rounded to whole numbers. (The mechanism would refuse a grid that is so coarse.)"""

    def add(
        self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        return np.round(super().add(law, value, scale, ids, t, onto))


def _records(
    epsilon: float, delta: float, rounds: int, members: int, colluders: int, *, steer: bool, coarse: bool
) -> int:
    """Half the number of a member's records.

    A record moves the gradient by 1/half, and a share of the noise is so many times as wide as its multiplier. With a
    `coarse` grid a share has to be between 0.1 and 0.2 wide. To `steer`, the noise of a total may move the model by no
    more than `_STRAY`.
    """
    multiplier = gaussian_steps(rounds, epsilon, delta).multiplier
    share = multiplier / math.sqrt(max(members - colluders, 1))
    half: int = 2 ** max(1, math.floor(math.log2(10 * share)))
    if not coarse:
        half = min(half, 32)  # any number will do
    if steer:
        total = multiplier * math.sqrt(members / (members - colluders))
        half = max(half, 2 ** math.ceil(math.log2(total * -_AWAY / (0.5 + _PUSH) / _STRAY)))
    if 2 * half > _MOST_ROWS:
        raise InputError(
            f"{'steering' if steer else 'the bug rounding'} needs {2 * half} records a member, above {_MOST_ROWS}: "
            "raise epsilon"
        )
    return half


def _public() -> dict[str, Any]:
    """What is public of the problem, besides the numbers of records."""
    return {"loss": HuberHinge(0.5), "l2": _L2, "radius": 4.0}


def _method(deviation: float, colluders: int) -> SummedGradientDescent:
    return SummedGradientDescent(step=_STEP, momentum=_MOMENTUM, deviation=deviation, colluders=colluders)


def _calibrated(
    epsilon: float, members: int, colluders: int, rows: int, delta: float = DELTA, rounds: int = ROUNDS
) -> SummedGradientDescent:
    facts = Facts(sizes=[rows] * members, dimension=1, **_public())

    def make(budget: Gaussian) -> SummedGradientDescent:
        return _method(share_deviation(facts, budget, colluders=colluders, dropouts=0), colluders)

    return calibrate(make, facts, Graph.complete(members), rounds, epsilon=epsilon, delta=delta)
