"""The command `tacit train`."""

from __future__ import annotations

import json as json_format
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from tacit.cli import names, options
from tacit.cli.console import can_plot, check_total, err, if_stopped, rounds_bar, tell_written, warn
from tacit.cli.console import out as screen
from tacit.cli.expand import expanded
from tacit.cli.records import NOT_COVERED, Given, check_division, encoded, records_of, share_out
from tacit.data import Classes, Dataset, Schema, Table
from tacit.data.public import require_public
from tacit.errors import InputError
from tacit.files import writable, write_private
from tacit.privacy.noise import SecureNoise
from tacit.run.metrics import as_plain
from tacit.run.model import Model
from tacit.run.recipes import RECIPES
from tacit.run.request import Request
from tacit.run.setting import Setting
from tacit.run.spending import opened
from tacit.run.training import Trained, as_json, hold_out, one_sided, train_privately
from tacit.run.training import train as train_together

if TYPE_CHECKING:
    from tacit.engines import Ray
    from tacit.simulation.hostile import Hostile

_FEW = 10  # records of a member whose own noise is far larger than what they say, at any epsilon of use
_SHOWN = 3  # names in a warning


@dataclass(frozen=True)
class Place:
    """Where the agents of a simulation are."""

    engine: options.Where = "local"
    shards: options.Shards = None
    address: options.Address = None


class Ready(NamedTuple):
    """Everything that both kinds of training need."""

    given: Given
    asked: Request
    data: Dataset
    schema: Schema
    kept: list[np.ndarray]  # the rows of each agent that are not held out
    held: np.ndarray
    agents: list[str]
    setting: Setting
    hostile: Hostile | None
    engine: Ray | None
    graph: str  # as it was asked for
    out: Path
    report: Path | None
    json: bool


@expanded
def train(
    given: Given,
    asked: Request,
    place: Place,
    graph: options.GraphText = "auto",
    ledger: options.LedgerFile = None,
    holdout: options.Holdout = 0.1,
    hostile: options.HostileText = None,
    seed: options.Seed = 0,
    out: options.Out = Path("model.json"),
    report: options.Report = None,
    json: options.Json = False,
    old_method: options.OldMethodName = None,
) -> None:
    """Train one model for several organisations without pooling their data.

    In every round each agent solves its own problem on its own rows and sends its model to its neighbours, until all
    agree. With the methods i-admm, w-admm and pi-admm (private) one agent speaks at a time and hands on a token:
    fewer messages, but it takes longer. The command simulates all agents in one process; with --engine ray it divides
    them among the processes of a Ray cluster, with the same result.

    **Without --epsilon nothing is private: the agents exchange their exact models.** With --epsilon, noise from the
    operating system's generator protects every record by (epsilon, delta) over the whole run. You must then give
    --schema, because drafting a schema reads the records. With --site a record is protected within its site.

    The label may have two classes, several classes, or be a number. If one of two classes is rare, say how rare it is
    (--positive-share): the model then ranks records better, at no cost. The result says how well it ranks (AUC).

    Example: `tacit train patients.csv --label died --site hospital --graph ring --out model.json`

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --delta 1e-6`

    With --ledger the run is paid from a ledger, which adds up all that the same people's records were ever used for.

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --ledger patients.ledger`

    With --report the command also writes a page about the run for people who do not know the method: who took part,
    what left, what it cost in plain words. Of a private run it shows only what the guarantee covers.

    With --colluders the members share the noise: less of it, so a better model, if no more members than that put
    together what they know. The model file says what holds against every other number of them.

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --colluders 1`

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --positive-share 0.06`

    Parameters of the method itself are set with --set; --spec takes them all from a file (`tacit plan --spec-out`).

    Example: `tacit train patients.csv --schema schema.toml --method r-admm --epsilon 1 --rounds 40 --set gamma=0.3`

    Example: `tacit train adult --graph complete --epsilon 1 --robust clipping --hostile flip:1`

    Example: `tacit train patients.csv --label died --agents 5000 --engine ray --address auto`
    """
    if old_method is not None:
        warn("--algorithm is now called --method")
        asked = replace(asked, method=asked.method or old_method)
    if given.count:
        asked = replace(asked, count=True)
    _check_files(given, graph, ledger, out, report)
    if seed < 0:
        raise InputError(f"--seed must be zero or more, not {seed}")
    total = asked.total
    names.check_topology(graph, hostile)
    if total is None and ledger is not None:
        raise InputError("no ledger can pay for a run without privacy: give --epsilon, or leave out --ledger")
    if total is not None and given.skew is not None:
        raise InputError(
            "--skew divides the rows by their labels, so the numbers of rows, which are public, would reveal "
            "something about the labels; with --epsilon leave it out, or use tacit compare on public records"
        )
    check_division(given.division)
    hold_out([np.zeros(1)], holdout)
    names.check_hostile(hostile, asked.trusted, count=asked.counted)
    if total is not None and given.schema is None and given.file != "adult":
        raise InputError(
            "for a private run give --schema: a schema drafted from the records would reveal something about them"
        )
    where, known = names.shards(place.engine, place.shards, place.address), given.agreed()
    if known is not None:
        if total is not None:
            require_public(known, incomplete_is_public=given.file == "adult")
        asked.check_label(known.label)
    with if_stopped(outcome(ledger, out)):
        table, schema = given.read()
        asked.check_label(schema.label)
        if total is not None:
            require_public(schema, incomplete_is_public=given.file == "adult")
            check_total(total, len(table))
        data = encoded(table, schema, "" if total is None else NOT_COVERED)
        parts, agents = share_out(table, data, names.division(given.division, asked), seed, schema.sites)
        kept, held = hold_out(parts, holdout, seed)
        talk = names.graph_for(graph, asked, agents, seed)
        setting = asked.on(schema, kept, talk)
        liars = names.hostile(hostile, len(kept), seed)
        ready = Ready(given, asked, data, schema, kept, held, agents, setting, liars, where, graph, out, report, json)
        if total is None:
            _without_privacy(ready)
        else:
            _privately(ready, table, ledger)


