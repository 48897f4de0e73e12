"""A row of numbers as a message, and back; whatever is not exactly what was expected is refused.

The generated protobuf code is in `wire_pb2.py`; wire.proto says how it was made. (run, tick, sender) names a message: a
tick is what other protocols call a round and a phase, for a method with two exchanges in an iteration has two ticks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tacit.agent.wire_pb2 import Message
from tacit.errors import TacitError

ENVELOPE = 128  # bytes: more than all fields but the payload can take


class BadMessage(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """What a peer sent is not what it may send."""


def largest(dimension: int) -> int:
    """The most bytes that a message of the model's dimension can have."""
    return 8 * dimension + ENVELOPE


def packed(run: str, sender: int, tick: int, row: np.ndarray | None) -> bytes:
    """The bytes that leave: a row, or, from who keeps silent, none.

    >>> len(packed("00" * 32, 3, 7, np.ones(104))) - 8 * 104
    44
    """
    said = np.empty(0) if row is None else row
    shape = list(said.shape) if row is not None else []
    payload = np.ascontiguousarray(said, dtype="<f8").tobytes()
    message = Message(run=bytes.fromhex(run), sender=sender, tick=tick, shape=shape, payload=payload)
    return message.SerializeToString(deterministic=True)


def parsed(kind: type[Any], raw: bytes) -> Any:
    """The protobuf message of this kind that the bytes are. (gRPC would take garbage for None, and go on.)"""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise BadMessage(f"what it sends is no {kind.DESCRIPTOR.name}") from None


def unpacked(raw: bytes, run: str, sender: int, tick: int, dimension: int) -> np.ndarray | None:
    """The row of a message, if it is the one that was asked for; None of who kept silent."""
    message = parsed(Message, raw)
    if (message.run.hex(), message.sender, message.tick) != (run, sender, tick):
        raise BadMessage(f"it answers another question: sender {message.sender}, tick {message.tick}")
    shape = tuple(message.shape)
    if shape not in ((), (dimension,)) or len(message.payload) != 8 * (math.prod(shape) if shape else 0):
        raise BadMessage(f"its shape is {shape} with {len(message.payload)} bytes; {dimension} numbers were expected")
    if not shape:
        return None
    row = np.frombuffer(message.payload, dtype="<f8").astype(float)
    if not np.isfinite(row).all():
        raise BadMessage(f"number {int(np.argmin(np.isfinite(row)))} of it is not finite")
    return row
