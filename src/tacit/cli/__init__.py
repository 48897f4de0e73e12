"""The command line. Each command is a module that is imported when it is called, so help and version come at once."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tacit import __version__
from tacit.cli import old
from tacit.errors import NotNow, TacitError

# `tacit --help` shows these in three groups: the first paragraph of the help of each command. A test compares them.
GROUPS = {
    "Everyday": {
        "demo": "Train one classifier for five organisations on the embedded census data (UCI Adult), not pooled.",
        "schema": "Draft a schema: the file that says how records become numbers, the same for all organisations.",
        "validate": "List everything in a file of records that a schema does not allow, with places and suggestions.",
        "plan": "Show what a private run will cost every agent, before any data is read.",
        "train": "Train one model for several organisations without pooling their data.",
        "predict": "Apply a model to a file of records, and write one line for each record, in the order of the file.",
    },
    "Organisations": {
        "ledger": "Keep the privacy ledger of a population: create it, set its cap, check a run, see what was spent.",
        "identity": "Create the key and the certificate of an organisation.",
        "federation": "Write, show and check the file that all members of a federation agree on.",
        "agent": "Take part in a federation, with your own records.",
        "certificate": "Collect the signed reports of a finished run in one document, and check such a document.",
    },
    "Laboratory": {
        "compare": "Compare all private methods at one total budget, on the same records.",
        "coalition": "Show what some agents learn about the others if they put together what they hear.",
        "reproduce": "Reproduce the figures of a paper, and check its claims.",
        "audit": "Test whether a private method reveals more than it claims.",
        "attack": "Attack a method without privacy, and show what its messages reveal: gradients, then records.",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
# The product imports nothing of the laboratory: what is there is found by its name. The demo ends with a comparison.
_IN_THE_LABORATORY = {*GROUPS["Laboratory"], "demo"}


class _Commands(TyperGroup):
    """Lists the commands by the table above, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        if name == "plan" and (gone := old.used(rest)):
            print(f"warning: {', '.join(gone)} is now --set NAME=VALUE (see tacit plan --help)", file=sys.stderr)
            rest = old.renamed(name, rest)
        return name, listed if name is None else load(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # typer ends with 130 and says nothing; notes say what was spent and written
            print("; ".join(["tacit: stopped", *getattr(stop, "__notes__", [])]), file=sys.stderr)
            raise


def load(name: str) -> Any:
    """The command of that name: a group, if its module has an `app`; else the module's function of that name."""
    gc.disable()  # what is imported stays: to look for garbage in it takes a tenth of the time
    try:
        module = import_module(f"tacit.{'lab.cli' if name in _IN_THE_LABORATORY else 'cli'}.{name}")
    finally:
        gc.enable()
    if not (called := getattr(module, "app", None)):
        called = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        called.command(name)(getattr(module, name))
    command = typer.main.get_command(called)
    command.name = name
    return command


app = typer.Typer(
    name="tacit",
    cls=_Commands,
    help="Fit one model for several organisations that talk only to their neighbours. No server, no pooled data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for _group, _commands in GROUPS.items():
    for _name, _summary in _commands.items():
        app.command(_name, help=_summary, rich_help_panel=_group)(lambda: None)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point. An expected error is one line on standard error and its exit code, never a traceback."""
    agent = sys.argv[1:3] == ["agent", "run"]
    if agent:
        _on_signals(_stop)  # until `tacit.agent.stopping` takes over, and after it
    try:
        if agent:
            import_module("tacit.cli.memory").require()
        app()
    except TacitError as error:
        message = " ".join(str(error).split())
        print(f"tacit: error: {message}", file=sys.stderr)
        sys.exit(error.exit_code)
    except MemoryError as error:
        print(
            f"tacit: error: not enough memory: {' '.join(str(error).split()) or 'take a smaller run'}", file=sys.stderr
        )
        sys.exit(TacitError.exit_code)
    finally:
        if agent:
            _on_signals(signal.SIG_IGN)  # the exit code is decided; Python's own end would forget any other handler


def _on_signals(handler: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:
    """Ends an agent that is being loaded. Not by an error: in the middle of an import, others could catch it."""
    line = f"tacit: error: stopped by {signal.Signals(number).name}; nothing is lost: start it again\n"
    with suppress(OSError):
        os.write(2, line.encode())
    os._exit(NotNow.exit_code)
