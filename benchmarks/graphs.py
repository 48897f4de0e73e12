"""Many agents: how long graphs and plans take, and a whole run, with the memory at its peak.

    python benchmarks/graphs.py                     graphs and plans
    python benchmarks/graphs.py complete            those with this word in their names
    python benchmarks/graphs.py --run 1000000       a run of so many agents, 20 rows of 20 features each, 20 rounds

Every line has a process of its own. Times are processor time.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator

import networkx as nx
import numpy as np
from timing import Figure, interleaved

from tacit import Facts, Graph, Pure, plan, simulate
from tacit.algorithms import ConsensusADMM, DualPerturbedADMM
from tacit.core.problem import Problem

ROWS = FEATURES = 20


def planned(agents: int) -> None:
    """A plan of 100 rounds on a ring, and its cost."""
    graph, facts = Graph.ring(agents), Facts(sizes=np.full(agents, 8000), dimension=20, l2=0.1)
    plan(DualPerturbedADMM(penalty=0.1, budget=Pure(0.1)), facts, graph, rounds=100).epsilon(1e-5)


CASES: dict[str, Callable[[], object]] = {
    "nothing but the imports": lambda: None,
    "complete, 5,000 agents": lambda: Graph.complete(5_000),
    "random, 10,000 agents, 40,000 edges": lambda: Graph.random(10_000, 40_000),
    "random, 1,000,000 agents, 4,000,000 edges": lambda: Graph.random(1_000_000, 4_000_000),
    "ring, 1,000,000 agents": lambda: Graph.ring(1_000_000),
    "4-regular and 4-connected, 1,000,000 agents": lambda: Graph.regular(1_000_000, 4),
    "plan of 100 rounds, 50,000 agents": lambda: planned(50_000),
    "plan of 100 rounds, 1,000,000 agents": lambda: planned(1_000_000),
}


def figures() -> Iterator[Figure]:
    """Seconds, beside networkx, where it can make such a graph."""
    works: dict[str, tuple[Callable[[], Graph], Callable[[], object] | None]] = {
        "complete, 1,000 agents": (lambda: Graph.complete(1000), lambda: nx.complete_graph(1000)),
        "ring, 100,000 agents": (lambda: Graph.ring(100_000), lambda: nx.cycle_graph(100_000)),
        "random, 100,000 agents, 400,000 edges": (
            lambda: Graph.random(100_000, 400_000),
            lambda: nx.gnm_random_graph(100_000, 400_000, seed=0),
        ),
        "random, 1,000,000 agents, 4,000,000 edges": (lambda: Graph.random(1_000_000, 4_000_000), None),
    }
    for name, (ours, peer) in works.items():
        edges = ours().edges.pairs
        seconds = interleaved(3, ours, edges.copy, *([] if peer is None else [peer]))
        beside = {} if peer is None else {"peer": seconds[2], "against": "networkx"}
        yield Figure(name, "s", seconds[0], seconds[1], "writing the edges once", **beside)  # type: ignore[arg-type]


def peak() -> float:
    """The memory of this process at its peak, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measured(name: str) -> None:
    """Prints one line of the table."""
    begun = time.process_time()
    CASES[name]()
    print(f"| {name} | {time.process_time() - begun:.2f} s | {peak():.2f} GB |", flush=True)


def run(agents: int, rounds: int = 20) -> None:
    """Exact ADMM of many small agents on a random 4-regular graph."""
    begun, cpu = time.time(), time.process_time()

    def say(what: str) -> None:
        print(f"{what}: {time.process_time() - cpu:.1f} s of processor, {time.time() - begun:.1f} s, {peak():.2f} GB")

    rng = np.random.default_rng(0)
    graph = Graph.regular(agents, 4)
    say("graph")
    X = rng.standard_normal((agents * ROWS, FEATURES))
    X /= np.sqrt(FEATURES)
    y = np.where(X @ rng.standard_normal(FEATURES) + 0.3 * rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    problem = Problem.stacked(X, y, np.full(agents, ROWS), l2=0.1)
    say("problem")
    done = simulate(
        ConsensusADMM(penalty=0.1),
        problem,
        graph,
        rounds=rounds,
        measure_every=rounds,
        progress=lambda k: say(f"round {k}"),
    )
    print({name: values[-1].item() for name, values in done.history.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--run", type=int, metavar="AGENTS")
    asked = parser.parse_args()
    if asked.run is not None:
        run(asked.run)
    else:
        print("| | time | memory |\n| --- | --- | --- |", flush=True)
        for name in (name for name in CASES if asked.word in name):
            process = multiprocessing.get_context("spawn").Process(target=measured, args=(name,))
            process.start()
            process.join()
