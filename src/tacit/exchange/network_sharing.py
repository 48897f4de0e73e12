"""One agent's end of a total: a sum over all members of a network, in which each talks only to its neighbours.

Once a run, an agent agrees on a secret with every neighbour. At tick t agent i

1. writes its row as integers modulo p (`FixedPoint`), draws a uniform share s_ij for every neighbour j, and sends it to
   j: the 32-byte seed of s_ij, sealed for j;
2. when it has a share from every neighbour, adds up its partial sum
   sigma_i = x_i - sum_j s_ij + sum_j s_ji.

The sigma_i add up to the sum of the rows, modulo p, and may be added up in the open: along a tree.

*What a coalition sees.* Let H be the members outside it, and let them be connected among themselves. The coalition
knows the shares between itself and H, and chooses its own messages as it likes. Between two neighbours h, k in H, the
number r = s_kh - s_hk is uniform and unknown to it. So sigma_h is x_h, and numbers that the coalition knows, and the
sum of +-r over the edges of h within H. Along a spanning tree of H, these sums are uniform among all vectors that add
up to zero: each leaf's is whatever the r of its one edge makes it; take the leaf away, and go on. So the sigma_h are
uniform but for their total, sum_h x_h and what the coalition itself has put in. Fewer sigma_h tell less. If H falls
into parts, the same holds for each part. (Shares as seeds rest on AES, as in docs/secret-sharing.md.)

The paper's Algorithm 3 shares among all members of a group. That needs a connection between any two of them; this needs
a graph that stays connected without the coalition: with t colluders, t + 1 neighbours each.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np

from tacit.errors import Dropout, ExchangeError
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.keys import KEY_BYTES, Channel, KeyPair, SecureWords
from tacit.exchange.sharing import WordSource
from tacit.exchange.totals import SHARE_BYTES

_NONCE = SHARE_BYTES - KEY_BYTES - 16  # bytes; the seal has 16


class NetworkSharer:
    """One agent in one run.

    - `run` is a public name that no other run has.
    - `keys` and `words` are fresh by default. A process that goes on where another was killed gives the same as before:
      it must repeat everything that may have left, to the last bit (`tacit.agent`).

    The neighbours' public keys must be authentic.
    """

    def __init__(
        self,
        agent: int,
        neighbours: Sequence[int],
        run: bytes,
        point: FixedPoint,
        *,
        words: WordSource | None = None,
        keys: KeyPair | None = None,
    ) -> None:
        self.agent, self.neighbours, self.point = agent, tuple(neighbours), point
        self._run = run
        self._words: WordSource = SecureWords() if words is None else words
        self._keys = KeyPair() if keys is None else keys
        self._to: dict[int, Channel] = {}
        self._from: dict[int, Channel] = {}
        self.round = -1
        self._seeds: dict[int, dict[int, bytes]] = {}  # of this round and the one before: neighbours may be behind
        self._awaited: set[int] = set()

    @property
    def public(self) -> bytes:
        """The public key that the neighbours need."""
        return self._keys.public

    def meet(self, peer: int, public: bytes) -> None:
        """Agrees on a secret with a neighbour."""
        if peer in self._to or peer not in self.neighbours:
            raise ExchangeError(f"agent {self.agent} agrees on keys with every neighbour once, not with {peer}")
        secret = self._keys.agree(public)
        for channels, ends, keys in (
            (self._to, (self.agent, peer), (self.public, public)),
            (self._from, (peer, self.agent), (public, self.public)),
        ):
            channels[peer] = Channel(secret, self._run, b"tacit total" + b"".join(keys) + struct.pack(">2Q", *ends))

    def begin(self, row: np.ndarray, round: int) -> None:
        """Takes up a round, with the row that this agent adds."""
        if not self.round < round < 2**64:
            raise ExchangeError(f"rounds only grow: {round} cannot come after {self.round}")
        own = self.point.encode(row)
        before = {self.round: self._seeds[self.round]} if self.round in self._seeds else {}
        self.round, self._awaited = round, set(self.neighbours)
        # The row is part of what a seed is for: an agent that was put back from an old copy, and says another row in a
        # round that it has forgotten, must not hide both rows behind the same words.
        of = hashlib.sha256(own.tobytes()).digest()
        seeds = {j: self._words.seed(self._about(round, self.agent, j) + of) for j in self.neighbours}
        self._seeds = before | {round: seeds}
        given = np.zeros_like(own)
        for seed in self._seeds[round].values():
            self._words.add(seed, given)
        self._held = own - given

    def share(self, peer: int, round: int | None = None) -> bytes:
        """The share of a neighbour, sealed for it: of the present round, or again of the one before."""
        round = self.round if round is None else round
        if round not in self._seeds:
            raise ExchangeError(f"agent {self.agent} is in round {self.round}, and has no share of round {round}")
        seed = self._seeds[round][peer]
        nonce = hashlib.sha256(b"nonce" + seed).digest()[:_NONCE]  # never the same for two seeds
        return nonce + self._to[peer].seal(nonce, seed, self._about(round, self.agent, peer))

    def receive(self, peer: int, sealed: bytes) -> None:
        """Takes in the share of a neighbour. One that is refused changes nothing: a good one may follow."""
        if peer not in self._awaited:
            raise ExchangeError(f"agent {self.agent} expects no share from agent {peer}")
        if len(sealed) != SHARE_BYTES:
            raise ExchangeError(f"the share of agent {peer} has {len(sealed)} bytes, not {SHARE_BYTES}")
        nonce, sealed = sealed[:_NONCE], sealed[_NONCE:]
        seed = self._from[peer].open(nonce, sealed, self._about(self.round, peer, self.agent))
        self._words.add(seed, self._held)
        self._awaited.remove(peer)

    def partial(self) -> np.ndarray:
        """sigma_i, (d,) words modulo p: refused until every neighbour's share has come."""
        if self._awaited:
            missing = sorted(self._awaited)
            raise Dropout(missing, f"agent {self.agent} has no share from {missing}")
        return self._held & self.point.mask

    def _about(self, round: int, sender: int, receiver: int) -> bytes:
        """What a share is sealed with: it is valid for nothing else."""
        return hashlib.sha256(b"tacit total" + self._run + struct.pack(">3Q", round, sender, receiver)).digest()
