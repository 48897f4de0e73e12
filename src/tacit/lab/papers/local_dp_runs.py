"""Paper 003's experiments: the rows of Adult as Appendix E has them, instances, and what is seen of a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import Part, Problem
from tacit.data import adult_table
from tacit.lab.papers.experiment import Lab
from tacit.privacy.noise import SeededNoise
from tacit.privacy.transcript import RandomAggregation, epsilon_of_transcript
from tacit.simulation.result import Run
from tacit.simulation.simulate import simulate

ROWS = 100  # of each agent


class Instance(NamedTuple):
    """The rows, graph and noise of one run."""

    problem: Problem
    graph: Graph
    optimum: np.ndarray
    seed: int


def instances(lab: Lab, agents: int, edges: int) -> Iterator[Instance]:
    """One for each run of the size."""
    for seed in range(lab.size.runs):
        problem = Problem(parts(agents, seed), l2=1.0)
        yield Instance(problem, Graph.random(agents, edges, seed), problem.optimum(), seed)


def parts(agents: int, seed: int, padding: int = 0) -> list[Part]:
    """Other rows for each seed, with `padding` columns of zeros."""
    X, y = rows()
    chosen = np.random.default_rng(seed).permutation(len(y))[: agents * ROWS].reshape(agents, ROWS)
    X = np.concatenate([X, np.zeros((len(X), padding))], axis=1) if padding else X
    return [(X[part], y[part]) for part in chosen]


@cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    """The complete records, (45222, 14), and their labels, -1 and +1."""
    columns = {name: np.asarray(values) for name, values in adult_table().columns.items() if name != "split"}
    known = ~np.any([values == "?" for values in columns.values()], axis=0)
    y = np.where(np.char.startswith(columns.pop("income")[known].astype(str), ">50K"), 1.0, -1.0)
    X = np.column_stack([_numbers(values[known]) for values in columns.values()])
    X = X / np.maximum(np.abs(X).max(axis=0), 1.0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def _numbers(values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(float)
    except ValueError:
        return np.unique(values, return_inverse=True)[1].astype(float)


def simulated(method: Algorithm, instance: Instance, rounds: int) -> Run:
    noise = SeededNoise(instance.seed)
    return simulate(method, instance.problem, instance.graph, rounds=rounds, noise=noise, record=True)


def distances(run: Run, instance: Instance) -> np.ndarray:
    """The distance from the optimum in every round, (rounds + 1,)."""
    assert run.trajectory is not None
    return np.linalg.norm(run.trajectory - instance.optimum, axis=2).mean(axis=1) / instance.problem.dimension


def privacy_losses(method: RandomAggregation, instance: Instance, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """epsilon(X) and its worst case after each round, means over the agents, (rounds+1,) each."""
    found, worst = epsilon_of_transcript(method, instance.problem, instance.graph, run)
    mine, bound = (np.concatenate([[0.0], np.cumsum(x.mean(axis=1))]) for x in (found.look(), worst))
    return mine, bound
