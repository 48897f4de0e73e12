"""The command `tacit predict`."""

from __future__ import annotations

import csv
import io
import json as json_format
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer

from tacit.cli import names
from tacit.cli.console import err, warn, working
from tacit.cli.expand import decimal
from tacit.data import Classes, Dataset, Multiclass, Table, Target
from tacit.errors import InputError
from tacit.files import writable, writing_private
from tacit.report.metrics_in_words import in_words
from tacit.run.metrics import as_plain
from tacit.run.model import Model

Column = tuple[np.ndarray, Callable[[np.ndarray], list[str]]]  # (n,) values, and how they are written
_RECORDS = 1 << 16  # written at once
_THRESHOLD = "Two classes: predict the positive one where its probability is above this, such as 0.1."
_CERTIFICATE = "The certificate of the run that trained the model. A model that does not match it is refused."
_TOP = "Two classes: predict the positive one for the K records with the highest scores, and for no other."


def predict(
    model: Annotated[Path, typer.Argument(help="A model file that tacit train wrote.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or **adult** for the embedded data.", show_default=False)
    ],
    certificate: Annotated[Path | None, typer.Option(help=_CERTIFICATE)] = None,
    threshold: Annotated[float | None, typer.Option(help=_THRESHOLD, parser=decimal, metavar="FLOAT")] = None,
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
    with working("reading", file):
        table = names.records(file)
        data = fitted.schema.encode(table, labelled=False)
    positive = chosen(fitted, data, threshold, top)
    table.require(fitted.schema.ids)
    header, columns = _columns(fitted, data, positive)
    lines = _lines(table, fitted.schema.ids, data.kept, columns)
    header = [*fitted.schema.ids, *header]
    if to_screen:
        _write(sys.stdout, header, lines, "\n")
        return
    with working("predicting", file), writing_private(out, newline="") as sheet:  # what it says is about patients
        _write(sheet, header, lines, "\r\n")
    for column, count in data.unknown.items():
        warn(f"column {column!r}: {count:,} of {len(table):,} values are no category of the schema")
    if len(data) < len(table):
        warn(f"{len(table) - len(data):,} of {len(table):,} records lack a value: their predictions are empty")

    summary: dict[str, object] = {"records": len(table), "predicted": len(data), "out": str(out)}
    label = fitted.schema.label
    measured = None
    if label.column in table.columns:
        try:
            labelled = fitted.schema.labelled(data, table)
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
    from tacit.agent.certificate.examination import examined

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


def _columns(model: Model, data: Dataset, positive: np.ndarray | None) -> tuple[list[str], list[Column]]:
    """The header of the file, and its columns: (n,) values, and how they are written."""
    label, scores, probabilities = model.schema.label, model.scores(data), model.probabilities(data)
    header: list[str] = [label.column, "score"]
    columns: list[Column] = [(model.predictions(data, positive), _shortest if isinstance(label, Target) else _texts)]
    if isinstance(label, Multiclass):
        assert probabilities is not None
        own = (np.arange(len(data)), scores.argmax(axis=1))
        columns += [(scores[own], _digits), (probabilities[own], _digits)]
        header += ["probability", *(f"probability of {name}" for name in label.classes)]
        columns += [(column, _digits) for column in probabilities.T]
    elif isinstance(label, Classes):
        columns.append((scores, _digits))
        if probabilities is not None:
            header.append("probability")
            columns.append((probabilities, _digits))
    else:
        columns.append((model.in_units(scores), _shortest))
    return header, columns


def _lines(table: Table, ids: Sequence[str], kept: np.ndarray, columns: list[Column]) -> Iterator[Iterator[str]]:
    """The lines of some records at once, in the order of the file."""
    for first in range(0, len(table), _RECORDS):
        last = min(first + _RECORDS, len(table))
        lo, hi = np.searchsorted(kept, [first, last])
        cells = [_texts(table.strings(name)[first:last]) for name in ids]
        for values, written in columns:
            texts = written(values[lo:hi])
            if len(texts) < last - first:  # some records have no prediction
                spread = [""] * (last - first)
                for row, text in zip((kept[lo:hi] - first).tolist(), texts, strict=True):
                    spread[row] = text
                texts = spread
            cells.append(texts)
        yield map(",".join, zip(*cells, strict=True))


def _write(sheet: TextIO, header: list[str], lines: Iterable[Iterator[str]], end: str) -> None:
    csv.writer(sheet, lineterminator=end).writerow(header)
    for some in lines:
        sheet.write(end.join(some) + end)


# The whole numbers below 1,000 as three bytes each: 007, and 7 behind two bytes that are left out.
_THREE = np.array([list(b"%03d" % k) for k in range(1000)], dtype=np.uint8)
_UP_TO_THREE = np.array([list((b"%d" % k).rjust(3, b"\0")) for k in range(1000)], dtype=np.uint8)


def _digits(values: np.ndarray) -> list[str]:
    """Six digits behind the point, as "%.6f" writes them, all values at once.

    >>> _digits(np.array([0.5, -12.3456789, 1.25e-6, 1e9]))
    ['0.500000', '-12.345679', '0.000001', '1000000000.000000']
    """
    with np.errstate(over="ignore", invalid="ignore"):
        millionths = np.abs(values) * 1e6
        nearest = np.rint(millionths)
        # The product is wrong by 1.2e-7 at most. Near a half Python decides, as for numbers of 1,000 and more.
        clear = (nearest < 1e9) & (np.abs(millionths - nearest) < 0.5 - 1e-6)
    rest, third = np.divmod(np.where(clear, nearest, 0).astype(np.int64), 1000)
    first, second = np.divmod(rest, 1000)
    line = np.empty((len(values), 12), dtype=np.uint8)
    line[:, 0] = np.where(np.signbit(values), ord("-"), 0)
    line[:, 1:4], line[:, 4] = _UP_TO_THREE[first], ord(".")
    line[:, 5:8], line[:, 8:11], line[:, 11] = _THREE[second], _THREE[third], ord("\n")
    texts = line[line != 0].tobytes().decode().splitlines()
    for k in np.flatnonzero(~clear).tolist():
        texts[k] = f"{values[k]:.6f}"
    return texts


def _shortest(values: np.ndarray) -> list[str]:
    """The fewest digits that are read as the same number."""
    return [*map(repr, values.tolist())]


def _texts(values: Any) -> list[str]:
    """Of an array or a column of strings."""
    quoted = _Quoted()
    return [quoted[text] for text in np.asarray(values).tolist()]


class _Quoted(dict[str, str]):
    """Maps a text to how a CSV file has it, in quotes where it needs them."""

    def __missing__(self, text: str) -> str:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([text, ""])
        self[text] = line.getvalue()[:-1]
        return self[text]
