"""The command `tacit schema`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.console import tell, working
from tacit.cli.records import draft_without
from tacit.data import Sites, read_table
from tacit.files import writable, write_once
from tacit.html.words import counted


def schema(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header line, or a Parquet file.", show_default=False)],
    label: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    site: Annotated[
        str | None,
        typer.Option(help="The column that names the site of each record; the model does not learn from it."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The schema file to write; standard output by default.")] = None,
) -> None:
    """Draft a schema: the file that says how records become numbers, the same for all organisations.

    The draft takes bounds and categories from the file, and with --site the names of the sites. That is a leak: before
    a private run, replace all of them by public knowledge (a code book, a physical limit, the list of participants).
    Give all organisations the same schema file.

    Example: `tacit schema patients.csv --label died --site hospital --out schema.toml`
    """
    if out is not None:
        writable(out, [file])
    with working("reading", file):
        table = read_table(file)
        drafted, notes = draft_without(table, label, site)
    if site is not None:
        there = ~table.is_missing(site, drafted.missing_values)
        sites = Sites(site, tuple(sorted(table.strings(site)[there].distinct()[0])))
        drafted = replace(drafted, sites=sites)
        notes.append(f"sites in column {site!r}: {', '.join(sites.names)}; list all that take part")
        from tacit.data.draft import about_spelling

        notes += [f"sites in column {site!r}: {doubt}" for doubt in about_spelling(sites.names)]
    comments = "".join(f"# {' '.join(note.split())}\n" for note in notes)
    text = comments + drafted.to_toml()
    if out is None:
        tell(notes)
        typer.echo(text, nl=False)
    else:
        write_once(out, text, "--out")
        tell(notes)
        typer.echo(f"{out}: {drafted.dimension} features from {counted(len(drafted.columns), 'column')}", err=True)
