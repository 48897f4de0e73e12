"""Plots, as PNG files; the papers' figures as SVG files, too."""

from __future__ import annotations

import io
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from tacit.errors import InputError
from tacit.files import replacing
from tacit.privacy.accounting import gaussian_steps

if TYPE_CHECKING:
    from tacit.papers.experiment import Panel, PaperFigure, Series
    from tacit.privacy.audit import Audited
    from tacit.run.training import Trained
    from tacit.workflows.comparison import MethodResult
    from tacit.workflows.sweep import Sweep

try:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
    from PIL import Image
except ModuleNotFoundError:
    raise ImportError("tacit.report.plots needs matplotlib and Pillow: pip install 'tacit-learn[plot]'") from None

_NO_NUMBER = 1e100
_BLUE, _GREEN, _GREY, _ORANGE = "#1f5fa8", "#2a8a4a", "#8a8a8a", "#c75d00"

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
    "output perturbation": "#e08000",
}
_CYCLE = (
    "#1f4fd8", "#e08000", "#2ca02c", "#e31a1c", "#56c5e8", "#7a3b10", "#9467bd", "#e000e0", "#8a8a8a", "#c0b000",
)  # fmt: skip
_LINES = ("-", "--", ":", "-.")


def convergence(trained: Trained, path: str | os.PathLike[str], title: str) -> None:
    """Loss against rounds, with the pooled optimum and the organisations alone; below, how far the agents disagree."""
    history = trained.run.history
    rounds = history["round"]
    figure = _figure(8.0, 6.2, title)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])

    top.plot(rounds, history["model_loss"], color=_BLUE, lw=2, label="together, nothing pooled (average model)")
    top.axhline(trained.pooled.loss, color=_GREEN, ls="--", lw=1.5, label="all data pooled (the optimum)")
    # Leave out organisations that alone are worse than the zero model: they would flatten the other curves.
    shown = [alone.loss for alone in trained.alone if alone.loss <= 1.1 * history["model_loss"][0]]
    for k, loss in enumerate(shown):
        top.axhline(loss, color=_GREY, lw=0.8, alpha=0.8, label="each organisation alone" if k == 0 else None)
    if len(shown) < len(trained.alone):
        top.plot([], [], " ", label=f"({len(trained.alone) - len(shown)} alone lie above the picture)")
    top.set_ylabel("average training loss")
    top.legend(frameon=False, fontsize=9)

    for name, colour, label in (
        ("consensus_error", _BLUE, "largest disagreement"),
        ("dual_residual", _GREY, "dual residual"),
    ):
        # Relative to a dual variable that is still zero, a residual is no number.
        far = np.where(history[name][1:] < _NO_NUMBER, history[name][1:], np.nan)
        if np.any(far > 0):  # a single agent has none, and a log scale cannot show zero
            bottom.semilogy(rounds[1:], far, color=colour, lw=1.5, label=label)
    bottom.set_xlabel("rounds")
    bottom.set_ylabel("distance")
    if bottom.lines:
        bottom.legend(frameon=False, fontsize=9)
    for axes in (top, bottom):
        _plain(axes)
    _save(figure, path, dpi=130)


def method_errors(
    results: list[MethodResult], best: MethodResult | None, path: str | os.PathLike[str], title: str
) -> None:
    """Test error of every method, mean and range, the best on top."""
    figure = _figure(8.0, 4.6, title)
    axes = figure.subplots()
    order = sorted(results, key=lambda c: c.error, reverse=True)
    for place, c in enumerate(order):
        colour = _GREEN if c is best else _ORANGE if c.reserve else _BLUE if c.colluders else _GREY
        axes.plot([min(c.errors), max(c.errors)], [place, place], color=colour, lw=5, alpha=0.3)
        axes.plot(c.error, place, "o", color=colour)
    axes.set_yticks(range(len(order)), [f"{c.name}{_trust(c)}" for c in order])
    axes.set_xlabel(f"test {results[0].error_name}: mean and range over seeds")
    _plain(axes, grid="x")
    _save(figure, path, dpi=130)


def sweep(found: Sweep, path: str | os.PathLike[str], title: str) -> None:
    """Test error against the total epsilon, a line for each method: mean over seeds, with the range as a band."""
    figure = _figure(8.0, 4.6, title)
    axes = figure.subplots()
    names = dict.fromkeys(row["method"] for row in found.rows)
    budgets = sorted({row["epsilon"] for row in found.rows})
    for name in names:
        shown = {e: [r["error"] for r in found.rows if (r["method"], r["epsilon"]) == (name, e)] for e in budgets}
        at = [e for e in budgets if shown[e]]
        (line,) = axes.plot(at, [np.mean(shown[e]) for e in at], "o-", ms=4, lw=1.5, label=name)
        axes.fill_between(
            at, [min(shown[e]) for e in at], [max(shown[e]) for e in at], color=line.get_color(), alpha=0.15, lw=0
        )
    if len(budgets) > 1:
        axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{e:g}" for e in budgets])
    axes.minorticks_off()
    axes.set_xlabel("total epsilon of every agent")
    axes.set_ylabel("test error: mean and range over seeds")
    axes.legend(frameon=False, fontsize=9)
    _plain(axes)
    _save(figure, path, dpi=130)


