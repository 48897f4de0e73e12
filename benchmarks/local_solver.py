"""Speed of the exact local solver against scipy's best, on Adult and on made-up rows of many sizes.

    python benchmarks/speed.py local_solver

The private regime: rows of norm 1 at most, scale 1750, penalty 1, a ring, and in every round a fresh random linear term
of norm 50, so that a warm start helps little. Peers get the same CSR (or dense) rows and the same start, and stop at
the same gradient norm: theirs is the largest entry, which is never above our Euclidean norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from timing import Figure, interleaved, read_once

import tacit
from tacit.data import adult, partition

SCALE, L2, PENALTY, NOISE = 1750.0, 0.044, 1.0, 50.0
Parts = list[tuple[Any, Any]]


class Rounds:
    """Rounds of (8) of paper 000 with a fresh random linear term each, warm-started from the last."""

    def __init__(self, parts: Parts, tolerance: float = 1e-9) -> None:
        self.problem = tacit.Problem(parts, scale=SCALE, l2=L2, tolerance=tolerance)
        self.f = np.zeros((self.problem.agents, self.problem.dimension))
        self.rng = np.random.default_rng(0)
        self.round()  # compiles, and computes what depends on the data alone

    def draw(self) -> np.ndarray:
        """A random linear term of the same norm for each agent."""
        noise = self.rng.normal(size=self.f.shape)
        return noise * NOISE / np.linalg.norm(noise, axis=1, keepdims=True)

    def round(self) -> None:
        """The exact minimisers of all agents, with two neighbours each."""
        self.f = self.problem.argmin(self.draw(), 2 * PENALTY, self.f.mean(axis=0), start=self.f)


class ScipyRounds:
    """The same rounds, each agent's minimiser by one of scipy's methods."""

    def __init__(self, parts: Parts, method: str, tolerance: float) -> None:
        self.parts, self.method, self.tolerance = parts, method, tolerance
        self.f = np.zeros((len(parts), parts[0][0].shape[1]))
        self.rng, self.worst = np.random.default_rng(0), 0.0
        self.round()

    def round(self) -> None:
        """The minimisers of all agents, one after the other."""
        linear = self.rng.normal(size=self.f.shape)
        linear *= NOISE / np.linalg.norm(linear, axis=1, keepdims=True)
        centre, self.worst = self.f.mean(axis=0), 0.0
        self.f = np.array([self._solved(*part, b, centre, f) for part, b, f in zip(self.parts, linear, self.f)])  # noqa: B905

    def _solved(self, X: Any, y: np.ndarray, linear: np.ndarray, centre: np.ndarray, start: np.ndarray) -> np.ndarray:
        weight, rho = SCALE / len(y), L2 + 4 * PENALTY
        linear = linear - 4 * PENALTY * centre

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            m = y * (X @ x)
            value = weight * np.logaddexp(0, -m).sum() + rho / 2 * x @ x + linear @ x
            return value, X.T @ (-weight * y * expit(-m)) + rho * x + linear

        def curvature(x: np.ndarray) -> np.ndarray:
            p = expit(X @ x)
            return weight * p * (1 - p)

        def product(x: np.ndarray, v: np.ndarray) -> np.ndarray:
            return X.T @ (curvature(x) * (X @ v)) + rho * v

        def hessian(x: np.ndarray) -> np.ndarray:
            H = X.T @ (curvature(x)[:, None] * X)
            return (H.toarray() if scipy.sparse.issparse(H) else H) + rho * np.eye(len(x))

        settings: dict[str, dict[str, Any]] = {
            "L-BFGS-B": {"options": {"gtol": self.tolerance, "ftol": 0.0, "maxiter": 10_000, "maxls": 50}},
            "trust-ncg": {"hessp": product, "options": {"gtol": self.tolerance}},
            "trust-exact": {"hess": hessian, "options": {"gtol": self.tolerance}},
        }
        found = minimize(objective, start, jac=True, method=self.method, **settings[self.method])
        self.worst = max(self.worst, float(np.abs(objective(found.x)[1]).max()))
        return found.x


def best_peer(parts: Parts, tolerance: float) -> ScipyRounds:
    """The fastest of scipy's methods that reaches the tolerance, by a factor of 2; one of them does, up to 1e-5."""
    methods = ["L-BFGS-B", "trust-ncg"] + (["trust-exact"] if parts[0][0].shape[1] <= 300 else [])
    all_ = [ScipyRounds(parts, method, tolerance) for method in methods]
    able = [each for each in all_ if each.worst <= 2 * tolerance]
    seconds = interleaved(1, *(each.round for each in able))
    return able[int(np.argmin(seconds))]


