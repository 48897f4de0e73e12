"""Sums of the neighbours' messages, computed so that nobody sees a single message."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from tacit.core.alike import distinct
from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release, clipped
from tacit.core.schedule import Turn
from tacit.errors import Dropout, InputError
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.plain import require_no_shares

if TYPE_CHECKING:
    from tacit.exchange.sharing import Group, GroupSharing, Sharer

Carry = Callable[[int, int, bytes], bytes | None]  # sender, receiver, message -> what arrives, if anything


@dataclass(frozen=True, kw_only=True)
class SecretSharedSums:
    """`simulate(..., exchange=SecretSharedSums())`: listeners get `inbox.sum()`, `.mean()` and `.counts`, no rows.

    Paper 003, Theorem 2.1 and Algorithm 3 (appendix A). The protocol is in `tacit.exchange.sharing`, where one agent's
    end is a class of its own; the arithmetic, and how exact it is, in `FixedPoint`. It needs
    `pip install 'tacit-learn[exchange]'`.

    **What it hides.** A coalition sees uniform words. They depend on the rows of the others only through the sums
    that its own listeners hear. This assumes that everybody follows the protocol, and that public keys are authentic.

    **What it does not hide.** Those sums, every round. If all but two members of a group combine what they know, they
    learn the sum of the two others' rows; all but one learn the last one's row. Neighbourhoods overlap, and single rows
    may follow from several sums: `revealed(graph, coalition)` says whose. So it is *not* differential privacy and
    lowers no cost: a release is charged as if it were sent as a plain message. The method draws the noise before;
    rounding to fixed point, and cutting a noisy entry to the bound, come after it and are post-processing.

    **Groups** are closed neighbourhoods. One of fewer than `least` members is refused, so every agent needs at least
    two neighbours. Agents with the same closed neighbourhood (all, on a complete graph) share one sum.

    **Costs.** A share is 48 bytes, or 80 for a listener, and sent twice if its ends are not neighbours and a listener
    relays it; a partial sum is 16 bytes longer than a plain message. `history` counts both, and at round 0 the keys.

    >>> from tacit.algorithms import ConsensusADMM
    >>> from tacit import Problem, simulate
    >>> problem = Problem([([[1.0]], [1]), ([[-1.0]], [1]), ([[0.5]], [1])], l2=0.1)
    >>> open_, shared = (simulate(ConsensusADMM(), problem, Graph.ring(3), rounds=20, exchange=exchange)
    ...                  for exchange in (None, SecretSharedSums()))
    >>> bool(np.abs(open_.model - shared.model).max() < 1e-12)
    True
    """

    bound: float = 2.0**16  # no entry of a message is larger in absolute value; public
    least: int = 3  # members of a group

    def point(self, graph: Graph) -> FixedPoint:
        """How numbers are encoded, so that the sums of the largest group fit."""
        return FixedPoint(self.bound, 1 + int(graph.degree.max()))

    def open(self, graph: Graph) -> SecretSharedLink:
        """Every agent makes its keys, and agrees on a secret with every agent of its groups: once a run."""
        return SecretSharedLink(graph, self.point(graph), self.least)


class SecretSharedLink:
    """The members of a simulation, each with keys and sharings of its own."""

    def __init__(self, graph: Graph, point: FixedPoint, least: int) -> None:
        try:
            from tacit.exchange.sharing import Sharer
        except ImportError:
            raise InputError("secret-shared sums need another package: pip install 'tacit-learn[exchange]'") from None
        run = os.urandom(16)
        self.sent, self._point = {"messages": 0, "bytes": 0}, point
        self.members: list[Sharer] = [Sharer(i, run, point, least=least) for i in range(graph.agents)]
        self._edges = set(graph.edges)
        near = [[i, *graph.neighbours(i).tolist()] for i in range(graph.agents)]
        for i, j in sorted({(i, j) for group in near for i in group for j in group if i < j}):
            for a, b in ((i, j), (j, i)):
                self.members[a].meet(b, self.members[b].public)
                self._count(b, a, len(self.members[b].public))
        everybody = np.arange(graph.agents)
        for group in _groups(Turn(everybody, everybody, graph.indptr, graph.indices)):
            self._groups(group)

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """The listeners' sums. A sum that several of them share is computed once, and counted for each.

        An agent that is silent takes part with the row that its listeners would have as plain messages.
        """
        require_no_shares(release.events)
        rows = release.value
        if all(event.protected for event in distinct(release.events)):
            rows = self._point.bounded(rows)  # a noisy row may be moved, and must not fail
        said = dict(zip(turn.speakers.tolist(), rows, strict=True))
        sums = np.empty((len(turn.listeners), rows.shape[1]))
        place = {i: k for k, i in enumerate(turn.listeners.tolist())}
        for group in _groups(turn):
            sharings, (first, *others) = self._groups(group), group.listeners
            total = shared_sum(sharings, said, t, self._carry, listeners=(first,)).totals[first]
            repeats = len(others) * (len(sharings) - 1)  # of the partial sums, to the other listeners
            self.sent["messages"] += repeats
            self.sent["bytes"] += repeats * (8 * rows.shape[1] + 16)  # a seal is 16 bytes
            for i in group.listeners:
                sums[place[i]] = sharings[i].heard(total)
        return SummedInbox(sums, np.diff(turn.indptr)[:, None])

    def _groups(self, group: Group) -> dict[int, GroupSharing]:
        return {i: self.members[i].in_group(group) for i in group.members}

    def _carry(self, sender: int, receiver: int, message: bytes) -> bytes:
        self._count(sender, receiver, len(message))
        return message

    def _count(self, sender: int, receiver: int, size: int) -> None:
        hops = 1 if (min(sender, receiver), max(sender, receiver)) in self._edges else 2  # by way of the listener
        self.sent["messages"] += hops
        self.sent["bytes"] += hops * size


class SharedSum(NamedTuple):
    """The result of a sum."""

    members: tuple[int, ...]  # whose rows it counts
    totals: dict[int, np.ndarray]  # for each listener, modulo p


def shared_sum(
    sharings: Mapping[int, GroupSharing],
    rows: Mapping[int, np.ndarray],
    round: int,
    carry: Carry,
    *,
    listeners: tuple[int, ...],
    redo: bool = False,
) -> SharedSum:
    """One sum among the members of a group, step by step.

    - `sharings`: the members, by agent; `rows`: what each of them says.
    - `carry` is the network. If a share does not arrive, its sender has dropped out: the sum is refused, or, with
      `redo`, tried again without the sender. `redo` is for complete graphs (see `tacit.exchange.sharing`).
    - `listeners`: the members that hear the sum.

    Partial sums leave only when every member has all shares, so that until then an attempt can be given up. If a
    partial sum does not arrive, there is no sum in this round.
    """
    present = sorted(sharings)
    for attempt in count():
        missing = set()
        sealed = {i: sharings[i].shares(rows[i], round, members=present, attempt=attempt) for i in present}
        for i in present:
            for j, message in sealed[i].items():
                arrived = carry(i, j, message)
                if arrived is None:
                    missing.add(i)
                else:
                    sharings[j].receive(i, arrived)
        if not missing:
            break
        if not redo:
            raise Dropout(sorted(missing), f"shares from {sorted(missing)} did not arrive: there is no sum")
        present = [i for i in present if i not in missing]
        if not present:
            raise Dropout(sorted(missing), "nobody's shares arrived: there is no sum")
    lost = [i for i in listeners if i not in present]
    if lost:
        raise Dropout(lost, f"the listeners {lost} have dropped out: there is no sum")
    collectors = {i: sharings[i].collect() for i in listeners}
    for i in present:
        message = sharings[i].partial()
        for j, collector in collectors.items():
            if i != j and (arrived := carry(i, j, message)) is not None:
                collector.receive(i, arrived)
    return SharedSum(tuple(present), {i: collector.total() for i, collector in collectors.items()})


class SummedInbox(Inbox):
    """An inbox that has only the sums."""

    def __init__(self, sums: np.ndarray, counts: np.ndarray) -> None:
        self._sums, self._counts = sums, counts

    @property
    def counts(self) -> np.ndarray:
        """How many rows each listener's sum has, (n, 1)."""
        return self._counts

    def with_own(self, own: np.ndarray) -> SummedInbox:
        """The sum of the closed neighbourhood: each listener adds its own row, which it knows."""
        return SummedInbox(self._sums + own, self._counts + 1)

    def within(self, radius: float) -> SummedInbox:
        """Nobody sees a row: the sum is clipped to the largest sum of so many rows of norm at most `radius`."""
        return SummedInbox(clipped(self._sums, np.maximum(self._counts, 1) * radius), self._counts)

    def distances(self, other: Inbox) -> np.ndarray:
        """How far each sum is from that of another inbox, (n,). Nobody can say whose row is the reason."""
        with np.errstate(over="ignore"):
            return np.linalg.norm(self._sums - other.sum(), axis=1)

    def sum(self) -> np.ndarray:
        """The sum of each listener's rows, (n, d)."""
        return self._sums

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("rows", "indptr", "indices"):  # everything else in an inbox is computed from these
            raise InputError(
                "with secret-shared sums a listener has sum(), mean() and counts, but no single rows: the method needs "
                "plain messages"
            )
        raise AttributeError(name)


def _groups(turn: Turn) -> list[Group]:
    """Each listener with the agents that it hears; listeners of the same group together."""
    from tacit.exchange.sharing import Group

    listeners: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    speakers = turn.speakers.tolist()
    speaking = set(speakers)
    for k, i in enumerate(turn.listeners.tolist()):
        if i not in speaking:
            raise InputError(f"in a secret-shared sum all agents must speak, but agent {i} listens without speaking")
        heard = [speakers[s] for s in turn.indices[turn.indptr[k] : turn.indptr[k + 1]]]
        listeners[tuple(sorted({i, *heard}))].append(i)
    return [Group(members, tuple(sorted(hearing))) for members, hearing in listeners.items()]