def _trust(c: MethodResult) -> str:
    """What a method asks for beside its budget."""
    if not c.decentralised:
        return " (pooled)"
    return "" if c.reserve is None else f" (at most {c.reserve.colluders} collude)"


def learnt_of_each_other(tables: dict[str, np.ndarray], path: str | os.PathLike[str], title: str) -> None:
    """Heat maps of what agent j (column) learns of agent i (row), as epsilon."""
    figure = _figure(4.2 * len(tables) + 1.0, 4.4, title)
    most = max(table.max() for table in tables.values())
    grid = figure.subplots(1, len(tables), squeeze=False)[0]
    for axes, (name, table) in zip(grid, tables.items(), strict=True):
        shown = np.where(np.eye(len(table), dtype=bool), np.nan, table)
        drawn = axes.imshow(shown, vmin=0.0, vmax=most, cmap="viridis")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("agent j learns")
        axes.locator_params(integer=True)
    grid[0].set_ylabel("of agent i")
    figure.colorbar(drawn, ax=list(grid), label="epsilon")
    _save(figure, path, dpi=110)


def trade_off(found: Audited, path: str | os.PathLike[str], title: str) -> None:
    """How often a guess of the data set is wrong under either of the two, over all thresholds; and what the claim
    allows at the least. A curve below the claim's would be a caught bug."""
    if found.scores is None:
        raise InputError("the audit kept no scores to draw")
    first, second = (np.sort(scores) for scores in found.scores)
    at = np.quantile(np.concatenate([first, second]), np.linspace(0.0, 1.0, 400))
    missed = np.searchsorted(first, at, side="right") / len(first)  # the first data set, taken for the second
    wrong = 1 - np.searchsorted(second, at, side="right") / len(second)
    figure = _figure(5.6, 5.2, title)
    axes = figure.subplots()
    axes.plot([0, 1], [1, 0], color=_GREY, lw=1, ls=":", label="a blind guess")
    rate = np.linspace(0.0, 1.0, 400)
    e = math.exp(found.claimed)
    allowed = np.maximum.reduce([np.zeros_like(rate), 1 - found.delta - e * rate, (1 - found.delta - rate) / e])
    claim = f"the claim: epsilon {found.claimed:.4g}" + (f", delta {found.delta:g}" if found.delta else "")
    axes.plot(rate, allowed, color=_ORANGE, lw=1.5, label=claim)
    if found.delta > 0:
        mu = 1 / gaussian_steps(1, found.claimed, found.delta).multiplier
        axes.plot(rate, ndtr(-ndtri(rate) - mu), color=_ORANGE, lw=1.5, ls="--", label="the same, Gaussian mechanism")
    shown = f"found: epsilon at least {found.lower:.4g}, {found.samples:,} runs each"
    axes.plot(wrong, missed, color=_BLUE, lw=2, label=shown)
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="wrong under the second data set", ylabel="wrong under the first data set"
    )
    axes.legend(frameon=False, fontsize=8)
    _plain(axes)
    _save(figure, path, dpi=110)


def paper_figure(shown: PaperFigure, *paths: str | os.PathLike[str], note: str = "") -> None:
    """The panels of a paper's figure, as PNG or SVG by the ending of each path; `note` goes below the title."""
    figure = panels_of(shown, note)
    for path in paths:
        if Path(path).suffix == ".svg":
            _save_svg(figure, path)
        else:
            _save(figure, path, dpi=100)
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
    figure = _figure(width, height, shown.title + (f"\n{note}" if note else ""))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    every = looks([s for panel in shown.panels for s in panel.series])
    for axes, panel in zip(grid, shown.panels, strict=False):
        _draw(axes, panel, every if shared else looks(panel.series))
        if not shared:
            axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axes in grid[len(shown.panels) :]:
        axes.set_axis_off()
    if shared:
        lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
        figure.legend(lines.values(), lines.keys(), loc="outside right upper", frameon=False, fontsize=8)
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
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.xaxis.get_major_formatter().set_useOffset(False)
    if panel.log_y:
        axes.set_yscale("log")
        _few_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.yaxis.get_major_formatter().set_useOffset(False)  # whole numbers, no "1e-5 + 0.9905" at the top
    _plain(axes)


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


def _figure(width: float, height: float, title: str) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    return figure


def _plain(axes: Any, grid: str = "both") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, axis=grid)


def _save(figure: Figure, path: str | os.PathLike[str], dpi: int) -> None:
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)  # draws without a screen and without pyplot's global state
    canvas.draw()  # once; savefig would draw twice for the layout
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba()))
    with replacing(path) as draft:
        # A quarter of the size. Median cut, the default, gives a colour of few pixels away: that of a legend's line.
        few = drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
        few.save(draft, format="png", optimize=True)


def _save_svg(figure: Figure, path: str | os.PathLike[str]) -> None:
    """The same bytes every time, with text as text and coordinates to a hundredth of a point."""
    figure.set_dpi(72)  # a drawing's unit is the point
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tacit"}):
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})  # savefig would draw twice
    drawn = re.sub(r' d="[^"]*"', lambda d: re.sub(r"(\.\d\d)\d+", r"\1", d[0]), out.getvalue())
    with replacing(path) as draft:
        draft.write_text(drawn, encoding="utf-8")
