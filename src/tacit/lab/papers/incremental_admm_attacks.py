"""Paper 002: what an eavesdropper finds, Fig. 4 and 6, and the theorems on privacy."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.lab.attacks import States, Transcript, colluders, listen_in, quadratics
from tacit.lab.papers.experiment import DELTA, Claim, Lab, Panel, PaperFigure, Series
from tacit.lab.papers.incremental_admm_methods import (
    CYCLES,
    FIT,
    LINKS,
    PI1,
    PI2,
    PLAIN,
    PRINTED,
    ROWS,
    SIGMA,
    SOLVED,
    SPREAD,
    STRONG,
    AttackedRun,
    Regression,
    attack_seeds,
    estimates,
    graph,
    i_admm,
    offset,
    pi_admm1,
    pi_admm1_offset,
    pi_admm2,
    sized,
)
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import plan

TICK, TRUTH = "tick k", "truth"


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
    agents, seeds = sized(lab, 100), attack_seeds(lab)
    variants = {PLAIN: i_admm, PI1: pi_admm1, PI2: pi_admm2, "offset": offset, "both": pi_admm1_offset}
    attacked: dict[str, list[AttackedRun]] = {name: [] for name in variants}
    for seed in seeds:
        problem, talk = regression.problem(agents, seed), graph(agents, LINKS, seed)
        for name, make in variants.items():
            lab.tell(f"listening to {name}, run {seed + 1} of {len(seeds)}")
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
