"""`tacit plan`"""

from __future__ import annotations

import json as json_format
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Table

from tacit.algorithms import (
    Algorithm,
    DualPerturbedADMM,
    Geometric,
    IncrementalADMM,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RecycledADMM,
    TokenGradientDescent,
)
from tacit.cli import names, options
from tacit.cli.console import check_total
from tacit.cli.console import out as screen
from tacit.cli.theory import measured
from tacit.data import Classes, Schema
from tacit.errors import InputError, number, whole
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.coalitions import Guarantee, guarantee
from tacit.privacy.events import Event, Gaussian, Pure, to_plain
from tacit.privacy.plan import Facts, Plan, calibrate
from tacit.privacy.plan import plan as plan_run
from tacit.theory.design import designed
from tacit.theory.paper_004 import DESIGN
from tacit.theory.theorems import Aim, Planned, statements, theorems
from tacit.workflows.losses import exact_loss
from tacit.workflows.recipes import RECIPES, recommended


class Own(NamedTuple):
    """Settings of one's own, as the papers name them."""

    penalty: float
    growth: float
    gamma: float

    @property
    def growing(self) -> Geometric | float:
        """eta q^k."""
        return self.penalty if self.growth == 1 else Geometric(self.penalty, self.growth)


def _rated(**noise: Any) -> dict[str, Any]:
    """The noise of paper 003, whose alpha is the rate beta of Laplace noise."""
    return {"beta" if name == "alpha" else name: value for name, value in noise.items()}


_METHODS: dict[str, Callable[..., Algorithm]] = {
    "dvp": lambda own, **noise: DualPerturbedADMM(penalty=own.penalty, **noise),
    "pvp": lambda own, **noise: PrimalPerturbedADMM(penalty=own.penalty, **noise),
    "m-admm": lambda own, **noise: PenaltyPerturbedADMM(penalty=own.growing, dual_step=own.penalty, **noise),
    "r-admm": lambda own, **noise: RecycledADMM(penalty=own.penalty, gamma=own.gamma, **noise),
    "mr-admm": lambda own, **noise: RecycledADMM(penalty=own.growing, gamma=own.gamma, **noise),
    "pi-admm": lambda own, budget: IncrementalADMM(penalty=own.penalty, budget=budget),
    "ra-admm": lambda own, **noise: RandomAggregationADMM(penalty=own.penalty, **_rated(**noise)),
    "ra-gd": lambda own, **noise: RandomAggregationGD(step=1 / own.penalty, **_rated(**noise)),
    "rcd": lambda own, **noise: RandomCoordinateDescent(step=1 / own.penalty, **_rated(**noise)),
    "token-gd": lambda own, budget: TokenGradientDescent(step=1 / own.penalty, budget=budget),
}
MOST_AGENTS = 1_000_000
_STEEPEST = 100.0  # the logarithm of the largest penalty
_WITHOUT_ALPHA = ("pi-admm", "token-gd")
_GROWING, _GAMMA = ("m-admm", "mr-admm"), ("r-admm", "mr-admm")
_NAMES = (
    f"One of: {', '.join(RECIPES)}; with --penalty or --alpha one of: {', '.join(_METHODS)}. By default the one that "
    "tacit train would take."
)
_PENALTY = "eta, for a run with your own settings (1); D for ra-admm; one over the step for ra-gd, rcd and token-gd."
_DESIGN = "A CSV file with the columns alpha and loss, as measured. Measure on public records: this is not private."
_LAWS: dict[str, type[Pure] | type[Gaussian]] = {"gaussian": Gaussian, "pure": Pure}


