"""Incremental ADMM with several tokens, which walk at random side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import relative
from tacit.core.algorithm import Traits, never
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import RandomWalk, Walks
from tacit.errors import InputError, whole
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.noise import Noise

_MOST_TOKENS = 2**12


class State(NamedTuple):
    """Everything an agent keeps from one visit of a token to the next."""

    x: np.ndarray  # (n, d) x_i
    y: np.ndarray  # (n, M, d) y_{i,m}
    put: np.ndarray  # (n, M, d) x_{i,m}: the x_i that went into token m at its last visit
    tokens: np.ndarray  # (n, M, d) z_m as the agent saw it last
    change: np.ndarray  # (n, M) by how much the last visit of token m changed y_{i,m}, relative


@dataclass(frozen=True, kw_only=True)
class ParallelWalkADMM:
    """PW-ADMM and, with a `walk` that has a choice, IPW-ADMM: Ye, Chen, Ma, Xiao (2019; paper 002's [18]).

    M tokens z_m stand for the consensus: min sum_i f_i(x_i) with x_i = z_m for all i and m. Its augmented Lagrangian is

        sum_i f_i(x_i) + sum_{i,m} <y_{i,m}, z_m - x_i> + rho/2 ||z_m - x_i||^2.

    Paper 002 names the method and its constants (rho, tau, M) but does not print its steps. They are derived here as
    (4a)-(5) are from (3): when token m reaches agent i,

        x_i     = argmin f_i(x) + sum_l rho/2 ||z_l - x + y_{i,l}/rho||^2 + tau/2 ||x - x_i^k||^2
                  or, if not `exact`, with f_i's linear part at x_i^k in its place
        y_{i,m} = y_{i,m}^k + rho (z_m - x_i)
        z_m    += 1/N [(x_i - y_{i,m}/rho) - (x_{i,m} - y_{i,m}^k/rho)],      then x_{i,m} = x_i

    with z_l, l != m, as the agent saw it last. So z_m = 1/N sum_i (x_{i,m} - y_{i,m}/rho) at every tick, as (4c) asks
    of each token; where all rest, x_i = z_m, grad f_i(x_i) = sum_m y_{i,m} and sum_i y_{i,m} = 0: the optimum. One
    token moves a tick, in turn; with M = 1 and tau = 0 it is `WalkADMM`. f_i is O_i, rho is `penalty`, tau `proximal`.
    Only visits of token m change y_{i,m}, and the tokens pull M times as hard as one. Derived like this, it saves
    time where tokens move at once, but takes more messages than one token does.
    """

    traits: ClassVar[Traits] = Traits(token=True, draws=never)

    tokens: int
    penalty: float = 1.0
    proximal: float = 0.0
    exact: bool = True
    walk: RandomWalk = RandomWalk(choice=2)  # noqa: RUF009 (it is frozen)

    def __post_init__(self) -> None:
        whole("tokens", self.tokens, 1)
        if self.tokens > _MOST_TOKENS:  # an agent keeps three models for each of them
            raise InputError(f"there are at most {_MOST_TOKENS:,} tokens, not {self.tokens:,}")
        hyper.number("penalty", self.penalty)
        hyper.number("proximal", self.proximal, zero=True)
        if not isinstance(self.walk, RandomWalk):
            raise InputError(f"the walk is a RandomWalk, not {self.walk!r}")

    def schedule(self, graph: Graph) -> Walks:
        """At tick t token t mod M goes to a neighbour of its holder."""
        return self.walk.on(graph, self.tokens)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """Nothing is protected: all ticks are alike."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is the start, y_{i,m}^0 = rho x_i^0, z_m^0 = 0."""
        put = np.repeat(start[:, None], self.tokens, axis=1)
        return State(start, self.penalty * put, put, np.zeros_like(put), np.full(put.shape[:2], np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The holder's steps with token t mod M."""
        m, rho = t % self.tokens, self.penalty
        pull = rho * self.tokens  # of the tokens' mean: the sum of squares is M ||x - mean||^2 up to a constant
        weight = pull + self.proximal
        centre = (pull * (s.tokens + s.y / rho).mean(axis=1) + self.proximal * s.x) / weight
        if self.exact:
            x = problem.argmin(linear=0.0, weight=weight / 2, centre=centre, start=s.x)
        else:
            x = centre - problem.gradient(s.x) / weight
        y = s.y[:, m] + rho * (s.tokens[:, m] - x)
        token = s.tokens[:, m] + ((x - y / rho) - (s.put[:, m] - s.y[:, m] / rho)) / view.network
        change = relative(y - s.y[:, m], y)[:, 0]
        spoken = zip(s[1:], (y, x, token, change), strict=True)
        return State(x, *(_with(old, m, new) for old, new in spoken)), unprotected(token)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """Token t mod M arrives."""
        return s._replace(tokens=_with(s.tokens, t % self.tokens, inbox.only()))

    def estimate(self, s: State) -> np.ndarray:
        """x_i."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Of all tokens the farthest from x_i, and the largest change of y_{i,m} at a last visit, both relative."""
        return relative(s.tokens - s.x[:, None], s.x[:, None])[..., 0].max(axis=1), s.change.max(axis=1)


def _with(array: np.ndarray, m: int, part: np.ndarray) -> np.ndarray:
    """The array with another part for token m."""
    out = array.copy()
    out[:, m] = part
    return out
