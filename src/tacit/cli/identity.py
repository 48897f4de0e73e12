"""`tacit identity`: who an agent is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import out as screen

app = typer.Typer(help="The key and the certificate of an organisation.", no_args_is_help=True, add_completion=False)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Small letters, digits, hyphens.", show_default=False)],
    folder: Annotated[Path, typer.Option("--dir", help="Where the new folder NAME goes.")] = Path(),
    days: Annotated[int, typer.Option(help="For how long the certificate is valid.")] = 730,
) -> None:
    """Make a key pair and a certificate, in a new folder that is yours alone.

    `NAME/key.pem` never leaves it. `NAME/certificate.pem` goes to the others, for the federation file.

    Example: `tacit identity new alder`
    """
    names.require_agent()
    from tacit.agent.identity import Identity, expiry, read_certificate

    made = Identity.new(name, folder, days)
    until = expiry(read_certificate(made.certificate, "the certificate"))
    home = folder / name
    screen.print(f"{home / 'key.pem'}: the private key; keep it", markup=False, soft_wrap=True)
    screen.print(
        f"{home / 'certificate.pem'}: for the others; valid until {until:%Y-%m-%d}", markup=False, soft_wrap=True
    )


@app.callback()
def _group() -> None:
    """So that `new` stays a command of its own."""
