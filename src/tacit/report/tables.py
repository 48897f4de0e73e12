"""Tables of a run, for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tacit.data import Target
from tacit.run.metrics import TwoClasses
from tacit.run.training import Evaluation, Trained


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
