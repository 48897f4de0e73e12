"""One member's place in a federation: what it brings, and what its part will cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.agent.able import check_sums
from tacit.agent.clock import Clock
from tacit.agent.federation import SUMS, TOTALS, Federation
from tacit.agent.identity import Identity
from tacit.agent.incarnation import NONCE, signed
from tacit.agent.ledger_heads import Books
from tacit.agent.store import Store
from tacit.agent.transport.wire_pb2 import Incarnation
from tacit.core.problem import Problem
from tacit.data import Dataset
from tacit.errors import NEW_RUN, InputError, Over
from tacit.privacy.events import Event
from tacit.privacy.ledger import About, Ledger, Records
from tacit.privacy.noise import Noise

if TYPE_CHECKING:
    from tacit.engines.records_in_parts import RecordsInParts


@dataclass(frozen=True)
class Participant:
    """What a member brings to a run."""

    federation: Federation
    me: int
    identity: Identity
    data: Dataset | RecordsInParts
    store: Store
    ledger: Ledger | None  # None only where no budget was agreed on, so that nothing is paid for
    noise: Noise
    previous: Participant | None = None  # in the run that was left because members were away
    records: Records | None = None  # what the ledger has to know about the data
    books: Books | None = None  # what is known of ledgers; None: heads are neither shown nor kept
    incarnation: Incarnation | None = None  # of this process, once it has started
    clock: Clock = field(default_factory=Clock)

    @property
    def name(self) -> str:
        """The name of this member in the federation."""
        return self.federation.names[self.me]

    @cached_property
    def problem(self) -> Problem:
        """This member's objective, from its own records, of which there must be as many as the federation file says."""
        member, facts = self.federation.members[self.me], self.federation.setting.facts
        if len(self.data) != member.rows:
            raise InputError(
                f"the federation file says that {member.name} has {member.rows:,} rows; the data has "
                f"{len(self.data):,}: use the agreed file, or write a new federation"
            )
        scale, constants = float(facts.scale[self.me]), {"l2": facts.l2, "radius": facts.radius}
        if isinstance(self.data, Dataset):
            problem = Problem([(self.data.X, self.data.y)], loss=facts.loss, scale=scale, **constants)
        else:
            problem = self.data.problem(loss=facts.loss, scale=scale, **constants)
        if self.federation.private:
            problem.require_row_norm(1.0)
        return problem

    @cached_property
    def events(self) -> dict[int, Event]:
        """What each release of this member will cost, by ticks."""
        return planned(self.federation, self.me)

    @cached_property
    def paid(self) -> tuple[str, dict[int, Event]]:
        """What this member pays for before it speaks, and under which name. Members that share their noise pay once,
        for the agreed run and all runs in which it goes on."""
        if self.federation.exchange != TOTALS:
            return self.federation.run, self.events
        agreed = self.federation.agreed or self.federation
        return agreed.run, reserved(agreed, agreed.names.index(self.name))

    @property
    def about(self) -> About:
        """What the ledger says about the run."""
        return About(self.federation.setting.name, self.federation.title, self.records)

    @property
    def finished(self) -> bool:
        """Whether this member has heard everything that it needs in this run."""
        saved = self.store.state()
        return saved is not None and saved[0] == self.federation.rounds

    @property
    def has_paid(self) -> bool:
        """Whether the ledger has paid for this run, in this process or in an earlier one."""
        return self.ledger is not None and bool(self.ledger.reserved(self.paid[0]))

    def started(self) -> Participant:
        """With the number and the nonce of a new process. Only that process may let anything leave from now on."""
        nonce = os.urandom(NONCE)
        number = self.store.start(nonce) if self.ledger is None else self.ledger.start(self.paid[0], nonce)
        return replace(self, incarnation=signed(self.federation, self.me, self.identity, number, nonce))

    def said(self) -> dict[int, bytes]:
        """The SHA-256 of what is committed, by the ticks under which it is paid for: the ticks of the run, or if the
        run goes on where others were left, the number of the release."""
        if self.federation.exchange != TOTALS:
            return self.store.digests()
        runs = [*reversed(self.earlier()), self]
        return dict(enumerate(digest for each in runs for digest in each.store.digests().values()))

    def number(self, tick: int) -> int:
        """Under which tick a release of this run is paid for."""
        if self.federation.exchange != TOTALS:
            return tick
        first = self.store.first_tick()
        return self._said_earlier + (0 if first is None else tick - first)

    @cached_property
    def _said_earlier(self) -> int:
        return sum(len(each.store.digests()) for each in self.earlier())

    def mark(self, tick: int, digest: bytes) -> None:
        """From now on the ledger knows, before anybody else can, what may have left at this tick."""
        if self.ledger is not None and self.incarnation is not None:
            self.ledger.mark(self.paid[0], self.number(tick), digest, self.incarnation.number)

    def mark_committed(self) -> None:
        """After a crash between a commit and its mark."""
        marked = {} if self.ledger is None else self.ledger.marks(self.paid[0])
        for tick, digest in self.store.digests().items():
            if marked.get(self.number(tick)) != digest:  # another process may have marked since the check
                self.mark(tick, digest)

    def said_before(self) -> int:
        """How many rows this member has said in the runs that were left, by its stores or by its ledger, whichever
        knows of more."""
        said, own = len(self.said()), len(self.store.digests())
        marked = 0 if self.ledger is None else len(self.ledger.marks(self.paid[0]))
        return max(said, marked) - own

    def check(self) -> None:
        """Refuses, before anything is sent, a method that cannot run on this graph or with sums, and a run that needs a
        member that is refused here, that the ledger does not allow, that has failed, or whose store is lost."""
        if self.federation.exchange == SUMS:
            check_sums(self.federation.setting)
        self._check_refused()
        (run, events), ledger = self.paid, self.ledger
        if ledger is None:
            return
        if failure := self.store.failure():
            tick, reason = failure
            raise Over(
                f"this run is over for {self.name}: tick {tick} failed after its noise was drawn ({reason}), and "
                "trying again would be a second look at the records; agree on a new run under another title"
            )
        self._check_memory(ledger, run)
        reserved = ledger.reserved(run)
        ledger.check_run(Counter(event for tick, event in events.items() if tick not in reserved), records=self.records)

    def _check_memory(self, ledger: Ledger, run: str) -> None:
        """Refuses a store, or a ledger, that has forgotten something: fresh noise would be drawn for a tick that has
        left already."""
        if self.books is not None:
            self.books.require_payer(run, ledger)
        if ledger.begun_without_marks(run) and not self.finished:
            raise Over(
                f"this run was begun with an older version of tacit, whose ledger does not show which ticks of "
                f"{self.name} have left: {NEW_RUN}"
            )
        said = self.said()
        marked = {tick for tick, digest in ledger.marks(run).items() if said.get(tick) != digest}
        if marked:
            self.store.discard()  # if it was made just now
            raise Over(
                f"the ledger shows that {self.name} has sent messages in this run, but {self.store.path} does not have "
                f"{_ticks(marked)} of them: it is lost, or an old copy; or this is the ledger of another member. Put "
                f"the newest copy of the store back (tacit agent restore), or {NEW_RUN}"
            )
        for store in (self.store, *(each.store for each in self.earlier())):  # this one may have no commit yet
            if (noted := store.ledger()) is not None and not ledger.contains(noted):
                raise Over(
                    f"{ledger.path} is an old copy, or another ledger: it had {noted.rows:,} rows when "
                    f"{store.path.name} was written, and does not contain them. Put the newest copy of the ledger "
                    f"back, or {NEW_RUN}"
                )

    def _check_refused(self) -> None:
        """Refuses a run that needs a member that is refused here, unless the others may go on without it."""
        federation, refused = self.federation, self.federation.refused
        near = [federation.names[j] for j in federation.graph.neighbours(self.me)]
        if not refused or self.finished:
            return  # an agent that has heard everything needs nobody, and others may need it
        if not (federation.go_on_after and set(near) - set(refused)):
            raise Over(
                f"refused here: {', '.join(f'{name} ({why})' for name, why in refused.items())}. This run cannot go on "
                "without them: agree on a new version of the federation (tacit federation new --predecessor)"
            )

    def without(self, names: Iterable[str]) -> Participant:
        """The place in the run without these members, with a store of its own."""
        federation = self.federation.without(names)
        store = Store(reduced_store(self.store.path, federation), federation.run, self.name, federation.rounds)
        me = federation.names.index(self.name)
        return replace(self, federation=federation, me=me, store=store, previous=self, incarnation=None)

    def earlier(self) -> list[Participant]:
        """The places in the runs that were left, the last one first."""
        return [] if self.previous is None else [self.previous, *self.previous.earlier()]

    def present(self) -> Participant:
        """The place in the run in which this member is now: an earlier process may have gone on without some members.

        The runs that were left are not checked again: they may never have been paid for, and need not be.
        """
        participant = self
        while absent := participant.store.without():
            participant = participant.without(absent)
        return participant


def _ticks(ticks: Collection[int]) -> str:
    few = sorted(ticks)[:3]
    return f"tick{'s' * (len(ticks) > 1)} {', '.join(map(str, few))}" + ", ..." * (len(ticks) > len(few))


def reduced_store(path: Path, federation: Federation) -> Path:
    """The store of a run without some members, beside the store of the run that was left."""
    return path.with_name(f"{path.stem}.{federation.run[:8]}.store")


def planned(federation: Federation, me: int) -> dict[int, Event]:
    """What each release of a member will cost, by ticks: a function of the federation file alone."""
    return dict(federation.plans[me])


def reserved(federation: Federation, me: int) -> dict[int, Event]:
    """What a member pays for before it speaks: all releases of the plan, and one more for every member that may drop
    out. Then the tick in doubt is released once more, with fresh noise (`tacit.agent.membership.dropout`)."""
    events = planned(federation, me)
    if not federation.dropouts:  # where one member speaks at a time, not all of them speak last
        return events
    spare = range(federation.rounds, federation.rounds + federation.dropouts)
    return events | dict.fromkeys(spare, events[federation.rounds - 1])
