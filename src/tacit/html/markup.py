"""HTML and SVG from plain data. Text is escaped unless it is `Markup`: to forget that a text is HTML does no harm."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from html import escape
from typing import Any

_VOID = {"meta", "link", "br"}  # elements without an end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def markup(thing: object) -> Markup:
    """HTML as it is, everything else escaped.

    >>> markup("a < b")
    'a &lt; b'
    """
    return thing if isinstance(thing, Markup) else Markup(escape(str(thing)))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. Attributes that are None are left out; `_` stands for `-`, and at the end for nothing.

    >>> tag("td", "a < b", tag("br"), class_="number", data_of=None)
    '<td class="number">a &lt; b<br/></td>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{joined(inside)}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """The parts one after the other."""
    return Markup(between.join(map(markup, parts)))


def data_block(plain: Any) -> Markup:
    """JSON inside a document. No text in it can end the block, or begin a comment.

    >>> data_block({"name": "</script>"})
    '<script type="application/json" id="data">{"name": "\\\\u003c/script\\\\u003e"}</script>'
    """
    text = json.dumps(_finite(plain), allow_nan=False)  # ASCII alone
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json" id="data">{text}</script>')


def _finite(plain: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
