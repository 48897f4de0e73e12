"""The keys of members for one run: each has a key pair, and signs its public key with its identity.

A member can so get another's key by way of a third one, which cannot replace it: a key counts only with the signature
of its member, for this run and this use. The keys are kept in the store: a member whose key changes has lost its store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tacit.agent.participant import Participant
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Key


class RunKeys:
    """This agent's key, and those of the members that it shares secrets with.

    - `use` is what the keys are for: a key that was signed for another use is refused.
    - `meet` is called with a member and its public key, once.
    """

    def __init__(
        self,
        participant: Participant,
        public: bytes,
        use: bytes,
        needed: Iterable[int],
        meet: Callable[[int, bytes], None],
    ) -> None:
        self._participant, self._use, self._meet = participant, use, meet
        me = participant.me
        self.own = Key(
            member=me, public=public, signature=participant.identity.sign(signed_text(participant, use, me, public))
        )
        self._needed = set(needed) - {me}
        self.known = {j: Key.FromString(raw) for j, raw in participant.store.keys().items()}
        for j, key in self.known.items():
            meet(j, key.public)

    @property
    def complete(self) -> bool:
        """Whether this agent has all keys that it needs."""
        return self._needed <= self.known.keys()

    def take(self, key: Key) -> None:
        """Notes a member's key, if that member has signed it."""
        j, federation = key.member, self._participant.federation
        if j not in self._needed:
            return
        name, known = federation.names[j], self.known.get(j)
        same = known is not None and known.public == key.public
        if same and (known == key or len(federation.certificates(name)) == 1):
            return
        signer = federation.signer(name, signed_text(self._participant, self._use, j, key.public), key.signature)
        if signer is None:
            raise BadMessage("{} has not signed the key that is shown as its own", name)
        if signer not in federation.accepted(name):
            return  # its member has a new identity and signs anew; or is revoked
        key.DiscardUnknownFields()  # they would be passed on, and make honest greetings too long to be read
        if same:
            self.known[j] = key  # what is passed on must be signed with an identity that counts
            return
        if known is not None:
            raise BadMessage(
                "{} has another key than before: it has lost its store, and cannot go on in this run", name
            )
        self._meet(j, key.public)
        self._participant.store.keep_key(j, key.SerializeToString())
        self.known[j] = key


def signed_text(participant: Participant, use: bytes, member: int, public: bytes) -> bytes:
    """What a member signs, to prove that a key is its own."""
    run = bytes.fromhex(participant.federation.run)
    return b"tacit: key for " + use + run + member.to_bytes(4, "big") + public
