"""Gradient descent from a random point between the neighbours' models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.aggregation import (
    Protection,
    bounded_gradient,
    checked_weights,
    drawn_weights,
    gradient_step,
    onto_ball,
    require_whole_space,
)
from tacit.algorithms.consensus import relative
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    x: np.ndarray  # (n, d) x_i^k, as released
    mean: np.ndarray  # (n, d) of the models of the agent and its neighbours
    low: np.ndarray  # (n, d) where the random weight 0 leads
    high: np.ndarray  # (n, d) where the random weight 1 leads
    moved: np.ndarray  # (n, 1) how far the last step moved x_i, relative


def _draws(method: RandomAggregationGD) -> bool:
    return method.weight[0] < method.weight[1] or method.beta is not None or method.budget is not None


def _averages(method: RandomAggregationGD) -> bool:
    """Whether the pair that is farthest apart counts like the others."""
    return not method.min_max and method.weight == (0.5, 0.5)


@dataclass(frozen=True, kw_only=True)
class RandomAggregationGD:
    """Modified decentralised gradient descent: Xiao, Ye, Devadas (paper 003), Algorithms 2 and 2*. With n_i the number
    of agents in the *closed* neighbourhood of i, itself included, and a, b the two of them whose models are farthest
    apart in the 1-norm:

        x_i^{k+1} = [2 w x_a + 2 (1 - w) x_b + sum_{j not a, b} x_j]/n_i - eta grad f_i(mean_j x_j) + Delta_i      (7)

    or, with `min_max`, Algorithm 2*, in each coordinate by itself:

        x_i^{k+1} = w min_j x_j + (1 - w) max_j x_j - eta grad f_i(x_i) + Delta_i                                 (28)

    f_i is O_i, eta_{k+1} at round k = 0, 1, ... is `step`: a number or a schedule (`algorithms.hyper`). w is
    drawn for each coordinate, agent and round, uniformly from `weight`; equal ends fix it, and 1/2 in (7) is
    conventional gradient descent, which needs no more than sums of messages (`SecretSharedSums`). The paper has a
    complete graph for (7), with the mean of all; here, on any graph, it is that of the closed neighbourhood, whose
    farthest pair every agent knows. As with conventional gradient descent the agents end near the optimum: steps that
    sum up to little stop them on the way, constant ones keep them apart, and agents of different degree agree on the
    optimum of sum_i n_i f_i. (28) does not keep the mean.
    `beta`, `budget`, `ball`, recorded numbers: see `RandomAggregationADMM`. A projection brings every x_i nearer to the
    optimum in C, so Theorem 3.4 holds with it.
    """

    traits: ClassVar[Traits] = Traits(released=True, laws=(Pure, Gaussian), draws=_draws, sums=_averages)

    step: Hyper
    min_max: bool = False
    weight: tuple[float, float] = (0.0, 1.0)
    beta: Hyper | None = None
    budget: Budgets | None = None
    row_norm: float = 1.0
    ball: float | None = None  # the radius of C

    def __post_init__(self) -> None:
        hyper.freeze(self, "step", "beta")
        if self.ball is not None:
            hyper.number("ball", self.ball)
        hyper.number("row_norm", self.row_norm)
        checked_weights("weight", self.weight)
        hyper.noise_checked(self.beta, self.budget, name="beta", varies=True)

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.fits(graph, step=self.step, beta=self.beta)
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Rounds with the same settings cost the same."""
        return hyper.kinds(np.arange(rounds), self.step, self.beta, self.budget)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is given and known to the neighbours."""
        return self._heard(State(start, start, start, start, np.full((len(start), 1), np.nan)), heard)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The gradient step from a random point: (7), or (28)."""
        w = drawn_weights(self.weight, noise, problem.dimension, view.ids, t)
        how = Protection(noise, self.beta, self.budget, self.row_norm, view.ids, t)
        towards = w * s.high + (1 - w) * s.low
        release = gradient_step(problem, how, towards=towards, at=self._at(s), step=self._eta(view, t))
        release = onto_ball(release, self.ball)
        return s._replace(x=release.value, moved=relative(s.x - release.value, release.value)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """Finds the points between which the next step starts."""
        return self._heard(s, inbox)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's model: x_i, as it was released."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the neighbourhood's mean is, and how far the last step went, both relative."""
        return relative(s.mean - s.x, s.x)[:, 0], s.moved[:, 0]

    def interval(self, s: State, problem: Problem, view: View, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ends of the interval in which the random weights put x_i^{k+1} before the noise, (n, d) each, and the
        step, (n, 1)."""
        require_whole_space(self.ball)
        eta = self._eta(view, t)
        descent = eta * bounded_gradient(problem, self._at(s))
        low, high = (w * s.high + (1 - w) * s.low - descent for w in self.weight)
        return low, high, eta

    def _eta(self, view: View, t: int) -> np.ndarray:
        return hyper.at("step", self.step, t, view.ids)

    def _at(self, s: State) -> np.ndarray:
        return s.x if self.min_max else s.mean

    def _heard(self, s: State, inbox: Inbox) -> State:
        closed = inbox.with_own(s.x)
        mean = closed.mean()
        if self.min_max:
            return s._replace(mean=mean, low=closed.max(), high=closed.min())
        if _averages(self):  # sums are enough
            return s._replace(mean=mean, low=mean, high=mean)
        a, b = closed.farthest_pair()
        apart = (a - b) / closed.counts  # 2 w a + 2 (1 - w) b is a + b and (2 w - 1) (a - b) more
        return s._replace(mean=mean, low=mean - apart, high=mean + apart)
