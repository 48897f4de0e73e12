"""Signs of life: when each neighbour was last heard from, and when an agent leaves a run because a member is away.

An agent waits for a neighbour that is away; or, if the federation file says so, only `go_on_after` seconds without a
sign of life. Then it signs that the neighbour is away, and tells the others in its greetings
(`tacit.agent.membership.absence`). It leaves the run for the run without that member (`Federation.without`) only if

- a quorum of the member's neighbours have signed, and
- it has itself had no sign of life from the member for `go_on_after` seconds, if it is a neighbour of the member.

An agent that sees this proof about itself stops, so that its last neighbours miss it, too, and follow the others.
Without the proof nobody leaves, whatever a greeting says. If only the connection between two members fails, each signs
that the other is away, neither reaches a quorum, and the run waits until the connection is back.

**A sign of life** is a call that shows the neighbour's certificate, or its answer. A greeting counts only if it is
about this run, a run that this agent has left, or a run that this agent has a proof for. A member that has left without
proof counts as away.

**Only time in which this agent runs counts.** If its machine sleeps, or has no time for it, the agent cannot hear
anybody. Such a gap says nothing about the neighbours: it counts as two heartbeats, however long it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from tacit.agent.membership.absence import Absences
from tacit.agent.monitoring.logs import log
from tacit.agent.participant import Participant

HEARTBEAT = 2.0  # seconds between two signs of life


class MembersAway(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """It is proven that these members are away: the others go on without them."""

    def __init__(self, names: frozenset[str], reason: str, tick: int, statements: list[bytes]) -> None:
        super().__init__(reason)
        self.names, self.tick, self.statements = names, tick, statements


class Liveness:
    """What an agent knows in its present run about who is there.

    `away` is set once it is proven that members are away. `absences` are the signed statements.
    """

    def __init__(self, participant: Participant, neighbours: Iterable[str], tick: int, begun: bool) -> None:
        self.absences = Absences(participant, tick, begun)
        self.away: asyncio.Future[MembersAway] = asyncio.get_running_loop().create_future()
        self._federation, self._neighbours, self._clock = participant.federation, tuple(neighbours), participant.clock
        self._gaps = 0.0  # seconds in which this agent did not run, but for two heartbeats of each gap
        self._beat = self._clock.steady()  # when this agent was last seen to run
        self._started = self._now()
        self._contacts: dict[str, float] = {}  # by neighbour: when it last gave a sign of life, as `_now` counts
        self._seen: dict[str, float] = {}  # the same by the clock on the wall

    def contact(self, name: str) -> None:
        """There was a sign of life."""
        self._contacts[name], self._seen[name] = self._now(), self._clock.wall()
        self.absences.withdraw(name)

    def contacts(self) -> dict[str, float | None]:
        """The time of the last sign of life of each neighbour, by name."""
        return {name: self._seen.get(name) for name in self._neighbours}

    async def watch(
        self, name: str, greet: Callable[[], Awaitable[None]], needed: Callable[[], bool], why: Callable[[], str]
    ) -> None:
        """Greets a neighbour that has been quiet, and signs that it is away if it stays quiet and is still needed.
        `why` says why it gave no sign of life the last time that it was called."""
        limit = self._federation.go_on_after
        while True:
            await asyncio.sleep(HEARTBEAT)
            self._runs()
            if self.quiet(name) > HEARTBEAT:
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT):
                        await greet()
                self._runs()
            if limit and (quiet := self.quiet(name)) > limit and needed() and self.absences.sign(name):
                log.warning(
                    f"{name} has given no sign of life for {quiet:.0f} s ({why()}); the others go on without it if "
                    f"{self.absences.needed(name)} of its neighbours sign that it is away; signed so far: "
                    f"{self.absences.witnesses(name)}"
                )
            self.decide()

    def decide(self) -> None:
        """Sets `away` if members are proven to be away, and this agent does not hear those that are its neighbours."""
        limit, missed = self._federation.go_on_after, self.absences.missed()
        away = [name for name in self._federation.names if name in missed and self.absences.proven(name)]
        away = [name for name in away if name not in self._neighbours or self.quiet(name) > limit]
        if away and not self.away.done():
            reason = "; ".join(f"{name} is away, signed by {self.absences.witnesses(name)}" for name in away)
            statements = [each.SerializeToString() for each in self.absences.about(away)]
            self.away.set_result(MembersAway(frozenset(away), reason, self.absences.tick, statements))

    def quiet(self, name: str) -> float:
        """Seconds since the last sign of life of a neighbour."""
        return self._now() - self._contacts.get(name, self._started)

    def _now(self) -> float:
        """A clock that stands still while this agent does not run."""
        return min(self._clock.steady(), self._beat + 2 * HEARTBEAT) - self._gaps

    def _runs(self) -> None:
        """Notes that this agent runs. The watch of every neighbour calls it once in a heartbeat, or twice."""
        now = self._clock.steady()
        self._gaps += max(0.0, now - self._beat - 2 * HEARTBEAT)
        self._beat = now
