"""The command `tacit attack`."""

from __future__ import annotations

import json as json_format
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tacit.algorithms import IncrementalADMM
from tacit.cli import names, options
from tacit.cli.console import err, tell_written, warn
from tacit.cli.console import out as screen
from tacit.cli.expand import expanded
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.errors import InputError
from tacit.files import writable
from tacit.lab import listings
from tacit.lab.attacks import Overheard, States, listen_in
from tacit.lab.cli import attack_exact
from tacit.lab.papers import incremental_admm_methods as paper
from tacit.lab.papers.experiment import DELTA, PaperFigure, write_csv
from tacit.lab.papers.incremental_admm import panels
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import calibrate

_AGENTS = "How many agents: 5; of the paper's token methods 100, each with 30 made-up rows in two dimensions."
_PENALTY = "rho; by default what tacit train takes. Of the paper's token methods: 10 for ridge, 1 for logistic."
HIDING: dict[str, Callable[[paper.Regression], IncrementalADMM]] = {
    "random-start": paper.random_start,
    "pi-admm1": paper.pi_admm1,
    "pi-admm2": paper.pi_admm2,
    "offset": paper.offset,
    "pi-admm1-offset": paper.pi_admm1_offset,
}


@dataclass(frozen=True)
class Own:
    """The records that the user brings."""

    data: Annotated[
        str | None, typer.Option(help="Records of your own, which must be public: a CSV or Parquet file, or adult.")
    ] = None
    label: options.Label = None
    site: options.Site = None
    schema: options.SchemaFile = None


@dataclass(frozen=True)
class Picture:
    """What is drawn, and where it goes."""

    agent: Annotated[int, typer.Option(help="The agent that is drawn, from 1.")] = 1
    out: Annotated[str | None, typer.Option(help="Folder for attack.png and attack.csv.")] = None


_MADE_UP, _NO_PICTURE = Own(), Picture()


