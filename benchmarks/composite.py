"""Speed of DP-ADMM, as ratios measured in one run. The compared programs run in turns; the smallest time counts.

    python benchmarks/composite.py [--data-dir DIR]

Without a folder that holds ijcnn1, the benchmark uses made-up rows of the same shape: 49,990 x 22, 13 values a row. All
programs use one thread.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits
from timing import interleaved

import tacit
from tacit.algorithms import DPADMM
from tacit.composite import Term, clipped, graph_from_public_sample, graph_guided
from tacit.data import a9a, load
from tacit.privacy.noise import Noise

ALONE = tacit.Graph.ring(1)
BUDGET = tacit.Gaussian(50.0)


def one_iteration(rounds: int = 200, repeats: int = 7) -> None:
    """A private iteration on a9a over a gradient pass over the same CSR rows."""
    train, test = a9a()
    problem = tacit.Problem([(train.X, train.y)])
    term = graph_guided(graph_from_public_sample(test.X, 0.5), 1e-5)
    method = DPADMM(term=term, row_norm=math.sqrt(14), budget=BUDGET)
    X, y = scipy.sparse.csr_array(train.X), train.y
    x = np.zeros(X.shape[1])
    assert y is not None

    def private(noise: Noise) -> None:
        tacit.simulate(method, problem, ALONE, rounds=rounds, noise=noise, measure_every=rounds)

    def ours() -> None:
        for _ in range(rounds):
            problem.gradient(x)

    def by_scipy() -> None:
        for _ in range(rounds):
            X.T @ (-y / (1 + np.exp(y * (X @ x)))) / len(y)

    ours()  # compiles
    seeded, secure, own, scipys = (
        1e3 * seconds / rounds
        for seconds in interleaved(
            repeats, lambda: private(tacit.SeededNoise(0)), lambda: private(tacit.SecureNoise()), ours, by_scipy, of=min
        )
    )
    print(f"a9a, 32,561 x 123: one gradient pass over the CSR rows: {own:.2f} ms (scipy: {scipys:.2f} ms)")
    print(f"one DP-ADMM iteration / one gradient pass: {seeded / own:.2f} seeded, {secure / own:.2f} secure (limit 3)")
    print(f"                      / one pass by scipy: {seeded / scipys:.2f} seeded, {secure / scipys:.2f} secure")


def in_dense_numpy(
    X: np.ndarray, y: np.ndarray, term: Term, row_norm: float, noise: np.ndarray, by_record: bool = False
) -> np.ndarray:
    """The same method: dense rows, a dense A, textbook formulas. `by_record` averages the records' gradients."""
    A, (n, d) = term.A.toarray(), X.shape
    step = 1 / (row_norm**2 / 4 + term.norm)
    strength = term.g.strength  # type: ignore[attr-defined]
    x, u = np.zeros(d), np.zeros(len(A))
    for P in noise:
        v = A @ x + u
        z = np.sign(v) * np.maximum(np.abs(v) - strength, 0)
        slope = -y / (1 + np.exp(y * (X @ x)))
        gradient = np.mean(slope[:, None] * X, axis=0) if by_record else X.T @ slope / n
        x = x - step * (gradient + P + A.T @ (v - z))
        u = u + A @ x - z
    return x


def many_iterations(X: scipy.sparse.csr_array, y: np.ndarray, row_norm: float, what: str, rounds: int) -> None:
    """A whole run against dense numpy."""
    rows, d = clipped(X, row_norm), X.shape[1]
    dense = rows.toarray()
    problem = tacit.Problem([(rows, y)])
    term = graph_guided(graph_from_public_sample(rows[:1000], 0.5), 1e-5)
    method = DPADMM(term=term, row_norm=row_norm, budget=BUDGET)
    sigma = float(method.sigma(problem)[0, 0])
    noise = sigma * np.random.default_rng(0).normal(size=(50, 1, d))
    ours = tacit.simulate(method, problem, ALONE, rounds=50, noise=tacit.RecordedNoise(noise), measure_every=50).model
    np.testing.assert_allclose(in_dense_numpy(dense, y, term, row_norm, noise[:, 0]), ours, atol=1e-10)  # the same

    def by_tacit() -> None:
        tacit.simulate(method, problem, ALONE, rounds=rounds, noise=tacit.SeededNoise(0), measure_every=rounds)

    def by_numpy(by_record: bool = False) -> None:
        drawn = sigma * np.random.default_rng(0).normal(size=(rounds, d))
        in_dense_numpy(dense, y, term, row_norm, drawn, by_record)

    own, products, records = interleaved(3, by_tacit, by_numpy, lambda: by_numpy(by_record=True), of=min)
    filled = X.nnz / math.prod(X.shape)
    print(f"{what}, {X.shape[0]:,} x {d}, {filled:.0%} not zero, T = {rounds:,}: tacit {own:.2f} s")
    print(f"  dense numpy by matrix products / tacit: {products / own:.2f} (aim 5 on ijcnn1)")
    print(f"  dense numpy that averages the records' gradients / tacit: {records / own:.2f}")


def ijcnn1(data_dir: str | None) -> tuple[scipy.sparse.csr_array, np.ndarray, float, str]:
    """The training rows, or made-up ones of the same shape; their labels; the norm to clip them to; a name."""
    if data_dir is not None:
        train, _ = load("ijcnn1", data_dir)
        assert train.y is not None
        return scipy.sparse.csr_array(train.X), train.y, 2.0, "ijcnn1"
    rng = np.random.default_rng(0)
    n, d, each = 49_990, 22, 13
    places = np.argsort(rng.random((n, d)), axis=1)[:, :each]
    values = rng.uniform(-0.7, 0.7, size=n * each)
    X = scipy.sparse.csr_array((values, places.ravel(), np.arange(0, n * each + 1, each)), shape=(n, d))
    X.sort_indices()
    return X, np.where(X @ rng.normal(size=d) > 0.5, 1.0, -1.0), 2.0, "made-up rows of ijcnn1's shape"


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="the folder of ijcnn1")
    data_dir = parser.parse_args().data_dir
    train, _ = a9a()
    assert train.y is not None
    with threadpool_limits(1):
        one_iteration()
        many_iterations(*ijcnn1(data_dir), rounds=1000)
        many_iterations(scipy.sparse.csr_array(train.X), train.y, math.sqrt(14), "a9a", rounds=200)


if __name__ == "__main__":
    main()
