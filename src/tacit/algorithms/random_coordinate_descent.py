"""Gradient descent in one random coordinate a round, or in a block of them, which all agents know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.aggregation import Protection
from tacit.algorithms.consensus import needed, relative
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError, whole
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.laws import Budget
from tacit.privacy.mechanisms import coordinate_step_perturbed, unprotected
from tacit.privacy.noise import Noise
from tacit.privacy.sensitivity import layer_sensitivity


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    x: np.ndarray  # (n, d) as released
    mean: np.ndarray  # (n, d) of the models of the agent and its neighbours, from which the next step goes
    model: np.ndarray  # (n, d) that mean; the agent's own start before the first round
    moved: np.ndarray  # (n, 1) how far the last step moved from that mean, relative


@dataclass(frozen=True, kw_only=True)
class RandomCoordinateDescent:
    """Random coordinate descent: Xiao, Ye, Devadas (paper 003), (72), from the mean over the closed neighbourhood:

        x_i^{k+1} = mean_j x_j^k,  but for coordinate l = l_{k+1}:  x_i^{k+1}[l] = mean_j x_j^k[l] - eta g[l] + Delta_i

    with g = grad f_i(mean_j x_j^k) and f_i = O_i. For an agent alone this is (72), on a complete graph (72) for the
    average of the f_i, which the mean follows to the optimum; on other graphs agents end near it. l is uniform on the
    coordinates, the same for all agents, and public: every agent draws it from `seed`. eta is `step`, by default the
    paper's 1/M^ with the public bound M^ = (largest curvature) C row_norm^2 + l2; it must be one number for all,
    or another point is reached. So agents of different scales C_i have to agree on a step.

    With `block` b > 1 a round moves b coordinates: l is uniform on the blocks 0..b-1, b..2b-1, ..., of which the last
    may be smaller. The paper has single coordinates; the cost below is the same for blocks, and the same way takes b
    times fewer rounds. Every round sends the whole model: the mean of a neighbourhood is not known outside of it.

    *Cost.* The j-th visits to all blocks are a *layer*, and a layer costs what a full gradient step costs
    (`mechanisms.coordinate_step_perturbed`). So K rounds cost as many steps as the most visited block has visits,
    K b/d if K is large: the true counts, where the paper has a bound on them that fails with some probability. The
    first release of a layer pays for it. `beta` is the rate of Laplace noise, `budget` what a layer may cost.
    """

    traits: ClassVar[Traits] = Traits(released=True, laws=(Pure, Gaussian), draws=given("beta", "budget"), sums=always)

    step: float | None = None
    seed: int = 0
    beta: float | None = None
    budget: Budget | None = None
    row_norm: float = 1.0
    block: int = 1  # coordinates of a round

    def __post_init__(self) -> None:
        hyper.number("row_norm", self.row_norm)
        whole("block", self.block, 1)
        for name in ("step", "beta"):
            if getattr(self, name) is not None:
                hyper.number(name, getattr(self, name))
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"the seed of the coordinates is a whole number, 0 or more, not {self.seed!r}")
        hyper.noise_checked(self.beta, self.budget, name="beta")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """The first releases of layers, which pay for them; and all others."""
        return self._drawn(problem.dimension).up_to(rounds)[1].astype(int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is given and known to the neighbours."""
        if self.step is None and np.ptp(problem.scale) > 0:
            raise InputError("agents of different scales need one step in common: give it")
        return State(start, heard.with_own(start).mean(), start, np.full((len(start), 1), np.nan))

    def coordinates(self, dimension: int, rounds: int) -> np.ndarray:
        """l_1, ..., l_rounds, of coordinates or of blocks: a longer sequence begins with a shorter one."""
        return self._drawn(dimension).up_to(rounds)[0]

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The step in one random block of coordinates, (72)."""
        block, pays = self._drawn(problem.dimension).at(t)
        moving = np.arange(block * self.block, min((block + 1) * self.block, problem.dimension))
        eta = self._eta(problem)
        how = Protection(noise, self.beta, self.budget, self.row_norm, view.ids, t)
        if how.none:
            x = s.mean.copy()
            x[:, moving] -= eta * problem.gradient(s.mean)[:, moving]
            release = unprotected(x)
        else:
            moved = eta * layer_sensitivity(problem, self.row_norm)
            law = how.law(moved, problem.dimension)
            release = coordinate_step_perturbed(
                problem, needed(noise), law, s.mean, moving, eta, charge=pays, **how.where
            )
        return s._replace(x=release.value, moved=relative(s.mean - release.value, release.value)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The mean, of released values."""
        mean = inbox.with_own(s.x).mean()
        return s._replace(mean=mean, model=mean)

    def estimate(self, s: State) -> np.ndarray:
        """The neighbourhood's mean, which steps from different agents have moved alike."""
        return s.model

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the agent's own step has led from the mean, and how far the step went, both relative. The step went
        in one coordinate, so that a small one says little."""
        return relative(s.x - s.mean, s.mean)[:, 0], s.moved[:, 0]

    def _drawn(self, dimension: int) -> _Drawn:
        return _drawn(self.seed, -(-dimension // self.block))

    def _eta(self, problem: Problem) -> np.ndarray:
        if self.step is not None:
            return np.full((problem.agents, 1), self.step)
        return 1 / (problem.loss.max_curvature * problem.scale[:, None] * self.row_norm**2 + problem.l2)


class _Drawn:
    """The blocks of coordinates of all rounds, and which rounds pay for a layer: those that visit a block more often
    than any has been visited before. Both follow from the seed, so nothing has to be kept with the state of a run."""

    def __init__(self, seed: int, blocks: int) -> None:
        self._seed, self._blocks = seed, blocks
        self._known = np.zeros(0, dtype=int), np.zeros(0, dtype=bool)

    def at(self, t: int) -> tuple[int, bool]:
        """The block of round t, and whether it pays."""
        blocks, pays = self._known if t < len(self._known[0]) else self.up_to(2 * (t + 1))
        return int(blocks[t]), bool(pays[t])

    def up_to(self, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of the first rounds, (rounds,) each; they are drawn once."""
        known = self._known
        if len(known[0]) < rounds:
            drawn = np.random.default_rng(self._seed).integers(self._blocks, size=rounds)
            order = np.argsort(drawn, kind="stable")
            ordered = drawn[order]
            visit = np.empty(rounds, dtype=int)  # how often the block was visited before
            visit[order] = np.arange(rounds) - np.searchsorted(ordered, ordered)
            most = np.maximum.accumulate(visit)
            known = self._known = drawn, np.append(True, visit[1:] > most[:-1])
            for each in known:
                each.setflags(write=False)
        return known[0][:rounds], known[1][:rounds]


_drawn = lru_cache(maxsize=8)(_Drawn)
