"""How members know that one of them is away: its neighbours sign it.

A *statement* says: I, the witness, have had no sign of life from this neighbour for `go_on_after` seconds; I wait at
this tick of this run. The witness signs it with its identity. Agents pass statements on in greetings, so that members
that are not neighbours of the witness get them, too.

**A member is proven to be away** if enough of its neighbours have signed (`Federation.needed`). They are counted among
the neighbours that are still in the run and those that have signed. One member alone can prove nothing about a member
that has two neighbours or more. Colluding neighbours that reach the quorum can have a member left out.

**Which statements count.** A statement is not revoked. A witness that hears the member again stops passing it on, and
it grows old: it counts as long as its tick is at most as many ticks away as there are members. Neighbours are at most
one tick apart, so a witness that really waits keeps everybody that near. What remains possible: within these few ticks,
a liar can combine its own statement with one that an honest witness has just taken back.

Statements of an earlier run count until the present run has begun. Members can leave a run in a different order, one
first without X and one first without Y. Each then needs the other's statements to come to the run without both. Once a
run has begun, all members are in it, and only its own statements count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tacit.agent.federation import Federation
from tacit.agent.identity import SIGNATURE_SIZE
from tacit.agent.participant import Participant
from tacit.agent.transport.wire import BadMessage, parsed
from tacit.agent.transport.wire_pb2 import Absence

_DOMAIN = b"tacit: no sign of life"


def most_absences(federation: Federation) -> int:
    """How many statements a greeting can have: one by every member about each neighbour, if `go_on_after` is set."""
    return 2 * len((federation.agreed or federation).edges) if federation.go_on_after else 0


def check(agreed: Federation, statement: Absence) -> None:
    """Refuses a statement that no honest member can make."""
    names, witness, absent, without = agreed.names, statement.witness, statement.absent, list(statement.without)
    if max(witness, absent, *without) >= len(names) or without != sorted(set(without)):
        raise BadMessage("a statement about members that do not exist")
    if len(statement.signature) > SIGNATURE_SIZE:
        raise BadMessage("a statement whose signature is too long: {} bytes", len(statement.signature))
    if witness not in agreed.graph.neighbours(absent) or {witness, absent} & set(without):
        raise BadMessage("{} is not a neighbour of {} and cannot state that it is away", names[witness], names[absent])


def signed_with(agreed: Federation, statement: Absence) -> str:
    """The certificate with which the witness has signed a statement. Refuses one that it has not signed."""
    witness = agreed.names[statement.witness]
    found = agreed.signer(witness, _signed(agreed, statement), statement.signature)
    if found is None:
        raise BadMessage("{} has not signed that {} is away", witness, agreed.names[statement.absent])
    return found


def proven(agreed: Federation, absent: int, excluded: Collection[int], statements: Iterable[Absence]) -> bool:
    """Whether these statements, all of them valid, prove that a member is away, in a run without the excluded members.

    What proves it here proves it in every later run: with fewer neighbours in the run, fewer must sign.
    """
    signed = {statement.witness for statement in statements if statement.absent == absent}
    remaining = set(agreed.graph.neighbours(absent).tolist()) - set(excluded)
    return len(signed) >= agreed.needed(len(remaining | signed))


def check_left(agreed: Federation, before: Iterable[str], after: Iterable[str], raw: Iterable[bytes]) -> None:
    """Refuses, in a report, statements that do not prove why one run was left for another. `before` and `after` name
    the members that are missing in each of the two."""
    excluded, statements = places(agreed, before), [parsed(Absence, each) for each in raw]
    for statement in statements:
        check(agreed, statement)
        signed_with(agreed, statement)
    counted = [statement for statement in statements if set(statement.without) <= set(excluded)]
    for absent in set(places(agreed, after)) - set(excluded):
        if not proven(agreed, absent, excluded, counted):
            raise BadMessage("too few neighbours of {} have signed that it is away", agreed.names[absent])


def places(agreed: Federation, names: Iterable[str]) -> tuple[int, ...]:
    """The numbers by which statements name members."""
    return tuple(sorted(map(agreed.names.index, names)))


class Absences:
    """The statements that an agent knows in its present run. The agent keeps `tick` and `begun` up to date."""

    def __init__(self, participant: Participant, tick: int, begun: bool) -> None:
        self.tick, self.begun = tick, begun  # where the agent is, and whether all members have met in this run
        self._waits_at = tick  # before that
        self._agreed, self._identity = participant.federation.agreed or participant.federation, participant.identity
        self._me = self._agreed.names.index(participant.name)
        self._excluded = places(self._agreed, participant.federation.absent)
        self._known: dict[tuple[int, int], Absence] = {}  # by witness and absent member
        self._missed: set[int] = set()  # the neighbours of which this agent itself says that they are away
        # Why earlier runs were left, and when: members that come later must see it.
        earlier = participant.earlier()
        self._kept = [parsed(Absence, raw) for each in earlier for raw in each.store.absences()]
        for each in self._kept:
            if each.witness == self._me:  # with the present key: an old one may count no more
                each.signature = self._identity.sign(_signed(self._agreed, each))
        self._left_at = {places(self._agreed, each.federation.absent): each.store.left_at() for each in earlier}

    def sign(self, name: str) -> bool:
        """States that a neighbour is away; says whether this is the first time."""
        absent = self._agreed.names.index(name)
        old, first = self._known.get((self._me, absent)), absent not in self._missed
        self._missed.add(absent)
        if old is None or (tuple(old.without), old.tick) != (self._excluded, self.tick):
            made = Absence(witness=self._me, absent=absent, without=self._excluded, tick=self.tick)
            made.signature = self._identity.sign(_signed(self._agreed, made))
            self._known[self._me, absent] = made
        return first

    def withdraw(self, name: str) -> None:
        """This neighbour was heard again: this agent no longer says that it is away."""
        absent = self._agreed.names.index(name)
        self._missed.discard(absent)
        self._known.pop((self._me, absent), None)

    def take(self, statements: Collection[Absence]) -> None:
        """Notes what others have signed, if it counts here; refuses statements that are wrong."""
        if len(statements) > most_absences(self._agreed):
            raise BadMessage("{} statements that members are away, more than there can be", len(statements))
        names = self._agreed.names
        for statement in statements:
            check(self._agreed, statement)
            old = self._known.get((statement.witness, statement.absent))
            newer = old is None or not self._counts(old) or _newer(statement, old)
            if newer and self._counts(statement):
                if signed_with(self._agreed, statement) not in self._agreed.accepted(names[statement.witness]):
                    continue  # the witness is revoked; or has a new key, and whoever has the old one gets no vote
                # Unknown fields would be passed on, and make honest greetings too long to be read.
                statement.DiscardUnknownFields()
                self._known[statement.witness, statement.absent] = statement

    def about(self, names: Collection[str]) -> list[Absence]:
        """The statements about these members that count."""
        wanted = places(self._agreed, names)
        return [each for each in self._known.values() if each.absent in wanted and self._counts(each)]

    def for_greeting(self) -> list[Absence]:
        """The statements for a greeting. A statement that this agent has withdrawn is not among them, even if others
        send it back: it still counts, but this agent does not spread it."""
        known = self.about(self._agreed.names)
        return [*self._kept, *(each for each in known if each.witness != self._me or each.absent in self._missed)]

    def missed(self) -> set[str]:
        """The members of which somebody has signed that they are away."""
        return {self._agreed.names[absent] for _, absent in self._known}

    def proven(self, name: str) -> bool:
        """Whether a member of the present run, which may be this agent itself, is proven to be away."""
        return proven(self._agreed, self._agreed.names.index(name), self._excluded, self.about([name]))

    def witnesses(self, name: str) -> str:
        """The names of the members that have signed that a member is away."""
        return ", ".join(sorted(self._agreed.names[each.witness] for each in self.about([name])))

    def needed(self, name: str) -> int:
        """How many of a member's neighbours must sign that it is away."""
        near = set(self._agreed.graph.neighbours(self._agreed.names.index(name)).tolist())
        return self._agreed.needed(len(near.difference(self._excluded)))

    def _counts(self, statement: Absence) -> bool:
        run, present = tuple(statement.without), self._excluded
        if statement.absent in present or not (run == present or (not self.begun and set(run) < set(present))):
            return False
        # A run in which this agent never was cannot have begun: it waits where this agent waits now.
        own = self.tick if run == present else self._left_at.get(run, self._waits_at)
        return abs(statement.tick - own) <= len(self._agreed.members)


def _newer(statement: Absence, old: Absence) -> bool:
    """Of two statements that count, the one of the earlier run stays: members that are still in that run can use it."""
    return list(statement.without) == list(old.without) and statement.tick > old.tick


def _signed(agreed: Federation, statement: Absence) -> bytes:
    """The bytes that a witness signs."""
    run = agreed.run_without([agreed.names[i] for i in statement.without])
    numbers = (statement.witness, statement.absent, statement.tick)
    return _DOMAIN + bytes.fromhex(agreed.run + run) + b"".join(number.to_bytes(4, "big") for number in numbers)
