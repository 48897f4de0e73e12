"""A member with a valid certificate that sends and answers nonsense, against three honest agents. `make fuzz`

    python tests/mutated_messages.py [--messages 100000] [--seed 0]

Three organisations run `tacit agent run`, each in a process of its own; a fourth, everybody's neighbour, is hostile. It
greets, asks and leaves with messages that are valid, or damaged, or well-formed lies, also about processes and about
what members have signed; and it answers so when it is asked. Now and then it says what an honest member would say, so
that the run goes on, from the first greeting to the last tick. Its last answer at every tick is a row, maybe of 1e300,
the same for all. Exits with 1 unless

- every honest agent ends by itself, with exit code 0, a model of finite numbers, and a report that can be verified,
- every ledger has what was planned, each entry once, and nothing else,
- no agent's resident memory grows by 10% or more, from 5% of the messages (500 at least) and the first step on,
- no log has two lines of one kind (a line without what the enemy chose in it), nor a traceback.

Then once more, in a run that needs all members: the enemy signs two rows at one tick, and tells one neighbour another
than the others. Every honest agent must end with 78, name the enemy, and have paid what was planned, once.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agent_worker as worker
import hostile
import numpy as np
from agent_worker import PROCESSES
from frames import NotYet, Refused
from hostile import NAMES, Hostile, Identities, charged, new_ledger, plan_of
from patience import all_ended
from speaking import Speaker

from tacit.agent.certificate import signed_report
from tacit.agent.membership.absence import _signed
from tacit.agent.transport.sizes import largest_question
from tacit.agent.transport.wire import packed, packed_row
from tacit.agent.transport.wire_pb2 import (
    Absence,
    Contradiction,
    Greeting,
    Incarnation,
    Key,
    Message,
    Met,
    Question,
    Said,
    Standing,
    Twin,
)

HONEST, ENEMY = NAMES[:3], NAMES[3]
ROWS = 300
AT_ONCE = 12  # messages under way
WARM = 0.05  # of the messages: after these, memory must stay
MEET = 0.03  # of the messages: before these, nobody has met the enemy
CONTROL = "\x1b[2J\x00\r\n\u202e\x7f"
FAR = [0.0, -0.0, 5e-324, 1.0, -64.0, 1e16, 1e300, -1e300, 1.7976931348623157e308]


# Damage to bytes


def varint(n: int) -> bytes:
    """As protobuf writes numbers."""
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def fields(raw: bytes) -> list[bytes]:
    """The top-level fields of a protobuf message."""
    found, at = [], 0
    while at < len(raw):
        begin = at
        while raw[at] & 128:
            at += 1
        kind, at = raw[begin] & 7, at + 1
        size, shift = 0, 0
        while True:
            byte, at = raw[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
        at += size if kind == 2 else 0
        found.append(raw[begin:at])
    return found


def flipped(rng: random.Random, raw: bytes) -> bytes:
    out = bytearray(raw or b"\0")
    for _ in range(rng.choice([1, 1, 2, 8])):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncated(rng: random.Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(max(1, len(raw)))]


def duplicated(rng: random.Random, raw: bytes) -> bytes:
    parts = fields(raw) or [b""]
    return b"".join(parts + rng.choices(parts, k=rng.choice([1, 2, 20])))


def shuffled(rng: random.Random, raw: bytes) -> bytes:
    parts = fields(raw)
    rng.shuffle(parts)
    return b"".join(parts[rng.randrange(2) :])


def unknown_field(rng: random.Random, raw: bytes) -> bytes:
    number = rng.choice([9, 15, 16, 1000, 2**29 - 1, rng.randrange(1, 2**29)])
    kind = rng.randrange(8)  # 3 and 4 begin and end a group; 6 and 7 are none
    body = {0: varint(rng.getrandbits(64)), 1: rng.randbytes(8), 5: rng.randbytes(4)}.get(
        kind, varint(20) + rng.randbytes(20)
    )
    return raw + varint(number << 3 | kind) + body * rng.choice([1, 1, 3])


def huge_varint(rng: random.Random, raw: bytes) -> bytes:
    number = rng.randrange(1, 9)
    return (
        raw + varint(number << 3) + rng.choice([b"\xff" * 9 + b"\x01", b"\xff" * 10 + b"\x01", b"\xff" * 4 + b"\x0f"])
    )


def huge_length(rng: random.Random, raw: bytes) -> bytes:
    return raw + varint(rng.randrange(1, 9) << 3 | 2) + varint(rng.choice([2**31 - 1, 2**32, 2**63, 1000])) + b"x" * 9


def nested(rng: random.Random, raw: bytes) -> bytes:
    """Groups in groups, as deep as the bytes go."""
    return raw + varint(1000 << 3 | 3) * rng.choice([50, 300])


def anything(rng: random.Random, raw: bytes) -> bytes:
    return rng.randbytes(rng.randrange(1, 300))


def empty(rng: random.Random, raw: bytes) -> bytes:
    return b""


def oversized(rng: random.Random, raw: bytes) -> bytes:
    return raw + varint(1000 << 3 | 2) + varint(n := rng.choice([5_000, 20_000, 100_000])) + bytes(n)


DAMAGE: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "bits flipped": flipped,
    "truncated": truncated,
    "fields twice": duplicated,
    "fields shuffled": shuffled,
    "unknown field": unknown_field,
    "huge number": huge_varint,
    "huge length": huge_length,
    "nested groups": nested,
    "random bytes": anything,
    "empty": empty,
    "oversized": oversized,
}


class Enemy:
    """The hostile member."""

    def __init__(self, federation: Any, identities: Identities, messages: int, seed: int, verbose: bool) -> None:
        self.federation, self._messages, self._verbose = federation, messages, verbose
        self._rng = random.Random(seed)
        self._identity = identities[ENEMY]
        self._me = Hostile(federation, self._identity, self._answer)
        self._rows: dict[int, np.ndarray] = {}  # what it says in the end, by ticks
        self.sent: Counter[str] = Counter()  # by kind
        self.got: Counter[str] = Counter()  # what became of what it sent
        self._answered: Counter[Any] = Counter()  # nonsense that an agent has got to a question
        self._finished: set[str] = set()
        self._most = largest_question(federation)
        self._seen: list[bytes] = []  # honest greetings, to be replayed
        self._ticks = dict.fromkeys(HONEST, 0)  # how far each has asked
        self.contradicts: tuple[int, str] | None = None  # a tick, and who hears another row there than the others
        self._other = Speaker(federation, self._identity)
        self._other.own = self._me.speaker.own  # the same process
        # The share of messages after which memory must stay: the enemy has answered at the first tick by then.
        self.warm = max(WARM, 500 / messages, MEET + (1 - MEET) / federation.rounds + 0.01)

    @property
    def begun(self) -> bool:
        """Whether all have done their first step."""
        return min(self._ticks.values()) >= 1

    @property
    def count(self) -> int:
        return sum(self.sent.values())

    # What it sends

    async def send_all(self, at: Callable[[float], None]) -> None:
        """All messages; `at` is called with the share of them that is sent."""
        await self._me.open()
        for name in HONEST:  # they are there
            await self._until_taken(name, "Greet", self._greeting())
        begin, shown = time.monotonic(), 0.0

        async def send_on() -> None:
            while self.count < self._messages:
                if self.count >= self.warm * self._messages and not self.begun:
                    await asyncio.sleep(0.05)  # until all have loaded, or compiled, the solver for their first step
                else:
                    await self._one()

        senders = [asyncio.create_task(send_on()) for _ in range(AT_ONCE)]
        while not all(each.done() for each in senders):
            await asyncio.wait(senders, timeout=0.2)
            at(share := min(1.0, self.count / self._messages))
            if self._verbose and share >= shown + 0.05:
                shown = share
                took = time.monotonic() - begin
                print(f"{self.count:,} messages, {took:.0f} s, ticks {self._ticks}", file=sys.stderr, flush=True)
        for each in senders:
            each.result()

    async def end(self) -> None:
        """It has heard all, and says so."""
        for name in HONEST:
            await self._until_taken(name, "Leave", self._question())

    async def close(self) -> None:
        await self._me.close()

    async def _until_taken(self, to: str, method: str, message: Any) -> None:
        for _ in range(200):
            try:
                await self._me.call(to, method, message.SerializeToString(), timeout=5)
                return
            except (Refused, TimeoutError):  # it may have ended meanwhile, if it has got this before
                await asyncio.sleep(0.05)
                if to in self._finished and method == "Leave":
                    return

    async def _one(self) -> None:
        rng = self._rng
        to, method = rng.choice(HONEST), rng.choice(["Greet", "Ask", "Ask", "Leave"])
        kind, raw = self._made(method)
        self.sent[f"{method}: {kind}"] += 1
        if rng.random() < 0.002:
            await self._me.hang_up(to)
        try:
            answer = await self._me.call(to, method, raw, timeout=rng.choice([0.05, 0.3, 2.0]))
            self.got["answered"] += 1
            if method == "Greet" and len(self._seen) < 100:
                self._seen.append(answer)
        except Refused as error:
            self.got["not yet" if isinstance(error, NotYet) else "refused"] += 1
        except TimeoutError:
            self.got["no answer in time"] += 1

    def _made(self, method: str) -> tuple[str, bytes]:
        """A request, and of which kind it is."""
        rng = self._rng
        whole = self._greeting() if method == "Greet" else self._question()
        lot = rng.random()
        if lot < 0.1:
            return "valid", whole.SerializeToString()
        if lot < 0.55:
            kind = rng.choice(list(DAMAGE))
            return kind, DAMAGE[kind](rng, whole.SerializeToString())
        lie = self._greeting_lie if method == "Greet" else self._question_lie
        kind = lie(whole)
        raw = whole.SerializeToString()
        if rng.random() < 0.2:
            raw = DAMAGE[rng.choice(list(DAMAGE))](rng, raw)
        return kind, raw

    def _question(self) -> Question:
        return self._me.speaker.question(tick=self._rng.randrange(max(self._ticks.values()) + 1))

    def _question_lie(self, q: Question) -> str:
        rng = self._rng
        kind = rng.choice(["run", "sender", "tick", "phase", "shares", "future", "standing", "standing", "all"])
        if kind in ("standing", "all"):
            self._standing_lie(q.standing)
        if kind in ("run", "all"):
            q.run = rng.choice([b"", bytes(32), rng.randbytes(32), q.run[:-1], q.run + b"\0", b"x" * 1000])
        if kind in ("sender", "all"):
            q.sender = rng.choice([0, 1, 2, 4, 99, 2**31, 2**32 - 1, rng.getrandbits(32)])
        if kind in ("tick", "all"):
            q.tick = rng.choice([self.federation.rounds, 2**31, 2**32 - 1, rng.getrandbits(32), rng.getrandbits(10)])
        if kind in ("phase", "all"):
            q.phase = rng.choice([1, 2, 2**32 - 1, rng.getrandbits(32)])
        if kind in ("shares", "all"):
            q.shares.extend(rng.randbytes(rng.choice([0, 48, 80])) for _ in range(rng.randrange(1, 6)))
        if kind == "future":
            q.tick = rng.randrange(self.federation.rounds)
        return f"wrong {kind}" if kind != "future" else "a tick to come"

    def _greeting(self) -> Greeting:
        met = [self._me.met()] if self.count > MEET * self._messages else []
        return self._me.speaker.greeting(met=met)

    def _greeting_lie(self, g: Greeting) -> str:
        rng, names = self._rng, self.federation.names
        about = "name parts without met heard keys statements statements signed replay padding standing standing words"
        kind = rng.choice(about.split())
        odd = ["", CONTROL, "x" * 300, "member 7", '"', "{}", "{0}", "%s", *names]
        if kind == "name":
            g.name = rng.choice([each for each in odd if each != ENEMY])
        elif kind == "parts":
            for part in rng.sample(sorted(g.parts), rng.randrange(1, len(g.parts) + 1)):
                rng.choice([lambda p: g.parts.pop(p), lambda p: g.parts.update({p: rng.randbytes(16)})])(part)
            for _ in range(rng.randrange(3)):
                g.parts[rng.choice(odd) + str(rng.getrandbits(16))] = rng.randbytes(4)
        elif kind == "without":
            g.without.extend(rng.choices(odd, k=rng.randrange(1, 9)))
        elif kind == "met":
            for _ in range(rng.choice([1, 2, 4, 5, 40])):
                size = rng.choice([0, 70, 72, 73, 200])
                g.met.append(Met(member=rng.choice([0, 1, 2, 3, 4, 99, 2**32 - 1]), signature=rng.randbytes(size)))
        elif kind == "heard":
            g.heard = rng.choice([1, 2, self.federation.rounds, 2**31, 2**32 - 1])
        elif kind == "keys":
            for _ in range(rng.randrange(1, 6)):
                g.keys.append(Key(member=rng.choice([0, 3, 99]), public=rng.randbytes(32), signature=rng.randbytes(70)))
        elif kind == "statements":
            for _ in range(rng.choice([1, 2, 12, 13, 40])):
                g.absences.append(self._statement(rng.random() < 0.3))
        elif kind == "signed":  # what nobody else has signed is no quorum
            g.absences.extend(self._statement(True, absent) for absent in range(3))
        elif kind == "replay" and self._seen:
            g.ParseFromString(rng.choice(self._seen))
            g.name = ENEMY
            if rng.random() < 0.7:
                g.standing.CopyFrom(self._me.speaker.standing())
        elif kind == "standing":
            self._standing_lie(g.standing)
        elif kind == "words":
            self._words(g)
        elif kind == "padding":  # as long as a greeting may be
            rest = self._most - len(g.SerializeToString()) - 10
            g.MergeFromString(varint(1000 << 3 | 2) + varint(rest) + bytes(rest))
        return f"lie about {kind}"

    def _standing_lie(self, standing: Standing) -> None:
        """About processes. What it could sign itself would only stop itself, and is left out."""
        rng = self._rng
        kind = rng.choice(["none", "own", "own", "known", "twins", "another's"])
        if kind == "none":
            standing.Clear()
        elif kind == "own":
            own = standing.own
            field = rng.choice(["member", "number", "nonce", "signature"])
            sizes = {"nonce": [0, 15, 16, 17, 300], "signature": [0, 70, 72, 73, 300]}
            if field in sizes:
                setattr(own, field, rng.randbytes(rng.choice(sizes[field])))
            else:
                setattr(own, field, rng.choice([0, 2, 3, 99, 2**31, 2**32 - 1, rng.getrandbits(32)]))
        elif kind == "known":
            standing.known.extend(self._process() for _ in range(rng.choice([1, 2, 3, 30])))
        elif kind == "twins":
            for _ in range(rng.choice([1, 2, 3, 20])):
                twin = Twin(
                    older=self._process(), newer=self._process(), signature=rng.randbytes(rng.choice([0, 70, 73]))
                )
                standing.twins.append(twin)
        elif self._seen:  # as it was shown to this member, of which it is true
            standing.CopyFrom(Greeting.FromString(rng.choice(self._seen)).standing)

    def _process(self) -> Incarnation:
        """One that the enemy has seen, or one that nobody has signed."""
        rng = self._rng
        if self._seen and rng.random() < 0.5:
            return Greeting.FromString(rng.choice(self._seen)).standing.own
        made = Incarnation(member=rng.choice([0, 1, 2, 3, 4, 2**32 - 1]), number=rng.choice([0, 1, 2, 2**31]))
        made.nonce, made.signature = rng.randbytes(rng.choice([0, 16, 17])), rng.randbytes(rng.choice([0, 70, 71, 73]))
        return made

    def _words(self, message: Greeting | Message) -> None:
        """Words of others, and contradictions, that nobody has signed; or that were signed, and are passed on."""
        rng = self._rng
        seen = [said for raw in self._seen[-5:] for said in Greeting.FromString(raw).said]
        for _ in range(rng.choice([1, 2, 18, 40])):
            message.said.append(rng.choice(seen) if seen and rng.random() < 0.3 else self._said())
        for _ in range(rng.choice([0, 0, 1, 5])):
            one, other = self._said(), self._said()
            if rng.random() < 0.7:
                other.member, other.tick = one.member, one.tick
            message.contradictions.append(Contradiction(one=one, other=other))

    def _said(self) -> Said:
        rng = self._rng
        made = Said(member=rng.choice([0, 1, 2, 3, 4, 99, 2**32 - 1]), tick=rng.choice([0, 1, 7, 2**32 - 1]))
        made.digest, made.signature = rng.randbytes(rng.choice([0, 32, 32, 33])), rng.randbytes(rng.choice([0, 70, 73]))
        return made

    def _statement(self, signed: bool, absent: int | None = None) -> Absence:
        rng = self._rng
        ticks = [0, max(self._ticks.values()), 2**32 - 1, rng.getrandbits(32)]
        if signed:
            made = Absence(witness=self._me.place, absent=rng.randrange(3) if absent is None else absent)
            made.tick = rng.choice(ticks)
            made.signature = self._identity.sign(_signed(self.federation, made))
            return made
        without = [rng.randrange(6) for _ in range(rng.choice([0, 0, 1, 3]))]
        size = rng.choice([0, 70, 72, 73, 200])
        return Absence(
            witness=rng.choice([0, 1, 2, 3, 99, 2**32 - 1]),
            absent=rng.choice([0, 1, 2, 3, 4, 2**32 - 1]),
            without=without,
            tick=rng.choice(ticks),
            signature=rng.randbytes(size),
        )

    # What it answers

    async def _answer(self, method: str, caller: str, raw: bytes) -> bytes:
        rng = self._rng
        if method == "Leave":
            self._finished.add(caller)
            return b""
        if method == "Ask":
            tick = Question.FromString(raw).tick
            self._ticks[caller] = tick
            due = MEET + (1 - MEET) * (tick + 1) / self.federation.rounds
            true = self._true(caller, tick)
        else:
            tick, due = -1, MEET
            true = self._greeting().SerializeToString()
        # Nonsense makes an agent wait longer and longer before it asks again; three times is enough at a tick.
        while self.count < self._messages:
            early = self.count < due * self._messages
            if self._answered[caller, tick] < (3 if tick >= 0 else 6) and rng.random() < 0.5:
                self._answered[caller, tick] += 1
                return self._nonsense(method, caller, tick, true)
            if not early:
                break
            if method == "Greet" and rng.random() < 0.05:
                break  # a greeting may be true at any time: nobody is ready yet
            await asyncio.sleep(0.05)
        self.sent[f"answer to {method}: valid"] += 1
        return true

    def _true(self, caller: str, tick: int) -> bytes:
        """What it says in the end, signed."""
        row, speaker = self._rows.setdefault(tick, self._row()), self._me.speaker
        if self.contradicts is not None and caller == self.contradicts[1]:
            # Everywhere else the same bytes: -0.0 + 0 would be 0.0, and 1e300 + 1 is 1e300.
            row, speaker = -row - 1 if tick == self.contradicts[0] else row, self._other
        return speaker.spoken(packed_row(self.federation.run, self._me.place, tick, row))

    def _row(self) -> np.ndarray:
        rng = self._rng
        return np.array([rng.choice(FAR) if rng.random() < 0.5 else rng.uniform(-2, 2) for _ in range(hostile.D)])

    def _nonsense(self, method: str, caller: str, tick: int, true: bytes) -> bytes:
        rng = self._rng
        lot = rng.random()
        if lot < 0.15:
            self.sent[f"answer to {method}: an error"] += 1
            kind = rng.choice([NotYet, Refused, Refused, Refused])
            raise kind(rng.choice(["", CONTROL, "{}", "x" * 3000]) + str(rng.getrandbits(64)))
        if lot < 0.5:
            kind = rng.choice(list(DAMAGE))
            self.sent[f"answer to {method}: {kind}"] += 1
            return DAMAGE[kind](rng, true)
        if method == "Greet":
            lie = self._greeting()
            kind = self._greeting_lie(lie)
            self.sent[f"answer to Greet: {kind}"] += 1
            return lie.SerializeToString()
        if rng.random() < 0.4:
            return self._added_lie(true)
        run, me, d = self.federation.run, self._me.place, hostile.D
        bad = self._row()
        bad[rng.randrange(d)] = rng.choice([np.nan, np.inf, -np.inf])
        kind, raw = rng.choice(
            [
                ("not finite", packed_row(run, me, tick, bad)),
                ("wrong shape", packed_row(run, me, tick, np.ones(rng.choice([d - 1, d + 1, 1, 90])))),
                ("wrong shape", packed(run, me, tick, bytes(8 * d), shape=(rng.choice([d, 1, 2**32 - 1]), 1))),
                ("wrong shape", packed(run, me, tick, rng.randbytes(rng.randrange(60)), shape=(d,))),
                ("wrong tick", packed_row(run, me, rng.getrandbits(32), self._row())),
                ("wrong sender", packed_row(run, rng.getrandbits(32), tick, self._row())),
                ("wrong phase", packed(run, me, tick, bytes(8 * d), phase=rng.getrandbits(32), shape=(d,))),
                ("wrong run", packed_row(rng.randbytes(32).hex(), me, tick, self._row())),
            ]
        )
        self.sent[f"answer to Ask: {kind}"] += 1
        kept = Message.FromString(true)
        added = Message(standing=kept.standing, own=kept.own if rng.random() < 0.8 else self._said())
        return raw + added.SerializeToString()

    def _added_lie(self, true: bytes) -> bytes:
        """The true row, and lies in what is added to it."""
        rng, message = self._rng, Message.FromString(true)
        kind = rng.choice(["standing", "own", "words"])
        self.sent[f"answer to Ask: lie about {kind}"] += 1
        if kind == "standing":
            self._standing_lie(message.standing)
        elif kind == "own":
            message.own.CopyFrom(rng.choice([Said(), self._said()]))
        else:
            self._words(message)
        return message.SerializeToString()


# The honest agents


def kind_of_line(line: str) -> str:
    """What is left of a line without all that the enemy chose: numbers, members, parts of the file, its own words.

    >>> kind_of_line("dogwood: its shape is (3, 4) with 24 bytes")
    'dogwood: its shape is # with # bytes'
    >>> kind_of_line("dogwood: it goes on without alder, birch, which the federation file does not allow")
    'dogwood: it goes on without ..., which the federation file does not allow'
    """
    who, rest = line[: len(ENEMY)], line[len(ENEMY) :]
    rest = re.sub(r"(answers|differs from ours in): .*?(; asking again)?$", r"\1: ...\2", rest)
    rest = re.sub(rf"({'|'.join(NAMES)})(, ({'|'.join(NAMES)}))*", "...", rest)
    return who + re.sub(r"\(?[-+]?\d[-+\d.e]*(, ?\d+)*(,?\))?", "#", rest)


class Honest:
    """Three organisations that do as docs/deploy.md says."""

    def __init__(self, folder: Path, go_on_after: float = 600.0) -> None:
        self.folder = folder
        self.identities = Identities(folder, NAMES)
        made = hostile.agreed(self.identities, "mr-admm", epsilon=1.0, rows=ROWS, go_on_after=go_on_after)
        self.federation = hostile.elsewhere(made, "with an enemy")
        (folder / "fed.toml").write_text(self.federation.to_toml())
        rng = np.random.default_rng(0)
        for name in HONEST:
            records = folder / f"{name}.csv"
            with records.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*(f"x{k}" for k in range(hostile.D)), "ill"])
                for row in rng.random((ROWS, hostile.D)):
                    writer.writerow([*row.round(3), "yes" if row.sum() > 1.5 else "no"])
            new_ledger(folder / f"{name}.ledger", name, 2.0)
        self.lives: dict[str, Any] = {}

    def start(self) -> None:
        for name in HONEST:
            words = {"federation": "fed.toml", "identity": name, "data": f"{name}.csv", "ledger": f"{name}.ledger"}
            words |= {"out": f"{name}.json"}
            options = [word for key, value in words.items() for word in (f"--{key}", value)]
            arguments = (self.folder, name, "agent", "run", *options)
            self.lives[name] = PROCESSES.Process(target=worker.command, args=arguments)
            self.lives[name].start()

    def memory(self) -> dict[str, int]:
        """Resident, in kB."""
        found = {}
        for name, life in self.lives.items():
            try:
                text = Path(f"/proc/{life.pid}/status").read_text()
                found[name] = int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]
            except (OSError, TypeError):  # it has ended, as it should not have
                found[name] = 0
        return found

    def log(self, name: str) -> str:
        return "".join((self.folder / f"{name}.{kind}").read_text(errors="replace") for kind in ("out", "err"))

    def kinds(self, name: str) -> Counter[str]:
        """How many warnings there are of each kind."""
        return Counter(map(kind_of_line, re.findall(r" tacit: warning: (.*)", self.log(name))))

    def complaints(self, name: str, expected: int = 0) -> list[str]:
        """What is not as it has to be."""
        found, life = [], self.lives[name]
        if life.exitcode != expected:
            found.append(f"{name} ended with {life.exitcode}: {self.log(name)[-2000:]}")
        if any(word in self.log(name) for word in ("Traceback", "Exception", "an error in the program")):
            found.append(f"{name} has a traceback in its log: {self.log(name)[-4000:]}")
        me = self.federation.names.index(name)
        if charged(self.folder / f"{name}.ledger") != plan_of(self.federation, me):
            found.append(f"the ledger of {name} is not as planned")
        # Handshakes that do not end in time, as on a busy machine, are the business of `Callers`.
        repeated = {kind: n for kind, n in self.kinds(name).items() if n > 1 and not kind.startswith("a caller at ")}
        found += [f"{name} says {n} times: {kind}" for kind, n in repeated.items()]
        if life.exitcode == 0:
            model = json.loads((self.folder / f"{name}.json").read_text())
            if not np.isfinite(model["weights"]).all():
                found.append(f"the model of {name} is not finite")
            signed_report.verified(self.folder / f"{name}.report.json", self.federation)
        return found

    def stop(self) -> None:
        for life in self.lives.values():
            life.kill()
            life.join()


def fuzz(folder: Path, messages: int, seed: int, verbose: bool = False) -> tuple[list[str], str]:
    """What went wrong, and a table of what happened."""
    honest = Honest(folder)
    enemy = Enemy(honest.federation, honest.identities, messages, seed, verbose)
    stages = [
        enemy.warm,
        *(share for share in (0.25, 0.5, 0.75) if share > enemy.warm),
        1.0,
    ]  # of the messages: at which memory is looked at
    memory: list[dict[str, int]] = []

    def at(share: float) -> None:
        while len(memory) < len(stages) and share >= stages[len(memory)] and enemy.begun:
            memory.append(honest.memory())

    async def everything() -> None:
        await enemy.send_all(at)
        await enemy.end()
        await asyncio.to_thread(all_ended, honest.lives.values(), 180)
        await enemy.close()

    begin = time.monotonic()
    honest.start()
    try:
        asyncio.run(everything())
        complaints = [each for name in HONEST for each in honest.complaints(name)]
    finally:
        honest.stop()
    for name in HONEST:
        before, after = memory[0][name], memory[-1][name]
        if not 0 < after < 1.1 * before:
            complaints.append(f"the memory of {name} went from {before:,} to {after:,} kB")
    return complaints, _table(honest, enemy, memory, time.monotonic() - begin)


def contradicted(folder: Path, seed: int, messages: int = 1000, at: int = 1) -> list[str]:
    """What went wrong when the enemy signs two rows at one tick."""
    honest = Honest(folder, go_on_after=0.0)
    enemy = Enemy(honest.federation, honest.identities, messages, seed, verbose=False)
    enemy.contradicts = (at, HONEST[0])

    async def everything() -> None:
        sending = asyncio.create_task(enemy.send_all(lambda share: None))
        await asyncio.to_thread(all_ended, honest.lives.values(), 180)
        sending.cancel()
        await asyncio.wait([sending])
        await enemy.close()
        for _ in range(100):  # calls of the enemy that swallow a cancellation would hold up the end of the loop
            if not (rest := asyncio.all_tasks() - {asyncio.current_task()}):
                break
            for task in rest:
                task.cancel()
            await asyncio.wait(rest, timeout=0.2)

    honest.start()
    try:
        asyncio.run(everything())
        found = [each for name in HONEST for each in honest.complaints(name, expected=78)]
    finally:
        honest.stop()
    # What is signed is the chain of all words: those of a later tick may be the first two that meet.
    line = re.compile(rf"{ENEMY} has signed two versions of what it said at tick (\d+): the run is over")
    for name in HONEST:
        named = line.search(honest.log(name))
        if named is None or int(named[1]) < at:
            found.append(f"{name} does not say who it was: {honest.log(name)}")
    return found


def _table(honest: Honest, enemy: Enemy, memory: list[dict[str, int]], took: float) -> str:
    ways = ("Greet", "Ask", "Leave", "answer to Greet", "answer to Ask")
    lines = [f"{enemy.count:,} messages in {took:.0f} s", "", "| message | " + " | ".join(ways) + " |"]
    lines += ["| --- " * (len(ways) + 1) + "|"]
    for kind in sorted({each.split(": ")[1] for each in enemy.sent}):
        lines.append(f"| {kind} | " + " | ".join(f"{enemy.sent[f'{way}: {kind}']:,}" for way in ways) + " |")
    lines += ["", "| what became of requests | times |", "| --- | --- |"]
    lines += [f"| {kind} | {n:,} |" for kind, n in enemy.got.most_common()]
    head = (
        "| agent | exit code | MB after warm-up, 25%, 50%, 75%, 100% | growth | log lines | kinds | ledger as planned |"
    )
    lines += ["", head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for me, name in enumerate(HONEST):
        kinds = honest.kinds(name)
        planned = charged(honest.folder / f"{name}.ledger") == plan_of(honest.federation, me)
        used = [each[name] for each in memory]
        lines.append(
            f"| {name} | {honest.lives[name].exitcode} | {', '.join(f'{each / 1024:.1f}' for each in used)} | "
            f"{used[-1] / used[0] - 1:+.1%} | {sum(kinds.values())} | {len(kinds)} | {'yes' if planned else 'NO'} |"
        )
    lines += ["", "| kind of line in a log | " + " | ".join(HONEST) + " |", "| --- | --- | --- | --- |"]
    logs = {name: honest.kinds(name) for name in HONEST}
    for kind in sorted(set().union(*logs.values())):
        text = kind if len(kind) < 160 else kind[:157] + "..."
        lines.append(f"| {text.replace('|', '/')} | " + " | ".join(str(logs[name][kind]) for name in HONEST) + " |")
    return "\n".join(lines)


def main() -> int:
    """Prints the table, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        complaints, table = fuzz(Path(folder), args.messages, args.seed, verbose=True)
    with tempfile.TemporaryDirectory() as folder:
        complaints += contradicted(Path(folder), args.seed)
    print(table, *(f"\nWRONG: {each}" for each in complaints), sep="\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
