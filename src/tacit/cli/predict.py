"""`tacit predict`"""

from __future__ import annotations

import csv
import json as json_format
import sys
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import err, warn
from tacit.data import Classes
from tacit.files import replacing, writable
from tacit.workflows.model import Model


def predict(
    model: Annotated[Path, typer.Argument(help="A model file that tacit train wrote.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or **adult** for the embedded data.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write; - for standard output.")] = Path("predictions.csv"),
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Apply a model to a file of records, and write one line of predictions for each record.

    The predictions are in the order of the file. The schema in the model file says how records become numbers. A record
    that lacks a value has an empty prediction. If the file has the label, the command also prints the error.

    Example: `tacit predict model.json new-patients.csv --out predictions.csv`
    """
    to_screen = str(out) == "-"
    if not to_screen:
        writable(out, [model, file])
    fitted = Model.load(model)
    table = names.records(file)
    data = fitted.schema.encode(table, labelled=False)
    predictions, probabilities = fitted.predictions(data), fitted.probabilities(data)
    header = [fitted.schema.label.column, *([] if probabilities is None else ["probability"])]
    lines: list[list[object]] = [[""] * len(header) for _ in range(len(table))]
    for k, row in enumerate(data.kept):
        lines[row] = [predictions[k], *([] if probabilities is None else [f"{probabilities[k]:.6f}"])]
    if to_screen:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *lines])
        return
    with replacing(out) as draft, draft.open("w", newline="", encoding="utf-8") as sheet:
        csv.writer(sheet).writerows([header, *lines])
    for column, count in data.unknown.items():
        warn(f"column {column!r}: {count:,} of {len(table):,} values are no category of the schema")
    if len(data) < len(table):
        warn(f"{len(table) - len(data):,} of {len(table):,} records lack a value: their predictions are empty")

    summary: dict[str, object] = {"records": len(table), "predicted": len(data), "out": str(out)}
    if fitted.schema.label.column in table.columns:
        summary["error"] = fitted.error(fitted.schema.encode(table))
    if json:
        typer.echo(json_format.dumps(summary))
        return
    if "error" in summary:
        kind = "error" if isinstance(fitted.schema.label, Classes) else "RMSE"
        typer.echo(f"{kind} on the labelled records: {summary['error']:.4g}")
    err.print(f"wrote {out}: predictions for {len(data):,} of {len(table):,} records", markup=False, soft_wrap=True)
