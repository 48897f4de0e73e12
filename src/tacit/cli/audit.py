"""`tacit audit`"""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import out as screen
from tacit.cli.options import Json


def audit(
    algorithm: Annotated[str, typer.Argument(help="One of: dvp.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The epsilon that one step claims.")] = 1.0,
    as_printed: Annotated[bool, typer.Option("--as-printed", help="The paper's own, uncorrected version.")] = False,
    samples: Annotated[int, typer.Option(help="Runs under each of two neighbouring data sets.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="For the noise.")] = 0,
    json: Json = False,
) -> None:
    """Try to catch a private method giving away more than it claims.

    Runs the real code on two neighbouring data sets, counts an event that was fixed beforehand, and prints a lower
    bound on epsilon that holds with a confidence of 99.9%. Exit code 0 when it stays at or below the claim, 1 when it
    is above. An audit can show that a claim is false, never that it is true.

    Example: `tacit audit dvp --epsilon 1 --as-printed`
    """
    from tacit.privacy.audit import AUDITS  # takes its time to import: not for --help

    found = names.pick(AUDITS, algorithm, "algorithm")(epsilon, as_printed=as_printed, seed=seed, samples=samples)
    if json:
        typer.echo(json_format.dumps(asdict(found) | {"caught": found.caught}))
    else:
        verdict = "caught: the claim is false" if found.caught else "not caught"
        screen.print(
            f"{algorithm}{' as printed' if as_printed else ''}: epsilon is at least {found.lower:.4f} "
            f"({found.confidence:.1%} confidence, {found.samples:,} runs under each data set); "
            f"claimed {found.claimed:g}: {verdict}"
        )
    raise typer.Exit(1 if found.caught else 0)
