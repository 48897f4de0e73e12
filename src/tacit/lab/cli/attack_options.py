"""The options of `tacit attack`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tacit.cli import options

EXACT = ("admm", "coca", "w-admm", "i-admm", "dgd", "extra")
HIDING = ("random-start", "pi-admm1", "pi-admm2", "offset", "pi-admm1-offset")
METHODS = (*EXACT, *HIDING)
WHO = {
    "overheard": "somebody who hears all messages has",
    "neighbours": "all neighbours of an agent together have",
    "neighbour": "one neighbour of an agent has",
}
_AGENTS = "How many agents: 5; of the paper's token methods 100, each with 30 made-up rows in two dimensions."
_TICKS = "Of the paper's token methods: how often the token is handed on; by default 20 cycles and 1."
_ROUNDS = "How often every agent speaks (60); the token, in the mean."
_PENALTY = "rho; by default what tacit train takes. Of the paper's token methods: 10 for ridge, 1 for logistic."
_DATA = "Records of your own, which must be public: a CSV or Parquet file, or adult."
_EPSILON = "For pi-admm2: as much noise as this total needs (delta 1e-5)."


@dataclass(frozen=True)
class AttackOptions:
    """What is asked for; it is checked where it is used."""

    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(METHODS)}.", show_default=False)]
    who: Annotated[str, typer.Option(help=f"Who attacks: {', '.join(WHO)}.")] = "overheard"
    loss: Annotated[str | None, typer.Option(help="ridge or logistic.", show_default=False)] = None
    agents: Annotated[int | None, typer.Option(help=_AGENTS, show_default=False)] = None
    rows: Annotated[int | None, typer.Option(help="How many rows each agent has.", show_default=False)] = None
    rounds: Annotated[int | None, typer.Option(help=_ROUNDS, show_default=False)] = None
    ticks: Annotated[int | None, typer.Option(help=_TICKS, show_default=False)] = None
    penalty: Annotated[float | None, typer.Option(help=_PENALTY, show_default=False)] = None
    graph: options.GraphText = "auto"
    data: Annotated[str | None, typer.Option(help=_DATA)] = None
    label: options.Label = None
    site: options.Site = None
    schema: options.SchemaFile = None
    epsilon: Annotated[float | None, typer.Option(help=_EPSILON)] = None
    seed: Annotated[int, typer.Option(help="The seed for data, graph and noise.")] = 0
    agent: Annotated[int, typer.Option(help="The agent that is drawn, from 1.")] = 1
    out: Annotated[str | None, typer.Option(help="Folder for attack.png and attack.csv.")] = None
    json: options.Json = False
