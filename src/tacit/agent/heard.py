"""What a member has heard from a neighbour, as one digest, so that both ends of a connection can be compared.

A report lists what its member said, message by message. Alone it proves little: a member could say one thing to one
neighbour and another to the next, and sign a third. So every member also reports, for each neighbour, how many messages
it took in and a chain of hashes over them. Whoever has both reports computes the chain again from the sender's list
(`tacit.agent.certificate`). Where rows are secret-shared there is nothing to compare: what travels is sealed for one
listener, and the hashes of rows are salted.

The chain grows when the agent listens, together with its state, and both are committed in one transaction
(`tacit.agent.store`). After a crash the agent hears again exactly what came after its last commit, so each message is
in the chain once.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


class MessageChain(NamedTuple):
    """The messages of one neighbour, in the order of their ticks.

    >>> MessageChain().then(0, bytes(32)).messages
    1
    """

    messages: int = 0
    digest: bytes = bytes(32)

    def then(self, tick: int, hashed: bytes) -> MessageChain:
        """The chain with one more message, of which this is the SHA-256."""
        return MessageChain(self.messages + 1, sha256(self.digest + tick.to_bytes(4, "big") + hashed).digest())
