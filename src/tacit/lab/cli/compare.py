"""The command `tacit compare`."""

from __future__ import annotations

import csv
import json as json_format
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tacit.cli import names, options
from tacit.cli.console import can_plot, check_total, err, tell_written, warn, work_bar
from tacit.cli.console import out as screen
from tacit.cli.expand import expanded
from tacit.cli.records import Given, share_out
from tacit.core.graph import Graph
from tacit.data import Dataset, Schema
from tacit.engines import Engine, Local
from tacit.errors import InputError
from tacit.files import replacing, writable, write_private
from tacit.html.words import written as written_now
from tacit.lab import listings
from tacit.lab.comparison.compare import Compared
from tacit.lab.comparison.compare import compare as compare_methods
from tacit.lab.comparison.comparison_table import Comparison
from tacit.lab.comparison.lines import ALTERNATIVES
from tacit.lab.comparison.results import MethodResult, margin, recommended
from tacit.lab.comparison.trials import Divide
from tacit.report import pages
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.spec import RunSpec
from tacit.run.trust import LOCAL, Reserve, Trust

_ADULT, _TOTAL, _HERE = Given("adult"), Budget(1.0), options.Workplace()
_SPEC = "Also a run that a file describes (tacit plan --spec-out). May be repeated."
_METHOD = (
    f"Only these methods: {', '.join(RECIPES)}; or all. May be repeated. By default those that serve most users, "
    "and the alternatives always."
)
# Those of one holder first, those that share their noise last.
_ORDER = sorted(RECIPES, key=lambda name: (not RECIPES[name].traits.alone, RECIPES[name].traits.totals))


