"""The command `tacit schema`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.console import tell, working
from tacit.data import Schema, Sites, Table, read_table
from tacit.errors import InputError
from tacit.files import replacing, writable


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
        if out.exists() and out.read_bytes() != text.encode():
            raise InputError(
                f"{out} is there already and says something else, perhaps by hand; name another file with --out, or "
                "move that one"
            )
        tell(notes)
        with replacing(out) as draft:
            draft.write_text(text, encoding="utf-8")
        typer.echo(f"{out}: {drafted.dimension} features from {len(drafted.columns)} columns", err=True)


def draft_without(table: Table, label: str, site: str | None) -> tuple[Schema, list[str]]:
    """A draft without the column of sites: the model must not learn from the site of a record."""
    if site is None:
        return Schema.draft(table, label)
    require_site(table, site)
    if site == label:
        raise InputError(f"column {site!r} cannot be both the label and the site")
    return Schema.draft(table.select(name for name in table.columns if name != site), label)


def require_site(table: Table, site: str) -> None:
    """Refuses a table without the column of sites."""
    if site not in table.columns:
        raise InputError(f"{table.source} has no column {site!r} for --site; {table.its_columns()}")
