"""Plots of comparisons, sweeps, coalitions and audits, as PNG files."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from tacit.errors import InputError
from tacit.privacy.accounting import gaussian_steps
from tacit.report import canvas

if TYPE_CHECKING:
    from tacit.lab.audit import Audited
    from tacit.lab.comparison.results import MethodResult
    from tacit.lab.comparison.sweep import Sweep


def method_errors(
    results: list[MethodResult], best: MethodResult | None, path: str | os.PathLike[str], title: str
) -> None:
    """Test error of every method, mean and range, the best on top."""
    figure = canvas.figure(8.0, 4.6, title)
    axes = figure.subplots()
    order = sorted(results, key=lambda c: c.error, reverse=True)
    for place, c in enumerate(order):
        colour = (
            canvas.GREEN if c is best else canvas.ORANGE if c.reserve else canvas.BLUE if c.colluders else canvas.GREY
        )
        axes.plot([min(c.errors), max(c.errors)], [place, place], color=colour, lw=5, alpha=0.3)
        axes.plot(c.error, place, "o", color=colour)
    axes.set_yticks(range(len(order)), [f"{c.name}{_trust(c)}" for c in order])
    axes.set_xlabel(f"test {results[0].error_name}: mean and range over seeds")
    canvas.plain(axes, grid="x")
    canvas.save(figure, path, dpi=130)


def sweep(found: Sweep, path: str | os.PathLike[str], title: str) -> None:
    """Test error against the total epsilon, a line for each method: mean over seeds, with the range as a band."""
    figure = canvas.figure(8.0, 4.6, title)
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
    canvas.plain(axes)
    canvas.save(figure, path, dpi=130)


def _trust(c: MethodResult) -> str:
    """What a method asks for beside its budget."""
    if not c.decentralised:
        return " (pooled)"
    return "" if c.reserve is None else f" (at most {c.reserve.colluders} collude)"


def learnt_of_each_other(tables: dict[str, np.ndarray], path: str | os.PathLike[str], title: str) -> None:
    """Heat maps of what agent j (column) learns of agent i (row), as epsilon."""
    figure = canvas.figure(4.2 * len(tables) + 1.0, 4.4, title)
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
    canvas.save(figure, path, dpi=110)


def trade_off(found: Audited, path: str | os.PathLike[str], title: str) -> None:
    """How often a guess of the data set is wrong under either of the two, over all thresholds; and what the claim
    allows at the least. A curve below the claim's would be a caught bug."""
    if found.scores is None:
        raise InputError("the audit kept no scores to draw")
    first, second = (np.sort(scores) for scores in found.scores)
    at = np.quantile(np.concatenate([first, second]), np.linspace(0.0, 1.0, 400))
    missed = np.searchsorted(first, at, side="right") / len(first)  # the first data set, taken for the second
    wrong = 1 - np.searchsorted(second, at, side="right") / len(second)
    figure = canvas.figure(5.6, 5.2, title)
    axes = figure.subplots()
    axes.plot([0, 1], [1, 0], color=canvas.GREY, lw=1, ls=":", label="a blind guess")
    rate = np.linspace(0.0, 1.0, 400)
    e = math.exp(found.claimed)
    allowed = np.maximum.reduce([np.zeros_like(rate), 1 - found.delta - e * rate, (1 - found.delta - rate) / e])
    claim = f"the claim: epsilon {found.claimed:.4g}" + (f", delta {found.delta:g}" if found.delta else "")
    axes.plot(rate, allowed, color=canvas.ORANGE, lw=1.5, label=claim)
    if found.delta > 0:
        mu = 1 / gaussian_steps(1, found.claimed, found.delta).multiplier
        axes.plot(
            rate, ndtr(-ndtri(rate) - mu), color=canvas.ORANGE, lw=1.5, ls="--", label="the same, Gaussian mechanism"
        )
    shown = f"found: epsilon at least {found.lower:.4g}, {found.samples:,} runs each"
    axes.plot(wrong, missed, color=canvas.BLUE, lw=2, label=shown)
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="wrong under the second data set", ylabel="wrong under the first data set"
    )
    axes.legend(frameon=False, fontsize=8)
    canvas.plain(axes)
    canvas.save(figure, path, dpi=110)
