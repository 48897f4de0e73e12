"""The command line: `tacit demo`, `schema`, `train`, `predict`, `plan`, `compare`, `reproduce`, `audit`, `attack`,
`ledger`, `identity`, `federation`, `agent`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tacit import __version__
from tacit.cli import agent, federation, identity, ledger
from tacit.cli.attack import attack
from tacit.cli.audit import audit
from tacit.cli.compare import compare
from tacit.cli.demo import demo
from tacit.cli.plan import plan
from tacit.cli.predict import predict
from tacit.cli.reproduce import reproduce
from tacit.cli.schema import schema
from tacit.cli.train import train
from tacit.errors import TacitError

app = typer.Typer(
    name="tacit",
    help="Several organisations fit one model together, talking only to their neighbours. No server, no pooled data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (demo, schema, train, predict, plan, compare, reproduce, audit, attack):
    app.command()(command)
for name, group in {"ledger": ledger, "identity": identity, "federation": federation, "agent": agent}.items():
    app.add_typer(group.app, name=name)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point: an expected error is one line on standard error and exit code 2, never a traceback."""
    try:
        app()
    except TacitError as error:
        message = " ".join(str(error).split())
        print(f"tacit: error: {message}", file=sys.stderr)
        sys.exit(2)
