"""CPU seconds to choose and plan a run, for every recipe.

    OMP_NUM_THREADS=1 python benchmarks/plans.py [--agents 5] [--rows 8000] [--epsilon 1] [--limit 120] [METHOD ...]

Each method has a process of its own, which is ended after so many CPU seconds. "plans" leaves out imports and the loss
distributions of `dp-accounting`, which have a column of their own. From 20,000 agents on, tokens walk at random for as
many rounds as a run may have: a cycle has too many.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

DELTA, DIMENSION, WALKED = 1e-5, 104, 20_000


def seconds(name: str, agents: int, rows: int, epsilon: float) -> str:
    """The CPU seconds of the plans of one method, those of loss distributions, and what was planned."""
    import numpy as np
    from dp_accounting.pld import privacy_loss_distribution  # noqa: F401  (imports do not count)

    import tacit
    from tacit.algorithms import Algorithm, IncrementalADMM, RandomWalk, TokenGradientDescent
    from tacit.core.facts import Facts
    from tacit.privacy import accounting
    from tacit.privacy.plan import calibrate, plan
    from tacit.run.budget import Budget
    from tacit.run.recipes import RECIPES
    from tacit.run.trust import LOCAL, Trust

    apart, compose = [0.0], accounting._composed

    def composed(*given: object) -> float:
        start = time.process_time()
        try:
            return compose(*given)  # type: ignore[arg-type]
        finally:
            apart[0] += time.process_time() - start

    accounting._composed = composed  # type: ignore[assignment]
    recipe = RECIPES[name]
    recipe.loss.value(np.zeros(2), np.array([-1.0, 1.0]))  # loads numba
    agents = 1 if recipe.traits.alone else agents
    graph = tacit.Graph.ring(agents) if agents < WALKED else tacit.Graph.random(agents, 4 * agents)
    graph.mixing_rounds()  # eigenvalues do not count
    sizes = [rows] * agents
    method: Algorithm
    start = time.process_time()
    if recipe.traits.token and agents >= WALKED:
        facts, rounds = Facts(sizes=sizes, dimension=DIMENSION, loss=recipe.loss, l2=1e-5), 100_000
        walk = RandomWalk()
        method = calibrate(
            lambda budget: (
                TokenGradientDescent(step=0.1, order=walk, budget=budget)
                if name == "token-gd"
                else IncrementalADMM(penalty=0.1, order=walk, budget=budget)
            ),
            facts,
            graph,
            rounds,
            epsilon=epsilon,
            delta=DELTA,
        )
    else:
        trust = Trust(1) if recipe.traits.totals else LOCAL
        found = recipe.setting(sizes, DIMENSION, graph, Budget(epsilon, DELTA), trust)
        method, facts, rounds = found.algorithm, found.facts, found.rounds
    total = plan(method, facts, graph, rounds).epsilon(DELTA)
    spent = time.process_time() - start
    return f"{spent - apart[0]:8.2f} {apart[0]:8.2f} {rounds:8,} {total:.10f}"


def main() -> None:
    """One line for each method."""
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(seconds(given.methods[0], given.agents, given.rows, given.epsilon))
        return
    from tacit.run.recipes import RECIPES

    print(f"{'method':18} {'plans':>8} {'losses':>8} {'rounds':>8} epsilon")
    for name in given.methods or RECIPES:
        options = [f"--agents={given.agents}", f"--rows={given.rows}", f"--epsilon={given.epsilon}"]
        command = [sys.executable, __file__, name, "--one", *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (given.limit, given.limit)),
        )
        last = done.stderr.strip().splitlines()
        said = done.stdout.strip() if done.returncode == 0 else (last[-1] if last else f"more than {given.limit} s")
        print(f"{name:18} {said}", flush=True)


if __name__ == "__main__":
    main()
