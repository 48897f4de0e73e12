"""The command `tacit validate`."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Sheet
from rich.text import Text

from tacit.cli import names, options
from tacit.cli.console import out, warn, working
from tacit.data import Finding, Schema
from tacit.data import validate as find
from tacit.data.table import RaggedError
from tacit.data.validation import ragged

_PLACES, _WIDEST = 3, 24  # places and characters of a value that fit; --json has more
REVEALS = "this list shows values of records: keep it inside your organisation"


def validate(
    file: options.File,
    schema: Annotated[Path, typer.Option(help="The schema that the records must fit.", show_default=False)],
    json: options.Json = False,
) -> None:
    """List everything in a file of records that a schema does not allow, with places and suggestions.

    Nothing is trained and nothing is changed. The exit code is 0 if training can use the file (there may be warnings:
    values that are clipped, rows that are left out), 1 if it cannot, and 2 if the file or the schema cannot be read.

    **The list shows values of records: keep it inside your organisation.**

    Example: `tacit validate patients.csv --schema schema.toml`
    """
    agreed = Schema.from_toml(schema)
    broken: list[Finding] = []
    with working("reading", file):
        try:
            table = names.records(file)
        except RaggedError as error:
            table, broken = error.rest, [ragged(error)]
        found = broken + find(table, agreed)
    problems = sum(not each.warning for each in found)
    if json:
        typer.echo(json_format.dumps(_as_json(file, len(table), table.place, found)))
    else:
        for each in found:
            out.print(_heading(each), soft_wrap=True)
            if each.cells:
                out.print(_sheet(each, table.place))
        warnings = len(found) - problems
        verdict = "training cannot use it" if problems else "training can use it"
        out.print(f"{file}: {_count(problems, 'problem')}, {_count(warnings, 'warning')}; {verdict}", markup=False)
    if found:
        warn(REVEALS)
    if problems:
        raise typer.Exit(1)


def _heading(each: Finding) -> Text:
    """What is wrong, in which column and in how many cells; if not in cells, what to do."""
    kind = "warning" if each.warning else "problem"
    what = f"column {each.column!r}: {each.problem}" if each.column else each.problem
    more = f", {_count(each.cells, each.unit)}" if each.cells else f"; {each.values[0].suggestion}"
    return Text.assemble((f"{kind}: ", "yellow" if each.warning else "red"), (what, "bold"), more)


def _sheet(each: Finding, place: str) -> Sheet:
    """A line for each value: in how many cells it is, where first, and what to do. It fits 80 columns."""
    sheet = Sheet(box=None, show_header=False, width=min(80, out.width))
    for share in (9, 6, 9, 20):
        sheet.add_column(ratio=share, overflow="fold")
    for value in each.values:
        shown = value.text if len(value.text) <= _WIDEST else f"{value.text[:_WIDEST]}..."
        places = ", ".join(map(str, value.first[:_PLACES])) + (", ..." if value.cells > _PLACES else "")
        cells = (repr(shown), _count(value.cells, each.unit), f"{place} {places}", value.suggestion)
        sheet.add_row(*map(Text, cells))
    if each.more:
        sheet.add_row(f"and {each.more:,} more")
    return sheet


def _as_json(file: str, rows: int, place: str, found: list[Finding]) -> dict[str, Any]:
    findings = [asdict(each) | {"values": [value._asdict() for value in each.values]} for each in found]
    problems = sum(not each.warning for each in found)
    return {
        "file": file,
        "rows": rows,
        "places": place,  # what `first` counts
        "usable": not problems,
        "problems": problems,
        "warnings": len(found) - problems,
        "findings": findings,
        "not_covered_by_the_guarantee": ["findings", "problems", "warnings", "usable"],
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
