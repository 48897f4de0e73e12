"""Options in groups: a command that asks for a `Budget` or a `Trust` has an option for each of its fields.

    @expanded
    def train(file: File, asked: Request, out: Path = ...) -> None: ...

A dataclass in the signature is a group. Its fields become options, with the help texts that stand beside them
(`tacit.run.option`), or as `Annotated` says; a field that is a dataclass is a group itself. A group that may be left
out (`Budget | None`) is there if its first option is given; the others are refused without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from typer import Argument, BadParameter, Option

from tacit.data.hints import about_number
from tacit.errors import InputError


class Without:
    """Fields of a group that a command has no option for: `Annotated[Request, Without("method")]`."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Positional:
    """A field of a group that is an argument of the command: `Annotated[Request, Positional("method")]`."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Group(NamedTuple):
    """A dataclass that options fill in."""

    kind: Any
    optional: bool  # whether it is left out where its first option is not given
    members: dict[str, str | _Group]  # by field: the parameter of the command, or a group

    def made(self, given: dict[str, Any]) -> Any:
        values: dict[str, Any] = {}
        for field, member in self.members.items():
            value = member.made(given) if isinstance(member, _Group) else given.pop(member)
            if isinstance(member, _Group) or value is not None:
                values[field] = value
        first = next(iter(self.members))
        if not self.optional or first in values:
            return self.kind(**values)
        for field in values:
            flag, needed = _flag(self.members[field]), _flag(self.members[first])
            raise InputError(f"{flag} is for a run with {needed}: give {needed}, too, or leave it out")
        return None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of the groups in its signature."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, _Group] = {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if (kind := _dataclass(hints[name])) is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))
        else:
            start = None if parameter.default is inspect.Parameter.empty else parameter.default
            groups[name] = _group(*kind, start, parameters)

    usual = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}

    def with_options(*first: Any, **given: Any) -> None:  # programs call it with some of the options, in their order
        given = usual | dict(zip((each.name for each in parameters), first, strict=False)) | given
        made = {name: group.made(given) for name, group in groups.items()}
        command(**given, **made)

    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def _dataclass(hint: Any) -> tuple[Any, bool, list[Any]] | None:
    """The dataclass that a type hint names, whether it is optional, and what is said besides; None for anything
    else."""
    extras: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = [kind for kind in kinds if kind is not NoneType]
    if len(plain) != 1 or not (isinstance(plain[0], type) and is_dataclass(plain[0])):
        return None
    return plain[0], len(kinds) > 1, extras


def _group(kind: Any, optional: bool, extras: list[Any], start: Any, parameters: list[inspect.Parameter]) -> _Group:
    """Adds an option for each field; `start` has the defaults of the command, if they are others."""
    leave = {name for extra in extras if isinstance(extra, Without) for name in extra.names}
    places = {extra.name for extra in extras if isinstance(extra, Positional)}
    hints, members = get_type_hints(kind, include_extras=True), dict[str, Any]()
    for field in fields(kind):
        hint = hints[field.name]
        told = get_origin(hint) is Annotated or "help" in field.metadata
        inner = None if told else _dataclass(hint)
        if field.name in leave or not (told or inner):  # it is no option
            continue
        if inner is not None:
            members[field.name] = _group(*inner, None if start is None else getattr(start, field.name), parameters)
            continue
        members[field.name] = name = (field.metadata.get("name") or field.name).removeprefix("--").replace("-", "_")
        default = None if optional else inspect.Parameter.empty if field.default is MISSING else field.default
        default = default if start is None else getattr(start, field.name)
        if get_origin(hint) is tuple:  # an option that may be repeated
            hint, default = list[get_args(hint)[0]], default or None  # type: ignore[misc]
        argument = field.name in places
        annotation = hint if get_origin(hint) is Annotated else _annotated(field, hint, default, argument)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return _Group(kind, optional, members)


def _annotated(field: Field[Any], hint: Any, default: Any, argument: bool) -> Any:
    """With its help text. A number knows the decimal comma."""
    told, kinds = field.metadata, [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    more: dict[str, Any] = {"help": told["help"], "show_default": default is not None}
    if told["metavar"] or kinds == [float]:
        more["metavar"] = told["metavar"] or "FLOAT"
    if told["parser"] or kinds == [float]:
        more["parser"] = told["parser"] or decimal
    hint = str if told["parser"] else hint
    if default is None and NoneType not in get_args(hint):
        hint |= None
    if argument:
        return Annotated[hint, Argument(**more | {"metavar": field.name.upper()})]
    return Annotated[hint, Option(told["name"], **more) if told["name"] else Option(**more)]


def decimal(text: str) -> float:
    """A number, or an error that knows the decimal comma."""
    try:
        return float(text)
    except ValueError:
        advice = "write a number such as 0.5"
        advice = about_number(text, advice) if text.strip() else advice  # nothing is missing: it is no cell
        raise BadParameter(f"{text!r}: {advice}") from None


def _flag(member: Any) -> str:
    return f"--{str(member).replace('_', '-')}"
