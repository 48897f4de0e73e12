"""The frame of a document that stands alone in one file: its head, style and sections, and all its numbers as JSON.

A document needs no network and runs no script; its security policy allows neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit.html import table
from tacit.html.markup import Markup, data_block, joined, markup, tag

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, kind: str, plain: dict[str, Any], *sections: Markup) -> str:
    """A whole file. `kind` says what it is a report of; `plain` is the data that all of it is made of."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title} – {kind}"),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        tag("header", tag("h1", title), tag("p", _subtitle(kind, plain), class_="soft")),
        joined(("\n", *sections), "\n"),
        tag("footer", "All numbers of this page are in it as JSON, too (the element with the id “data”)."),
        data_block(plain),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _subtitle(kind: str, plain: dict[str, Any]) -> str:
    """What, when and by which program."""
    when = f", written on {moment(plain['written'])}" if plain.get("written") else ""
    return f"{kind}{when}{f' by tacit {by}' if (by := plain.get('tacit')) else ''}"


def written() -> dict[str, str]:
    """By which version a document was written, and when."""
    return {"tacit": __version__, "written": datetime.now(UTC).isoformat(timespec="seconds")}


def section(title: str, *parts: object) -> Markup:
    """A heading, and what belongs below it; plain text becomes a paragraph."""
    return tag("section", tag("h2", title), "\n", joined(map(_block, parts), "\n"))


def box(kind: str, *parts: object) -> Markup:
    """Something to be seen first: `kind` is good, warning or bad."""
    return tag("div", joined(map(_block, parts), "\n"), class_=f"box {kind}")


def _block(part: object) -> Markup:
    return part if isinstance(part, Markup) else tag("p", part)


def bullets(items: Iterable[object]) -> Markup:
    """An unordered list of these items."""
    return tag("ul", "\n", joined((tag("li", item) for item in items), "\n"), "\n")


def commands(lines: Iterable[str]) -> Markup:
    """A block of commands to paste into a shell."""
    return tag("pre", "\n".join(lines))


def rows(head: Sequence[str], lines: Iterable[Sequence[object]]) -> Markup:
    """A table that scrolls in its own box where the page is narrow."""
    return tag("div", table(head, lines), class_="scroll")


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """A table of names and values; those that are None are left out."""
    lines = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs if value is not None]
    return tag("div", tag("table", joined(lines, "\n")), class_="scroll")


def figure(picture: Markup, caption: str) -> Markup:
    """A picture with a line below it."""
    return tag("figure", picture, tag("figcaption", caption))


def shown(path: str, text: object) -> Markup:
    """A number of the data, as text: `path` says where it stands in the JSON, so that a test can compare the two."""
    return tag("span", text, data_of=path)


def sentence(*parts: object) -> Markup:
    """A paragraph of text and numbers."""
    return tag("p", *map(markup, parts))


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
