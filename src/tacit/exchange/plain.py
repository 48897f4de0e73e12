"""Plain messages: every listener gets the rows of its neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.privacy.events import Event, SharedGaussian


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
        require_no_shares(release.events)
        messages = len(turn.indices) if release.silent is None else int((~release.silent[turn.indices]).sum())
        self.sent["messages"] += messages
        self.sent["bytes"] += messages * release.value[0].nbytes
        return Inbox(release.value, turn.indptr, turn.indices)


def require_no_shares(events: Iterable[Event]) -> None:
    """Refuses rows that carry only a share of their noise, wherever they would leave in another way than in a total."""
    if any(isinstance(event, SharedGaussian) for event in events):
        raise InputError(
            "a row with a share of the noise is protected only in a sum over all members: exchange totals, with "
            "IdealTotals() or SecretSharedTotals()"
        )
