"""The processes of a member: which is the newest, and whether two of them live at the same time.

A member's folder can be copied: to a second host, by a backup, in the image of a container. Two processes of one member
would each draw noise of their own for the same ticks. Both have the member's key, so a neighbour that meets only one of
them cannot see it. So every start of an agent has a number and a nonce:

- **The number** only grows. It is kept in the ledger (`Ledger.start`), where there is one, and in the store otherwise.
- **The nonce** is drawn at random. Two copies of a ledger give the same number to two processes, with two nonces.

Both are signed, and go with every greeting, every question and every answer. A neighbour remembers the newest process
of each member, refuses older ones, and shows each process what it knows:

- A process that is shown a newer one of its own member, or one of the same number, stops (exit code 78): there is
  another copy, or this one was restored from an old backup. Nobody else can make this up, because it is signed.
- Before it stops, it signs that it has seen the newer one: a `Twin`. The nonce of the newer process did not exist
  before that process started. So the signature answers a challenge: it proves that the older process was alive after
  the newer one had started. An old greeting that somebody plays back proves nothing.
- A process that is shown a `Twin` of its member, or two processes of one number, stops, too. Which of the copies has
  the memory that counts, nobody can know: the run is over for this member.

After an honest crash the next process has the next number, nobody answers for the one that died, and all goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tacit.agent.identity import SIGNATURE_SIZE
from tacit.agent.transport import wire_pb2 as wire
from tacit.agent.transport.wire import BadMessage
from tacit.errors import NEW_RUN, Over

if TYPE_CHECKING:
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.participant import Participant

_DOMAIN, _TWIN = b"tacit: a process of mine", b"tacit: a process of mine that has seen another one"
NONCE = 16  # bytes
STANDING_SIZE = 8 * (NONCE + SIGNATURE_SIZE + 32)  # bytes of a standing, at most: eight processes or signatures
_STARTS, _PER_SECOND = 100, 0.5  # processes of one neighbour in one run that are remembered


def signed(federation: Federation, me: int, identity: Identity, number: int, nonce: bytes) -> wire.Incarnation:
    """A process of this member."""
    made = wire.Incarnation(member=me, number=number, nonce=nonce)
    made.signature = identity.sign(_text(federation, made))
    return made


class Incarnations:
    """What one process knows of the processes of its neighbours, and of its own member's."""

    def __init__(self, participant: Participant) -> None:
        assert participant.incarnation is not None, "a process that has not started"
        self._participant, self.own = participant, participant.incarnation
        kept = participant.store.processes()
        self._known = {name: list(map(wire.Incarnation.FromString, found)) for name, found in kept.items()}
        self._twins: dict[str, wire.Twin] = {}  # by member; this one's among them, if it has seen a newer process
        self._starts = Counter[str]()  # by neighbour: since this process began
        self._began = participant.clock.steady()
        # By neighbour: what goes to it, and what was taken in from it last, as long as nothing new is known.
        self._shown, self._taken = dict[str, wire.Standing](), dict[str, wire.Standing]()

    def standing(self, name: str) -> wire.Standing:
        """For whatever goes to this neighbour."""
        if name not in self._shown:
            twins = [self._twins[each] for each in (name, self._participant.name) if each in self._twins]
            self._shown[name] = wire.Standing(own=self.own, known=self._known.get(name, []), twins=twins)
        return self._shown[name]

    def take(self, name: str, standing: wire.Standing) -> None:
        """Takes in what a neighbour's process says. `Over` if this process must stop, BadMessage if that one must."""
        if standing == self._taken.get(name):
            return
        if len(standing.known) > 2 or len(standing.twins) > 2:
            raise BadMessage("it knows too many processes")
        self._check_own(name, standing)
        self._check_twins(name, standing.twins)
        self._take_process(name, standing.own)
        self._taken[name] = wire.Standing()
        self._taken[name].CopyFrom(standing)  # and not a part of the message, which may be long

    def _learned(self) -> None:
        self._shown.clear()
        self._taken.clear()

    def _check_own(self, name: str, standing: wire.Standing) -> None:
        """Whether this process is the newest of its member, and the only one of its number."""
        own, me = self.own, self._participant.name
        for other in standing.known:
            if other == own or other.number < own.number:
                continue
            self._require_signed(me, other)
            if (other.number, other.nonce) == (own.number, own.nonce):  # signed once more
                continue
            twin = wire.Twin(older=own, newer=other)
            twin.signature = self._participant.identity.sign(self._twin_text(twin))
            self._twins[me] = twin
            self._learned()
            raise Over(
                f"{name} knows {_name(other)} of {me}, and this is {_name(own)}: there is a second copy of {me}, or "
                f"this one was restored from an old backup. Nothing more leaves here: find the other one, and {NEW_RUN}"
            )

    def _check_twins(self, name: str, twins: Iterable[wire.Twin]) -> None:
        """Proofs that two processes of this member, or of that neighbour, have lived at the same time."""
        me = self._participant.name
        for twin in twins:
            whose = next((each for each in (me, name) if self._member(each) == twin.older.member), None)
            if whose is None or twin == self._twins.get(whose):
                continue
            self._require_twin(whose, twin)
            if whose == me:
                if twin.older == self.own:
                    continue  # this process has said so itself
                raise Over(
                    f"{name} shows that {_name(twin.older)} of {me} was alive after {_name(twin.newer)} had started: "
                    f"there are two copies, and both stop. Keep one; then {NEW_RUN}"
                )
            self._twins[name] = twin
            self._learned()

    def _take_process(self, name: str, own: wire.Incarnation) -> None:
        """Remembers a neighbour's process if it is the newest; refuses it if it is not, or not the only one."""
        known = self._known.get(name, [])
        newest = max((each.number for each in known), default=0)
        if own not in known:
            self._require_signed(name, own)
            same = [each for each in known if each.number == own.number]
            if own.number > newest:
                self._keep(name, [own])
            elif not same:
                raise BadMessage(
                    "process {} speaks, but process {} has started since: one of two copies, or late",
                    own.number,
                    newest,
                )
            elif all(each.nonce != own.nonce for each in same) and len(same) == 1:
                self._keep(name, [*same, own])
        if len(self._known[name]) > 1:
            raise BadMessage(
                "there are two copies of it: processes {} and {}",
                *(f"{each.number} ({each.nonce.hex()[:8]})" for each in self._known[name]),
            )
        if name in self._twins:
            twin = self._twins[name]
            rule = "there are two copies of it: process {} was alive after process {} had started"
            raise BadMessage(rule, twin.older.number, twin.newer.number)

    def _keep(self, name: str, processes: list[wire.Incarnation]) -> None:
        starts = self._starts[name] + 1  # each takes room on the disk; one that is refused asks again, and takes none
        if starts > _STARTS + _PER_SECOND * (self._participant.clock.steady() - self._began):
            raise BadMessage("it starts too often: {} times", starts)
        self._starts[name] = starts
        self._participant.store.keep_processes(name, [each.SerializeToString() for each in processes])
        self._known[name] = processes
        self._learned()

    def _member(self, name: str) -> int:
        return self._participant.federation.names.index(name)

    def _require_signed(self, name: str, process: wire.Incarnation) -> None:
        federation = self._participant.federation
        process.DiscardUnknownFields()
        sizes = len(process.nonce) == NONCE and 0 < len(process.signature) <= SIGNATURE_SIZE
        if not sizes or process.member != self._member(name) or not 0 < process.number < 2**31:
            raise BadMessage("it names no process of {}", name)
        if not federation.signed_live(name, _text(federation, process), process.signature):
            raise BadMessage("it names a process of {} that {} has not signed", name, name)

    def _require_twin(self, name: str, twin: wire.Twin) -> None:
        for each in (twin.older, twin.newer):
            self._require_signed(name, each)
        twin.DiscardUnknownFields()
        if twin.older.number > twin.newer.number or twin.older.nonce == twin.newer.nonce:
            raise BadMessage("what it shows are not two processes")
        signed_live = self._participant.federation.signed_live
        if len(twin.signature) > SIGNATURE_SIZE or not signed_live(name, self._twin_text(twin), twin.signature):
            raise BadMessage("it shows two processes of {} that {} has not signed", name, name)

    def _twin_text(self, twin: wire.Twin) -> bytes:
        federation = self._participant.federation
        return _TWIN + b"".join(_text(federation, each) for each in (twin.older, twin.newer))


def _text(federation: Federation, process: wire.Incarnation) -> bytes:
    """What a member signs about a process."""
    numbers = b"".join(number.to_bytes(4, "big") for number in (process.member, process.number))
    return _DOMAIN + bytes.fromhex(federation.run) + numbers + process.nonce


def _name(process: wire.Incarnation) -> str:
    return f"process {process.number} ({process.nonce.hex()[:8]})"
