"""The command `tacit audit`."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import names, options
from tacit.cli.console import err, tell_written, warn, work_bar
from tacit.cli.console import out as screen
from tacit.cli.expand import expanded
from tacit.errors import InputError
from tacit.run.recipes import RECIPES

if TYPE_CHECKING:
    from tacit.lab.audit import Audited

_LOCAL = {name: recipe for name, recipe in RECIPES.items() if not recipe.traits.totals}
_SEVERAL = [f"{name}-classes" for name, recipe in _LOCAL.items() if recipe.traits.multiclass]
_NAMES = [name for name in RECIPES if name in _LOCAL or name == "shared-descent"]
_METHOD = (
    f"A private method, one of: {', '.join(_NAMES)}; with three classes: {', '.join(_SEVERAL)}; or dvp-paper, "
    "pvp-paper, solver."
)
_RATE = (
    "The probability with which a record joins the secret sample of a gradient, for dp-admm and dp-accadmm: finds a "
    "sample that is reused."
)
_PLOT = "Draw the trade-off curve, with that of the claim, to this PNG file."
_STEER = "The others change in mid-run how much the record counts: finds reused noise."
_PRINTED = "The paper's own version of dvp-paper, without corrections."
_BUG = "Which bug to plant in shared-descent: share, variance, reuse or rounding."


def _option(help: str, usual: str | bool = False) -> Any:
    """An option with this help, and what the help shows as its default."""
    return typer.Option(help=help, show_default=usual)


@dataclass(frozen=True)
class AuditOptions:
    """The claim, how long to test it, who attacks, and what is wrong on purpose. Not every audit has all of it."""

    delta: Annotated[float | None, _option("The delta that the run claims.", "1e-05")] = None
    rounds: Annotated[
        int | None,
        _option("The noisy steps of the run; 1 audits a single step.", "8; shared-descent: 3; with --rate: 32"),
    ] = None
    rate: Annotated[float | None, _option(_RATE)] = None
    samples: Annotated[int | None, _option("How many runs on each of two neighbouring data sets.", "40000")] = None
    minutes: Annotated[float | None, _option("How long to run, about, instead of --samples.")] = None
    steer: Annotated[bool, typer.Option("--steer", help=_STEER)] = False
    planted: Annotated[bool, typer.Option("--planted", help="With a bug that the audit should catch.")] = False
    as_printed: Annotated[bool, typer.Option("--as-printed", help=_PRINTED)] = False
    bug: Annotated[str | None, _option(_BUG, "share")] = None
    members: Annotated[int | None, _option("How many members share the noise, for shared-descent.", "5")] = None
    colluders: Annotated[
        int | None, _option("How many of them collude, for shared-descent.", "the most below one half")
    ] = None


_USUAL, _HERE = AuditOptions(), options.Workplace()


@expanded
def audit(
    method: Annotated[str, typer.Argument(help=_METHOD, show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The epsilon that the run claims.")] = 1.0,
    asked: AuditOptions = _USUAL,
    plot: Annotated[Path | None, _option(_PLOT)] = None,
    seed: Annotated[int, typer.Option(help="The seed of the bits of which the noise is made.")] = 0,
    place: options.Workplace = _HERE,
    json: options.Json = False,
) -> None:
    """Test whether a private method reveals more than it claims.

    The audit runs the real code on two neighbouring data sets, with the noise of real runs. From a first part of the
    runs it learns to guess the data set, by a linear discriminant on everything that is released. The errors of its
    guesses in the other runs give a lower bound on epsilon, with a confidence of 99.9%. An audit can show that a claim
    is false, never that it is true.

    It also fails if the guesses are wrong more often than those of correct code, which would alarm once in a thousand
    audits: noise that is used twice can make the data sets harder to tell apart. The exit code is 1 if the bound is
    above the claim, or if the errors are too many, and 0 otherwise.

    - A method of `tacit train`: a run of `--rounds` noisy steps, calibrated to (epsilon, delta) as for training. All
      other agents attack one agent. The bound assumes what the method claims: that what leaves is a Gaussian mechanism.
      `--json` also has a bound that assumes nothing (`distribution_free`); it needs many more runs to be near.
      `--planted` halves the noise. `--steer` finds noise that is reused.
    - `dp-admm` and `dp-accadmm` with `--rate`: gradients of secret samples. The bound is the one that assumes nothing.
    - `shared-descent`: `--colluders` of the `--members` attack together. They see all totals and know their own rows
      and noise. Totals are computed by the real protocol, which needs `pip install 'tacit-learn[exchange]'`.
      `--bug share`: a member forgets its share of the noise. `--bug variance`: shares are as small as if nobody
      colluded. `--bug reuse`: shares are drawn once a run; with `--steer`, by which the coalition moves the total in
      mid-run, the claim is false. `--bug rounding`: rows are rounded to a grid that is much wider than a share.
    - `dvp-paper`, `pvp-paper`: one step with the noise of the paper, at alpha = epsilon; delta is 0.
    - `solver`: one minimiser of a solver that stops early. `--planted` leaves out the mask that hides how early.

    Examples: `tacit audit mr-admm`, `tacit audit pvp --rounds 1 --minutes 2 --plot pvp.png`,
    `tacit audit dvp-paper --as-printed`, `tacit audit shared-descent --colluders 1 --bug variance`,
    `tacit audit shared-descent --steer`, `tacit audit dp-admm --epsilon 2 --rate 0.05`
    """
    from tacit.lab.audit.named import ALIASES, AUDITS, audit_named  # slow to import: not for --help

    where = names.engine(place.engine, place.jobs, place.address)
    if seed < 0:
        raise InputError(f"--seed must be zero or more, not {seed}")
    if asked.samples is not None and asked.minutes is not None:
        raise InputError("--samples and --minutes both say how many runs there are: give one of them")
    if plot is not None:
        if plot.suffix != ".png":
            raise InputError(f"--plot writes a PNG file: name it .png, not {plot.name}")
        names.require_plot()
        names.folder(plot.parent)
    name = ALIASES.get(method, method)
    if name != method:
        warn(f"the audit {method} is now called {name}")
    if name == "dvp" and asked.as_printed:
        name = "dvp-paper"
    names.pick(AUDITS, name, "METHOD")
    given: dict[str, Any] = {
        option: value for option, value in vars(asked).items() if value is not None and value is not False
    }
    with work_bar() as tell, where.open() as workers:
        progress = partial(tell, "batches of runs")
        found = audit_named(name, epsilon, seed=seed, progress=progress, workers=workers, **given)
    if plot is not None:
        from tacit.lab.charts import trade_off

        trade_off(found, plot, f"tacit audit {name}")
        tell_written(plot)
    if json:
        typer.echo(json_format.dumps(_as_json(found)))
    else:
        screen.print(_in_words(found, name, asked))
    err.print("the records of an audit are made up: it spends nothing from a ledger", style="dim")
    raise typer.Exit(1 if found.failed else 0)


def _as_json(found: Audited) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "claim": found.claimed,
        "lower_bound": found.lower,
        "ratio": found.ratio,
        "runs": found.samples,
    }
    plain |= {"caught": found.caught, "delta": found.delta, "confidence": found.confidence}
    plain |= {"short": found.short, "wrong": found.wrong, "most_wrong": found.most_wrong, "least": found.least}
    plain |= {"distribution_free": found.distribution_free, "gaussian": found.gaussian, "against": found.against}
    # The names of version 0.1.0.
    plain |= {"claimed": found.claimed, "lower": found.lower, "samples": found.samples}
    return plain | {"threshold": found.threshold, "negated": found.negated}


def _in_words(found: Audited, name: str, asked: AuditOptions) -> str:
    verdict = "caught: the claim is false" if found.caught else "not caught"
    if found.short:
        verdict += f"; but {_short(found)}"
    wrong = " with a planted bug" if asked.planted else ""
    wrong = " as printed" if asked.as_printed else f" with the bug {asked.bug}" if asked.bug else wrong
    against = f" against {found.against}" if found.against else ""
    return (
        f"{name}{wrong}: epsilon{against} is at least {found.lower:.4f} "
        f"({found.confidence:.1%} confidence, {found.samples:,} runs under each data set); "
        f"claimed {found.claimed:g}{f' at delta {found.delta:g}' if found.delta else ''}: {verdict}"
    )


def _short(found: Audited) -> str:
    """What is wrong where the data sets are harder to tell apart than they should be."""
    from tacit.lab.audit.expected import FALSE_ALARM

    shows = "" if found.least is None else f"shows {found.least:.4f} at least, and "
    return (
        f"something is wrong: correct code {shows}guesses wrong in {found.most_wrong:.1%} of the runs at most "
        f"({1 - FALSE_ALARM:.1%} confidence), and this one does in {found.wrong:.1%}"
    )
