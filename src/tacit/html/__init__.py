"""Results as HTML: small tables and inline SVG for notebooks, and the parts of documents. Everything is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tacit.html.markup import Markup, joined, tag

_BLUE, _RED, _GREY = "#4a7ab5", "#b5564a", "#8899aa"
_MOST = 400  # points of a line: more cannot be seen


def card(title: str, facts: Iterable[tuple[str, object]], *pictures: str) -> Markup:
    """A title, a table of facts, and pictures.

    >>> print(card("Run", [("agents", 3)]))
    <div><strong>Run</strong><table><tr><th>agents</th><td>3</td></tr></table></div>
    """
    rows = (tag("tr", tag("th", name), tag("td", value)) for name, value in facts)
    return tag("div", tag("strong", title), tag("table", *rows), *pictures)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table with a line of heads, and one line of text for each row. Whole numbers get commas."""
    lines = [tag("tr", *(tag("th", name, scope="col") for name in head))]
    lines += [tag("tr", *map(_cell, row)) for row in rows]
    return tag("table", joined(lines, "\n"))


def _cell(value: object) -> Markup:
    if isinstance(value, int | float):
        return tag("td", f"{value:,}" if isinstance(value, int) else f"{value:g}")
    return tag("td", value)


def line(title: str, values: Sequence[float]) -> Markup:
    """A line through the values that are finite, on a logarithmic scale where all are positive; empty for fewer than
    two of them."""
    points = [(k, float(v)) for k, v in enumerate(values) if math.isfinite(v)]
    points = points[:: -(-len(points) // _MOST)] if points else []
    if len(points) < 2:
        return Markup("")
    logarithmic = all(v > 0 for _, v in points)
    heights = [math.log(v) if logarithmic else v for _, v in points]
    low, high, last = min(heights), max(heights), points[-1][0]
    across = [
        (4 + 292 * k / last, 52 - 44 * (h - low) / ((high - low) or 1))
        for (k, _), h in zip(points, heights, strict=True)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in across)
    ends = f"{title}: {points[0][1]:.4g} to {points[-1][1]:.4g}{', logarithmic' if logarithmic else ''}"
    return picture(
        ends,
        300,
        76,
        tag("polyline", points=path, fill="none", stroke=_BLUE, stroke_width="1.5"),
        tag("text", ends, x=4, y=70, font_size=11, fill=_GREY),
    )


def bars(names: Sequence[str], values: Sequence[float]) -> Markup:
    """A horizontal bar for each value, to the left if it is negative.

    >>> bars(["a<b"], [2.0]).count("a&lt;b")
    1
    """
    longest = max((abs(v) for v in values), default=0.0) or 1.0
    left = any(v < 0 for v in values)
    zero, room = (250, 70) if left else (180, 140)
    drawn = []
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        length, top = room * abs(value) / longest, 18 * k
        start = zero - length if value < 0 else zero
        shown, colour = shortened(name, 24), _RED if value < 0 else _BLUE
        drawn += [
            tag("text", shown, x=0, y=top + 13, font_size=12, fill="currentColor"),
            tag("rect", x=f"{start:.1f}", y=top + 3, width=f"{length:.1f}", height=12, fill=colour),
            tag("text", f"{value:.4g}", x=330, y=top + 13, font_size=11, fill=_GREY),
        ]
    return picture(None, 390, 18 * len(values), *drawn)


def picture(title: str | None, width: float, height: float, *drawn: Markup, class_: str | None = None) -> Markup:
    """An inline SVG with a title for those who cannot see it; it shrinks where there is less room."""
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    named = [] if title is None else [tag("title", title)]
    return tag("svg", *named, *drawn, xmlns="http://www.w3.org/2000/svg", **size, role="img", class_=class_)


def shortened(text: str, most: int) -> str:
    """At most so many characters.

    >>> shortened("cardiology", 6)
    'cardi…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
