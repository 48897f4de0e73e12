"""`tacit train`"""

from __future__ import annotations

import json as json_format
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tacit.cli import names, options, train_private
from tacit.cli.console import can_plot, check_total, err, if_stopped, rounds_bar, tell_written, warn
from tacit.cli.console import out as screen
from tacit.cli.records import NOISY, Division, agreed, check_division, encoded, rare, read, share_out
from tacit.cli.train_private import Asked, Budget
from tacit.data import Dataset, Schema
from tacit.data.clipping import longest
from tacit.data.public import require_public
from tacit.engines import Ray
from tacit.errors import GraphError, InputError, number, whole
from tacit.exchange.listening import check_robust
from tacit.files import writable, write_private
from tacit.privacy.noise import Noise, SeededNoise
from tacit.report import tables
from tacit.report.document import run as document
from tacit.report.document import trained as data_of
from tacit.report.metrics import in_words
from tacit.run import limits
from tacit.workflows import exact
from tacit.workflows.losses import LOSSES, exact_loss
from tacit.workflows.model import Model
from tacit.workflows.recipes import RECIPES
from tacit.workflows.training import Trained, as_json, hold_out, one_sided, ticks_a_round
from tacit.workflows.training import train as train_together

if TYPE_CHECKING:
    from tacit.attacks.poisoning import Hostile


