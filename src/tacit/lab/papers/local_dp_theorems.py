"""Xiao, Ye, Devadas, "Local Differential Privacy in Decentralized Optimization" (2019): its theorems, measured.

The rows are those of Appendix E (`local_dp_runs`). (43) and (48) have no solution there, so Theorems 3.1 to 3.3 are
measured on three agents, with penalties that meet them. The others are measured on a complete graph, as they are
stated.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tacit.algorithms import RandomAggregationGD, RandomCoordinateDescent, SharingADMM
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Squared
from tacit.core.problem import Problem
from tacit.exchange.collusion import revealed
from tacit.lab.papers.experiment import Claim, Lab, Panel, PaperFigure, Series, listed
from tacit.lab.papers.local_dp_runs import parts, rows
from tacit.lab.theory import descent
from tacit.lab.theory.random_penalties import LinearRate, edges, linear_rate, noise_floor
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.privacy.sensitivity import gradient_sensitivity, layer_sensitivity
from tacit.simulation.simulate import simulate

ROUNDS, ITERATIONS = 100, "iteration k"
DISTANCE, EXCESS = "‖u - u*‖²_G, over the first", "Σ f_i(x) - Σ f_i(x*)"
TRIANGLE, AGENTS = Graph.complete(3), 10
D, ZETA, RHO = 3.0, 0.02, (0.05, 0.06)  # they meet (48), and so (43), for m = 1 and L = 1.25
triangle_rate = partial(linear_rate, edges(TRIANGLE), m=1.0, L=1.25, D=D, zeta=ZETA, rho=RHO)
RATE = 30.0  # of the noise in Theorem 3.3
C, STEP_RATE = 1.0, 4.0  # Theorem 3.4: eta_k = 1/(C sqrt(k)), noise of the rate STEP_RATE/eta_k
DEVIATION = 0.05  # of the noise in Theorems 4.1 and 4.2, and (74)
SLOPE, ENTRY, CURVATURE = "by the slope, (67)", "by the largest entry, (71)", "by the curvature"
PADDING = 400  # columns of zeros


class Bounded(NamedTuple):
    """What was measured in each run, (runs, rounds+1), and what bounds its mean, (rounds+1,)."""

    measured: np.ndarray
    bounds: dict[str, np.ndarray]

    def panel(self, title: str, y: str) -> Panel:
        """The bound and what was measured, without the start."""
        series = [Series.over_rounds("measured", self.measured)]
        series += [Series.over_rounds(name, bound, "--") for name, bound in self.bounds.items()]
        return Panel(title, ITERATIONS, y, series, log_y=True)

    def within(self, name: str) -> bool | None:
        """Whether the mean over the second half of the rounds is below that of the bound, by three standard errors;
        None if it is nearer than that, and of a single run or of no numbers. The theorems bound the mean over the
        noise, not every run."""
        room = self._room(name)
        if len(room) < 2 or not np.all(np.isfinite(room)):
            return None
        error = room.std(ddof=1) / math.sqrt(len(room))
        return None if abs(room.mean()) <= 3 * error else bool(room.mean() > 0)

    def _room(self, name: str) -> np.ndarray:
        """(runs,) the mean over the second half of the rounds."""
        half = self.measured.shape[1] // 2
        return np.asarray((self.bounds[name] - self.measured)[:, half:].mean(axis=1))

    def last(self, name: str) -> str:
        """Both at the end, and how many runs keep the bound."""
        rounds = self.measured.shape[1] - 1
        below = f", kept by {(self._room(name) > 0).sum()} of {len(self.measured)} runs"
        return f"{self.measured[:, -1].mean():.3g} after {rounds} rounds, bound {self.bounds[name][-1]:.3g}{below}"


def theorems(lab: Lab) -> PaperFigure:
    """Each theorem's bound beside what was measured."""
    seeds = range(lab.size.runs)
    rounds = min(ROUNDS, lab.size.rounds)
    linear, rate, ratios = _linear(rounds)
    noisy = _noisy(rounds, seeds)
    aggregated = _aggregated(rounds, seeds)
    descended = {padding: _descended(rounds, seeds, padding) for padding in (0, PADDING)}
    coordinate = _coordinate(rounds, seeds)
    panels = [
        linear.panel("Theorems 3.1 and 3.2", DISTANCE),
        noisy.panel("Theorem 3.3", DISTANCE),
        aggregated.panel("Theorem 3.4", EXCESS),
        descended[0].panel("Theorems 4.1 and 4.2", EXCESS),
        coordinate.panel("(74), coordinate descent", EXCESS),
    ]
    paper, tacit = (partial(Claim, whose=whose) for whose in ("paper", "tacit"))
    end = {padding: b.measured[:, -1] for padding, b in descended.items()}  # of each seed
    claims = [
        *_secret_sharing(),
        paper(
            where="Theorem 3.1",
            text="where (43) holds, the distance falls by a factor of 1 + p or more in every round, p by (42)",
            measured=f"by {ratios[True]:.4g} at least; 1 + p = {1 + rate[True, True].p:.4g} as printed, "
            f"{1 + rate[True, False].p:.4g} corrected; {rounds} rounds of 3 agents",
            outcome=ratios[True] >= 1 + rate[True, True].p,
        ),
        paper(
            where="Theorem 3.2",
            text="the same for the first-order step, with (48) and (47)",
            measured=f"by {ratios[False]:.4g} at least; 1 + p = {1 + rate[False, False].p:.4g} corrected; (48) as "
            f"printed is {'met' if rate[False, True].holds else 'not met'} here",
            outcome=ratios[False] >= 1 + rate[False, False].p,
        ),
        _printed_penalties(),
        _experiments(),
        paper(
            where="Theorem 3.3",
            text="with noise the mean distance stays below a^k of the first and the residual R^k",
            measured=f"{noisy.last('bound')}, both over the first",
            outcome=noisy.within("bound"),
        ),
        paper(
            where="Theorem 3.4",
            text="the bound on the mean of Σ f_i at the average of the iterates",
            measured=f"{aggregated.last('as printed')}; with the halves kept {aggregated.bounds['corrected'][-1]:.3g}",
            outcome=aggregated.within("corrected"),
        ),
        _flat(),
        *(
            tacit(
                where=f"Theorem {theorem}",
                text=f"with l2 = 1 in place of a strongly convex φ the bound {name} holds for the mean of Σ f_i",
                measured=descended[0].last(name),
                outcome=descended[0].within(name),
            )
            for theorem, name in (("4.1", SLOPE), ("4.2", ENTRY))
        ),
        tacit(
            where="Theorem 4.1",
            text="the bound by the curvature of φ, which is of second order in the noise, holds and is lower",
            measured=f"{descended[0].last(CURVATURE)}; by the slope {descended[0].bounds[SLOPE][-1]:.3g}",
            outcome=descended[0].within(CURVATURE)
            if descended[0].bounds[CURVATURE][-1] < descended[0].bounds[SLOPE][-1]
            else False,
        ),
        paper(
            where="Theorem 4.1",
            text="what the noise leaves does not depend on d, also with the regulariser of the experiments (at most a "
            "half more)",
            measured=f"{end[0].mean():.3g} for 14 columns, {end[PADDING].mean():.3g} with {PADDING} columns of zeros, "
            "the same noise on each coordinate",
            outcome=end[PADDING] <= 1.5 * end[0],
        ),
        paper(
            where="(74)",
            text="random coordinate descent: the bound on the mean of f, with the noise's term corrected",
            measured=coordinate.last("corrected"),
            outcome=coordinate.within("corrected"),
        ),
    ]
    return PaperFigure("The theorems: what was measured, and the bounds", panels, claims)


