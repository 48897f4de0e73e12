"""One agent's side of secret-shared sums. An agent's process has one; a simulation has N.

A *group* is a listener and its neighbours; listeners with the same closed neighbourhood are one group with one sum.
For one sum of round t, attempt a, each member i of the group (paper 003, Algorithm 3, completed)

1. encodes its row x_i as integers modulo p (`FixedPoint`), draws a uniform share s_ij for every other member j, and
   keeps s_ii = x_i - sum_j s_ij. A share is the expansion of a fresh seed; j gets the seed, sealed for j alone, so
   that anybody may carry it;
2. when it has a share from every member, adds up what it holds: its partial sum sigma_i = sum_j s_ji. It sends this to
   the listeners, sealed with a key for this one message, which they got with the shares. A listener adds the partial
   sums: sum_i sigma_i = sum_i x_i, modulo p.

**Attempts.** If a member is missing in step 1, the others may try the sum again without it, with fresh shares. The
danger: if the first attempt could still be completed, for example because the missing member was only late, the
difference of the two sums would be its row. The same if the sum of one group counts it and that of another does not. So
every member keeps two rules within a round:

    1. after it has sent a partial sum, it takes part in no other attempt at that sum;
    2. it does not help with the sums of two groups if one counts an agent of both and the other leaves it out.

*Proof that one group's attempts reveal nothing more.* Fix a round and the members that are honest. An attempt in which
some honest h' does not send its partial sum says nothing about any honest row, whatever else is known: every honest h
has given h' a share s_hh' (the one it keeps, if h = h') that is in no other message, so uniform words hide all rows. A
member that starts a new attempt forgets the old one, which can then never be completed. An attempt in which all honest
members send reveals the sum of their rows and no more (docs/secret-sharing.md). By rule 1, two such attempts have no
honest member in common: no row is in two sums. The list of members is part of what every message is sealed with, so
members that have different lists do not even exchange shares.

*Several groups.* By rule 2 no two sums with an honest member in common differ by an agent that dropped out. Members
cannot see chains of sums: where one sum leaves out an agent and another counts it, `revealed` says what follows. So
trying again is safe on a complete graph, which is one group; on other graphs the safe answer is to refuse the round.

A coalition that *lies* about who is missing can only shrink the group. `least` is the limit: no member takes part in an
attempt of fewer members.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tacit.errors import Dropout, ExchangeError, InputError
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.keys import KEY_BYTES, Channel, KeyPair, SecureWords, open_once, seal_once

LEAST = 3  # of two members each would learn the other's row from the sum
_SHARE, _PARTIAL = 0, 1  # kinds of messages


class WordSource(Protocol):
    """A source of uniform words: `SecureWords`, except in tests that enumerate them."""

    def seed(self, about: bytes) -> bytes:
        """A secret seed, for the one use that `about` names."""
        ...

    def add(self, seed: bytes, total: np.ndarray) -> None:
        """total += the words of a seed."""
        ...


class Group(NamedTuple):
    """The agents that take part in a sum, and those that get it; public, ascending."""

    members: tuple[int, ...]
    listeners: tuple[int, ...]


class Sharer:
    """One agent in one run: its keys, agreed on with every peer once.

    - `run` is a public name that no other run has.
    - `least` is the smallest group in which the agent takes part.
    - `keys` and `words` are fresh by default. A process that goes on where another was killed gives the same as before:
      it must repeat everything that may have left, to the last bit (`tacit.agent`).

    The peers' public keys must be authentic: otherwise whoever relays them could replace them by its own.
    """

    def __init__(
        self,
        agent: int,
        run: bytes,
        point: FixedPoint,
        *,
        least: int = LEAST,
        words: WordSource | None = None,
        keys: KeyPair | None = None,
    ) -> None:
        if not (isinstance(least, int | np.integer) and least >= LEAST):
            raise InputError(f"a secret-shared sum has at least {LEAST} members, so least cannot be {least!r}")
        self.agent, self.run, self.point, self.least = agent, run, point, least
        self.words: WordSource = SecureWords() if words is None else words
        self._keys = KeyPair() if keys is None else keys
        self._peers: dict[int, tuple[bytes, bytes]] = {}  # public key and shared secret
        self._groups: dict[Group, GroupSharing] = {}
        # round -> agent -> whether the sums that this member has helped with count it
        self._counted: dict[int, dict[int, bool]] = {}

    @property
    def public(self) -> bytes:
        """The public key that the peers need."""
        return self._keys.public

    def meet(self, peer: int, public: bytes) -> None:
        """Agrees on a secret with a peer."""
        if peer in self._peers or peer == self.agent:
            raise ExchangeError(f"agent {self.agent} agrees on keys with every other agent once, not again with {peer}")
        self._peers[peer] = public, self._keys.agree(public)

    def in_group(self, group: Group) -> GroupSharing:
        """This member's place in a group, for the whole run. Groups come from the graph, never from a message."""
        if group not in self._groups:
            self._groups[group] = GroupSharing(self, group)
        return self._groups[group]

    def channel(self, group: Group, sender: int, receiver: int) -> Channel:
        """From or to a peer, for this group alone: several groups of a round may have both of them."""
        peer = receiver if sender == self.agent else sender
        if peer not in self._peers:
            raise ExchangeError(f"agent {self.agent} has no key of agent {peer}, which is in the same sum")
        public, secret = self._peers[peer]
        ends = (self.public, public) if sender == self.agent else (public, self.public)
        purpose = b"tacit secret-shared sum" + _digest(group) + b"".join(ends) + _numbers(sender, receiver)
        return Channel(secret, self.run, purpose)

    def commit(self, round: int, group: Group, members: Sequence[int]) -> None:
        """Notes which agents a sum of this round counts; refuses it if that contradicts another sum (rule 2)."""
        now = {j: j in members for j in group.members}
        before = self._counted.setdefault(round, {})
        differ = [j for j in now if before.get(j, now[j]) != now[j]]
        if differ:
            raise ExchangeError(
                f"agent {self.agent} helps no sum of round {round} that counts {differ} beside one that does not: "
                "their difference could reveal a row"
            )
        before |= now
        over = min(sharing.round for sharing in self._groups.values())
        self._counted = {r: counted for r, counted in self._counted.items() if r >= over}


