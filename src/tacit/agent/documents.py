"""JSON documents that others have written, such as reports and certificates: read strictly, checked field by field.

A document has exactly the fields that its shape names. Everything that is wrong is a `Fault`, which names the field, so
that a reader learns of all faults at once. A file that is no document at all is refused in one line (`InputError`).

A shape is one of these:

- a dict: an object with exactly these fields;
- a list of one shape: an array of any length;
- `Named(shape)`: an object whose fields have names of the writer's choice;
- a `Kind`: a value that passes a test.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tacit.data.text import read_text
from tacit.errors import InputError

LARGEST = 2**28  # bytes: the reports of a hundred members with ten thousand releases each have fewer
_DEEPEST = 24  # no document of ours is nested so deeply
_SHOWN = 80  # characters of a value that a fault repeats


class Fault(NamedTuple):
    """Something in a document that is not as it must be: in which field, and what is wrong with it."""

    where: str  # names and places on the way to the field, with dots between: reports.alder.releases.3.sha256
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Kind(NamedTuple):
    """A value that is no object and no array."""

    what: str
    fits: Callable[[Any], bool]


class Named(NamedTuple):
    """An object with any names, each with a value of the same shape."""

    each: Any


def decoded(text: Any) -> bytes | None:
    """The bytes of a base64 text, if it is written in the one usual way."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, TypeError, NotBase64):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def is_time(text: Any) -> bool:
    """Whether a text is a time in UTC, in whole seconds, written in the one usual way.

    >>> is_time("2026-11-17T12:00:00+00:00"), is_time("2026-11-17")
    (True, False)
    """
    try:
        return bool(datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="seconds") == text)
    except (TypeError, ValueError, OverflowError):
        return False


ANY = Kind("anything", lambda value: True)  # where the value itself is checked later
TEXT = Kind("a text", lambda value: isinstance(value, str))
COUNT = Kind("a whole number, 0 or more", lambda value: type(value) is int and 0 <= value < 2**53)
TRUTH = Kind("true or false", lambda value: type(value) is bool)
LENGTH = Kind("a positive number", lambda value: type(value) in (int, float) and 0 < value <= sys.float_info.max)
TIME = Kind("a time in UTC such as 2026-11-17T12:00:00+00:00", is_time)
BASE64 = Kind("bytes in base64", lambda value: isinstance(value, str) and decoded(value) is not None)
# A digest of one repeated digit stands for nothing: nobody finds bytes that have it.
DIGEST = Kind(
    "a SHA-256 (64 hexadecimal digits, not all the same)",
    lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value)) and len(set(value)) > 1,
)


def read(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file. Refuses a file that is not JSON, or that readers could understand in two ways."""
    if path.is_file() and path.stat().st_size > LARGEST:
        raise InputError(f"{path} is not {what}: it has more than {LARGEST:,} bytes")
    text = read_text(path)
    try:
        plain = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not {what}: it is not JSON (line {error.lineno})") from None
    except RecursionError:
        raise InputError(f"{path} is not {what}: it is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} is not {what}: {error}") from None
    if not isinstance(plain, dict):
        raise InputError(f"{path} is not {what}: it has no named fields")
    if not _shallow(plain):
        raise InputError(f"{path} is not {what}: it is nested too deeply")
    return plain


def misfits(value: Any, shape: Any, where: str = "") -> list[Fault]:
    """Where a value does not have a shape.

    >>> misfits({"a": [1, "x"], "c": 0}, {"a": [COUNT], "b": TEXT})
    [Fault(where='b', what='is missing'), Fault(where='c', what='is no field of this document'), \
Fault(where='a.1', what="must be a whole number, 0 or more, not 'x'")]
    """
    if isinstance(shape, Kind):
        return [] if shape.fits(value) else [Fault(where, f"must be {shape.what}, not {shown(value)}")]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [Fault(where, f"must be a list, not {shown(value)}")]
        return [fault for k, each in enumerate(value) for fault in misfits(each, shape[0], inside(where, k))]
    if not isinstance(value, dict):
        return [Fault(where, f"must be an object with named fields, not {shown(value)}")]
    if isinstance(shape, Named):
        return [fault for key, each in value.items() for fault in misfits(each, shape.each, inside(where, key))]
    found = [Fault(inside(where, key), "is missing") for key in shape if key not in value]
    found += [Fault(inside(where, key), "is no field of this document") for key in value if key not in shape]
    common = (key for key in shape if key in value)
    return found + [fault for key in common for fault in misfits(value[key], shape[key], inside(where, key))]


def differences(claimed: Any, right: Any, where: str, why: str) -> list[Fault]:
    """Every field in which a document claims something else than what is right; `why` says where that comes from.

    >>> [str(fault) for fault in differences({"a": True, "b": 2}, {"a": 1, "b": 2.0}, "x", "by the file")]
    ['x.a: claims that a is True; by the file it is 1']
    """
    if isinstance(right, dict) and isinstance(claimed, dict):
        found = misfits(claimed, dict.fromkeys(right, ANY), where)
        common = (key for key in right if key in claimed)
        return found + [f for key in common for f in differences(claimed[key], right[key], inside(where, key), why)]
    if isinstance(right, list) and isinstance(claimed, list) and len(right) == len(claimed):
        pairs = enumerate(zip(claimed, right, strict=True))
        return [fault for k, (a, b) in pairs for fault in differences(a, b, inside(where, k), why)]
    numbers = type(claimed) in (int, float) and type(right) in (int, float)  # 2 and 2.0 are the same number
    if claimed == right and (numbers or type(claimed) is type(right)):
        return []
    name = where.rsplit(".", 1)[-1]
    return [Fault(where, f"claims that {name} is {shown(claimed)}; {why} it is {shown(right)}")]


def inside(where: str, field: object) -> str:
    """The name of a field of this part of a document. A name that somebody else chose is shown like a value."""
    plain = isinstance(field, int) or re.fullmatch(r"[\w -]{1,80}", str(field), re.ASCII)
    name = str(field) if plain else shown(field)
    return f"{where}.{name}" if where else name


def under(name: str, faults: Iterable[Fault]) -> list[Fault]:
    """The faults of a part of a document, as faults of the whole."""
    return [Fault(".".join(filter(None, (name, fault.where))), fault.what) for fault in faults]


def shown(value: Any) -> str:
    """A value for a message: on one line, not too long, with nothing that a terminal would obey."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def printable(error: Exception) -> str:
    """What an error says, in the same way: it may repeat what somebody else wrote."""
    text = " ".join(str(error).split())
    return text if text.isprintable() and len(text) <= 5 * _SHOWN else ascii(text[: 5 * _SHOWN])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object in it has the field {shown(twice)} twice")
    return made


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number that JSON has")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return number


def _shallow(plain: Any) -> bool:
    level = [plain]
    for _ in range(_DEEPEST):
        level = [each for one in level if isinstance(one, dict | list) for each in _within(one)]
        if not level:
            return True
    return False


def _within(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one
