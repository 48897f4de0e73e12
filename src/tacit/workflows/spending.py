"""What a private fit pays: what the member that spends most spends, from a ledger, before any noise is drawn."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any
from uuid import uuid4

from tacit.core.alike import distinct
from tacit.errors import InputError, TacitError
from tacit.privacy import filters
from tacit.privacy.events import Event, to_plain
from tacit.privacy.ledger import About, Ledger


def worst(members: Sequence[Sequence[Event]]) -> list[Event]:
    """Events whose losses dominate those of any member, release by release, without the free ones.

    A record belongs to one member, and one ledger counts for all records. (A filter may give a member's own events a
    larger number, because it counts other plans in another way; the proof needs only that what is charged dominates.)

    >>> from tacit.privacy.events import Free, Gaussian
    >>> worst([[Gaussian(3.0), Free("a mean")], [Gaussian(2.0), Free("a mean")]])
    [Gaussian(multiplier=2.0)]
    """
    paid = [[event for event in events if not event.free] for events in distinct(members)]
    return [event for at_once in zip_longest(*paid) for event in _worst({e for e in at_once if e is not None})]


def _worst(events: set[Event]) -> list[Event]:
    kinds: set[Any] = {type(event) for event in events}
    found: Event | None = kinds.pop().dominating(events) if len(kinds) == 1 else None
    return sorted(events, key=repr) if found is None else [found]  # all of them: no member spends as much


@contextmanager
def paid(ledger: Any, about: About, events: Sequence[Event]) -> Iterator[Callable[[bytes], None]]:
    """Pays for a fit from the ledger, or is refused by its cap. What it gives keeps what will leave, before it leaves.

    Without a ledger nothing is paid or kept. A fit that fails has paid all the same: its noise was drawn.
    """
    if ledger is None:
        yield lambda payload: None
        return
    if not isinstance(ledger, Ledger | str | os.PathLike):
        raise InputError(f"ledger is a Ledger, or the name of its file, not {ledger!r}")
    opened = ledger if isinstance(ledger, Ledger) else Ledger(ledger, cost=filters.epsilon)
    try:
        run = uuid4().hex  # another fit draws other noise: it is another run
        opened.reserve_run(run, dict(enumerate(events)), about)
        yield lambda payload: opened.store(run, 0, payload)
    finally:
        if opened is not ledger:
            opened.close()


def require_as_planned(found: Sequence[Counter[Event]], planned: Sequence[Counter[Event]]) -> None:
    """Refuses a run whose events are not the planned ones, but for the last bits of their numbers: a share of positives
    that was measured moves the loss, and sensitivities are computed from it. Calibration leaves more room than that."""

    def same(one: Event, other: Event) -> bool:
        a, b = to_plain(one), to_plain(other)
        return a.keys() == b.keys() and all(
            math.isclose(v, b[k], rel_tol=1e-12) if isinstance(v, float) else v == b[k] for k, v in a.items()
        )

    if not all(
        list(a.values()) == list(b.values()) and all(map(same, a, b)) for a, b in zip(found, planned, strict=True)
    ):  # then a proof is wrong, and nothing may leave
        raise TacitError("the fit did not cost what was planned; nothing of it is kept")
