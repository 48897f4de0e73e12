"""What a ledger consists of: rows, each of which holds the hash of the row before it.

The kinds of rows:

    kind     run, tick   body
    cap      "", 0       epsilon, delta; when, who set it and why
    file     "", 0       a file of the population's records that was used first: when; digest, rows, cohorts
    run      run, 0      when; method and title; digest and cohorts of the records that it uses
    reserve  run, tick   the event that a release costs
    start    run, n      the n-th process that takes part in the run: when; its nonce
    mark     run, tick   the SHA-256 of the bytes that leave, which are kept elsewhere
    payload  run, tick   the bytes that leave
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from tacit.errors import InputError, MachineError, TacitError
from tacit.privacy.events import Event, from_plain


class LedgerError(TacitError):
    """The ledger cannot be read or written, has a fault, or holds something else for this round."""


class LedgerUnavailable(LedgerError, MachineError):  # noqa: N818 (a state of affairs, not a mistake)
    """The machine does not let the ledger be used now: its disk is full, another process holds it, or its second place
    is not there."""


class AnotherVersion(LedgerError):  # noqa: N818 (a state of affairs, not a mistake)
    """Other bytes have left, or may have left, for this round: these must not. The run is over for this member."""

    exit_code = 78


class BudgetExceeded(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """The requested release, run or cap does not fit with what has been spent."""

    exit_code = 77


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


class Records(NamedTuple):
    """A file of the population's records, as one run uses it."""

    digest: str  # of the parsed records (`tacit.data`): the same file saved in another way has the same one
    rows: int
    cohorts: tuple[str, ...] | None = None  # of these records; None if the ledger has no cohorts


class Head(NamedTuple):
    """What stands for a ledger and its whole history, and tells nothing about it."""

    book: str  # which ledger it is
    rows: int
    head: str  # of the last of these rows


class About(NamedTuple):
    """What a run is, for those who read the ledger later."""

    method: str
    title: str = ""
    records: Records | None = None  # without them, the run is charged to all cohorts, present and future


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

    def left(self) -> bytes:
        """The SHA-256 of what has left, or may have left."""
        return self.body if self.kind == "mark" else sha256(self.body).digest()

    def cap(self) -> Cap:
        """The cap that a row sets."""
        body = self.facts()
        return Cap(body["epsilon"], body["delta"])

    def cohorts(self) -> list[str] | None:
        """The cohorts that a run is charged to; None for all of them."""
        found = self.facts()["cohorts"]
        if found is not None and not (found and all(isinstance(each, str) and each for each in found)):
            raise InputError(f"cohorts are a list of names, not {found!r}")
        return None if found is None else list(found)

    def facts(self) -> dict[str, Any]:
        """What a cap, a file, a run or a start says."""
        found: dict[str, Any] = json.loads(self.body)
        if missing := _FACTS[self.kind] - found.keys():
            raise InputError(f"it lacks {', '.join(sorted(missing))}")
        return found


_FACTS = {
    "cap": {"epsilon", "delta", "when", "who", "why"},
    "file": {"when", "digest", "rows", "cohorts"},
    "run": {"when", "method", "title", "digest", "cohorts"},
    "start": {"when", "nonce"},
}
RELEASED = ("mark", "payload")  # kinds of rows after which something may have left


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
        if entry.kind == "reserve":
            entry.event()
        elif entry.kind == "mark":
            if len(entry.body) != sha256().digest_size:
                raise InputError("a mark is a SHA-256")
        elif entry.kind != "payload":
            entry.facts()
        if entry.kind == "cap":
            entry.cap()
        if entry.kind == "run":
            entry.cohorts()
        return None
    except (InputError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return f"it cannot be read ({error})"


def hashed(*fields: str | int | bytes) -> str:
    """SHA-256 over the fields, each after its length, so that different lists of fields never look the same."""
    digest = sha256()
    for field in fields:
        raw = field if isinstance(field, bytes) else str(field).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
