"""Ye, Chen, Xiao, Skoglund, Poor, "Privacy-preserving Incremental ADMM for Decentralized Consensus Optimization", V.

Ridge regression (22) and logistic regression (24), as the paper draws them: d = 2, 30 rows an agent, N = 100 or 200
agents, N(N-1)/2 eta links among which there is a cycle through all. Methods and constants are those of the captions.
(22) is 1/b sum (x.o - t)^2, so `Squared`, which has a half in it, is scaled by 2. Figures are numbered by their
captions; the text refers to some of them by other numbers.

What the text does not say and we chose: three runs on the first network and one on the others, each with data, graph,
walk and noise of its own; the neighbours that IPW-ADMM chooses from (2); how far the curves go; v of the random starts
is uniform on (0, 100)^2 for ridge and on (0, 10)^2 for the logistic loss, for PI-ADMM2 as well as for PI-ADMM1. Random
starts have the sign that makes them converge (docs/errata.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacit.algorithms import Between, CensoredADMM, IncrementalADMM, ParallelWalkADMM, WalkADMM
from tacit.attacks import Overheard, States, Transcript, colluders, least_squares, listen_in, quadratics, recursion
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Logistic, Squared
from tacit.core.problem import Problem
from tacit.core.schedule import RandomWalk
from tacit.errors import InputError
from tacit.papers.experiment import DELTA, Claim, Exhibit, Figures, Lab, Panel, Series
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import Facts, plan
from tacit.simulation.simulate import simulate

ROWS, SIGMA, SPREAD, LINKS = 30, 1e-3, 0.1, 0.3  # gamma is between 1 - SPREAD and 1 + SPREAD
TARGET = 1e-3  # the accuracy at which methods are compared
POINTS = 61  # of a curve
CYCLES = 20  # that the eavesdropper hears, and one tick more: 2,001 ticks of 100 agents
W, IPW, COCA, PLAIN, PI1, PI2 = "W-ADMM", "IPW-ADMM", "COCA", "I-ADMM", "PI-ADMM1", "PI-ADMM2"
UNITS, ACCURACY, ERROR, TICK = "communication units", "accuracy (21)", "mean ||x_i - x*||", "tick k"
TRUTH, PRINTED, SOLVED, STRONG, FIT = "truth", "as printed", "printed, solved", "recursion, γ = 1", "quadratic fit"


class Case(NamedTuple):
    """One of the paper's two problems, with its constants."""

    name: str
    penalty: float
    exact: bool  # (4a), or the first-order step (8)
    initial: float  # random starts are uniform on (0, initial)
    proximal: float  # IPW-ADMM's tau
    cycles: int  # as many units of communication for each agent are shown

    def problem(self, agents: int, seed: int, row_norm: float = math.inf) -> Problem:
        """The agents' rows; those longer than `row_norm` are shortened to it."""
        rng = np.random.default_rng(seed)
        draw = self._ridge if self.name == "ridge" else self._logistic
        parts = draw(rng, agents)
        parts = [(X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True) / row_norm), y) for X, y in parts]
        return Problem(parts, loss=Squared(), scale=2.0) if self.name == "ridge" else Problem(parts, loss=Logistic())

    @staticmethod
    def _ridge(rng: np.random.Generator, agents: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(rng.uniform(size=(ROWS, 2)), rng.uniform(size=ROWS)) for _ in range(agents)]

    @staticmethod
    def _logistic(rng: np.random.Generator, agents: int) -> list[tuple[np.ndarray, np.ndarray]]:
        x, parts = rng.normal(size=2), []
        for _ in range(agents):
            o = rng.normal(size=(ROWS, 2))
            parts.append((o, np.where(rng.uniform(size=ROWS) <= 1 / (1 + np.exp(-o @ x)), 1.0, -1.0)))
        return parts


RIDGE = Case("ridge", penalty=10.0, exact=True, initial=100.0, proximal=0.0, cycles=300)
LOGISTIC = Case("logistic", penalty=1.0, exact=False, initial=10.0, proximal=3.0, cycles=100)
CASES = {case.name: case for case in (RIDGE, LOGISTIC)}