@expanded
def attack(
    method: Annotated[
        str, typer.Argument(help=f"One of: {', '.join((*attack_exact.METHODS, *HIDING))}.", show_default=False)
    ],
    who: Annotated[str, typer.Option(help=f"Who attacks: {', '.join(attack_exact.WHO)}.")] = "overheard",
    loss: Annotated[str | None, typer.Option(help="ridge or logistic.", show_default=False)] = None,
    agents: Annotated[int | None, typer.Option(help=_AGENTS, show_default=False)] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows each agent has.", show_default=False)] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often every agent speaks (60); the token, in the mean.", show_default=False)
    ] = None,
    ticks: Annotated[
        int | None,
        typer.Option(
            help="Of the paper's token methods: how often the token is handed on; by default 20 cycles and 1.",
            show_default=False,
        ),
    ] = None,
    penalty: Annotated[float | None, typer.Option(help=_PENALTY, show_default=False)] = None,
    graph: options.GraphText = "auto",
    own: Own = _MADE_UP,
    epsilon: Annotated[
        float | None, typer.Option(help="For pi-admm2: as much noise as this total needs (delta 1e-5).")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed for data, graph and noise.")] = 0,
    picture: Picture = _NO_PICTURE,
    json: options.Json = False,
) -> None:
    """Attack a method without privacy, and show what its messages reveal: gradients, then records.

    **Exact methods** (admm, coca, w-admm, i-admm, dgd, extra). Every message obeys the method's update, so it tells the
    gradient of the agent's private objective. From these gradients follow, for a few rows an agent (--rows):

    - the Hessian, for least squares;
    - the records themselves, with their labels, where they are determined: always for the logistic loss; for least
      squares one row, or two or three with a column of ones;
    - the labels, for an attacker that knows the features;
    - whether a record is among the agent's rows.

    Records are made up, or those of --data. Use public ones: the command prints and writes what it finds. Attackers
    hear all messages, or are one or all neighbours of each agent (--who).

    Example: `tacit attack admm --rows 3 --out out/attack`

    Example: `tacit attack dgd --who neighbour --rows 1`

    Example: `tacit attack admm --data adult --agents 5 --rows 3`

    **Token methods of paper 002** (random-start, pi-admm1, pi-admm2, offset, pi-admm1-offset; and i-admm without --rows
    and --data). They hand one vector z from agent to agent, and try to hide the rest. The attacks estimate each agent's
    model x_i and multiplier y_i; y_i is the gradient of the agent's private objective:

    - *as printed*: the paper's least squares, with the 20 iterations of its solver;
    - *printed, solved*: the same, solved exactly;
    - *recursion*: follow the token with a guess of the step size; each visit halves the error;
    - *quadratic fit*: exact; for ridge regression with a secret start or secret step sizes;
    - *over all visits*: a regression that averages the noise of pi-admm2.

    The methods differ in what they hide:

    - i-admm: nothing, it starts from zero;
    - random-start: the start;
    - pi-admm1: the start and the step sizes;
    - pi-admm2: the start; x_i has noise of deviation 0.001, or with --epsilon as much as differential privacy needs
      (logistic loss, rows of norm at most 1, start from zero);
    - offset: y_i, by a secret that agents share with their neighbours;
    - pi-admm1-offset: what pi-admm1 and offset hide.

    The table has the mean error over all agents, at their first and at their last visit. With --who neighbours, the two
    agents before and after each agent attack it, with no tokens but their own. All records are made up.

    Example: `tacit attack pi-admm1 --out out/attack`

    Example: `tacit attack offset --who neighbours --graph ring`
    """
    data, label, site, schema = own.data, own.label, own.site, own.schema
    agent, out = picture.agent, picture.out
    if method not in (*attack_exact.METHODS, *HIDING):
        raise InputError(f"method must be one of {', '.join((*attack_exact.METHODS, *HIDING))}; not {method!r}")
    if out == "":
        raise InputError("--out is empty: name a folder")
    if out is not None:
        names.require_plot()
    folder = None if out is None else Path(out)
    for_records: dict[str, Any] = {"--rows": rows, "--rounds": rounds, "--data": data, "--label": label}
    for_records |= {"--site": site, "--schema": schema}
    given = [option for option, value in for_records.items() if value is not None]
    if method in attack_exact.METHODS and (method != "i-admm" or given):
        for option, value in {"--ticks": ticks, "--epsilon": epsilon}.items():
            if value is not None:
                raise InputError(f"{option} is for the token methods of paper 002: leave it out")
        asked = attack_exact.Asked(
            method, who, loss, agents, rows, rounds, penalty, graph, agent, seed, data, label, site, schema
        )
        return attack_exact.attack(asked, folder, json)
    if given:
        raise InputError(
            f"{given[0]} is for the methods {', '.join(attack_exact.METHODS)}; {method} has made-up records"
        )
    names.pick(dict.fromkeys(("overheard", "neighbours")), who, f"of {method}, who")
    _attack_token(
        method, who, loss or "ridge", agents or 100, ticks, penalty, graph, epsilon, agent, seed, folder, json
    )


