"""Messages as bytes, and back. Bytes that are not exactly what was expected are refused.

The generated protobuf code is in `wire_pb2.py`; wire.proto says how it was made. (run, tick, phase, sender) names a
message. A tick is one exchange: a method that exchanges twice in an iteration has two ticks. Only secret-shared sums
have a second phase: there a tick takes two questions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tacit.agent.transport.wire_pb2 import Message
from tacit.errors import TacitError

ENVELOPE = 128  # bytes: more than all fields together can take, without the payload


class BadMessage(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """A peer sent something that it may not send. `rule` is the text, with {} for values that the peer chose.

    The log has one line for each rule (`tacit.agent.transport.refusals`).

    >>> BadMessage("it says {} of {}", 7, 5)
    BadMessage('it says 7 of 5')
    """

    def __init__(self, rule: str, *chosen: object) -> None:
        super().__init__(rule.format(*chosen))
        self.rule = rule


def packed(run: str, sender: int, tick: int, payload: bytes, *, phase: int = 0, shape: tuple[int, ...] = ()) -> bytes:
    """The bytes of a message. `run`, `sender`, `tick` and `phase` name it; `shape` is that of a row in `payload`."""
    message = Message(run=bytes.fromhex(run), sender=sender, tick=tick, phase=phase, shape=shape, payload=payload)
    return message.SerializeToString(deterministic=True)


def packed_row(run: str, sender: int, tick: int, row: np.ndarray | None) -> bytes:
    """A row as a message; None stands for an agent that is silent.

    >>> len(packed_row("00" * 32, 3, 7, np.ones(104))) - 8 * 104
    44
    """
    if row is None:
        return packed(run, sender, tick, b"")
    return packed(run, sender, tick, np.ascontiguousarray(row, dtype="<f8").tobytes(), shape=row.shape)


def parsed(kind: type[Any], raw: bytes) -> Any:
    """The bytes as a protobuf message of this kind."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise BadMessage(f"it sent bytes that are not a {kind.DESCRIPTOR.name}") from None


def answering(message: Message, run: str, sender: int, tick: int, phase: int = 0) -> Message:
    """The message, if it is the one that was asked for."""
    if (message.run.hex(), message.sender, message.tick, message.phase) != (run, sender, tick, phase):
        raise BadMessage(
            "it answers another question: sender {}, tick {}, phase {}", message.sender, message.tick, message.phase
        )
    return message


def bare(message: Message) -> bytes:
    """The bytes of a message as they were committed: without what is added when it leaves."""
    kept = Message()
    kept.CopyFrom(message)
    for added in ("standing", "own", "said", "contradictions", "totals"):
        kept.ClearField(added)
    return kept.SerializeToString(deterministic=True)


def row_of(message: Message, dimension: int) -> np.ndarray | None:
    """The row of a message; None if its sender was silent."""
    shape, size = tuple(message.shape), len(message.payload)
    if (shape, size) == ((), 0):
        return None
    if (shape, size) != ((dimension,), 8 * dimension):
        shown = str(shape) if len(shape) < 5 else f"of {len(shape)} numbers"
        raise BadMessage("its shape is {} with {} bytes; {} numbers were expected", shown, size, dimension)
    row = np.frombuffer(message.payload, dtype="<f8").astype(float)
    if not np.isfinite(row).all():
        raise BadMessage("number {} of its row is not finite", int(np.argmin(np.isfinite(row))))
    return row