class GroupSharing:
    """A member's place in a group: `shares`, `receive` from every other member, `partial`; then the next round.

    A message that is refused changes nothing: a good one may follow.
    """

    def __init__(self, member: Sharer, group: Group) -> None:
        if len(group.members) < member.least:
            raise InputError(
                f"a secret-shared sum needs at least {member.least} members, not the {len(group.members)} agents "
                f"{list(group.members)}: the sum would reveal too much of a single row"
            )
        if member.agent not in group.members or not set(group.listeners) <= set(group.members):
            raise InputError(f"agent {member.agent} and the listeners {group.listeners} must be of {group.members}")
        self.agent, self.group = member.agent, group
        self._member = member
        peers = [j for j in group.members if j != self.agent]
        self._to = {j: member.channel(group, self.agent, j) for j in peers}
        self._from = {j: member.channel(group, j, self.agent) for j in peers}
        self._at = (-1, 0)  # round and attempt
        self._partial_sent = False  # in this round

    def shares(
        self, row: np.ndarray, round: int, *, members: Sequence[int] | None = None, attempt: int = 0
    ) -> dict[int, bytes]:
        """Splits the row; gives what goes to each of the other members, by default of the whole group."""
        members = self.group.members if members is None else tuple(sorted(set(members)))
        if not (0 <= round < 2**64 and 0 <= attempt < 2**32 and (round, attempt) > self._at):
            raise ExchangeError(f"rounds and attempts only grow: {(round, attempt)} cannot come after {self._at}")
        if round == self.round and self._partial_sent:
            raise ExchangeError(
                f"agent {self.agent} has sent a partial sum of round {round}: with another attempt, the difference of "
                "two sums could reveal a row"
            )
        if self.agent not in members or not set(members) <= set(self.group.members):
            raise ExchangeError(f"an attempt is made by members of {self.group.members}, not by {members}")
        if len(members) < self._member.least:
            raise ExchangeError(f"{len(members)} members are left; a sum of fewer than {self._member.least} is refused")
        own = self._member.point.encode(row)
        if own.ndim != 1:
            raise InputError(f"a row to be summed has one axis, not the shape {own.shape}")
        self._at, self._partial_sent, self._members = (round, attempt), False, members
        self._own, self._held = own, np.zeros_like(own)
        self._context = self._member.run + _digest(self.group) + _numbers(*self._at, len(members), *members)
        # The key of this agent's partial sum, and those of the others'.
        self._key, self._keys = self._member.words.seed(self._about(_PARTIAL, self.agent)), dict[int, bytes]()
        self._awaited = [j for j in members if j != self.agent]
        sealed = {}
        for j in self._awaited:
            seed = self._member.words.seed(self._about(_SHARE, self.agent, j))
            self._member.words.add(seed, self._held)
            message = seed + self._key if j in self.group.listeners else seed
            sealed[j] = self._to[j].seal(self._nonce(), message, self._about(_SHARE, self.agent, j))
        np.subtract(own, self._held, out=self._held)
        return sealed

    def receive(self, peer: int, sealed: bytes) -> None:
        """Takes in the share of a peer, whoever carried it."""
        if peer not in self.missing:
            raise ExchangeError(f"agent {self.agent} expects no share from agent {peer}")
        message = self._from[peer].open(self._nonce(), sealed, self._about(_SHARE, peer, self.agent))
        if len(message) != KEY_BYTES * (1 + (self.agent in self.group.listeners)):
            raise ExchangeError(f"the share of agent {peer} has {len(message)} bytes, which is not the size of a seed")
        self._keys[peer] = message[KEY_BYTES:]
        self._member.words.add(message[:KEY_BYTES], self._held)
        self._awaited.remove(peer)

    @property
    def round(self) -> int:
        """The present round; -1 before the first."""
        return self._at[0]

    @property
    def missing(self) -> tuple[int, ...]:
        """The members whose share has not come yet."""
        if self.round < 0:
            raise ExchangeError("no round has begun: call shares() first")
        return tuple(self._awaited)

    def partial(self) -> bytes:
        """The sum of the shares held, for the listeners. After this there is no other attempt in this round."""
        message = self._partial().astype("<u8", copy=False).data.cast("B")
        return seal_once(self._key, message, self._about(_PARTIAL, self.agent))

    def collect(self) -> Collector:
        """A listener's side of the present attempt."""
        if self.agent not in self.group.listeners:
            raise ExchangeError(f"agent {self.agent} is not a listener of the sum of {self.group.members}")
        return Collector(self)

    def heard(self, total: np.ndarray) -> np.ndarray:
        """(d,) the sum of the others' rows, from a total modulo p: minus the own row, exactly, as real numbers."""
        return self._member.point.decode(total - self._own)

    def _partial(self) -> np.ndarray:
        if self.missing:
            raise Dropout(list(self.missing), f"agent {self.agent} has no share from {list(self.missing)}")
        if not self._partial_sent:
            self._member.commit(self.round, self.group, self._members)
            self._held &= self._member.point.mask
            self._partial_sent = True
        return self._held

    def _open(self, peer: int, sealed: bytes) -> np.ndarray:
        """A peer's partial sum of the present attempt."""
        message = open_once(self._keys[peer], sealed, self._about(_PARTIAL, peer))
        if len(message) != 8 * len(self._own):
            raise ExchangeError(
                f"the partial sum of agent {peer} has {len(message) / 8:g} numbers, not {len(self._own)}"
            )
        return np.frombuffer(message, dtype="<u8")

    def _nonce(self) -> bytes:
        """Never twice for one key: a key has one run, group, sender and receiver, and (round, attempt) only grows."""
        round, attempt = self._at
        return round.to_bytes(8, "big") + attempt.to_bytes(4, "big")

    def _about(self, kind: int, *ends: int) -> bytes:
        """What a message is sealed with: it is valid for nothing else."""
        return self._context + _numbers(kind, *ends)


class Collector:
    """A listener's side of one attempt: `receive` from each member, then `total`. All are needed for a sum."""

    def __init__(self, sharing: GroupSharing) -> None:
        self._sharing, self._attempt = sharing, sharing._at
        self._total = sharing._partial().copy()
        self._awaited = [j for j in sharing._members if j != sharing.agent]

    def receive(self, peer: int, sealed: bytes) -> None:
        """Takes in a partial sum."""
        if peer not in self._awaited or self._attempt != self._sharing._at:
            raise ExchangeError(f"agent {self._sharing.agent} expects no partial sum from agent {peer}")
        self._total += self._sharing._open(peer, sealed)
        self._awaited.remove(peer)

    def total(self) -> np.ndarray:
        """(d,) the sum of all members' rows, modulo p."""
        if self._awaited:
            raise Dropout(
                self._awaited, f"no partial sum from {self._awaited}: there is no sum, and no other attempt either"
            )
        return self._total


def _numbers(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}Q", *numbers)


def _digest(group: Group) -> bytes:
    return hashlib.sha256(_numbers(len(group.members), *group.members, *group.listeners)).digest()
