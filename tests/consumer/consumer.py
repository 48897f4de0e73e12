"""A consumer's script, by public imports alone: what docs/how-to/use-python.md does, a method and a loss of its own.

`tests/test_types.py` runs it, and checks it with `mypy --strict` and with pyright.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import tacit
from tacit.estimators import PrivateFusedLogisticRegression
from tacit.extend import (
    Broadcast,
    Budget,
    CustomLoss,
    Graph,
    Hyper,
    Inbox,
    Noise,
    Problem,
    Pure,
    Release,
    View,
    gradient_sensitivity,
    hyper,
    needed,
    output_law_within,
    relative,
    step_perturbed,
    unprotected,
)

Array = npt.NDArray[np.float64]


class State(NamedTuple):
    """What an agent keeps from one round to the next."""

    f: Array  # (n, d)
    before: Array  # (n, d) f a round ago
    spread: Array  # (n, 1) how far the neighbours' models are from f, relative
    moved: Array  # (n, 1) how far the last step moved f, relative


@dataclass(frozen=True, kw_only=True)
class HeavyBall:
    """Gradient descent with momentum: a step, with noise if there is a budget, and then towards the neighbours."""

    step: Hyper
    momentum: float
    mixing: float
    budget: Budget | None = None  # of one step

    def __post_init__(self) -> None:
        hyper.checked("step", self.step)
        hyper.number("momentum", self.momentum, zero=True)
        hyper.number("mixing", self.mixing)
        hyper.noise_checked(None, self.budget)

    def schedule(self, graph: Graph) -> Broadcast:
        """Everybody speaks to all neighbours in every round."""
        return Broadcast(graph)

    def init(self, problem: Problem, view: View, start: Array, heard: Inbox) -> State:
        """The ball rests at the start."""
        unknown = np.full((len(start), 1), np.nan)
        return State(start, start, unknown, unknown)

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """The step leaves, and nothing else."""
        step = hyper.at("step", self.step, t, view.ids)
        towards = s.f + self.momentum * (s.f - s.before)
        if self.budget is None:
            release = unprotected(towards - step * problem.gradient(s.f))
        else:
            law = output_law_within(self.budget, step * gradient_sensitivity(problem))
            release = step_perturbed(problem, needed(noise), law, towards, s.f, step, ids=view.ids, t=t)
        f = release.value
        return s._replace(f=f, before=s.f, moved=relative(f - s.f, f)), release

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """Towards the neighbours."""
        pull = inbox.sum() - view.degree * s.f
        return s._replace(f=s.f + self.mixing * pull, spread=relative(pull, view.degree * s.f))

    def estimate(self, s: State) -> Array:
        """f, a function of released values."""
        return s.f

    def residuals(self, s: State, view: View) -> tuple[Array, Array]:
        """Disagreement, and the last step."""
        return s.spread[:, 0], s.moved[:, 0]


def plain(parts: list[tuple[Array, Array]], graph: tacit.Graph, folder: Path) -> tacit.Run:
    """The first example of the page."""
    problem = tacit.Problem(parts, loss=tacit.losses.Logistic(), scale=1.0, l2=0.01)
    method = tacit.algorithms.ConsensusADMM(penalty=0.1)
    run = tacit.simulate(method, problem, graph, rounds=200, record=True)
    print("from the optimum:", np.linalg.norm(run.model - problem.optimum()), run.history["consensus_error"][-1])
    run.save(folder / "run.npz")
    return tacit.simulate(method, problem, graph, rounds=300, record=True, resume=tacit.Run.load(folder / "run.npz"))


def private(parts: list[tuple[Array, Array]], graph: tacit.Graph) -> list[tacit.Run]:
    """The second example of the page, and the same for other methods, of which one is our own."""
    parts = [(X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y) for X, y in parts]
    problem = tacit.Problem(parts, loss=tacit.losses.HuberHinge(1.0), l2=0.01)
    admm = tacit.calibrate(
        lambda budget: tacit.algorithms.PrimalPerturbedADMM(penalty=1.0, budget=budget),
        problem,
        graph,
        rounds=20,
        epsilon=2.0,
        delta=1e-3,
    )
    descent = tacit.calibrate(
        lambda budget: tacit.algorithms.GradientDescent(step=0.1, mixing=graph.mixing, budget=budget),
        problem,
        graph,
        rounds=20,
        epsilon=2.0,
        delta=1e-3,
    )

    def make(budget: Budget) -> HeavyBall:
        step = tacit.algorithms.Geometric(0.2, 0.9)
        return HeavyBall(step=step, momentum=0.5, mixing=graph.mixing, budget=budget)

    ball = tacit.calibrate(make, problem, graph, rounds=20, epsilon=2.0, delta=1e-3)
    print("momentum:", ball.momentum, "budget of a step:", ball.budget)  # calibrate gives back what `make` makes
    pure = tacit.calibrate(make, problem, graph, rounds=20, epsilon=2.0, delta=1e-3, law=Pure)
    runs = []
    for method in (admm, descent, ball, pure):
        run = tacit.simulate(method, problem, graph, rounds=20, noise=tacit.SecureNoise())
        epsilon = tacit.plan(method, problem, graph, rounds=20).epsilon(delta=1e-3)
        print(type(method).__name__, run.private, round(epsilon, 3), run.model.round(2))
        runs.append(run)
    return runs


def fair_value(z: float, y: float) -> float:
    """Squares for small errors, absolute errors for large ones."""
    return abs(z - y) - math.log1p(abs(z - y))


def fair_slope(z: float, y: float) -> float:
    """Never beyond 1 or -1: that bounds what one record does to a gradient."""
    return (z - y) / (1 + abs(z - y))


def fair_curvature(z: float, y: float) -> float:
    """At most 1, where the error is 0."""
    return float((1 + abs(z - y)) ** -2)


def own_loss(rng: np.random.Generator, graph: tacit.Graph) -> tacit.Run:
    """Numbers, privately, by a loss of our own."""
    fair = CustomLoss("fair", fair_value, fair_slope, fair_curvature, max_slope=1.0, max_curvature=1.0, numbers=True)
    parts = []
    for rows in (3000, 2000, 4000):
        X = rng.uniform(-0.5, 0.5, size=(rows, 4))
        parts.append((X, X @ [0.8, -0.6, 0.4, 0.0] + 0.1 * rng.standard_t(3, size=rows)))
    problem = tacit.Problem(parts, loss=fair, l2=0.001)

    def make(budget: Budget) -> tacit.algorithms.RecycledADMM:
        return tacit.algorithms.RecycledADMM(penalty=0.2, budget=budget)

    method = tacit.calibrate(make, problem, graph, rounds=20, epsilon=2.0, delta=1e-5)
    run = tacit.simulate(method, problem, graph, rounds=20, noise=tacit.SecureNoise())
    print("fair loss:", run.private, run.model.round(2))
    return run


def own_without_noise(parts: list[tuple[Array, Array]], graph: tacit.Graph) -> tacit.Run:
    """Without a budget our method is exact gradient descent; so is what a listener hears as secret-shared sums."""
    problem = tacit.Problem(parts, l2=0.1)
    method = HeavyBall(step=0.1, momentum=0.5, mixing=graph.mixing)
    sums = tacit.exchange.SecretSharedSums(bound=1e4)
    return tacit.simulate(method, problem, graph, rounds=50, exchange=sums, measure_every=10)


def front(rng: np.random.Generator) -> float:
    """The third example of the page."""
    X = rng.normal(size=(5000, 6)) / 3
    y = np.where(X @ [1, 1, 1, -1, -1, -1] > 0, "ill", "well")
    model = PrivateFusedLogisticRegression(epsilon=1.0, delta=1e-6, classes=["ill", "well"], graph="path")
    model.fit(X[:4000], y[:4000])
    print(model.coef_.round(1), model.predict(X[4000:4003]))
    print(model.privacy_.statement, model.privacy_.epsilon, model.privacy_.assumptions[0])
    return float(model.score(X[4000:], y[4000:]))


def from_records() -> tacit.Problem:
    """The fourth example of the page."""
    data = tacit.data.adult()
    train, test = data.split(train=40_000, seed=0)
    print(len(test), "records held out")
    parts = train.parts(tacit.data.partition.equal(len(train), agents=5))
    return tacit.Problem(parts, scale=1750.0, l2=0.044)


def main() -> None:
    """Everything, in some seconds."""
    rng = np.random.default_rng(0)
    parts = []
    for rows in (30, 80, 50):
        X = rng.normal(size=(rows, 4))
        parts.append((X, np.sign(X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=rows))))
    graph = tacit.Graph.ring(3)
    with tempfile.TemporaryDirectory() as folder:
        more = plain(parts, graph, Path(folder))
    if more.trajectory is None or more.trajectory.shape != (301, 3, 4):
        raise SystemExit("the trajectory is not whole")
    if not all(run.private for run in private(parts, graph)):
        raise SystemExit("a private run is not private")
    if np.linalg.norm(own_loss(rng, graph).model - [0.8, -0.6, 0.4, 0.0]) > 0.5:
        raise SystemExit("our own loss has learnt nothing")
    if own_without_noise(parts, graph).private:
        raise SystemExit("a plain run calls itself private")
    if front(rng) < 0.8:
        raise SystemExit("the estimator has learnt nothing")
    print(from_records())


if __name__ == "__main__":
    main()
