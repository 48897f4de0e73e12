"""Plots, as PNG files."""

from __future__ import annotations

import os

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tacit.comparison import Contender
from tacit.files import replacing
from tacit.training import Trained

_BLUE, _GREEN, _GREY = "#1f5fa8", "#2a8a4a", "#8a8a8a"


def convergence(trained: Trained, path: str | os.PathLike[str], title: str) -> None:
    """Loss against rounds, beside the pooled optimum and the organisations alone; below, how far they disagree."""
    history = trained.run.history
    rounds = np.arange(len(history["loss"]))
    figure = Figure(figsize=(8.0, 6.2), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a screen and without pyplot's global state
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(title)

    top.plot(rounds, history["model_loss"], color=_BLUE, lw=2, label="together, nothing pooled (average model)")
    top.axhline(trained.pooled.loss, color=_GREEN, ls="--", lw=1.5, label="all data pooled (the optimum)")
    # One that is worse alone than a model that knows nothing would flatten everything else.
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
        if np.any(history[name][1:] > 0):  # an agent alone has none, and a log scale no zero
            bottom.semilogy(rounds[1:], history[name][1:], color=colour, lw=1.5, label=label)
    bottom.set_xlabel("rounds")
    bottom.set_ylabel("distance")
    if bottom.lines:
        bottom.legend(frameon=False, fontsize=9)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=130, format="png")


def contenders(results: list[Contender], best: Contender, path: str | os.PathLike[str], title: str) -> None:
    """Test error of every method, mean and range, the best on top."""
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    figure.suptitle(title)
    order = sorted(results, key=lambda c: c.error, reverse=True)
    for place, c in enumerate(order):
        colour = _GREEN if c is best else _BLUE if c.private and c.decentralised else _GREY
        axes.plot([min(c.errors), max(c.errors)], [place, place], color=colour, lw=5, alpha=0.3)
        axes.plot(c.error, place, "o", color=colour)
    axes.set_yticks(range(len(order)), [f"{c.name}" + ("" if c.decentralised else " (pooled)") for c in order])
    axes.set_xlabel("test error: mean and range over seeds")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, axis="x")
    with replacing(path) as draft:
        figure.savefig(draft, dpi=130, format="png")
