"""`tacit agent doctor`, `backup` and `restore`: what an agent needs, and the file that keeps its state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import names, options
from tacit.cli.console import out as screen
from tacit.files import writable

if TYPE_CHECKING:
    from tacit.agent.federation import Federation


def doctor(
    federation: options.FederationFile,
    identity: options.Home,
    data: Annotated[str, typer.Option(help="Your records: a CSV or Parquet file.", show_default=False)],
    ledger: Annotated[Path | None, typer.Option(help="The ledger of these records, with its cap.")] = None,
    store: options.StoreFile = None,
    listen: Annotated[str | None, typer.Option(help=options.LISTEN)] = None,
    json: options.Json = False,
) -> None:
    """Look at everything that your agent needs, and say what to mend. Nothing is sent, spent or changed.

    It checks the federation file, your identity, certificates and their dates, the data and the schema, the ledger, the
    store with all its digests, the clock, the disk, the neighbours and the port. The exit code is 1 if something fails.

    Example: `tacit agent doctor --federation fed.toml --identity alder --data alder.csv --ledger alder.ledger`
    """
    names.require_agent()
    from tacit.cli.doctor import examined, show

    show(examined(federation, identity, data, ledger, store, listen), json)


def backup(
    federation: options.FederationFile,
    identity: options.Home,
    out: Annotated[Path, typer.Option(help="The file to write.", show_default=False)],
    store: options.StoreFile = None,
) -> None:
    """Copy the agent's store to one file, also while the agent runs. Keep it like the records.

    Example: `tacit agent backup --federation fed.toml --identity alder --out alder.backup`
    """
    names.require_agent()
    from tacit.agent import backup as backups
    from tacit.agent.federation import Federation

    last = backups.write(_of(store, identity, Federation.load(federation)), writable(out, [federation]))[-1]
    screen.print(f"{out}: {last.member}, round {max(last.tick, 0)} of {last.rounds}", markup=False)


def restore(
    federation: options.FederationFile,
    identity: options.Home,
    file: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `tacit agent backup` wrote.")],
    store: options.StoreFile = None,
) -> None:
    """Put a backup of the agent's store back, if nothing shows that there was a newer store. Stop the agent first.

    Example: `tacit agent restore --federation fed.toml --identity alder alder.backup`
    """
    names.require_agent()
    from tacit.agent import backup as backups
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity

    agreed, own = Federation.load(federation), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    last = backups.restore(file, _of(store, identity, agreed), agreed.run, own.name)[-1]
    screen.print(f"restored: {last.member}, round {max(last.tick, 0)} of {last.rounds}", markup=False)


def _of(given: Path | None, identity: Path, federation: Federation) -> Path:
    from tacit.agent.monitoring.status import store_name

    return identity / store_name(federation) if given is None else given
