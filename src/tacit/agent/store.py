"""What an agent remembers over a crash: its part in one run.

**The files.** `x.store` is a journal in SQLite: what the agent has said, at what cost, and what it knows about others,
with a chain of digests (`tacit.agent.journal`). `x.store-head` is its head. The state has two slots of its own,
`x.store-state0` and `-state1` (`tacit.agent.state_slots`). All of it is checked when a store is opened, and everything
that is read from the disk later is checked again. The heartbeat alone is no entry: of signs of life, the last counts.

**Commit before you send.** When the agent has spoken, one transaction writes its new state, the bytes that will leave
and the event that they cost. Only then may neighbours ask for the bytes, and they always get the same ones. What the
agent hears needs no commit: listening is a function of the state and of the neighbours' bytes. The neighbours keep
those bytes, and after a crash the agent asks for them again. What the state has taken in by then is committed with it,
as a digest for each neighbour (`tacit.agent.heard`).

**Why a crash does no harm**, whenever it happens. Let t be the last tick that was committed.
- Noise drawn for a later tick is lost with the process. Nothing of it had left: it is drawn anew, at no cost.
- The bytes of t and of every tick before are here: they are sent again as they are.

**A failed step is no crash.** No record and no neighbour can make a noisy step fail (`tacit.core.rounding`), but a lack
of memory can. Why it failed may depend on the noise or the records, so trying again with fresh noise would be a second
look at the records, which nobody has paid for. So the failure is kept, and the run is over. A commit that fails, on a
full disk, is a crash: whether bytes can be written depends on their number alone, which is public.

**The ledger is another file, and the memory that counts.** No transaction spans both. None is needed, because of this
order:
1. `Ledger.reserve_run` pays for the whole run, under the run's hash, before any noise is drawn. After a restart it
   finds the reservations and pays nothing.
2. The bytes of a tick are committed here, then their digest is marked in the ledger, then they may leave. After a crash
   in between, what is committed here is marked there before it is sent.

**A store that is lost, or an old copy of it**, cannot be used: the agent would draw fresh noise for ticks that were
sent already. If one file of it is lost, damaged or old, the others show it. If all of them are, the ledger shows it: it
has the mark of every tick that may have left, and the run is over unless the newest store is put back
(`Participant.check`). What neighbours say is not needed for that. The folder of the identity notes which ledger has
paid for a run (`tacit.agent.ledger_heads`), so that no other ledger, which has no such marks, takes its place.

**An old copy of the ledger** is shown by this file: every commit notes the ledger's head. So one of the two can be old,
and it is noticed. If both are old copies of one moment, as in a machine that was put back as a whole, the neighbours
notice it: by the number of the process (`tacit.agent.incarnation`) and by what this member has signed
(`tacit.agent.signed_words`). What remains if all neighbours keep silent about that is in docs/privacy.md.

**Exact runs** have no ledger, because no budget could pay for them. They count the starts of the agent here.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.agent import journal, state_slots
from tacit.agent.heard import MessageChain
from tacit.agent.journal import Journal, JournalEntry
from tacit.agent.state_slots import Arrays
from tacit.errors import InputError, NotNow, Over
from tacit.privacy.events import Event, from_plain, to_plain
from tacit.privacy.ledger import Head

_RELEASE, _STATE = "release", "state"
_TRIES = 20  # to copy a store that a process writes to
_LONG = frozenset({_RELEASE})  # kinds of entries whose bodies stay on the disk
Kept = dict[str, dict[str, JournalEntry]]  # the entries by kinds and keys


@dataclass(frozen=True)
class Status:
    """What `tacit agent status` shows."""

    run: str
    member: str
    tick: int  # the last one in which it spoke; rounds, if the run is over; -1 before
    rounds: int
    peers: dict[str, float | None]  # when each neighbour last gave a sign of life
    heartbeat: float | None  # when the process was last known to be alive
    doing: str  # at that time
    events: list[Event]  # of what was released
    without: list[str]  # the members without whom it goes on, in another run
    accused: dict[str, int]  # members that have signed two versions of a tick, and which
    reached: dict[str, int]  # the last tick at which members have spoken, as far as that is known here
    met: list[int]  # places of the members that have signed that they have met all their neighbours
    finished: list[str]  # the neighbours that need no more from this agent


class Store:
    """The files of one agent's part in one run; they are made if they do not exist. One process at a time uses them:
    with `alone`, another one that asks for the same is refused."""

    def __init__(self, path: Path, run: str, member: str, rounds: int, *, alone: bool = False) -> None:
        self.path = path
        self._journal = Journal(path, _LONG, alone=alone)
        self._kept = _by_kind(self._journal.found)
        identity = _identity(self._kept)
        if identity is None:
            identity = (run, member, rounds)
            with self._adding() as add:
                add("run", "", json.dumps(identity).encode())
                add("secret", "", os.urandom(32))
        if identity != (run, member, rounds):
            raise InputError(
                f"{path} is the store of {identity[1]} in the run {identity[0][:12]}, not of {member} in {run[:12]}"
            )
        self.state()  # checked

    def close(self) -> None:
        self._journal.close()

    def discard(self) -> None:
        """Removes a store that was made by mistake, just now: it would hide one that is put back. One that has met
        others stays: they know the key that its secret gives, and would take no other."""
        if {kind for kind, found in self._kept.items() if found} <= {"run", "secret"}:
            self._journal.discard()

    # Writing

    def commit(
        self,
        tick: int,
        state: Arrays,
        message: bytes,
        event: Event,
        heard: Mapping[str, MessageChain] | None = None,
        ledger: Head | None = None,
    ) -> None:
        """The agent has spoken at this tick: once the ledger has marked it, too, the message may leave.

        `heard` is what the state has taken in from each neighbour, if single messages are heard; `ledger` is the head
        of the ledger as of now.
        """
        note = self._written(
            state, heard or {}, ledger
        )  # in a slot of its own: until the entry is there, nobody looks at it
        with self._adding() as add:
            add(_RELEASE, tick, message)
            add("event", tick, json.dumps(to_plain(event)).encode())
            add(_STATE, tick, note)

    def fail(self, tick: int, reason: str) -> None:
        """Noise was drawn for this tick, but nothing could be released."""
        with self._adding() as add:
            add("failure", tick, reason.encode())

    def finish(
        self, rounds: int, state: Arrays, heard: Mapping[str, MessageChain] | None = None, ledger: Head | None = None
    ) -> None:
        """The agent has heard everything that it needs."""
        note = self._written(state, heard or {}, ledger)
        with self._adding() as add:
            add(_STATE, rounds, note)

    def start(self, nonce: bytes) -> int:
        """Counts a process that takes part in a run without a ledger; gives its number, from 1 on."""
        number = len(self._kept["start"]) + 1
        with self._adding() as add:
            add("start", number, nonce)
        return number

    def heartbeat(
        self,
        now: float,
        contacts: Mapping[str, float | None],
        doing: str,
        accused: Mapping[str, int] | None = None,
        reached: Mapping[str, int] | None = None,
    ) -> None:
        """Writes down that the process is alive, and what it knows of others, for `tacit agent status`."""
        said: dict[str, Any] = {"beat": now, "doing": doing, "peers": dict(contacts)}
        said |= {"accused": dict(accused or {}), "reached": dict(reached or {})}
        self._journal.note(json.dumps(said).encode())

    def mark_finished(self, name: str) -> None:
        """This neighbour has heard everything that it needs from this agent, and has committed it."""
        self._mark("finished", name)

    def mark_notified(self, name: str) -> None:
        """This neighbour knows that this agent needs no more from it."""
        self._mark("notified", name)

    def go_on(self, without: Iterable[str], tick: int = 0, absences: Iterable[bytes] = ()) -> None:
        """This agent leaves this run at this tick, and goes on without these members, in another run.

        The statements that they are away are kept: members that come later must see them, too.
        """
        with self._adding() as add:
            for name in sorted(without):
                add("without", name, str(tick).encode())
            for number, statement in enumerate(absences):
                add("absence", number, statement)

    def keep_processes(self, name: str, processes: Iterable[bytes]) -> None:
        """The newest process of a neighbour; two, if they have one number."""
        with self._adding() as add:
            add("processes", name, json.dumps([each.hex() for each in processes]).encode())

    def keep_key(self, member: int, key: bytes) -> None:
        """The public key of a member in this run."""
        with self._adding() as add:
            add("key", member, key)

    def keep_met(self, statements: Mapping[int, bytes]) -> None:
        """What members have signed: that they have met all their neighbours in this run."""
        with self._adding() as add:
            for member, statement in statements.items():
                add("met", member, statement)

    # Reading

    @property
    def secret(self) -> bytes:
        """32 bytes that nobody else knows. What is derived from them is the same after a crash."""
        return self._bodies("secret")[""]

    def failure(self) -> tuple[int, str] | None:
        """The tick at which nothing could be released, and why; None if there is none."""
        return next(((int(tick), reason.decode()) for tick, reason in self._bodies("failure").items()), None)

    def without(self) -> list[str]:
        """The members without whom this agent goes on in another run; empty if it has not left this run."""
        return sorted(self._kept["without"])

    def left_at(self) -> int:
        """The tick at which this agent left this run; 0 if it has not."""
        return max(map(int, self._bodies("without").values()), default=0)

    def absences(self) -> list[bytes]:
        """The signed statements for which this agent left this run."""
        return list(self._bodies("absence").values())

    def processes(self) -> dict[str, list[bytes]]:
        """The newest processes of the neighbours."""
        return {name: list(map(bytes.fromhex, json.loads(raw))) for name, raw in self._bodies("processes").items()}

    def keys(self) -> dict[int, bytes]:
        """The public keys of the members that have sent one."""
        return {int(member): key for member, key in sorted(self._bodies("key").items(), key=lambda each: int(each[0]))}

    def met(self) -> dict[int, bytes]:
        """The members' signed statements that they have met their neighbours."""
        return {int(member): raw for member, raw in sorted(self._bodies("met").items(), key=lambda each: int(each[0]))}

    def state(self) -> tuple[int, Arrays] | None:
        """The last tick that was committed, and the state after it; None if there is none."""
        found = self._read()
        return None if found is None else found[:2]

    def heard(self) -> dict[str, MessageChain]:
        """What the state has taken in from each neighbour."""
        found = self._read()
        return {} if found is None else found[2]

    def ledger(self) -> Head | None:
        """The head that the ledger had at the last commit; None if there was no commit, or no ledger."""
        noted = next((json.loads(body).get("ledger") for body in self._bodies(_STATE).values()), None)
        return None if noted is None else Head(*noted)

    def digests(self) -> dict[int, bytes]:
        """The SHA-256 of what left at each tick, or may leave now; in order."""
        return {int(tick): entry.hashed for tick, entry in self._kept[_RELEASE].items()}

    def first_tick(self) -> int | None:
        """The first tick at which the agent spoke; None before."""
        return next(map(int, self._kept[_RELEASE]), None)

    def digest(self, tick: int) -> bytes:
        """The SHA-256 of what was committed at this tick."""
        return self._kept[_RELEASE][str(tick)].hashed

    def message(self, tick: int) -> bytes | None:
        """What left at this tick, or may leave now."""
        found = self._kept[_RELEASE].get(str(tick))
        return None if found is None else self._journal.body(found)

    def releases(self) -> list[tuple[int, bytes, Event]]:
        """All that left, in order."""
        return [
            (int(tick), self._journal.body(entry), _event(self._bodies("event")[tick]))
            for tick, entry in self._kept[_RELEASE].items()
        ]

    def finished_neighbours(self) -> set[str]:
        """The neighbours that need no more from this agent."""
        return set(self._kept["finished"])

    def notified_neighbours(self) -> set[str]:
        """The neighbours that know that this agent needs no more from them."""
        return set(self._kept["notified"])

    # Inside

    def _bodies(self, kind: str) -> dict[str, bytes]:
        """The bodies of a kind that is kept in memory, by keys. All were checked when they were read."""
        return {key: entry.body for key, entry in self._kept[kind].items() if entry.body is not None}

    def _mark(self, kind: str, name: str) -> None:
        if name not in self._kept[kind]:
            with self._adding() as add:
                add(kind, name, b"")

    @contextmanager
    def _adding(self) -> Iterator[Callable[[str, str | int, bytes], None]]:
        """One transaction; afterwards its entries are known here, too."""
        entries: list[JournalEntry] = []
        with self._journal.writing() as added:
            yield lambda kind, key, body: entries.append(added.add(kind, key, body))
        for entry in entries:
            _keep(self._kept, entry._replace(body=None) if entry.kind in _LONG else entry)

    def _written(self, state: Arrays, heard: Mapping[str, MessageChain], ledger: Head | None) -> bytes:
        """Writes the state to the slot that the last commit does not need; gives the body of its entry."""
        last = next((json.loads(body) for body in self._bodies(_STATE).values()), {"slot": 1})
        slot = 1 - last["slot"]
        digest = state_slots.write(self.path, slot, state, heard)
        return json.dumps({"slot": slot, "sha256": digest, "ledger": ledger}).encode()

    def _read(self) -> tuple[int, Arrays, dict[str, MessageChain]] | None:
        """The last tick, and what was written to the slot with it, checked."""
        for tick, entry in self._kept[_STATE].items():
            _, raw = _slot(self.path, entry)
            return int(tick), *state_slots.unpacked(raw)
        return None


