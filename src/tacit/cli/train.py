"""`tacit train`"""

from __future__ import annotations

import json as json_format
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from tacit.cli import names, options
from tacit.cli.console import can_plot, err, rounds_bar, tell, warn, warn_of
from tacit.cli.console import out as screen
from tacit.cli.schema import draft_without, require_site
from tacit.core.solvers import ahead
from tacit.data import Classes, Dataset, Schema, Sites, Table, adult_schema, partition
from tacit.data.public import require_public
from tacit.errors import GraphError, InputError, whole
from tacit.exchange.listening import check_robust
from tacit.files import writable
from tacit.report import tables
from tacit.report.metrics import in_words
from tacit.workflows import exact
from tacit.workflows.losses import exact_loss
from tacit.workflows.recipes import RECIPES, Recipe, recommended
from tacit.workflows.training import Trained, as_json, as_plain, hold_out, one_sided, ticks_a_round, train_privately
from tacit.workflows.training import train as train_together

if TYPE_CHECKING:
    from tacit.attacks.poisoning import Hostile

NOT_COVERED = " (not covered by the guarantee: keep this to yourself)"
NOISY = "noisy"  # of --positive-share: measured by a noisy count


class Division(NamedTuple):
    """How the rows are divided among the agents: by a column, or among so many agents."""

    site: str | None
    agents: int | None
    skew: float | None


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
    json: bool


