"""The cryptography, all of it: key agreement, sealed messages, uniform words. It comes from the package `cryptography`.

X25519, HKDF-SHA256, AES-256-GCM, and AES-256 in counter mode as generator.
"""

from __future__ import annotations

import hmac
import os

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import ExchangeError

KEY_BYTES = 32  # of a public key, a seed, a cipher's key


def fresh_key() -> bytes:
    """From the operating system's generator."""
    return os.urandom(KEY_BYTES)


class KeyPair:
    """An agent's X25519 keys for one run: fresh, or again the same, from a secret that has no other use."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._private = X25519PrivateKey.from_private_bytes(fresh_key() if secret is None else secret)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> bytes:
        """The secret shared with the owner of that public key."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise ExchangeError(f"a peer's public key was refused: {error}") from None


class Channel:
    """One direction between two agents: a key of its own, derived from their secret and from what it is used for."""

    def __init__(self, secret: bytes, run: bytes, purpose: bytes) -> None:
        self._aead = AESGCM(HKDF(SHA256(), KEY_BYTES, salt=run, info=purpose).derive(secret))

    def seal(self, nonce: bytes, message: bytes, about: bytes) -> bytes:
        """Encrypted, and authentic together with what it is about. No nonce may be used for two messages."""
        return self._aead.encrypt(nonce, message, about)

    def open(self, nonce: bytes, sealed: bytes, about: bytes) -> bytes:
        """The message, if it was sealed for this nonce and about this."""
        return _opened(self._aead, nonce, sealed, about)


def seal_once(key: bytes, message: bytes | memoryview, about: bytes) -> bytes:
    """Sealed under a key that is used for this message and no other, so that any nonce will do."""
    return AESGCM(key).encrypt(bytes(12), message, about)


def open_once(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """What `seal_once` sealed."""
    return _opened(AESGCM(key), bytes(12), sealed, about)


class SecureWords:
    """Uniform words of 64 bits: the operating system gives a seed, a cipher in counter mode expands it."""

    def __init__(self, chunk: int = 2**14) -> None:
        self._zeros, self._words = bytes(8 * chunk), np.empty(chunk, dtype="<u8")  # small enough for a fast cache

    def seed(self, about: bytes) -> bytes:
        """A fresh one, whatever it is for."""
        return fresh_key()

    def add(self, seed: bytes, total: np.ndarray) -> None:
        """total += the words of that seed, which are the same on every machine."""
        stream = Cipher(
            algorithms.AES(seed), modes.CTR(bytes(16))
        ).encryptor()  # a seed is used once: any start will do
        for low in range(0, len(total), len(self._words)):
            part = total[low : low + len(self._words)]
            words = self._words[: len(part)]
            stream.update_into(memoryview(self._zeros)[: words.nbytes], words.data.cast("B"))
            part += words


class RepeatableWords(SecureWords):
    """Seeds that only who has the secret can tell from fresh ones, and that are the same when they are asked for again:
    an agent that was killed and goes on repeats its messages to the last bit. No two seeds may be about the same."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._secret = secret

    def seed(self, about: bytes) -> bytes:
        """HMAC-SHA256 of what it is for."""
        return hmac.digest(self._secret, about, "sha256")


def _opened(aead: AESGCM, nonce: bytes, sealed: bytes, about: bytes) -> bytes:
    try:
        return aead.decrypt(nonce, sealed, about)
    except InvalidTag:
        raise ExchangeError("a sealed message was refused: altered, replayed, or meant for another use") from None
