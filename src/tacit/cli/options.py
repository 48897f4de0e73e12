"""The options of `tacit train`, each with the sentence that --help shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from tacit.cli.names import ALGORITHMS, LOSSES
from tacit.workflows.recipes import RECIPES

_FILE = "A CSV file with a header line, or **adult** for the embedded data."
_AGENTS = "Without --site: share the rows out among this many agents (5 by default)."
_SITE = "One agent for each value of this column (a hospital, a branch), or each name in the schema's [sites]."
_SKEW = "With --agents: unlike label shares, by a Dirichlet law of this concentration (small = unlike). Not private."
_SCHEMA = "How the file becomes numbers (see tacit schema); drafted from the file by default."
_GRAPH = "ring, star, path, complete, random:EDGES, or a CSV file with the columns from and to."
_ALGORITHM = f"One of: {', '.join(ALGORITHMS)}; with --epsilon one of: {', '.join(RECIPES)}."
_TOTAL = "Train privately: the total epsilon of every agent's records. All other settings then follow from it."
_PENALTY = "How strongly neighbours are pulled together (0.001 by default, 0.01 for the squared loss)."
_LOSS = f"One of: {', '.join(LOSSES)}. By default logistic for classes, squared for numbers."
_OUT = "The model file; a plot of the convergence goes beside it, as .png."

_ROBUST = (
    "How members listen, against one that lies: clipping (costs least), trimmed or median. Everybody needs two "
    "neighbours; a graph with more edges protects better."
)
_HOSTILE = (
    "Simulate an attack: KIND:COUNT members lie, drawn from the seed. flip: -3 times the honest mean; constant: 1e4; "
    "labels: trains on flipped labels; drift: leans as far as it can unnoticed; alternate: to and "
    "fro; push: as hard as it can."
)

File = Annotated[str, Argument(help=_FILE, show_default=False)]
Label = Annotated[str | None, Option(help="The column to predict (not needed with --schema).")]
Site = Annotated[str | None, Option(help=_SITE)]
Agents = Annotated[int | None, Option(help=_AGENTS)]
Skew = Annotated[float | None, Option(help=_SKEW)]
SchemaFile = Annotated[Path | None, Option(help=_SCHEMA)]
GraphText = Annotated[str, Option(help=_GRAPH)]
AlgorithmName = Annotated[str | None, Option(help=_ALGORITHM)]
Penalty = Annotated[float | None, Option(help=_PENALTY)]
LossName = Annotated[str | None, Option(help=_LOSS)]
L2 = Annotated[float | None, Option(help="Regularisation: l2/2 times the model's squared norm, for each agent (3e-5).")]
Rounds = Annotated[int | None, Option(help="The most rounds of talking (1000).")]
Tolerance = Annotated[float | None, Option(help="Stop when all residuals, primal and dual, are below this (1e-4).")]
Holdout = Annotated[float, Option(help="Share of every agent's rows that is kept for testing.")]
Epsilon = Annotated[float, Option(help="The total for every agent's records: epsilon.")]
Total = Annotated[float | None, Option("--epsilon", help=_TOTAL)]
Delta = Annotated[float, Option(help="The total for every agent's records: delta; far below 1/rows.")]
Seed = Annotated[int, Option(help="For sharing out rows, holding out and random graphs.")]
Out = Annotated[Path, Option(help=_OUT)]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Robust = Annotated[str | None, Option(help=_ROBUST)]
HostileText = Annotated[str | None, Option("--hostile", help=_HOSTILE)]