def status(path: Path) -> Status:
    """Reads a store that a process may be writing to. What it reads is checked; it does not read messages and state."""
    if not path.exists():
        raise InputError(f"there is no store {path}: the agent has not been started yet, or it has another --store")
    entries, _ = journal.read(path, _LONG, whole=False)
    kept = _by_kind(entries)
    if (identity := _identity(kept)) is None:
        raise InputError(f"{path} is not the store of an agent that was started: it is empty")
    run, member, rounds = identity
    tick = next((int(key) for key in kept["state"]), -1)
    note = journal.read_note(path)
    alive = {"beat": None, "doing": "not started", "peers": {}} if note is None else json.loads(note)
    events = [_event(entry.body or b"") for entry in kept["event"].values()]
    peers = dict(sorted(alive["peers"].items()))
    without, finished, met = sorted(kept["without"]), sorted(kept["finished"]), sorted(map(int, kept["met"]))
    accused, reached = alive.get("accused", {}), alive.get("reached", {})
    return Status(
        run,
        member,
        tick,
        rounds,
        peers,
        alive["beat"],
        alive["doing"],
        events,
        without,
        accused,
        reached,
        met,
        finished,
    )


def check(path: Path) -> Status | None:
    """Reads and checks everything in a store, which a process may be writing to; None if there is none yet."""
    if not path.exists() and journal.last_known(path) < 0:
        return None
    with TemporaryDirectory(prefix="tacit-") as scratch:
        copy(path, Path(scratch) / path.name)  # which checks it all, at one moment
    return status(path)


