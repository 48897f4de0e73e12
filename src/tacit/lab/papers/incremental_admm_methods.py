"""Ye, Chen, Xiao, Skoglund, Poor, "Privacy-preserving Incremental ADMM", V: problems, methods, one run, its attacks.

Ridge regression (22) and logistic regression (24), as the paper draws them: d = 2, 30 rows an agent, N = 100 or 200
agents, N(N-1)/2 eta links among which there is a cycle through all. Methods and constants are those of the captions.
(22) is 1/b sum (x.o - t)^2, so `Squared`, which has a half in it, is scaled by 2.

The text does not give these, so we chose them: the neighbours that IPW-ADMM chooses from (2); v of the random starts is
uniform on (0, 100)^2 for ridge and on (0, 10)^2 for the logistic loss, for PI-ADMM2 as well as for PI-ADMM1. Random
starts have the sign that makes them converge (docs/errata.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacit.algorithms import Between, CensoredADMM, IncrementalADMM, ParallelWalkADMM, WalkADMM
from tacit.core.algorithm import Algorithm
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import Logistic, Squared
from tacit.core.problem import Problem
from tacit.core.schedule import RandomWalk
from tacit.errors import InputError
from tacit.lab.attacks import (
    Overheard,
    States,
    Transcript,
    around,
    averaged,
    least_squares,
    quadratics,
    recursion,
    secret_offset,
)
from tacit.lab.papers.experiment import Lab
from tacit.privacy.laws import Normal, output_law_within
from tacit.privacy.noise import SeededNoise
from tacit.privacy.sensitivity import gradient_sensitivity, minimiser_sensitivity
from tacit.simulation.simulate import simulate

ROWS, SIGMA, SPREAD, LINKS = 30, 1e-3, 0.1, 0.3  # gamma is between 1 - SPREAD and 1 + SPREAD
CYCLES = 20  # that the eavesdropper hears, and one tick more: 2,001 ticks of 100 agents
W, IPW, COCA, PLAIN, PI1, PI2 = "W-ADMM", "IPW-ADMM", "COCA", "I-ADMM", "PI-ADMM1", "PI-ADMM2"
PRINTED, SOLVED, STRONG = "as printed", "printed, solved", "recursion, γ = 1"
FIT, AVERAGED = "quadratic fit", "over all visits"


def sized(lab: Lab, agents: int) -> int:
    """The paper's number of agents, or a smaller one in a smaller experiment."""
    return agents * lab.size.rounds // 100 if lab.size.quick else agents


def attack_seeds(lab: Lab) -> range:
    """The seeds of the attacks."""
    return range(min(3, lab.size.runs))


class Regression(NamedTuple):
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


RIDGE = Regression("ridge", penalty=10.0, exact=True, initial=100.0, proximal=0.0, cycles=300)
LOGISTIC = Regression("logistic", penalty=1.0, exact=False, initial=10.0, proximal=3.0, cycles=100)
REGRESSIONS = {regression.name: regression for regression in (RIDGE, LOGISTIC)}


def i_admm(regression: Regression) -> IncrementalADMM:
    """Algorithm 1, from a public start."""
    return IncrementalADMM(penalty=regression.penalty, exact=regression.exact)


def random_start(regression: Regression) -> IncrementalADMM:
    """I-ADMM with random starts: Algorithm 2."""
    return replace(i_admm(regression), initial=regression.initial)


def pi_admm1(regression: Regression) -> IncrementalADMM:
    """I-ADMM with random starts and step sizes: Algorithm 3."""
    return replace(random_start(regression), gamma=Between(1 - SPREAD, 1 + SPREAD))


def pi_admm2(regression: Regression) -> IncrementalADMM:
    """Algorithm 4. The rows have no bound on their norm, so the noise is no differential privacy."""
    return replace(random_start(regression), deviation=SIGMA, row_norm=math.inf)


def offset(regression: Regression) -> IncrementalADMM:
    """Beyond the paper: I-ADMM with a secret zero-sum offset."""
    return replace(i_admm(regression), offset=regression.initial / 10)


def pi_admm1_offset(regression: Regression) -> IncrementalADMM:
    """PI-ADMM1 with a secret offset, beyond the paper."""
    return replace(pi_admm1(regression), offset=regression.initial / 10)


def graph(agents: int, links: float, seed: int) -> Graph:
    """A share `links` of all possible links, with a cycle through all agents among them."""
    return Graph.random_with_cycle(agents, max(agents, round(agents * (agents - 1) / 2 * links)), seed)


class Convergence(NamedTuple):
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


