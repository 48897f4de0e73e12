"""The command `tacit agent status`."""

from __future__ import annotations

import json as json_format
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from tacit.cli import names
from tacit.cli.console import out as screen
from tacit.cli.options import FederationFile, Json, StoreFile
from tacit.errors import InputError

_OFTEN = 1.0  # seconds between two looks, at least
_SHARE = 0.05  # of one processor, at most, for looking

OwnIdentity = Annotated[Path | None, typer.Option("--identity", help="The folder of one member.", show_default=False)]
Folder = Annotated[
    Path | None, typer.Option(help="A folder with the folders of several members: show all.", show_default=False)
]
Watch = Annotated[bool, typer.Option("--watch", help="Look again every second, until all have finished.")]


def status(
    federation: FederationFile,
    identity: OwnIdentity = None,
    folder: Folder = None,
    store: StoreFile = None,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """Show how far an agent is: its round, its neighbours, what it has released. Use it in another terminal.

    With --folder it shows all members whose folders lie there. With --watch the table stays on the screen and follows
    the agents, until all have finished or you press Ctrl-C; if the output is no terminal, it is printed once.

    Example: `tacit agent status --federation fed.toml --identity alder`

    Example: `tacit agent status --federation fed.toml --folder . --watch`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.monitoring.status import status as seen
    from tacit.agent.monitoring.status import statuses, store_name

    if (identity is None) == (folder is None):
        raise InputError("give --identity, the folder of one member, or --folder, which has the folders of several")
    if folder is not None and store is not None:
        raise InputError("--store is for one member: give --identity")
    if json and watch:
        raise InputError("--json prints once: leave out --watch")
    agreed = Federation.load(federation)
    if identity is not None:
        own = Identity.load(identity)
        agreed.place(own.name, own.certificate)
    path = None if identity is None else store or identity / store_name(agreed)

    def look() -> list[dict[str, Any]]:
        return [seen(agreed, path) | {"problem": None}] if path is not None else statuses(agreed, folder or Path())

    if json:
        found = look()
        typer.echo(json_format.dumps(found[0] if identity is not None else found))
    elif watch and screen.is_terminal:
        _follow(look)
    elif watch or folder is not None:
        screen.print(_table(look()))
    else:
        _tell(look()[0])


def _follow(look: Any) -> None:
    """Shows the table until all agents have finished."""
    with suppress(KeyboardInterrupt), Live(console=screen, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            found = look()
            live.update(_table(found), refresh=True)
            if all(one["problem"] is None and one["doing"] == "finished" for one in found):
                return
            time.sleep(max(_OFTEN, (time.monotonic() - began) / _SHARE))


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title, where in (("member", "left"), ("round", "right"), ("doing", "left"), ("neighbours", "left")):
        table.add_column(title, justify=where, overflow="fold")  # type: ignore[arg-type]
    table.add_column("epsilon", justify="right")
    for one in found:
        if one["problem"] is not None:
            table.add_row(one["member"], "", escape(one["problem"]))
            continue
        near = ", ".join(f"{name} {ago(last)}" for name, last in one["seconds_since"].items())
        spent = "" if one["epsilon"] is None else f"{one['epsilon']:.4g}"
        table.add_row(one["member"], f"{one['round']}/{one['rounds']}", escape(_doing(one)), near, spent)
    return table


def _doing(one: dict[str, Any]) -> str:
    doing = str(one["doing"])
    return doing if one["alive"] or doing == "finished" else f"not running; it was {doing}"


def ago(seconds: float | None) -> str:
    """Seconds for a person."""
    return "not yet" if seconds is None else f"{seconds:.0f} s ago"


def heard(seconds: float | None) -> str:
    """When a neighbour was last heard from."""
    return "not heard from yet" if seconds is None else f"heard from {ago(seconds)}"


def _tell(one: dict[str, Any]) -> None:
    screen.print(f"{one['member']}: round {one['round']} of {one['rounds']}; {_doing(one)}", markup=False)
    if one["without"]:
        screen.print(f"  goes on without {', '.join(one['without'])}", markup=False)
    for name, tick in one["accused"].items():
        screen.print(f"  {name} has signed two versions of what it said at tick {tick}", markup=False)
    for name, last in one["seconds_since"].items():
        screen.print(f"  {name}: {heard(last)}", markup=False)
    cost = "" if one["epsilon"] is None else f", epsilon = {one['epsilon']:.4g} so far (the whole run is paid for)"
    screen.print(f"released {one['released']} times{cost}")
