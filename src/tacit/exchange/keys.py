"""All cryptography of the exchange: key agreement, sealed messages, uniform words, by the package `cryptography`.

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

KEY_BYTES = 32  # the size of a public key, a seed, a cipher's key


def fresh_key() -> bytes:
    """A random key from the operating system."""
    return os.urandom(KEY_BYTES)


class KeyPair:
    """An agent's X25519 keys for one run: fresh, or derived from a secret that has no other use."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._private = X25519PrivateKey.from_private_bytes(fresh_key() if secret is None else secret)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> bytes:
        """The secret shared with the owner of this public key."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise ExchangeError(f"a peer's public key was refused: {error}") from None


class Channel:
    """One direction between two agents, with its own key, derived from their secret and from its purpose."""

    def __init__(self, secret: bytes, run: bytes, purpose: bytes) -> None:
        self._aead = AESGCM(HKDF(SHA256(), KEY_BYTES, salt=run, info=purpose).derive(secret))

    def seal(self, nonce: bytes, message: bytes, about: bytes) -> bytes:
        """Encrypts a message, and authenticates it together with `about`. No nonce may be used for two messages."""
        return self._aead.encrypt(nonce, message, about)

    def open(self, nonce: bytes, sealed: bytes, about: bytes) -> bytes:
        """The message. Refuses one that was sealed with another nonce or another `about`."""
        return _opened(self._aead, nonce, sealed, about)


def seal_once(key: bytes, message: bytes | memoryview, about: bytes) -> bytes:
    """Seals a message with a key that is used for no other message, so that any nonce will do."""
    return AESGCM(key).encrypt(bytes(12), message, about)


def open_once(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Opens what `seal_once` has sealed under this key."""
    return _opened(AESGCM(key), bytes(12), sealed, about)


class SecureWords:
    """Uniform words of 64 bits: a seed from the operating system, expanded by a cipher in counter mode."""

    def __init__(self, chunk: int = 2**14) -> None:
        self._zeros, self._words = bytes(8 * chunk), np.empty(chunk, dtype="<u8")  # small enough for the cache

    def seed(self, about: bytes) -> bytes:
        """A fresh seed, whatever `about` is."""
        return fresh_key()

    def add(self, seed: bytes, total: np.ndarray) -> None:
        """total += the words of this seed, which are the same on every machine."""
        start = bytes(16)  # a seed is used once, so any start will do
        stream = Cipher(algorithms.AES(seed), modes.CTR(start)).encryptor()
        for low in range(0, len(total), len(self._words)):
            part = total[low : low + len(self._words)]
            words = self._words[: len(part)]
            stream.update_into(memoryview(self._zeros)[: words.nbytes], words.data.cast("B"))
            part += words


class RepeatableWords(SecureWords):
    """Seeds derived from a secret, which look fresh to everybody else. The same `about` gives the same seed, so that an
    agent that was killed repeats its messages to the last bit. No two seeds may have the same `about`."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._secret = secret

    def seed(self, about: bytes) -> bytes:
        """The same 32 bytes for the same words: HMAC-SHA256 under the secret."""
        return hmac.digest(self._secret, about, "sha256")


def _opened(aead: AESGCM, nonce: bytes, sealed: bytes, about: bytes) -> bytes:
    try:
        return aead.decrypt(nonce, sealed, about)
    except InvalidTag:
        raise ExchangeError("a sealed message was refused: altered, replayed, or meant for another use") from None
