"""`tacit schema`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.console import tell
from tacit.data import Schema, read_csv
from tacit.files import replacing


def schema(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header line.", show_default=False)],
    label: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Where to write it; standard output by default.")] = None,
) -> None:
    """Draft a schema: how a file becomes numbers, for all organisations alike.

    The draft reads bounds and categories off the file. That is itself a leak: before a private run, replace every
    bound and category by public knowledge (a code book, a physical limit), and give all organisations the same file.

    Example: `tacit schema patients.csv --label died --out schema.toml`
    """
    drafted, notes = Schema.draft(read_csv(file), label)
    tell(notes)
    comments = "".join(f"# {note}\n" for note in notes)
    text = comments + drafted.to_toml()
    if out is None:
        typer.echo(text, nl=False)
    else:
        with replacing(out) as draft:
            draft.write_text(text)
        typer.echo(f"{out}: {drafted.dimension} features from {len(drafted.columns)} columns", err=True)
