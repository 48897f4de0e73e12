"""`tacit plan`"""

from __future__ import annotations

import json as json_format
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tacit.cli import names, options
from tacit.cli.console import check_total, err
from tacit.cli.console import out as screen
from tacit.cli.expand import Positional, Without, expanded
from tacit.core.alike import Alike, numbered
from tacit.data import Classes, Schema
from tacit.errors import InputError
from tacit.files import writable, write_once
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.coalitions import Guarantee
from tacit.privacy.events import Event, to_plain
from tacit.privacy.plan import Plan
from tacit.run.budget import USUAL_DELTA
from tacit.run.request import Request
from tacit.run.setting import Setting
from tacit.run.spec import MOST_AGENTS, RunSpec

_DESIGN = "A CSV file with the columns alpha and loss, as measured. Measure on public records: this is not private."
_UTILITY = "With --design: what privacy is worth to you, U(alpha) = W1 ln(W2/(W3 alpha + W4 alpha^2))."
_SPEC_OUT = "Also write everything about the run into this file, which you can change, and give to --spec."
_USUAL = Classes("label", positive=("1",), negative=("0",))
_MOST_FEATURES = 2**24


@dataclass(frozen=True)
class Members:
    """Who would take part: what is public of them."""

    rows: Annotated[str, typer.Option(help="The rows of each agent: 8000 for all, or 500,900,1200.")] = "8000"
    agents: Annotated[int | None, typer.Option(help="How many agents, if --rows is one number (5).")] = None
    dimension: Annotated[int | None, typer.Option(help="How many features (104).")] = None
    schema: Annotated[
        Path | None, typer.Option(help="The schema: its features, and a label of two or more classes or a number.")
    ] = None


@dataclass(frozen=True)
class Theory:
    """What the theorems are asked."""

    theory: Annotated[bool, typer.Option("--theory", help="Also print what the papers' theorems say about METHOD.")] = (
        False
    )
    reference: Annotated[
        float, typer.Option(help="With --theory: the norm of the reference model, or of the optimum.")
    ] = 10.0
    accuracy: Annotated[
        float, typer.Option(help="With --theory: how much worse than the reference the loss may be.")
    ] = 0.1
    failure: Annotated[float, typer.Option(help="With --theory: the probability that the loss is even worse.")] = 0.05
    design: Annotated[Path | None, typer.Option(help=_DESIGN)] = None
    largest_alpha: Annotated[
        float, typer.Option(help="With --design: the largest alpha that still counts as private.")
    ] = 1.0
    worst_loss: Annotated[float | None, typer.Option(help="With --design: the worst acceptable loss (c3).")] = None
    floor: Annotated[
        float | None,
        typer.Option(help="With --design: c6, the loss that more alpha cannot improve; fitted by default."),
    ] = None
    utility: Annotated[str, typer.Option(metavar="W1,W2,W3,W4", help=_UTILITY)] = "0.02,6,9,1"


