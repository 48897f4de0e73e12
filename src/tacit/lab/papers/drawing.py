"""A paper's figure as a picture, PNG and SVG."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.report import canvas  # first: it tells what to install where matplotlib is missing

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # isort: skip

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.lab.papers.experiment import Panel, PaperFigure, Series

# The colour of every method of the papers, the same in all figures: variants of a method differ in their line style.
# Those of paper 000 are the paper's own: green for ADMM without noise, black for private ADMM, blue, red and magenta.
# `Series.method`, a label, or a part of a label between commas, is one of these names. Other curves have colours of a
# cycle, each the one that is least like those already in the legend.
COLOURS = {
    "black": "#000000",
    "ADMM": "#2ca02c",
    "ADMM, not private": "#2ca02c",
    "DVP": "#000000",
    "ADMM (DVP)": "#000000",
    "DVP as printed": "#000000",
    "M-ADMM": "#1f4fd8",
    "R-ADMM": "#e31a1c",
    "MR-ADMM": "#e000e0",
    "PVP": "#e08000",
    "AccADMM": "#8a8a8a",
    "DP-ADMM": "#1f4fd8",
    "DP-AccADMM": "#e31a1c",
    "I-ADMM": "#000000",
    "PI-ADMM1": "#2ca02c",
    "PI-ADMM2": "#e31a1c",
    "W-ADMM": "#1f4fd8",
    "IPW-ADMM": "#9467bd",
    "COCA": "#e08000",
    "Algorithm 1": "#2ca02c",
    "Algorithm 2": "#e31a1c",
    "gradient descent": "#e31a1c",
    "output perturbation": "#e08000",
}
_CYCLE = (
    "#1f4fd8", "#e08000", "#2ca02c", "#e31a1c", "#56c5e8", "#7a3b10", "#9467bd", "#e000e0", "#8a8a8a", "#c0b000",
)  # fmt: skip
_LINES = ("-", "--", ":", "-.")
_LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 4.0}  # as long as it takes to tell -- from -.


def paper_figure(shown: PaperFigure, *paths: str | os.PathLike[str], note: str = "") -> None:
    """The panels of a paper's figure, as PNG or SVG by the ending of each path; `note` goes below the title."""
    figure = panels_of(shown, note)
    for path in paths:
        if Path(path).suffix == ".svg":
            canvas.save_svg(figure, path)
        else:
            canvas.save(figure, path, dpi=100 if len(shown.panels) <= 6 else 85)  # small enough for a page
        figure.set_layout_engine("none")  # the next picture has the same layout, which takes longer than the drawing


def panels_of(shown: PaperFigure, note: str = "") -> Figure:
    """The panels of a paper's figure: the mean as a line, the range over runs as a band.

    If most names appear in several panels, each name looks the same in all of them, and there is one legend for all.
    Legends stand beside the curves, not on them.
    """
    columns = {1: 1, 2: 2, 4: 2, 8: 4}.get(len(shown.panels), 3)
    rows = math.ceil(len(shown.panels) / columns)
    names = Counter(s.label for panel in shown.panels for s in panel.series)
    shared = sum(count > 1 for count in names.values()) > len(names) / 2
    beside = (0.0, 2.6) if shared else (1.7, 0.0)  # inches that legends take: of each column, of the figure
    width, height = (3.8 + beside[0]) * columns + 0.6 + beside[1], 3.2 * rows + 0.9
    figure = canvas.figure(width, height, shown.title + (f"\n{note}" if note else ""))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    every = looks([s for panel in shown.panels for s in panel.series])
    for axes, panel in zip(grid, shown.panels, strict=False):
        _draw(axes, panel, every if shared else looks(panel.series))
        if not shared:
            axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), **_LEGEND)
    for axes in grid[len(shown.panels) :]:
        axes.set_axis_off()
    if shared:
        lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
        figure.legend(lines.values(), lines.keys(), loc="outside right upper", fontsize=8, **_LEGEND)
    return figure


