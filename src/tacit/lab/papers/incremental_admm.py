"""Ye, Chen, Xiao, Skoglund, Poor, "Privacy-preserving Incremental ADMM for Decentralized Consensus Optimization", V.

Figures are numbered by their captions; the text refers to some of them by other numbers. The text does not say how many
runs there are and how far the curves go: we chose six runs on each network, and three of each attack, each with data,
graph, walk and noise of its own. `incremental_admm_methods` has the problems and the methods,
`incremental_admm_attacks` the eavesdropper (Fig. 4 and 6).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tacit.lab.papers.experiment import Claim, Figures, Lab, Panel, PaperFigure, Series, listed
from tacit.lab.papers.incremental_admm_attacks import eavesdropping
from tacit.lab.papers.incremental_admm_methods import (
    COCA,
    IPW,
    LINKS,
    LOGISTIC,
    PI1,
    PI2,
    PLAIN,
    RIDGE,
    SIGMA,
    Convergence,
    Regression,
    W,
    graph,
    measured,
    methods,
    sized,
)
from tacit.lab.papers.incremental_admm_theorems import theorems

TARGET = 1e-3  # the accuracy at which methods are compared
POINTS = 61  # of a curve
SEEDS = 6  # of a comparison
UNITS, ACCURACY, ERROR = "communication units", "accuracy (21)", "mean ||x_i - x*||"


def comparison(lab: Lab, regression: Regression, where: str) -> PaperFigure:
    """Fig. 3 and 5: accuracy against communication on three networks."""
    small, large = (sized(lab, n) for n in (100, 200))
    settings = [(small, LINKS), (small, 0.5), (large, LINKS)]
    runs: list[dict[str, list[Convergence]]] = []
    accuracy: list[Panel] = []
    absolute: list[Panel] = []
    for agents, links in settings:
        limit = min(regression.cycles, 8 * lab.size.rounds) * agents
        grid = np.linspace(0, limit, POINTS)
        found: dict[str, list[Convergence]] = {}
        repeats = min(SEEDS, lab.size.runs)
        todo = [(seed, name) for seed in range(repeats) for name in methods(regression, seed)]
        one = partial(_compared, regression, agents, links, limit)
        for (_, name), result in zip(
            todo, lab.map(f"runs with {agents} agents, η = {links:g}", one, todo), strict=True
        ):
            found.setdefault(name, []).append(result)
        runs.append(found)
        title = f"N = {agents}, η = {links:g}"
        for panels, y, values in ((accuracy, ACCURACY, "accuracy"), (absolute, ERROR, "error")):
            series = [Series.of(name, grid, [_held(m, values, grid) for m in ms]) for name, ms in found.items()]
            panels.append(Panel(f"{title}: {y}", UNITS, y, series, log_y=True))
    claims = _comparison_claims(runs, settings, where)
    return PaperFigure(
        f"Decentralised {regression.name} regression: accuracy against communication", accuracy + absolute, claims
    )


def _compared(regression: Regression, agents: int, links: float, limit: int, what: tuple[int, str]) -> Convergence:
    seed, name = what
    problem, talk = regression.problem(agents, seed), graph(agents, links, seed)
    return measured(methods(regression, seed)[name], problem, talk, limit, seed)


def _comparison_claims(
    runs: list[dict[str, list[Convergence]]], settings: list[tuple[int, float]], where: str
) -> list[Claim]:
    first, dense, large = runs
    (small, sparse), (_, denser), (many, _) = settings

    def units(found: dict[str, list[Convergence]], names: tuple[str, ...], *, absolute: bool = False) -> str:
        medians = {name: float(np.median(_reached(found[name], absolute=absolute))) for name in names}
        return ", ".join(f"{name} {_units(value)}" for name, value in medians.items())

    to = f"units to an accuracy of {TARGET:g}, medians of the seeds"
    claims = [
        Claim(
            f"{where}({letter})",
            "paper",
            f"I-ADMM needs the least communication of I-, W-, IPW-ADMM and COCA, N = {agents}, η = {links:g} (a rival "
            "that has spent more and is not there needs more)",
            f"{to}: {units(found, (PLAIN, W, IPW, COCA))}",
            _least({name: found[name] for name in (PLAIN, W, IPW, COCA)}),
        )
        for letter, found, (agents, links) in zip("abc", runs, settings, strict=True)
    ]
    with np.errstate(invalid="ignore"):  # no number where neither gets there
        ratios = _reached(first[PLAIN]) / _reached(first[W])
    last = {name: np.array([m.error[-1] for m in first[name]]) for name in (PLAIN, PI2)}
    decade = {name: np.array([m.units_a_decade() for m in first[name]]) for name in (PLAIN, PI1, W)}
    by_accuracy, by_error = (
        {name: _reached(first[name], absolute=absolute) for name in (PI1, PLAIN)} for absolute in (False, True)
    )
    claims += [
        Claim(
            f"{where}(a)",
            "tacit",
            "I-ADMM needs about half of what W-ADMM needs (0.35 to 0.65 of it)",
            f"{listed(ratios[np.isfinite(ratios)])}: {units(first, (PLAIN, W))}",
            [0.35 <= r <= 0.65 if 0 < r < math.inf else None for r in ratios],
        ),
        Claim(
            f"{where}(a)",
            "paper",
            "in the end PI-ADMM1 converges as fast as I-ADMM (within a tenth), and faster than W-ADMM",
            "units for each factor of ten of the error, in the second half of the run: "
            + ", ".join(f"{name} {_units(float(np.median(values)))}" for name, values in decade.items()),
            (np.abs(decade[PI1] / decade[PLAIN] - 1) <= 0.1) & (decade[PI1] < decade[W]),
        ),
        Claim(
            f"{where}(a)",
            "paper",
            "PI-ADMM2 stays at an error that σ determines (σ/2 to 5σ), I-ADMM does not",
            f"{ERROR} at the end, σ = {SIGMA:g}: PI-ADMM2 {np.median(last[PI2]):.2e}, I-ADMM "
            f"{np.median(last[PLAIN]):.2e}",
            (last[PI2] >= SIGMA / 2) & (last[PI2] <= 5 * SIGMA) & (last[PLAIN] < SIGMA / 2),
        ),
        Claim(
            f"{where}(a), (b)",
            "paper",
            "I-ADMM, PI-ADMM1 and PI-ADMM2 do not depend on η (within a tenth; a seed cannot tell where what it needs "
            "lies among what the seeds need with the other η)",
            f"{to}, η = {sparse:g}: {units(first, (PLAIN, PI1, PI2))}; η = {denser:g}: "
            f"{units(dense, (PLAIN, PI1, PI2))}",
            _alike([(_reached(first[name]), _reached(dense[name])) for name in (PLAIN, PI1, PI2)]),
        ),
        Claim(
            f"{where}(a), (c)",
            "paper",
            "convergence is slower in a larger network",
            f"{to}, N = {small}: {units(first, (PLAIN, PI1, W))}; N = {many}: {units(large, (PLAIN, PI1, W))}",
            _later([(_reached(large[name]), _reached(first[name])) for name in (PLAIN, PI1, W)]),
        ),
        Claim(
            "(21)",
            "tacit",
            "accuracy (21) divides by the distance at the start, so a method that starts far away looks better: by "
            f"(21) PI-ADMM1 is at {TARGET:g} before I-ADMM, by the error itself after it",
            f"units by (21): {units(first, (PI1, PLAIN))}; by the error: {units(first, (PI1, PLAIN), absolute=True)}",
            (by_accuracy[PI1] < by_accuracy[PLAIN]) & (by_error[PI1] > by_error[PLAIN]),
        ),
    ]
    return claims


def _reached(runs: list[Convergence], *, absolute: bool = False) -> np.ndarray:
    """(seeds,) the communication to the target; infinite if the run ends before."""
    return np.array([m.units_to(TARGET, absolute=absolute) for m in runs])


def _least(runs: dict[str, list[Convergence]]) -> list[bool | None]:
    """Whether I-ADMM needs the least, for each seed.

    A rival that is not there needs more than its run has spent. Where that is less than I-ADMM needs, or I-ADMM is not
    there itself, the seed cannot tell.
    """
    mine = _reached(runs[PLAIN])
    rivals = [(_reached(theirs), theirs) for name, theirs in runs.items() if name != PLAIN]
    answers: list[bool | None] = []
    for seed, need in enumerate(mine):
        first = any(np.isfinite(reached[seed]) and reached[seed] <= need for reached, _ in rivals)
        known = np.isfinite(need) and all(
            np.isfinite(reached[seed]) or theirs[seed].units[-1] >= need for reached, theirs in rivals
        )
        answers.append(False if first else True if known else None)
    return answers


def _later(pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[bool | None]:
    """Whether the first number of each pair is the larger one, for each seed; where neither gets there, none can
    tell."""
    answers: list[bool | None] = []
    for seed in range(len(pairs[0][0])):
        known = [bool(a[seed] > b[seed]) for a, b in pairs if np.isfinite(a[seed]) or np.isfinite(b[seed])]
        answers.append(False if False in known else True if len(known) == len(pairs) else None)
    return answers


def _alike(pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[bool | None]:
    """Whether the two numbers of each pair differ by a tenth at most, for each seed. A seed decides nothing against it
    where its second number lies among the first numbers of all seeds, also where those are infinite."""
    answers: list[bool | None] = []
    for seed in range(len(pairs[0][0])):
        verdicts: list[bool | None] = []
        for one, other in pairs:
            near = np.isfinite(other[seed]) and abs(other[seed] / one[seed] - 1) <= 0.1
            verdicts.append(True if near else None if one.min() <= other[seed] <= one.max() else False)
        answers.append(False if False in verdicts else None if None in verdicts else True)
    return answers


fig3, fig5 = (partial(comparison, regression=r, where=f) for r, f in ((RIDGE, "Fig. 3"), (LOGISTIC, "Fig. 5")))
fig4, fig6 = (partial(eavesdropping, regression=r, where=f) for r, f in ((RIDGE, "Fig. 4"), (LOGISTIC, "Fig. 6")))
FIGURES: Figures = {"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6, "theorems": theorems}


def _held(m: Convergence, name: str, grid: np.ndarray) -> np.ndarray:
    """The values on a grid of communication: what was measured last."""
    values: np.ndarray = getattr(m, name)
    return values[np.searchsorted(m.units, grid, side="right") - 1]


def _units(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "more than shown"
