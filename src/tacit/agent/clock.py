"""The time as an agent sees it. It comes from outside, as its store, its ledger, its noise and its network do.

Whatever waits does so by the event loop, which has a clock of its own.
"""

from __future__ import annotations

import time


class Clock:
    """The clock of this machine, or whatever has these methods."""

    def steady(self) -> float:
        """Seconds that only grow, whoever sets the clock."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()
