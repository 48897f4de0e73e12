"""`tacit train --epsilon`"""

from __future__ import annotations

import json as json_format
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tacit.cli import names
from tacit.cli.console import err, rounds_bar, tell_written, warn
from tacit.cli.console import out as screen
from tacit.cli.records import NOT_COVERED, Division, encoded, records_of, share_out
from tacit.data import Classes, Schema, Table
from tacit.data.public import require_public
from tacit.engines import Ray
from tacit.files import write_private
from tacit.html.frame import counted
from tacit.privacy.ledger import About, Ledger
from tacit.privacy.ledger.statement import budget_of, in_figures
from tacit.report.document import run as document
from tacit.report.document import trained as data_of
from tacit.report.metrics import in_words
from tacit.workflows.metrics import as_plain
from tacit.workflows.recipes import RECIPES, Reserve, recommended
from tacit.workflows.training import hold_out, train_privately

if TYPE_CHECKING:
    from tacit.attacks.poisoning import Hostile


_FEW = 10  # records of a member whose own noise is far larger than what they say, at any epsilon of use
_SHOWN = 3  # names in a warning


class Asked(NamedTuple):
    """The options that training with and without privacy share."""

    file: str
    division: Division
    graph: str
    holdout: float
    robust: str | None
    hostile: str | None
    seed: int
    out: Path
    report: Path | None
    json: bool
    engine: Ray | None = None


class Budget(NamedTuple):
    """The total that a run may spend, on whose noise it may count, and what pays for it."""

    epsilon: float
    delta: float
    reserve: Reserve | None
    allowed: str | None  # why delta may be large
    ledger: Path | None


def train(algorithm: str | None, table: Table, schema: Schema, asked: Asked, budget: Budget, count: bool) -> None:
    """Training under a total budget; `count` measures the share of positives.

    algorithm : the method; None for the one that public facts recommend
    table, schema : the records, and how they become numbers
    asked : the options that training without privacy has, too
    budget : the total, and whose noise cannot be counted on
    """
    require_public(schema, incomplete_is_public=asked.file == "adult")
    data = encoded(table, schema, NOT_COVERED)
    parts, agent_names = share_out(table, data, asked.division, asked.seed, schema.sites)
    kept, held = hold_out(parts, asked.holdout, asked.seed)
    epsilon, delta, reserve, allowed, _ = budget
    few = [name for name, rows in zip(agent_names, kept, strict=True) if len(rows) < _FEW]  # this is public
    if few and reserve is None:
        more = f" and {len(few) - _SHOWN:,} more" if len(few) > _SHOWN else ""
        warn(
            f"fewer than {_FEW} records to train on: {', '.join(few[:_SHOWN])}{more}; so few add more noise than they "
            "teach the model: join them with another site, or leave them out"
        )
    if reserve is not None:
        reserve.shares(len(kept))  # refuses more colluders and dropouts than there are others
    graph = names.graph(asked.graph, len(kept), agent_names, asked.seed, reserve)
    name = algorithm or recommended(schema.label, list(map(len, kept)), graph, epsilon, delta, reserve)
    recipe = RECIPES[name]
    liars = names.hostile(asked.hostile, len(kept), asked.seed)
    err.print("preparing (the first run on a machine compiles the solver: some seconds)", style="dim")
    with rounds_bar(0) as bar, _opened(budget.ledger) as ledger:
        charged = None if ledger is None else records_of(table, ledger)
        trained = train_privately(
            recipe,
            data,
            schema,
            kept,
            graph,
            epsilon=epsilon,
            delta=delta,
            reserve=reserve,
            names=agent_names,
            test=data.take(held) if len(held) else None,
            sites=asked.division.site is not None,
            count_positives=count,
            robust=asked.robust,
            hostile=liars,
            engine=asked.engine,
            ledger=ledger,
            about=About(name, f"tacit train {Path(asked.file).name}", charged),
            prepared=lambda rounds: bar.update(bar.task_ids[0], total=rounds),
            progress=lambda done: bar.update(bar.task_ids[0], completed=done),
        )
        paid = None if ledger is None else budget_of(ledger)
        population = None if ledger is None else ledger.population
        cohorts = None if charged is None else charged.cohorts
    if allowed:
        trained.model.privacy["delta was allowed because"] = allowed
    trained.model.save(asked.out)
    if asked.report is not None:
        title = Path(asked.file).name
        used = data_of.records_used(schema, held_out=len(held), population=population, cohorts=cohorts)
        facts = data_of.privately(trained, title, name, asked.graph, used)
        write_private(asked.report, document.run(facts | ({} if paid is None else {"ledger": paid})))
    if asked.json:
        fields = ("rounds", "messages", "private", "epsilon", "delta", "positive_share")
        found = {"model": str(asked.out), "algorithm": name} | {field: getattr(trained, field) for field in fields}
        if trained.positive_share is None and isinstance(schema.label, Classes):
            found["positive_share"] = schema.label.positive_share  # public
        found |= trained.guarantee.as_plain() | {"statement": trained.model.privacy["statement"]}
        measured = as_plain(trained.measured)
        found |= measured | {"not_covered_by_the_guarantee": list(measured)}
        found |= {} if paid is None else {"ledger": paid}
        typer.echo(json_format.dumps(found | listening(asked.robust, liars)))
        return
    show_liars(liars)
    screen.print(f"{name} ({recipe.title}): {trained.rounds} rounds between {counted(len(kept), 'agent')}")
    screen.print(f"privacy: {trained.model.privacy['statement']}", soft_wrap=True)
    if trained.positive_share is not None:
        screen.print(f"share of positives, by a noisy count that the budget paid for: {trained.positive_share:.4f}")
    if trained.measured is not None:
        screen.print(f"on the {len(held):,} rows held out (not covered by the guarantee):")
        for line in in_words(trained.measured, schema.label, private=True):
            screen.print(f"  {line}", soft_wrap=True)
    if paid is not None:
        screen.print(f"{budget.ledger}: {in_figures(paid)}", markup=False, soft_wrap=True)
    tell_written(asked.out, asked.report)


def _opened(path: Path | None) -> AbstractContextManager[Ledger | None]:
    if path is None:
        return nullcontext()
    from tacit.privacy.filters import epsilon  # slow to import

    return Ledger(path, cost=epsilon)


def outcome(ledger: Path | None, out: Path) -> Callable[[], str]:
    """What a run did until it was stopped, as its files know it: the ledger pays all or nothing, and a model is written
    as a whole."""

    def found() -> tuple[int, int | None]:
        with _opened(ledger) as opened:
            rows = 0 if opened is None else opened.head().rows
        return rows, out.stat().st_ino if out.exists() else None  # a file that is replaced has a new number

    before = found()

    def told() -> str:
        rows, model = found()
        paid = f"{ledger} has paid this run's epsilon and keeps it" if rows != before[0] else "nothing was spent"
        written = f"{out} was written" if model != before[1] else "no model was written"
        return written if ledger is None else f"{paid}; {written}"

    return told


def show_liars(liars: Hostile | None) -> None:
    if liars is not None:
        screen.print(f"[bold]{liars}[/bold]; what follows is of the honest members")


def listening(robust: str | None, hostile: Hostile | None) -> dict[str, Any]:
    """How members listened and which of them lied, for --json."""
    attack = {} if hostile is None else {"simulated_attack": {"kind": hostile.kind, "liars": list(hostile.liars)}}
    return {**({} if robust is None else {"robust": robust}), **attack}