def i_admm(case: Case) -> IncrementalADMM:
    """Algorithm 1, from a start that everybody knows."""
    return IncrementalADMM(penalty=case.penalty, exact=case.exact)


def random_start(case: Case) -> IncrementalADMM:
    """Algorithm 2."""
    return replace(i_admm(case), initial=case.initial)


def pi_admm1(case: Case) -> IncrementalADMM:
    """Algorithm 3."""
    return replace(random_start(case), gamma=Between(1 - SPREAD, 1 + SPREAD))


def pi_admm2(case: Case) -> IncrementalADMM:
    """Algorithm 4. The rows have no bound on their norm, so the noise is no differential privacy."""
    return replace(random_start(case), deviation=SIGMA, row_norm=math.inf)


def offset(case: Case) -> IncrementalADMM:
    """Beyond the paper: I-ADMM with a secret zero-sum offset."""
    return replace(i_admm(case), offset=case.initial / 10)


def pi_admm1_offset(case: Case) -> IncrementalADMM:
    """Beyond the paper: both."""
    return replace(pi_admm1(case), offset=case.initial / 10)


def graph(agents: int, links: float, seed: int) -> Graph:
    """A share `links` of all possible links, with a cycle through all agents among them."""
    return Graph.random_with_cycle(agents, max(agents, round(agents * (agents - 1) / 2 * links)), seed)


class Measured(NamedTuple):
    """One method on one problem, from start to end."""

    units: np.ndarray  # (points,) of communication so far
    accuracy: np.ndarray  # (points,) (21)
    error: np.ndarray  # (points,) the mean over agents of ||x_i - x*||

    def units_to(self, error: float, *, absolute: bool = False) -> float:
        """The communication after which the accuracy, or the absolute error, is at most this; infinite if never."""
        there = np.flatnonzero((self.error if absolute else self.accuracy) <= error)
        return float(self.units[there[0]]) if len(there) else math.inf

    def units_a_decade(self) -> float:
        """The communication that a factor of ten of the error takes in the second half of the run."""
        half = len(self.units) // 2
        return float((self.units[-1] - self.units[half]) / np.log10(self.error[half] / self.error[-1]))


def methods(case: Case, seed: int) -> dict[str, Algorithm]:
    """Those of the captions."""
    return {
        W: WalkADMM(penalty=case.penalty, exact=case.exact, order=RandomWalk(seed)),
        IPW: ParallelWalkADMM(
            tokens=25, penalty=1.0, proximal=case.proximal, exact=case.exact, walk=RandomWalk(seed, choice=2)
        ),
        COCA: CensoredADMM(penalty=1.0, alpha=1.0, ratio=0.85, exact=case.exact),
        PLAIN: i_admm(case),
        PI1: pi_admm1(case),
        PI2: pi_admm2(case),
    }


def measured(algorithm: Algorithm, problem: Problem, talk: Graph, limit: int, seed: int) -> Measured:
    """The method until it has used up its communication, looked at after every cycle of the token, or every round."""
    noise = SeededNoise(seed)
    prepared = int(
        isinstance(algorithm, IncrementalADMM) and algorithm.initial > 0
    )  # a tick, after which x_i^0 is drawn
    rounds, every = prepared + limit, talk.agents
    if isinstance(algorithm, CensoredADMM):
        rounds, every = 10 * math.ceil(limit / len(talk.indices)), 1  # many of them without a message
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the paper's penalties are not always above L
        start = simulate(algorithm, problem, talk, rounds=prepared, noise=noise, record=True)
        run = simulate(
            algorithm, problem, talk, rounds=rounds, noise=noise, record=True, measure_every=every, resume=start
        )
    assert run.trajectory is not None
    distance = np.linalg.norm(run.trajectory[prepared:] - problem.optimum(), axis=2)
    units = run.history["messages"][prepared:]
    seen = units <= limit
    return Measured(units[seen], (distance / distance[0]).mean(axis=1)[seen], distance.mean(axis=1)[seen])


