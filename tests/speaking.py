"""What members that tests speak for say beside their words: which process they are, and what they have signed."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any


def unpacked(raw: bytes, run: str, sender: int, tick: int, phase: int = 0) -> Any:
    """The message in these bytes. Refuses one that has another run, sender, tick or phase."""
    from tacit.agent.transport.wire import answering, parsed
    from tacit.agent.transport.wire_pb2 import Message

    return answering(parsed(Message, raw), run, sender, tick, phase)


class Quiet:
    """An agent that takes everything as it comes, for a `Peer` or a `Server` by itself."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}

    def contact(self, name: str) -> None:
        """Nothing."""

    def met(self, name: str, standing: Any) -> None:
        """Nothing."""

    def words(self, name: str, message: Any) -> None:
        """Nothing."""

    def standing(self, name: str) -> Any:
        from tacit.agent.transport.wire_pb2 import Standing

        return Standing()


class Rehearsed(Quiet):
    """What the agent behind a server says: the same to everybody."""

    def __init__(self) -> None:
        from tacit.agent.transport.server import Signal

        super().__init__()
        self.changed = Signal()

    def find(self, question: Any) -> bytes | None:
        """Words that are ready at the first tick alone."""
        return b"" if question.tick == 0 else None

    def greeting(self, name: str) -> Any:
        """One that says nothing."""
        from tacit.agent.transport.wire_pb2 import Greeting

        return Greeting()

    def greeted(self, name: str, greeting: Any) -> None:
        """Nothing."""

    def may_leave(self, name: str) -> bool:
        """Never."""
        return False


class Speaker:
    """A process of a member. It signs all that it says; what it says again at a tick takes the place of what it said
    before."""

    def __init__(self, federation: Any, identity: Any, number: int = 1) -> None:
        from tacit.agent import incarnation

        self.federation, self._identity = federation, identity
        self.place = federation.names.index(identity.name)
        self.own = incarnation.signed(federation, self.place, identity, number, os.urandom(16))
        self._hashed: dict[int, bytes] = {}

    def standing(self) -> Any:
        from tacit.agent.transport.wire_pb2 import Standing

        return Standing(own=self.own)

    def question(self, **about: Any) -> Any:
        from tacit.agent.transport.wire_pb2 import Question

        run = bytes.fromhex(self.federation.run)
        return Question(run=run, sender=self.place, standing=self.standing(), **about)

    def greeting(self, **about: Any) -> Any:
        from tacit.agent.transport.wire_pb2 import Greeting

        return Greeting(
            **{"name": self._identity.name, "parts": self.federation.parts, "standing": self.standing()} | about
        )

    def said(self, tick: int) -> Any:
        """What it has signed up to this tick, where its neighbours hear all of it."""
        from tacit.agent.heard import MessageChain
        from tacit.agent.signed_words import _DOMAIN
        from tacit.agent.transport.wire_pb2 import Said

        chain = MessageChain()
        for each in sorted(self._hashed):
            if each <= tick:
                chain = chain.then(each, self._hashed[each])
        run = bytes.fromhex(self.federation.run)
        text = _DOMAIN + run + self.place.to_bytes(4, "big") + tick.to_bytes(4, "big") + chain.digest
        return Said(member=self.place, tick=tick, digest=chain.digest, signature=self._identity.sign(text))

    def spoken(self, message: bytes) -> bytes:
        """The bytes of a message, with what is added when it leaves."""
        from tacit.agent.transport.wire_pb2 import Message

        found = Message.FromString(message)
        self._hashed[found.tick] = sha256(message).digest()
        own = None if found.phase else self.said(found.tick)
        return message + bytes(Message(standing=self.standing(), own=own).SerializeToString())
