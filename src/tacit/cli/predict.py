"""`tacit predict`"""

from __future__ import annotations

import csv
import json as json_format
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tacit.cli import names
from tacit.cli.console import err, warn
from tacit.data import Classes, Dataset, Multiclass
from tacit.errors import InputError
from tacit.files import replacing, writable
from tacit.report.metrics import in_words
from tacit.workflows.model import Model
from tacit.workflows.training import as_plain

_THRESHOLD = "Two classes: predict the positive one where its probability is above this, such as 0.1."
_CERTIFICATE = "The certificate of the run that trained the model. A model that does not match it is refused."
_TOP = "Two classes: predict the positive one for the K records with the highest scores, and for no other."


def predict(
    model: Annotated[Path, typer.Argument(help="A model file that tacit train wrote.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or **adult** for the embedded data.", show_default=False)
    ],
    certificate: Annotated[Path | None, typer.Option(help=_CERTIFICATE)] = None,
    threshold: Annotated[float | None, typer.Option(help=_THRESHOLD)] = None,
    top: Annotated[int | None, typer.Option(help=_TOP)] = None,
    out: Annotated[Path, typer.Option(help="The CSV file to write; - for standard output.")] = Path("predictions.csv"),
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Apply a model to a file of records, and write one line for each record, in the order of the file.

    A line has the id columns that the schema names, the predicted label, its score, and a probability where the model
    has one. The score ranks records: the higher, the more likely the positive class. A model of several classes writes
    the score and the probability of the predicted class, and then the probability of each class. For a number, the
    score is the prediction before it is cut off at the label's bounds.

    The schema in the model file says how records become numbers. A record that lacks a value has an empty prediction.
    If the file has the label, the command also prints how good the predictions are.

    Example: `tacit predict model.json new-patients.csv --out predictions.csv`

    Example: `tacit predict model.json new-patients.csv --top 50`

    Example: `tacit predict model.json new-patients.csv --certificate certificate.json`
    """
    to_screen = str(out) == "-"
    if not to_screen:
        writable(out, [model, file, *([] if certificate is None else [certificate])])
    fitted = Model.load(model)
    if certificate is not None:
        _require_certified(model, certificate)
        err.print(f"{model} is the model of {certificate}", markup=False, soft_wrap=True)
    _check(fitted, threshold, top)
    table = names.records(file)
    data = fitted.schema.encode(table, labelled=False)
    positive = chosen(fitted, data, threshold, top)
    header, cells = _columns(fitted, data, positive)
    ids = fitted.schema.id_cells(table)
    lines = [[*(column[row] for column in ids.values()), *[""] * len(header)] for row in range(len(table))]
    for k, row in enumerate(data.kept):
        lines[row][len(ids) :] = [column[k] for column in cells]
    header = [*ids, *header]
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
    label = fitted.schema.label
    measured = None
    if label.column in table.columns:
        try:
            labelled = fitted.schema.encode(table)
        except InputError as error:  # the predictions are written: a label that is not known yet is no reason to fail
            warn(f"the predictions were not compared with the labels: {error}")
        else:
            # Of the records that have a label, those that the file calls positive: not the top of a smaller file.
            there = np.isin(data.kept, labelled.kept)
            measured = fitted.measured(labelled, None if positive is None else positive[there])
            summary |= as_plain(measured) | {"records": len(table)}
    if json:
        typer.echo(json_format.dumps(summary))
        return
    if measured is not None:
        typer.echo(f"on the {measured.records:,} labelled records:")
        for line in in_words(measured, label):
            typer.echo(f"  {line}")
    err.print(f"wrote {out}: predictions for {len(data):,} of {len(table):,} records", markup=False, soft_wrap=True)


def _require_certified(model: Path, certificate: Path) -> None:
    """Refuses a certificate that does not hold, and a model that is not the one of a member of its run."""
    names.require_agent()
    from tacit.agent import documents
    from tacit.agent.certificate import examined

    content = documents.read(certificate, "a certificate"), documents.read(model, "a model file")
    if faults := examined(*content).faults:
        raise InputError(
            f"{model} does not match the certificate {certificate}, so nothing was predicted: "
            f"{'; '.join(map(str, faults))}"
        )


def _check(model: Model, threshold: float | None, top: int | None) -> None:
    """Refuses a threshold or a number of records that makes no sense for this model."""
    if threshold is None and top is None:
        return
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top both say which records are positive: give one of them")
    if not isinstance(model.schema.label, Classes):
        raise InputError("--threshold and --top are for a label of two classes; leave them out")
    if top is not None and top < 0:
        raise InputError(f"--top must be zero or more, not {top}")
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"--threshold is a probability, from 0 to 1, not {threshold:g}")
    if threshold is not None and model.loss.probability(np.zeros(1)) is None:
        raise InputError(f"--threshold needs probabilities, and a model by {model.loss!r} has none; use --top")


def chosen(model: Model, data: Dataset, threshold: float | None, top: int | None) -> np.ndarray | None:
    """Which records are positive by --threshold or --top, (n,); None without both."""
    if threshold is not None:
        probabilities = model.probabilities(data)
        assert probabilities is not None
        return probabilities > threshold
    if top is not None:
        best = np.argsort(-model.scores(data), kind="stable")[:top]  # of equal scores, the first in the file
        return np.isin(np.arange(len(data)), best)
    return None


def _columns(model: Model, data: Dataset, positive: np.ndarray | None) -> tuple[list[str], list[list[str]]]:
    """The header of the file, and the cells of each of its columns."""
    label, scores, probabilities = model.schema.label, model.scores(data), model.probabilities(data)
    header, cells = [label.column, "score"], [[str(value) for value in model.predictions(data, positive)]]
    if isinstance(label, Multiclass):
        assert probabilities is not None
        own = (np.arange(len(data)), scores.argmax(axis=1))
        cells += [_digits(scores[own]), _digits(probabilities[own])]
        header += ["probability", *(f"probability of {name}" for name in label.classes)]
        cells += [_digits(column) for column in probabilities.T]
    elif isinstance(label, Classes):
        cells.append(_digits(scores))
        if probabilities is not None:
            header.append("probability")
            cells.append(_digits(probabilities))
    else:
        cells.append([repr(float(value)) for value in model.in_units(scores)])
    return header, cells


def _digits(numbers: np.ndarray) -> list[str]:
    return [f"{number:.6f}" for number in numbers]
