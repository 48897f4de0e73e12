"""Members that lie. Their agents are honest: their words are changed on the way out, and signed with their own keys."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from tacit.agent.heard import MessageChain
from tacit.agent.ledger_heads import signed_text
from tacit.agent.membership.absence import _signed as signed_absence
from tacit.agent.signed_words import _DOMAIN
from tacit.agent.transport.tls_streams import ASK, GREET
from tacit.agent.transport.wire import bare
from tacit.agent.transport.wire_pb2 import (
    Absence,
    Contradiction,
    Greeting,
    Incarnation,
    LedgerHead,
    Message,
    Said,
    Standing,
    Twin,
)
from tacit.exchange.tree import Tree
from tacit.privacy.ledger import Head
from world.lives import identity

_FROM = 2  # the first tick of a lie


class Liar:
    """A member that says what it should."""

    changes_models = False
    kinds: tuple[str, ...] = ("rows", "tokens", "sums", "shared noise")
    goes_on = books = False  # whether the lie needs a federation that goes on without members, or heads of ledgers

    def __init__(self, world: Any) -> None:
        self.world, self.told = world, 0  # lies that have left

    def greeting(self, life: Any, to: str, raw: bytes) -> bytes:
        """What leaves in place of a greeting."""
        greeting = Greeting.FromString(raw)
        self.greets(life, to, greeting)
        return bytes(greeting.SerializeToString())

    def answer(self, life: Any, to: str, kind: int, question: Any, raw: bytes) -> bytes | None:
        """What leaves in place of an answer; None: "not yet"."""
        if kind == GREET:
            return self.greeting(life, to, raw)
        if kind != ASK:
            return raw
        message = Message.FromString(raw)
        return bytes(message.SerializeToString()) if self.says(life, to, question, message) else None

    def greets(self, life: Any, to: str, greeting: Any) -> None:
        """Changes a greeting."""

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        """Changes a message; whether it leaves."""
        return True

    def hears(self, me: int, kind: int | None, raw: bytes) -> bytes:
        """What its own agent gets to hear."""
        return raw

    def unnamed(self) -> str | None:
        """What is wrong if nobody has noticed, when the world is over."""
        return None


class Silent(Liar):
    """Shows nobody what it knows of others."""

    def greets(self, life: Any, to: str, greeting: Any) -> None:
        for memory in ("heard", "seen", "said", "contradictions"):
            greeting.ClearField(memory)
        greeting.standing.ClearField("known")
        greeting.standing.ClearField("twins")

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        for memory in ("said", "contradictions"):
            message.ClearField(memory)
        message.standing.ClearField("known")
        message.standing.ClearField("twins")
        return True


class Late(Liar):
    """Answers "not yet" to two of three questions that it could answer."""

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        self.told += 1
        return self.told % 3 == 0


class TwoFaced(Liar):
    """Says something else to its first neighbour, and signs that, too."""

    changes_models, kinds = True, ("rows",)

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        federation, me = self.world.federation, life.member.place
        if not self._lies_to(to, me) or not message.run or message.tick < _FROM:
            return True
        store = life.opened[1]
        chain = MessageChain()
        for tick in store.digests():
            if tick <= message.tick:
                said = Message.FromString(store.message(tick))
                if tick >= _FROM:
                    said.payload = self._other(said.payload)
                chain = chain.then(tick, sha256(bare(said)).digest())
        message.payload = self._other(message.payload)
        text = _DOMAIN + bytes.fromhex(federation.run) + me.to_bytes(4, "big") + message.tick.to_bytes(4, "big")
        message.own.digest = chain.digest
        message.own.signature = identity(life.name).sign(text + chain.digest)
        self.told += 1
        return True

    def hears(self, me: int, kind: int | None, raw: bytes) -> bytes:
        """Without its own words: its agent, which does not know of the lie, would stop."""
        if kind not in (GREET, ASK) or not raw:
            return raw
        heard = (Greeting if kind == GREET else Message).FromString(raw)
        others = [each for each in heard.said if each.member != me]
        del heard.said[:]
        heard.said.extend(others)
        heard.ClearField("contradictions")
        return bytes(heard.SerializeToString())

    def _lies_to(self, to: str, me: int) -> bool:
        return to == str(min(self.world.federation.graph.neighbours(me)))

    def _other(self, payload: bytes) -> bytes:
        return (np.frombuffer(payload) + 1e-3).tobytes()

    def unnamed(self) -> str | None:
        name = self.world.hosts[self.world.schedule.liar[0]].name
        honest = [life for life in self.world.lives if life.name != name]
        if not self.told or any(name in life.progress.accused for life in honest):
            return None
        return f"{name} has said two versions, and nobody has named it"


class TooLarge(TwoFaced):
    """Says the same to all, far outside the radius."""

    def _lies_to(self, to: str, me: int) -> bool:
        return True

    def _other(self, payload: bytes) -> bytes:
        return (np.frombuffer(payload) + 1e9).tobytes()

    def unnamed(self) -> str | None:
        name = self.world.hosts[self.world.schedule.liar[0]].name
        honest = [life for life in self.world.lives if life.name != name]
        if not self.told or any(f"{name} said something outside the radius" in line for h in honest for line in h.log):
            return None
        return f"{name} has said numbers outside the radius, and nobody has named it"


class FalseHead(Liar):
    """Shows heads of a ledger that has lost rows, or is another one."""

    books = True

    def greets(self, life: Any, to: str, greeting: Any) -> None:
        if not greeting.HasField("ledger"):
            return
        self.told += 1
        shown = greeting.ledger
        head = Head(sha256(b"%d" % (self.told % 2)).hexdigest()[:32], shown.rows + 1, shown.head.hex())
        text = signed_text(shown.population.hex(), head)
        made = LedgerHead(
            population=shown.population,
            book=bytes.fromhex(head.book),
            rows=head.rows,
            head=shown.head,
            signature=identity(life.name).sign(text),
        )
        greeting.ledger.CopyFrom(made)


class FalseTotal(Liar):
    """Tells one of its children in the tree another total, well within the bounds. Not the last one: of that, nobody
    speaks any more before the reports."""

    changes_models, kinds = True, ("shared noise",)

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        if message.phase == 2 and _FROM <= message.tick < self.world.federation.rounds - 1 and message.run:
            me = life.member.place
            if int(to) == Tree.of(self.world.federation.graph, message.tick).children(me)[0]:
                words = np.frombuffer(message.payload, "<u8") + np.uint64(2**20)
                message.payload = words.astype("<u8").tobytes()
                self.told += 1
        return True

    def unnamed(self) -> str | None:
        name = self.world.hosts[self.world.schedule.liar[0]].name
        honest = [life for life in self.world.lives if life.name != name]
        if not self.told or any(life.progress.differing for life in honest):
            return None
        return f"{name} has told two totals, and nobody says so"


class LargeSum(Liar):
    """Adds far too much to its partial sums."""

    changes_models, kinds = True, ("shared noise",)

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        if message.phase == 1 and message.tick >= _FROM and message.run:
            message.payload = (np.frombuffer(message.payload, "<u8") + np.uint64(2**62)).astype("<u8").tobytes()
            self.told += 1
        return True

    def unnamed(self) -> str | None:
        name = self.world.hosts[self.world.schedule.liar[0]].name
        if not self.told or any(life.progress.beyond for life in self.world.lives if life.name != name):
            return None
        return f"{name} has added 2^62 to a sum, and nobody says so"


class FalseAbsence(Liar):
    """Signs that all its neighbours are away. In a ring, members believe it that do not hear them."""

    goes_on, kinds = True, ("rows",)

    def greets(self, life: Any, to: str, greeting: Any) -> None:
        agreed, me = self.world.federation, life.member.place
        del greeting.absences[:]
        for j in agreed.graph.neighbours(me).tolist():
            for tick in (0, 2, 4):
                made = Absence(witness=me, absent=j, tick=tick)
                made.signature = identity(life.name).sign(signed_absence(agreed, made))
                if tick == self.told % 3 * 2:
                    greeting.absences.append(made)
        self.told += 1


class Accuser(Liar):
    """Shows what would convict the others, if they had signed it."""

    def _false(self, life: Any, to: str) -> tuple[Any, list[Any], list[Any]]:
        sign = identity(life.name).sign
        member = int(to.rstrip("c"))
        other = (member + 1) % len(self.world.federation.members)
        self.told += 1
        older = Incarnation(member=member, number=1, nonce=bytes(16), signature=sign(b"forged"))
        newer = Incarnation(member=member, number=9, nonce=bytes([1]) * 16, signature=sign(b"forged"))
        standing = Standing(known=[newer], twins=[Twin(older=older, newer=newer, signature=sign(b"forged"))])
        said = Said(member=other, tick=1, digest=bytes(32), signature=sign(b"forged"))
        again = Said(member=other, tick=1, digest=bytes([1]) * 32, signature=sign(b"forged"))
        return (
            standing,
            [said, Said(member=member, tick=1, digest=bytes(32), signature=sign(b"f"))],
            [Contradiction(one=said, other=again)],
        )

    def greets(self, life: Any, to: str, greeting: Any) -> None:
        standing, said, contradictions = self._false(life, to)
        if self.told % 2:  # otherwise nothing would go on
            greeting.standing.MergeFrom(standing)
        greeting.said.extend(said)
        greeting.contradictions.extend(contradictions)

    def says(self, life: Any, to: str, question: Any, message: Any) -> bool:
        standing, said, contradictions = self._false(life, to)
        if self.told % 2:
            message.standing.MergeFrom(standing)
        message.said.extend(said)
        message.contradictions.extend(contradictions)
        return True


LIARS: dict[str, type[Liar]] = {
    "silent about others": Silent,
    "late": Late,
    "two-faced": TwoFaced,
    "numbers too large": TooLarge,
    "false heads": FalseHead,
    "false total": FalseTotal,
    "sum too large": LargeSum,
    "false absences": FalseAbsence,
    "accuses everybody": Accuser,
}
