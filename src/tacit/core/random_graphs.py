"""The random parts of graphs, as arrays of pairs."""

from __future__ import annotations

import random

import numpy as np

_FEW_STUBS = 100_000  # up to here networkx draws regular graphs, and a seed gives the graph that it always gave


def random_tree(n: int, seed: int) -> np.ndarray:
    """A uniform random tree of n agents, (n-1, 2): that of a uniform Pruefer sequence. In each step the smallest leaf
    is tied to the next agent of the sequence and taken off.

    >>> random_tree(5, seed=42).tolist()
    [[1, 0], [3, 0], [0, 2], [2, 4]]
    """
    if n == 1:
        return np.empty((0, 2), dtype=np.int64)
    below = random.Random(seed).randrange
    sequence = [below(n) for _ in range(n - 2)]
    degree = (1 + np.bincount(sequence, minlength=n)).tolist() if sequence else [1] * n
    smallest = leaf = degree.index(1)  # all leaves below `smallest` are off, but perhaps for `leaf`
    leaves = []
    for parent in sequence:
        leaves.append(leaf)
        degree[parent] -= 1
        if degree[parent] == 1 and parent < smallest:
            leaf = parent
        else:
            smallest = leaf = degree.index(1, smallest + 1)
    return np.array([[*leaves, leaf], [*sequence, n - 1]]).T


# Pairs of agents have ranks, in the order (0, 1), (0, 2), ..., (1, 2), ...


def _ranks(n: int, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranks of all (i, i+1), and those of the given pairs, sorted."""
    i = np.arange(n, dtype=np.int64)
    first = i * (2 * n - i - 1) // 2
    low, high = np.minimum(*pairs.T).astype(np.int64), np.maximum(*pairs.T).astype(np.int64)
    return first, np.sort(first[low] + high - low - 1)


def further(n: int, chosen: np.ndarray, missing: int, rng: np.random.Generator) -> np.ndarray:
    """So many random pairs of n agents that are none of the chosen ones, (missing, 2)."""
    first, taken = _ranks(n, chosen)
    ranks = np.sort(rng.choice(n * (n - 1) // 2 - len(taken), missing, replace=False))  # among those that are left
    ranks += np.searchsorted(taken - np.arange(len(taken)), ranks, side="right")  # those taken are skipped
    low = np.searchsorted(first[:-1], ranks, side="right") - 1
    return np.stack([low, ranks - first[low] + low + 1], axis=1)


def others(n: int, pairs: np.ndarray) -> np.ndarray:
    """All pairs of n agents but the given ones, sorted.

    >>> others(3, np.array([[0, 2]])).tolist()
    [[0, 1], [1, 2]]
    """
    left = np.ones(n * (n - 1) // 2, dtype=bool)
    left[_ranks(n, pairs)[1]] = False
    i = np.arange(n, dtype=np.int32)
    every = np.empty((len(left), 2), dtype=np.int32)
    every[:, 0] = np.repeat(i, i[::-1])
    every[:, 1] = np.concatenate([i[:0], *(i[k:] for k in range(1, n))])
    return every[left] if len(pairs) else every


def random_regular(n: int, degree: int, seed: int) -> np.ndarray:
    """A random graph in which every agent has so many neighbours, (n degree/2, 2): by pairing stubs at random and, as
    long as some would make a loop or a double edge, pairing those again (Steger and Wormald 1999)."""
    if n * degree <= _FEW_STUBS:
        import networkx as nx  # takes a quarter of a second: only where it is used

        return np.array(nx.random_regular_graph(degree, n, seed=seed).edges, dtype=np.int64).reshape(-1, 2)
    rng = np.random.default_rng(seed)
    while True:
        found = _paired(n, degree, rng)
        if found is not None:
            return np.stack([found // n, found % n], axis=1)


def _paired(n: int, degree: int, rng: np.random.Generator) -> np.ndarray | None:
    """The edges a, b as numbers a n + b, sorted; None if the stubs that are left cannot be paired."""
    edges, stubs = np.empty(0, dtype=np.int64), np.tile(np.arange(n), degree)
    while len(stubs):
        pairs = np.sort(rng.permutation(stubs).reshape(-1, 2), axis=1)
        key = pairs[:, 0] * n + pairs[:, 1]
        fresh = np.zeros(len(key), dtype=bool)
        fresh[np.unique(key, return_index=True)[1]] = True  # of equal ones the first
        fresh &= pairs[:, 0] != pairs[:, 1]
        fresh &= ~_among(edges, key)
        edges = np.union1d(edges, key[fresh])
        stubs = pairs[~fresh].ravel()
        if len(stubs) and not _can_go_on(n, edges, np.unique(stubs)):
            return None
    return edges


def _can_go_on(n: int, edges: np.ndarray, left: np.ndarray) -> bool:
    """Whether two of the agents that are left are not neighbours yet."""
    return any(not _among(edges, a * n + left[k + 1 :]).all() for k, a in enumerate(left))


def _among(edges: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Which of the numbers are among the sorted edges."""
    if not len(edges):
        return np.zeros(len(key), dtype=bool)
    return edges[np.searchsorted(edges, key).clip(max=len(edges) - 1)] == key
