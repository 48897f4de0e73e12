"""Small pictures of results, for notebooks: tables and inline SVG, made of plain data. Everything is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

_BLUE, _RED, _GREY = "#4a7ab5", "#b5564a", "#8899aa"
_MOST = 400  # points of a line: more cannot be seen


def card(title: str, facts: Iterable[tuple[str, object]], *pictures: str) -> str:
    """A title, a table of facts, and pictures.

    >>> card("Run", [("agents", 3)])
    '<div><strong>Run</strong><table><tr><th>agents</th><td>3</td></tr></table></div>'
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts)
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table>{''.join(pictures)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line of heads."""
    lines = [[f"<th>{escape(name)}</th>" for name in head]]
    lines += [[f"<td>{escape(str(value))}</td>" for value in row] for row in rows]
    return "<table>" + "".join(f"<tr>{''.join(cells)}</tr>" for cells in lines) + "</table>"


def line(title: str, values: Sequence[float]) -> str:
    """A line through the values that are finite, on a logarithmic scale where all are positive; empty for fewer than
    two of them."""
    points = [(k, float(v)) for k, v in enumerate(values) if math.isfinite(v)]
    points = points[:: -(-len(points) // _MOST)] if points else []
    if len(points) < 2:
        return ""
    logarithmic = all(v > 0 for _, v in points)
    heights = [math.log(v) if logarithmic else v for _, v in points]
    low, high, last = min(heights), max(heights), points[-1][0]
    across = [
        (4 + 292 * k / last, 52 - 44 * (h - low) / ((high - low) or 1))
        for (k, _), h in zip(points, heights, strict=True)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in across)
    ends = f"{escape(title)}: {points[0][1]:.4g} to {points[-1][1]:.4g}{', logarithmic' if logarithmic else ''}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="76" role="img"><title>{ends}</title>'
        f'<polyline points="{path}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>'
        f'<text x="4" y="70" font-size="11" fill="{_GREY}">{ends}</text></svg>'
    )


def bars(names: Sequence[str], values: Sequence[float]) -> str:
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
        shown = escape(name if len(name) <= 24 else name[:23] + "…")
        drawn.append(
            f'<text x="0" y="{top + 13}" font-size="12">{shown}</text>'
            f'<rect x="{start:.1f}" y="{top + 3}" width="{length:.1f}" height="12" '
            f'fill="{_RED if value < 0 else _BLUE}"/>'
            f'<text x="330" y="{top + 13}" font-size="11" fill="{_GREY}">{value:.4g}</text>'
        )
    size = f'width="390" height="{18 * len(drawn)}" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(drawn)}</svg>'
