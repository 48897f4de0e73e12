"""The state of an agent, in two slots: files beside its journal. It is long, and replaced at every tick.

A commit writes the slot that the last one did not use. The state's entry in the journal says which slot that is, and
the SHA-256 of its content: before the entry is there, nobody looks at what was written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from tacit.agent.heard import MessageChain
from tacit.agent.journal import damaged
from tacit.errors import TacitError, failed
from tacit.files import sync_folder

Arrays = dict[str, np.ndarray]


def path_of(store: Path, slot: int) -> Path:
    """The file of a slot."""
    return store.with_name(f"{store.name}-state{slot}")


def write(store: Path, slot: int, state: Arrays, heard: Mapping[str, MessageChain]) -> str:
    """Writes a state to a slot, and to the disk; gives the SHA-256 of the content."""
    path, digest = path_of(store, slot), sha256()
    pieces = _packed(state, heard)
    try:
        new = not path.exists()
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb", buffering=0) as file:
            for piece in pieces:
                digest.update(piece)
                while piece:
                    piece = piece[file.write(piece) :]
            file.truncate()
            os.fsync(file.fileno())
        if new:
            sync_folder(path.parent)
    except OSError as error:
        raise failed(error, f"{path}: {error.strerror or error}; nothing was sent") from None
    return digest.hexdigest()


def read(store: Path, slot: int, digest: str, what: str) -> bytes:
    """The content of a slot, if it has this SHA-256; `what` names it in an error."""
    path = path_of(store, slot)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from None
    if sha256(raw).hexdigest() != digest:
        raise damaged(path, f"{what} does not fit its digest")
    return raw


def unpacked(raw: bytes) -> tuple[Arrays, dict[str, MessageChain]]:
    """The state in a slot, and what it has taken in of each neighbour."""
    line, _, body = raw.partition(b"\n")
    head = json.loads(line)
    arrays, at = {}, 0
    for name, shape in head["arrays"]:
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(body, "<f8", count, at).astype(float).reshape(shape)
        at += 8 * count
    heard = {name: MessageChain(messages, bytes.fromhex(each)) for name, (messages, each) in head["heard"].items()}
    return arrays, heard


def _packed(arrays: Arrays, heard: Mapping[str, MessageChain]) -> list[memoryview]:
    """One line of JSON with the names and shapes of the arrays and what was heard, then the arrays' bytes: float64,
    little endian."""
    for name, array in arrays.items():
        if array.dtype != float:
            raise TacitError(f"{name} of the state has the type {array.dtype}; an agent can keep float64 only")
    line = {
        "arrays": [[name, list(array.shape)] for name, array in arrays.items()],
        "heard": {name: [chain.messages, chain.digest.hex()] for name, chain in heard.items()},
    }
    bodies = [np.ascontiguousarray(array, dtype="<f8").reshape(-1) for array in arrays.values() if array.size]
    return [memoryview(json.dumps(line).encode() + b"\n"), *(body.data.cast("B") for body in bodies)]
