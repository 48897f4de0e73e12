"""`tacit audit`"""

from __future__ import annotations

import inspect
import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from tacit.cli import names
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.errors import InputError


def audit(
    algorithm: Annotated[str, typer.Argument(help="One of: dvp, dvp-gaussian, pi-admm2, solver.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The epsilon that one step claims.")] = 1.0,
    as_printed: Annotated[bool, typer.Option("--as-printed", help="The paper's own, uncorrected version.")] = False,
    planted: Annotated[bool, typer.Option("--planted", help="With a bug that the audit is to catch.")] = False,
    samples: Annotated[int, typer.Option(help="Runs under each of two neighbouring data sets.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="For the noise.")] = 0,
    json: Json = False,
) -> None:
    """Try to catch a private method giving away more than it claims.

    Runs the real code on two neighbouring data sets, counts an event that was fixed beforehand, and prints a lower
    bound on epsilon that holds with a confidence of 99.9%. Exit code 0 when it stays at or below the claim, 1 when it
    is above. An audit can show that a claim is false, never that it is true.

    `dvp` is one step of dual variable perturbation. `dvp-gaussian` is the same with normal noise, calibrated to
    (epsilon, 1e-4); the planted bug halves the noise. `pi-admm2` is three visits of the token to one agent, calibrated
    likewise, against all the others together; the planted bug halves the noise. `solver` is one minimiser that leaves
    with noise inside its objective; the planted bug stops the solver early and gives away what it has.

    Examples: `tacit audit dvp --epsilon 1 --as-printed`, `tacit audit solver --planted`
    """
    from tacit.privacy.audit import AUDITS  # takes its time to import: not for --help

    run = names.pick(AUDITS, algorithm, "algorithm")
    flaws = [name for name, given in (("as_printed", as_printed), ("planted", planted)) if given]
    for name in flaws:
        if name not in inspect.signature(run).parameters:
            raise InputError(f"the audit {algorithm} has no --{name.replace('_', '-')}")
    found = run(epsilon, seed=seed, samples=samples, **dict.fromkeys(flaws, True))
    if json:
        typer.echo(json_format.dumps(asdict(found) | {"caught": found.caught}))
    else:
        verdict = "caught: the claim is false" if found.caught else "not caught"
        screen.print(
            f"{algorithm}{' as printed' if as_printed else ' with a planted bug' if planted else ''}: "
            f"epsilon is at least {found.lower:.4f} "
            f"({found.confidence:.1%} confidence, {found.samples:,} runs under each data set); "
            f"claimed {found.claimed:g}{f' at delta {found.delta:g}' if found.delta else ''}: {verdict}"
        )
    raise typer.Exit(1 if found.caught else 0)
