"""The fused lasso of paper 001 without a centre: DP-ADMM on totals, whose noise the organisations share, beside DP-ADMM
of one holder of all records.

    python benchmarks/summed_fused_lasso.py [--seeds 10] [--method DP-AccADMM] [--data-dir DIR]

The setting is that of `tacit reproduce dp-admm` (docs/papers/dp-admm.md) at delta = 1e-5: graph-guided fused lasso with
the logistic loss, lambda = 1e-5, rho = 1, steps of 1/(L_f + rho ||A^T A||), a9a; the graph of features is from the test
rows, which count as public. a9a comes with tacit; with --data-dir, a8a is read from that folder, too.

Both sides keep the same budget in the same number of rounds, each with the noise that it needs. The organisations have
equal parts of the rows and allow t = 1 colluder. A figure is the mean objective f(x) + g(A x) of the last x over seeds
of the noise; `ratio` is the objective without a centre over that of the centre, with the standard error of its mean.
The centre's noise is the sum of what the organisations draw, times sqrt((N - t)/N): each side has noise of its own law,
and luck with the noise is the same on both.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy comes

import argparse
import sys
from typing import Any

import numpy as np

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM, SummedDPADMM
from tacit.algorithms.summed import share_deviation
from tacit.composite import Composite, Term, graph_from_public_sample, graph_guided
from tacit.lab.papers.dp_admm_runs import RHO, ROWS, SAFE, STRENGTH, THRESHOLD
from tacit.privacy.events import Gaussian

COLLUDERS = 1
MEMBERS = (5, 10)
EPSILONS = (0.1, 1.0)
RUNS: tuple[tuple[str, type[DPADMM], dict[str, Any], int], ...] = (
    ("DP-ADMM", DPADMM, {}, 100),
    ("DP-ADMM", DPADMM, {}, 650),  # about Theorem 2's T at epsilon 0.1, with the constant of its proof
    ("DP-AccADMM", AcceleratedDPADMM, {"restart": False}, 50),
    ("DP-AccADMM", AcceleratedDPADMM, {"restart": False}, 100),
)


def central(settings: dict[str, Any], kind: type[DPADMM], problem: tacit.Problem, rounds: int, epsilon: float) -> Any:
    """The method of one holder of all records."""
    return tacit.calibrate(
        lambda budget: kind(budget=budget, **settings),
        problem,
        tacit.Graph.ring(1),
        rounds,
        epsilon=epsilon,
        delta=SAFE,
    )


def summed(settings: dict[str, Any], kind: type[DPADMM], problem: tacit.Problem, rounds: int, epsilon: float) -> Any:
    """The method of several."""

    def make(budget: Gaussian) -> SummedDPADMM:
        deviation = share_deviation(problem, budget, colluders=COLLUDERS, dropouts=0, row_norm=settings["row_norm"])
        return SummedDPADMM(method=kind(**settings), deviation=deviation, colluders=COLLUDERS)

    graph = tacit.Graph.complete(problem.agents)
    return tacit.calibrate(make, problem, graph, rounds, epsilon=epsilon, delta=SAFE)


def objectives(
    one: DPADMM, whole: Composite, several: SummedDPADMM, problem: tacit.Problem, rounds: int, seeds: int
) -> np.ndarray:
    """(seeds, 2) of the last x: of the centre, and without one."""
    found, N = [], problem.agents
    assert several.deviation is not None
    for seed in range(seeds):
        shares = np.random.default_rng([N, seed]).normal(size=(rounds, N, problem.dimension))
        total = shares.sum(axis=1, keepdims=True) / np.sqrt(N)
        pair = [
            tacit.simulate(method, rows, graph, rounds=rounds, noise=tacit.RecordedNoise(noise), measure_every=rounds)
            for method, rows, graph, noise in (
                (one, whole.problem, tacit.Graph.ring(1), one.sigma(whole.problem) * total),
                (several, problem, tacit.Graph.complete(N), several.deviation * shares),
            )
        ]
        found.append([whole.value(run.estimate[0]) for run in pair])
        print(".", end="", file=sys.stderr, flush=True)
    print("", file=sys.stderr)
    return np.array(found)


def table(name: str, train: Any, test: Any, seeds: int, chosen: str | None) -> None:
    """One line for each method, budget and number of organisations."""
    rows = tacit.composite.clipped(train.X, ROWS[name])
    order = np.random.default_rng(0).permutation(len(train))
    term: Term = graph_guided(graph_from_public_sample(test.X, THRESHOLD), STRENGTH)
    whole = tacit.Problem([(rows, train.y)])
    composite = Composite(whole, term)
    step = float(DPADMM(term=term, penalty=RHO, row_norm=ROWS[name]).step_size(whole)[0, 0])
    shared = {"term": term, "penalty": RHO, "step": step, "row_norm": ROWS[name]}
    parts = {}
    for members in MEMBERS:
        pieces = np.array_split(order, members)
        sizes = np.array([len(piece) for piece in pieces])
        scale = sizes / sizes.mean()  # every row counts alike
        parts[members] = tacit.Problem([(rows[piece], train.y[piece]) for piece in pieces], scale=scale)
    print(f"\n{name}: {len(train):,} rows, {seeds} seeds, t = {COLLUDERS}, delta = {SAFE:g}\n")
    print("| method | rounds | epsilon | one centre | N | without a centre | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, kind, further, rounds in [run for run in RUNS if chosen in (None, run[0])]:
        settings = shared | further
        for epsilon in EPSILONS:
            one = central(settings, kind, whole, rounds, epsilon)
            for members, problem in parts.items():
                several = summed(settings, kind, problem, rounds, epsilon)
                found = objectives(one, composite, several, problem, rounds, seeds)
                centre, without = found.mean(axis=0)
                ratios = found[:, 1] / found[:, 0]
                error = ratios.std(ddof=1) / np.sqrt(seeds)
                print(
                    f"| {title} | {rounds} | {epsilon:g} | {centre:.4f} | {members} | {without:.4f} | "
                    f"{ratios.mean():.4f} ± {error:.4f} |",
                    flush=True,
                )


def main() -> None:
    """Prints a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--method", choices=sorted({run[0] for run in RUNS}), help="only this method")
    parser.add_argument(
        "--data-dir", help="a folder with a8a; without it only a9a is run, from the embedded Adult data"
    )
    arguments = parser.parse_args()
    print("a9a is built from the Adult data that tacit embeds; its rows and labels are LIBSVM's.")
    table("a9a", *tacit.data.a9a(), arguments.seeds, arguments.method)
    if arguments.data_dir is not None:
        table("a8a", *tacit.data.load("a8a", arguments.data_dir), arguments.seeds, arguments.method)


if __name__ == "__main__":
    main()
