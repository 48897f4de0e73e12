"""Ye, Chen, Xiao, Skoglund, Poor, "Privacy-preserving Incremental ADMM for Decentralized Consensus Optimization", V.

Figures are numbered by their captions; the text refers to some of them by other numbers. The text does not say how many
runs there are and how far the curves go: we chose six runs on each network, and three of each attack, each with data,
graph, walk and noise of its own. `incremental_admm_methods` has the problems and the methods.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.lab.attacks import States, Transcript, colluders, listen_in, quadratics
from tacit.lab.papers import incremental_admm_theorems
from tacit.lab.papers.experiment import DELTA, Claim, Figures, Lab, Panel, PaperFigure, Series, listed
from tacit.lab.papers.incremental_admm_methods import (
    COCA,
    CYCLES,
    FIT,
    IPW,
    LINKS,
    LOGISTIC,
    PI1,
    PI2,
    PLAIN,
    PRINTED,
    RIDGE,
    ROWS,
    SIGMA,
    SOLVED,
    SPREAD,
    STRONG,
    AttackedRun,
    Measured,
    Regression,
    W,
    estimates,
    graph,
    i_admm,
    measured,
    methods,
    offset,
    pi_admm1,
    pi_admm1_offset,
    pi_admm2,
)
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import plan

TARGET = 1e-3  # the accuracy at which methods are compared
POINTS = 61  # of a curve
SEEDS = 6  # of a comparison
UNITS, ACCURACY, ERROR, TICK = "communication units", "accuracy (21)", "mean ||x_i - x*||", "tick k"
TRUTH = "truth"


def comparison(lab: Lab, regression: Regression, where: str) -> PaperFigure:
    """Fig. 3 and 5: accuracy against communication on three networks."""
    small, large = (_agents(lab, n) for n in (100, 200))
    settings = [(small, LINKS), (small, 0.5), (large, LINKS)]
    runs: list[dict[str, list[Measured]]] = []
    accuracy: list[Panel] = []
    absolute: list[Panel] = []
    for agents, links in settings:
        limit = min(regression.cycles, 8 * lab.size.rounds) * agents
        grid = np.linspace(0, limit, POINTS)
        found: dict[str, list[Measured]] = {}
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


def _compared(regression: Regression, agents: int, links: float, limit: int, what: tuple[int, str]) -> Measured:
    seed, name = what
    problem, talk = regression.problem(agents, seed), graph(agents, links, seed)
    return measured(methods(regression, seed)[name], problem, talk, limit, seed)


def _comparison_claims(
    runs: list[dict[str, list[Measured]]], settings: list[tuple[int, float]], where: str
) -> list[Claim]:
    first, dense, large = runs
    (small, sparse), (_, denser), (many, _) = settings

    def units(found: dict[str, list[Measured]], names: tuple[str, ...], *, absolute: bool = False) -> str:
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


def _reached(runs: list[Measured], *, absolute: bool = False) -> np.ndarray:
    """(seeds,) the communication to the target; infinite if the run ends before."""
    return np.array([m.units_to(TARGET, absolute=absolute) for m in runs])


def _least(runs: dict[str, list[Measured]]) -> list[bool | None]:
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


def panels(title: str, attacked: list[AttackedRun], agent: int = 0) -> list[Panel]:
    """The first coordinate of x_i and of y_i at each visit of the first run, true and as estimated; and the error of
    all y in all runs."""
    (heard, truth, _), found = attacked[0]
    k = heard.visits(agent)
    out = []
    near = {label: states for label, states in found.items() if label != SOLVED}  # its errors would fill the picture
    for place, name in enumerate("xy"):
        series = [Series.of(TRUTH, k + 1, truth[place][k, 0], "k-")]
        series += [Series.of(label, k + 1, states[place][k, 0], "--") for label, states in near.items()]
        out.append(Panel(f"{title}: {name} of agent {agent + 1}", TICK, f"{name}_{agent + 1}(1)", series))
    series = []
    for label in found:
        errors = np.array([_mean(o.heard, found[label].errors(o.truth).y) for o, found in attacked])
        ticks = heard.agents * np.arange(1, errors.shape[1] + 1)
        series.append(Series.of(label, ticks, np.maximum(errors, 1e-16)))
    out.append(Panel(f"{title}: error of y", TICK, "mean over agents", series, log_y=True))
    return out


def _mean(heard: Transcript, errors: np.ndarray) -> np.ndarray:
    """(visits,): the mean over agents at each visit that all have had."""
    each = heard.by_visit(errors)
    return each[~np.isnan(each).any(axis=1)].mean(axis=1)


def eavesdropping(lab: Lab, regression: Regression, where: str) -> PaperFigure:
    """Fig. 4 and 6: estimates and truth, for I-ADMM, PI-ADMM1 and PI-ADMM2."""
    agents = _agents(lab, 100)
    variants = {PLAIN: i_admm, PI1: pi_admm1, PI2: pi_admm2, "offset": offset, "both": pi_admm1_offset}
    attacked: dict[str, list[AttackedRun]] = {name: [] for name in variants}
    for seed in range(_seeds(lab)):
        problem, talk = regression.problem(agents, seed), graph(agents, LINKS, seed)
        for name, make in variants.items():
            lab.tell(f"listening to {name}, run {seed + 1} of {_seeds(lab)}")
            algorithm = make(regression)
            overheard = listen_in(algorithm, problem, talk, CYCLES * agents + 1, SeededNoise(seed))
            attacked[name].append((overheard, estimates(regression, algorithm, overheard)))
    shown = [panels(name, attacked[name]) for name in (PLAIN, PI1, PI2)]
    rows = [three[row] for row in range(3) for three in shown]
    claims = _privacy_claims(regression, attacked, where)
    return PaperFigure(f"Decentralised {regression.name} regression: what an eavesdropper has", rows, claims)


def _privacy_claims(regression: Regression, attacked: dict[str, list[AttackedRun]], where: str) -> list[Claim]:
    def errors(name: str, attack: str, of: str = "y") -> np.ndarray:
        """(runs, visits): the mean over agents at each visit that all had."""
        out = []
        for overheard, found in attacked[name]:
            truth = overheard.truth if of != "gradient" else States(overheard.truth.x, overheard.gradient)
            off = found[attack].errors(truth)
            out.append(_mean(overheard.heard, off.x if of == "x" else off.y))
        return np.array(out)

    def ends(name: str, attack: str, of: str = "y") -> str:
        e = np.median(errors(name, attack, of), axis=0)
        return f"{e[0]:.3g} -> {e[-1]:.3g}"

    def last(name: str, attack: str, of: str = "y") -> np.ndarray:
        """The last error of each seed."""
        return np.asarray(errors(name, attack, of)[:, -1])

    norms = {
        name: np.array([np.linalg.norm(o.truth.y[-o.heard.agents :], axis=1).mean() for o, _ in runs])
        for name, runs in attacked.items()
    }
    size = {name: float(np.median(each)) for name, each in norms.items()}
    worst = np.array([max(e.max() for e in found[STRONG].errors(o.truth)) for o, found in attacked[PLAIN]])
    text = "the eavesdropper has x and y of I-ADMM exactly, by (11) (to 1e-9)"
    measured = f"largest error of all agents and ticks: {worst.max():.2g}"
    claims = [Claim(f"{where}(a), (b)", "paper", text, measured, worst <= 1e-9)]
    for name, letter in ((PI1, "(d)"), (PI2, "(f)")):
        printed, strong = last(name, PRINTED), last(name, STRONG)
        paper = partial(Claim, f"{where}{letter}", "paper")
        claims += [
            paper(
                f"the attack as printed learns no y of {name}: it stays as far off as a "
                "guess of zero (half of that at least)",
                f"mean error of y, first to last visit: {ends(name, PRINTED)}; solved {ends(name, SOLVED)}; ||y|| = "
                f"{size[name]:.3g}",
                printed >= norms[name] / 2,
            ),
            paper(
                f"y of {name} cannot be learnt by an eavesdropper (not to a tenth of its size)",
                f"mean error of y by the recursion: {ends(name, STRONG)}; ||y|| = {size[name]:.3g}",
                strong > norms[name] / 10,
            ),
        ]
    noise = regression.penalty * SIGMA * math.sqrt(math.pi / 2)
    text = "all that PI-ADMM2 hides of the gradient in the end is its noise (mean error within a tenth of ρσ√(π/2))"
    measured = f"mean error of the gradient: {ends(PI2, STRONG, 'gradient')}; ρσ√(π/2) = {noise:.3g}"
    hidden = last(PI2, STRONG, "gradient")
    claims.append(Claim(f"{where}(f)", "tacit", text, measured, np.abs(hidden / noise - 1) <= 0.1))
    if regression.exact:
        claims += _quadratic_claims(attacked[PI1], regression)
    text = "a secret zero-sum offset hides y behind ρ S_i^0, for good, and x not at all"
    measured = (
        f"I-ADMM with it: error of y {ends('offset', STRONG)}, of x {ends('offset', STRONG, 'x')}; ||y|| = "
        f"{size['offset']:.3g}"
    )
    holds = (last("offset", STRONG) > 10 * norms["offset"]) & (last("offset", STRONG, "x") < 1e-9)
    claims += [Claim(where, "tacit", text, measured, holds), _collusion(attacked["both"]), _price(regression)]
    return claims


def _quadratic_claims(attacked: list[AttackedRun], regression: Regression) -> list[Claim]:
    worst, curvature = [], []  # of each seed
    for seed, (overheard, found) in enumerate(attacked):
        worst.append(max(float(e.max()) for e in found[FIT].errors(overheard.truth)))
        H = quadratics(overheard.heard, 1 - SPREAD, 1 + SPREAD).curvature
        problem = regression.problem(overheard.heard.agents, seed)
        curvature.append(float(np.abs(H - problem.scale[:, None, None] * problem.second_moment()).max()))
    exactly = "x and y of PI-ADMM1 cannot be inferred exactly (to 1e-6)"
    states = f"largest error of x and y, all agents, all visits, by the quadratic fit: {max(worst):.2g}"
    functions = "the local functions of PI-ADMM1 cannot be inferred (their Hessians, to 1e-6)"
    hessians = f"largest error of an entry of the {attacked[0][0].heard.agents} Hessians: {max(curvature):.2g}"
    return [
        Claim("Theorem 2", "paper", exactly, states, [e > 1e-6 for e in worst]),
        Claim("Corollary 1", "paper", functions, hessians, [e > 1e-6 for e in curvature]),
    ]


def _collusion(attacked: list[AttackedRun]) -> Claim:
    off, size = [], []
    for overheard, found in attacked:
        heard = overheard.heard
        ends = [heard.visits(i)[-1] for i in range(heard.agents)]
        x, y, guess = overheard.truth.x[ends], overheard.truth.y[ends], found[STRONG].x[ends]
        learnt = [colluders(x, y, heard.tokens[-1], heard.penalty, i, guess[i]) for i in range(heard.agents)]
        off.append(np.linalg.norm(learnt - y, axis=1).mean())
        size.append(np.linalg.norm(y, axis=1).mean())
    error, norm = np.median(off), np.median(size)
    text = "N-1 colluding agents cannot infer y of the last one (not to a tenth of its size)"
    measured = f"PI-ADMM1, and a secret offset on top, at the last visit: mean error {error:.3g}, ||y|| = {norm:.3g}"
    return Claim("Theorem 3", "paper", text, measured, np.array(off) > np.array(size) / 10)


def _price(regression: Regression) -> Claim:
    """What sigma = 1e-3 costs in terms of differential privacy, if rows have norm 1 at most."""
    text = f"PI-ADMM2 at σ = {SIGMA:g} is privacy in name only: ε above 1,000 for the {CYCLES} visits (δ = {DELTA:g})"
    if regression.name == "ridge":
        return Claim("Algorithm 4", "tacit", text, "ε is infinite: the slope of the squared loss has no bound", True)
    facts = Facts(sizes=[ROWS] * 3, dimension=2)  # a visit costs the same in a network of any size
    algorithm = replace(i_admm(regression), deviation=SIGMA)
    epsilon = plan(algorithm, facts, Graph.ring(3), 3 * CYCLES).epsilon(DELTA)
    return Claim("Algorithm 4", "tacit", text, f"ε = {epsilon:,.0f} with rows of norm at most 1", epsilon > 1000)


def fig3(lab: Lab) -> PaperFigure:
    """Accuracy against communication, for ridge regression."""
    return comparison(lab, RIDGE, "Fig. 3")


def fig4(lab: Lab) -> PaperFigure:
    """What an eavesdropper finds, for ridge regression."""
    return eavesdropping(lab, RIDGE, "Fig. 4")


def fig5(lab: Lab) -> PaperFigure:
    """Accuracy against communication, logistic loss."""
    return comparison(lab, LOGISTIC, "Fig. 5")


def fig6(lab: Lab) -> PaperFigure:
    """What an eavesdropper finds, for the logistic loss."""
    return eavesdropping(lab, LOGISTIC, "Fig. 6")


def theorems(lab: Lab) -> PaperFigure:
    """What the theorems say of the Lagrangian, and the bounds (17)."""
    return incremental_admm_theorems.theorems(lab, _agents(lab, 100), _seeds(lab))


FIGURES: Figures = {"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6, "theorems": theorems}


def _agents(lab: Lab, agents: int) -> int:
    """The paper's number, or a smaller one in a smaller experiment."""
    return agents * lab.size.rounds // 100 if lab.size.quick else agents


def _seeds(lab: Lab) -> int:
    """How many seeds the attacks get."""
    return min(3, lab.size.runs)


def _held(m: Measured, name: str, grid: np.ndarray) -> np.ndarray:
    """The values on a grid of communication: what was measured last."""
    values: np.ndarray = getattr(m, name)
    return values[np.searchsorted(m.units, grid, side="right") - 1]


def _units(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "more than shown"