def comparison(lab: Lab, case: Case, where: str) -> Exhibit:
    """Fig. 3 and 5: accuracy against communication on three networks."""
    small, large = (_agents(lab, n) for n in (100, 200))
    settings = [(small, LINKS), (small, 0.5), (large, LINKS)]
    runs: list[dict[str, list[Measured]]] = []
    accuracy: list[Panel] = []
    absolute: list[Panel] = []
    for agents, links in settings:
        limit = min(case.cycles, 8 * lab.size.rounds) * agents
        grid = np.linspace(0, limit, POINTS)
        found: dict[str, list[Measured]] = {}
        repeats = 1 if runs else _seeds(lab)  # of the first network, on which methods are compared by their medians
        for seed in range(repeats):
            problem, talk = case.problem(agents, seed), graph(agents, links, seed)
            for name, algorithm in methods(case, seed).items():
                lab.tell(f"{name} with {agents} agents, η = {links:g}, run {seed + 1} of {repeats}")
                found.setdefault(name, []).append(measured(algorithm, problem, talk, limit, seed))
        runs.append(found)
        title = f"N = {agents}, η = {links:g}"
        for panels, y, values in ((accuracy, ACCURACY, "accuracy"), (absolute, ERROR, "error")):
            series = [Series.of(name, grid, [_held(m, values, grid) for m in ms]) for name, ms in found.items()]
            panels.append(Panel(f"{title}: {y}", UNITS, y, series, log_y=True))
    claims = _comparison_claims(runs, settings, where)
    return Exhibit(f"Decentralised {case.name} regression: accuracy against communication", accuracy + absolute, claims)


def _comparison_claims(
    runs: list[dict[str, list[Measured]]], settings: list[tuple[int, float]], where: str
) -> list[Claim]:
    def median(found: dict[str, list[Measured]], name: str, *, absolute: bool = False) -> float:
        return float(np.median([m.units_to(TARGET, absolute=absolute) for m in found[name]]))

    def units(found: dict[str, list[Measured]], names: tuple[str, ...], *, absolute: bool = False) -> str:
        return ", ".join(f"{name} {_units(median(found, name, absolute=absolute))}" for name in names)

    to = f"units to an accuracy of {TARGET:g}"
    claims = [
        Claim(
            f"{where}({letter})", "paper", "I-ADMM needs the least communication of I-, W-, IPW-ADMM and COCA, N = "
            f"{agents}, η = {links:g}",
            f"{to}: {units(found, (PLAIN, W, IPW, COCA))}",
            median(found, PLAIN) < min(median(found, name) for name in (W, IPW, COCA)),
        )
        for letter, found, (agents, links) in zip("abc", runs, settings, strict=True)
    ]  # fmt: skip
    first, (dense, large) = runs[0], runs[1:]
    one = {name: ms[:1] for name, ms in first.items()}  # the run that the other networks have as well
    ratio = median(first, PLAIN) / median(first, W)
    last = {name: float(np.median([m.error[-1] for m in ms])) for name, ms in first.items()}
    decade = {name: float(np.median([m.units_a_decade() for m in first[name]])) for name in (PLAIN, PI1, W)}
    (small, sparse), (_, denser), (many, _) = settings
    claims += [
        Claim(
            f"{where}(a)", "tacit", "I-ADMM needs about half of what W-ADMM needs (0.35 to 0.65 of it)",
            f"{ratio:.3f}: {units(first, (PLAIN, W))}", 0.35 <= ratio <= 0.65,
        ),
        Claim(
            f"{where}(a)", "paper", "in the end PI-ADMM1 converges as fast as I-ADMM (within a tenth), and faster than "
            "W-ADMM",
            "units for each factor of ten of the error, in the second half of the run: "
            + ", ".join(f"{name} {_units(value)}" for name, value in decade.items()),
            abs(decade[PI1] / decade[PLAIN] - 1) <= 0.1 and decade[PI1] < decade[W],
        ),
        Claim(
            f"{where}(a)", "paper", "PI-ADMM2 stays at an error that σ determines (σ/2 to 5σ), I-ADMM does not",
            f"{ERROR} at the end, σ = {SIGMA:g}: PI-ADMM2 {last[PI2]:.2e}, I-ADMM {last[PLAIN]:.2e}",
            SIGMA / 2 <= last[PI2] <= 5 * SIGMA and last[PLAIN] < SIGMA / 2,
        ),
        Claim(
            f"{where}(a), (b)", "paper", "I-ADMM, PI-ADMM1 and PI-ADMM2 do not depend on η (within a tenth)",
            f"{to}, η = {sparse:g}: {units(one, (PLAIN, PI1, PI2))}; η = {denser:g}: {units(dense, (PLAIN, PI1, PI2))}",
            all(abs(median(dense, name) / median(one, name) - 1) <= 0.1 for name in (PLAIN, PI1, PI2)),
        ),
        Claim(
            f"{where}(a), (c)", "paper", "convergence is slower in a larger network",
            f"{to}, N = {small}: {units(one, (PLAIN, PI1, W))}; N = {many}: {units(large, (PLAIN, PI1, W))}",
            all(median(large, name) > median(one, name) for name in (PLAIN, PI1, W)),
        ),
        Claim(
            "(21)", "tacit", "accuracy (21) divides by the own start, so that who starts far away looks better: by it "
            f"PI-ADMM1 is at {TARGET:g} before I-ADMM, by the error itself after it",
            f"units by (21): {units(first, (PI1, PLAIN))}; by the error: {units(first, (PI1, PLAIN), absolute=True)}",
            median(first, PI1) < median(first, PLAIN)
            and median(first, PI1, absolute=True) > median(first, PLAIN, absolute=True),
        ),
    ]  # fmt: skip
    return claims