def methods(regression: Regression, seed: int) -> dict[str, Algorithm]:
    """The methods that the captions name."""
    return {
        W: WalkADMM(penalty=regression.penalty, exact=regression.exact, order=RandomWalk(seed)),
        IPW: ParallelWalkADMM(
            tokens=25,
            penalty=1.0,
            proximal=regression.proximal,
            exact=regression.exact,
            walk=RandomWalk(seed, choice=2),
        ),
        COCA: CensoredADMM(penalty=1.0, alpha=1.0, ratio=0.85, exact=regression.exact),
        PLAIN: i_admm(regression),
        PI1: pi_admm1(regression),
        PI2: pi_admm2(regression),
    }


def measured(algorithm: Algorithm, problem: Problem, talk: Graph, limit: int, seed: int) -> Convergence:
    """The method until it has used up its communication, measured after every cycle of the token, or every round.

    algorithm, problem, talk : what to run, and the graph
    limit : the most units of communication
    seed : of the noise
    """
    noise = SeededNoise(seed)
    # x_i^0 is drawn in a tick of its own.
    prepared = int(isinstance(algorithm, IncrementalADMM) and algorithm.initial > 0)
    rounds, every = prepared + limit, talk.agents
    if isinstance(algorithm, CensoredADMM):
        # Many of them without a message: at first the threshold lets none pass.
        rounds, every = 100 + 10 * math.ceil(limit / len(talk.indices)), 1
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
    return Convergence(units[seen], (distance / distance[0]).mean(axis=1)[seen], distance.mean(axis=1)[seen])


def estimates(regression: Regression, algorithm: IncrementalADMM, overheard: Overheard) -> dict[str, States]:
    """The states that each attack infers from a transcript. The strongest that is known is always among them."""
    heard = overheard.heard
    found = {PRINTED: least_squares(heard)}
    try:
        found[SOLVED] = least_squares(heard, iterations=None)
    except InputError as error:
        warnings.warn(f"left out: {SOLVED}: {error}", stacklevel=2)
    return found | strongest(regression, algorithm, heard)


def strongest(
    regression: Regression, algorithm: IncrementalADMM, heard: Transcript, agents: Sequence[int] | None = None
) -> dict[str, States]:
    """The attacks that look at one agent at a time: at all of them, or at these."""
    found = {STRONG: recursion(heard)}
    quadratic = regression.name == "ridge" and regression.exact
    noise = noise_on_gradients(regression, algorithm)
    if noise is not None:
        found[AVERAGED] = averaged(heard, noise, exact=regression.exact, quadratic=quadratic, agents=agents)
    elif quadratic and (algorithm.gamma is not None or algorithm.initial > 0):
        spread = SPREAD if algorithm.gamma is not None else 0.0
        found[FIT] = quadratics(heard, 1 - spread, 1 + spread, agents).states
    return found


def noise_on_gradients(regression: Regression, algorithm: IncrementalADMM) -> float | None:
    """rho times the deviation of the noise on x_i, which is public; None without noise."""
    if algorithm.budget is None:
        return None if algorithm.deviation is None else algorithm.penalty * algorithm.deviation
    facts = Facts(sizes=[ROWS], dimension=2)
    rho = np.full((1, 1), algorithm.penalty)
    moved = gradient_sensitivity(facts, algorithm.row_norm) / rho
    if algorithm.exact:
        moved = minimiser_sensitivity(facts, rho, rho / 2, algorithm.row_norm)
    law = output_law_within(algorithm.budget, moved)
    assert isinstance(law, Normal)
    return algorithm.penalty * float(law.deviation[0, 0])


def neighbours_estimates(
    regression: Regression, algorithm: IncrementalADMM, heard: Transcript, talk: Graph
) -> tuple[dict[str, States], int]:
    """The same by the two agents around each agent, who know no tokens but those that it gets and gives; and of how
    many agents they know the secret offset, if there is one."""
    out: dict[str, States] = {}
    undone = 0
    for i in range(heard.agents):
        two = around(heard, i)
        own = heard.visits(i)
        offset = secret_offset(heard, talk, two, i)
        undone += offset is not None
        for name, states in strongest(regression, algorithm, heard.within(two), [i]).items():
            whole = out.setdefault(name, States(np.full_like(states.x, np.nan), np.full_like(states.y, np.nan)))
            whole.x[own] = states.x[own]
            whole.y[own] = states.y[own] - (0 if offset is None else algorithm.penalty * offset)
    return out, undone


AttackedRun = tuple[Overheard, dict[str, States]]  # what was overheard, and the states that each attack infers
