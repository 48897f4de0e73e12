"""`tacit ledger`: what the records of a data set have told, and how much more they may tell."""

from __future__ import annotations

import json as json_format
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tacit.cli.console import out as screen
from tacit.cli.options import Json

if TYPE_CHECKING:
    from tacit.privacy.events import Event
    from tacit.privacy.ledger import Cap, Ledger

app = typer.Typer(
    help="The privacy ledger of a data set: what was spent, whether it adds up, and the cap.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The ledger of one data set.", show_default=False)]
Head = Annotated[str | None, typer.Option(help="A head that was kept: nothing may be missing since.")]
Epsilon = Annotated[float, typer.Option(help="All releases together cost at most this.", show_default=False)]
Delta = Annotated[float, typer.Option(help="At this delta, smaller than one over the records.", show_default=False)]


@app.command()
def show(file: File, json: Json = False) -> None:
    """Show the runs and what each has spent.

    Example: `tacit ledger show ward-7.ledger`
    """
    with _open(file) as ledger:
        limit = ledger.cap()
        runs: list[dict[str, Any]] = [
            {
                "run": run.run,
                "rounds": run.events.total(),
                "stored": run.payloads,
                "events": {str(event): count for event, count in run.events.items()},
                "epsilon": None if limit is None else _cost(run.events, Counter(), limit),  # on its own
            }
            for run in ledger.runs()
        ]
        result = _budget(limit, ledger.epsilon()) | {"dataset": ledger.dataset, "created": ledger.created, "runs": runs}
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"{result['dataset']}, since {result['created']}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "rounds", "stored", "epsilon", "events"):
        table.add_column(name, justify="left" if name in ("run", "events") else "right")
    for run in runs:
        events = ", ".join(f"{count:,} x {event}" for event, count in run["events"].items())
        table.add_row(
            escape(run["run"]), f"{run['rounds']:,}", f"{run['stored']:,}", _number(run["epsilon"]), escape(events)
        )
    screen.print(table)
    _tell_budget(result)


@app.command()
def verify(file: File, head: Head = None, json: Json = False) -> None:
    """Check that a ledger adds up: every row as it was written, every rule kept.

    An old copy of a ledger adds up, too. Keep the head that this prints, in another place, and give it next time.

    Example: `tacit ledger verify ward-7.ledger`
    """
    with _open(file) as ledger:
        found = ledger.verify(head)
    result = _budget(found.cap, found.epsilon) | {
        "dataset": found.dataset, "created": found.created, "reservations": found.reservations,
        "payloads": found.payloads, "head": found.head,
    }  # fmt: skip
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"adds up: {found.reservations:,} reservations, {found.payloads:,} payloads")
    _tell_budget(result)
    typer.echo(f"head: {found.head}")


@app.command()
def cap(file: File, epsilon: Epsilon, delta: Delta, json: Json = False) -> None:
    """Set the cap: what all releases, past and future, may cost together.

    It may be raised, or lowered down to what is spent.

    Example: `tacit ledger cap ward-7.ledger --epsilon 1 --delta 1e-6`
    """
    from tacit.privacy.ledger import Cap

    limit = Cap(epsilon, delta)
    with _open(file) as ledger:
        ledger.set_cap(limit)
        result = _budget(ledger.cap(), ledger.epsilon())
    if json:
        typer.echo(json_format.dumps(result))
    else:
        _tell_budget(result)


def _cost(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    from tacit.privacy.filters import epsilon  # takes its time to import: not for --help

    return epsilon(planned, later, cap)


def _open(file: Path) -> Ledger:
    from tacit.privacy.ledger import Ledger

    return Ledger(file, cost=_cost)


def _budget(cap: Cap | None, spent: float | None) -> dict[str, Any]:
    return {"cap": None if cap is None else {"epsilon": cap.epsilon, "delta": cap.delta}, "spent": spent}


def _tell_budget(result: dict[str, Any]) -> None:
    if result["cap"] is None:
        screen.print("no cap is set: nothing can be spent")
    else:
        limits = "epsilon = {epsilon:.6g} at delta = {delta:.6g}".format(**result["cap"])
        screen.print(f"spent: epsilon = {_number(result['spent'])}; cap: {limits}")


def _number(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:.6g}"
