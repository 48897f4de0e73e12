"""How an agent reads its neighbours' messages (`tacit.exchange.listening`), and whose messages it moved how far.

If a neighbour's message lies outside the radius, or, where members listen robustly, far from the others' messages, the
log and the report name that neighbour. So a member that lies can do limited harm, and is seen. In a secret-shared sum
nobody sees a row: only the sum is bounded, and nobody can be named. A total beyond its bounds is not used
(`tacit.exchange.total_bounds`): the log names the tick, metrics and the report count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.agent.federation import ROWS, TOTALS, Federation
from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Progress
from tacit.agent.participant import Participant
from tacit.agent.state_slots import Arrays
from tacit.agent.transport.refusals import Refusals
from tacit.core.release import Inbox
from tacit.core.schedule import Broadcast
from tacit.exchange.listening import Listening

_MOST = 1e300  # stands for every larger distance


class Reading:
    """How one agent reads messages over a run."""

    def __init__(self, participant: Participant, progress: Progress) -> None:
        federation = participant.federation
        self._progress = progress
        robust = federation.spec.trust.robust
        schedule = federation.setting.algorithm.schedule(federation.graph)
        period = schedule.period if isinstance(schedule, Broadcast) else 1
        bounds, self._refusals = federation.total_bounds, Refusals()
        self._listening = Listening(participant.problem.radius, robust, period, bounds=bounds)
        self._names = named(federation, participant.me)
        near = federation.graph.neighbours(participant.me).tolist()
        self._place = {j: k if federation.exchange == ROWS else 0 for k, j in enumerate(near)}
        self._moved = np.zeros((len(self._names), 3))  # at how many ticks, by how much in all, and at most
        self._nothing = np.zeros((2, period, len(near), participant.problem.dimension) if robust else 0)

    @property
    def memory(self) -> Arrays:
        """What must be kept over a crash."""
        heard = self._listening.memory
        return {"listened": self._nothing if heard is None else heard, "rows moved": self._moved}

    def remember(self, memory: Arrays) -> None:
        """Takes `memory` back after a crash."""
        self._listening.memory = memory["listened"] if len(self._nothing) else None
        self._moved = memory["rows moved"]

    def read(self, inbox: Inbox, senders: Sequence[int], own: np.ndarray, t: int) -> Inbox:
        """The messages as the agent uses them; `own`, (d,), is what it said itself."""
        found = self._listening.read(inbox, own[None], t)
        places = [self._place[j] for j in senders][: len(found.moved)]
        distances = np.minimum(np.nan_to_num(found.moved, posinf=_MOST), _MOST)
        for place, distance in zip(places, distances, strict=True):
            if distance > 0:
                ticks, total, most = self._moved[place]
                self._moved = self._moved.copy()  # a state's arrays are never written to
                self._moved[place] = ticks + 1, min(total + distance, _MOST), max(most, distance)
                if self._listening.bounds is not None:
                    self._progress.beyond += 1
                    log.warning(  # at every tick: there are no more of these than ticks
                        f"tick {t}: {self._names[place]} has the norm {distance:.3g}, and honest members reach "
                        f"{self._listening.bounds.largest:.3g} at most: not used. A member lies, or its agent is broken"
                    )
                elif self._listening.robust is None:
                    text = f"{self._names[place]} said something outside the radius {self._listening.radius:g}: clipped"
                    self._refusals.warn(text, text)
        return found.inbox

    def log_moved(self, rounds: int) -> None:
        """Writes a line to the log for every neighbour whose messages were moved."""
        for name, found in summary(self._names, self._moved).items():
            at = f"at {found['ticks']} of {rounds} ticks"
            log.warning(
                f"what {name} said was moved {at}, by {found['mean']:.3g} on average and {found['largest']:.3g} at most"
                if self._listening.bounds is None
                else f"{name} was beyond its bounds {at}, and not used"
            )


def named(federation: Federation, me: int) -> list[str]:
    """The names under which an agent logs what it hears."""
    if federation.exchange != ROWS:
        return ["the sum of all members" if federation.exchange == TOTALS else "the sum of all neighbours"]
    return [federation.names[j] for j in federation.graph.neighbours(me)]


def summary(names: Sequence[str], moved: np.ndarray) -> dict[str, dict[str, Any]]:
    """For every name whose messages were moved: at how many ticks, and how far on average and at most."""
    return {
        name: {"ticks": int(ticks), "mean": float(total / ticks), "largest": float(most)}
        for name, (ticks, total, most) in zip(names, moved, strict=True)
        if ticks
    }


def listened(participant: Participant) -> dict[str, Any]:
    """For the report: how the member listened, and whose messages were moved. Where the members share their noise, that
    of the runs that were left, too: this one went on where they ended."""
    runs = [participant, *(participant.earlier() if participant.federation.exchange == TOTALS else ())]
    found = [state[1]["rows moved"] for each in runs if (state := each.store.state()) is not None]
    moved = np.column_stack([np.sum(found, axis=0)[:, :2], np.max(found, axis=0)[:, 2]]) if found else np.zeros((0, 3))
    names = named(participant.federation, participant.me)[: len(moved)]
    return {
        "radius": participant.federation.spec.radius,
        "robust": participant.federation.spec.trust.robust,
        "moved": summary(names, moved),
    }
