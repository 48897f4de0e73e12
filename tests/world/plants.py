"""Bugs of the protocol, planted into the agents. The world must find each of them.

To add one, add a function that changes what it needs with `put`, and a row to `PLANTS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any, NamedTuple
from unittest.mock import patch

from tacit.agent import journal, state_slots
from tacit.agent.conversation import Conversation
from tacit.agent.federation import Federation
from tacit.agent.incarnation import Incarnations
from tacit.agent.loop import AgentLoop
from tacit.agent.membership import dropout
from tacit.agent.membership.meeting import Meeting
from tacit.agent.participant import Participant
from tacit.agent.signed_words import Statements
from tacit.agent.store import Store
from tacit.agent.totals_delivery import TotalsDelivery
from tacit.exchange.keys import RepeatableWords
from tacit.exchange.network_sharing import NetworkSharer
from tacit.privacy.ledger import Ledger

Put = Callable[[Any, str, Any], None]


def _nothing(*_: Any, **__: Any) -> None:
    """In place of a check, or of a step."""


def publish_before_commit(put: Put) -> None:
    commit, finish, message = Store.commit, Store.finish, Store.message

    def late(self: Any, tick: int, state: Any, said: bytes, *more: Any) -> None:
        flush(self)
        self.__dict__["waits"] = (tick, state, said, *more)

    def flush(self: Any) -> None:
        if (waits := self.__dict__.pop("waits", None)) is not None:
            commit(self, *waits)

    def finishing(self: Any, *args: Any) -> None:
        flush(self)
        finish(self, *args)

    def remembered(self: Any, tick: int) -> bytes | None:
        waits = self.__dict__.get("waits")
        return waits[2] if waits is not None and waits[0] == tick else message(self, tick)

    put(Store, "commit", late)
    put(Store, "finish", finishing)
    put(Store, "message", remembered)
    put(Store, "digest", lambda self, tick: sha256(self.message(tick)).digest())


def publish_before_mark(put: Put) -> None:
    mark = Participant.mark

    def late(self: Any, tick: int, digest: bytes) -> None:
        waits = self.store.__dict__
        if "unmarked" in waits:
            mark(self, *waits["unmarked"])
        waits["unmarked"] = tick, digest

    put(Participant, "mark", late)


def mark_ignored(put: Put) -> None:
    mark = Ledger.mark
    put(Participant, "_check_memory", _nothing)
    put(Ledger, "mark", lambda self, run, tick, *a: None if tick in self.marks(run) else mark(self, run, tick, *a))


def quorum_one_short(put: Put) -> None:
    needed = Federation.needed
    put(Federation, "needed", lambda self, neighbours: max(1, needed(self, neighbours) - 1))


def incarnation_ignored(put: Put) -> None:
    put(Incarnations, "take", _nothing)
    put(Statements, "take", _nothing)


def share_counted_twice(put: Put) -> None:
    receive = NetworkSharer.receive

    def twice(self: Any, peer: int, sealed: bytes) -> None:
        receive(self, peer, sealed)
        self._awaited.add(peer)
        receive(self, peer, sealed)

    put(NetworkSharer, "receive", twice)


def seeds_drawn_anew(put: Put) -> None:
    put(RepeatableWords, "seed", lambda self, about: self.__dict__.setdefault(about, os.urandom(32)))


def dropout_counted_twice(put: Put) -> None:
    check = dropout.check_count

    class Twice:
        def __init__(self, participant: Any) -> None:
            self._participant = participant

        def said_before(self) -> int:
            return 2 * self._participant.said_before()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._participant, name)

    put(dropout, "check_count", lambda participant, start: check(Twice(participant), start))


def paid_again(put: Put) -> None:
    reserve = Ledger.reserve_run

    def again(self: Any, run: str, *args: Any) -> None:
        if self.reserved(run):
            run = sha256(run.encode()).hexdigest()
        reserve(self, run, *args)

    put(Ledger, "reserve_run", again)


def state_not_compared(put: Put) -> None:
    put(state_slots, "read", lambda store, slot, *_: state_slots.path_of(store, slot).read_bytes())


def state_not_synced(put: Put) -> None:
    write = state_slots.write

    def unsynced(*args: Any) -> str:
        with patch.object(state_slots.os, "fsync", _nothing):
            return write(*args)

    put(state_slots, "write", unsynced)


def leaves_at_once(put: Put) -> None:
    async def gone(self: Any, linger: float) -> None:
        """It does not stay for its neighbours."""

    put(AgentLoop, "leave", gone)


def pays_before_all_have_met(put: Put) -> None:
    put(Meeting, "complete", property(lambda self: True))


def starts_not_counted(put: Put) -> None:
    start = Ledger.start

    def first(self: Any, run: str, nonce: bytes) -> int:
        start(self, run, nonce)
        return 1

    put(Ledger, "start", first)


def two_versions_taken(put: Put) -> None:
    put(Statements, "_contradicted", _nothing)


def totals_not_compared(put: Put) -> None:
    put(Conversation, "_compare_totals", _nothing)


def tick_before_forgotten(put: Put) -> None:
    put(TotalsDelivery, "remember", _nothing)


def head_before_commit(put: Put) -> None:
    writing = journal.Journal.writing

    @contextmanager
    def early(self: Any) -> Iterator[Any]:
        with writing(self) as added:
            yield added
            if added.count > self._count:
                os.pwrite(self._head_file, journal._written(added.count - 1, added.digest), 0)

    put(journal.Journal, "writing", early)


def last_words_forgotten(put: Put) -> None:
    """What was heard is asked for from the next tick on after a restart."""
    init = AgentLoop.__init__

    def late(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        if self._spoken >= 0:
            self._spoken += 1

    put(AgentLoop, "__init__", late)


def noise_of_the_life_before(put: Put) -> None:
    """A tick is computed again after a restart, although it was committed."""
    state = Store.state

    def before(self: Any) -> Any:
        found = state(self)
        return None if found is None else (found[0] - 1, found[1])

    put(Store, "state", before)
    put(Participant, "_check_memory", _nothing)


class Plant(NamedTuple):
    what: str
    put: Callable[[Put], None]


PLANTS = {
    "publish before commit": Plant("a tick is committed when the next one is", publish_before_commit),
    "publish before mark": Plant("the ledger learns of a tick with the next one", publish_before_mark),
    "mark ignored": Plant("a store that the ledger contradicts is used", mark_ignored),
    "quorum one short": Plant("fewer neighbours than agreed prove an absence", quorum_one_short),
    "incarnation not compared": Plant("every process of a neighbour is answered", incarnation_ignored),
    "share counted twice": Plant("a share is added to a sum twice", share_counted_twice),
    "seeds drawn anew": Plant("after a restart other seeds hide the same row", seeds_drawn_anew),
    "dropout counted twice": Plant("what was released before a drop-out counts twice", dropout_counted_twice),
    "paid again": Plant("a restart pays once more", paid_again),
    "state not compared": Plant("a state that does not fit its digest is used", state_not_compared),
    "state not synced": Plant("a commit does not wait for the state", state_not_synced),
    "leaves at once": Plant("an agent that has finished does not stay", leaves_at_once),
    "pays too early": Plant("an agent pays before all have met", pays_before_all_have_met),
    "starts not counted": Plant("every process has the number 1", starts_not_counted),
    "two versions taken": Plant("a contradiction is not kept", two_versions_taken),
    "totals not compared": Plant("nobody says that totals differ", totals_not_compared),
    "last total forgotten": Plant("after a restart neighbours that are behind get no total", tick_before_forgotten),
    "head before commit": Plant("the head is written before the transaction is over", head_before_commit),
    "a tick skipped": Plant("after a restart an agent goes on one tick too late", last_words_forgotten),
    "a tick drawn again": Plant("after a restart the last tick is computed again", noise_of_the_life_before),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside, all agents have this bug."""
    with ExitStack() as stack:
        PLANTS[name].put(lambda owner, what, value: stack.enter_context(patch.object(owner, what, value)))
        yield
