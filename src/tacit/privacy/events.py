"""What a release costs, as frozen data. Adjacency: one record of one agent is replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unprotected:
    """A function of the data leaves as it is: no finite epsilon bounds what it tells."""


@dataclass(frozen=True)
class Free:
    """Nothing about the data leaves that had not left before; `reason` says why."""

    reason: str


Event = Unprotected | Free
