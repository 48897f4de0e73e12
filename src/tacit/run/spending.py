"""What a private fit pays: what the member that spends most spends, from a ledger, before any noise is drawn."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tacit.core.alike import distinct
from tacit.errors import InputError, TacitError
from tacit.privacy.events import Event, to_plain

if TYPE_CHECKING:
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
def paid(ledger: Any, about: About | None, events: Sequence[Event]) -> Iterator[Callable[[bytes], None]]:
    """Pays for a fit from the ledger, or is refused by its cap. What it gives keeps what will leave, before it leaves.

    Without a ledger nothing is paid or kept. A fit that fails has paid all the same: its noise was drawn.
    """
    with opened(ledger) as account:
        if account is None:
            yield lambda payload: None
            return
        if about is None:
            from tacit.privacy.ledger import About

            about = About("", "train")
        run = uuid4().hex  # another fit draws other noise: it is another run
        account.reserve_run(run, dict(enumerate(events)), about)
        yield lambda payload: account.store(run, 0, payload)


@contextmanager
def opened(ledger: Any) -> Iterator[Ledger | None]:
    """A ledger as it is, or that of a file, which is closed in the end; None for none."""
    if ledger is None:
        yield None
        return
    from tacit.privacy import filters  # no run without a ledger loads them
    from tacit.privacy.ledger import Ledger

    if isinstance(ledger, Ledger):
        yield ledger
    elif isinstance(ledger, str | os.PathLike):
        with Ledger(ledger, cost=filters.epsilon) as account:
            yield account
    else:
        raise InputError(f"ledger is a Ledger, or the name of its file, not {ledger!r}")


def require_as_planned(found: Sequence[Counter[Event]], planned: Sequence[Counter[Event]]) -> None:
    """Refuses a run whose events are not the planned ones, but for the last bits of their numbers: a share of positives
    that was measured moves the loss, and sensitivities are computed from it. Calibration leaves more room than that.

    Shares of noise are as wide as the member needs for whom rounding does most. What a measured share adds to rounding
    is less for smaller members: their events may cost a little less than planned."""

    def same(one: Event, other: Event) -> bool:
        a, b = to_plain(one), to_plain(other)
        room = 1e-6 if one.shared else 1e-12  # above: with more noise it costs less
        return a.keys() == b.keys() and all(
            -1e-12 * b[k] <= v - b[k] <= room * b[k] if isinstance(v, float) else v == b[k] for k, v in a.items()
        )

    if not all(
        list(a.values()) == list(b.values()) and all(map(same, a, b)) for a, b in zip(found, planned, strict=True)
    ):  # then a proof is wrong, and nothing may leave
        raise TacitError("the fit did not cost what was planned; nothing of it is kept")
