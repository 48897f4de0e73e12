"""The pages of the reference that are made from the program itself whenever the site is built: commands and modules.

python tools/reference.py out/reference    # the pages as files, to look at; `make docs` needs no such call
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tacit.cli import COMMANDS, load

ROOT = Path(__file__).resolve().parent.parent
COMMAND_LINE, PYTHON = "reference/command-line", "reference/python"  # folders of the site
_KINDS = {bool: "flag", float: "number", int: "whole number", str: "text", Path: "path"}


def pages() -> dict[str, str]:
    """The text of every page by its path in the site."""
    return dict(command_line()) | dict(python())


def command_line() -> Iterator[tuple[str, str]]:
    """A page for each command of `tacit`; a group has all its commands on one page."""
    for name in COMMANDS:
        yield f"{COMMAND_LINE}/{name}.md", "\n".join(_command(f"tacit {name}", load(name), 1))


def python() -> Iterator[tuple[str, str]]:
    """A page for each public module: those that docs/stability.md lists. mkdocstrings puts in the docstrings."""
    for module in public_modules():
        yield f"{PYTHON}/{module}.md", f"::: {module}\n"


def public_modules() -> list[str]:
    """The modules in the first table of docs/stability.md."""
    text = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(tacit[\w.]*)` \|", text, flags=re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """The docstring as Markdown: each block of examples (>>>) between fences, and a blank line before a list."""
    docstring = re.sub(r"^(?![-*] )(\S.*\n)(?=- |1\. )", r"\1\n", docstring, flags=re.MULTILINE)
    return re.sub(r"^>>> .+(?:\n.+)*", "```pycon\n\\g<0>\n```", docstring, flags=re.MULTILINE)


def _command(called: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {called}\n"
    about, examples = _examples(command.help or "")
    yield f"{about}\n"
    shown = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    kinds = get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    commands = getattr(command, "commands", None)
    words = [each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments]
    usage = [called, *words, *(["[OPTIONS]"] if options else []), *(["COMMAND"] if commands else [])]
    yield f"```text title='Usage'\n{' '.join(usage)}\n```\n"
    if examples:
        yield "```sh title='Examples'\n" + "\n".join(examples) + "\n```\n"
    for title, some in (("Arguments", arguments), ("Options", options)):
        if some:
            yield f"**{title}**\n"
            for each in some:
                yield from _parameter(each, kinds[each.name])
    for name, inner in (commands or {}).items():
        yield from _command(f"{called} {name}", inner, level + 1)


def _examples(text: str) -> tuple[str, list[str]]:
    """The help of a command without its paragraphs "Example: `...`", and the commands in these."""
    paragraphs = text.split("\n\n")
    examples = [each for each in paragraphs if each.startswith("Example: ")]
    about = "\n\n".join(each for each in paragraphs if each not in examples)
    return _escaped(about), [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", "\n".join(examples))]


def _parameter(parameter: Any, kind: Any) -> Iterator[str]:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.name.upper()}`"
    else:
        names = " / ".join(f"`{each}`{{.option}}" for each in (*parameter.opts, *parameter.secondary_opts))
        name = names if parameter.is_flag else f"{names} *{_kind(kind)}*"
    notes = []
    if parameter.required:
        notes.append("Required.")
    if (default := _default(parameter)) is not None:
        notes.append(f"Default: {default}.")
    yield f"{name}\n:   {' '.join([_escaped(' '.join((parameter.help or '').split())), *notes])}\n"


def _kind(hint: Any) -> str:
    """The kind of a value in a word: number, text, path."""
    if isinstance(hint, type) and hint in _KINDS:
        return _KINDS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(str(each.value) for each in hint)
    (inner,) = (each for each in get_args(hint) if each is not type(None))  # X | None, list[X]
    return _kind(inner)


def _default(parameter: Any) -> str | None:
    """What the help of the command shows as the default value, if anything."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if not parameter.show_default or value in (None, "") or getattr(parameter, "is_flag", False):
        return None
    return f"`{getattr(value, 'value', value)}`"


def _escaped(text: str) -> str:
    """Help as Markdown: the command line shows brackets as they are, and options need no mark there."""
    parts = text.split("`")  # every other one is code
    for k in range(0, len(parts), 2):
        plain = parts[k].replace("<", "&lt;").replace("[", r"\[")
        parts[k] = re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`{.option}", plain)
    return "`".join(parts)


if __name__ == "__main__":
    for path, text in pages().items():
        file = Path(sys.argv[1]) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
