"""How many passes over the data an exact round takes, by number of features, spectrum and penalty.

    OMP_NUM_THREADS=1 python benchmarks/solver_sizes.py [D ...]

The private regime of local_solver.py: scale 1750, a random linear term of norm 50 redrawn in every round, started from
the last round's minimiser, gradient norm at most 1e-9 (computed again by numpy). One agent. A pass is one gradient
(X f and X^T s) by the same library. Both are CPU time: a figure is the median of three rounds, after a first one from
zero, over the median of nine passes.

- dense rows: i.i.d. normal, or with eigenvalues 1/k or 1/k^2 of the covariance, rotated by random signs and cosine
  transforms; all divided by the norm of the longest row.
- sparse rows: 50 numbers in each, columns of that variance, each row divided by its norm.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse

import tacit

SCALE, NOISE, NUMBERS = 1750.0, 50.0, 50
SIZES = {100: 20_000, 300: 20_000, 1000: 20_000, 2000: 20_000, 5000: 10_000, 10_000: 5_000}  # dense rows, for memory
SPECTRA = {"i.i.d.": 0.0, "1/k": 1.0, "1/k^2": 2.0}
PENALTIES = (0.02, 4.044)  # rho


def dense_rows(n: int, d: int, power: float, rng: np.random.Generator) -> np.ndarray:
    """Rows whose covariance has the eigenvalues k^-power, rotated."""
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** (-power / 2)
    for _ in range(2 if power else 0):
        X *= rng.choice([-1.0, 1.0], size=d)
        for first in range(0, n, 1000):
            X[first : first + 1000] = scipy.fft.dct(X[first : first + 1000], norm="ortho", axis=1)
    X /= np.linalg.norm(X, axis=1).max()
    return X


def sparse_rows(n: int, d: int, power: float, rng: np.random.Generator) -> Any:
    """Rows with NUMBERS numbers each, of columns with the variances k^-power, of norm 1."""
    columns = np.sort(rng.random((n, d)).argpartition(NUMBERS, axis=1)[:, :NUMBERS]) if d <= 1000 else None
    if columns is None:  # with so many columns few numbers fall on the same one, and those add up
        columns = np.sort(rng.integers(d, size=(n, NUMBERS)))
    numbers = rng.normal(size=(n, NUMBERS)) * (columns + 1.0) ** (-power / 2)
    places = (columns.ravel(), np.arange(0, n * NUMBERS + 1, NUMBERS))
    X = scipy.sparse.csr_array((numbers.ravel(), *places), shape=(n, d))
    X.sum_duplicates()
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.sqrt((X**2).sum(axis=1))) @ X)


def cpu_seconds(work: Callable[[], object]) -> float:
    """What one call takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def passes(X: Any, y: np.ndarray, rho: float) -> str:
    """The figure of one case, or why there is none."""
    problem = tacit.Problem([(X, y)], scale=SCALE, l2=rho)
    rng, d = np.random.default_rng(1), X.shape[1]
    f = np.zeros((1, d))
    rounds: list[float] = []
    for _ in range(4):
        b = rng.normal(size=d)
        b *= NOISE / np.linalg.norm(b)
        begin = time.process_time()
        try:
            f = problem.argmin(b, 0.0, 0.0, start=f)
        except tacit.NotConverged:
            return "none"
        rounds.append(time.process_time() - begin)
        slope = -y / (1 + np.exp(np.minimum(y * (X @ f[0]), 700)))
        norm = np.linalg.norm(SCALE / len(y) * (X.T @ slope) + rho * f[0] + b)
        assert norm <= 1.1e-9, norm
    one = statistics.median(cpu_seconds(lambda: problem.gradient(f)) for _ in range(9))
    return f"{statistics.median(rounds[1:]) / one:.0f}"


def compile_kernels() -> None:
    """So that no figure has the compiler in it."""
    rng = np.random.default_rng(0)
    for d in (100, 300):
        for X in (dense_rows(400, d, 0.0, rng), sparse_rows(400, d, 0.0, rng)):
            tacit.Problem([(X, np.sign(rng.normal(size=400)))], l2=1.0).gradient(np.zeros(d))
            tacit.Problem([(X, np.sign(rng.normal(size=400)))], l2=1.0).argmin(1.0, 0.0, 0.0)


def main(sizes: list[int]) -> None:
    """Prints a table in Markdown."""
    compile_kernels()
    print(
        "| features | rows | penalty | " + " | ".join(f"{kind}, {s}" for kind in ("dense", "sparse") for s in SPECTRA)
    )
    print("| --- " * (3 + 2 * len(SPECTRA)) + "|")
    for d in sizes:
        figures: dict[float, list[str]] = {rho: [] for rho in PENALTIES}
        for make, n in ((dense_rows, SIZES[d]), (sparse_rows, 20_000)):
            for power in SPECTRA.values():
                rng = np.random.default_rng(0)
                X = make(n, d, power, rng)
                margins = X @ rng.normal(size=d)
                y = np.where(margins + 0.1 * margins.std() * rng.normal(size=n) > 0, 1.0, -1.0)
                for rho in PENALTIES:
                    figures[rho].append(passes(X, y, rho))
        for rho, row in figures.items():
            print(f"| {d:,} | {SIZES[d]:,}, 20,000 | {rho:g} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main([int(d) for d in sys.argv[1:]] or list(SIZES))