def _attack_token(
    method: str,
    who: str,
    loss: str,
    agents: int,
    ticks: int | None,
    penalty: float | None,
    graph: str,
    epsilon: float | None,
    agent: int,
    seed: int,
    folder: Path | None,
    json: bool,
) -> None:
    """Paper 002's methods, on its problems; the arguments are the command's."""
    regression = names.pick(paper.REGRESSIONS, loss, "loss")
    make = HIDING.get(method, paper.i_admm)
    if agents < 3:
        raise InputError(f"--agents must be 3 or more, not {agents}: two agents can hide nothing from each other")
    if not 1 <= agent <= agents:
        raise InputError(f"--agent must be between 1 and {agents}, not {agent}")
    ticks = paper.CYCLES * agents + 1 if ticks is None else ticks
    if ticks < 7 * agents:
        raise InputError(f"--ticks must be {7 * agents} or more, seven visits to each of {agents} agents; not {ticks}")
    if penalty is not None:
        regression = regression._replace(penalty=penalty)
    noise, algorithm = SeededNoise(seed), make(regression)
    problem = regression.problem(agents, seed)
    if epsilon is not None:
        if method != "pi-admm2" or loss != "logistic":
            raise InputError(
                "--epsilon is for pi-admm2 with --loss logistic: no other choice has noise and a bounded slope"
            )
        algorithm = calibrated(regression, epsilon, -(-ticks // agents))
        problem = regression.problem(agents, seed, row_norm=1.0)
    if folder is not None:
        names.folder(folder)
        for name in ("attack.png", "attack.csv"):
            writable(folder / name)

    known_by = ""
    with warnings.catch_warnings(record=True) as caught, err.status("listening") as status:
        warnings.simplefilter("always")
        usual = graph == "auto"
        talk = paper.graph(agents, paper.LINKS, seed) if usual else names.graph(graph, agents, [], seed)

        def progress(tick: int) -> None:
            status.update(f"listening: tick {tick} of {ticks}")

        overheard = listen_in(algorithm, problem, talk, ticks, noise, progress=progress)
        status.update("attacking")
        if who == "overheard":
            found = paper.estimates(regression, algorithm, overheard)
        else:
            found, undone = paper.neighbours_estimates(regression, algorithm, overheard.heard, talk)
            if algorithm.offset:
                known_by = f" The two know the secret offset of {undone} of {agents} agents."
    if not all(np.isfinite(part).all() for states in (*found.values(), overheard.truth) for part in states):
        raise InputError(f"the method or an attack diverged with the penalty {algorithm.penalty:g}: try another")
    for warning in caught:
        warn(str(warning.message))
    if json:
        typer.echo(json_format.dumps(as_json(method, who, loss, rows(overheard, found))))
    else:
        screen.print(listings.attacks(rows(overheard, found)))
        attackers = "The eavesdropper has" if who == "overheard" else "The two neighbours of an agent have"
        screen.print(f"\n{in_words(overheard, found, attackers)}{known_by}", soft_wrap=True)
    if folder is not None:
        from tacit.lab.papers import drawing  # matplotlib is slow to import: not for --help

        attackers = "an eavesdropper has" if who == "overheard" else "two neighbours have"
        title = f"{method}, {loss} regression, {agents} agents, {ticks} ticks: what {attackers}"
        figure = PaperFigure(title, panels(method, [(overheard, found)], agent - 1))
        drawing.paper_figure(figure, folder / "attack.png")
        write_csv(figure, folder / "attack.csv")
        tell_written(folder / "attack.png", folder / "attack.csv")


def calibrated(regression: paper.Regression, epsilon: float, visits: int) -> IncrementalADMM:
    """PI-ADMM2 whose visits cost (epsilon, 1e-5) in total, from a public start."""

    def make(budget: Gaussian) -> IncrementalADMM:
        return replace(paper.i_admm(regression), budget=budget)

    # A visit costs the same in a network of any size: we count them with three agents.
    facts = Facts(sizes=[paper.ROWS] * 3, dimension=2)
    return calibrate(make, facts, Graph.ring(3), 3 * visits, epsilon=epsilon, delta=DELTA)


def rows(overheard: Overheard, found: dict[str, States]) -> list[tuple[str, list[float]]]:
    """For each attack the mean errors of x and y at the first and the last visit, and of the gradient at the last. The
    last row is a guess of zero: the means of ||x||, ||y|| and the gradient's norm."""
    heard, truth, gradient = overheard
    last = [heard.visits(i)[-1] for i in range(heard.agents)]
    first = [heard.visits(i)[0] for i in range(heard.agents)]

    def line(states: States, against: States, its_gradient: np.ndarray) -> list[float]:
        off = states.errors(against)
        missed = np.linalg.norm(states.y - its_gradient, axis=1)
        return [
            float(e[k].mean())
            for e, k in ((off.x, first), (off.x, last), (off.y, first), (off.y, last), (missed, last))
        ]

    zero = States(np.zeros_like(truth.x), np.zeros_like(truth.y))
    lines = [(name, line(states, truth, gradient)) for name, states in found.items()]
    size = line(zero, truth, gradient)
    return [*lines, ("(a guess of zero)", size)]


def as_json(method: str, who: str, loss: str, lines: list[tuple[str, list[float]]]) -> dict[str, Any]:
    """The table of errors, as data."""
    columns = ("x_first", "x_last", "y_first", "y_last", "gradient_last")
    errors = {name: dict(zip(columns, values, strict=True)) for name, values in lines}
    return {"method": method, "who": who, "loss": loss, "errors": errors}


def in_words(overheard: Overheard, found: dict[str, States], attackers: str) -> str:
    """A summary of the table."""
    lines = dict(rows(overheard, found))
    missed, size = min(lines[name][4] for name in found), lines["(a guess of zero)"][4]
    share = missed / size
    if share <= 1e-6:
        return f"{attackers} the gradients exactly."
    if share < 0.5:
        return f"The best attack misses the agents' gradients by {share:.2g} times their size."
    return f"None of these attacks tells the agents' gradients: the best is off by {share:.3g} times their size."
