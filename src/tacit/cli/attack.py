"""`tacit attack`"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tacit.algorithms import IncrementalADMM
from tacit.attacks import Overheard, States, listen_in
from tacit.cli import names
from tacit.cli.console import err, warn
from tacit.cli.console import out as screen
from tacit.core.graph import Graph
from tacit.errors import InputError
from tacit.files import writable
from tacit.papers import incremental_admm_methods as paper
from tacit.papers.experiment import DELTA, PaperFigure, write_csv
from tacit.papers.incremental_admm import panels
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import Facts, calibrate
from tacit.report import tables

METHODS: dict[str, Callable[[paper.Regression], IncrementalADMM]] = {
    "i-admm": paper.i_admm,
    "random-start": paper.random_start,
    "pi-admm1": paper.pi_admm1,
    "pi-admm2": paper.pi_admm2,
    "offset": paper.offset,
    "pi-admm1-offset": paper.pi_admm1_offset,
}


def attack(
    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(METHODS)}.", show_default=False)],
    loss: Annotated[str, typer.Option(help="ridge (exact steps) or logistic (first-order steps).")] = "ridge",
    agents: Annotated[int, typer.Option(help="How many agents, each with 30 made-up rows in two dimensions.")] = 100,
    ticks: Annotated[
        int | None, typer.Option(help="How often the token is handed on; by default 20 cycles and 1.")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option(help="rho; by default the paper's: 10 for ridge, 1 for logistic.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="For pi-admm2: as much noise as this total needs (delta 1e-5).")
    ] = None,
    agent: Annotated[int, typer.Option(help="The agent whose variables are drawn, from 1.")] = 1,
    seed: Annotated[int, typer.Option(help="The seed for data, graph and noise.")] = 0,
    out: Annotated[str | None, typer.Option(help="Folder for attack.png and attack.csv.")] = None,
) -> None:
    """Attack a token method, and show what an eavesdropper learns from its messages.

    Incremental ADMM hands one vector z from agent to agent. The eavesdropper hears every z, and knows the method, the
    order, N and rho. The attacks estimate each agent's model x_i and multiplier y_i; y_i is the gradient of the agent's
    private objective. There are four attacks:

    - *as printed*: the paper's least squares, with the 20 iterations of its solver;
    - *printed, solved*: the same, solved exactly;
    - *recursion*: follow the token with a guess of the step size; each visit halves the error;
    - *quadratic fit*: exact; only for ridge regression with secret step sizes.

    The methods differ in what they hide:

    - i-admm: nothing, it starts from zero;
    - random-start: the start;
    - pi-admm1: the start and the step sizes;
    - pi-admm2: the start; x_i has noise of deviation 0.001, or with --epsilon as much as differential privacy needs
      (logistic loss, rows of norm at most 1, start from zero);
    - offset: y_i, by a secret that agents share with their neighbours;
    - pi-admm1-offset: what pi-admm1 and offset hide.

    The table has the mean error over all agents, at their first and at their last visit. All records are made up.

    Example: `tacit attack pi-admm1 --out out/attack`
    """
    regression = names.pick(paper.REGRESSIONS, loss, "loss")
    make = names.pick(METHODS, method, "method")
    if out == "":
        raise InputError("--out is empty: name a folder")
    if out is not None:
        names.require_plot()
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
    folder = None if out is None else Path(out)
    if folder is not None:
        names.folder(folder)
        for name in ("attack.png", "attack.csv"):
            writable(folder / name)

    with warnings.catch_warnings(record=True) as caught, err.status("listening") as status:
        warnings.simplefilter("always")
        talk = paper.graph(agents, paper.LINKS, seed)

        def progress(tick: int) -> None:
            status.update(f"listening: tick {tick} of {ticks}")

        overheard = listen_in(algorithm, problem, talk, ticks, noise, progress=progress)
        status.update("attacking")
        found = paper.estimates(regression, algorithm, overheard)
    if not all(np.isfinite(part).all() for states in (*found.values(), overheard.truth) for part in states):
        raise InputError(f"the method or an attack diverged with the penalty {algorithm.penalty:g}: try another")
    for warning in caught:
        warn(str(warning.message))
    screen.print(tables.attacks(rows(overheard, found)))
    screen.print(f"\n{in_words(overheard, found)}", soft_wrap=True)
    if folder is not None:
        from tacit.report import plots  # matplotlib is slow to import: not for --help

        title = f"{method}, {loss} regression, {agents} agents, {ticks} ticks: what an eavesdropper has"
        figure = PaperFigure(title, panels(method, [(overheard, found)], agent - 1))
        plots.paper_figure(figure, folder / "attack.png")
        write_csv(figure, folder / "attack.csv")
        err.print(f"wrote {folder / 'attack.png'} and {folder / 'attack.csv'}", markup=False, soft_wrap=True)


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


def in_words(overheard: Overheard, found: dict[str, States]) -> str:
    """A summary of the table."""
    lines = dict(rows(overheard, found))
    missed, size = min(lines[name][4] for name in found), lines["(a guess of zero)"][4]
    share = missed / size
    if share <= 1e-6:
        return "The eavesdropper has the agents' gradients exactly."
    if share < 0.5:
        return f"The best attack misses the agents' gradients by {share:.2g} times their size."
    return f"None of these attacks tells the agents' gradients: the best is off by {share:.3g} times their size."