def _check_files(given: Given, graph: str, ledger: Path | None, out: Path, report: Path | None) -> None:
    """Refuses files that would be overwritten, before any long work."""
    if out.suffix == ".png":
        raise InputError(f"--out is the model file, and {out} is where its plot goes: name it .json")
    inputs = [*given.inputs, graph, *([] if ledger is None else [ledger])]
    writable(out, inputs)
    writable(out.with_suffix(".png"), inputs)
    try:
        private = Model.load(out).privacy.get("private")
    except InputError:  # no file, or another one, which may be replaced
        private = False
    if private:  # another one would cost epsilon again
        raise InputError(f"{out} is a private model, which has cost epsilon; name another file with --out, or move it")
    names.report_file(report, inputs, [out, out.with_suffix(".png")])


def _without_privacy(ready: Ready) -> None:
    """Trains without a budget, and compares with pooled records and with each organisation alone."""
    asked, setting, out = ready.asked, ready.setting, ready.out
    trained = run(
        setting,
        ready.data,
        ready.schema,
        ready.kept,
        ready.agents,
        held=ready.held,
        hostile=ready.hostile,
        engine=ready.engine,
        theory=asked.penalty is not None or bool(asked.own) or asked.spec is not None,
    )
    trained.model.save(out)
    picture, talk = out.with_suffix(".png") if can_plot() else None, setting.graph
    title = Path(ready.given.file).name
    if picture is not None:
        from tacit.report import plots  # matplotlib is slow to import: not for --help

        who = ready.graph if ready.graph != "auto" else f"{len(talk.edges)} edges"
        plots.convergence(trained, picture, f"{title}: {talk.agents} agents, {setting.name}, {who}")
    if ready.report is not None:
        from tacit.report import pages, run_facts

        used = run_facts.records_used(ready.schema, held_out=len(ready.held))
        write_private(ready.report, pages.run(run_facts.exactly(trained, title, setting.name, used)))
    if ready.json:
        files = {"model": str(out), "plot": None if picture is None else str(picture)}
        typer.echo(json_format.dumps(as_json(trained) | files | _listening(ready)))
        return
    _show_liars(ready.hostile)
    show(trained)
    tell_written(out, picture, ready.report)


