"""`tacit audit`"""

from __future__ import annotations

import inspect
import json as json_format
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tacit.cli import names
from tacit.cli.console import err, rounds_bar
from tacit.cli.console import out as screen
from tacit.cli.options import Json
from tacit.errors import InputError


def audit(
    algorithm: Annotated[
        str, typer.Argument(help="One of: dvp, dvp-gaussian, pi-admm2, solver, shared-descent.", show_default=False)
    ],
    epsilon: Annotated[float, typer.Option(help="The epsilon that the step, or the run, claims.")] = 1.0,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="The paper's own version, without corrections.")
    ] = False,
    planted: Annotated[bool, typer.Option("--planted", help="With a bug that the audit should catch.")] = False,
    bug: Annotated[
        str | None,
        typer.Option(help="Which bug to plant in shared-descent: share, variance or rounding.", show_default="share"),
    ] = None,
    members: Annotated[
        int | None, typer.Option(help="How many members share the noise, for shared-descent.", show_default="5")
    ] = None,
    colluders: Annotated[
        int | None,
        typer.Option(help="How many of them collude, for shared-descent.", show_default="the most below one half"),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="How many runs on each of two neighbouring data sets.", show_default="1000000; shared-descent: 40000"
        ),
    ] = None,
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
    - `shared-descent`: three rounds of gradient descent with shared noise, calibrated to (epsilon, 1e-5), against
      `--colluders` of the `--members` together. They see all totals and know their own rows and noise. Totals are
      computed by the real protocol, which needs `pip install 'tacit-learn[exchange]'`. The bound assumes what the
      method claims: that the totals are those of a Gaussian mechanism. It takes some minutes; less with a bug, where
      the noise is not that of the operating system. `--bug share`: a member forgets its share of the noise.
      `--bug variance`: shares are as small as if nobody colluded. `--bug rounding`: rows are rounded to a grid that is
      much wider than a share.

    Examples: `tacit audit dvp --epsilon 1 --as-printed`, `tacit audit solver --planted`,
    `tacit audit shared-descent --colluders 1 --bug variance`
    """
    from tacit.privacy.audit import AUDITS  # slow to import: not for --help

    run = names.pick(AUDITS, algorithm, "algorithm")
    options = {"as_printed": as_printed or None, "planted": planted or None, "bug": bug, "members": members}
    options |= {"colluders": colluders, "samples": samples}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    known = inspect.signature(run).parameters
    for name in given:
        if name not in known:
            raise InputError(f"the audit {algorithm} has no --{name.replace('_', '-')}")
    with rounds_bar(0) if "progress" in known else nullcontext() as bar:
        if bar is not None:
            given["progress"] = lambda done, total: bar.update(
                bar.task_ids[0], description="batches of runs", completed=done, total=total
            )
        found = run(epsilon, seed=seed, **given)
    if json:
        plain = asdict(found) | {"caught": found.caught, "ratio": found.ratio}
        plain |= {"claim": found.claimed, "lower_bound": found.lower, "runs": found.samples}
        typer.echo(json_format.dumps(plain))
    else:
        verdict = "caught: the claim is false" if found.caught else "not caught"
        flaw = (
            " as printed" if as_printed else f" with the bug {bug}" if bug else " with a planted bug" if planted else ""
        )
        against = f" against {found.against}" if found.against else ""
        screen.print(
            f"{algorithm}{flaw}: epsilon{against} is at least {found.lower:.4f} "
            f"({found.confidence:.1%} confidence, {found.samples:,} runs under each data set); "
            f"claimed {found.claimed:g}{f' at delta {found.delta:g}' if found.delta else ''}: {verdict}"
        )
    err.print("the records of an audit are made up: it spends nothing from a ledger", style="dim")
    raise typer.Exit(1 if found.caught else 0)
