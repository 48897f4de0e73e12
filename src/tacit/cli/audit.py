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
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="The paper's own version, without corrections.")
    ] = False,
    planted: Annotated[bool, typer.Option("--planted", help="With a bug that the audit should catch.")] = False,
    samples: Annotated[int, typer.Option(help="How many runs on each of two neighbouring data sets.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The seed of the noise.")] = 0,
    json: Json = False,
) -> None:
    """Test whether a private method reveals more than it claims.

    The audit runs the real code on two neighbouring data sets, counts an event that was fixed beforehand, and prints a
    lower bound on epsilon that holds with a confidence of 99.9%. The exit code is 0 if the bound is at or below the
    claim, and 1 if it is above. An audit can show that a claim is false, never that it is true.

    - `dvp`: one step of dual variable perturbation.
    - `dvp-gaussian`: the same with Gaussian noise, calibrated to (epsilon, 1e-4). The planted bug halves the noise.
    - `pi-admm2`: three visits of the token to one agent, against all other agents together, with Gaussian noise for
      the same total. The planted bug halves the noise.
    - `solver`: one minimiser, released with noise in its objective. The planted bug stops the solver early.

    Examples: `tacit audit dvp --epsilon 1 --as-printed`, `tacit audit solver --planted`
    """
    from tacit.privacy.audit import AUDITS  # slow to import: not for --help

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
