"""The private token against recycled ADMM, both by their recipes, on synthetic records that the tuning did not use.

    python benchmarks/token_recipe.py

40,000 records as in `tuning.py`, with other seeds, divided among 5 and among 10 agents on a ring; epsilon = 1,
delta = 1e-5. It prints mean test errors over data sets and noise seeds: of the agents' average model, and of their own
models, which each member has at the end of a federation's run.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from tuning import AGENTS, ROWS, records

import tacit
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES

TOTAL = AGENTS * ROWS
DATA_SETS, NOISES = range(2, 5), range(3)  # the tuning uses the data sets 0 and 1


def errors(name: str, agents: int, sets: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, int]:
    """The error of the average model, the mean error of the agents' models, and the number of messages."""
    graph, share = tacit.Graph.ring(agents), TOTAL // agents
    setting = RECIPES[name].setting([share] * agents, sets[0][0].shape[1], graph, Budget(1.0, 1e-5))
    facts, average, own, messages = setting.facts, [], [], 0
    for X, y in sets:
        rows, test, truth = scipy.sparse.csr_array(X[:TOTAL]), X[TOTAL:], y[TOTAL:]
        parts = [(rows[i * share : (i + 1) * share], y[i * share : (i + 1) * share]) for i in range(agents)]
        problem = tacit.Problem(parts, loss=facts.loss, l2=facts.l2, tolerance=1e-7, radius=facts.radius)
        for seed in NOISES:
            noise = tacit.SeededNoise(seed)
            run = tacit.simulate(setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise)
            average.append(np.mean(np.sign(test @ run.model) != truth))
            own.append(np.mean(np.sign(test @ run.estimate.T) != truth[:, None]))
            messages = int(run.history["messages"][-1])
    return float(np.mean(average)), float(np.mean(own)), messages


def main() -> None:
    """Prints the table."""
    sets = [records(seed) for seed in DATA_SETS]
    print("agents  method   average model  own models  messages")
    for agents in (5, 10):
        for name in ("mr-admm", "pi-admm"):
            average, own, messages = errors(name, agents, sets)
            print(f"{agents:6}  {name:7} {average:14.4f} {own:11.4f} {messages:9}", flush=True)


if __name__ == "__main__":
    main()