@expanded
def compare(
    given: Given = _ADULT,
    graph: options.GraphText = "auto",
    budget: Budget = _TOTAL,
    trust: Trust = LOCAL,
    seeds: Annotated[
        int, typer.Option(help="How many repetitions, each with its own division of the records and noise.")
    ] = 5,
    method: Annotated[list[str] | None, typer.Option(help=_METHOD, show_default=False)] = None,
    spec: Annotated[list[Path] | None, typer.Option(help=_SPEC, metavar="FILE", show_default=False)] = None,
    hostile: options.HostileText = None,
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.png and comparison.csv.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report to read: one HTML file.")] = None,
    place: options.Workplace = _HERE,
    json: options.Json = False,
    old_data: options.OldData = None,
) -> None:
    """Compare all private methods at one total budget, on the same records.

    Every method protects every record by (epsilon, delta) over the whole run, one record replaced by another. The table
    also shows the alternatives: stay alone, pool the records, give up privacy. The command recommends, of the methods
    within 0.002 of the least error, the one with the fewest messages. For a number the error is the root mean square
    error. For a rare event, where no method has better labels than always "no", it is the ranking that counts (AUC).

    Two lines are for noise that the members share (shared-descent:T): if at most one of them colludes, and if fewer
    than half do; with --colluders there is one line, for that number. All other methods protect against all others
    together. The command recommends one of those, and says beside it what shared noise would gain.

    **Nothing that this command prints is private**: errors are exact, and the noise is seeded so that you can repeat
    the comparison. Run it on public or made-up records, not on records that you want to protect.

    With --robust or --hostile, errors are those of the honest members, each with its own model. With --robust the
    command leaves out methods in which one member speaks at a time.

    `tacit.compare` does the same in Python, with confidence intervals, and with methods of your own.

    Example: `tacit compare adult --agents 5 --epsilon 1 --delta 1e-5`

    Example: `tacit compare adult --agents 50 --colluders 5 --epsilon 0.1`

    Example: `tacit compare --method mr-admm --method ra-admm --seeds 2`

    Example: `tacit compare --graph complete --seeds 2 --robust clipping --hostile flip:1`

    Example: `tacit compare --engine ray --address auto`
    """
    if old_data is not None:
        if given.file != "adult":
            raise InputError("give the file once: tacit compare FILE, without --data")
        warn("--data is now the argument: tacit compare FILE")
        given = replace(given, file=old_data)
    if seeds < 1:
        raise InputError(f"--seeds must be 1 or more, not {seeds}")
    asked = tuple(RECIPES) if method == ["all"] else tuple(method or ())
    for name in asked:
        names.pick(RECIPES, name, "method")
    runs = [RunSpec.from_toml(file) for file in spec or ()]
    if given.count:
        raise InputError("a comparison is not private: give --positive-share as a number")
    where, reserve, file = names.engine(place.engine, place.jobs, place.address), trust.reserve, given.file
    names.check_hostile(hostile, trust)
    if out is not None:
        names.folder(out)
        for name in ("comparison.png", "comparison.csv"):
            writable(out / name, [file])
    inputs = [*given.inputs, graph, *(spec or ())]
    names.report_file(report, inputs, [] if out is None else [out / "comparison.png", out / "comparison.csv"])
    table, used_schema = given.read()
    check_total(budget, len(table))
    encoded, division = used_schema.encode(table), given.division
    if runs and given.agents is None and given.site is None:
        division = division._replace(agents=runs[0].graph.agents)
    _, agent_names = share_out(table, encoded, division, 0, used_schema.sites)  # refuses contradicting options

    def divide(train: Dataset, seed: int) -> list[np.ndarray]:
        return share_out(table, train, division, seed, used_schema.sites)[0]

    if len(agent_names) < 2:
        raise InputError("a comparison needs at least two agents")
    talk = names.graph(graph, len(agent_names), agent_names, 0)
    robust = trust.robust
    trust.check(names.graph(graph, len(agent_names), agent_names, 0, reserve))
    liars = names.hostile(hostile, talk.agents)
    found = run(
        encoded,
        used_schema,
        None if graph == "auto" else talk,
        divide,
        [*(name for name in _ORDER if name in asked), *runs, *ALTERNATIVES] if asked or runs else None,
        budget,
        seeds=seeds,
        trust=Trust(robust=robust),
        hostile=hostile,
        reserves=None if reserve is None else [reserve],
        engine=where,
    )
    results = found.results
    # Runs from files have budgets of their own: none of them is better at the same price.
    best = recommended(results) if asked or not runs else None
    found = found.against((best or results[0]).name)
    for name in found.left_out if method != ["all"] else ():
        if name in asked:
            warn(f"{name} is left out: it cannot keep this budget, or cannot run on this graph, label or --robust")
    if file != "adult":
        err.print(
            "a comparison spends nothing from a ledger, and is not private: keep what it prints to yourself",
            soft_wrap=True,
        )
    if json:
        typer.echo(json_format.dumps(as_plain(found, best, robust, hostile)))
    else:
        if liars is not None:
            screen.print(f"[bold]{liars}[/bold]; errors are of the honest members")
        show(results, best)
    if out is not None:
        title = f"{Path(file).name}: {len(agent_names)} agents, total {budget} each, {seeds} seeds"
        _write(results, best, out, title)
    if report is not None:
        facts = {"agents": len(agent_names), "edges": len(talk.edges), "rows": len(encoded), "seeds": seeds}
        said = {"title": Path(file).name, "summary": in_words(best, results), "error_name": results[0].error_name}
        plain = written_now() | said | as_plain(found, best, robust, hostile) | facts
        write_private(report, pages.comparison(plain | {"epsilon": budget.epsilon, "delta": budget.delta}))
        tell_written(report)


def run(
    data: Dataset,
    schema: Schema,
    graph: Graph | None,
    divide: Divide,
    methods: Sequence[Compared] | None = None,
    budget: Budget = _TOTAL,
    *,
    seeds: int,
    trust: Trust = LOCAL,
    hostile: str | None = None,
    reserves: Sequence[Reserve] | None = None,
    engine: Engine | None = None,
) -> Comparison:
    """`tacit.compare`, on an engine; shows how far it is."""
    with work_bar() as tell, (engine or Local(jobs=1)).open() as workers:
        return compare_methods(
            methods,
            data,
            graph,
            schema=schema,
            divide=divide,
            epsilon=budget.epsilon,
            delta=budget.delta,
            seeds=seeds,
            trust=trust,
            hostile=hostile,
            reserves=reserves,
            workers=workers,
            tell=tell,
        )


def _write(results: list[MethodResult], best: MethodResult | None, folder: Path, title: str) -> None:
    """The table, and the picture if it can be drawn."""
    table, picture = folder / "comparison.csv", None
    write_csv(results, table)
    if can_plot():
        from tacit.lab import charts  # matplotlib is slow to import: not for --help

        picture = folder / "comparison.png"
        charts.method_errors(results, best, picture, title)
    tell_written(picture, table)


