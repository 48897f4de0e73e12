"""`tacit ledger`: what all runs on the records of some people have spent, and how much they may spend."""

from __future__ import annotations

import json as json_format
import math
import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tacit.cli import names, options
from tacit.cli.console import err, warn
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.errors import InputError
from tacit.files import writable, write_private
from tacit.privacy.events import MOST_ROUNDS

if TYPE_CHECKING:
    from tacit.agent.ledger_heads import Books
    from tacit.privacy.events import Event
    from tacit.privacy.ledger import Cap, Ledger, Records

app = typer.Typer(
    help="""Keep the privacy ledger of a population: create it, set its cap, check a run, see what was spent.

    Every private run tells a little about the records, and what many runs tell adds up. A ledger is the account of all
    runs on the records of the same people. **new** opens it and sets the cap; **check** says whether a run still fits;
    `tacit train --ledger` and `tacit agent run --ledger` pay from it, and stop before they draw any noise if the cap
    does not allow the run; **show** lists what was spent, for people and (--report) as a page; **verify** finds a file
    that was changed; **head** begins a second place, which finds an old copy of the ledger.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The ledger of one population.", show_default=False)]
Head = Annotated[str | None, typer.Option(help="A head that verify printed before: nothing since then may be missing.")]
Epsilon = Annotated[float, typer.Option(help="The cap: all releases together cost at most this.", show_default=False)]
Delta = Annotated[float, typer.Option(help="The cap's delta, smaller than one over the records.", show_default=False)]
NewFile = Annotated[Path, typer.Argument(help="The ledger to create; it must not exist yet.", show_default=False)]
_POPULATION = "Whose records the ledger is about, in words: 'patients of alder, admitted since 2019'."
_COHORTS = (
    "A public column that says when a record came: 2024, 2024-03 or 2024-03-17 (then the month counts). A record then "
    "pays only for runs since it came. The column cannot be changed later, and its values must be true."
)
_FROM = "Charge what this ledger of an older tacit has spent. May be repeated."
_OLD_DATA = "The old way to name a population: by a file of its records."
NewEpsilon = Annotated[float | None, typer.Option(help="Set the cap, too: all releases together cost at most this.")]
NewDelta = Annotated[
    float | None, typer.Option(help="With --epsilon: the cap's delta, smaller than one over the records.")
]
Why = Annotated[str, typer.Option(help="Why the cap is set: it stays in the ledger for everybody who reads it.")]
Who = Annotated[str | None, typer.Option(help="Who sets the cap; by default the user of this machine.")]
_EVENT = f"What a round releases: {'; '.join(form for _, _, form in names.EVENTS.values())}. May be repeated."
Events = Annotated[list[str] | None, typer.Option("--event", help=_EVENT, show_default=False)]
Rounds = Annotated[int | None, typer.Option(help="With --event: how many rounds the run has.")]


@app.command()
def new(
    file: NewFile,
    population: Annotated[str | None, typer.Option(help=_POPULATION, show_default=False)] = None,
    epsilon: NewEpsilon = None,
    delta: NewDelta = None,
    cohorts: Annotated[str, typer.Option(help=_COHORTS)] = "",
    why: Why = "",
    who: Who = None,
    identity: Annotated[
        Path | None, typer.Option(help="The folder of your key: refuse a population that has a ledger already.")
    ] = None,
    old: Annotated[list[Path] | None, typer.Option("--from", help=_FROM)] = None,
    data: Annotated[str | None, typer.Option(help=_OLD_DATA, hidden=True)] = None,
    json: Json = False,
) -> None:
    """Create the ledger of a population, with a cap if you give one.

    A ledger belongs to people, not to a file: next month's file of the same people is charged to the same ledger.
    Without a cap nothing can be spent.

    Example: `tacit ledger new alder.ledger --population 'patients of alder since 2019' --epsilon 1 --delta 1e-6`
    """
    from tacit.privacy.ledger import Cap, Ledger
    from tacit.privacy.ledger.statement import budget_of

    if population is None and data is not None:
        population = "records of adult" if data == "adult" else f"records of {Path(data).name}"
        warn(f"--data is the old way to name a population; this one is called {population!r}")
    if population is None:
        raise InputError("say whose records the ledger is about: --population 'patients of alder since 2019'")
    if (epsilon is None) != (delta is None):
        raise InputError("a cap needs both --epsilon and --delta; give both or neither")
    if old and epsilon is None:
        raise InputError("--from needs a cap, which is not below what was spent: give --epsilon and --delta")
    limit = None if epsilon is None or delta is None else Cap(epsilon, delta)
    books: Books | None = None
    if identity is not None:
        names.require_agent()
        from tacit.agent.ledger_heads import Books

        books = Books(identity)
        books.require_new(population)
    if file.exists():
        raise InputError(f"{file} exists and is not changed; name a new file, or set its cap: tacit ledger cap")
    writable(file)
    with TemporaryDirectory(prefix=f".{file.name}.", dir=file.resolve().parent) as folder:
        draft = Path(folder) / "draft"  # nobody sees a ledger that does not know yet what was spent
        with Ledger.new(draft, population=population, cost=_cost, cohorts=cohorts.strip()) as ledger:
            if limit is not None:
                ledger.set_cap(limit, who=who, why=why)
            for each in old or []:
                ledger.take_over(each)
            ledger.verify()
            result = budget_of(ledger)
            result |= {"population": population, "created": ledger.created, "book": ledger.book}
            if books is not None:
                books.note_own(ledger)
        os.link(draft, file)
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"{file}: the ledger of {population}", markup=False, soft_wrap=True)
    _tell_budget(result)


@app.command()
def check(
    file: File,
    event: Events = None,
    rounds: Rounds = None,
    federation: Annotated[Path | None, typer.Option(help="Check the run of this federation file.")] = None,
    member: Annotated[str | None, typer.Option(help="With --federation: whose ledger this is.")] = None,
    plan: Annotated[Path | None, typer.Option(help="Check a plan: what `tacit plan --json` printed.")] = None,
    data: Annotated[
        str | None, typer.Option(help="The records of the run: only their cohorts would be charged.")
    ] = None,
    json: Json = False,
) -> None:
    """Check whether a run fits under the cap, and what it would cost in total. Nothing is spent.

    The exit code is 0 if the run fits, and 1 if it would be refused; then the command prints how many rounds would fit.

    Example: `tacit ledger check alder.ledger --federation federation.toml --member alder`

    Example: `tacit plan --rows 4000,9000,2500 --epsilon 1 --json > plan.json` and then
    `tacit ledger check alder.ledger --plan plan.json`

    Example: `tacit ledger check alder.ledger --event gaussian:20 --rounds 50`
    """
    from tacit.privacy.ledger import BudgetExceeded
    from tacit.privacy.ledger.statement import budget_of

    if (event is not None) + (federation is not None) + (plan is not None) != 1:
        raise InputError("say which run to check: --event and --rounds, or --federation and --member, or --plan")
    one_round = [names.event(text) for text in event or ()]
    if event is not None:
        runs = [_of_events(one_round, rounds)]
    else:
        runs = [_of_federation(federation, member)] if federation is not None else _of_plan(plan or Path())
    refusal = None
    with _open(file) as ledger:
        records = _records(data, ledger)
        try:
            for events in runs:
                ledger.check_run(events, one_round, records)
        except BudgetExceeded as refused:
            refusal = str(refused)
        would = [ledger.epsilon(events, records) for events in runs]
        result = budget_of(ledger) | {
            "would": None if None in would else max(each for each in would if each is not None),
            "fits": refusal is None,
            "counted_by": "filter" if ledger.told(records) else "accountant",
        }
        if one_round:
            cohorts = None if records is None else records.cohorts
            fit = rounds if refusal is None else ledger.remaining_rounds(one_round, rounds or 0, cohorts)
            result["rounds_that_fit"] = fit
    if json:
        endless = result["would"] == math.inf  # JSON has no infinity
        typer.echo(json_format.dumps(result | {"would": None} if endless else result))
    elif refusal is not None:
        screen.print(refusal, markup=False, soft_wrap=True)
        if result["cap"] is not None:
            how = "plan the run with a smaller epsilon, or have a larger cap decided (tacit ledger cap)"
            screen.print(f"to go on: {how}", soft_wrap=True)
    else:
        _tell_budget(result)
        known = result["counted_by"] == "filter"
        why = "it may be chosen by the results of earlier runs" if known else "nothing was released before"
        screen.print(f"the run fits: with it epsilon would be {_number(result['would'])} ({why})", soft_wrap=True)
    raise typer.Exit(0 if refusal is None else 1)


@app.command()
def show(
    file: File,
    events: Annotated[bool, typer.Option("--events", help="Also what each run released.")] = False,
    report: options.Report = None,
    json: Json = False,
) -> None:
    """Show the runs, what each would cost alone, what all have spent together, and what is left.

    With --report, a page for people who do not know the method, with a picture of the budget over time.

    Example: `tacit ledger show alder.ledger`
    """
    from tacit.privacy.ledger.statement import statement

    names.report_file(report, [file], [])
    with _open(file) as ledger:
        result = statement(ledger)
    if report is not None:
        from tacit.html.words import written
        from tacit.report import pages

        write_private(report, pages.ledger(result | written()))
        err.print(f"wrote {report}", markup=False, soft_wrap=True)
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"{result['population']}, since {result['created']}", markup=False, soft_wrap=True)
    for cap_ in result["caps"]:
        why = f": {cap_['why']}" if cap_["why"] else ", without a reason"
        limits = f"epsilon = {cap_['epsilon']:.6g} at delta = {cap_['delta']:.6g}"
        screen.print(f"cap {limits}, set {cap_['when']} by {cap_['who']}{why}", markup=False, soft_wrap=True)
    if result["runs"]:
        screen.print(_runs(result["runs"]))
    for run in result["runs"] if events else []:
        screen.print(f"{run['run']}:", markup=False, soft_wrap=True)
        for event, count in run["events"].items():
            screen.print(f"  {count:,} x {event}", markup=False, soft_wrap=True)
    for cohort in result["cohorts"] or []:
        screen.print(
            f"cohort {cohort['cohort']}: epsilon = {_number(cohort['spent'])}, in {cohort['runs']} runs", markup=False
        )
    _tell_budget(result)
    if (ahead := result["forecast"]) is not None:
        screen.print(f"room for {_more(ahead)} like the last one")
    if result["colluders"] is not None:
        screen.print(
            f"some of these runs share their noise: the epsilon holds if at most {result['colluders']} of their other "
            "members put together what they know; against more of them it is larger (tacit plan --colluders says how "
            "much)",
            soft_wrap=True,
        )


@app.command()
def verify(
    file: File,
    head: Head = None,
    data: Annotated[str | None, typer.Option(help="Refuse the ledger if no run in it used these records.")] = None,
    json: Json = False,
) -> None:
    """Check that a ledger adds up: that no row was changed, and that every rule was kept.

    An old copy of a ledger adds up, too. To notice that, keep the head that this command prints in another place, and
    give it with --head next time. Agents give theirs to their neighbours.

    Example: `tacit ledger verify alder.ledger`
    """
    from tacit.privacy.ledger.statement import budget

    with _open(file) as ledger:
        found = ledger.verify(head)
        if data is not None and not ledger.knows(_records_of(data, ledger)):
            raise InputError(f"no run in {file} has used the records of {data}")
    result = budget(found.cap, found.epsilon) | {
        "population": found.population,
        "created": found.created,
        "reservations": found.reservations,
        "released": found.released,
        "book": found.head.book,
        "rows": found.head.rows,
        "head": found.head.head,
    }
    if json:
        typer.echo(json_format.dumps(result))
        return
    screen.print(f"adds up: {found.reservations:,} reservations, {found.released:,} releases")
    _tell_budget(result)
    typer.echo(f"head: {found.head.head}")


@app.command()
def head(
    file: File,
    to: Annotated[
        Path, typer.Option(help="A folder on other storage.", envvar="TACIT_LEDGER_HEADS", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Keep the ledger's head in a second place, on other storage: a share, or a USB stick.

    If the environment variable TACIT_LEDGER_HEADS names a folder, every command keeps the head of its ledger there, and
    refuses a ledger that is older. A new ledger begins so. For one that has rows already, this command writes the head
    to the folder. Use it, too, when the second place was refused because it is behind, damaged or missing; find out
    first why it is. A ledger that is older than the second place is refused here, as everywhere.

    Example: `tacit ledger head alder.ledger --to /media/stick/heads`
    """
    from tacit.privacy.ledger.second import rewritten

    where, before, found = rewritten(file, to)
    if json:
        typer.echo(json_format.dumps({"file": str(where), "rows_before": before} | found._asdict()))
    else:
        screen.print(f"{where}: {found.rows:,} rows (before: {before:,})", markup=False, soft_wrap=True)


@app.command()
def cap(file: File, epsilon: Epsilon, delta: Delta, why: Why = "", who: Who = None, json: Json = False) -> None:
    """Set the cap: what all releases, past and future, may cost together.

    You can raise the cap, or lower it down to what is spent. Decide it without looking at what was released. The ledger
    keeps who changed it, when and why.

    Example: `tacit ledger cap alder.ledger --epsilon 1 --delta 1e-6 --why 'ethics board, 12 March'`
    """
    from tacit.privacy.ledger import Cap
    from tacit.privacy.ledger.statement import budget_of

    limit = Cap(epsilon, delta)
    with _open(file) as ledger:
        ledger.set_cap(limit, who=who, why=why)
        result = budget_of(ledger)
    if json:
        typer.echo(json_format.dumps(result))
    else:
        _tell_budget(result)


def _runs(runs: list[dict[str, Any]]) -> Table:
    """A table with a line for each run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("when", "run", "what", "epsilon", "total", "left"):
        table.add_column(name, justify="right" if name in ("epsilon", "total", "left") else "left", no_wrap=True)
    longest = max(len(_short(run["run"])) for run in runs)
    room = max(screen.width - 16 - longest - 3 * 8 - 10, 10)  # what time, run, numbers and the gaps leave
    for run in runs:
        what = " ".join(text for text in (run["method"], run["title"]) if text)
        what = what if len(what) <= room else f"{what[: room - 1]}…"
        when = run["when"][:16].replace("T", " ")
        numbers = ("-" if run[name] is None else f"{run[name]:.4g}" for name in ("epsilon", "total", "left"))
        table.add_row(when, escape(_short(run["run"])), escape(what), *numbers)
    return table


def _short(run: str) -> str:
    """A run's name, short enough for a line: of a hash, its beginning."""
    return run if len(run) <= 16 else f"{run[:8]}…"


def _more(ahead: dict[str, Any]) -> str:
    """How many runs, in words."""
    more = ahead["more"]
    if more == 1:
        return "one more run"
    if not more:
        return "no more runs"
    return f"{'more than ' if more >= ahead['at_most'] else ''}{more} more runs"


def _of_events(one_round: list[Event], rounds: int | None) -> Counter[Event]:
    """What so many rounds pay for."""
    if rounds is None:
        raise InputError("--event is what a round releases: give --rounds, too")
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InputError(f"--rounds must lie between 1 and {MOST_ROUNDS:,}, not {rounds}")
    return Counter(one_round * rounds)


def _of_federation(path: Path, member: str | None) -> Counter[Event]:
    """What a member of a federation pays for."""
    names.require_agent()
    from tacit.agent.federation import TOTALS, Federation
    from tacit.agent.participant import planned, reserved

    agreed = Federation.load(path)
    if member not in agreed.names:
        raise InputError(f"--member is whose ledger this is: one of {', '.join(agreed.names)}; not {member!r}")
    if not agreed.private:
        raise InputError("this federation has no budget: no ledger pays for it")
    plan = reserved if agreed.exchange == TOTALS else planned
    return Counter(plan(agreed, agreed.names.index(member)).values())


def _of_plan(path: Path) -> list[Counter[Event]]:
    """What each agent of a plan pays for."""
    from tacit.data.text import read_text
    from tacit.privacy.events import from_plain

    try:
        agents = json_format.loads(read_text(path))["agents"]
        plans = [dict(zip(map(from_plain, each["round"]), each["times"], strict=True)) for each in agents]
        if not plans or any(type(n) is not int or not 1 <= n <= MOST_ROUNDS for each in plans for n in each.values()):
            raise ValueError
        return [Counter(each) for each in plans]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not a plan: save what tacit plan --json prints") from None


def _cost(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    from tacit.privacy.filters import epsilon  # slow to import: not for --help

    return epsilon(planned, later, cap)


def _open(file: Path) -> Ledger:
    from tacit.privacy.ledger import Ledger

    return Ledger(file, cost=_cost)


def _records(data: str | None, ledger: Ledger) -> Records | None:
    return None if data is None else _records_of(data, ledger)


def _records_of(data: str, ledger: Ledger) -> Records:
    from tacit.cli.records import records_of

    return records_of(names.records(data), ledger)


def _tell_budget(result: dict[str, Any]) -> None:
    from tacit.privacy.ledger.statement import in_figures

    screen.print(in_figures(result), markup=False, soft_wrap=True)


def _number(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:.6g}"
