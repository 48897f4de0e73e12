"""Members that share their noise, and one that drops out: the others go on from where they were, without paying again.

A total is the sum of all members' rows, each with its share of the noise. If a member goes away, the totals that follow
are sums over the others. Their noise was planned for that: `dropouts` shares are not counted on.

**What must not happen**: the sum of the *same* noisy rows with and without a member. The difference would be that
member's row, which has its own share of the noise only. So rows that were said in one run are never used in another.
The others leave the run for the run without the member (`Federation.without`), which has keys and shares of its own,
and the tick in doubt is said once more with *fresh* noise: a further release, which was paid for from the start.

**Where the new run starts.** Let a member have committed its row of tick s. It has then heard s totals. Every member
signs this number when members meet in the new run (`tacit.agent.membership.meeting`). A total needs all members, so if
all are honest their numbers differ by one at most. (A liar that hands on false totals can keep honest members farther
apart. Then they do not believe each other, and wait: it can hold up a run, as always.) The new run starts at the
largest of the numbers, T. A member that is one behind asks its neighbours for the state after T totals. That state is
made of totals alone, so it costs nothing.

**What it costs.** Before the first release, a member pays for R + q releases: those of the plan, and one for each of q
dropouts. If it had heard s totals when it left, it had released s + 1 rows at most, and releases at most R - T more,
where T >= s. So each time that the members go on costs one release, and they can go on q times: each time one more
member is absent, of at most q. The agent counts the releases by the marks of its ledger, and by its stores if those
know of more, and stops if there could be too many.

**The noise** of a total stays the same for the largest coalition: N - absent members, q - absent dropouts, the same
shares. Step, deviation and the weights of the members are those of the agreed run.

**A member that lies** about the number can move the start by one tick, since other numbers do not count. It can give a
member that is behind a false state, as it could have given it a false total: one that can come of totals within their
bounds. A state beyond that `reach` is refused, and that of another neighbour is taken. If it says
different numbers to different members, they wait for each other, for good: like every member, it can hold up a run.
Members that see both numbers name it in their log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tacit.agent.federation import TOTALS, Federation
from tacit.agent.participant import Participant
from tacit.agent.state_slots import Arrays
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Message
from tacit.core.algorithm import traits
from tacit.errors import Over

STATE = 3  # phase of the question for the state
_ROUNDING = 1e-9  # relative: what rounding in thousands of ticks stays far below


def goes_on(federation: Federation) -> bool:
    """Whether this run goes on where another was left."""
    return federation.exchange == TOTALS and federation.agreed is not None


def reached(participant: Participant) -> tuple[int, Arrays]:
    """How many totals the member has heard according to its stores, and the state after them; none if it is zero."""
    for each in (participant, *participant.earlier()):
        if (found := each.store.state()) is not None:
            return found
    return 0, {}


def check_count(participant: Participant, start: int) -> None:
    """Refuses to begin at this tick if there could then be more releases than were paid for."""
    federation, said = participant.federation, participant.said_before()
    agreed = federation.agreed or federation
    most = agreed.rounds + agreed.dropouts
    if said + federation.rounds - start > most:
        raise Over(
            f"{participant.name} has released {said} rows in the runs before, and {federation.rounds - start} more "
            f"would follow: {most} were paid for; nothing was sent. Agree on a new run under another title"
        )


def follows(participant: Participant, neighbours: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a member that has finished follows the others into the run without these members: some of its neighbours
    have missed the last total, and a run needs all its members."""
    federation, away = participant.federation, set(names)
    if federation.exchange != TOTALS or participant.name in away or len(away) > federation.dropouts:
        return False
    return bool(set(neighbours) - away - participant.store.finished_neighbours())


def reach(federation: Federation, totals: int) -> dict[str, float]:
    """How far from zero the state of a member can be that has heard so many totals: no total beyond its bounds is used.
    Some of them were heard in runs with more members, so the bound is that for any of the members."""
    bounds, setting = federation.budgeted.total_bounds, federation.setting
    assert bounds is not None
    algorithm: Any = setting.algorithm
    found: dict[str, float] = algorithm.reach(bounds.mean, totals, setting.facts.radius)
    return found


async def first_state(algorithm: Any, state: Any, peers: Iterable[Peer], start: int, reach: Mapping[str, float]) -> Any:
    """The member's state with that of the first neighbour in it that has heard so many totals."""
    read = partial(taken_state, algorithm, state, reach=reach)
    asked = [asyncio.create_task(peer.ask(start, read, phase=STATE)) for peer in peers]
    try:
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for each in asked:
            each.cancel()


def packed_state(algorithm: Any, state: Any) -> bytes:
    """The part of the state that a member needs that has missed a total."""
    rows = [getattr(state, name)[0] for name in traits(algorithm).carried]
    return np.concatenate(rows).astype("<f8").tobytes()


def taken_state(algorithm: Any, state: Any, message: Message, reach: Mapping[str, float]) -> Any:
    """The member's state with what a neighbour has sent in it; refuses what no honest state can be: a neighbour may
    lie."""
    names, dimension = traits(algorithm).carried, state.f.shape[1]
    size = 8 * len(names) * dimension
    if len(message.payload) != size:
        raise BadMessage("its state has {} bytes, not {}", len(message.payload), size)
    rows = np.frombuffer(message.payload, "<f8").astype(float).reshape(-1, dimension)
    if not np.isfinite(rows).all():
        raise BadMessage("its state has numbers that are not finite")
    found = dict(zip(names, rows[:, None], strict=True))
    with np.errstate(over="ignore"):
        for name, row in found.items():
            if not (norm := np.linalg.norm(row)) <= reach[name] * (1 + _ROUNDING):
                rule = "its state has a {} of norm {}, and after so many totals it is at most {}"
                raise BadMessage(rule, name, f"{norm:.3g}", f"{reach[name]:.3g}")
    return state._replace(**found)