@expanded
def plan(
    members: Members,
    asked: Annotated[Request, Positional("method"), Without("tolerance")],
    theory: Theory,
    graph: options.GraphText = "auto",
    spec_out: Annotated[Path | None, typer.Option(help=_SPEC_OUT)] = None,
    json: options.Json = False,
) -> None:
    """Show what a private run will cost every agent, before any data is read.

    With --epsilon and --delta alone, this is the plan of `tacit train` with the same --epsilon and --method. With
    --penalty, --rounds or --set you plan a run with your own settings; its noise is calibrated so that no agent spends
    more than the total. With the noise of a paper, such as --set alpha=1, you see what the run costs: the paper's
    bound, and each accountant's total.

    With --spec-out the whole run is written into a file, with all numbers. You can change the file; tacit train, plan,
    compare and federation new run what it says (--spec).

    With --colluders the members share the noise, and the plan says what holds against how many of them together.

    --theory adds what the papers prove about METHOD with these settings: conditions for convergence, bounds on the
    loss, sample sizes up to an unknown constant; or that they prove nothing. --design solves problem (28) of the
    dynamic DP paper, which is about dvp and pvp, for measured losses.

    Example: `tacit plan mr-admm --rows 4000,9000,2500 --epsilon 1 --delta 1e-6`

    Example: `tacit plan --rows 4000,9000,2500,3000,3000 --epsilon 1 --colluders 2`

    Example: `tacit plan pvp --schema schema.toml --rows 4000,9000,2500 --epsilon 1 --spec-out run.toml`

    Example: `tacit plan dvp --rows 8000 --agents 5 --rounds 24 --penalty 0.005 --epsilon 1`

    Example: `tacit plan r-admm --rows 8000 --set alpha=2 --set gamma=0.3 --rounds 40`
    """
    sizes = sizes_of(members.rows, members.agents, asked.spec)
    used = None if members.schema is None else Schema.from_toml(members.schema)
    if used is not None and members.dimension is not None:
        raise InputError("--schema says how many features there are; leave out --dimension")
    dimension = 104 if members.dimension is None else members.dimension
    if not 1 <= dimension <= _MOST_FEATURES:
        raise InputError(f"--dimension must lie between 1 and {_MOST_FEATURES:,}, not {dimension}")
    if used is not None:
        dimension = used.model_dimension
    if spec_out is not None:
        writable(spec_out, [graph, *([] if members.schema is None else [members.schema])])
    total = asked.total
    if total is None and asked.spec is None and not asked.settles:
        raise InputError("give --epsilon, the total to plan for; or how much noise METHOD adds, such as --set alpha=1")
    if total is not None:
        check_total(total, int(sizes.sum()))
    talk = names.graph_for(graph, asked, [f"agent {i}" for i in range(len(sizes))], 0)
    label, digest, norm = (_USUAL, "", 1.0) if used is None else (used.label, used.digest, used.longest_row)
    setting = asked.resolved(label, sizes, dimension, talk, row_norm=norm, schema=digest)
    planned, delta = setting.plan, USUAL_DELTA if total is None else total.delta
    found, said = setting.guarantee(delta), []
    if theory.theory or theory.design is not None:
        # The calculators are in the laboratory, of which the product imports nothing: found by name.
        said = import_module("tacit.lab.theory.said").said_of(setting, theory)
    if spec_out is not None:
        write_once(spec_out, setting.spec.to_toml(), "--spec-out")
    if json:
        plain = as_json(planned, setting, sizes, delta) | found.as_plain() | {"name": setting.name, "theory": said}
        typer.echo(json_format.dumps(plain | setting.spec.described))
    else:
        show(planned, sizes, found)
        for line in said:
            screen.print(f"\n{line}")
    if spec_out is not None:
        err.print(f"wrote {spec_out}", markup=False, soft_wrap=True)


def sizes_of(rows: str, agents: int | None, spec: RunSpec | None = None) -> np.ndarray:
    """The number of rows of each agent, from the options, and from the file of the run if there is one."""
    try:
        sizes = [int(part) for part in rows.split(",")]
        if not 1 <= min(sizes) <= max(sizes) <= 10**12:
            raise ValueError
    except ValueError:
        raise InputError(f"--rows is a number from 1, or one for each agent: 500,900,1200; not {rows!r}") from None
    if agents is not None and not 1 <= agents <= MOST_AGENTS:
        raise InputError(f"--agents must lie between 1 and {MOST_AGENTS:,}, not {agents}")
    if spec is not None:
        asked_for = len(sizes) if len(sizes) > 1 else agents
        if asked_for not in (None, spec.graph.agents):
            raise InputError(f"the run is for {spec.graph.agents} agents, not for {asked_for}: plan it for them")
        agents = spec.graph.agents
    if len(sizes) == 1:
        return np.full(5 if agents is None else agents, sizes[0])
    if agents is not None and agents != len(sizes):
        raise InputError(f"--rows names {len(sizes)} agents, --agents {agents}; leave --agents out")
    return np.array(sizes)


