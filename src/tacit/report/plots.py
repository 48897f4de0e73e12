"""The plot of a run, as a PNG file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tacit.report import canvas

if TYPE_CHECKING:
    from tacit.run.training import Trained

_NO_NUMBER = 1e100


def convergence(trained: Trained, path: str | os.PathLike[str], title: str) -> None:
    """Loss against rounds, with the pooled optimum and the organisations alone; below, how far the agents disagree."""
    history = trained.run.history
    rounds = history["round"]
    figure = canvas.figure(8.0, 6.2, title)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])

    top.plot(rounds, history["model_loss"], color=canvas.BLUE, lw=2, label="together, nothing pooled (average model)")
    top.axhline(trained.pooled.loss, color=canvas.GREEN, ls="--", lw=1.5, label="all data pooled (the optimum)")
    # Leave out organisations that alone are worse than the zero model: they would flatten the other curves.
    shown = [alone.loss for alone in trained.alone if alone.loss <= 1.1 * history["model_loss"][0]]
    for k, loss in enumerate(shown):
        top.axhline(loss, color=canvas.GREY, lw=0.8, alpha=0.8, label="each organisation alone" if k == 0 else None)
    if len(shown) < len(trained.alone):
        top.plot([], [], " ", label=f"({len(trained.alone) - len(shown)} alone lie above the picture)")
    top.set_ylabel("average training loss")
    top.legend(frameon=False, fontsize=9)

    for name, colour, label in (
        ("consensus_error", canvas.BLUE, "largest disagreement"),
        ("dual_residual", canvas.GREY, "dual residual"),
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
        canvas.plain(axes)
    canvas.save(figure, path, dpi=130)
