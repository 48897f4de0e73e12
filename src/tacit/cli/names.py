"""The names that the command line knows its parts by: one dict each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.algorithms import ConsensusADMM
from tacit.data import Table, adult_table, read_csv
from tacit.errors import InputError, NotConnected
from tacit.graph import Graph
from tacit.losses import HuberHinge, Logistic, Loss, Squared
from tacit.papers import dynamic_dp, recycled_admm
from tacit.papers.experiment import Figures

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "admm": ConsensusADMM,
}

LOSSES: dict[str, Callable[[], Loss]] = {
    "logistic": Logistic,
    "huber": HuberHinge,
    "squared": Squared,
}

GRAPHS: dict[str, Callable[[int], Graph]] = {
    "ring": Graph.ring,
    "star": Graph.star,
    "path": Graph.path,
    "complete": Graph.complete,
}

PAPERS: dict[str, Figures] = {
    "recycled-admm": recycled_admm.FIGURES,
    "dynamic-dp": dynamic_dp.FIGURES,
}


def pick(known: dict[str, Any], name: str, what: str) -> Any:
    """The entry of that name, or an error that lists the names there are."""
    if name not in known:
        raise InputError(f"{what} must be one of {', '.join(known)}; not {name!r}")
    return known[name]


def records(file: str) -> Table:
    """The embedded data by its name, or a CSV file."""
    return adult_table() if file == "adult" else read_csv(file)


def graph(text: str, agents: int, names: list[str], seed: int) -> Graph:
    """ring, star, path, complete, random:EDGES, or a CSV file with the columns `from` and `to` (agents by name)."""
    if text in GRAPHS:
        return GRAPHS[text](agents)
    if text.startswith("random:"):
        edges = text.removeprefix("random:")
        if not edges.isdecimal():
            raise InputError(f"write random:EDGES with a whole number, such as random:7; not {text!r}")
        return Graph.random(agents, int(edges), seed)
    if not Path(text).suffix:
        raise InputError(f"graph must be one of {', '.join(GRAPHS)}, random:EDGES, or a CSV file; not {text!r}")
    table = read_csv(text)
    table.require(["from", "to"])
    place = {name: i for i, name in enumerate(names)}
    pairs = []
    for row, ends in enumerate(zip(table.columns["from"], table.columns["to"], strict=True)):
        for end in ends:
            if end not in place:
                raise InputError(
                    f"{table.where(row)} names {str(end)!r}, which is no agent; they are: {', '.join(names[:20])}"
                )
        pairs.append((place[ends[0]], place[ends[1]]))
    try:
        return Graph.from_edges(pairs, agents)
    except NotConnected as error:
        raise NotConnected(error.components, names) from None