def attempts(case: Case, algorithm: IncrementalADMM, overheard: Overheard) -> dict[str, States]:
    """What each attack makes of a transcript."""
    heard = overheard.heard
    found = {PRINTED: least_squares(heard)}
    try:
        found[SOLVED] = least_squares(heard, iterations=None)
    except InputError as error:
        warnings.warn(f"left out: {SOLVED}: {error}", stacklevel=2)
    found[STRONG] = recursion(heard)
    if case.name == "ridge" and case.exact and algorithm.gamma is not None:
        found[FIT] = quadratics(heard, 1 - SPREAD, 1 + SPREAD).states
    return found


Stage = tuple[Overheard, dict[str, States]]  # a run that was listened to, and what the attacks made of it


def panels(title: str, stages: list[Stage], agent: int = 0) -> list[Panel]:
    """The first coordinate of x_i and of y_i at each visit of the first run, true and as estimated; and the error of
    all y in all runs."""
    (heard, truth, _), found = stages[0]
    k = heard.visits(agent)
    out = []
    near = {label: states for label, states in found.items() if label != SOLVED}  # which would fill the picture
    for place, name in enumerate("xy"):
        series = [Series.of(TRUTH, k + 1, truth[place][k, 0], "k-")]
        series += [Series.of(label, k + 1, states[place][k, 0], "--") for label, states in near.items()]
        out.append(Panel(f"{title}: {name} of agent {agent + 1}", TICK, f"{name}_{agent + 1}(1)", series))
    series = []
    for label in found:
        errors = np.array([_mean(o.heard, attempt[label].errors(o.truth).y) for o, attempt in stages])
        ticks = heard.agents * np.arange(1, errors.shape[1] + 1)
        series.append(Series.of(label, ticks, np.maximum(errors, 1e-16)))
    out.append(Panel(f"{title}: error of y", TICK, "mean over agents", series, log_y=True))
    return out


def _mean(heard: Transcript, errors: np.ndarray) -> np.ndarray:
    """(visits,): the mean over agents at each visit that all have had."""
    each = heard.by_visit(errors)
    return each[~np.isnan(each).any(axis=1)].mean(axis=1)


def eavesdropping(lab: Lab, case: Case, where: str) -> Exhibit:
    """Fig. 4 and 6: estimates and truth, for I-ADMM, PI-ADMM1 and PI-ADMM2."""
    agents = _agents(lab, 100)
    variants: dict[str, Callable[[Case], IncrementalADMM]] = {
        PLAIN: i_admm, PI1: pi_admm1, PI2: pi_admm2, "offset": offset, "both": pi_admm1_offset,
    }  # fmt: skip
    stages: dict[str, list[Stage]] = {name: [] for name in variants}
    for seed in range(_seeds(lab)):
        problem, talk = case.problem(agents, seed), graph(agents, LINKS, seed)
        for name, make in variants.items():
            lab.tell(f"listening to {name}, run {seed + 1} of {_seeds(lab)}")
            algorithm = make(case)
            overheard = listen_in(algorithm, problem, talk, CYCLES * agents + 1, SeededNoise(seed))
            stages[name].append((overheard, attempts(case, algorithm, overheard)))
    shown = [panels(name, stages[name]) for name in (PLAIN, PI1, PI2)]
    claims = _privacy_claims(case, stages, where)
    return Exhibit(
        f"Decentralised {case.name} regression: what an eavesdropper has",
        [three[row] for row in range(3) for three in shown],
        claims,
    )


