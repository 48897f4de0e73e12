"""What agents say as bytes, and back; whatever is not exactly what was expected is refused.

The generated protobuf code is in `wire_pb2.py`; wire.proto says how it was made. (run, tick, phase, sender) names a
message. A tick is one exchange: a method with two of them in an iteration has two ticks. Only secret-shared sums, in
which a tick takes two questions, have a second phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tacit.agent.wire_pb2 import Message
from tacit.errors import TacitError

ENVELOPE = 128  # bytes: more than all fields but the payload can take


class BadMessage(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """What a peer sent is not what it may send: a rule, with {} for what the peer chose.

    The rule is the kind of the refusal, of which the log has one line (`tacit.agent.transport.Refusals`).

    >>> BadMessage("it says {} of {}", 7, 5)
    BadMessage('it says 7 of 5')
    """

    def __init__(self, rule: str, *chosen: object) -> None:
        super().__init__(rule.format(*chosen))
        self.rule = rule


def packed(run: str, sender: int, tick: int, payload: bytes, *, phase: int = 0, shape: tuple[int, ...] = ()) -> bytes:
    """The bytes of a message."""
    message = Message(run=bytes.fromhex(run), sender=sender, tick=tick, phase=phase, shape=shape, payload=payload)
    return message.SerializeToString(deterministic=True)


def packed_row(run: str, sender: int, tick: int, row: np.ndarray | None) -> bytes:
    """A row as a message; from who keeps silent, none.

    >>> len(packed_row("00" * 32, 3, 7, np.ones(104))) - 8 * 104
    44
    """
    if row is None:
        return packed(run, sender, tick, b"")
    return packed(run, sender, tick, np.ascontiguousarray(row, dtype="<f8").tobytes(), shape=row.shape)


def parsed(kind: type[Any], raw: bytes) -> Any:
    """The protobuf message of this kind that the bytes are. (gRPC would take garbage for None, and go on.)"""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise BadMessage(f"what it sends is no {kind.DESCRIPTOR.name}") from None


def unpacked(raw: bytes, run: str, sender: int, tick: int, phase: int = 0) -> Message:
    """A message, if it is the one that was asked for."""
    message = parsed(Message, raw)
    if (message.run.hex(), message.sender, message.tick, message.phase) != (run, sender, tick, phase):
        raise BadMessage(
            "it answers another question: sender {}, tick {}, phase {}", message.sender, message.tick, message.phase
        )
    return message


def row_of(message: Message, dimension: int) -> np.ndarray | None:
    """The row of a message; None of who kept silent."""
    shape, size = tuple(message.shape), len(message.payload)
    if (shape, size) == ((), 0):
        return None
    if (shape, size) != ((dimension,), 8 * dimension):
        shown = str(shape) if len(shape) < 5 else f"of {len(shape)} numbers"
        raise BadMessage("its shape is {} with {} bytes; {} numbers were expected", shown, size, dimension)
    row = np.frombuffer(message.payload, dtype="<f8").astype(float)
    if not np.isfinite(row).all():
        raise BadMessage("number {} of it is not finite", int(np.argmin(np.isfinite(row))))
    return row