def looks(series: Sequence[Series]) -> dict[str, tuple[str, str]]:
    """For every label its colour and its line style, no two labels alike: the colour by `COLOURS`, or of a cycle."""
    named = {s.label: _method_colour(s) for s in series}
    used = [colour for colour in named.values() if colour is not None]
    for label in [label for label, colour in named.items() if colour is None]:
        # Of the colours of the cycle that is used least, the one that is least like any other.
        least = min(used.count(colour) for colour in _CYCLE)
        free = [colour for colour in _CYCLE if used.count(colour) == least]
        named[label] = max(free, key=lambda c: min((unlike(c, other) for other in used if other != c), default=0.0))
        used.append(named[label] or "")
    found: dict[str, tuple[str, str]] = {}
    for s in series:
        if s.label in found:
            continue
        colour = named[s.label] or ""
        _, asked = _parts(s.style)
        lines = (asked, *(line for line in _LINES if line != asked)) if asked else ("",)  # points alone have no line
        found[s.label] = colour, next((line for line in lines if (colour, line) not in found.values()), asked)
    return found


def unlike(first: str, second: str) -> float:
    """How different two colours look: their distance in CIELAB (CIE 1976). Below about 20 lines are hard to tell apart.

    >>> round(unlike("#000000", "#ffffff")), unlike("#123456", "#123456")
    (100, 0.0)
    """
    return float(np.linalg.norm(_lab(first) - _lab(second)))


def _lab(colour: str) -> np.ndarray:
    """L, a and b of an sRGB colour, D65."""
    rgb = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    ratio = np.array(to_xyz) @ linear / np.sum(to_xyz, axis=1)
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _parts(style: str) -> tuple[str, str]:
    """The marker and the line of a style, without its k for black.

    >>> _parts("ko--"), _parts("-"), _parts("s")
    (('o', '--'), ('', '-'), ('s', ''))
    """
    style = style.removeprefix("k")
    marker = style.rstrip("-.:")
    return marker, style[len(marker) :]


def _method_colour(s: Series) -> str | None:
    if s.style.startswith("k"):
        return COLOURS["black"]
    return next((COLOURS[part] for part in (s.method, s.label, *s.label.split(", ")) if part in COLOURS), None)


def _draw(axes: Any, panel: Panel, look: dict[str, tuple[str, str]]) -> None:
    for s in panel.series:
        (colour, line), (marker, own) = look[s.label], _parts(s.style)
        axes.plot(s.x, s.mean, marker + (line if own else ""), color=colour, lw=1.5, ms=4, label=s.label)
        if s.runs > 1 and own:
            axes.fill_between(s.x, s.low, s.high, color=colour, alpha=0.15, lw=0)
        elif s.runs > 1:
            axes.vlines(s.x, s.low, s.high, color=colour, lw=1)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    axes.set_title(panel.heading, fontsize=9 if "\n" in panel.heading else "large")
    if panel.log_x:
        axes.set_xscale("log")
        _few_ticks(axes.xaxis, *axes.get_xlim())
        points = sorted({x for s in panel.series for x in s.x.tolist()})
        if len(points) <= 4:  # as in a sweep: those that were measured
            axes.xaxis.set_major_locator(FixedLocator(points))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.xaxis.get_major_formatter().set_useOffset(False)
    if panel.log_y:
        axes.set_yscale("log")
        _few_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.yaxis.get_major_formatter().set_useOffset(False)  # whole numbers, no "1e-5 + 0.9905" at the top
    canvas.plain(axes)


def _few_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks of a logarithmic axis whose labels do not collide: plain numbers, and 2 and 5 between powers of ten only
    where the axis is short."""
    decades = math.log10(high / low)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=8))
    if decades < 0.7:  # too short for two of 1, 2 and 5: as on an axis that is not logarithmic
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    if decades < 6:
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
