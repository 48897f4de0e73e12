"""A token that averages everybody's last gradient step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import relative
from tacit.composite.prox import Proximable
from tacit.core.algorithm import Traits, never
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Schedule, way
from tacit.errors import InputError
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything an agent keeps from one visit of the token to the next."""

    z: np.ndarray  # (n, d) the model as the agent saw it last
    y: np.ndarray  # (n, d) y_i: the gradient step of its last visit
    token: np.ndarray  # (n, d) the mean of all y_i, as the agent saw it last
    moved: np.ndarray  # (n, 1) by how much the last visit changed y_i, relative


@dataclass(frozen=True, kw_only=True)
class WalkProximalGradient:
    """WPG: Mao, Gu, Yin (2019; paper 002's [11]), for min 1/N sum_i f_i(z) + r(z). On a Hamiltonian cycle, with alpha
    the `step`, the token, the mean of all y_i, reaches an agent, which does

        z   = prox_{alpha r}(token)                    (z = token without a `regulariser` r)
        y_i = z - alpha grad f_i(z)
        token += (y_i - y_i^before)/N

    f_i is O_i, whose own l2 is of the smooth part. `order` is a cycle through all agents, by default one that is found.
    The token starts from one point, with y_i = token for every agent: all starts are the same.
    """

    traits: ClassVar[Traits] = Traits(token=True, draws=never)

    step: float
    regulariser: Proximable | None = None
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        hyper.number("step", self.step)

    def schedule(self, graph: Graph) -> Schedule:
        """The token goes its public way."""
        return way(graph, self.order)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """The same start for all agents: on a connected graph it is enough that neighbours agree."""
        if np.any(heard.rows[heard.indices] != np.repeat(start, heard.counts[:, 0], axis=0)):
            raise InputError("the token starts from one point: the start must be the same for all agents")
        return State(self._model(start), start, start, np.full((len(start), 1), np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The holder's gradient step and proximal step."""
        y = s.z - self.step * problem.gradient(s.z)
        token = s.token + (y - s.y) / view.network
        return State(self._model(token), y, token, relative(y - s.y, y)), unprotected(token)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The next holder takes the token."""
        token = inbox.only()
        return s._replace(token=token, z=self._model(token))

    def estimate(self, s: State) -> np.ndarray:
        """z as the agent saw it last."""
        return s.z

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How much the last visit changed y_i, relative, twice: all agents have had the same token."""
        return s.moved[:, 0], s.moved[:, 0]

    def _model(self, token: np.ndarray) -> np.ndarray:
        return token if self.regulariser is None else self.regulariser.prox(token, self.step)
