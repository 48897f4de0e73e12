"""Tables of comparisons, attacks and claims, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tacit.privacy.accounting import rounded_up

if TYPE_CHECKING:
    from tacit.lab.comparison.results import MethodResult
    from tacit.lab.papers.experiment import Claim


def methods(results: list[MethodResult], best: MethodResult | None, width: int) -> Table:
    """All methods at one budget, the best first. Where the screen is narrow, columns that say least are left out."""
    digits = ".4f" if results[0].error_name == "error" else ".4g"
    columns: dict[str, Callable[[MethodResult], str]] = {
        "method": lambda c: c.name,
        f"test {results[0].error_name}": lambda c: f"{c.error:{digits}}",
        "range": lambda c: f"{min(c.errors):{digits}}-{max(c.errors):{digits}}",
        "AUC": lambda c: "-" if (auc := c.mean("auc")) is None else f"{auc:.4f}",
        "loss": lambda c: f"{c.loss:.4f}",
        "epsilon": lambda c: f"{rounded_up(c.epsilon):#.4g}" if c.private else "-",
        "colluders": lambda c: "-" if c.colluders is None else str(c.colluders),
        "messages": lambda c: f"{c.messages:,}" if c.decentralised else "pooled",
    }
    if not results[0].two_classes:
        del columns["AUC"]
    cells = {name: [name, *map(cell, results)] for name, cell in columns.items()}
    for name in ("loss", "range"):
        if sum(max(map(len, each)) + 2 for each in cells.values()) - 2 > width:
            del cells[name]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in cells:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    order = sorted(range(len(results)), key=lambda k: (not _protected(results[k]), results[k].error))
    for k in order:
        style = "bold green" if results[k] is best else None if _protected(results[k]) else "dim"
        table.add_row(*(each[k + 1] for each in cells.values()), style=style)
    return table


def _protected(result: MethodResult) -> bool:
    return result.private and result.decentralised


def attacks(rows: Sequence[tuple[str, Sequence[float]]]) -> Table:
    """The errors of each attack: x and y at the first and the last visit, the gradient at the last."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("attack", no_wrap=True)
    for heading in ("x, first", "x, last", "y, first", "y, last", "gradient, last"):
        table.add_column(heading, justify="right", no_wrap=True)
    for place, (name, errors) in enumerate(rows, start=1):
        table.add_row(Text(name), *(f"{error:.3g}" for error in errors), style="dim" if place == len(rows) else None)
    return table


def leaks(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """What an attack on a method without privacy learns of the agents, and how wrong it is beside a guess."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what the attack finds", no_wrap=True)
    for heading in ("agents", "attack", "a guess"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row, style="dim" if row[2] == "not determined" else None)
    return table


def claims(found: Sequence[Claim]) -> Table:
    """What is claimed, what was measured, and whether it holds."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("where", "whose", "claim", "measured", "seeds that agree", ""):
        table.add_column(column, overflow="fold")
    for c in found:
        verdict = Text(c.verdict, style="yellow" if c.holds is None else "green" if c.holds else "bold red")
        table.add_row(c.where, c.whose, Text(c.text), Text(c.measured, style="dim"), c.agree, verdict)
    return table