def run(
    setting: Setting,
    data: Dataset,
    schema: Schema,
    kept: list[np.ndarray],
    agents: list[str],
    *,
    held: np.ndarray,
    hostile: Hostile | None = None,
    engine: Ray | None = None,
    theory: bool = False,
) -> Trained:
    """Trains with a progress bar, and warns if something looks wrong.

    setting : the run
    data, schema : the records
    kept, agents, held : the rows of each agent and its name, and the rows held out
    hostile : members that lie
    engine : where the agents are, if not in this process
    theory : also warn if a theorem's conditions do not hold; not for our default penalty, which works without them
    """
    for name in one_sided(data, kept, agents, schema):
        warn(f"{name} has rows of one class only")
    waiting = err.status("preparing (the first run on a machine compiles the solver: some seconds)")
    with rounds_bar(setting.rounds) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        waiting.start()
        try:
            trained = train_together(
                setting,
                data,
                schema,
                kept,
                names=agents,
                test=data.take(held) if len(held) else None,
                hostile=hostile,
                noise=SecureNoise() if setting.draws else None,
                engine=engine,
                progress=lambda done: bar.update(bar.task_ids[0], completed=done),
                prepared=waiting.stop,
            )
        finally:
            waiting.stop()
    for warning in caught if theory else []:
        warn(str(warning.message))
    if not trained.run.converged and setting.spec.tolerance is not None:
        worst = max(trained.run.history["primal_residual"][-1], trained.run.history["dual_residual"][-1])
        warn(
            f"stopped after {trained.rounds} rounds with residuals up to {worst:.1e}, not below "
            f"{setting.spec.tolerance:.0e}; try more --rounds, or another --penalty (too small and too large are both "
            "slow)"
        )
    return trained


def show(trained: Trained) -> None:
    """The comparison, and what the agents sent."""
    from tacit.report import tables
    from tacit.report.metrics_in_words import in_words

    screen.print(tables.comparison(trained))
    history, n = trained.run.history, trained.rounds
    screen.print(
        f"\n{n} {'round' if n == 1 else 'rounds'}; the agents' models differ by at most "
        f"{history['consensus_error'][-1]:.1e}; {history['bytes'][-1] / 1e6:.2f} MB "
        f"in {int(history['messages'][-1]):,} messages between neighbours"
    )
    if trained.together.measured is not None:
        screen.print("\nthe model trained together, on the rows held out:")
        for line in in_words(trained.together.measured, trained.model.schema.label):
            screen.print(f"  {line}", soft_wrap=True)
    screen.print(f"privacy: {trained.model.privacy['statement']}", soft_wrap=True)


