"""HTML and SVG from plain data. Text is escaped unless it is `Markup`: to forget that a text is HTML does no harm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from markupsafe import Markup, escape

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. Attributes that are None are left out; `_` stands for `-`, and at the end for nothing.

    >>> print(tag("td", "a < b", tag("b", 1), class_="number", data_of=None))
    <td class="number">a &lt; b<b>1</b></td>
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{joined(inside)}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """The parts one after the other."""
    return Markup(between).join(map(escape, parts))
