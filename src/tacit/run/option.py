"""Fields that a person can set: each carries the text that explains it, so the command line has an option for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from tacit.errors import InputError


def check_types(made: Any, **types: tuple[type, ...]) -> None:
    """Refuses fields of other types than these, which a program may give."""
    for name, right in types.items():
        if not isinstance(value := getattr(made, name), right):
            raise InputError(f"{name} is a {right[0].__name__}, not {value!r}")


def option(
    default: Any,
    text: str,
    *,
    name: str | None = None,
    metavar: str | None = None,
    parser: Callable[[str], Any] | None = None,
) -> Any:
    """A field of a dataclass that can be set.

    default, text : its default, and what it means
    name : of the option, where it is not that of the field
    metavar, parser : what a person writes, and how it is read, where that is no plain text or number
    """
    return field(default=default, metadata={"help": text, "name": name, "metavar": metavar, "parser": parser})