def _privacy_claims(case: Case, stages: dict[str, list[Stage]], where: str) -> list[Claim]:
    def errors(name: str, attack: str, of: str = "y") -> np.ndarray:
        """(runs, visits): the mean over agents at each visit that all had."""
        out = []
        for overheard, found in stages[name]:
            truth = overheard.truth if of != "gradient" else States(overheard.truth.x, overheard.gradient)
            off = found[attack].errors(truth)
            out.append(_mean(overheard.heard, off.x if of == "x" else off.y))
        return np.array(out)

    def ends(name: str, attack: str, of: str = "y") -> str:
        e = np.median(errors(name, attack, of), axis=0)
        return f"{e[0]:.3g} -> {e[-1]:.3g}"

    def last(name: str, attack: str, of: str = "y") -> float:
        return float(np.median(errors(name, attack, of)[:, -1]))

    size = {
        n: np.median([np.linalg.norm(o.truth.y[-o.heard.agents :], axis=1).mean() for o, _ in stages[n]])
        for n in stages
    }
    worst = max(max(e.max() for e in found[STRONG].errors(o.truth)) for o, found in stages[PLAIN])
    claims = [
        Claim(
            f"{where}(a), (b)", "paper", "the eavesdropper has x and y of I-ADMM exactly, by (11) (to 1e-9)",
            f"largest error of all agents and ticks: {worst:.2g}", bool(worst <= 1e-9),
        ),
    ]  # fmt: skip
    for name, letter in ((PI1, "(d)"), (PI2, "(f)")):
        printed, strong = last(name, PRINTED), last(name, STRONG)
        claims += [
            Claim(
                f"{where}{letter}", "paper", f"the attack as printed learns no y of {name}: it stays as far off as a "
                "guess of zero (half of that at least)",
                f"mean error of y, first to last visit: {ends(name, PRINTED)}; solved {ends(name, SOLVED)}; ||y|| = "
                f"{size[name]:.3g}",
                printed >= size[name] / 2,
            ),
            Claim(
                f"{where}{letter}", "paper", f"y of {name} cannot be learnt by an eavesdropper (not to a tenth of its "
                "size)",
                f"mean error of y by the recursion: {ends(name, STRONG)}; ||y|| = {size[name]:.3g}",
                strong > size[name] / 10,
            ),
        ]  # fmt: skip
    claims.append(
        Claim(
            f"{where}(f)", "tacit", "all that PI-ADMM2 hides of the gradient in the end is its noise (mean error "
            "within a tenth of ρσ√(π/2))",
            f"mean error of the gradient: {ends(PI2, STRONG, 'gradient')}; ρσ√(π/2) = "
            f"{case.penalty * SIGMA * math.sqrt(math.pi / 2):.3g}",
            abs(last(PI2, STRONG, "gradient") / (case.penalty * SIGMA * math.sqrt(math.pi / 2)) - 1) <= 0.1,
        )
    )  # fmt: skip
    if case.exact:
        claims += _quadratic_claims(stages[PI1], case)
    claims += [
        Claim(
            where, "tacit", "a secret zero-sum offset hides y behind ρ S_i^0, for good, and x not at all",
            f"I-ADMM with it: error of y {ends('offset', STRONG)}, of x {ends('offset', STRONG, 'x')}; ||y|| = "
            f"{size['offset']:.3g}",
            last("offset", STRONG) > 10 * size["offset"] and last("offset", STRONG, "x") < 1e-9,
        ),
        _collusion(stages["both"]),
        _price(case),
    ]  # fmt: skip
    return claims


