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
from tacit.agent.identity import signed_by
from tacit.agent.participant import Participant
from tacit.agent.wire import BadMessage, parsed
from tacit.agent.wire_pb2 import Absence

_DOMAIN = b"tacit: no sign of life"
_SIGNATURE = 72  # bytes that one has at most


def most_absences(federation: Federation) -> int:
    """How many statements a greeting can have: one of every member about every neighbour, if they go on at all."""
    return 2 * len((federation.agreed or federation).edges) if federation.go_on_after else 0


def check(agreed: Federation, statement: Absence) -> None:
    """Refuses a statement that no honest member can make, whoever has signed it."""
    names, witness, absent, without = agreed.names, statement.witness, statement.absent, list(statement.without)
    if max(witness, absent, *without) >= len(names) or without != sorted(set(without)):
        raise BadMessage("a statement about members that there are not")
    if len(statement.signature) > _SIGNATURE:
        raise BadMessage("a statement with a signature of {} bytes", len(statement.signature))
    if witness not in agreed.graph.neighbours(absent) or {witness, absent} & set(without):
        raise BadMessage("{} is no neighbour of {} and cannot know that it is away", names[witness], names[absent])


def check_signature(agreed: Federation, statement: Absence) -> None:
    """Refuses a statement that its witness has not signed."""
    witness = agreed.members[statement.witness]
    if not signed_by(witness.certificate, _signed(agreed, statement), statement.signature):
        raise BadMessage("{} has not signed that {} is away", witness.name, agreed.names[statement.absent])


def proven(agreed: Federation, absent: int, gone: Collection[int], statements: Iterable[Absence]) -> bool:
    """Whether these statements, all of them valid, prove that a member is away, in a run without those that are gone.

    What proves it here proves it in every later run: the fewer neighbours are left, the fewer must sign.
    """
    signed = {statement.witness for statement in statements if statement.absent == absent}
    left = set(agreed.graph.neighbours(absent).tolist()) - set(gone)
    return len(signed) >= agreed.needed(len(left | signed))


def check_left(agreed: Federation, before: Iterable[str], after: Iterable[str], raw: Iterable[bytes]) -> None:
    """Refuses, in a report, statements that do not prove why the one run was left for the other; both are named by
    the members that are missing."""
    gone, statements = places(agreed, before), [parsed(Absence, each) for each in raw]
    for statement in statements:
        check(agreed, statement)
        check_signature(agreed, statement)
    counted = [statement for statement in statements if set(statement.without) <= set(gone)]
    for absent in set(places(agreed, after)) - set(gone):
        if not proven(agreed, absent, gone, counted):
            raise BadMessage("too few neighbours of {} have signed that it is away", agreed.names[absent])


def places(agreed: Federation, names: Iterable[str]) -> tuple[int, ...]:
    """Members as a statement names them."""
    return tuple(sorted(map(agreed.names.index, names)))


class Absences:
    """The statements that an agent knows in its present run. The agent keeps `tick` and `begun` up to date."""

    def __init__(self, participant: Participant, tick: int, begun: bool) -> None:
        self.tick, self.begun = tick, begun  # where the agent is, and whether all members have met in this run
        self._agreed, self._identity = participant.federation.agreed or participant.federation, participant.identity
        self._me = self._agreed.names.index(participant.name)
        self._gone = places(self._agreed, participant.federation.absent)
        self._known: dict[tuple[int, int], Absence] = {}  # by witness and absent member: one of each
        self._missed: set[int] = set()  # the neighbours that this agent itself says to be away
        # What earlier runs were left for, and when: members that come later must see it.
        self._kept = [parsed(Absence, raw) for left in participant.left() for raw in left.store.absences()]
        self._left_at = {
            places(self._agreed, left.federation.absent): left.store.left_at() for left in participant.left()
        }

    def sign(self, name: str) -> bool:
        """States that a neighbour is away; whether that is news."""
        absent = self._agreed.names.index(name)
        old, news = self._known.get((self._me, absent)), absent not in self._missed
        self._missed.add(absent)
        if old is None or (tuple(old.without), old.tick) != (self._gone, self.tick):
            made = Absence(witness=self._me, absent=absent, without=self._gone, tick=self.tick)
            made.signature = self._identity.sign(_signed(self._agreed, made))
            self._known[self._me, absent] = made
        return news

    def withdraw(self, name: str) -> None:
        """This neighbour was heard again: that it was away is not passed on any longer."""
        absent = self._agreed.names.index(name)
        self._missed.discard(absent)
        self._known.pop((self._me, absent), None)

    def take(self, statements: Collection[Absence]) -> None:
        """Notes what others have signed, if it counts here; refuses what is wrong."""
        if len(statements) > most_absences(self._agreed):
            raise BadMessage("{} statements that members are away, more than there can be", len(statements))
        for statement in statements:
            check(self._agreed, statement)
            old = self._known.get((statement.witness, statement.absent))
            newer = old is None or not self._counts(old) or _newer(statement, old)
            if newer and self._counts(statement):
                check_signature(self._agreed, statement)
                # A field that nobody knows would be passed on, and make honest greetings too long to be read.
                statement.DiscardUnknownFields()
                self._known[statement.witness, statement.absent] = statement

    def about(self, names: Collection[str]) -> list[Absence]:
        """The statements about these members that count."""
        wanted = places(self._agreed, names)
        return [each for each in self._known.values() if each.absent in wanted and self._counts(each)]

    def told(self) -> list[Absence]:
        """What a greeting says. What this agent has signed and taken back, it does not say, even if others know it and
        give it back: it is signed, and counts, but need not reach those that do not know it."""
        known = self.about(self._agreed.names)
        return [*self._kept, *(each for each in known if each.witness != self._me or each.absent in self._missed)]

    def proven(self, name: str) -> bool:
        """Whether a member of the present run, this agent itself maybe, is proven to be away."""
        return proven(self._agreed, self._agreed.names.index(name), self._gone, self.about([name]))

    def witnesses(self, name: str) -> str:
        """The names of those that have signed that a member is away."""
        return ", ".join(sorted(self._agreed.names[each.witness] for each in self.about([name])))

    def needed(self, name: str) -> int:
        """How many of a member's neighbours must sign that it is away."""
        near = set(self._agreed.graph.neighbours(self._agreed.names.index(name)).tolist())
        return self._agreed.needed(len(near.difference(self._gone)))

    def _counts(self, statement: Absence) -> bool:
        run, gone = tuple(statement.without), self._gone
        if statement.absent in gone or not (run == gone or (not self.begun and set(run) < set(gone))):
            return False
        # A run in which this agent never was cannot have begun: it waits at tick 0.
        own = self.tick if run == gone else self._left_at.get(run, 0)
        return abs(statement.tick - own) <= len(self._agreed.members)


def _newer(statement: Absence, old: Absence) -> bool:
    """Of two that count, the one of the earlier run stays: members that are still there can use it, too."""
    return list(statement.without) == list(old.without) and statement.tick > old.tick


def _signed(agreed: Federation, statement: Absence) -> bytes:
    """What a witness signs."""
    run = agreed.run_without([agreed.names[i] for i in statement.without])
    numbers = (statement.witness, statement.absent, statement.tick)
    return _DOMAIN + bytes.fromhex(agreed.run + run) + b"".join(number.to_bytes(4, "big") for number in numbers)
