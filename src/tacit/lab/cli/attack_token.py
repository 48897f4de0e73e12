"""`tacit attack` on the token methods of paper 002, on its problems."""

from __future__ import annotations

import json as json_format
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tacit.algorithms import IncrementalADMM
from tacit.cli import names
from tacit.cli.console import err, tell_written, warn
from tacit.cli.console import out as screen
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.files import writable
from tacit.lab import listings
from tacit.lab.attacks import Overheard, States, listen_in
from tacit.lab.cli.attack_options import HIDING, AttackOptions
from tacit.lab.papers import incremental_admm_methods as paper
from tacit.lab.papers.experiment import DELTA, PaperFigure, write_csv
from tacit.lab.papers.incremental_admm_attacks import panels
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import calibrate

_MAKERS = (paper.random_start, paper.pi_admm1, paper.pi_admm2, paper.offset, paper.pi_admm1_offset)
_MAKE: dict[str, Callable[[paper.Regression], IncrementalADMM]] = dict(zip(HIDING, _MAKERS, strict=True))


def attack(asked: AttackOptions, folder: Path | None) -> None:
    """Runs the method, attacks all agents, and shows what was learnt."""
    names.pick(dict.fromkeys(("overheard", "neighbours")), asked.who, f"of {asked.method}, who")
    agents, loss = asked.agents or 100, asked.loss or "ridge"
    regression = names.pick(paper.REGRESSIONS, loss, "loss")
    if agents < 3:
        raise InputError(f"--agents must be 3 or more, not {agents}: two agents can hide nothing from each other")
    if not 1 <= asked.agent <= agents:
        raise InputError(f"--agent must be between 1 and {agents}, not {asked.agent}")
    ticks = paper.CYCLES * agents + 1 if asked.ticks is None else asked.ticks
    if ticks < 7 * agents:
        raise InputError(f"--ticks must be {7 * agents} or more, seven visits to each of {agents} agents; not {ticks}")
    if asked.penalty is not None:
        regression = regression._replace(penalty=asked.penalty)
    algorithm, problem = _set_up(asked, regression, agents, ticks)
    if folder is not None:
        names.folder(folder)
        for name in ("attack.png", "attack.csv"):
            writable(folder / name)
    overheard, found, known_by = _attacked(asked, regression, algorithm, problem, ticks)
    lines = errors(overheard, found)
    if asked.json:
        typer.echo(json_format.dumps(as_json(asked.method, asked.who, loss, lines)))
    else:
        screen.print(listings.attacks(lines))
        attackers = "The eavesdropper has" if asked.who == "overheard" else "The two neighbours of an agent have"
        screen.print(f"\n{in_words(lines, attackers)}{known_by}", soft_wrap=True)
    if folder is not None:
        from tacit.lab.papers import drawing  # matplotlib is slow to import: not for --help

        attackers = "an eavesdropper has" if asked.who == "overheard" else "two neighbours have"
        title = f"{asked.method}, {loss} regression, {agents} agents, {ticks} ticks: what {attackers}"
        figure = PaperFigure(title, panels(asked.method, [(overheard, found)], asked.agent - 1))
        drawing.paper_figure(figure, folder / "attack.png")
        write_csv(figure, folder / "attack.csv")
        tell_written(folder / "attack.png", folder / "attack.csv")


def _set_up(
    asked: AttackOptions, regression: paper.Regression, agents: int, ticks: int
) -> tuple[IncrementalADMM, Problem]:
    """The method and the problem; with --epsilon, those whose visits have a bounded cost."""
    if asked.epsilon is None:
        return _MAKE.get(asked.method, paper.i_admm)(regression), regression.problem(agents, asked.seed)
    if asked.method != "pi-admm2" or asked.loss != "logistic":
        raise InputError(
            "--epsilon is for pi-admm2 with --loss logistic: no other choice has noise and a bounded slope"
        )
    algorithm = calibrated(regression, asked.epsilon, -(-ticks // agents))
    return algorithm, regression.problem(agents, asked.seed, row_norm=1.0)


def _attacked(
    asked: AttackOptions, regression: paper.Regression, algorithm: IncrementalADMM, problem: Problem, ticks: int
) -> tuple[Overheard, dict[str, States], str]:
    """What was overheard, the estimates of each attack, and who knows the secret offsets."""
    agents, known_by = problem.agents, ""
    with warnings.catch_warnings(record=True) as caught, err.status("listening") as status:
        warnings.simplefilter("always")
        usual = asked.graph == "auto"
        talk = (
            paper.graph(agents, paper.LINKS, asked.seed) if usual else names.graph(asked.graph, agents, [], asked.seed)
        )

        def progress(tick: int) -> None:
            status.update(f"listening: tick {tick} of {ticks}")

        overheard = listen_in(algorithm, problem, talk, ticks, SeededNoise(asked.seed), progress=progress)
        status.update("attacking")
        if asked.who == "overheard":
            found = paper.estimates(regression, algorithm, overheard)
        else:
            found, undone = paper.neighbours_estimates(regression, algorithm, overheard.heard, talk)
            if algorithm.offset:
                known_by = f" The two know the secret offset of {undone} of {agents} agents."
    if not all(np.isfinite(part).all() for states in (*found.values(), overheard.truth) for part in states):
        raise InputError(f"the method or an attack diverged with the penalty {algorithm.penalty:g}: try another")
    for warning in caught:
        warn(str(warning.message))
    return overheard, found, known_by


def calibrated(regression: paper.Regression, epsilon: float, visits: int) -> IncrementalADMM:
    """PI-ADMM2 whose visits cost (epsilon, 1e-5) in total, from a public start."""

    def make(budget: Gaussian) -> IncrementalADMM:
        return replace(paper.i_admm(regression), budget=budget)

    # A visit costs the same in a network of any size: we count them with three agents.
    facts = Facts(sizes=[paper.ROWS] * 3, dimension=2)
    return calibrate(make, facts, Graph.ring(3), 3 * visits, epsilon=epsilon, delta=DELTA)


def errors(overheard: Overheard, found: dict[str, States]) -> list[tuple[str, list[float]]]:
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


def in_words(lines: list[tuple[str, list[float]]], attackers: str) -> str:
    """A summary of the table."""
    *found, (_, guess) = lines
    share = min(line[4] for _, line in found) / guess[4]
    if share <= 1e-6:
        return f"{attackers} the gradients exactly."
    if share < 0.5:
        return f"The best attack misses the agents' gradients by {share:.2g} times their size."
    return f"None of these attacks tells the agents' gradients: the best is off by {share:.3g} times their size."
