"""`tacit certificate`: one document of a finished run that anybody can check."""

from __future__ import annotations

import json as json_format
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import names, options
from tacit.cli.console import err
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.errors import InputError
from tacit.files import replacing, writable, write_private

if TYPE_CHECKING:
    from tacit.agent.documents import Fault
    from tacit.privacy.ledger import Ledger

app = typer.Typer(
    help="""Collect the signed reports of a finished run in one document, and check such a document.

    When a run is finished, every member has a report that it has signed: what it released, what it heard, what it paid,
    and its model. **make** puts the reports of all members side by side, with the federation file, if they agree.
    **verify** computes everything again, on any machine and without any records: it says what the certificate proves,
    and what still has to be believed. `tacit predict --certificate` refuses a model that the certificate does not know.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

_REPORTS = "The signed reports of all members of the run."
_LEDGER = "A member's ledger, to compare with the certificate. May be repeated."


@app.command()
def make(
    report: Annotated[list[Path], typer.Argument(help=_REPORTS, show_default=False)],
    federation: Annotated[Path, typer.Option(help="The federation file.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The certificate to write.")] = Path("certificate.json"),
) -> None:
    """Collect the reports of all members of a finished run, check everything, and write one document.

    A member without whom the others went on needs no report. The exit code is 0 if the certificate was written, 1 if
    something in the reports does not hold (each fault is printed, and nothing is written), and 2 if a file cannot be
    read.

    Example: `tacit certificate make --federation federation.toml alder.report.json birch.report.json cedar.report.json`
    """
    names.require_agent()
    from tacit.agent import documents
    from tacit.agent.certificate.examination import collected, examined
    from tacit.agent.federation import Federation

    writable(out, [federation, *report])
    agreed = Federation.load(federation)
    document = collected(agreed, [documents.read(each, "a report of an agent") for each in report])
    found = examined(document)
    if found.faults:
        _refuse(found.faults, "the reports make no certificate")
    with replacing(out) as draft:
        draft.write_text(json_format.dumps(document, allow_nan=False) + "\n", encoding="utf-8")
    screen.print(f"{agreed.title}: the reports of {', '.join(found.reports)} agree", markup=False, soft_wrap=True)
    err.print(f"wrote {out}", markup=False, soft_wrap=True)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The certificate.", show_default=False)],
    model: Annotated[Path | None, typer.Option(help="A model file, to compare with the certificate.")] = None,
    ledger: Annotated[list[Path] | None, typer.Option(help=_LEDGER)] = None,
    report: options.Report = None,
    json: Json = False,
) -> None:
    """Check a certificate without any data: say what it proves, who has signed it, and what must be believed.

    Everything is computed again: signatures, plan, epsilon, the digests of messages at both ends, and with --model
    the whole model file. The exit code is 0 only if everything holds, 1 if something does not (each fault is printed
    with the field that it is in), and 2 if a file cannot be read.

    An auditor who gets the ledger of a member compares it with --ledger: it must be the one that paid for the run, with
    all rows that it had then.

    Example: `tacit certificate verify certificate.json --model alder.json`
    """
    names.require_agent()
    from tacit.agent import documents
    from tacit.agent.certificate import verdict
    from tacit.agent.certificate.examination import examined
    from tacit.html.words import written
    from tacit.report import pages

    inputs = [file, *([] if model is None else [model]), *(ledger or [])]
    names.report_file(report, inputs, [])
    document = documents.read(file, "a certificate")
    if isinstance(document, dict) and "report" in document:
        raise InputError(f"{file} is the report of one member; a certificate has those of all: tacit certificate make")
    with ExitStack() as stack:
        books = {str(path): stack.enter_context(_verified(path)) for path in ledger or []}
        found = examined(document, None if model is None else documents.read(model, "a model file"), books)
    plain = verdict.as_plain(found)
    if report is not None:
        write_private(report, pages.certificate(plain | written()))
    if json:
        typer.echo(json_format.dumps(plain))
        if found.faults:
            raise typer.Exit(1)
        return
    if found.faults:
        _refuse(found.faults, f"{file} does not hold")
    _tell(plain)


def _verified(path: Path) -> Ledger:
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Ledger

    ledger = Ledger(path, cost=epsilon)
    ledger.verify()
    return ledger


def _tell(plain: dict[str, Any]) -> None:
    screen.print(f"{plain['title']}: run {plain['run'][:16]}", markup=False, soft_wrap=True)
    signers = [
        f"{each['name']}, certificate SHA-256 {each['fingerprint']}, tacit {each['tacit']}"
        for each in plain["signed_by"]
    ]
    for heading, lines in (
        ("Proved:", plain["proved"]),
        ("Signed by:", signers),
        ("You have to believe:", plain["believed"]),
    ):
        screen.print(heading)
        for line in lines:
            screen.print(f"- {line}", markup=False, soft_wrap=True)


def _refuse(faults: list[Fault], what: str) -> None:
    """Prints every fault, and ends with exit code 1."""
    for fault in faults:
        screen.print(f"fault: {fault}", markup=False, soft_wrap=True)
    screen.print(f"{what}: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}", markup=False, soft_wrap=True)
    raise typer.Exit(1)
