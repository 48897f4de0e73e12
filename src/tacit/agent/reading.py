"""How an agent reads what its neighbours said (`tacit.exchange.listening`), and whose words were moved how far.

A neighbour whose words lie outside the radius, or far from everybody else's where members listen robustly, is named in
the log and in the report: a member that lies is limited, and seen. In a secret-shared sum nobody sees a row, so that
only the sum is bounded, and nobody can be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.agent.federation import NONE, SUMS, Federation
from tacit.agent.participant import Participant
from tacit.agent.store import Arrays
from tacit.agent.transport import Refusals, log
from tacit.core.release import Inbox
from tacit.core.schedule import Broadcast
from tacit.exchange.listening import Listening

_MOST = 1e300  # what a distance beyond all numbers is written as


class Reading:
    """One agent's, over a run."""

    def __init__(self, participant: Participant) -> None:
        federation = participant.federation
        robust = None if federation.robust == NONE else federation.robust
        schedule = federation.setting.algorithm.schedule(federation.graph)
        period = schedule.period if isinstance(schedule, Broadcast) else 1
        self._listening, self._refusals = Listening(participant.problem.radius, robust, period), Refusals()
        self._names = named(federation, participant.me)
        near = federation.graph.neighbours(participant.me).tolist()
        self._place = {j: 0 if federation.exchange == SUMS else k for k, j in enumerate(near)}
        self._moved = np.zeros((len(self._names), 3))  # at how many ticks, by how much in all, and at most
        self._nothing = np.zeros((2, period, len(near), participant.problem.dimension) if robust else 0)

    @property
    def memory(self) -> Arrays:
        """What has to be known again after a crash."""
        heard = self._listening.memory
        return {"listened": self._nothing if heard is None else heard, "moved": self._moved}

    def remember(self, memory: Arrays) -> None:
        """After a crash."""
        self._listening.memory = memory["listened"] if len(self._nothing) else None
        self._moved = memory["moved"]

    def read(self, inbox: Inbox, senders: Sequence[int], own: np.ndarray, t: int) -> Inbox:
        """What the agent goes on with; `own`, (d,), is what it said itself."""
        found = self._listening.read(inbox, own[None], t)
        places = [self._place[j] for j in senders][: len(found.moved)]
        distances = np.minimum(np.nan_to_num(found.moved, posinf=_MOST), _MOST)
        for place, distance in zip(places, distances, strict=True):
            if distance > 0:
                ticks, total, most = self._moved[place]
                self._moved = self._moved.copy()  # a state's arrays are never written to
                self._moved[place] = ticks + 1, min(total + distance, _MOST), max(most, distance)
                if self._listening.robust is None:
                    text = f"{self._names[place]} said something outside the radius {self._listening.radius:g}: clipped"
                    self._refusals.say(text, text)
        return found.inbox

    def tell(self, rounds: int) -> None:
        """A line of the log for everybody whose words were moved."""
        for name, found in summary(self._names, self._moved).items():
            log.warning(
                f"what {name} said was moved at {found['ticks']} of {rounds} ticks, by {found['mean']:.3g} on average "
                f"and {found['largest']:.3g} at most"
            )


def named(federation: Federation, me: int) -> list[str]:
    """Whose words an agent hears."""
    if federation.exchange == SUMS:
        return ["the sum of all neighbours"]
    return [federation.names[j] for j in federation.graph.neighbours(me)]


def summary(names: Sequence[str], moved: np.ndarray) -> dict[str, dict[str, Any]]:
    """Of those whose words were moved: at how many ticks, and how far on average and at most."""
    return {
        name: {"ticks": int(ticks), "mean": float(total / ticks), "largest": float(most)}
        for name, (ticks, total, most) in zip(names, moved, strict=True)
        if ticks
    }


def listened(participant: Participant) -> dict[str, Any]:
    """For the report: how the member listened, and whose words were moved."""
    found = participant.store.state()
    moved = np.zeros((0, 3)) if found is None else found[1]["moved"]
    names = named(participant.federation, participant.me)[: len(moved)]
    return {
        "radius": participant.federation.radius,
        "robust": participant.federation.robust,
        "moved": summary(names, moved),
    }