def train(
    file: options.File,
    label: options.Label = None,
    site: options.Site = None,
    agents: options.Agents = None,
    skew: options.Skew = None,
    schema: options.SchemaFile = None,
    graph: options.GraphText = "ring",
    epsilon: options.Total = None,
    delta: options.Delta = 1e-5,
    algorithm: options.AlgorithmName = None,
    penalty: options.Penalty = None,
    loss: options.LossName = None,
    l2: options.L2 = None,
    rounds: options.Rounds = None,
    tolerance: options.Tolerance = None,
    positive_share: options.PositiveShare = None,
    class_weight: options.ClassWeight = None,
    holdout: options.Holdout = 0.1,
    robust: options.Robust = None,
    hostile: options.HostileText = None,
    seed: options.Seed = 0,
    out: options.Out = Path("model.json"),
    json: options.Json = False,
) -> None:
    """Train one model for several organisations without pooling their data.

    In every round each agent solves its own problem on its own rows and sends its model to its neighbours, until all
    agree. With the algorithms i-admm, w-admm and pi-admm (private) one agent speaks at a time and hands on a token:
    fewer messages, but it takes longer. The command simulates all agents in one process.

    **Without --epsilon nothing is private: the agents exchange their exact models.** With --epsilon, noise from the
    operating system's generator protects every record by (epsilon, delta) over the whole run. You must then give
    --schema, because drafting a schema reads the records. With --site a record is protected within its site.

    The label may have two classes, several classes, or be a number. If one of two classes is rare, say how rare it is
    (--positive-share): the model then ranks records better, at no cost. The result says how well it ranks (AUC).

    Example: `tacit train patients.csv --label died --site hospital --graph ring --out model.json`

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --delta 1e-6`

    Example: `tacit train patients.csv --schema schema.toml --site hospital --epsilon 1 --positive-share 0.06`

    Example: `tacit train adult --graph complete --epsilon 1 --robust clipping --hostile flip:1`
    """
    if out.suffix == ".png":
        raise InputError(f"--out is the model file, and {out} is where its plot goes: name it .json")
    inputs: list[str | Path] = [file, *([] if schema is None else [schema]), graph]
    writable(out, inputs)
    writable(out.with_suffix(".png"), inputs)
    if seed < 0:
        raise InputError(f"--seed must be zero or more, not {seed}")
    if rounds is not None:
        whole("--rounds", rounds, 1)
    check_robust(robust)
    ahead.start()
    asked = Asked(file, Division(site, agents, skew), graph, holdout, robust, hostile, seed, out, json)
    if epsilon is not None:
        settings = {"--penalty": penalty, "--loss": loss, "--l2": l2, "--rounds": rounds, "--tolerance": tolerance}
        for option, given in settings.items():
            if given is not None:
                raise InputError(f"with --epsilon the settings follow from the budget; leave out {option}")
        if skew is not None:
            raise InputError(
                "--skew divides the rows by their labels, so the numbers of rows, which are public, would reveal "
                "something about the labels; with --epsilon leave it out, or use tacit compare on public records"
            )
        if algorithm is not None:
            names.pick(RECIPES, algorithm, "with --epsilon, algorithm")
        if schema is None and file != "adult":
            raise InputError(
                "with --epsilon give --schema: a schema drafted from the records would reveal something about them"
            )
        table, used_schema = read(file, label, site, schema)
        used_schema = rare(used_schema, positive_share, class_weight)
        recipe = RECIPES[algorithm or recommended(used_schema.label)]
        recipe.for_label(used_schema.label)  # refuses several classes where nothing is proved for them
        return _private(recipe, table, used_schema, asked, epsilon, delta, count=positive_share == NOISY)
    make = names.pick(exact.ALGORITHMS, algorithm or "admm", "algorithm")
    if penalty is not None:
        make(penalty=penalty)  # refuses a bad one before the file is read
    if positive_share == NOISY:
        raise InputError("--positive-share noisy is paid for by a budget; give --epsilon, or the share as a number")
    table, used_schema = read(file, label, site, schema)
    used_schema = rare(used_schema, positive_share, class_weight)
    chosen_loss = exact_loss(loss, used_schema.label)
    method = make(penalty=exact.usual_penalty(chosen_loss) if penalty is None else penalty)
    data = encoded(table, used_schema)
    parts, agent_names = share_out(table, data, asked.division, seed, used_schema.sites)
    liars = names.hostile(hostile, len(parts), seed)
    trained = run(
        method,
        data,
        used_schema,
        parts,
        agent_names,
        names.graph(graph, len(parts), agent_names, seed),
        loss=chosen_loss,
        l2=exact.L2 if l2 is None else l2,
        rounds=exact.ROUNDS if rounds is None else rounds,
        tolerance=exact.TOLERANCE if tolerance is None else tolerance,
        holdout=holdout,
        seed=seed,
        theory=penalty is not None,
        robust=robust,
        hostile=liars,
    )
    trained.model.save(out)
    picture = out.with_suffix(".png") if can_plot() else None
    if picture is not None:
        from tacit.report import plots  # matplotlib is slow to import: not for --help

        title = f"{Path(file).name}: {len(parts)} agents, {algorithm or 'admm'}, {graph}"
        plots.convergence(trained, picture, title)
    if json:
        files = {"model": str(out), "plot": None if picture is None else str(picture)}
        typer.echo(json_format.dumps(as_json(trained) | files | _listening(robust, liars)))
        return
    _show_liars(liars)
    show(trained)
    err.print(f"wrote {out if picture is None else f'{out} and {picture}'}", markup=False, soft_wrap=True)


def rare(schema: Schema, share: str | None, weight: str | None) -> Schema:
    """The schema with the share of positives and the class weights of the options, if they are given."""
    label = schema.label
    if share is None and weight is None:
        return schema
    if not isinstance(label, Classes):
        raise InputError("--positive-share and --class-weight are for a label of two classes; leave them out")
    if share is not None and share != NOISY:
        label = replace(label, positive_share=_float(share, "--positive-share is a number such as 0.06, or noisy"))
    if weight == "balanced":
        if label.positive_share is None:
            raise InputError("--class-weight balanced follows from the share of positives: give --positive-share 0.06")
        label = replace(label, weights=(0.5 / (1 - label.positive_share), 0.5 / label.positive_share))
    elif weight is not None:
        rule = "--class-weight is two numbers, for negative and positive records, such as 1,5; or balanced"
        numbers = [_float(text, rule) for text in weight.split(",")]
        if len(numbers) != 2:
            raise InputError(f"{rule}; not {weight!r}")
        label = replace(label, weights=(numbers[0], numbers[1]))
    return replace(schema, label=label)