def _quadratic_claims(stages: list[Stage], case: Case) -> list[Claim]:
    worst, curvature = 0.0, 0.0
    for seed, (overheard, found) in enumerate(stages):
        worst = max(worst, *(float(e.max()) for e in found[FIT].errors(overheard.truth)))
        H = quadratics(overheard.heard, 1 - SPREAD, 1 + SPREAD).curvature
        problem = case.problem(overheard.heard.agents, seed)
        curvature = max(curvature, float(np.abs(H - problem.scale[:, None, None] * problem.second_moment()).max()))
    return [
        Claim(
            "Theorem 2", "paper", "x and y of PI-ADMM1 cannot be inferred exactly (to 1e-6)",
            f"largest error of x and y, all agents, all visits, by the quadratic fit: {worst:.2g}", worst > 1e-6,
        ),
        Claim(
            "Corollary 1", "paper", "the local functions of PI-ADMM1 cannot be inferred (their Hessians, to 1e-6)",
            f"largest error of an entry of the {stages[0][0].heard.agents} Hessians: {curvature:.2g}", curvature > 1e-6,
        ),
    ]  # fmt: skip


def _collusion(stages: list[Stage]) -> Claim:
    off, size = [], []
    for overheard, found in stages:
        heard = overheard.heard
        ends = [heard.visits(i)[-1] for i in range(heard.agents)]
        x, y, guess = overheard.truth.x[ends], overheard.truth.y[ends], found[STRONG].x[ends]
        learnt = [colluders(x, y, heard.tokens[-1], heard.penalty, i, guess[i]) for i in range(heard.agents)]
        off.append(np.linalg.norm(learnt - y, axis=1).mean())
        size.append(np.linalg.norm(y, axis=1).mean())
    return Claim(
        "Theorem 3", "paper", "N-1 colluding agents cannot infer y of the last one (not to a tenth of its size)",
        f"PI-ADMM1, and a secret offset on top, at the last visit: mean error {np.median(off):.3g}, ||y|| = "
        f"{np.median(size):.3g}",
        bool(np.median(off) > np.median(size) / 10),
    )  # fmt: skip


def _price(case: Case) -> Claim:
    """What sigma = 1e-3 costs in terms of differential privacy, if rows have norm 1 at most."""
    text = f"PI-ADMM2 at σ = {SIGMA:g} is privacy in name only: ε above 1,000 for the {CYCLES} visits (δ = {DELTA:g})"
    if case.name == "ridge":
        return Claim("Algorithm 4", "tacit", text, "ε is infinite: the slope of the squared loss has no bound", True)
    facts = Facts(sizes=[ROWS] * 3, dimension=2)  # a visit costs the same in a network of any size
    algorithm = replace(i_admm(case), deviation=SIGMA)
    epsilon = plan(algorithm, facts, Graph.ring(3), 3 * CYCLES).epsilon(DELTA)
    return Claim("Algorithm 4", "tacit", text, f"ε = {epsilon:,.0f} with rows of norm at most 1", epsilon > 1000)


def fig3(lab: Lab) -> Exhibit:
    """Accuracy against communication, ridge."""
    return comparison(lab, RIDGE, "Fig. 3")


def fig4(lab: Lab) -> Exhibit:
    """The eavesdropper, ridge."""
    return eavesdropping(lab, RIDGE, "Fig. 4")


def fig5(lab: Lab) -> Exhibit:
    """Accuracy against communication, logistic loss."""
    return comparison(lab, LOGISTIC, "Fig. 5")


def fig6(lab: Lab) -> Exhibit:
    """The eavesdropper, logistic loss."""
    return eavesdropping(lab, LOGISTIC, "Fig. 6")


FIGURES: Figures = {"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6}


def _agents(lab: Lab, agents: int) -> int:
    """The paper's number, or a smaller one in a smaller experiment."""
    return agents * lab.size.rounds // 100 if lab.size.quick else agents


def _seeds(lab: Lab) -> int:
    return min(3, lab.size.runs)


def _held(m: Measured, name: str, grid: np.ndarray) -> np.ndarray:
    """The values on a grid of communication: what was measured last."""
    values: np.ndarray = getattr(m, name)
    return values[np.searchsorted(m.units, grid, side="right") - 1]


def _units(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "never"
