"""A member that lies about the total of shared noise, in one process: what tests and `tests/adversary_runs.py` share.

The liar is the root of the tree: it has all partial sums, and hands down whatever it likes. No member can do more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.exchange.totals import IdealLink, IdealTotals, TotalInbox, totals_point

Lie = Callable[[np.ndarray], np.ndarray]  # the honest total, (d,) -> what all members hear


class FalseTotals(IdealTotals):
    """Totals of which some are false: those of these ticks, or of all."""

    def __init__(self, lie: Lie, *ticks: int) -> None:
        self._lie, self._ticks = lie, ticks

    def open(self, graph):
        """The liar is a member like the others."""
        return _FalseLink(graph, self._lie, self._ticks)


class _FalseLink(IdealLink):
    def __init__(self, graph, lie: Lie, ticks: tuple[int, ...]) -> None:
        super().__init__(graph)
        self._lie, self._ticks = lie, ticks

    def deliver(self, release, turn, t):
        heard = super().deliver(release, turn, t)
        if self._ticks and t not in self._ticks:
            return heard
        return TotalInbox(np.tile(self._lie(heard.sum()[0]), (len(release.value), 1)), heard.counts)


def added(members: int, word: int = 2**62) -> Lie:
    """A false partial sum: this word, added to every entry modulo 2^64."""
    point = totals_point(members)
    return lambda total: point.decode(point.encode(total) + np.uint64(word % 2**64))


def pushing(towards: np.ndarray, size: float) -> Lie:
    """A total of this norm that moves the model in a direction, (d,): models go down the gradient."""
    unit = towards / np.linalg.norm(towards)
    return lambda total: -size * unit


def uphill(size: float) -> Lie:
    """A total of this norm, opposite to the honest one."""
    return lambda total: -size * total / np.linalg.norm(total)