def _privately(ready: Ready, table: Table, ledger_file: Path | None) -> None:
    """Trains under a total budget."""
    schema, setting, kept = ready.schema, ready.setting, ready.kept
    few = [name for name, rows in zip(ready.agents, kept, strict=True) if len(rows) < _FEW]  # this is public
    if few and setting.spec.trust.reserve is None:
        more = f" and {len(few) - _SHOWN:,} more" if len(few) > _SHOWN else ""
        warn(
            f"fewer than {_FEW} records to train on: {', '.join(few[:_SHOWN])}{more}; so few add more noise than they "
            "teach the model: join them with another site, or leave them out"
        )
    err.print("preparing (the first run on a machine compiles the solver: some seconds)", style="dim")
    title, name = Path(ready.given.file).name, setting.name
    about = paid = population = cohorts = None
    with rounds_bar(0) as bar, opened(ledger_file) as ledger:
        if ledger is not None:
            from tacit.privacy.ledger import About
            from tacit.privacy.ledger.statement import budget_of, in_figures

            charged = records_of(table, ledger)
            about = About(name, f"tacit train {title}", charged)
            population, cohorts = ledger.population, charged.cohorts
        trained = train_privately(
            setting,
            ready.data,
            schema,
            kept,
            names=ready.agents,
            test=ready.data.take(ready.held) if len(ready.held) else None,
            sites=ready.given.site is not None,
            hostile=ready.hostile,
            engine=ready.engine,
            ledger=ledger,
            about=about,
            prepared=lambda rounds: bar.update(bar.task_ids[0], total=rounds),
            progress=lambda done: bar.update(bar.task_ids[0], completed=done),
        )
        if ledger is not None:
            paid = budget_of(ledger)
    trained.model.save(ready.out)
    if ready.report is not None:
        from tacit.report import pages, run_facts

        used = run_facts.records_used(schema, held_out=len(ready.held), population=population, cohorts=cohorts)
        facts = run_facts.privately(trained, title, name, ready.graph, used)
        write_private(ready.report, pages.run(facts | ({} if paid is None else {"ledger": paid})))
    if ready.json:
        fields = ("rounds", "messages", "private", "epsilon", "delta", "positive_share")
        found = {"model": str(ready.out), "algorithm": name} | {field: getattr(trained, field) for field in fields}
        if trained.positive_share is None and isinstance(schema.label, Classes):
            found["positive_share"] = schema.label.positive_share  # public
        found |= trained.guarantee.as_plain() | {"statement": trained.model.privacy["statement"]}
        measured = as_plain(trained.measured)
        found |= measured | {"not_covered_by_the_guarantee": list(measured)}
        found |= {} if paid is None else {"ledger": paid}
        typer.echo(json_format.dumps(found | _listening(ready)))
        return
    _show_liars(ready.hostile)
    agents = "1 agent" if len(kept) == 1 else f"{len(kept):,} agents"
    what = RECIPES[name].title if name in RECIPES else "settings of your own"
    screen.print(f"{name} ({what}): {trained.rounds} rounds between {agents}")
    screen.print(f"privacy: {trained.model.privacy['statement']}", soft_wrap=True)
    if trained.positive_share is not None:
        screen.print(f"share of positives, by a noisy count that the budget paid for: {trained.positive_share:.4f}")
    if trained.measured is not None:
        from tacit.report.metrics_in_words import in_words

        screen.print(f"on the {len(ready.held):,} rows held out (not covered by the guarantee):")
        for line in in_words(trained.measured, schema.label, private=True):
            screen.print(f"  {line}", soft_wrap=True)
    if paid is not None:
        screen.print(f"{ledger_file}: {in_figures(paid)}", markup=False, soft_wrap=True)
    tell_written(ready.out, ready.report)


def outcome(ledger: Path | None, out: Path) -> Callable[[], str]:
    """What a run did until it was stopped, as its files know it: the ledger pays all or nothing, and a model is written
    as a whole."""

    def found() -> tuple[int, int | None]:
        with opened(ledger) as account:
            rows = 0 if account is None else account.head().rows
        return rows, out.stat().st_ino if out.exists() else None  # a file that is replaced has a new number

    before = found()

    def told() -> str:
        rows, model = found()
        paid = f"{ledger} has paid this run's epsilon and keeps it" if rows != before[0] else "nothing was spent"
        written = f"{out} was written" if model != before[1] else "no model was written"
        return written if ledger is None else f"{paid}; {written}"

    return told


def _show_liars(liars: Hostile | None) -> None:
    if liars is not None:
        screen.print(f"[bold]{liars}[/bold]; what follows is of the honest members")


def _listening(ready: Ready) -> dict[str, Any]:
    """How members listened and which of them lied, for --json."""
    hostile, robust = ready.hostile, ready.setting.spec.trust.robust
    attack = {} if hostile is None else {"simulated_attack": {"kind": hostile.kind, "liars": list(hostile.liars)}}
    return {**({} if robust is None else {"robust": robust}), **attack}
