"""One agent's end of secret-shared sums: all that a process that is one agent needs, and what a simulation has N of.

A *group* is a listener and its neighbours; listeners with the same closed neighbourhood are one group with one sum.
For one sum of round t, attempt a, each member i of the group (paper 003, Algorithm 3, with its gaps filled)

1. encodes its row x_i as integers modulo p (`FixedPoint`), draws a uniform share s_ij for every other member j, and
   keeps s_ii = x_i - sum_j s_ij. A share is the expansion of a fresh seed; what j gets is the seed, sealed for j alone,
   so it may pass through anybody;
2. has a share from everybody, and adds up what it holds: its partial sum sigma_i = sum_j s_ji, which it sends to the
   listeners, sealed under a key for this one message that went to them with the shares. A listener adds the partial
   sums: sum_i sigma_i = sum_i x_i, modulo p.

**Attempts.** If somebody is missing in step 1, the sum may be tried again without it, with fresh shares. The trap: if
the first attempt could still be completed, say because the missing one was only late, the difference of two sums would
be its row. The same if it is counted in the sum of one group and missing in that of another. So two rules, which
every member keeps by itself, within a round:

    1. who has sent a partial sum takes part in no other attempt at that sum;
    2. nobody helps with the sums of two groups if one counts an agent of both and the other leaves it out.

*Proof that one group's attempts give nothing away.* Fix a round and the members that are honest. An attempt in which
some honest h' does not send its partial sum tells nothing of any honest row, whatever else is known: every honest h has
given h' a share s_hh' (its kept one, if h = h') that is in no other message, so all rows are hidden by uniform words.
Who goes over to a new attempt forgets the old one, which is dead from then on. An attempt in which all its honest
members send reveals the sum of their rows and no more (docs/secret-sharing.md). By rule 1, two such attempts have no
honest member in common: no row is in two sums. The members of an attempt are part of what every message is sealed
about, so members who were told different things do not even exchange shares.

*Several groups.* By rule 2 no two sums with an honest member in common differ by who dropped out. Chains of sums are
beyond what members can see: where an agent is left out of one sum and counted in another, `revealed` says what follows.
So trying again is safe on a complete graph, which is one group; elsewhere to refuse the round is the safe answer.

What is left to a coalition that *lies* about who is missing is to shrink the group. `least` is the limit: nobody takes
part in an attempt of fewer members.
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


class Words(Protocol):
    """Where uniform words come from: `SecureWords`, but for tests that enumerate them."""

    def seed(self, about: bytes) -> bytes:
        """A seed for the one use that `about` says, unknown to all others."""
        ...

    def add(self, seed: bytes, total: np.ndarray) -> None:
        """total += its words."""
        ...


class Group(NamedTuple):
    """Who takes part in a sum, and who of them gets it; public, ascending."""

    members: tuple[int, ...]
    listeners: tuple[int, ...]


class Sharer:
    """One agent in one run: its keys, agreed on with every peer once.

    `run` is a public name that no other run has. The peers' public keys must be authentic: who relays them could
    otherwise put its own in their place. Keys and words are fresh; or they are the same as before, in a process that
    goes on where another was killed, which has to repeat all that may have left to the last bit (`tacit.agent`).
    """

    def __init__(
        self,
        agent: int,
        run: bytes,
        point: FixedPoint,
        *,
        least: int = LEAST,
        words: Words | None = None,
        keys: KeyPair | None = None,
    ) -> None:
        if not (isinstance(least, int | np.integer) and least >= LEAST):
            raise InputError(f"a secret-shared sum has at least {LEAST} members, so least cannot be {least!r}")
        self.agent, self.run, self.point, self.least = agent, run, point, least
        self.words: Words = SecureWords() if words is None else words
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
            raise ExchangeError(f"agent {self.agent} agrees on keys once with every other agent, and again with {peer}")
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
            raise ExchangeError(f"agent {self.agent} has no key of agent {peer}, with whom it is to share a sum")
        public, secret = self._peers[peer]
        ends = (self.public, public) if sender == self.agent else (public, self.public)
        purpose = b"tacit secret-shared sum" + _digest(group) + b"".join(ends) + _numbers(sender, receiver)
        return Channel(secret, self.run, purpose)

    def commit(self, round: int, group: Group, members: Sequence[int]) -> None:
        """Notes whom a sum of this round counts and whom it leaves out; refuses it if another sum has it otherwise."""
        now = {j: j in members for j in group.members}
        before = self._counted.setdefault(round, {})
        torn = [j for j in now if before.get(j, now[j]) != now[j]]
        if torn:
            raise ExchangeError(
                f"agent {self.agent} helps no sum of round {round} that counts {torn} beside one that does not: their "
                "difference could reveal a row"
            )
        before |= now
        over = min(sharing.round for sharing in self._groups.values())
        self._counted = {r: counted for r, counted in self._counted.items() if r >= over}


class GroupSharing:
    """A member's place in a group: `shares`, `receive` from everybody, `partial`; and so on in the next round.

    Nothing that is refused changes anything: a bad message may be followed by a good one.
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
        self._spoken = False  # whether a partial sum of this round has left

    def shares(
        self, row: np.ndarray, round: int, *, members: Sequence[int] | None = None, attempt: int = 0
    ) -> dict[int, bytes]:
        """Splits the row; gives what goes to each of the other members (of the whole group, if not said otherwise)."""
        members = self.group.members if members is None else tuple(sorted(set(members)))
        if not (0 <= round < 2**64 and 0 <= attempt < 2**32 and (round, attempt) > self._at):
            raise ExchangeError(f"rounds and attempts only grow: {(round, attempt)} comes after {self._at}")
        if round == self.round and self._spoken:
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
        self._at, self._spoken, self._members = (round, attempt), False, members
        self._own, self._held = own, np.zeros_like(own)
        self._context = self._member.run + _digest(self.group) + _numbers(*self._at, len(members), *members)
        # For the own partial sum, and for the others'.
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
        """Takes in the share that a peer sent, however it came."""
        if peer not in self.missing:
            raise ExchangeError(f"agent {self.agent} awaits no share of agent {peer}")
        message = self._from[peer].open(self._nonce(), sealed, self._about(_SHARE, peer, self.agent))
        if len(message) != KEY_BYTES * (1 + (self.agent in self.group.listeners)):
            raise ExchangeError(f"the share of agent {peer} has {len(message)} bytes, and not a seed's")
        self._keys[peer] = message[KEY_BYTES:]
        self._member.words.add(message[:KEY_BYTES], self._held)
        self._awaited.remove(peer)

    @property
    def round(self) -> int:
        """The present one; -1 before the first."""
        return self._at[0]

    @property
    def missing(self) -> tuple[int, ...]:
        """Whose share has not come yet."""
        if self.round < 0:
            raise ExchangeError("no round has begun: shares() comes first")
        return tuple(self._awaited)

    def partial(self) -> bytes:
        """The sum of the shares held, for the listeners. From here on there is no other attempt in this round."""
        message = self._partial().astype("<u8", copy=False).data.cast("B")
        return seal_once(self._key, message, self._about(_PARTIAL, self.agent))

    def collect(self) -> Collector:
        """A listener's end of the present attempt."""
        if self.agent not in self.group.listeners:
            raise ExchangeError(f"agent {self.agent} is not to hear the sum of {self.group.members}")
        return Collector(self)

    def heard(self, total: np.ndarray) -> np.ndarray:
        """(d,) what the others said, of a total modulo p: less the own row, exactly, and as real numbers."""
        return self._member.point.decode(total - self._own)

    def _partial(self) -> np.ndarray:
        if self.missing:
            raise Dropout(list(self.missing), f"agent {self.agent} has no share from {list(self.missing)}")
        if not self._spoken:
            self._member.commit(self.round, self.group, self._members)
            self._held &= self._member.point.mask
            self._spoken = True
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
        """What every message is bound to."""
        return self._context + _numbers(kind, *ends)


class Collector:
    """A listener's end of one attempt: `receive` from everybody, then `total`. Without one of them there is no sum."""

    def __init__(self, sharing: GroupSharing) -> None:
        self._sharing, self._attempt = sharing, sharing._at
        self._total = sharing._partial().copy()
        self._awaited = [j for j in sharing._members if j != sharing.agent]

    def receive(self, peer: int, sealed: bytes) -> None:
        """Takes in a partial sum."""
        if peer not in self._awaited or self._attempt != self._sharing._at:
            raise ExchangeError(f"agent {self._sharing.agent} awaits no partial sum of agent {peer}")
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
