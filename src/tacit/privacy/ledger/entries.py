"""What a ledger consists of: caps, reservations and payloads, each a row that holds the hash of the row before it."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from tacit.errors import InputError, TacitError
from tacit.privacy.events import Event, from_plain


class LedgerError(TacitError):
    """The ledger cannot be read or written, has a fault, or holds something else for this round."""


class BudgetExceeded(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """The requested release, run or cap does not fit with what has been spent."""


@dataclass(frozen=True)
class Cap:
    """All that is ever released together stays (epsilon, delta)-differentially private.

    >>> Cap(epsilon=1.0, delta=1e-6)
    Cap(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"a cap needs a positive, finite epsilon, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise InputError(f"a cap needs a delta between 0 and 1, not {self.delta}")

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.6g}"


class Entry(NamedTuple):
    """A row of the ledger."""

    number: int
    kind: str
    run: str
    tick: int
    body: bytes
    previous: str
    hash: str

    def event(self) -> Event:
        """The event that a reservation paid for."""
        return from_plain(json.loads(self.body))

    def cap(self) -> Cap:
        """The cap that a row sets."""
        return Cap(**json.loads(self.body))


def checked(run: str, tick: int) -> tuple[str, int]:
    """The run and the tick, if they can name a round."""
    check_name(run, "a run")
    tick = operator.index(tick)
    if not 0 <= tick < 2**63:
        raise InputError(f"a round is numbered from 0, not {tick}")
    return run, tick


def check_name(name: str, whose: str) -> None:
    """Refuses a name that cannot be printed on one line."""
    if not (name and name.isprintable()):
        raise InputError(f"{whose} needs a name of printable characters, not {name!r}")


def canonical(plain: dict[str, Any]) -> bytes:
    """The only way to write a body, so that equal bodies have equal hashes."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def unreadable(entry: Entry) -> str | None:
    """Why a row cannot be read; None if it can."""
    try:
        if entry.kind != "payload":
            entry.cap() if entry.kind == "cap" else entry.event()
        return None
    except (InputError, TypeError, ValueError, AttributeError) as error:
        return f"it cannot be read ({error})"


def hashed(*fields: str | int | bytes) -> str:
    """SHA-256 over the fields, each after its length, so that different lists of fields never look the same."""
    digest = sha256()
    for field in fields:
        raw = field if isinstance(field, bytes) else str(field).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
