"""`tacit agent`: one organisation's own process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.agent.monitoring.logs import Format, Level, log
from tacit.agent.monitoring.progress import Progress
from tacit.cli import agent_outside as outside
from tacit.cli import names, options
from tacit.cli.agent_status import status
from tacit.cli.agent_store import backup, doctor, restore
from tacit.cli.expand import expanded
from tacit.cli.records import NOT_COVERED, encoded_for_a_log, in_parts, read_for_a_log, records_of
from tacit.errors import InputError, number
from tacit.files import writable, write_private
from tacit.privacy.noise import SecureNoise

if TYPE_CHECKING:
    import numpy as np

    from tacit.agent.participant import Participant
    from tacit.data import Dataset
    from tacit.engines import Ray
    from tacit.engines.records_in_parts import RecordsInParts

app = typer.Typer(
    help="Take part in a federation, with your own records.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

_EXACT = "Agree to exchange exact values, which is not private: for federations without a privacy target."
_REPORT = "Also write a report to read, as one HTML file, when the run is finished."
_METRICS = (
    "Serve metrics for Prometheus and a health check on this machine, at this port: /metrics and /healthz. "
    "ADDRESS:PORT for another address: then they are open to whoever reaches it."
)
_DATA = "Your records: a CSV or Parquet file; with --engine ray a pattern of such files, in quotes."
_ENGINE = "Where your records are: local (in this process) or ray (in the processes of a Ray cluster, for large ones)."
LogFormat = Annotated[
    Format, typer.Option(help="How lines of the log are written: for people, or one JSON object each.")
]
LogLevel = Annotated[Level, typer.Option(help="The least level of the lines of the log.")]
MetricsAt = Annotated[str | None, typer.Option("--metrics", help=_METRICS, metavar="PORT", show_default=False)]


@dataclass(frozen=True)
class Visibility:
    """How people and programs see what the agent does."""

    page: options.Page = None
    metrics: MetricsAt = None
    log_format: LogFormat = Format.TEXT
    log_level: LogLevel = Level.INFO


@dataclass(frozen=True)
class RecordsPlace:
    """Where the records are read."""

    engine: Annotated[str, typer.Option(help=_ENGINE)] = "local"
    address: options.Address = None


@app.command()
@expanded
def run(
    federation: options.FederationFile,
    identity: options.Home,
    data: Annotated[str, typer.Option(help=_DATA, show_default=False)],
    watched: Visibility,
    place: RecordsPlace,
    ledger: Annotated[Path | None, typer.Option(help="The ledger of these records, with its cap.")] = None,
    out: Annotated[Path, typer.Option(help="The model file; the report goes into the same folder.")] = Path(
        "model.json"
    ),
    store: options.StoreFile = None,
    listen: Annotated[str | None, typer.Option(help=options.LISTEN)] = None,
    patience: Annotated[float | None, typer.Option(help="Stop after waiting so many seconds for a neighbour.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help=_EXACT)] = False,
    report: Annotated[Path | None, typer.Option(help=_REPORT, show_default=False)] = None,
) -> None:
    """Run your agent: check everything, wait for the neighbours, train, and write the model and a signed report.

    The agent sends nothing before it has checked data, schema, certificates and ledger. It charges the whole run to the
    ledger before the first message. After a crash, start the same command again: it continues where it stopped.

    SIGTERM and Ctrl-C end the agent within five seconds. Exit codes, for a supervisor: 0 done; 75 stopped, or waited
    too long (start it again); 74 the machine is in the way, such as a full disk or a port in use (start it again); 77
    refused by the ledger; 78 this run is over for this member; 2 a mistake in the command or in a file. After 2, 77 and
    78 somebody has to look first.

    With --page you can watch the agent in a browser on this machine: its round, its neighbours, the budget and the log.
    With --report it writes a page about the run at the end, for people who do not know the method.

    The log goes to standard error. Every line has a time, a level, the run and the tick. No line has a secret or a
    value of a record. If lines cannot be written, they are lost, and the agent goes on.

    Example: `tacit agent run --federation fed.toml --identity alder --data alder.csv --ledger alder.ledger`

    Records that do not fit into the memory of one machine can lie in many files, read by the processes of a Ray
    cluster. They stay there: only sums over them reach this process. The guarantee is the same.

    Example: `tacit agent run --federation fed.toml --identity alder --data 'part-*.parquet' --ledger alder.ledger
    --engine ray --address auto`
    """
    names.require_agent()
    page, metrics, log_format, log_level = watched.page, watched.metrics, watched.log_format, watched.log_level
    from tacit.agent import stopping
    from tacit.agent.monitoring import logs, systemd
    from tacit.agent.monitoring.page import loopback
    from tacit.agent.run import take_part

    progress = Progress(systemd.alive)
    paths = [federation, identity, Path(data), out, *(path for path in (ledger, store, report) if path is not None)]
    folders = [str(identity), *(str(each.parent) for path in paths for each in (path, path.resolve()))]
    write = outside.above_the_bar() if log_format == Format.TEXT else None
    with (
        stopping.outside_of_the_loop(),
        logs.kept(log_format, log_level, progress, folders, write) as lines,
        outside.ending_in_the_log(),
        ExitStack() as opened,  # what a cluster holds of the records
    ):
        if patience is not None:
            number("patience", patience)
        if page is not None:
            loopback(page)  # refuses a bad one before anything is read
            if log_format == Format.JSON:
                raise InputError("--page writes an address for a person, which is secret: leave out --log-format json")
        if metrics is not None:
            from tacit.agent.monitoring.prometheus import address as metrics_address

            metrics_address(metrics)
        inputs: list[str | Path] = [federation, data, *([] if ledger is None else [ledger])]
        report_file = out.with_suffix(".report.json")
        writable(out, inputs)
        writable(report_file, inputs)
        names.report_file(report, inputs, [out, report_file])
        cluster = names.shards(place.engine, None, place.address)
        participant = _participant(federation, identity, data, ledger, store, exact, cluster, opened, progress)
        progress.enter(participant.name, participant.federation.run, participant.federation.rounds)
        participant.check()
        _tell_plan(participant)
        absent: list[str] = []

        def finished(participant: Participant, model: np.ndarray) -> None:
            files = {"federation": federation, "report": report_file, "ledger": ledger}
            _write(participant, model, out, report, files)
            absent[:] = participant.federation.absent

        with (
            outside.watched(page, participant, ledger, lines),
            outside.measured(metrics, progress, ledger, lines),
            outside.bar(write is not None, participant.federation.rounds) as watch,
        ):
            stopping.run(
                take_part(
                    participant, listen=listen, patience=patience, watch=watch, finished=finished, progress=progress
                ),
                lambda: f"in {progress.place}",
                outside.last_words(lines),
            )
        without = f", without {', '.join(absent)}" if absent else ""
        log.info(f"{progress.member}: {progress.rounds} rounds done{without}")


app.command()(status)
app.command()(doctor)
app.command()(backup)
app.command()(restore)


def _write(
    participant: Participant, model: np.ndarray, out: Path, report: Path | None, files: dict[str, Path | None]
) -> None:
    """Writes the model, the signed report, and a report to read, if one is asked for."""
    from tacit.agent.certificate import signed_report
    from tacit.agent.certificate.trained_model import model_of
    from tacit.report import pages
    from tacit.report.taken_part import taken_part

    made, signed_file = model_of(participant.federation, participant.name, model), files["report"]
    assert signed_file is not None
    made.save(out)
    signed_report.write(participant, model, signed_file)
    if report is not None:
        write_private(report, pages.run(taken_part(participant, made, files)))
    log.info(f"wrote {' and '.join(file.name for file in (out, signed_file, report) if file is not None)}")


def _participant(
    federation: Path,
    identity: Path,
    data: str,
    ledger: Path | None,
    store: Path | None,
    exact: bool,
    cluster: Ray | None,
    stack: ExitStack,
    progress: Progress,
) -> Participant:
    """Reads and checks everything that the agent needs; what the cluster holds of it is let go with the stack.

    `progress` hears who this is as soon as that is known, for the lines of the log about the rest."""
    from tacit.agent.certificate import left_behind
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.ledger_heads import Books
    from tacit.agent.membership.revocation import namesakes, revoked
    from tacit.agent.monitoring.status import store_name
    from tacit.agent.participant import Participant
    from tacit.agent.store import Store
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Ledger

    agreed, own = Federation.load(federation).refusing(revoked(identity)), Identity.load(identity)
    me = agreed.place(own.name, own.certificate)
    progress.enter(own.name, agreed.run, agreed.rounds)
    agreed = agreed.as_of_now(own.name)
    for name in namesakes(identity, agreed):
        log.warning(f"{name} was revoked here with another certificate; this federation file lets it in with a new one")
    if not agreed.private and not exact:
        raise InputError(
            "this federation has no budget, so nothing of it is private; if you agree to that, give --exact"
        )
    if agreed.private and exact:
        raise InputError("this federation is private; leave out --exact")
    if agreed.private == (ledger is None):
        raise InputError(
            "give --ledger, the ledger of these records"
            if agreed.private
            else "without a budget nothing is paid for: leave out --ledger"
        )
    opened = None if ledger is None else Ledger(ledger, cost=epsilon)
    records: Dataset | RecordsInParts
    if cluster is None:
        table = read_for_a_log(data)
        records = encoded_for_a_log(table, agreed.schema)
        _told(records.clipped, records.unknown, len(records), len(table))
        charged = None if opened is None else records_of(table, opened)
    else:
        records, charged = stack.enter_context(in_parts(data, agreed.schema, opened, cluster, _told))
    path = store or identity / store_name(agreed)
    kept = stack.enter_context(closing(Store(path, agreed.run, own.name, agreed.rounds, alone=True)))
    books = None if opened is None else Books(identity)
    if opened is not None and books is not None:
        books.note_own(opened)
    participant = Participant(
        agreed, me, own, records, kept, opened, SecureNoise(), records=charged, books=books
    ).present()
    _ = participant.problem  # checked
    if not participant.finished:
        left_behind.check(identity, agreed, own.name)
    return participant


def _told(clipped: Mapping[str, int], unknown: Mapping[str, int], kept: int, rows: int) -> None:
    """Says what was done to some of the records, and not to how many."""
    for what, columns in (("lie outside the schema's bounds", clipped), ("are no category", unknown)):
        for column in columns:
            log.warning(f"column {column!r}: some values {what}; tacit validate says which{NOT_COVERED}")
    if kept < rows:
        log.warning(f"some rows lack a value and were left out; tacit validate says which{NOT_COVERED}")


def _tell_plan(participant: Participant) -> None:
    """Says what the run will cost, and what the ledger allows."""
    from tacit.agent.federation import TOTALS
    from tacit.agent.guarantee import statement
    from tacit.privacy.accounting import totals

    budget, (_, events) = participant.federation.spec.budget, participant.paid
    agreed = participant.federation.agreed or participant.federation
    log.info(f"{participant.name} in {participant.federation.title!r}, run {participant.federation.run[:16]}")
    if budget is None or participant.ledger is None:
        log.warning("no budget is agreed on: nothing of this run is private")
        return
    noisy = sum(not event.free for event in events.values())
    whole = totals(Counter(events.values()), budget.delta).best
    log.info(f"{len(events)} releases, {noisy} with noise: epsilon = {whole:.4g} at delta = {budget.delta:g}")
    if participant.federation.exchange == TOTALS:
        log.info(f"the members share their noise: {statement(agreed)}")
    paid = ", this run included" if participant.has_paid else ""
    spent, cap = participant.ledger.epsilon(), participant.ledger.cap()
    log.info(f"ledger: epsilon = {spent:.4g} is spent{paid}; the cap is {cap}")
