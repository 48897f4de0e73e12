"""What a loss of one's own costs: the time to make it, and the solver's time as a ratio to the built-in loss.

    python benchmarks/custom_loss.py

The same rounds as in `local_solver.py`, with 5 and with 2,000 agents. Processor time, medians; built-in and custom
rounds take turns.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import tacit
from tacit.data import adult, partition
from tacit.extend import CustomLoss, HuberHinge, Logistic, Loss


def logistic() -> CustomLoss:
    """A copy of the logistic loss."""

    def value(z: float, y: float) -> float:
        return max(-y * z, 0.0) + math.log1p(math.exp(-abs(y * z)))

    def slope(z: float, y: float) -> float:
        return -y / (1.0 + math.exp(y * z))

    def curvature(z: float, y: float) -> float:
        e = math.exp(-abs(y * z))
        return float(e / (1.0 + e) ** 2)

    return CustomLoss("logistic", value, slope, curvature, max_slope=1.0, max_curvature=0.25)


def hinge(w: float = 0.5) -> CustomLoss:
    """A copy of the Huber hinge."""

    def value(z: float, y: float) -> float:
        m = y * z
        return 0.0 if m >= 1 + w else 1 - m if m <= 1 - w else (1 + w - m) ** 2 / (4 * w)

    def slope(z: float, y: float) -> float:
        m = y * z
        return 0.0 if m >= 1 + w else -y if m <= 1 - w else -y * (1 + w - m) / (2 * w)

    def curvature(z: float, y: float) -> float:
        return 1 / (2 * w) if abs(1 - y * z) <= w else 0.0

    return CustomLoss("hinge", value, slope, curvature, max_slope=1.0, max_curvature=1 / (2 * w))


class Rounds:
    """Exact private rounds, warm-started, each with a new random linear term of norm 50."""

    def __init__(self, parts: list[tuple[Any, Any]], loss: Loss) -> None:
        self.problem = tacit.Problem(parts, loss=loss, scale=1750.0, l2=0.044)
        self.f = np.zeros((self.problem.agents, self.problem.dimension))
        self.rng = np.random.default_rng(0)
        self.round()  # compiles, and computes what depends on the data alone

    def round(self) -> None:
        """The exact minimisers of all agents."""
        noise = self.rng.normal(size=self.f.shape)
        noise *= 50.0 / np.linalg.norm(noise, axis=1, keepdims=True)
        self.f = self.problem.argmin(noise, 2.0, self.f.mean(axis=0), start=self.f)

    def gradients(self) -> None:
        """Ten gradients."""
        for _ in range(10):
            self.problem.gradient(self.f)


def ratio(times: int, ours: Callable[[], None], theirs: Callable[[], None]) -> float:
    """Of the medians of their processor times."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for work, seconds in zip((ours, theirs), taken, strict=True):
            begin = time.process_time()
            work()
            seconds.append(time.process_time() - begin)
    return statistics.median(taken[0]) / statistics.median(taken[1])


def main() -> None:
    """Prints the times and the ratios."""
    numba.njit(lambda x: x + 1)(1.0)  # what numba needs for any first function
    logistic()  # and for the first check
    made = {}
    for name, make in (("Logistic", logistic), ("HuberHinge", hinge)):
        begin = time.process_time()
        made[name] = make()
        print(f"a copy of {name} is compiled and checked in {time.process_time() - begin:.2f} s of processor time")
    train, _ = adult("paper").split(train=40_000, seed=0)
    for agents in (5, 2000):
        parts: list[tuple[Any, Any]] = train.parts(partition.equal(len(train), agents))
        for built_in in (Logistic(), HuberHinge()):
            custom, usual = Rounds(parts, made[type(built_in).__name__]), Rounds(parts, built_in)
            rounds, gradients = ratio(40, custom.round, usual.round), ratio(40, custom.gradients, usual.gradients)
            name = type(built_in).__name__
            print(f"{name}, N={agents}: custom / built-in: exact round {rounds:.2f}, gradient {gradients:.2f}")


if __name__ == "__main__":
    main()
