"""Gradient descent on a token that visits one agent after the other, private by noise on every gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import needed, relative
from tacit.core.algorithm import Traits, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import RandomWalk, Schedule, way
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.privacy.mechanisms import gradient_perturbed, unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """What an agent remembers of the token. Nothing of it goes into a later visit: the method has no memory."""

    token: np.ndarray  # (n, d) z as the agent saw it last, or handed it on
    toured: np.ndarray  # (n, 1) how far the others moved it since the agent's visit before, relative
    moved: np.ndarray  # (n, 1) how far the agent's own last step moved it, relative


@dataclass(frozen=True, kw_only=True)
class TokenGradientDescent:
    """Private gradient descent on a token: Cyffers and Bellet (2022), Algorithm 1; on walks Cyffers, Bellet and
    Upadhyay (2024), Algorithm 1. The token z reaches agent i, which hands on

        z <- z - step (grad O_i(z) + e_i)

    with a Gaussian mechanism on every gradient. `order` is a cycle through all agents, by default one that is found in
    the graph, or a `RandomWalk`. Rows have norm at most 1. Agents keep no state that a later step uses, and for
    step <= 2/L the steps bring no two tokens further apart: so what one agent can learn about another falls with their
    distance on the token's path (`tacit.privacy.network`). With a constant step the token ends near the optimum, not at
    it. Recorded noise stands for step e_i, which is what is added.
    """

    traits: ClassVar[Traits] = Traits(token=True, released=True, laws=(Gaussian,), draws=given("budget"))

    step: float
    order: tuple[int, ...] | RandomWalk | None = None
    budget: Gaussian | None = None  # of one visit

    def __post_init__(self) -> None:
        hyper.number("step", self.step)
        if self.budget is not None and not isinstance(self.budget, Gaussian):
            raise InputError(f"a visit's budget is Gaussian(multiplier), not {self.budget!r}")

    def schedule(self, graph: Graph) -> Schedule:
        """The token goes its public way."""
        return way(graph, self.order)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """All ticks cost the same."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """The token starts as its first holder's start, which is public."""
        unknown = np.full((len(start), 1), np.nan)
        return State(start, unknown, unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The holder's gradient step, with noise if there is a budget."""
        if self.budget is None:
            release = unprotected(s.token - self.step * problem.gradient(s.token))
        else:
            release = gradient_perturbed(problem, needed(noise), self.budget, s.token, self.step, ids=view.ids, t=t)
        return s._replace(token=release.value, moved=relative(release.value - s.token, release.value)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The next holder takes the token."""
        token = inbox.only()
        return s._replace(token=token, toured=relative(token - s.token, token))

    def estimate(self, s: State) -> np.ndarray:
        """The token as each agent knows it."""
        return s.token

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the token moves on a tour, and by the agent's own step, both relative."""
        return s.toured[:, 0], s.moved[:, 0]
