"""Plain messages: every listener gets the rows of its neighbours."""

from __future__ import annotations

from tacit.core.graph import Graph
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Turn


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
        messages = len(turn.indices) if release.silent is None else int((~release.silent[turn.indices]).sum())
        self.sent["messages"] += messages
        self.sent["bytes"] += messages * release.value[0].nbytes
        return Inbox(release.value, turn.indptr, turn.indices)
