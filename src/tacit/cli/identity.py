"""`tacit identity`: the key and the certificate of an organisation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import out as screen

app = typer.Typer(
    help="Create the key and the certificate of an organisation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Your name: small letters, digits, hyphens.", show_default=False)],
    folder: Annotated[Path, typer.Option("--dir", help="Where to create the folder NAME.")] = Path(),
    days: Annotated[int, typer.Option(help="For how many days the certificate is valid.")] = 730,
) -> None:
    """Create a key pair and a certificate, in a new folder that only you can read.

    Keep `NAME/key.pem` secret: it never leaves your machine. Send `NAME/certificate.pem` to the other members, for the
    federation file.

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
    """Keeps `new` a command of its own."""
