"""What an agent waits for, in its log at the default level: an operator must not wonder for minutes.

A neighbour that gives no sign of life gets a warning, with the reason, after 30 s, then after twice as long each time,
and at least once an hour; and a line when it is back. If all neighbours are there and the agent waits all the same, a
member farther away holds up the run: that is said, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.agent.monitoring.logs import log

if TYPE_CHECKING:  # it looks at an agent, and is a part of it
    from tacit.agent.loop import AgentLoop

_FIRST, _MOST = 30.0, 3600.0  # seconds: before the first line, and between two lines


class Overdue:
    """When to say that something takes long. It is asked again and again, with the seconds that it has lasted."""

    def __init__(self) -> None:
        self._next, self._last = _FIRST, 0.0

    def over(self, seconds: float) -> float:
        """How long it lasted, if it has begun anew since, and if it was said that it takes long; else 0."""
        lasted = self._last if seconds < self._last and self._next > _FIRST else 0.0
        if seconds < self._last:
            self._next = _FIRST
        self._last = seconds
        return lasted

    def due(self, seconds: float) -> bool:
        """Whether to say now that it takes long."""
        if seconds < self._next:
            return False
        self._next = seconds + min(seconds, _MOST)
        return True


class Waiting:
    """Looks at one agent, once in a heartbeat."""

    def __init__(self, agent: AgentLoop) -> None:
        self._agent, self._clock = agent, agent.participant.clock
        self._silences = {j: Overdue() for j in agent.neighbours}
        self._doing, self._since, self._whole = ("", 0), self._clock.steady(), Overdue()

    def look(self) -> None:
        """Writes the lines that are due."""
        agent, quiet = self._agent, False
        finished = agent.participant.store.finished_neighbours()
        for j, silence in self._silences.items():
            name = agent.participant.federation.names[j]
            seconds = agent.liveness.quiet(name)
            if lasted := silence.over(seconds):
                log.info(f"{name} gives signs of life again, after {lasted:.0f} s")
            if name in finished and name not in agent.progress.waiting_for:
                continue
            quiet = quiet or seconds > _FIRST
            if silence.due(seconds):
                log.warning(
                    f"{name} has given no sign of life for {seconds:.0f} s ({agent.why_quiet(j)}); this agent is "
                    f"{agent.doing}{self._hint()}"
                )
        self._look_farther(quiet)

    def _hint(self) -> str:
        """A member that comes back late may have been left behind by members that are gone by now."""
        liveness, federation = self._agent.liveness, self._agent.participant.federation
        if not federation.go_on_after or any(liveness.contacts().values()):
            return ""
        return ". If the others have finished without it, a report of theirs shows that: tacit federation without"

    def _look_farther(self, quiet: bool) -> None:
        """Whether the agent waits although its neighbours are there."""
        agent, now = self._agent, self._clock.steady()
        doing = (agent.doing, agent.progress.tick)
        if doing != self._doing:
            self._doing, self._since = doing, now
        seconds = now - self._since
        if lasted := self._whole.over(seconds):
            log.info(f"goes on, after {lasted:.0f} s")
        if quiet or not agent.doing.startswith("waiting") or not self._whole.due(seconds):
            return
        missing = agent.conversation.meeting.missing
        waited = f"not yet: {', '.join(missing)}" if missing else "it computes, or waits for another member"
        log.info(f"{agent.doing} for {seconds:.0f} s, and all neighbours give signs of life; {waited}")
