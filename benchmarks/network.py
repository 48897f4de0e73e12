"""What agents learn about each other from a token: the table and the picture of docs/privacy.md.

python benchmarks/network.py docs/images/network-privacy.png
"""

from __future__ import annotations

import sys

import numpy as np

import tacit
from tacit.algorithms import Algorithm, IncrementalADMM, TokenGradientDescent
from tacit.core.facts import Facts
from tacit.core.schedule import RandomWalk
from tacit.lab.charts import learnt_of_each_other
from tacit.privacy.network import learnt, pairwise
from tacit.privacy.plan import plan

AGENTS, CYCLES, DELTA = 20, 8, 1e-5
VISIT = tacit.Gaussian(5.0)


def main(path: str) -> None:
    """Prints a Markdown table and draws heat maps."""
    ring, facts = tacit.Graph.ring(AGENTS), Facts(sizes=[500] * AGENTS, dimension=10, l2=0.01)
    random = tacit.Graph.random(AGENTS, 60, seed=1)
    walk = RandomWalk(seed=1, choice=3)
    cases: dict[str, tuple[Algorithm, tacit.Graph]] = {
        "descent, cycle": (TokenGradientDescent(step=1.0, budget=VISIT), ring),
        "I-ADMM, rho = 1, cycle": (IncrementalADMM(penalty=1.0, budget=VISIT), ring),
        "I-ADMM, rho = 5, cycle": (IncrementalADMM(penalty=5.0, budget=VISIT), ring),
        "descent, walk": (TokenGradientDescent(step=1.0, order=walk, budget=VISIT), random),
        "I-ADMM, rho = 5, walk": (IncrementalADMM(penalty=5.0, order=walk, budget=VISIT), random),
    }
    print("| | eavesdropper | nearest | median | farthest | median, model published | median, two colluders |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    drawn = {}
    others = ~np.eye(AGENTS, dtype=bool)
    for name, (algorithm, graph) in cases.items():
        rounds = CYCLES * AGENTS
        table = pairwise(algorithm, facts, graph, rounds, DELTA)
        model = pairwise(algorithm, facts, graph, rounds, DELTA, published=True)
        opposite = [learnt(algorithm, facts, graph, rounds, DELTA, by=[j, j + AGENTS // 2]) for j in range(AGENTS // 2)]
        cells = [
            plan(algorithm, facts, graph, rounds).epsilon(DELTA),
            *(np.quantile(table[others], q) for q in (1.0, 0.5, 0.0)),
            np.median(model[others]),
            np.median([e for row in opposite for e in row if e > 0]),
        ]
        print(f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
        if name in ("descent, cycle", "I-ADMM, rho = 5, cycle", "descent, walk"):
            drawn[name] = table
    learnt_of_each_other(drawn, path, f"What agents learn of each other: {CYCLES} cycles, a visit is {VISIT}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: python {sys.argv[0]} PICTURE.png")
    main(sys.argv[1])
