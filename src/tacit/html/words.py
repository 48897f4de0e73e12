"""Words of documents: times, numbers with their nouns, lists, and who wrote it when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tacit import __version__


def written() -> dict[str, str]:
    """By which version a document was written, and when."""
    return {"tacit": __version__, "written": datetime.now(UTC).isoformat(timespec="seconds")}


def moment(iso: object) -> str:
    """A time that a person can read, without parts of a second.

    >>> moment("2026-11-17T13:20:11.5+00:00"), moment("2026-11-17")
    ('2026-11-17 13:20 UTC', '2026-11-17')
    """
    day, at, clock = str(iso).partition("T")
    utc = " UTC" if clock.endswith(("+00:00", "Z")) else ""
    return f"{day} {clock[:5]}{utc}" if at else day


def counted(number: int, one: str, more: str | None = None) -> str:
    """A number and its noun.

    >>> counted(1, "round"), counted(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def listed(names: Sequence[object]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *most, last = map(str, names)
    return f"{', '.join(most)} and {last}" if most else last
