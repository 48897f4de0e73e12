"""`tacit agent`: one organisation's own process."""

from __future__ import annotations

import asyncio
import json as json_format
import logging
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import names
from tacit.cli.console import err, rounds_bar, warn
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.cli.records import NOT_COVERED, encoded
from tacit.errors import InputError, TacitError, number
from tacit.files import writable
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
_LISTEN = "HOST:PORT to listen at, if it differs from the address in the federation file."
_ALIVE = 10.0  # a process without a heartbeat for so many seconds is not running
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
) -> None:
    """Run your agent: check everything, wait for the neighbours, train, and write the model and a signed report.

    The agent sends nothing before it has checked data, schema, certificates and ledger. It charges the whole run to the
    ledger before the first message. After a crash, start the same command again: it continues where it stopped.

    Example: `tacit agent run --federation fed.toml --identity alder --data alder.csv --ledger alder.ledger`
    """
    names.require_agent()
    from tacit.agent import handshakes

    handshakes.trace()
    from tacit.agent import report
    from tacit.agent.run import take_part
    from tacit.agent.trained import model_of

    if patience is not None:
        number("patience", patience)
    inputs: list[str | Path] = [federation, data, *([] if ledger is None else [ledger])]
    report_file = out.with_suffix(".report.json")
    writable(out, inputs)
    writable(report_file, inputs)
    participant = _participant(federation, identity, data, ledger, store, exact)
    logging.getLogger("tacit.agent").addHandler(_Warnings())
    participant.check()
    _tell_plan(participant)
    last_line: list[str] = []  # below the bar
    with handshakes.watched(), rounds_bar(participant.federation.rounds) as bar:

        def watch(doing: str, done: int, rounds: int) -> None:
            bar.update(bar.task_ids[0], description=doing, completed=done, total=rounds)

        def finished(participant: Participant, model: np.ndarray) -> None:
            model_of(participant.federation, participant.name, model).save(out)
            report.write(participant, model, report_file)
            err.print(f"wrote {out} and {report_file}", markup=False, soft_wrap=True)
            without = f", without {', '.join(participant.federation.absent)}" if participant.federation.absent else ""
            last_line.append(f"{participant.name}: {participant.federation.rounds} rounds done{without}")

        try:
            asyncio.run(take_part(participant, listen=listen, patience=patience, watch=watch, finished=finished))
        except KeyboardInterrupt:
            raise TacitError("stopped by you; nothing is lost: start the same command again to continue") from None
    screen.print(*last_line, markup=False)


@app.command()
def status(federation: FederationFile, identity: Home, store: StoreFile = None, json: Json = False) -> None:
    """Show how far an agent is: its round, its neighbours, what it has released. Use it in another terminal.

    Example: `tacit agent status --federation fed.toml --identity alder`
    """
    names.require_agent()
    from tacit.agent import store as stores
    from tacit.agent.federation import TOTALS, Federation
    from tacit.agent.identity import Identity
    from tacit.agent.method import PrivateMethod
    from tacit.agent.participant import reduced_store
    from tacit.privacy.accounting import totals

    agreed, own = Federation.load(federation), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    path = _store_path(store, identity, agreed)
    events = []  # of all that one budget pays for
    while (found := stores.status(path)).without:
        events += found.events if agreed.exchange == TOTALS else []
        agreed = agreed.without(found.without)
        path = reduced_store(path, agreed)
    events += found.events
    method, now = agreed.method, time.time()
    alive = found.heartbeat is not None and now - found.heartbeat < _ALIVE
    spent = totals(Counter(events), method.delta).best if isinstance(method, PrivateMethod) and events else None
    peers = {name: None if contact is None else now - contact for name, contact in found.peers.items()}
    done = min(max(found.tick, 0), found.rounds)
    if json:
        result = {"member": found.member, "run": found.run, "round": done, "rounds": found.rounds, "alive": alive}
        result |= {"doing": found.doing, "seconds_since": peers, "epsilon": spent, "without": agreed.absent}
        typer.echo(json_format.dumps(result))
        return
    doing = found.doing if alive or found.doing == "finished" else f"not running; it was {found.doing}"
    screen.print(f"{found.member}: round {done} of {found.rounds}; {doing}", markup=False)
    if agreed.absent:
        screen.print(f"  goes on without {', '.join(agreed.absent)}", markup=False)
    for name, ago in peers.items():
        screen.print(
            f"  {name}: {'not heard from yet' if ago is None else f'heard from {ago:.0f} s ago'}", markup=False
        )
    cost = "" if spent is None else f", epsilon = {spent:.4g} so far (the whole run is paid for)"
    screen.print(f"released {len(events)} times{cost}")


class _Warnings(logging.Handler):
    """Shows what the transport logs as warnings above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def _participant(
    federation: Path, identity: Path, data: str, ledger: Path | None, store: Path | None, exact: bool
) -> Participant:
    """Reads and checks everything that the agent needs."""
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
    records = encoded(names.records(data), agreed.schema, NOT_COVERED if private else "")
    opened = None if ledger is None else Ledger(ledger, cost=epsilon, dataset=names.dataset(data))
    kept = Store(_store_path(store, identity, agreed), agreed.run, own.name, agreed.rounds)
    participant = Participant(agreed, me, own, records, kept, opened, SecureNoise()).present()
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

    method, (run, events) = participant.federation.method, participant.paid
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
    paid = run in {each.run for each in participant.ledger.runs()}
    screen.print(
        f"ledger: epsilon = {participant.ledger.epsilon():.4g} is spent{', this run included' if paid else ''}; "
        f"the cap is {participant.ledger.cap()}",
        markup=False,
    )
