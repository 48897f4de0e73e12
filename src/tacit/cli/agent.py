"""`tacit agent`: one organisation's own process."""

from __future__ import annotations

import json as json_format
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import names, options
from tacit.cli.console import err, rounds_bar, tell_written, warn
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.cli.records import NOT_COVERED, encoded, records_of
from tacit.errors import InputError, TacitError, number
from tacit.files import writable, write_private
from tacit.privacy.noise import SecureNoise

if TYPE_CHECKING:
    import numpy as np

    from tacit.agent.federation import Federation
    from tacit.agent.participant import Participant

app = typer.Typer(
    help="Take part in a federation, with your own records.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

_STORE = "The file that keeps the agent's state through a crash; by default in the identity's folder."
_EXACT = "Agree to exchange exact values, which is not private: for federations without a privacy target."
_REPORT = "Also write a report to read, as one HTML file, when the run is finished."
_LISTEN = "HOST:PORT to listen at, if it differs from the address in the federation file."
FederationFile = Annotated[Path, typer.Option(help="The federation file.", show_default=False)]
Home = Annotated[Path, typer.Option("--identity", help="The folder of your key.", show_default=False)]
StoreFile = Annotated[Path | None, typer.Option(help=_STORE)]


@app.command()
def run(
    federation: FederationFile,
    identity: Home,
    data: Annotated[str, typer.Option(help="Your records: a CSV or Parquet file.", show_default=False)],
    ledger: Annotated[Path | None, typer.Option(help="The ledger of these records, with its cap.")] = None,
    out: Annotated[Path, typer.Option(help="The model file; the report goes into the same folder.")] = Path(
        "model.json"
    ),
    store: StoreFile = None,
    listen: Annotated[str | None, typer.Option(help=_LISTEN)] = None,
    patience: Annotated[float | None, typer.Option(help="Stop after waiting so many seconds for a neighbour.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help=_EXACT)] = False,
    report: Annotated[Path | None, typer.Option(help=_REPORT, show_default=False)] = None,
    page: options.Page = None,
) -> None:
    """Run your agent: check everything, wait for the neighbours, train, and write the model and a signed report.

    The agent sends nothing before it has checked data, schema, certificates and ledger. It charges the whole run to the
    ledger before the first message. After a crash, start the same command again: it continues where it stopped.

    SIGTERM and Ctrl-C end the agent within five seconds. Exit codes, for a supervisor: 0 done; 75 stopped, or waited
    too long (start it again); 77 refused by the ledger; 78 this run is over for this member; 2 a mistake in the command
    or in a file. After 2, 77 and 78 somebody has to look first.

    With --page you can watch the agent in a browser on this machine: its round, its neighbours, the budget and the log.
    With --report it writes a page about the run at the end, for people who do not know the method.

    Example: `tacit agent run --federation fed.toml --identity alder --data alder.csv --ledger alder.ledger`
    """
    names.require_agent()
    from tacit.agent import handshakes

    handshakes.trace()
    from tacit.agent import report as signed
    from tacit.agent import stopping
    from tacit.agent.page import loopback
    from tacit.agent.run import take_part
    from tacit.agent.trained import model_of
    from tacit.report.document.run import run as document
    from tacit.report.document.taken_part import taken_part

    if patience is not None:
        number("patience", patience)
    if page is not None:
        loopback(page)  # refuses a bad one before anything is read
    inputs: list[str | Path] = [federation, data, *([] if ledger is None else [ledger])]
    report_file = out.with_suffix(".report.json")
    writable(out, inputs)
    writable(report_file, inputs)
    names.report_file(report, inputs, [out, report_file])
    participant = _participant(federation, identity, data, ledger, store, exact)
    logging.getLogger("tacit.agent").addHandler(_Warnings())
    participant.check()
    _tell_plan(participant)
    last_line: list[str] = []  # below the bar
    files = {"federation": federation, "report": report_file, "ledger": ledger}
    with _watched(page, participant, ledger), handshakes.watched(), rounds_bar(participant.federation.rounds) as bar:

        def watch(doing: str, done: int, rounds: int) -> None:
            bar.update(bar.task_ids[0], description=doing, completed=done, total=rounds)

        def finished(participant: Participant, model: np.ndarray) -> None:
            made = model_of(participant.federation, participant.name, model)
            made.save(out)
            signed.write(participant, model, report_file)
            if report is not None:
                write_private(report, document(taken_part(participant, made, files)))
            tell_written(out, report_file, report)
            without = f", without {', '.join(participant.federation.absent)}" if participant.federation.absent else ""
            last_line.append(f"{participant.name}: {participant.federation.rounds} rounds done{without}")

        stopping.run(
            take_part(participant, listen=listen, patience=patience, watch=watch, finished=finished),
            lambda: f"in round {bar.tasks[0].completed:.0f} of {bar.tasks[0].total:.0f}",
        )
    screen.print(*last_line, markup=False)


@app.command()
def status(federation: FederationFile, identity: Home, store: StoreFile = None, json: Json = False) -> None:
    """Show how far an agent is: its round, its neighbours, what it has released. Use it in another terminal.

    Example: `tacit agent status --federation fed.toml --identity alder`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.watching import status as seen

    agreed, own = Federation.load(federation), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    found = seen(agreed, _store_path(store, identity, agreed))
    if json:
        typer.echo(json_format.dumps(found))
        return
    doing = found["doing"]
    if not (found["alive"] or doing == "finished"):
        doing = f"not running; it was {doing}"
    screen.print(f"{found['member']}: round {found['round']} of {found['rounds']}; {doing}", markup=False)
    if found["without"]:
        screen.print(f"  goes on without {', '.join(found['without'])}", markup=False)
    for name, ago in found["seconds_since"].items():
        screen.print(
            f"  {name}: {'not heard from yet' if ago is None else f'heard from {ago:.0f} s ago'}", markup=False
        )
    spent = found["epsilon"]
    cost = "" if spent is None else f", epsilon = {spent:.4g} so far (the whole run is paid for)"
    screen.print(f"released {found['released']} times{cost}")


@contextmanager
def _watched(where: str | None, participant: Participant, ledger: Path | None) -> Iterator[None]:
    """Serves a page to watch the agent, if one is asked for; says on it how the agent ended."""
    if where is None:
        yield
        return
    from tacit.agent.page import LastLines, Page
    from tacit.agent.watching import Watched

    first = [participant, *participant.earlier()][-1]
    lines, log = LastLines(), logging.getLogger("tacit.agent")
    member = Watched(participant.name, first.federation, first.store.path, ledger, lines.lines)
    page = Page(where, lambda: {"title": first.federation.title, "members": [member.look()]})
    err.print(f"watch it at {page.address}", markup=False, soft_wrap=True)
    failure: str | None = "stopped"
    log.addHandler(lines)
    try:
        yield
        failure = None
    except TacitError as error:
        failure = str(error)
        raise
    finally:
        page.close(failure)
        log.removeHandler(lines)


class _Warnings(logging.Handler):
    """Shows what the transport logs as warnings above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def _participant(
    federation: Path, identity: Path, data: str, ledger: Path | None, store: Path | None, exact: bool
) -> Participant:
    """Reads and checks everything that the agent needs."""
    from tacit.agent.books import Books
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.method import PrivateMethod
    from tacit.agent.participant import Participant
    from tacit.agent.store import Store
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Ledger

    agreed, own = Federation.load(federation), Identity.load(identity)
    me = agreed.place(own.name, own.certificate)
    agreed.check_dates()
    private = isinstance(agreed.method, PrivateMethod)
    if not private and not exact:
        raise InputError(
            "this federation exchanges exact values, which is not private; if you agree to that, give --exact"
        )
    if private and exact:
        raise InputError("this federation is private; leave out --exact")
    if private == (ledger is None):
        raise InputError("give --ledger, the ledger of these records" if private else "exact values need no --ledger")
    table = names.records(data)
    records = encoded(table, agreed.schema, NOT_COVERED if private else "")
    opened = None if ledger is None else Ledger(ledger, cost=epsilon)
    kept = Store(_store_path(store, identity, agreed), agreed.run, own.name, agreed.rounds)
    charged = None if opened is None else records_of(table, opened)
    books = None if opened is None else Books(identity)
    if opened is not None and books is not None:
        books.require_current(opened)
        books.note_own(opened)
    participant = Participant(
        agreed, me, own, records, kept, opened, SecureNoise(), records=charged, books=books
    ).present()
    _ = participant.problem  # checked
    return participant


def _store_path(given: Path | None, identity: Path, federation: Federation) -> Path:
    return identity / f"{federation.run[:16]}.store" if given is None else given


def _tell_plan(participant: Participant) -> None:
    """Prints what the run will cost, and what the ledger allows."""
    from tacit.agent.federation import TOTALS
    from tacit.agent.guarantee import statement
    from tacit.agent.method import PrivateMethod
    from tacit.privacy.accounting import totals
    from tacit.privacy.events import Free

    method, (_, events) = participant.federation.method, participant.paid
    agreed = participant.federation.agreed or participant.federation
    screen.print(
        f"{participant.name} in {participant.federation.title!r}, run {participant.federation.run[:16]}", markup=False
    )
    if not isinstance(method, PrivateMethod) or participant.ledger is None:
        warn("exact values leave this machine: nothing of this run is private")
        return
    noisy = sum(not isinstance(event, Free) for event in events.values())
    whole = totals(Counter(events.values()), method.delta).best
    screen.print(f"{len(events)} releases, {noisy} with noise: epsilon = {whole:.4g} at delta = {method.delta:g}")
    if participant.federation.exchange == TOTALS:
        screen.print(f"the members share their noise: {statement(agreed)}", soft_wrap=True)
    paid = ", this run included" if participant.has_paid else ""
    screen.print(
        f"ledger: epsilon = {participant.ledger.epsilon():.4g} is spent{paid}; the cap is {participant.ledger.cap()}",
        markup=False,
    )