def copy(path: Path, target: Path) -> None:
    """Writes a copy of a store, which a process may be writing to. Everything in it is checked."""
    for _ in range(_TRIES):
        entries = journal.copy(path, target, _LONG)
        try:
            for entry in _by_kind(entries)[_STATE].values():
                slot, raw = _slot(path, entry)
                state_slots.path_of(target, slot).write_bytes(raw)
            return
        except Over:  # damaged; or the process has used the slot for a later state since
            if journal.last_known(path) < entries[-1].number + 1:
                raise
        for part in target.parent.glob(f"{target.name}*"):
            part.unlink()
    raise NotNow(f"{path} is written to faster than it can be copied: try again")


def _slot(path: Path, entry: JournalEntry) -> tuple[int, bytes]:
    """Which slot an entry of a state names, and its content, checked."""
    note = json.loads(entry.body or b"")
    return note["slot"], state_slots.read(path, note["slot"], note["sha256"], f"the state after tick {entry.key}")


def _by_kind(entries: Iterable[JournalEntry]) -> Kept:
    kept: Kept = defaultdict(dict)
    for entry in entries:
        _keep(kept, entry)
    return kept


def _keep(kept: Kept, entry: JournalEntry) -> None:
    if entry.kind == _STATE:  # of the states before, nothing is left but their digests
        kept[_STATE].clear()
    kept[entry.kind][entry.key] = entry


def _identity(kept: Kept) -> tuple[str, str, int] | None:
    """The run, the member and the rounds; None before the first entry."""
    if "" not in kept["run"]:
        return None
    run, member, rounds = json.loads(kept["run"][""].body or b"")
    return run, member, rounds


def _event(body: bytes) -> Event:
    return from_plain(json.loads(body))
