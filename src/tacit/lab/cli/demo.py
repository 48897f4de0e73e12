"""The command `tacit demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import can_plot, err
from tacit.cli.console import out as screen
from tacit.cli.train import run, show
from tacit.core.graph import Graph
from tacit.data import adult_schema, adult_table, partition
from tacit.lab.cli.compare import run as compare_all
from tacit.lab.cli.compare import show as show_comparison
from tacit.lab.comparison.results import recommended
from tacit.run.request import Request
from tacit.run.training import hold_out

_NAMES = ["north", "east", "south", "west", "centre"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the model and the plots; created if needed.")] = Path(
        "out/demo"
    ),
) -> None:
    """Train one classifier for five organisations on the embedded census data (UCI Adult), not pooled.

    The organisations hold different numbers of records with different shares of high incomes, and talk along six
    edges. The second part is private: it compares all private methods at a total of (1, 1e-5) for every agent.

    Example: `tacit demo --out out/demo`
    """
    names.folder(out)
    schema = adult_schema()
    data = schema.encode(adult_table())
    assert data.y is not None
    parts = partition.dirichlet(data.y, len(_NAMES), concentration=1.0, seed=1)
    graph = Graph.random(len(_NAMES), edges=6, seed=0)
    screen.print("[bold]Five organisations, one model, nothing pooled[/bold]")
    screen.print("Task: does a person earn more than 50,000 dollars a year? 45,222 records of the 1994 US census.")
    links = ", ".join(f"{_NAMES[a]}-{_NAMES[b]}" for a, b in graph.edges)
    screen.print(f"They talk only to neighbours: {links}\n")
    kept, held = hold_out(parts, 0.1)
    trained = run(Request(l2=3e-5).on(schema, kept, graph), data, schema, kept, _NAMES, held=held)
    show(trained)
    trained.model.save(out / "model.json")
    written = f"{out / 'model.json'}"
    pictures = can_plot()
    if pictures:
        from tacit.lab import charts  # matplotlib is slow to import: not for --help
        from tacit.report import plots

        plots.convergence(trained, out / "convergence.png", "Adult: five organisations, one model, nothing pooled")
        written += f" and {out / 'convergence.png'}"
    err.print(f"\nwrote {written}", markup=False, soft_wrap=True)

    screen.print("\n[bold]And privately: every record protected by a total of (1, 1e-5)[/bold]")
    screen.print("40,000 records in equal parts, on a ring; the noise is seeded, so you can repeat this.")
    screen.print("shared-descent: all talk to each other and share the noise, if at most 1 or 2 of them collude.\n")
    results = compare_all(
        data,
        schema,
        None,
        lambda train, seed: partition.equal(len(train), len(_NAMES), seed),
        seeds=2,
    ).results
    best = recommended(results)
    show_comparison(results, best)
    if pictures:
        charts.method_errors(results, best, out / "comparison.png", "Adult: five organisations, total (1, 1e-5) each")
        err.print(f"\nwrote {out / 'comparison.png'}", markup=False, soft_wrap=True)
