"""A million agents on this machine: one process with two threads, and Ray with two shards of one thread each.

    python benchmarks/scale.py [--agents 1000000] [--rounds 20] [--out scale.json]
    python benchmarks/scale.py --each    # the CPU time of a round for each agent, with one thread

Every agent has 20 rows of 20 features and 4 neighbours on a random regular graph; the method is plain ADMM, measured at
the start and at the end. Each way runs in a process of its own. Its memory is the sum over all its processes, Ray's
own among them, where memory that several share counts once (PSS); the largest of samples, one a second. Its CPU time is
that of all its processes. "rounds" is the time from the end of the first round to the end of the last but one; to
start, to compile, to send the records to the shards, to measure and to end are the rest. Models must be equal to the
last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROWS, FEATURES, DEGREE, SHARDS, PENALTY = 20, 20, 4, 2, 0.5
TICK = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield root
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def cpu_seconds(root: int) -> float:
    """Of a process, of all that it has started, and of those of them that have ended."""
    total = 0
    for pid in tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICK


def memory(root: int) -> int:
    """Bytes of a process and all that it has started."""
    total = 0
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def made_up(agents: int, rows: int) -> Any:
    """A problem with rows of norm 1 and noisy labels."""
    import tacit

    rng = np.random.default_rng(0)
    X = rng.normal(size=(agents * rows, FEATURES))
    for first in range(0, len(X), 1_000_000):  # a copy of all rows would be the largest part of the memory
        X[first : first + 1_000_000] /= np.linalg.norm(X[first : first + 1_000_000], axis=1, keepdims=True)
    y = np.where(X @ rng.normal(size=FEATURES) + 0.3 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    return tacit.Problem.stacked(X, y, np.full(agents, rows), l2=0.01)


def cost() -> None:
    """Prints the CPU time of a round for each agent."""
    import tacit

    os.environ["NUMBA_NUM_THREADS"] = "1"
    method, rounds = tacit.algorithms.ConsensusADMM(penalty=PENALTY), 12
    for agents, rows in ((2000, ROWS), (200, 1000)):
        marks: list[float] = []
        tacit.simulate(
            method,
            made_up(agents, rows),
            tacit.Graph.ring(agents),
            rounds=rounds,
            measure_every=rounds,
            progress=lambda done, marks=marks: marks.append(time.process_time()),  # type: ignore[misc]
        )
        one = (marks[-2] - marks[0]) / (rounds - 2) / agents
        print(f"{rows:5} rows of {FEATURES} features: {1e6 * one:.1f} microseconds an agent and round")


def run(way: str, agents: int, rounds: int) -> dict[str, Any]:
    """One way, in this process."""
    import tacit
    from tacit.core.random_graphs import random_regular

    begun = time.perf_counter()
    problem = made_up(agents, ROWS)
    graph = tacit.Graph(agents, random_regular(agents, DEGREE, 0))
    made = time.perf_counter()
    marks: list[tuple[float, float]] = []

    def progress(done: int) -> None:
        marks.append((time.perf_counter(), cpu_seconds(os.getpid())))
        print(f"{way}: round {done} of {rounds}, {time.perf_counter() - made:.0f} s", file=sys.stderr)

    method = tacit.algorithms.ConsensusADMM(penalty=PENALTY)
    engine = tacit.engines.Ray(shards=SHARDS) if way == "ray" else None
    found = tacit.simulate(
        method, problem, graph, rounds=rounds, measure_every=rounds, engine=engine, progress=progress
    )
    ended = time.perf_counter()
    (first, first_cpu), (last, last_cpu) = marks[0], marks[-2]
    return {
        "way": way,
        "agents": agents,
        "made": made - begun,
        "simulated": ended - made,
        "to the first round": first - made,
        "a round": (last - first) / (rounds - 2),
        "CPU a round": (last_cpu - first_cpu) / (rounds - 2),
        "digest": hashlib.sha256(found.estimate.tobytes()).hexdigest(),
        "consensus error": float(found.history["consensus_error"][-1]),
    }


def watched(way: str, agents: int, rounds: int) -> dict[str, Any]:
    """One way in a process of its own, with its largest memory."""
    command = [sys.executable, __file__, "--way", way, "--agents", str(agents), "--rounds", str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        most = 0
        while child.poll() is None:
            most = max(most, memory(child.pid))
            time.sleep(1.0)
        assert child.stdout is not None
        if child.returncode:
            raise SystemExit(child.returncode)
        return json.loads(child.stdout.read().splitlines()[-1]) | {"memory": most}


def main() -> None:
    """Runs both ways and prints their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--way", choices=["one process", "ray"])  # without a watch on its memory
    parser.add_argument("--only", choices=["one process", "ray"])
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.each:
        return cost()
    if asked.way:
        print(json.dumps(run(asked.way, asked.agents, asked.rounds)))
        return
    if asked.only:
        print(json.dumps(watched(asked.only, asked.agents, asked.rounds)))
        return
    one, ray = (watched(way, asked.agents, asked.rounds) for way in ("one process", "ray"))
    assert one["digest"] == ray["digest"], "the models differ"
    for each in (one, ray):
        print(
            f"{each['way']:12} {each['a round']:8.2f} s a round, {each['CPU a round']:8.2f} s of CPU; "
            f"{each['to the first round']:6.1f} s to the first round; {each['simulated']:7.1f} s in all; "
            f"{each['memory'] / 1e9:5.2f} GB"
        )
    ratio = {name: ray[name] / one[name] for name in ("a round", "CPU a round", "simulated")}
    print("ray / one process: " + ", ".join(f"{name} {value:.2f}" for name, value in ratio.items()))
    if asked.out is not None:
        asked.out.write_text(json.dumps({"one": one, "ray": ray, "ratio": ratio}, indent=1))


if __name__ == "__main__":
    main()