def as_json(planned: Plan, setting: Setting, sizes: np.ndarray, delta: float) -> dict[str, Any]:
    """The plan, for --json."""
    step = getattr(setting.algorithm, "budget", None)
    return {
        "algorithm": type(setting.algorithm).__name__,
        "budget": to_plain(step) if isinstance(step, Event) else None,
        "delta": delta,
        **_finite({"epsilon": planned.epsilon(delta)}),
        "agents": [
            {
                "rows": int(rows),
                "round": [to_plain(event) for event in dict.fromkeys(events)],
                "times": list(Counter(events).values()),
                "total": _finite(asdict(total)),
            }
            | ({} if planned.paper is None else _finite({"paper": float(planned.paper[i])}))
            for i, (rows, events, total) in enumerate(zip(sizes, planned.events, planned.totals(delta), strict=True))
        ],
    }


def show(planned: Plan, sizes: np.ndarray, found: Guarantee) -> None:
    """For each kind of agent one release, then the whole run under each accountant, and against whom it holds."""
    delta = found.delta
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"whole run: epsilon at delta = {delta:g}")
    for heading in ("agents", "plain sum", "distribution", "Renyi", "zCDP", "paper"):
        table.add_column(heading, justify="left" if heading == "agents" else "right")
    for ids, total in _groups(planned, sizes, delta):
        i = ids[0]
        noisy = [event for event in planned.events[i] if not event.free]
        kinds = list(dict.fromkeys(noisy))
        screen.print(
            f"agent{'s' * (len(ids) > 1)} {_listed(ids)}, {sizes[i]:,} rows: {len(noisy)} noisy releases of "
            f"{len(planned.events[i])}, {_in_words(kinds)}; "
            f"the first alone: epsilon = {totals(Counter(kinds[:1]), delta).best:.4g}"
        )
        cells = [total.plain_sum, total.distribution, total.renyi, total.zcdp]
        cells.append(None if planned.paper is None else float(planned.paper[i]))
        table.add_row(_listed(ids), *map(_number, cells))
    screen.print(table)
    total = planned.epsilon(delta)
    if not np.isfinite(total):
        screen.print("\nnothing is protected: what leaves the agents has no bound on its cost")
        return
    screen.print(f"\nthe network's total: epsilon = {rounded_up(total, 6):g} at delta = {delta:g}")
    if found.members > 1:
        screen.print(f"it holds {found.against}", soft_wrap=True)
    if found.shared:
        screen.print(_coalitions(found))


def _coalitions(found: Guarantee) -> Table:
    """What holds against how many members together; of many members, some numbers of them."""
    away = f", with {found.dropouts} away" if found.dropouts else ""
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"against members that collude{away}")
    table.add_column("colluders", justify="right")
    table.add_column("epsilon", justify="right")
    n, last = found.members, len(found.curve) - 1
    chosen = {1, found.colluders, found.colluders + 1, n // 3, (n - 1) // 2, last}
    for size, cost in found.curve:
        if n <= 10 or size in chosen:
            table.add_row(str(size), f"{cost:g}", style="bold green" if size == found.colluders else None)
    return table


def _groups(planned: Plan, sizes: np.ndarray, delta: float) -> list[tuple[list[int], Any]]:
    """Agents with as many rows and equal events, and their totals."""
    which, first = numbered(sizes, Alike.gather(planned.events, tuple).which)
    ids = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    every = planned.totals(delta)
    return [(group.tolist(), every[k]) for group, k in zip(ids, first.tolist(), strict=True)]


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:6])) + (f", ... ({len(ids)})" if len(ids) > 6 else "")


def _in_words(events: Sequence[Event]) -> str:
    """What a release costs; if there are several kinds, the first and the last."""
    return " ... ".join(dict.fromkeys(event.in_words() for event in (*events[:1], *events[1:][-1:])))


def _finite(totals: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {name: value if value is not None and np.isfinite(value) else None for name, value in totals.items()}


def _number(x: float | None) -> str:
    return "-" if x is None or not np.isfinite(x) else f"{x:.4f}"
