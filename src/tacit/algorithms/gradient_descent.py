"""Decentralised gradient descent, private by noise on the gradients: the rival that is simplest to trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import mixed, needed, relative
from tacit.core.algorithm import Traits, always, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError, whole
from tacit.privacy.events import Gaussian
from tacit.privacy.mechanisms import gradient_perturbed, post_processed, unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: all of it from released values."""

    f: np.ndarray  # (n, d)
    spread: np.ndarray  # (n, 1) how far the neighbours' models are from it, relative
    moved: np.ndarray  # (n, 1) how far the last gradient step moved it, relative


@dataclass(frozen=True, kw_only=True)
class GradientDescent:
    """Decentralised gradient descent: Nedic and Ozdaglar (2009), with a Gaussian mechanism on every gradient:

        f_i <- f_i - step (grad O_i(f_i) + e_i)                    once every `exchanges` rounds
        f_i <- f_i + mixing sum_j (f_j - f_i)                      after every round

    The rounds between two gradients average released values, which costs messages but no privacy. With a constant step
    the agents end near the optimum, not at it: the nearer, the smaller the step and the more they exchange. Recorded
    noise stands for step e_i, which is what is added.
    """

    traits: ClassVar[Traits] = Traits(
        multiclass=True, released=True, laws=(Gaussian,), draws=given("budget"), sums=always
    )

    step: float
    mixing: float
    exchanges: int = 1
    budget: Gaussian | tuple[Gaussian, ...] | None = None  # of one gradient, or of each of them

    def __post_init__(self) -> None:
        hyper.number("step", self.step)
        hyper.number("mixing", self.mixing, zero=True)
        whole("exchanges", self.exchanges, 1)
        if self.budget is not None and not hyper.is_budget(self.budget, Gaussian):
            raise InputError(f"a gradient's budget is Gaussian(multiplier), or a tuple of these, not {self.budget!r}")

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        hyper.mixes(graph, self.mixing)
        return Broadcast(graph, period=self.exchanges)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Gradients with the same budget cost the same; so do all rounds between two of them."""
        t = np.arange(rounds)
        return np.where(t % self.exchanges, -1, hyper.kinds(t // self.exchanges, self.budget))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """The models of the first tick are the public start."""
        unknown = np.full((len(start), 1), np.nan)
        return State(start, unknown, unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """A gradient step, or the model as it is."""
        if t % self.exchanges:
            return s, unprotected(s.f) if self.budget is None else post_processed(s.f)
        if self.budget is None:
            release = unprotected(s.f - self.step * problem.gradient(s.f))
        else:
            k = t // self.exchanges
            budget = hyper.budget_at(self.budget, k)
            release = gradient_perturbed(problem, needed(noise), budget, s.f, self.step, ids=view.ids, t=k)
        f = release.value
        return s._replace(f=f, moved=relative(f - s.f, f)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """A step towards the neighbours' mean."""
        f, spread = mixed(s.f, inbox, view.degree, self.mixing)
        return s._replace(f=f, spread=spread)

    def estimate(self, s: State) -> np.ndarray:
        """f_i, a function of released values."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement, and the last gradient step, both relative to the model."""
        return s.spread[:, 0], s.moved[:, 0]