def compared(name: str, parts: Parts, tolerance: float, times: int, plot: str = "", at: float = 0.0) -> Figure:
    """One round, ours and the best peer's, in milliseconds."""
    ours, peer = Rounds(parts, tolerance), best_peer(parts, tolerance)
    ours_s, peer_s, read = interleaved(times, ours.round, peer.round, read_once(*(a for p in parts for a in raw(*p))))
    return Figure(
        f"{name}, gradient norm {tolerance:g}",
        "ms",
        1e3 * ours_s,
        1e3 * read,
        "reading the rows once",
        1e3 * peer_s,
        f"scipy {peer.method}" if not plot else "the best of scipy",
        plot,
        at,
    )


def raw(X: Any, y: np.ndarray) -> list[np.ndarray]:
    """The arrays behind rows and labels."""
    return [X.data, X.indices, X.indptr, y] if scipy.sparse.issparse(X) else [X, y]


def made_up(agents: int, rows: int, d: int) -> Parts:
    """Dense rows of norm 1 with labels from a random model."""
    rng = np.random.default_rng(0)
    truth, parts = rng.normal(size=d), []
    for _ in range(agents):
        X = rng.normal(size=(rows, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        parts.append((X, np.where(X @ truth + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)))
    return parts


def figures() -> Iterator[Figure]:
    """Adult, then time against features, rows and agents."""
    train, _ = adult("paper").split(train=40_000, seed=0)
    X: Any = train.X
    y: Any = train.y
    five: Parts = train.parts(partition.equal(len(y), 5))
    for tolerance in (1e-5, 1e-9):
        yield compared("Adult, a round of 5 agents", five, tolerance, 15)

    w = np.random.default_rng(1).normal(size=X.shape[1])
    pooled = tacit.Problem([(X, y)])
    ours, scipys, read = interleaved(
        61,
        lambda: pooled.gradient(w),
        lambda: X.T @ (-y * expit(-y * (X @ w))),
        read_once(*raw(X, y)),
    )
    name = "Adult, one gradient of all 40,000 rows"
    yield Figure(name, "ms", 1e3 * ours, 1e3 * read, "reading the rows once", 1e3 * scipys, "scipy CSR")

    rounds = Rounds(five)

    def fifty() -> None:
        for _ in range(50):
            rounds.round()

    def fit() -> object:
        return LogisticRegression(solver="newton-cholesky", C=SCALE / len(y) / L2, fit_intercept=False).fit(X, y)

    ours, peer, read = interleaved(5, fifty, fit, read_once(*raw(X, y)))
    yield Figure(
        "Adult, 50 rounds of 5 agents",
        "ms",
        1e3 * ours,
        1e3 * 50 * read,
        "reading the rows once a round",
        1e3 * peer,
        "one scikit-learn newton-cholesky fit of the pooled rows without noise, tolerance 1e-4",
    )
    for d in (10, 100, 1000):
        yield compared(f"5 agents x 2,000 dense rows, d = {d:,}", made_up(5, 2000, d), 1e-5, 3, "d", d)
    for rows in (200, 2000, 20_000):
        name = f"5 agents x {rows:,} dense rows, d = 100"
        yield compared(name, made_up(5, rows, 100), 1e-5, 3, "rows", rows)
    for agents in (5, 50, 500):
        name = f"{agents} agents x {40_000 // agents:,} dense rows, d = 50"
        yield compared(name, made_up(agents, 40_000 // agents, 50), 1e-5, 3, "agents", agents)
