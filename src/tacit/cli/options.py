"""The options that several commands share, each with its --help text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

_FILE = "A CSV file with a header line, a Parquet file, or **adult** for the embedded data."
_AGENTS = "Without --site: divide the rows among this many agents (5 by default)."
_SITE = "One agent for each value of this column (a hospital, a branch), or for each name in the schema's [sites]."
_SKEW = "With --agents: give agents different shares of the labels (Dirichlet; smaller: more different). Not private."
_SCHEMA = "The schema: how records become numbers (see tacit schema). By default drafted from the file."
_GRAPH = (
    "Who talks to whom: auto (what suits the number of agents), ring, star, path, complete, random:EDGES, or a CSV "
    "file with the columns from and to."
)
_SHARE = (
    "The public share of positive records, such as 0.06: a model of a rare event starts from it. Or `noisy`, with "
    "--epsilon: a noisy count measures it, and the budget pays for it. By default what the schema says."
)
_WEIGHT = (
    "How much a negative and a positive record count: two numbers such as 1,5; or `balanced`, from the positive share. "
    "A private run needs as many times more noise as the larger of them. By default what the schema says."
)
_LEDGER = "With --epsilon: pay from this ledger before any noise is drawn, or be refused by its cap."
_OUT = "The model file to write. A plot of the convergence goes into the same folder, as .png."

_REPORT = "Also write a report to read: one HTML file, without anything that the guarantee does not cover."

_PAGE = (
    "Serve a page to watch in a browser on this machine: 127.0.0.1:8642, or another loopback address. The command "
    "prints the whole address, which contains a secret. Nothing can be changed through the page."
)

_HOSTILE = (
    "Simulate an attack: KIND:COUNT, how members lie and how many; the seed chooses them. flip: send -3 times the "
    "honest mean; constant: send 1e4; labels: train on flipped labels; drift: pull in one direction, as far as goes "
    "unnoticed; alternate: the same, in changing directions; push: pull as hard as possible."
)

_JOBS = (
    "How many processes work at once; by default one for each core, or what TACIT_JOBS says. The cores are divided "
    "among them, and the results are the same for any number."
)
_ENGINE = "Where the work is done: local (processes on this machine) or ray (a Ray cluster: tacit-learn[ray])."
_WHERE = "Where the agents are: local (all in this process) or ray (divided among the processes of a Ray cluster)."
_SHARDS = "With --engine ray: among how many processes the agents are divided; by default one for each core."
_ADDRESS = "With --engine ray: the cluster to join, HOST:PORT or auto. Without it, one is started on this machine."

_STORE = "The file that keeps the agent's state through a crash; by default in the identity's folder."


LISTEN = "HOST:PORT to listen at, if it differs from the address in the federation file."
Home = Annotated[Path, Option("--identity", help="The folder of your key.", show_default=False)]
FederationFile = Annotated[Path, Option(help="The federation file.", show_default=False)]
StoreFile = Annotated[Path | None, Option(help=_STORE)]
File = Annotated[str, Argument(help=_FILE, show_default=False)]
OptionalFile = Annotated[str, Argument(help=_FILE)]
OldData = Annotated[str | None, Option("--data", hidden=True)]  # until 0.3
Label = Annotated[str | None, Option(help="The column to predict (not needed with --schema).")]
Site = Annotated[str | None, Option(help=_SITE)]
Agents = Annotated[int | None, Option(help=_AGENTS)]
Skew = Annotated[float | None, Option(help=_SKEW)]
SchemaFile = Annotated[Path | None, Option(help=_SCHEMA)]
GraphText = Annotated[str, Option(help=_GRAPH)]
OldMethodName = Annotated[str | None, Option("--algorithm", hidden=True)]  # until 0.3
PositiveShare = Annotated[str | None, Option(help=_SHARE)]
ClassWeight = Annotated[str | None, Option(help=_WEIGHT)]
Holdout = Annotated[float, Option(help="The share of every agent's rows that is held out for testing.")]
Delta = Annotated[float, Option(help="The total delta for every record; far below 1/rows.")]
LedgerFile = Annotated[Path | None, Option("--ledger", help=_LEDGER, show_default=False)]
Seed = Annotated[int, Option(help="The seed for dividing rows, holding rows out, and random graphs.")]
Out = Annotated[Path, Option(help=_OUT)]
Page = Annotated[str | None, Option("--page", help=_PAGE, metavar="HOST:PORT", show_default=False)]
Report = Annotated[Path | None, Option("--report", help=_REPORT, show_default=False)]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
HostileText = Annotated[str | None, Option("--hostile", help=_HOSTILE)]
Jobs = Annotated[int | None, Option(help=_JOBS, metavar="N", show_default=False)]
EngineName = Annotated[str, Option("--engine", help=_ENGINE)]
Where = Annotated[str, Option("--engine", help=_WHERE)]
Shards = Annotated[int | None, Option(help=_SHARDS, metavar="N", show_default=False)]
Address = Annotated[str | None, Option(help=_ADDRESS, metavar="A", show_default=False)]


@dataclass(frozen=True)
class Workplace:
    """Where many runs happen: in processes here, or on Ray."""

    jobs: Jobs = None
    engine: EngineName = "local"
    address: Address = None