def show(results: list[MethodResult], best: MethodResult | None) -> None:
    """The table, the meaning of its names, and a summary."""
    screen.print(listings.methods(results, best, screen.width))
    screen.print("\n" + "; ".join(f"{c.name}: {c.title}" for c in results), style="dim")
    screen.print(f"\n{in_words(best, results)}")
    screen.print("privacy: none of this table is private; if you choose a method by it, no ledger counts that")


def in_words(best: MethodResult | None, results: list[MethodResult]) -> str:
    """A summary of the table."""
    if best is None:
        return "Runs from files have budgets of their own, so none is recommended: compare what they cost, too."
    known, what = {c.name: c for c in results}, best.error_name
    constant = results[-1]
    no_better = best.error >= constant.error - margin(results)
    auc = best.mean("auc") if best.two_classes else None
    if no_better and (auc is None or auc < 0.52):
        return (
            f"No private method does better than always giving the same answer ({what} {constant.error:.4f}): "
            "too few records, or too little budget."
        )
    if no_better:
        return (
            f"No private method gives better labels than always the same one ({what} {constant.error:.4f}), but they "
            f"rank records. Recommended: {best.name} ({best.title}), AUC {auc:.4f} with {best.messages:,} messages."
        )
    text = f"Recommended: {best.name} ({best.title}), test {what} {best.error:.4f} with {best.messages:,} messages."
    one_shot = known.get("one-shot")
    if one_shot is not None and best.name != "one-shot":
        text += f" One solve each and averaging has {one_shot.error:.4f} with {one_shot.messages:,}."
    elif one_shot is not None:
        text += " At this budget no method with more noisy steps is worth its messages."
    if (alone := known.get("alone")) is not None:
        text += f" Staying alone costs {alone.error - best.error:+.4f}."
    if (without := known.get("no-privacy")) is not None:
        text += f" Privacy itself costs {best.error - without.error:+.4f}."
    return text + _shared_in_words(results)


def _shared_in_words(results: list[MethodResult]) -> str:
    """What shared noise would give, and on which assumption; empty if the table has none that needs one."""
    shared = [c for c in results if c.reserve is not None and not c.trusts_nobody]
    if not shared:
        return ""
    each = [f"{c.error:.4f} if at most {c.colluders} of the {c.members} members collude" for c in shared]
    return (
        f" It holds against all other members together. Shared noise would have {', '.join(each)} (--colluders): "
        "against more of them it is weaker."
    )


def as_plain(found: Comparison, best: MethodResult | None, robust: str | None, hostile: str | None) -> dict[str, Any]:
    """All methods, for --json and the report."""
    listened = {name: text for name, text in {"robust": robust, "hostile": hostile}.items() if text is not None}
    methods = [as_json(c) | {"difference": found.difference(c.name)._asdict()} for c in found.results]
    return {"methods": methods, "recommended": None if best is None else best.name} | listened


def as_json(c: MethodResult) -> dict[str, Any]:
    """The results of one method, for `--json`."""
    private = {"epsilon": c.epsilon if c.private else None, "delta": c.delta if c.private else None}
    private |= {"colluders": c.colluders, "dropouts": 0 if c.reserve is None else c.reserve.dropouts}
    kind = {"private": c.private, "decentralised": c.decentralised, "rounds": c.rounds, "messages": c.messages}
    error = {"error": c.error, "error_range": [min(c.errors), max(c.errors)], "loss": c.loss}
    more = {name: c.mean(name) for name in c.metrics if name not in ("records", "error")}
    return {"name": c.name, "title": c.title} | error | more | private | kind | {"seeds": len(c.errors)}


def write_csv(results: list[MethodResult], path: Path) -> None:
    """One line for each method and seed."""
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        heading = ["method", "seed", "error", "loss", "epsilon", "delta", "decentralised", "rounds", "messages"]
        writer.writerow([*heading, "colluders"])
        for c in results:
            for seed, (error, loss) in enumerate(zip(c.errors, c.losses, strict=True)):
                row = [c.name, seed, error, loss, c.epsilon, c.delta, c.decentralised, c.rounds, c.messages]
                writer.writerow([*row, c.colluders])
