"""`tacit federation status` and `without`: the other members, as one member knows them."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacit.cli import names, options
from tacit.cli.agent_status import ago, heard
from tacit.cli.console import out as screen
from tacit.cli.federation_keys import File

_REPORT = "The signed report of a member that has finished (NAME.report.json)."


def status(file: File, identity: options.Home, store: options.StoreFile = None, json: options.Json = False) -> None:
    """Show all members of the run, as your agent knows them: who has met, and how far each is.

    It shows what members sign and pass on in any case: that they have met their neighbours, and up to which round they
    have spoken. Of your neighbours it also shows when your agent has last heard from them. Nothing more is asked of
    anybody, and nothing comes from records.

    Example: `tacit federation status federation.toml --identity alder`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.monitoring.status import everybody, store_name

    agreed, own = Federation.load(file), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    found = everybody(agreed, store or identity / store_name(agreed))
    if json:
        typer.echo(json_format.dumps(found))
        return
    known = f"as {found['seen_by']} knew it {ago(found['seconds_ago'])}"
    screen.print(f"{found['title']}: run {found['run'][:16]}, {known}", markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("member")
    table.add_column("round", justify="right")
    table.add_column("what is known", overflow="fold")
    for one in found["members"]:
        reached = "" if one["round"] is None else f"{one['round']}/{found['rounds']}"
        table.add_row(one["member"], reached, _known(one, found))
    screen.print(table)


def _known(one: dict[str, Any], found: dict[str, Any]) -> str:
    if one["left_out"]:
        return "the others go on without it"
    said = [] if one["accused"] is None else [f"it has signed two versions of what it said at tick {one['accused']}"]
    if not one["met"]:
        said.append("it has not signed yet that it has met its neighbours")
    if one["member"] == found["seen_by"]:
        said.append(f"this agent: {found['doing']}")
    elif one["neighbour"]:
        said.append(heard(one["seconds_since"]))
    else:
        said.append("not a neighbour")
    return "; ".join(said)


def without(
    file: File, report: Annotated[Path, typer.Argument(help=_REPORT, show_default=False)], identity: options.Home
) -> None:
    """Learn from another member's report that the others have finished without you, so that your agent does not wait.

    If your agent was away for long, the others may have gone on without it, finished, and ended their agents: then
    nobody is there to tell yours. Ask one of them for its report. This command checks it, with the signatures that show
    why they went on, and keeps it in your folder. From then on your agent ends with 78.

    Example: `tacit federation without federation.toml cedar.report.json --identity birch`
    """
    names.require_agent()
    from tacit.agent.certificate import left_behind
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity

    agreed, own = Federation.load(file), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    kept = left_behind.keep(identity, agreed, own.name, report)
    text = f"the others have finished without {own.name}: its agent ends with 78 from now on ({kept})"
    screen.print(text, markup=False, soft_wrap=True)
