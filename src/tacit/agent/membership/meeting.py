"""How members know that all of them have met: each signs that it has met its own neighbours.

An agent does not pay for a run, and nothing leaves, before it has the signature of every member. Agents pass the
signatures on in their greetings, so that they reach members that are not neighbours. What a greeting says about another
member counts only with that member's signature: otherwise one liar could make the others pay for a run in which some
member never took part. The signed text names the run and the member, and can be used for nothing else.

Where a run goes on after a member has dropped out, each member also signs how many totals it has heard
(`tacit.agent.membership.dropout`). The run starts at the largest of these numbers.

The signatures are kept in the store before they count. An agent that starts again in a run that has begun has all of
them, waits for nobody, and can still pass them on to members that have not begun.
"""

from __future__ import annotations

from collections.abc import Collection

from tacit.agent.federation import Federation
from tacit.agent.identity import SIGNATURE_SIZE
from tacit.agent.membership.dropout import goes_on, reached
from tacit.agent.monitoring.logs import log
from tacit.agent.participant import Participant
from tacit.agent.transport.wire import BadMessage, parsed
from tacit.agent.transport.wire_pb2 import Met

_DOMAIN = b"tacit: has met all its neighbours"


class Meeting:
    """The signatures that an agent knows in its present run."""

    def __init__(self, participant: Participant) -> None:
        self._participant = participant
        self._known = {i: parsed(Met, raw) for i, raw in participant.store.met().items()}
        going_on, me = goes_on(participant.federation), participant.me
        self._disbelieved: set[int] = set()
        self._slack = 1 if going_on else 0  # how far the numbers of honest members can lie apart
        self._heard = self._known[me].heard if me in self._known else reached(participant)[0] if going_on else 0

    @property
    def complete(self) -> bool:
        """Whether all members have met their neighbours."""
        return len(self._known) == len(self._participant.federation.members)

    @property
    def missing(self) -> list[str]:
        """The members that have not signed yet that they have met their neighbours."""
        return [m.name for i, m in enumerate(self._participant.federation.members) if i not in self._known]

    @property
    def start(self) -> int:
        """The tick at which the run starts: 0, unless it goes on where another was left. For when all have met."""
        return max((statement.heard for statement in self._known.values()), default=0)

    def sign(self) -> None:
        """States that this agent has met all its neighbours."""
        me, heard = self._participant.me, self._heard
        if me not in self._known:
            signature = self._participant.identity.sign(_signed(self._participant.federation, me, heard))
            self._keep({me: Met(member=me, heard=heard, signature=signature)})

    def take(self, statements: Collection[Met]) -> None:
        """Notes what others have signed; refuses statements that nobody has signed, or that say nothing."""
        members = self._participant.federation.members
        if len(statements) > len(members):
            rule = "{} statements that members have met their neighbours; there are {} members"
            raise BadMessage(rule, len(statements), len(members))
        new: dict[int, Met] = {}
        for statement in statements:
            i = statement.member
            if i >= len(members) or len(statement.signature) > SIGNATURE_SIZE:
                raise BadMessage("a statement by a member that does not exist, or with a signature that is too long")
            heard, federation = statement.heard, self._participant.federation
            known = new.get(i) or self._known.get(i)
            if known is not None and known.heard == heard:
                continue
            if not federation.accepted(members[i].name):
                continue  # revoked
            # Any key that the member has had: a member that comes late needs statements from before a renewal, too.
            if federation.signer(members[i].name, _signed(federation, i, heard), statement.signature) is None:
                raise BadMessage("{} has not signed that it has met all its neighbours", members[i].name)
            if known is not None:
                self._disbelieve(i, f"{members[i].name} has signed two numbers of totals: one of them is a lie")
                continue
            if abs(heard - self._heard) > self._slack or heard > federation.rounds:
                # It does not count, but whoever passes it on may be honest, and must not be taken for away.
                own = f"{self._participant.name} has heard {self._heard}"
                self._disbelieve(i, f"{members[i].name} says that it has heard {heard} totals; {own}: not believed")
                continue
            new[i] = Met(member=i, heard=heard, signature=statement.signature)  # unknown fields are not passed on
        if new:
            self._keep(new)

    def _disbelieve(self, member: int, reason: str) -> None:
        """One line in the log for each member."""
        if member not in self._disbelieved:
            self._disbelieved.add(member)
            log.warning(reason)

    def for_greeting(self) -> list[Met]:
        """The statements for a greeting."""
        return list(self._known.values())

    def _keep(self, statements: dict[int, Met]) -> None:
        """All in one commit: a member of fifty takes in the statements of fifty."""
        self._participant.store.keep_met({i: each.SerializeToString() for i, each in statements.items()})
        self._known |= statements


def _signed(federation: Federation, member: int, heard: int = 0) -> bytes:
    """What a member signs. Its number in the run names it; the run names the file and the absent members."""
    return _DOMAIN + bytes.fromhex(federation.run) + member.to_bytes(4, "big") + heard.to_bytes(4, "big")
