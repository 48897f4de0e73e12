"""One agent's part in a federation, from its start to its model, in as many runs as that takes.

`tacit.agent.loop` runs the agent in one run. If members are proven to be away (`tacit.agent.membership.liveness`), the
agent leaves that run for the run of the federation without them (`Federation.without`). The new run starts from the
beginning: another graph is another problem for the method, with other settings, and it costs its own budget. Members
that share their noise go on from where they were, and pay nothing (`tacit.agent.membership.dropout`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack, suppress
from typing import Any

import numpy as np

from tacit.agent.loop import AgentLoop, Watch
from tacit.agent.membership.dropout import goes_on
from tacit.agent.membership.liveness import MembersAway
from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Progress
from tacit.agent.participant import Participant
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.server import Server
from tacit.agent.transport.sockets import Network
from tacit.errors import Over, TacitError

Finished = Callable[[Participant, np.ndarray], None]


async def take_part(
    participant: Participant,
    *,
    listen: str | None = None,
    patience: float | None = None,
    linger: float = 600.0,
    watch: Watch = lambda doing, done, rounds: None,
    finished: Finished = lambda participant, model: None,
    progress: Progress | None = None,
    network: Network | None = None,
) -> np.ndarray:
    """Runs this member's part to the end, from wherever an earlier process left it; gives its model, (d,).

    - `listen`: HOST:PORT to listen at, if it is not the address in the federation file.
    - `patience`: the agent stops after so many seconds without a neighbour that it needs. Without it, it waits for
      ever, or goes on without the neighbour if the federation file says so.
    - `linger`: how many seconds the agent stays at most, when it has finished, for neighbours that still need it.
    - `watch` is called with what the agent is doing, the number of ticks done, and the number of all.
    - `finished` is called with the participant in the run that was finished, and the model.
    - `progress` is kept up to date, for whoever looks from outside.
    - `network` is where it talks, if that is not TCP.
    """
    participant, progress, network = participant.present(), progress or Progress(), network or Network()
    while True:
        try:
            return await _take_part(participant, listen, patience, linger, watch, finished, progress, network)
        except MembersAway as away:
            reduced = _reduced(participant, away.names, str(away))
            participant.store.go_on(away.names, away.tick, away.statements)
            participant = reduced
            absent, run = ", ".join(participant.federation.absent), participant.federation.run[:16]
            where = "from where it was" if goes_on(participant.federation) else "from the start"
            log.warning(f"{away}; this agent goes on without {absent}, {where}, in the run {run}")


def _reduced(participant: Participant, names: Collection[str], reason: str) -> Participant:
    """The participant in the run without these members. Refuses a run that is impossible or too expensive."""
    if participant.name in names:
        raise Over(f"the others go on without {participant.name}: {reason}")
    try:
        reduced = participant.without(names)
        reduced.check()
    except TacitError as error:
        raise Over(f"{reason}; the run cannot go on without {', '.join(sorted(names))}: {error}") from None
    return reduced


async def _take_part(
    participant: Participant,
    listen: str | None,
    patience: float | None,
    linger: float,
    watch: Watch,
    finished: Finished,
    progress: Progress,
    network: Network,
) -> np.ndarray:
    """In this run, until it is finished or left."""
    participant.check()
    participant = participant.started()
    federation, me, identity = participant.federation, participant.me, participant.identity
    for name, why in federation.refused.items():
        log.warning(
            f"this agent refuses {name}, because {why}, and goes on without it once enough of its neighbours have "
            "signed that it is away"
        )
    loop = AgentLoop(participant, watch, progress)
    async with AsyncExitStack() as stack:
        server = Server(federation, me, identity, loop.conversation, progress.traffic, network)
        await server.start(listen or federation.members[me].address)
        stack.push_async_callback(server.stop)
        for j in loop.neighbours:
            loop.peers[j] = Peer(federation, me, j, identity, loop.conversation, progress.traffic, network)
            stack.push_async_callback(loop.peers[j].close)
        endless = [
            asyncio.create_task(task) for task in (loop.heartbeat(), *map(loop.watch_neighbour, loop.neighbours))
        ]
        work = asyncio.create_task(loop.run(patience))
        for task in (*endless, work):
            stack.callback(task.cancel)
        either: tuple[asyncio.Future[Any], ...] = (work, loop.liveness.away, loop.conversation.ended, *endless)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        await _stop_if_ended(loop, work)
        if not work.done():
            for task in endless:
                if task.done():  # it failed: an agent that cannot notice absences would wait for ever
                    task.result()
            away = loop.liveness.away.result()
            work.cancel()
            if participant.name not in away.names:
                # New settings take seconds. This agent answers meanwhile, so that nobody takes it to be away, too.
                with suppress(TacitError):  # `_reduced` says why it cannot go on
                    await asyncio.to_thread(federation.without, away.names)
            await _stop_if_ended(loop, work)
            raise away
        model = work.result()
        finished(participant, model)
        await loop.leave(linger)
        await _stop_if_ended(loop, work)
        if loop.follows():
            raise loop.liveness.away.result()
        loop.doing = "finished"
        progress.show(loop.doing, loop.rounds)
        loop.beat(loop.doing)
    return model


async def _stop_if_ended(loop: AgentLoop, work: asyncio.Task[np.ndarray]) -> None:
    """Stops a process that must: it says nothing more, but for the reason."""
    if loop.conversation.ended.done():
        work.cancel()
        await loop.conversation.tell()
        loop.beat("stopped")
        raise loop.conversation.ended.result()
