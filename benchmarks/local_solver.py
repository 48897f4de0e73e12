"""Speed of the exact local solver, as ratios measured in one run on the embedded Adult data.

    python benchmarks/local_solver.py

The private regime: 40,000 training rows, scale 1750, penalty 1, a random linear term of norm 50 redrawn in every
round, gradient norm at most 1e-9. Times are medians. The compared programs run in turns, so a busy machine slows both.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from timing import interleaved

import tacit
from tacit.data import adult, partition

SCALE, L2, PENALTY, NOISE = 1750.0, 0.044, 1.0, 50.0


class PrivateRounds:
    """Rounds of (8) with a fresh random linear term each, warm-started from the last."""

    def __init__(self, parts: list[tuple[Any, Any]]) -> None:
        self.problem = tacit.Problem(parts, scale=SCALE, l2=L2)
        self.f = np.zeros((self.problem.agents, self.problem.dimension))
        self.rng = np.random.default_rng(0)
        self.round()  # compiles, and computes what depends on the data alone

    def draw(self) -> np.ndarray:
        """A random linear term of the same norm for each agent."""
        noise = self.rng.normal(size=self.f.shape)
        return noise * NOISE / np.linalg.norm(noise, axis=1, keepdims=True)

    def round(self) -> None:
        """The exact minimisers of all agents, on a ring (two neighbours each)."""
        centre = self.f.mean(axis=0)
        self.f = self.problem.argmin(self.draw(), 2 * PENALTY, centre, start=self.f)


def lbfgs_round(parts: list[tuple[Any, Any]], linear: np.ndarray, centre: np.ndarray, f: np.ndarray) -> float:
    """The script that a researcher would write: dense, L-BFGS-B for each agent. Gives the largest gradient norm."""
    worst = 0.0
    for i, (X, y) in enumerate(parts):
        weight = SCALE / len(y)

        def objective(x, X=X, y=y, i=i, weight=weight):  # type: ignore[no-untyped-def]
            m = y * (X @ x)
            value = weight * np.logaddexp(0, -m).sum() + L2 / 2 * x @ x
            value += linear[i] @ x + 2 * PENALTY * ((x - centre) ** 2).sum()
            gradient = X.T @ (-weight * y / (1 + np.exp(m))) + L2 * x + linear[i] + 4 * PENALTY * (x - centre)
            return value, gradient

        options = {"maxiter": 10_000, "maxfun": 10_000, "gtol": 1e-10, "ftol": 0.0, "maxls": 50}
        found = scipy.optimize.minimize(objective, f[i], jac=True, method="L-BFGS-B", options=options)
        worst = max(worst, float(np.linalg.norm(objective(found.x)[1])))
    return worst


def many_agents() -> None:
    """10,000 agents x 50 rows x 100 features, in a process of its own that reports its peak memory."""
    rng = np.random.default_rng(0)
    parts: list[tuple[Any, Any]] = []
    for _ in range(10_000):
        X = rng.normal(size=(50, 100))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        parts.append((X, np.sign(rng.normal(size=50))))
    rounds = PrivateRounds(parts)
    (seconds,) = interleaved(3, rounds.round)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"10,000 agents x 50 rows x 100 features: {seconds:.2f} s a round, peak memory {peak:.2f} GB (limit 4)")


def main() -> None:
    """Prints the ratios."""
    train, _ = adult("paper").split(train=40_000, seed=0)
    X: Any = train.X
    y: Any = train.y
    five_parts: list[tuple[Any, Any]] = train.parts(partition.equal(len(y), 5))
    five = PrivateRounds(five_parts)
    thousand_parts: list[tuple[Any, Any]] = train.parts(partition.equal(len(y), 2000))
    thousands = PrivateRounds(thousand_parts)
    w = np.random.default_rng(1).normal(size=X.shape[1])

    def gradient_pass() -> object:
        return X.T @ (-y / (1 + np.exp(y * (X @ w))))

    print(f"Adult, {X.shape[0]:,} x {X.shape[1]}, {X.nnz / X.shape[0]:.1f} non-zeros a row; gradient norm <= 1e-9")

    def twenty_passes() -> None:
        for _ in range(20):  # with the data in the cache, as it is for most of a round
            gradient_pass()

    one, many, twenty = interleaved(40, five.round, thousands.round, twenty_passes)
    print(f"one exact round, N=5: {one * 1e3:.1f} ms; one gradient pass: {twenty / 20 * 1e3:.2f} ms")
    print(f"one exact round / one gradient pass (scipy CSR): {one / (twenty / 20):.1f} (limit 25, aim 12)")
    print(f"a round of 2,000 agents / a round of 5, same rows: {many / one:.2f} (limit 3)")

    def pooled_fit() -> object:
        return LogisticRegression(solver="newton-cholesky", C=SCALE / len(y) / L2, fit_intercept=False).fit(X, y)

    def fifty_rounds() -> None:
        for _ in range(50):
            five.round()

    pooled_fit()
    fifty, fit = interleaved(5, fifty_rounds, pooled_fit)
    print(f"50 rounds / one scikit-learn newton-cholesky fit on the pooled data: {fifty / fit:.1f} (limit 8, aim 4)")

    dense_parts = [(A.toarray() if scipy.sparse.issparse(A) else A, b) for A, b in five_parts]
    worst = 0.0

    def script() -> None:
        nonlocal worst
        worst = max(worst, lbfgs_round(dense_parts, five.draw(), five.f.mean(axis=0), five.f))

    ours, theirs = interleaved(3, five.round, script)
    print(f"scipy L-BFGS-B per agent, dense / one exact round: {theirs / ours:.0f} (at least 30)")
    print(f"  (L-BFGS-B stopped at gradient norm {worst:.1e}; ours is at most 1e-9)")
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, "--many-agents"], check=True)


if __name__ == "__main__":
    many_agents() if sys.argv[1:] == ["--many-agents"] else main()
