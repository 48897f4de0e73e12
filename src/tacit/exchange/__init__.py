"""How messages reach the listeners: as plain messages, or as sums that hide the single messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tacit.core.algorithm import Algorithm, traits
from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.exchange.plain import Plain
from tacit.exchange.secret_shared import SecretSharedSums
from tacit.exchange.totals import IdealTotals, SecretSharedTotals
from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.exchange.collusion import revealed, revealed_by_repeats

__all__ = [
    "Exchange",
    "IdealTotals",
    "Link",
    "Plain",
    "SecretSharedSums",
    "SecretSharedTotals",
    "revealed",
    "revealed_by_repeats",
    "usual_exchange",
]


class Link(Protocol):
    """The agents of a graph, connected for one run."""

    sent: dict[str, int]  # "messages" and "bytes" so far

    def deliver(self, release: Release, turn: Turn, t: int, /) -> Inbox:
        """What the listeners of tick t get from what its speakers released."""
        ...


class Exchange(Protocol):
    """A way of connecting the agents of a graph."""

    def open(self, graph: Graph, /) -> Link:
        """Opens the exchange on this graph; called once in a run."""
        ...


def usual_exchange(algorithm: Algorithm) -> Exchange:
    """How messages of a method travel in a simulation, if nobody says otherwise."""
    return IdealTotals() if traits(algorithm).totals else Plain()


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"tacit.exchange.collusion": ("revealed", "revealed_by_repeats")})
