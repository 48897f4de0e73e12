"""The canvas of all pictures: how a figure is made, and how it becomes a PNG or an SVG file, without a screen."""

from __future__ import annotations

import io
import os
import re
from typing import Any

import numpy as np

from tacit.files import replacing

try:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from PIL import Image
except ModuleNotFoundError:
    raise ImportError("plots need matplotlib and Pillow: pip install 'tacit-learn[plot]'") from None

BLUE, GREEN, GREY, ORANGE = "#1f5fa8", "#2a8a4a", "#8a8a8a", "#c75d00"


def figure(width: float, height: float, title: str) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    return figure


def plain(axes: Any, grid: str = "both") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, axis=grid)


def save(figure: Figure, path: str | os.PathLike[str], dpi: int) -> None:
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)  # draws without a screen and without pyplot's global state
    canvas.draw()  # once; savefig would draw twice for the layout
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba()))
    with replacing(path) as draft:
        # A quarter of the size. Median cut, the default, gives a colour of few pixels away: that of a legend's line.
        few = drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
        few.save(draft, format="png", optimize=True)


def save_svg(figure: Figure, path: str | os.PathLike[str]) -> None:
    """The same bytes every time, with text as text and coordinates to a hundredth of a point."""
    figure.set_dpi(72)  # a drawing's unit is the point
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tacit"}):
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})  # savefig would draw twice
    drawn = re.sub(r' d="[^"]*"', lambda d: re.sub(r"(\.\d\d)\d+", r"\1", d[0]), out.getvalue())
    with replacing(path) as draft:
        draft.write_text(drawn, encoding="utf-8")