def _float(text: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{rule}; not {text!r}") from None


def _private(
    recipe: Recipe, table: Table, schema: Schema, asked: Asked, epsilon: float, delta: float, count: bool
) -> None:
    """Training under a total budget; `count` measures the share of positives.

    recipe, table, schema : the method, the records, and how they become numbers
    asked : the options that training without privacy has, too
    epsilon, delta : the total budget
    """
    require_public(schema, incomplete_is_public=asked.file == "adult")
    data = encoded(table, schema, NOT_COVERED)
    parts, agent_names = share_out(table, data, asked.division, asked.seed, schema.sites)
    kept, held = hold_out(parts, asked.holdout, asked.seed)
    liars = names.hostile(asked.hostile, len(kept), asked.seed)
    warn_of(delta, max(map(len, kept)))
    err.print("the first run on a machine compiles the solver: some seconds", style="dim")
    with rounds_bar(0) as bar:
        trained = train_privately(
            recipe,
            data,
            schema,
            kept,
            names.graph(asked.graph, len(kept), agent_names, asked.seed),
            epsilon=epsilon,
            delta=delta,
            names=agent_names,
            test=data.take(held) if len(held) else None,
            sites=asked.division.site is not None,
            count_positives=count,
            robust=asked.robust,
            hostile=liars,
            prepared=lambda rounds: bar.update(bar.task_ids[0], total=rounds),
            progress=lambda done: bar.update(bar.task_ids[0], completed=done),
        )
    trained.model.save(asked.out)
    if asked.json:
        fields = ("rounds", "messages", "private", "epsilon", "delta", "positive_share")
        found = {"model": str(asked.out)} | {name: getattr(trained, name) for name in fields}
        measured = as_plain(trained.measured)
        found |= measured | {"not_covered_by_the_guarantee": list(measured)}
        typer.echo(json_format.dumps(found | _listening(asked.robust, liars)))
        return
    _show_liars(liars)
    screen.print(f"{recipe.title}: {trained.rounds} rounds between {len(kept)} agents")
    screen.print(f"privacy: {trained.model.privacy['statement']}", soft_wrap=True)
    if trained.positive_share is not None:
        screen.print(f"share of positives, by a noisy count that the budget paid for: {trained.positive_share:.4f}")
    if trained.measured is not None:
        screen.print(f"on the {len(held):,} rows held out (not covered by the guarantee):")
        for line in in_words(trained.measured, schema.label):
            screen.print(f"  {line}", soft_wrap=True)
    err.print(f"wrote {asked.out}", markup=False, soft_wrap=True)


def _show_liars(liars: Hostile | None) -> None:
    if liars is not None:
        screen.print(f"[bold]{liars}[/bold]; what follows is of the honest members")


def _listening(robust: str | None, hostile: Hostile | None) -> dict[str, Any]:
    """How members listened and which of them lied, for --json."""
    attack = {} if hostile is None else {"simulated_attack": {"kind": hostile.kind, "liars": list(hostile.liars)}}
    return {**({} if robust is None else {"robust": robust}), **attack}


def encoded(table: Table, schema: Schema, note: str = "") -> Dataset:
    """The records as numbers. Warns of values clipped or unknown and of rows left out, each time with the note."""
    data = schema.encode(table)
    for column, count in data.clipped.items():
        outside = f"{count:,} of {len(table):,} values lie outside the schema's bounds and were clipped"
        warn(f"column {column!r}: {outside}{note}")
    for column, count in data.unknown.items():
        strange = f"{count:,} of {len(table):,} values are no category of the schema, so their features are zero"
        warn(f"column {column!r}: {strange}{note}")
    if len(data) < len(table):
        warn(f"{len(table) - len(data):,} of {len(table):,} rows lack a value and were left out{note}")
    return data


def read(file: str, label: str | None, site: str | None, schema: Path | None) -> tuple[Table, Schema]:
    """The file, and its schema: the given one, or that of the embedded data, or a draft."""
    table = names.records(file)
    if site is not None:
        require_site(table, site)
    if schema is not None:
        given = Schema.from_toml(schema)
        if site is not None and site == given.label.column:
            raise InputError(f"column {site!r} cannot be both the label and the site")
        if site is not None and given.sites is not None and site != given.sites.column:
            raise InputError(
                f"--site {site} contradicts the schema, whose sites are in column {given.sites.column!r}; change one"
            )
        if any(column.name == site for column in given.columns):
            warn(f"the schema learns from {site!r}, the column of sites: a new site could not use the model")
        if label is not None and label != given.label.column:
            raise InputError(
                f"--label {label} contradicts the schema, whose label is {given.label.column!r}; leave it out"
            )
        return table, given
    if file == "adult" and label in (None, "income"):
        return table, adult_schema()
    if label is None:
        raise InputError("--label is needed: the column to predict (or --schema, which names it)")
    drafted, notes = draft_without(table, label, site)
    tell(notes)
    return table, drafted


def share_out(
    table: Table, data: Dataset, division: Division, seed: int, sites: Sites | None = None
) -> tuple[list[np.ndarray], list[str]]:
    """Which rows of the data each agent holds, and the names of the agents.

    table, data : the file, and its encoded records
    division, seed : how to divide the rows, and the seed for that
    sites : the list of sites in the schema, if there is one
    """
    site, agents, skew = division
    if site is not None:
        if agents is not None or skew is not None:
            raise InputError("--site already says which agent holds which rows; leave out --agents and --skew")
        cells = table.columns[site][data.kept]
        if np.any(cells == ""):
            row = int(data.kept[np.argmax(cells == "")])
            raise InputError(f"every record needs a site; {table.where(row)} has no {site!r}; fill it in")
        if sites is not None:
            return partition.by_place(sites.place(table.cells(site, data.kept)), sites.names), list(sites.names)
        parts, found = partition.by_column(cells)
        return parts, list(map(str, found))
    n = 5 if agents is None else agents
    assert data.y is not None
    parts = partition.equal(len(data), n, seed) if skew is None else partition.dirichlet(data.y, n, skew, seed)
    return parts, [f"agent {i}" for i in range(n)]


def run(
    method: Any,
    data: Dataset,
    schema: Schema,
    parts: list[np.ndarray],
    agent_names: list[str],
    graph: Any,
    *,
    loss: Any,
    l2: float,
    rounds: int,
    tolerance: float | None,
    holdout: float,
    seed: int,
    theory: bool = False,
    robust: str | None = None,
    hostile: Hostile | None = None,
) -> Trained:
    """Holds rows out, trains with a progress bar, and warns if something looks wrong.

    method, loss, l2 : the algorithm, and the objective of each agent
    data, schema, parts, agent_names : the records, and which rows belong to which agent
    graph : who talks to whom
    rounds, tolerance : when to stop
    holdout, seed : the share of rows to hold out, and the seed that chooses them
    theory : also warn if a theorem's conditions do not hold; not for our default penalty, which works without them
    robust, hostile : how members listen, and which of them lie
    """
    kept, held = hold_out(parts, holdout, seed)
    for name in one_sided(data, kept, agent_names, schema):
        warn(f"{name} has rows of one class only")
    try:
        ticks = ticks_a_round(method, graph)
    except GraphError as error:
        advice = "; take --algorithm w-admm, or another --graph" if graph.agents > 1 else ""
        raise GraphError(f"{error}{advice}") from None
    waiting = err.status("preparing (the first run on a machine compiles the solver: some seconds)")
    with rounds_bar(rounds * ticks) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        waiting.start()
        try:
            trained = train_together(
                method,
                data,
                schema,
                kept,
                graph,
                loss=loss,
                l2=l2,
                rounds=rounds,
                tolerance=tolerance,
                names=agent_names,
                test=data.take(held) if len(held) else None,
                robust=robust,
                hostile=hostile,
                progress=lambda done: bar.update(bar.task_ids[0], completed=done),
                prepared=waiting.stop,
            )
        finally:
            waiting.stop()
    for warning in caught if theory else []:
        warn(str(warning.message))
    if not trained.run.converged:
        worst = max(trained.run.history["primal_residual"][-1], trained.run.history["dual_residual"][-1])
        warn(
            f"stopped after {trained.rounds} rounds with residuals up to {worst:.1e}, not below {tolerance:.0e}; "
            "try more --rounds, or another --penalty (too small and too large are both slow)"
        )
    return trained


def show(trained: Trained) -> None:
    """The comparison, and what the agents sent."""
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
    screen.print(f"privacy: {trained.model.privacy['statement']}")
