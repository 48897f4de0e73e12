"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from tacit.data import Target
from tacit.papers.experiment import Claim
from tacit.privacy.accounting import rounded_up
from tacit.workflows.comparison import MethodResult
from tacit.workflows.metrics import TwoClasses
from tacit.workflows.training import Evaluation, Trained


def comparison(trained: Trained) -> Table:
    """The models trained together, on pooled data, and by each organisation alone."""
    classes = not isinstance(trained.model.schema.label, Target)
    error_name, error_format = ("test error", ".4f") if classes else ("test RMSE", ".4g")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("who")
    table.add_column("rows", justify="right")
    table.add_column("training loss" if classes else "training loss (scaled)", justify="right")
    ranks = isinstance(trained.together.measured, TwoClasses)
    if trained.together.error is not None:
        table.add_column(error_name, justify="right")
    if ranks:
        table.add_column("AUC", justify="right")

    def add(model: Evaluation, style: str | None = None) -> None:
        cells: list[str | Text] = [Text(model.who), f"{model.rows:,}", f"{model.loss:.4f}"]
        cells += [] if model.error is None else [f"{model.error:{error_format}}"]
        if isinstance(model.measured, TwoClasses):
            cells.append("-" if model.measured.auc is None else f"{model.measured.auc:.4f}")
        table.add_row(*cells, style=style)

    add(trained.together, "bold green")
    add(trained.pooled)
    for model in trained.alone[:20]:
        add(model, "dim")
    if len(trained.alone) > 20:
        table.add_row(f"... and {len(trained.alone) - 20} more alone", style="dim")
    return table


def methods(results: list[MethodResult], best: MethodResult) -> Table:
    """All methods at one budget, the best first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", no_wrap=True)
    ranks = best.two_classes
    headings = (
        f"test {best.error_name}",
        "range",
        *(["AUC"] if ranks else []),
        "loss",
        "epsilon",
        "colluders",
        "messages",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    digits = ".4f" if best.error_name == "error" else ".4g"
    for c in sorted(results, key=lambda c: (not (c.private and c.decentralised), c.error)):
        style = "bold green" if c is best else None if c.private and c.decentralised else "dim"
        spent = f"{rounded_up(c.epsilon):#.4g}" if c.private else "-"
        auc = c.mean("auc") if ranks else None
        rank = [] if not ranks else ["-" if auc is None else f"{auc:.4f}"]
        measured = [f"{c.error:{digits}}", f"{min(c.errors):{digits}}-{max(c.errors):{digits}}"]
        table.add_row(
            c.name,
            *measured,
            *rank,
            f"{c.loss:.4f}",
            spent,
            "-" if c.colluders is None else str(c.colluders),
            f"{c.messages:,}" if c.decentralised else "pooled",
            style=style,
        )
    return table


def attacks(rows: Sequence[tuple[str, Sequence[float]]]) -> Table:
    """The errors of each attack: x and y at the first and the last visit, the gradient at the last."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("attack", no_wrap=True)
    for heading in ("x, first", "x, last", "y, first", "y, last", "gradient, last"):
        table.add_column(heading, justify="right", no_wrap=True)
    for place, (name, errors) in enumerate(rows, start=1):
        table.add_row(Text(name), *(f"{error:.3g}" for error in errors), style="dim" if place == len(rows) else None)
    return table


def claims(found: Sequence[Claim]) -> Table:
    """What is claimed, what was measured, and whether it holds."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("where", "whose", "claim", "measured", ""):
        table.add_column(column, overflow="fold")
    for c in found:
        verdict = Text(c.verdict, style="yellow" if c.holds is None else "green" if c.holds else "bold red")
        table.add_row(c.where, c.whose, Text(c.text), Text(c.measured, style="dim"), verdict)
    return table
