"""Plain messages: every listener gets the rows of its neighbours."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.core.alike import distinct
from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.privacy.events import Event


class Plain:
    """Every speaker sends its row to each of its listeners, eight bytes a number."""

    def open(self, graph: Graph) -> PlainLink:
        """Nothing to agree on beforehand."""
        return PlainLink()


class PlainLink:
    """Hands rows over, and counts them."""

    def __init__(self) -> None:
        self.sent = {"messages": 0, "bytes": 0}

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        """The rows themselves. An agent that is silent sends nothing: its listeners have the row already."""
        self.count(release.events, release.silent, turn, release.value[0].nbytes)
        return Inbox(release.value, turn.indptr, turn.indices)

    def count(self, events: Iterable[Event], silent: np.ndarray | None, turn: Turn, width: int) -> None:
        """Counts rows of `width` bytes that are handed over, and refuses those that must not be."""
        require_no_shares(events)
        messages = len(turn.indices) if silent is None else int((~silent[turn.indices]).sum())
        self.sent["messages"] += messages
        self.sent["bytes"] += messages * width


def require_no_shares(events: Iterable[Event]) -> None:
    """Refuses rows that carry only a share of their noise, wherever they would leave in another way than in a total."""
    if any(event.shared is not None for event in distinct(events)):
        raise InputError(
            "a row with a share of the noise is protected only in a sum over all members: exchange totals, with "
            "IdealTotals() or SecretSharedTotals()"
        )