def train(
    file: options.File,
    label: options.Label = None,
    site: options.Site = None,
    agents: options.Agents = None,
    skew: options.Skew = None,
    schema: options.SchemaFile = None,
    graph: options.GraphText = "auto",
    epsilon: options.Total = None,
    delta: options.TotalDelta = None,
    allow_delta: options.AllowDelta = None,
    ledger: options.LedgerFile = None,
    colluders: options.Colluders = None,
    dropouts: options.Dropouts = 0,
    method: options.MethodName = None,
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
    report: options.Report = None,
    json: options.Json = False,
    engine: options.Where = "local",
    shards: options.Shards = None,
    address: options.Address = None,
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

    Example: `tacit train adult --graph complete --epsilon 1 --robust clipping --hostile flip:1`

    Example: `tacit train patients.csv --label died --agents 5000 --engine ray --address auto`
    """
    if old_method is not None:
        warn("--algorithm is now called --method")
        method = method or old_method
    if out.suffix == ".png":
        raise InputError(f"--out is the model file, and {out} is where its plot goes: name it .json")
    inputs: list[str | Path] = [file, graph, *(path for path in (schema, ledger) if path is not None)]
    writable(out, inputs)
    writable(out.with_suffix(".png"), inputs)
    _keep_private_model(out)
    names.report_file(report, inputs, [out, out.with_suffix(".png")])
    if seed < 0:
        raise InputError(f"--seed must be zero or more, not {seed}")
    if rounds is not None:
        whole("--rounds", rounds, 1)
    check_robust(robust)
    names.check_topology(graph, hostile)
    if epsilon is not None and skew is not None:
        raise InputError(
            "--skew divides the rows by their labels, so the numbers of rows, which are public, would reveal "
            "something about the labels; with --epsilon leave it out, or use tacit compare on public records"
        )
    check_division(Division(site, agents, skew))
    hold_out([np.zeros(1)], holdout)
    reserve = names.reserve(colluders, dropouts, robust=robust, hostile=hostile)
    if reserve is not None and epsilon is None:
        raise InputError("--colluders says how members share the noise of a private run: give --epsilon, too")
    total_delta = names.total_delta(epsilon, delta, allow_delta)
    where = names.shards(engine, shards, address)
    asked = Asked(file, Division(site, agents, skew), graph, holdout, robust, hostile, seed, out, report, json, where)
    if epsilon is not None:
        settings = {"--penalty": penalty, "--loss": loss, "--l2": l2, "--rounds": rounds, "--tolerance": tolerance}
        for option, given in settings.items():
            if given is not None:
                raise InputError(f"with --epsilon the settings follow from the budget; leave out {option}")
        if method is not None:
            names.pick(RECIPES, method, "with --epsilon, --method").check_reserve(reserve)
        if schema is None and file != "adult":
            raise InputError(
                "with --epsilon give --schema: a schema drafted from the records would reveal something about them"
            )
        limits.Budget(epsilon, total_delta, allow_delta or "").check(2)  # what no number of rows would allow
        known = agreed(file, label, site, schema)
        if known is not None:
            require_public(rare(known, positive_share, class_weight), incomplete_is_public=file == "adult")
        with if_stopped(train_private.outcome(ledger, out)):
            table, used_schema = read(file, label, site, schema)
            check_total(epsilon, total_delta, len(table), allow_delta)
            used_schema = rare(used_schema, positive_share, class_weight)
            if method is not None:
                RECIPES[method].for_label(used_schema.label)  # refuses several classes where nothing is proved for them
            budget = Budget(epsilon, total_delta, reserve, allow_delta, ledger)
            train_private.train(method, table, used_schema, asked, budget, count=positive_share == NOISY)
        return
    if ledger is not None:
        raise InputError("no ledger can pay for a run without privacy: give --epsilon, or leave out --ledger")
    name = method or "admm"
    if name in RECIPES and name not in exact.ALGORITHMS:
        raise InputError(f"{name} is private: give --epsilon, too")
    chosen = names.pick(exact.ALGORITHMS, name, "--method")
    if penalty is not None:
        number("penalty", penalty)  # refuses a bad one before the file is read
    if positive_share == NOISY:
        raise InputError("--positive-share noisy is paid for by a budget; give --epsilon, or the share as a number")
    for option, given, zero in (("l2", l2, True), ("tolerance", tolerance, False)):
        if given is not None:
            number(option, given, zero=zero)
    known = agreed(file, label, site, schema)
    if known is not None:
        exact_loss(loss, rare(known, positive_share, class_weight).label)
    elif loss is not None:
        names.pick(LOSSES, loss, "loss")
    table, used_schema = read(file, label, site, schema)
    used_schema = rare(used_schema, positive_share, class_weight)
    chosen_loss = exact_loss(loss, used_schema.label)
    data = encoded(table, used_schema)
    parts, agent_names = share_out(table, data, asked.division, seed, used_schema.sites)
    liars = names.hostile(hostile, len(parts), seed)
    talk = names.graph(graph, len(parts), agent_names, seed)
    l2, sizes = exact.L2 if l2 is None else l2, [len(part) for part in parts]
    usual = exact.usual_penalty(name, chosen_loss, l2=l2, row_norm=longest(data.X), sizes=sizes)
    with if_stopped(train_private.outcome(None, out)):
        trained = run(
            chosen.make(usual if penalty is None else penalty, talk),
            data,
            used_schema,
            parts,
            agent_names,
            talk,
            loss=chosen_loss,
            l2=l2,
            rounds=exact.ROUNDS if rounds is None else rounds,
            tolerance=exact.TOLERANCE if tolerance is None else tolerance,
            holdout=holdout,
            seed=seed,
            theory=penalty is not None,
            robust=robust,
            hostile=liars,
            noise=SeededNoise(seed) if chosen.draws else None,
            engine=where,
        )
        trained.model.save(out)
    picture = out.with_suffix(".png") if can_plot() else None
    if picture is not None:
        from tacit.report import plots  # matplotlib is slow to import: not for --help

        who = graph if graph != "auto" else f"{len(talk.edges)} edges"
        title = f"{Path(file).name}: {len(parts)} agents, {name}, {who}"
        plots.convergence(trained, picture, title)
    if report is not None:
        used = data_of.records_used(
            used_schema, held_out=sum(map(len, parts)) - sum(each["rows"] for each in trained.model.training["agents"])
        )
        write_private(report, document.run(data_of.exactly(trained, Path(file).name, name, used)))
    if json:
        files = {"model": str(out), "plot": None if picture is None else str(picture)}
        typer.echo(json_format.dumps(as_json(trained) | files | train_private.listening(robust, liars)))
        return
    train_private.show_liars(liars)
    show(trained)
    tell_written(out, picture, report)


def _keep_private_model(out: Path) -> None:
    """Refuses to replace a private model: another one would cost epsilon again."""
    try:
        private = Model.load(out).privacy.get("private")
    except InputError:  # no file, or another one, which may be replaced
        return
    if private:
        raise InputError(f"{out} is a private model, which has cost epsilon; name another file with --out, or move it")


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
    noise: Noise | None = None,
    engine: Ray | None = None,
) -> Trained:
    """Holds rows out, trains with a progress bar, and warns if something looks wrong.

    method, loss, l2 : the algorithm, and the objective of each agent
    data, schema, parts, agent_names : the records, and which rows belong to which agent
    graph : who talks to whom
    rounds, tolerance : when to stop
    holdout, seed : the share of rows to hold out, and the seed that chooses them
    theory : also warn if a theorem's conditions do not hold; not for our default penalty, which works without them
    robust, hostile : how members listen, and which of them lie
    noise : for a method in which agents draw random numbers
    engine : where the agents are, if not in this process
    """
    kept, held = hold_out(parts, holdout, seed)
    for name in one_sided(data, kept, agent_names, schema):
        warn(f"{name} has rows of one class only")
    try:
        ticks = ticks_a_round(method, graph)
    except GraphError as error:
        advice = "; take --method w-admm, or another --graph" if graph.agents > 1 else ""
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
                noise=noise,
                engine=engine,
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
