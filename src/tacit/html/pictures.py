"""The pictures of documents, as inline SVG: a graph, a gauge, a budget over time, ranges. Colours are in style.css."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from tacit.html import picture, shortened
from tacit.html.markup import Markup, tag
from tacit.html.words import moment

Scale = Callable[[float], float]
MOST_MEMBERS = 60  # more cannot be told apart
_WORDS_BESIDE = 12  # up to so many names stand upright beside their nodes; more are turned


def graph(
    names: Sequence[str], edges: Sequence[Sequence[int]], away: Collection[str] = (), own: str | None = None
) -> Markup:
    """The members on a circle, and a line for each pair that talked. `away` are members that dropped out."""
    n = len(names)
    upright = n <= _WORDS_BESIDE
    radius = 105 if upright else 150
    half_width, half_height = (300, radius + 34) if upright else (radius + 120, radius + 120)
    at = [
        (
            half_width + radius * math.sin(2 * math.pi * k / n),
            half_height - radius * math.cos(2 * math.pi * k / n),
        )
        for k in range(n)
    ]
    drawn = [
        tag(
            "line",
            x1=f"{at[a][0]:.1f}",
            y1=f"{at[a][1]:.1f}",
            x2=f"{at[b][0]:.1f}",
            y2=f"{at[b][1]:.1f}",
            class_="edge",
        )
        for a, b in edges
    ]
    for k, (name, (x, y)) in enumerate(zip(names, at, strict=True)):
        kind = "node away" if name in away else "node own" if name == own else "node"
        drawn.append(
            tag("circle", tag("title", name), cx=f"{x:.1f}", cy=f"{y:.1f}", r=9 if upright else 6, class_=kind)
        )
        angle = 360 * k / n
        drawn.append(_beside(name, x, y, angle) if upright else _turned(name, x, y, angle))
    title = f"{n} members, {len(edges)} pairs of them talk to each other"
    return picture(title, 2 * half_width, 2 * half_height, *drawn)


def _beside(name: str, x: float, y: float, angle: float) -> Markup:
    """A name next to its node, outside the circle."""
    across, up = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    if abs(across) < 0.1:
        place = {"x": f"{x:.1f}", "y": f"{y - 18 * up + 6:.1f}", "text_anchor": "middle"}
    else:
        side = 1 if across > 0 else -1
        place = {"x": f"{x + 17 * side:.1f}", "y": f"{y + 6:.1f}", "text_anchor": "start" if side > 0 else "end"}
    return tag("text", shortened(name, 20), **place, font_size=17)


def _turned(name: str, x: float, y: float, angle: float) -> Markup:
    """A name that goes on in the direction from the middle to its node."""
    right = angle <= 180
    turn = f"rotate({angle - 90 if right else angle + 90:.1f} {x:.1f} {y:.1f})"
    place = {"x": f"{x + (12 if right else -12):.1f}", "y": f"{y + 5:.1f}", "text_anchor": "start" if right else "end"}
    return tag("text", shortened(name, 13), **place, transform=turn, font_size=13)


def gauge(spent: float, cap: float, title: str) -> Markup:
    """A bar that is full when the cap is reached."""
    share = min(1.0, spent / cap) if cap > 0 else 1.0
    kind = "fill full" if share > 0.9 else "fill high" if share > 0.6 else "fill"
    drawn = [tag("rect", x=0, y=4, width=600, height=22, rx=11, class_="track")]
    if spent > 0:
        drawn.append(tag("rect", x=0, y=4, width=f"{max(22.0, 600 * share):.1f}", height=22, rx=11, class_=kind))
    return picture(title, 600, 30, *drawn, class_="wide")


class Step(NamedTuple):
    """From some moment on, a value."""

    when: str
    value: float


def budget_over_time(spent: Sequence[Step], caps: Sequence[Step]) -> Markup:
    """What was spent as a line of steps, and the caps that were in force. Empty if nothing has happened yet."""
    moments = _places([step.when for step in (*caps, *spent)])
    if not moments:
        return Markup("")
    left, right, top, bottom = 56, 620, 14, 190
    highest = max([step.value for step in (*spent, *caps)] + [1e-9]) * 1.12
    last = max(moments) or 1.0

    def x(place: float) -> float:
        return left + (right - left) * place / (1.04 * last)

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / highest

    drawn = [tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis")]
    for value in _ticks(highest):
        drawn.append(tag("line", x1=left, x2=right, y1=f"{y(value):.1f}", y2=f"{y(value):.1f}", class_="axis"))
        text = {"x": left - 8, "y": f"{y(value) + 5:.1f}", "text_anchor": "end", "font_size": 14, "class_": "faint"}
        drawn.append(tag("text", f"{value:g}", **text))
    both = [("cap", caps, moments[: len(caps)], None), ("spent", spent, moments[len(caps) :], 0.0)]
    for kind, steps, places, start in both:
        if steps:
            drawn.append(tag("path", d=_staircase(steps, places, x, y, start, 1.04 * last), class_=kind))
    first, end = (f(zip(moments, (s.when for s in (*caps, *spent)), strict=True))[1] for f in (min, max))
    drawn += [
        tag("text", moment(first)[:10], x=left, y=bottom + 22, font_size=14, class_="faint"),
        tag("text", moment(end)[:10], x=right, y=bottom + 22, text_anchor="end", font_size=14, class_="faint"),
    ]
    return picture("what was spent over time, below the cap", 640, 218, *drawn, class_="wide")


def _staircase(
    steps: Sequence[Step], places: Sequence[float], x: Scale, y: Scale, start: float | None, end: float
) -> str:
    """The path of a value that stays until the next step.

    steps, places : the values, and where on the axis of time each begins
    x, y : from places and values to the picture
    start, end : the value before the first step, if there is one, and where the axis of time ends
    """
    before = f"M{x(0):.1f},{y(start):.1f} " if start is not None else f"M{x(places[0]):.1f},{y(steps[0].value):.1f} "
    moves = [f"H{x(place):.1f} V{y(step.value):.1f}" for step, place in zip(steps, places, strict=True)]
    return before + " ".join([*moves, f"H{x(end):.1f}"])


def _places(moments: Sequence[str]) -> list[float]:
    """Seconds after the first moment; or if they cannot be read, or are all the same, their order."""
    try:
        seconds = [datetime.fromisoformat(each).timestamp() for each in moments]
    except ValueError:
        seconds = []
    if len(set(seconds)) < 2:
        return [float(k) for k in range(len(moments))]
    return [each - min(seconds) for each in seconds]


def _ticks(highest: float) -> list[float]:
    """Two to five round numbers up to the highest.

    >>> _ticks(2.24), _ticks(0.9)
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 0.2, 0.4, 0.6, 0.8])
    """
    unit = 10 ** math.floor(math.log10(highest))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1, 2, 5) if highest / (unit * part) < 5.5)
    return [round(k * step, 12) for k in range(int(highest / step) + 1)]


class Range(NamedTuple):
    """A mean, and from where to where the values go. `kind` is best, other, or empty."""

    name: str
    mean: float
    low: float
    high: float
    kind: str = ""


def ranges(lines: Sequence[Range], axis: str) -> Markup:
    """A dot for each mean, on a line from the least to the largest value."""
    low, high = min(each.low for each in lines), max(each.high for each in lines)
    left, right, step = 190, 600, 26
    margin = 0.04 * ((high - low) or abs(high) or 1.0)
    low, high = low - margin, high + margin

    def x(value: float) -> str:
        return f"{left + (right - left) * (value - low) / (high - low):.1f}"

    drawn, bottom = [], step * len(lines) + 6
    for value in _between(low, high):
        drawn.append(tag("line", x1=x(value), x2=x(value), y1=4, y2=bottom, class_="axis"))
        text = {"x": x(value), "y": bottom + 18, "text_anchor": "middle", "font_size": 13, "class_": "faint"}
        drawn.append(tag("text", f"{value:g}", **text))
    for k, each in enumerate(lines):
        y = step * k + 18
        parts = [
            tag("text", shortened(each.name, 22), x=left - 12, y=y + 5, text_anchor="end", font_size=15),
            tag("line", x1=x(each.low), x2=x(each.high), y1=y, y2=y, class_="range"),
            tag("circle", cx=x(each.mean), cy=y, r=5, class_="dot"),
        ]
        drawn.append(tag("g", *parts, class_=each.kind or None))
    drawn.append(
        tag("text", axis, x=(left + right) / 2, y=bottom + 38, text_anchor="middle", font_size=13, class_="faint")
    )
    return picture(axis, 640, bottom + 46, *drawn, class_="wide")


def _between(low: float, high: float) -> list[float]:
    """Some round numbers between the two."""
    step = 10 ** math.floor(math.log10(high - low))
    step *= next(part for part in (0.2, 0.5, 1) if (high - low) / (step * part) < 6 or part == 1)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