def _problem(agents: int, seed: int, l2: float, padding: int = 0) -> Problem:
    return Problem(parts(agents, seed, padding), l2=l2, tolerance=1e-12)


def _start(problem: Problem) -> np.ndarray:
    """Every agent has a start of its own, of norm 1."""
    x = np.random.default_rng(0).normal(size=(problem.agents, problem.dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _distances(problem: Problem, rounds: int, seed: int, exact: bool, beta: float | None) -> np.ndarray:
    """||u^k - u*||_G^2 on the triangle, (rounds+1,), over its first."""
    method = SharingADMM.consensus(TRIANGLE, problem.dimension, D, ZETA, exact=exact, beta=beta)
    method = replace(method, rho=RHO)
    noise = SeededNoise(seed)
    run = simulate(method, problem, TRIANGLE, rounds=rounds + 1, start=_start(problem), noise=noise, record=True)
    assert run.trajectory is not None
    x, best = run.trajectory[1:], problem.optimum()  # the first round says A_i x_i^0
    dual = -ZETA * np.cumsum(np.einsum("nmd,knd->km", method.A, x), axis=0)
    dual -= dual[0]
    star = np.linalg.pinv(np.concatenate(list(method.A), axis=1).T) @ problem.gradient(best).ravel()
    away: np.ndarray = D * ((x - best) ** 2).sum(axis=(1, 2))
    away = away + ((dual - star) ** 2).sum(axis=1) / ZETA
    return away


def _linear(rounds: int) -> tuple[Bounded, dict[tuple[bool, bool], LinearRate], dict[bool, float]]:
    """The run of (13) beside its bound; p by whether the step is exact and the formula as printed; the least factor."""
    problem = _problem(3, 0, 1.0)
    rate = {
        (exact, printed): triangle_rate(exact=exact, as_printed=printed)
        for exact in (True, False)
        for printed in (True, False)
    }
    runs = {exact: _distances(problem, rounds, 0, exact, None) for exact in (True, False)}
    ratios = {exact: float((away[:-1] / away[1:]).min()) for exact, away in runs.items()}
    shrinking = (1 + rate[False, False].p) ** -np.arange(rounds + 1.0)
    return Bounded((runs[False] / runs[False][0])[None], {"(1 + p)^-k, (47)": shrinking}), rate, ratios


def _noisy(rounds: int, seeds: range) -> Bounded:
    problem = _problem(3, 0, 1.0)
    runs = np.array([_distances(problem, rounds, seed, False, RATE) for seed in seeds])
    floor = noise_floor(triangle_rate(noisy=True))
    variance = 2 * problem.dimension / RATE**2
    bound = np.array([floor.bound(runs[0, 0], variance, k) for k in range(rounds + 1)])
    return Bounded(runs / runs[0, 0], {"bound": bound / runs[0, 0]})


def _excess(problem: Problem, models: np.ndarray) -> np.ndarray:
    least = problem.value(problem.optimum()).sum()
    return np.array([problem.value(model).sum() for model in models]) - least


def _aggregated(rounds: int, seeds: range) -> Bounded:
    """Theorem 3.4: no regulariser, so that ||grad f_i|| <= 1."""
    graph, runs, bounds = Graph.complete(AGENTS), [], []
    steps = 1 / (C * np.sqrt(np.arange(1, rounds + 1)))[:, None] * np.ones(AGENTS)
    method = RandomAggregationGD(step=steps, beta=STEP_RATE / steps)
    k = np.arange(1, rounds + 1)
    for seed in seeds:
        problem = _problem(AGENTS, seed, 0.0)
        start = _start(problem)
        run = simulate(method, problem, graph, rounds=rounds, start=start, noise=SeededNoise(seed), record=True)
        assert run.trajectory is not None
        means = np.cumsum(run.trajectory[:-1].mean(axis=1), axis=0) / k[:, None]
        found = _excess(problem, means)
        runs.append(np.concatenate([found[:1], found]))
        S = float(((start - problem.optimum()) ** 2).sum())
        noise = math.sqrt(2 * problem.dimension) / STEP_RATE
        bounds.append(
            [
                [
                    descent.random_aggregation(
                        start=S, agents=AGENTS, gradient=1.0, noise=noise, rounds=K, c=C, as_printed=printed
                    )
                    for K in (1, *k)
                ]
                for printed in (True, False)
            ]
        )
    printed, corrected = np.mean(bounds, axis=0)
    return Bounded(np.array(runs), {"as printed": printed, "corrected": corrected})


def _descended(rounds: int, seeds: range, padding: int) -> Bounded:
    """Theorems 4.1 and 4.2: from the mean of all models, with the step 1/M, l2 = 1."""
    runs, l1 = [], float(np.abs(rows()[0]).sum(axis=1).max())
    M = 1.25
    for seed in seeds:
        problem = _problem(AGENTS, seed, 1.0, padding)
        multiplier = DEVIATION * M / float(gradient_sensitivity(problem, 1.0).max())
        method = RandomAggregationGD(step=1 / M, weight=(0.5, 0.5), budget=Gaussian(multiplier))
        runs.append(_means(method, problem, rounds, seed))
    measured = np.array(runs)
    d = problem.dimension
    errors = {
        SLOPE: descent.error_by_slope(agents=AGENTS, slope=1.0, row_norm=1.0, deviation=DEVIATION, l2=1.0, d=d),
        ENTRY: descent.error_by_largest_entry(agents=AGENTS, gradient_l1=l1, deviation=DEVIATION, l2=1.0, d=d),
        CURVATURE: descent.error_by_curvature(curvature=0.25, row_norm=1.0, deviation=DEVIATION, l2=1.0, d=d),
    }
    gap = float(measured[:, 0].mean())
    return Bounded(
        measured,
        {
            name: np.array(
                [gap, *(descent.contraction(gap=gap, m=1.0, M=M, rounds=k, error=e) for k in range(1, rounds + 1))]
            )
            for name, e in errors.items()
        },
    )


def _coordinate(rounds: int, seeds: range) -> Bounded:
    """(74), from 0, for the mean of the f_i, times N."""
    runs, M = [], 1.25
    for seed in seeds:
        problem = _problem(AGENTS, seed, 1.0)
        multiplier = DEVIATION * M / float(layer_sensitivity(problem, 1.0).max())
        runs.append(_means(RandomCoordinateDescent(seed=seed, budget=Gaussian(multiplier)), problem, rounds, seed))
    measured = np.array(runs)
    gap, deviation = float(measured[:, 0].mean()) / AGENTS, DEVIATION / math.sqrt(AGENTS)
    bound = [
        descent.coordinate_descent(gap=gap, m=1.0, M=M, d=problem.dimension, rounds=k, deviation=deviation)
        for k in range(1, rounds + 1)
    ]
    return Bounded(measured, {"corrected": AGENTS * np.array([gap, *bound])})


def _means(method: Algorithm, problem: Problem, rounds: int, seed: int) -> np.ndarray:
    """What the mean model lacks of the optimum after each round, (rounds+1,)."""
    graph = Graph.complete(problem.agents)
    run = simulate(method, problem, graph, rounds=rounds, noise=SeededNoise(seed), record=True)
    assert run.trajectory is not None
    return _excess(problem, run.trajectory.mean(axis=1))


def _secret_sharing() -> list[Claim]:
    complete, ring = Graph.complete(6), Graph.ring(6)
    found = [revealed(complete, pair) for pair in itertools.combinations(range(6), 4)]
    return [
        Claim(
            "Theorem 2.1",
            "paper",
            "with secret shares N-2 colluding agents learn no value of another agent, if all hear all",
            f"6 agents, {len(found)} coalitions of 4: {sum(map(bool, found))} of them compute another's value; each "
            "has the sum of the two others, in every round",
            not any(found),
        ),
        Claim(
            "Theorem 2.1",
            "tacit",
            "where agents hear only their neighbours, fewer colluders than N-2 can be enough",
            f"ring of 6: agents 0, 2 and 4 compute the values of {listed(revealed(ring, [0, 2, 4]))}",
            bool(revealed(ring, [0, 2, 4])),
        ),
    ]


def _printed_penalties() -> Claim:
    """A problem in small units: (48) as printed allows a D_i below half of the curvature."""
    m, L, small, zeta, rho = 1e-3, 3e-3, 1.2e-3, 1e-5, 1e-4
    pair = Graph.path(2)
    problem = Problem([(math.sqrt(L - m) * np.ones((1, 1)), np.ones(1))] * 2, loss=Squared(), l2=m)
    x, dual = np.ones((2, 1)), np.zeros((2, 1))
    for _ in range(100):  # (13) on two agents; the method itself would warn
        gap = x[::-1] - x
        x = x + (dual + rho * gap - problem.gradient(x)) / small
        dual = dual + zeta * (x[::-1] - x)
    far = float(np.abs(x - problem.optimum()).max())
    allowed = linear_rate(edges(pair), m=m, L=L, D=small, zeta=zeta, rho=(rho, rho), as_printed=True).holds
    return Claim(
        "Theorem 3.2",
        "paper",
        "where (48) holds as printed, with M_i in place of its root, the method converges",
        f"m = {m:g}, L = {L:g}, D = {small:g}: (48) is {'met' if allowed else 'not met'}, and after 100 rounds the "
        f"error is {far:.2g}",
        not (allowed and far > 1),
    )


def _experiments() -> Claim:
    found = []
    for agents, links in ((10, 20), (100, 200)):
        graph = Graph.random(agents, links, 0)
        high = 10.0 / graph.degree
        found.append(linear_rate(edges(graph), m=1.0, L=1.25, D=10.0, zeta=0.5, rho=(np.zeros(agents), high)))
    return Claim(
        "(48)",
        "paper",
        "the penalties of the experiments, D = 10 and ζ = 0.5, are admissible",
        "α would have to be "
        + "; ".join(f"above {f.alpha_above:.3g} and below {f.alpha_below:.2g}" for f in found)
        + " (10 and 100 agents)",
        all(f.holds for f in found),
    )


def _flat() -> Claim:
    problem = Problem([(np.eye(3)[:2], np.zeros(2))], loss=Squared())
    away = np.array([0.0, 0.0, 5.0])
    change = float((problem.value(away) - problem.value(np.zeros(3)))[0])
    slope = Squared().max_slope
    return Claim(
        "Theorem 4.1",
        "paper",
        "a strongly convex φ that is Lipschitz makes f_i strongly convex",
        f"φ(t) = t²/2, two rows in three dimensions: f_i changes by {change:g} over a length of 5; the largest slope "
        f"of φ is {slope:g}",
        change > 0 and math.isfinite(slope),
    )
