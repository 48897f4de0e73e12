"""`tacit ledger`: what all runs on a data set have spent, and how much they may spend."""

from __future__ import annotations

import json as json_format
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tacit.cli import names
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.privacy.events import Event
    from tacit.privacy.ledger import Cap, Ledger

app = typer.Typer(
    help="Keep the privacy ledger of a data set: create it, set its cap, check a run, see what was spent.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The ledger of one data set.", show_default=False)]
Head = Annotated[str | None, typer.Option(help="A head that verify printed before: nothing since then may be missing.")]
Epsilon = Annotated[float, typer.Option(help="The cap: all releases together cost at most this.", show_default=False)]
Delta = Annotated[float, typer.Option(help="The cap's delta, smaller than one over the records.", show_default=False)]
NewFile = Annotated[Path, typer.Argument(help="The ledger to create; it must not exist yet.", show_default=False)]
Data = Annotated[str | None, typer.Option(help="The records: a file, identified by its SHA-256, or **adult**.")]
Dataset = Annotated[str | None, typer.Option(help="Instead of --data: a name for the records.")]
NewEpsilon = Annotated[float | None, typer.Option(help="Set the cap, too: all releases together cost at most this.")]
NewDelta = Annotated[
    float | None, typer.Option(help="With --epsilon: the cap's delta, smaller than one over the records.")
]
Records = Annotated[str | None, typer.Option("--data", help="Refuse the ledger if it is not the ledger of this file.")]
_EVENT = f"What a round releases: {'; '.join(form for _, _, form in names.EVENTS.values())}. May be repeated."
Events = Annotated[list[str], typer.Option("--event", help=_EVENT, show_default=False)]
Rounds = Annotated[int, typer.Option(help="How many rounds the run has.", show_default=False)]
MOST_ROUNDS = 100_000  # the accountant's work grows with the rounds


@app.command()
def new(
    file: NewFile,
    data: Data = None,
    dataset: Dataset = None,
    epsilon: NewEpsilon = None,
    delta: NewDelta = None,
    json: Json = False,
) -> None:
    """Create the ledger of a data set, with a cap if you give one.

    The ledger identifies the records by the SHA-256 of their file, or by a name. Without a cap nothing can be spent.

    Example: `tacit ledger new ward-7.ledger --data ward-7.csv --epsilon 1 --delta 1e-6`
    """
    from tacit.privacy.ledger import Cap, Ledger

    if (data is None) == (dataset is None):
        raise InputError("say which records the ledger is for: give either --data FILE or --dataset NAME")
    if (epsilon is None) != (delta is None):
        raise InputError("a cap needs both --epsilon and --delta; give both or neither")
    limit = None if epsilon is None or delta is None else Cap(epsilon, delta)
    name = names.dataset(data) if data is not None else dataset or ""
    with Ledger.new(file, dataset=name, cost=_cost) as ledger:
        if limit is not None:
            ledger.set_cap(limit)
        result = _budget(ledger.cap(), ledger.epsilon()) | {"dataset": ledger.dataset, "created": ledger.created}
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"{file}: the ledger of {result['dataset']}", markup=False, soft_wrap=True)
    _tell_budget(result)


@app.command()
def check(file: File, event: Events, rounds: Rounds, data: Records = None, json: Json = False) -> None:
    """Check whether a run fits under the cap, and what it would cost in total. Nothing is spent.

    The exit code is 0 if the run fits, and 1 if it would be refused; then the command prints how many rounds would fit.

    Example: `tacit ledger check ward-7.ledger --event gaussian:20 --rounds 50`
    """
    from tacit.privacy.ledger import BudgetExceeded

    one_round = [names.event(text) for text in event]
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InputError(f"--rounds must lie between 1 and {MOST_ROUNDS:,}, not {rounds:,}")
    events = Counter(one_round * rounds)
    refusal = None
    with _open(file, data) as ledger:
        try:
            ledger.check_run(events, one_round)
        except BudgetExceeded as refused:
            refusal = str(refused)
        fit = rounds if refusal is None else ledger.remaining_rounds(one_round, at_most=rounds)
        result = _budget(ledger.cap(), ledger.epsilon()) | {
            "would": ledger.epsilon(events),
            "fits": refusal is None,
            "rounds_that_fit": fit,
            "counted_by": "filter" if ledger.told() else "accountant",
        }
    if json:
        endless = result["would"] == math.inf  # JSON has no infinity
        typer.echo(json_format.dumps(result | {"would": None} if endless else result))
    elif refusal is not None:
        screen.print(refusal, markup=False, soft_wrap=True)
    else:
        _tell_budget(result)
        why = "may depend on earlier releases" if result["counted_by"] == "filter" else "nothing was released before"
        screen.print(f"the run fits: with it epsilon would be {_number(result['would'])} ({why})", soft_wrap=True)
    raise typer.Exit(0 if refusal is None else 1)


@app.command()
def show(file: File, json: Json = False) -> None:
    """Show the runs, what each would cost alone, and what all have spent together.

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
        colluders = _colluders(ledger)
        result = _budget(limit, ledger.epsilon()) | {"dataset": ledger.dataset, "created": ledger.created, "runs": runs}
        result["colluders"] = colluders
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
    if colluders is not None:
        screen.print(
            f"some of these runs share their noise: the epsilon holds if at most {colluders} of their other members "
            "put together what they know; against more of them it is larger (tacit plan --colluders says how much)",
            soft_wrap=True,
        )


@app.command()
def verify(file: File, head: Head = None, data: Records = None, json: Json = False) -> None:
    """Check that a ledger adds up: that no row was changed, and that every rule was kept.

    An old copy of a ledger adds up, too. To notice that, keep the head that this command prints in another place, and
    give it with --head next time.

    Example: `tacit ledger verify ward-7.ledger`
    """
    with _open(file, data) as ledger:
        found = ledger.verify(head)
    result = _budget(found.cap, found.epsilon) | {
        "dataset": found.dataset,
        "created": found.created,
        "reservations": found.reservations,
        "payloads": found.payloads,
        "head": found.head,
    }
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"adds up: {found.reservations:,} reservations, {found.payloads:,} payloads")
    _tell_budget(result)
    typer.echo(f"head: {found.head}")


@app.command()
def cap(file: File, epsilon: Epsilon, delta: Delta, json: Json = False) -> None:
    """Set the cap: what all releases, past and future, may cost together.

    You can raise the cap, or lower it down to what is spent. Decide it without looking at what was released.

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


def _colluders(ledger: Ledger) -> int | None:
    """Against how many members together the total holds, if noise was shared; None if it was not."""
    from tacit.privacy.events import SharedGaussian

    return min((event.colluders for event in ledger.spent() if isinstance(event, SharedGaussian)), default=None)


def _cost(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    from tacit.privacy.filters import epsilon  # slow to import: not for --help

    return epsilon(planned, later, cap)


def _open(file: Path, data: str | None = None) -> Ledger:
    from tacit.privacy.ledger import Ledger

    return Ledger(file, cost=_cost, dataset=None if data is None else names.dataset(data))


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
