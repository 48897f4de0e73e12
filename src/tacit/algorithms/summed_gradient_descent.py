"""Gradient descent on the sum of all members' gradients, with noise that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper, summed
from tacit.algorithms.consensus import relative
from tacit.core.algorithm import Traits, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release, clipped
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.exchange.total_bounds import TotalBounds
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import Noise


class State(NamedTuple):
    """Everything a member keeps from one round to the next, all of it from totals: the same at all of them."""

    f: np.ndarray  # (n, d)
    velocity: np.ndarray  # (n, d) v
    moved: np.ndarray  # (n, 1) how far the last step moved f, relative
    radius: np.ndarray  # (n, 1) within which f stays; public


@dataclass(frozen=True, kw_only=True)
class SummedGradientDescent:
    """Gradient descent without a centre, on a total that nobody can take apart:

        v <- momentum v + 1/N sum_i (grad O_i(f) + e_i),   e_i normal with deviation `deviation`
        f <- f - step v

    Distributed differential privacy (Kairouz, Liu, Steinke 2021) without a server. e_i is a member's share of the
    noise; `tacit.algorithms.summed` says what the sum of shares protects against. f stays within the problem's radius:
    a member that lies can move the sum within its bounds, and f no farther. Momentum (Polyak 1964) takes
    1/(1 - momentum) times fewer rounds for the same way: with the noise of a whole run given, that costs nothing
    (docs/evidence/accuracy.md).

    Without a deviation it is the method without noise.
    """

    traits: ClassVar[Traits] = Traits(
        totals=True, multiclass=True, laws=(Gaussian,), carried=("f", "velocity"), draws=given("deviation")
    )

    row_norm: ClassVar[float] = 1.0  # of records, at most

    step: float
    momentum: float = 0.0
    deviation: float | None = None  # of each member's share of the noise
    colluders: int = 1
    dropouts: int = 0

    def __post_init__(self) -> None:
        hyper.number("step", self.step)
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must be at least 0 and below 1, not {self.momentum}")
        summed.check(self)

    def bounds(self, facts: Problem) -> TotalBounds | None:
        """Within which totals are used."""
        return summed.bounds(self, facts)

    def reach(self, mean: float, totals: int, radius: float) -> dict[str, float]:
        """The largest norm of what is `carried` after so many totals, if no mean gradient is longer than `mean`."""
        velocity = mean * (1 - self.momentum**totals) / (1 - self.momentum)
        return {"f": min(radius, self.step * totals * velocity), "velocity": velocity}

    def schedule(self, graph: Graph) -> Broadcast:
        """All members speak at every tick."""
        return summed.broadcast(self, graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """All ticks cost the same."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """The start is public, and the same for all."""
        summed.check_start(start, heard)
        return State(start, np.zeros_like(start), np.full((len(start), 1), np.nan), summed.radius(self, problem))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The member's part of the gradient."""
        return s, summed.said(self, s.f, problem, view, noise, t)

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """A step down the mean gradient."""
        velocity = self.momentum * s.velocity + summed.mean_gradient(inbox)
        f = clipped(s.f - self.step * velocity, s.radius)
        return s._replace(f=f, velocity=velocity, moved=relative(f - s.f, f))

    def estimate(self, s: State) -> np.ndarray:
        """f, a function of totals."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Members agree by construction; the last step, relative to the model."""
        return np.zeros(len(s.f)), s.moved[:, 0]
