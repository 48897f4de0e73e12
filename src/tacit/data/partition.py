"""Which agent holds which rows: one index array for each agent; together they cover every row exactly once."""

from collections.abc import Sequence

import numpy as np

from tacit.data.strings import Strings
from tacit.errors import InputError

_DRAWS = 100  # a Dirichlet draw that leaves some agent without rows is thrown away this often before giving up
__all__ = ["by_column", "by_place", "dirichlet", "equal"]


def equal(rows: int, agents: int, seed: int = 0) -> list[np.ndarray]:
    """Shuffled parts whose sizes differ by at most one.

    >>> [len(part) for part in equal(rows=7, agents=3)]
    [3, 2, 2]
    """
    _check(rows, agents)
    return np.array_split(np.random.default_rng(seed).permutation(rows), agents)


def by_column(values: np.ndarray | Strings) -> tuple[list[np.ndarray], list[str]]:
    """One agent for each distinct value, sorted by name, and the names.

    >>> parts, names = by_column(np.array(["north", "south", "north"]))
    >>> [part.tolist() for part in parts], names
    ([[0, 2], [1]], ['north', 'south'])
    """
    _check(len(values), 1)
    found, place = Strings.of([str(value) for value in values] if isinstance(values, np.ndarray) else values).distinct()
    order = np.argsort(np.array(found))
    agent = np.argsort(order)[place]
    rows = np.argsort(agent, kind="stable")
    ends = np.cumsum(np.bincount(agent))[:-1]
    return np.split(rows, ends), [found[k] for k in order]


def by_place(place: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
    """One agent for each name, in the order given; place[k] is the place of row k's holder among the names.

    >>> [part.tolist() for part in by_place(np.array([1, 0, 1]), ["south", "north"])]
    [[1], [0, 2]]
    """
    parts = [np.flatnonzero(place == k) for k in range(len(names))]
    for name, part in zip(names, parts, strict=True):
        if not len(part):
            # This refusal reveals nothing that is protected: how many rows each site has is public.
            raise InputError(f"every agent needs a row; {name!r} has none; add its records, or take it off the names")
    return parts


def dirichlet(y: np.ndarray, agents: int, concentration: float, seed: int = 0) -> list[np.ndarray]:
    """Label skew: of each class, agent i gets a share drawn from Dirichlet(concentration, ..., concentration).

    A large concentration gives all agents the same mix of labels, a small one gives most of them a single class.
    As in Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution", arXiv:1909.06335.

    >>> y = np.repeat([-1.0, 1.0], 50)
    >>> parts = dirichlet(y, agents=4, concentration=0.5)
    >>> sorted(np.concatenate(parts).tolist()) == list(range(100))
    True
    """
    y = np.asarray(y)
    _check(len(y), agents)
    if not (np.isfinite(concentration) and concentration > 0):
        raise InputError(f"concentration must be positive and finite; got {concentration}; 1.0 is a medium skew")
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(y == label) for label in np.unique(y)]
    for _ in range(_DRAWS):
        pieces = [_shares(rows, agents, concentration, rng) for rows in classes]
        parts = [np.concatenate(of_agent) for of_agent in zip(*pieces, strict=True)]
        if all(len(part) for part in parts):
            return parts
    raise InputError(
        f"every agent needs a row; {_DRAWS} draws at concentration={concentration} left one of {agents} agents "
        f"without any of {len(y)} rows; raise the concentration or use fewer agents"
    )


def _shares(rows: np.ndarray, agents: int, concentration: float, rng: np.random.Generator) -> list[np.ndarray]:
    share = rng.dirichlet(np.full(agents, concentration))
    ends = np.rint(np.cumsum(share)[:-1] * len(rows)).astype(int)
    return np.split(rng.permutation(rows), ends)


def _check(rows: int, agents: int) -> None:
    if agents < 1:
        raise InputError(f"at least one agent is needed; got agents={agents}; give a positive number")
    if agents > rows:
        raise InputError(f"every agent needs a row; {agents} agents share {rows} rows; use at most {rows} agents")
