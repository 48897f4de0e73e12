"""Members that lie, in a simulation: what they do to the others' models, and how much robust listening helps.

    flip       says -3 times the mean of what the honest say
    constant   says 1e4 in every entry
    labels     follows the method, on its own records with all labels flipped
    drift      leans backwards, against the model, by just less than what the listeners let pass: the public radius, or,
               if they listen robustly, such that all it has said so far lies as far from the honest mean as what the
               median pair of honest members have said lies apart
    alternate  leans as far, backwards at every other tick and forwards at the rest: together it has said next to
               nothing, but a method may use what is heard at every other tick alone
    push       says the mean of the honest and a thousand more, against the model: as much of it as passes

Liars know everything that the honest say. Which members lie is drawn from a seed. Nothing here is for a real run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast, Schedule, Turn
from tacit.errors import InputError
from tacit.exchange.plain import PlainLink

KINDS = ("flip", "constant", "labels", "drift", "alternate", "push")
_CONSTANT, _FLIPPED, _INSIDE, _PUSHED = 1e4, -3.0, 0.99, 1e3


def kind_and_count(text: str) -> tuple[str, int]:
    """How members lie and how many of them do, from KIND:COUNT.

    >>> kind_and_count("flip:1")
    ('flip', 1)
    """
    kind, _, count = text.partition(":")
    if kind not in KINDS or not (count.isascii() and count.isdecimal()) or int(count) < 1:
        raise InputError(f"hostile is KIND:COUNT with a kind of {', '.join(KINDS)}, such as flip:1; not {text!r}")
    return kind, int(count)


@dataclass(frozen=True)
class Hostile:
    """A number of members, drawn from the seed, that lie in one way: an exchange for `simulate`.

    >>> Hostile.parse("flip:1", agents=5).honest
    [0, 1, 3, 4]
    """

    kind: str
    liars: tuple[int, ...]
    agents: int
    radius: float = np.inf  # what listeners let pass
    robust: bool = False  # whether they compare what they hear
    period: int = 1  # how many ticks an iteration of the method has: listeners compare each of them separately

    @classmethod
    def parse(cls, text: str, agents: int, seed: int = 0) -> Hostile:
        """Reads KIND:COUNT, such as `flip:1`, and draws the liars."""
        kind, count = kind_and_count(text)
        if count >= agents:
            raise InputError(f"hostile is KIND:COUNT with fewer members than there are ({agents}); not {text!r}")
        chosen = np.random.default_rng((seed, 1)).choice(agents, size=count, replace=False)
        return cls(kind, tuple(sorted(chosen.tolist())), agents)

    def against(self, schedule: Schedule, radius: float, robust: str | None) -> Hostile:
        """Liars that know how the others listen."""
        period = schedule.period if isinstance(schedule, Broadcast) else 1
        return replace(self, radius=radius, robust=robust is not None, period=period)

    @property
    def honest(self) -> list[int]:
        """The members that do not lie."""
        return [i for i in range(self.agents) if i not in self.liars]

    def __str__(self) -> str:
        return f"{len(self.liars)} of {self.agents} members lie ({self.kind}): a simulation of an attack, not a result"

    def parts(self, parts: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The records on which the members train."""
        flips = self.kind == "labels"
        return [(X, -y if flips and i in self.liars else y) for i, (X, y) in enumerate(parts)]

    def open(self, graph: Graph) -> PoisonedLink:
        """Plain messages, some of them false."""
        return PoisonedLink(self)


class PoisonedLink(PlainLink):
    """Delivers what honest members say, and lies in place of what the liars would say."""

    def __init__(self, hostile: Hostile) -> None:
        super().__init__()
        self._hostile = hostile
        self._honest: np.ndarray | None = None  # the last rows that honest members said
        self._sums: dict[int, np.ndarray] = {}  # the sums of all of them, by the tick of an iteration
        self._offset: dict[int, np.ndarray] = {}  # how far a liar has moved in all

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """The rows of the turn, the liars' replaced."""
        lies = np.isin(turn.speakers, self._hostile.liars)
        if (~lies).any():
            self._honest = release.value[~lies]
            before = self._sums.get(self._part(t))
            known = before is not None and len(before) == len(self._honest)
            self._sums[self._part(t)] = before + self._honest if known else self._honest
        if self._hostile.kind != "labels" and lies.any():
            value = release.value.copy()
            value[lies] = self._said(value[lies], t)
            release = release._replace(value=value)
        # A lie answers what honest members say under its influence: without a bound both would grow without end.
        return super().deliver(release, turn, t).within(self._hostile.radius)

    def _part(self, t: int) -> int:
        """Which ticks a liar adds up: those that listeners add up; or all, to take back at one tick what it says at
        another."""
        return 0 if self._hostile.kind == "alternate" else t % self._hostile.period

    def _said(self, own: np.ndarray, t: int) -> np.ndarray:
        hostile, honest = self._hostile, own if self._honest is None else self._honest
        if hostile.kind == "constant":
            return np.full_like(own, _CONSTANT)
        mean = honest.mean(axis=0)
        if hostile.kind == "flip":
            return np.broadcast_to(_FLIPPED * mean, own.shape)
        part = self._part(t)
        model = np.sum([each.mean(axis=0) for each in self._sums.values()], axis=0) if self._sums else mean
        backwards = -model / max(float(np.linalg.norm(model)), np.finfo(float).tiny)
        if hostile.kind == "push":
            return np.broadcast_to(mean + _PUSHED * backwards, own.shape)
        side = -1.0 if hostile.kind == "alternate" and t % 2 else 1.0
        if not hostile.robust:
            return np.broadcast_to(side * _INSIDE * hostile.radius * backwards, own.shape)
        pairs = [float(np.linalg.norm(a - b)) for a, b in combinations(self._sums.get(part, honest), 2)]
        offset = side * _INSIDE * float(np.median(pairs or [0.0])) * backwards
        step = offset - self._offset.get(part, np.zeros_like(offset))
        self._offset[part] = offset
        return np.broadcast_to(mean + step, own.shape)