def plan(
    algorithm: Annotated[str | None, typer.Argument(metavar="METHOD", help=_NAMES, show_default=False)] = None,
    rows: Annotated[str, typer.Option(help="The rows of each agent: 8000 for all, or 500,900,1200.")] = "8000",
    agents: Annotated[int | None, typer.Option(help="How many agents, if --rows is one number (5).")] = None,
    graph: options.GraphText = "auto",
    epsilon: Annotated[
        float | None, typer.Option(help="The total to calibrate for; the noise follows from it.")
    ] = None,
    delta: options.Delta = 1e-5,
    allow_delta: options.AllowDelta = None,
    colluders: options.Colluders = None,
    dropouts: options.Dropouts = 0,
    penalty: Annotated[float | None, typer.Option(help=_PENALTY)] = None,
    growth: Annotated[
        float | None, typer.Option(help="With --penalty, for m-admm, mr-admm: q in eta q^k, k = 0, 1, ... (1).")
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="With --penalty, for r-admm, mr-admm: the weight of the even steps (0.5).")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="With --penalty: how many rounds (50).")] = None,
    loss: Annotated[
        str | None, typer.Option(help="With --penalty: logistic (default), huber; pseudo-huber for numbers.")
    ] = None,
    l2: Annotated[float | None, typer.Option(help="With --penalty: rho, every agent's regularisation (1e-5).")] = None,
    scale: Annotated[float | None, typer.Option(help="With --penalty: C, the weight of an agent's loss (1).")] = None,
    law: Annotated[str | None, typer.Option(help="With --penalty and --epsilon: gaussian (default) or pure.")] = None,
    alpha: Annotated[float | None, typer.Option(help="The noise parameter of the paper, instead of --epsilon.")] = None,
    theory: Annotated[
        bool, typer.Option("--theory", help="Also print what the papers' theorems say about METHOD.")
    ] = False,
    dimension: Annotated[int | None, typer.Option(help="How many features (104).")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The schema: its features, and a label of two or more classes or a number.")
    ] = None,
    reference: Annotated[
        float, typer.Option(help="With --theory: the norm of the reference model, or of the optimum.")
    ] = 10.0,
    accuracy: Annotated[
        float, typer.Option(help="With --theory: how much worse than the reference the loss may be.")
    ] = 0.1,
    failure: Annotated[float, typer.Option(help="With --theory: the probability that the loss is even worse.")] = 0.05,
    design: Annotated[Path | None, typer.Option(help=_DESIGN)] = None,
    largest_alpha: Annotated[
        float, typer.Option(help="With --design: the largest alpha that still counts as private.")
    ] = 1.0,
    worst_loss: Annotated[float | None, typer.Option(help="With --design: the worst acceptable loss (c3).")] = None,
    floor: Annotated[
        float | None,
        typer.Option(help="With --design: c6, the loss that more alpha cannot improve; fitted by default."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what a private run will cost every agent, before any data is read.

    With --epsilon and --delta alone, this is the plan of `tacit train` with the same --epsilon and --method. With
    --penalty you plan a run with your own settings, calibrated so that no agent spends more than the total. With
    --alpha, the paper's noise parameter, you see what the run costs: the paper's bound, and each accountant's total.

    With --colluders the members share the noise, and the plan says what holds against how many of them together.

    --theory adds what the papers prove about METHOD with these settings: conditions for convergence, bounds on the
    loss, sample sizes up to an unknown constant; or that they prove nothing. --design solves problem (28) of the
    dynamic DP paper, which is about dvp and pvp, for measured losses.

    Example: `tacit plan mr-admm --rows 4000,9000,2500 --epsilon 1 --delta 1e-6`

    Example: `tacit plan --rows 4000,9000,2500,3000,3000 --epsilon 1 --colluders 2`

    Example: `tacit plan pvp --schema schema.toml --rows 4000,9000,2500 --epsilon 1`

    Example: `tacit plan dvp --rows 8000 --agents 5 --rounds 24 --penalty 0.005 --epsilon 1`
    """
    if algorithm is not None:
        names.pick(RECIPES, algorithm, "METHOD")
    reserve = names.reserve(colluders, dropouts)
    if reserve is not None and not penalty is alpha is None:
        raise InputError(
            "settings of your own are for methods with local noise: leave out --penalty, --alpha or --colluders"
        )
    sizes, label = sizes_of(rows, agents), None
    if schema is not None:
        if dimension is not None:
            raise InputError("--schema says how many features there are; leave out --dimension")
        used = Schema.from_toml(schema)
        label, dimension = used.label, used.model_dimension
    dimension = 104 if dimension is None else dimension
    whole("--dimension", dimension, 1)
    if reserve is not None:
        reserve.shares(len(sizes))  # refuses more colluders and dropouts than there are others
    talk = names.graph(graph, len(sizes), [f"agent {i}" for i in range(len(sizes))], 0, reserve)
    # With --alpha the noise is given, and delta alone is looked at.
    check_total(1.0 if epsilon is None else epsilon, delta, int(sizes.sum()), allow_delta)
    if (epsilon is None) == (alpha is None):
        raise InputError("give either --epsilon, the total to calibrate for, or --alpha, the paper's noise parameter")
    if penalty is None and alpha is None:
        assert epsilon is not None
        given = {"--rounds": rounds, "--loss": loss, "--l2": l2, "--scale": scale, "--law": law}
        given |= {"--growth": growth, "--gamma": gamma}
        for option, value in given.items():
            if value is not None:
                raise InputError(f"{option} needs --penalty: it is for a run with your own settings")
        usual = Classes("label", positive=("1",), negative=("0",)) if label is None else label
        algorithm = algorithm or recommended(usual, sizes, talk, epsilon, delta, reserve)
        recipe = RECIPES[algorithm].for_label(usual)
        setting = recipe.setting(sizes, dimension, talk, epsilon, delta, reserve=reserve)
        method: Any = setting.algorithm
        rounds, facts = setting.rounds, setting.facts
    else:
        algorithm = algorithm or ""
        make = names.pick(_METHODS, algorithm, "with --penalty or --alpha, METHOD")
        penalty = 1.0 if penalty is None else penalty
        for option, value, known in (("--growth", growth, _GROWING), ("--gamma", gamma, _GAMMA)):
            if value is not None and algorithm not in known:
                raise InputError(f"{option} is for {' and '.join(known)}, not for {algorithm}")
        if alpha is not None and algorithm in _WITHOUT_ALPHA:
            raise InputError(f"the paper of {algorithm} has no alpha: give --epsilon")
        number("--penalty", penalty)
        if growth is not None:
            number("--growth", growth)
        if law is not None and alpha is not None:
            raise InputError("--law is for --epsilon: the noise of --alpha is the paper's")
        own = Own(penalty, 1.0 if growth is None else growth, 0.5 if gamma is None else gamma)
        rounds = 50 if rounds is None else rounds
        if rounds < 1:
            raise InputError(f"--rounds must be 1 or more, not {rounds}")
        if rounds * math.log(own.growth) + math.log(penalty) > _STEEPEST:
            raise InputError(f"after {rounds} rounds a penalty of {penalty:g} is too large with --growth {growth:g}")
        facts = Facts(
            sizes=sizes,
            dimension=dimension,
            loss=exact_loss(loss) if label is None else exact_loss(loss, label),
            scale=1.0 if scale is None else scale,
            l2=1e-5 if l2 is None else l2,
        )
        if alpha is not None:
            method = make(own, alpha=alpha)
        else:
            assert epsilon is not None
            method = calibrate(
                lambda budget: make(own, budget=budget),
                facts,
                talk,
                rounds,
                epsilon=epsilon,
                delta=delta,
                law=names.pick(_LAWS, law or "gaussian", "law"),
            )
    planned = plan_run(method, facts, talk, rounds)
    found = guarantee(planned.spent, delta, members=talk.agents, connectivity=talk.connectivity if reserve else None)
    said = []
    points = None
    if design is not None:
        if DESIGN not in theorems(method):
            raise InputError(f"--design is for dvp and pvp, which problem (28) is about, not for {algorithm}")
        points = measured(design, largest_alpha, worst_loss, floor)
        said.append(designed(points))  # refuses losses to which no curve fits
    if theory:
        total = None if epsilon is None else (epsilon, delta)
        aim = Aim(reference, accuracy, failure)
        said = statements(Planned(method, facts, talk, rounds, aim, total, points))  # (28) is one of them
    if json:
        plain = as_json(planned, method, sizes, delta) | found.as_plain() | {"name": algorithm, "theory": said}
        typer.echo(json_format.dumps(plain))
    else:
        show(planned, sizes, found)
        for line in said:
            screen.print(f"\n{line}")


def sizes_of(rows: str, agents: int | None) -> np.ndarray:
    """The number of rows of each agent, from the options."""
    try:
        sizes = [int(part) for part in rows.split(",")]
        if not 1 <= min(sizes) <= max(sizes) <= 10**12:
            raise ValueError
    except ValueError:
        raise InputError(f"--rows is a number from 1, or one for each agent: 500,900,1200; not {rows!r}") from None
    if agents is not None and not 1 <= agents <= MOST_AGENTS:
        raise InputError(f"--agents must lie between 1 and {MOST_AGENTS:,}, not {agents}")
    if len(sizes) == 1:
        return np.full(5 if agents is None else agents, sizes[0])
    if agents is not None and agents != len(sizes):
        raise InputError(f"--rows names {len(sizes)} agents, --agents {agents}; leave --agents out")
    return np.array(sizes)


def as_json(planned: Plan, method: Any, sizes: np.ndarray, delta: float) -> dict[str, Any]:
    """The plan, for --json."""
    return {
        "algorithm": type(method).__name__,
        "budget": None if (budget := getattr(method, "budget", None)) is None else to_plain(budget),
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
    screen.print(f"\nthe network's total: epsilon = {rounded_up(planned.epsilon(delta), 6):g} at delta = {delta:g}")
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
    groups: dict[Any, list[int]] = {}
    for i, events in enumerate(planned.events):
        groups.setdefault((int(sizes[i]), tuple(events)), []).append(i)
    every = planned.totals(delta)
    return [(ids, every[ids[0]]) for ids in groups.values()]


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
