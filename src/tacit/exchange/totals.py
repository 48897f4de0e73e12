"""Sums over all members, of which nobody sees a part: what a method gets that shares its noise.

A *total* is the sum of the rows of all members of the network, where `SecretSharedSums` gives each listener the sum of
its own neighbours. `SecretSharedTotals` computes it by the protocol that agents run (`tacit.exchange.network_sharing`).
`IdealTotals` adds the rows up: the same numbers to the last bit, for simulations, in which one process has all rows
anyway and there is nobody to hide them from. Both count the messages of the protocol.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.secret_shared import SummedInbox
from tacit.exchange.tree import Tree
from tacit.privacy.sensitivity import LARGEST_TOTAL

if TYPE_CHECKING:
    from tacit.exchange.network_sharing import NetworkSharer

SHARE_BYTES = 60  # a seed of 32 bytes, its seal, and the nonce of that
KEY_BYTES = 32


def totals_point(members: int) -> FixedPoint:
    """How rows are encoded for a sum over so many members: rows whose sum `LARGEST_TOTAL` bounds."""
    return FixedPoint(LARGEST_TOTAL / members, members)


class TotalInbox(SummedInbox):
    """An inbox that has only the sum of what all members said, the listener's own row included: a function of the total
    alone. (Taking off the own row and adding it again would round, where a member that lies makes the total huge; then
    what a member does next would depend on its own row in more ways than through the total.)

    A total is no model: no radius bounds it; `TotalBounds` does."""

    def within(self, radius: float) -> TotalInbox:
        """The same inbox: `TotalBounds` bounds a total, no radius does."""
        return self

    def with_own(self, own: np.ndarray) -> NoReturn:
        """Refused: the listener's own row is in the total already."""
        raise InputError("a total has the listener's own row in it: the method needs plain messages or sums of them")


class _Link:
    """Counts what the protocol sends."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.sent = graph, {"messages": 2 * len(graph.edges), "bytes": 2 * len(graph.edges) * KEY_BYTES}

    def _checked(self, release: Release, turn: Turn) -> np.ndarray:
        everybody = np.arange(self.graph.agents)
        if not (np.array_equal(turn.speakers, everybody) and np.array_equal(turn.listeners, everybody)):
            raise InputError("a total is a sum over all members: all of them must speak and listen at every tick")
        return release.value

    def _count(self, dimension: int) -> None:
        shares, rows = 2 * len(self.graph.edges), 2 * (self.graph.agents - 1)  # up a tree, and down again
        self.sent["messages"] += shares + rows
        self.sent["bytes"] += shares * SHARE_BYTES + rows * 8 * dimension


class IdealTotals:
    """What `SecretSharedTotals` gives, without its cryptography."""

    def open(self, graph: Graph) -> IdealLink:
        """Nothing to agree on beforehand."""
        return IdealLink(graph)


class IdealLink(_Link):
    """Adds all rows up, without cryptography."""

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """The sum of all rows. On the grid of shares it is exact, in whatever order it is computed."""
        rows = self._checked(release, turn)
        self._count(rows.shape[1])
        return _inbox(rows.sum(axis=0), len(rows))


@dataclass(frozen=True)
class SecretSharedTotals:
    """`simulate(..., exchange=SecretSharedTotals())`: the protocol that agents run, with all members in this process.

    Every member splits its row among its neighbours, and adds up what it holds. These partial sums are uniform words;
    their sum, which goes up a tree and down again, is that of the rows. It needs `pip install 'tacit-learn[exchange]'`.

    **What it hides.** A coalition without which the other members stay connected learns the sum of the others' rows,
    and nothing else, even if it does not follow the protocol. `Graph.connectivity` says how large a coalition must be
    to cut a member off.
    """

    def open(self, graph: Graph) -> SecretSharedTotalsLink:
        """Every agent makes its keys, and agrees on a secret with each neighbour: once a run."""
        return SecretSharedTotalsLink(graph)


class SecretSharedTotalsLink(_Link):
    """The members of a simulation, each with keys of its own."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        try:
            from tacit.exchange.network_sharing import NetworkSharer
        except ImportError:
            raise InputError("secret-shared sums need another package: pip install 'tacit-learn[exchange]'") from None
        run, point = os.urandom(16), totals_point(graph.agents)
        self.members: list[NetworkSharer] = [
            NetworkSharer(i, graph.neighbours(i).tolist(), run, point) for i in range(graph.agents)
        ]
        for a, b in graph.edges:
            self.members[a].meet(b, self.members[b].public)
            self.members[b].meet(a, self.members[a].public)

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """The sum of all rows, by secret sharing."""
        rows, tree = self._checked(release, turn), Tree.of(self.graph, t)
        for member, row in zip(self.members, rows, strict=True):
            member.begin(row, t)
        for member in self.members:
            for j in member.neighbours:
                self.members[j].receive(member.agent, member.share(j))
        sums = {i: member.partial() for i, member in enumerate(self.members)}
        for i in reversed(tree.order):  # children come after their parents
            if (parent := tree.parent[i]) is not None:
                sums[parent] = sums[parent] + sums[i]
        total = sums[tree.order[0]]
        self._count(rows.shape[1])
        return _inbox(self.members[0].point.decode(total), len(rows))


def _inbox(total: np.ndarray, members: int) -> TotalInbox:
    """The same total for all members."""
    return TotalInbox(np.tile(total, (members, 1)), np.full((members, 1), members))
