"""The names of the command line for graphs, records and events; and checks that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import data
from tacit.core.graph import Graph
from tacit.data import Table
from tacit.errors import InputError, NotConnected, whole
from tacit.files import writable
from tacit.privacy.events import ZCDP, Event, Gaussian, Laplace, Pure

if TYPE_CHECKING:
    from tacit.cli.records import Division
    from tacit.engines import Engine, Ray
    from tacit.run.request import Request
    from tacit.run.trust import Reserve, Trust
    from tacit.simulation.hostile import Hostile

# How an event is written, and how its numbers are read.
EVENTS: dict[str, tuple[Callable[..., Event], tuple[type, ...], str]] = {
    "pure": (Pure, (float,), "pure:EPSILON"),
    "laplace": (Laplace, (float, int), "laplace:MULTIPLIER or laplace:MULTIPLIER:COORDINATES"),
    "gaussian": (Gaussian, (float,), "gaussian:MULTIPLIER"),
    "zcdp": (ZCDP, (float, float), "zcdp:RHO or zcdp:RHO:XI"),
}


def pick(known: dict[str, Any], name: str, what: str) -> Any:
    """The entry of that name, or an error that lists the known names."""
    if name not in known:
        raise InputError(f"{what} must be one of {', '.join(known)}; not {name!r}")
    return known[name]


def engine(name: str, jobs: int | None, address: str | None) -> Engine:
    """What --engine, --jobs and --address say."""
    from tacit.engines import Local, Ray

    pick({"local": Local, "ray": Ray}, name, "--engine")
    if jobs is not None:
        whole("--jobs", jobs, 1)
    if name == "ray":
        return Ray(address=address, jobs=jobs)
    if address is not None:
        raise InputError("--address is the address of a Ray cluster: add --engine ray")
    return Local(jobs)


def shards(name: str, shards: int | None, address: str | None) -> Ray | None:
    """What --engine, --shards and --address say about the agents of one run; None: they are in this process."""
    if shards is not None:
        whole("--shards", shards, 1)
    if name != "local" or address is not None:
        found: Any = engine(name, None, address)
        return replace(found, shards=shards)  # on Ray: in this process there is no address
    if shards is not None:
        raise InputError("--shards divides the agents among the processes of a Ray cluster: add --engine ray")
    return None


def require_agent() -> None:
    """Raises an error if a dependency of agents is not installed."""
    if missing := [name for name in ("cryptography", "google.protobuf", "prometheus_client") if not _there(name)]:
        raise InputError(f"{missing[0]} is missing, which agents need; pip install 'tacit-learn[agent]'")


def no_plot() -> str | None:
    """What is missing to draw a plot and how to install it; None if nothing is missing."""
    missing = [name for module, name in (("matplotlib", "matplotlib"), ("PIL", "Pillow")) if not _there(module)]
    return f"{missing[0]} is missing; pip install 'tacit-learn[plot]'" if missing else None


def require_plot() -> None:
    """Raises an error if a dependency of plots is not installed."""
    if why := no_plot():
        raise InputError(f"no plot: {why}")


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that contains it
        return False


def folder(path: Path) -> None:
    """Creates a folder for results, if it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {path} cannot be created: {error.strerror}") from None


def report_file(report: Path | None, inputs: Iterable[str | Path], outputs: Iterable[Path]) -> None:
    """Checks, before any long work, that the report can be written, and is neither read nor written otherwise."""
    if report is None:
        return
    writable(report, inputs)
    for other in outputs:
        if report.resolve() == other.resolve():
            raise InputError(f"--report would overwrite {other}, which this command writes, too; name another file")


def records(file: str) -> Table:
    """The embedded data by its name, or a CSV or Parquet file."""
    return data.adult_table() if file == "adult" else data.read_table(file)


def hostile(text: str | None, agents: int, seed: int = 0) -> Hostile | None:
    """The members that lie, from KIND:COUNT; None if no attack is asked for."""
    if text is None:
        return None
    from tacit.simulation.hostile import Hostile  # slow to import

    return Hostile.parse(text, agents, seed)


def event(text: str) -> Event:
    """pure:EPSILON, laplace:MULTIPLIER[:COORDINATES], gaussian:MULTIPLIER or zcdp:RHO[:XI].

    >>> event("laplace:20:6")
    Laplace(multiplier=20.0, coordinates=6)
    """
    name, *numbers = text.split(":")
    make, kinds, form = pick(EVENTS, name, "event")
    try:
        if not 1 <= len(numbers) <= len(kinds):
            raise ValueError
        values = [kind(number) for kind, number in zip(kinds, numbers, strict=False)]
    except ValueError:
        raise InputError(f"write {form}; not {text!r}") from None
    made: Event = make(*values)
    return made


def check_hostile(hostile: str | None, trust: Trust, *, count: bool = False) -> None:
    """Refuses liars among members that share their noise: they lie about single rows, and sums are all that is seen."""
    if hostile is not None and trust.reserve is not None:
        raise InputError(
            "--hostile is about single rows, and members that share their noise see sums alone: leave out one"
        )
    if hostile is not None and count:
        raise InputError(
            "a noisy count of positives is a plain average, which every member that lies can move: give their share as "
            "a number, or leave out --hostile"
        )


def division(division: Division, asked: Request) -> Division:
    """How the records are divided: without another word, among as many agents as the file of the run says."""
    if asked.spec is None or division.site is not None or division.agents is not None:
        return division
    return division._replace(agents=asked.spec.graph.agents)


def graph_for(text: str, asked: Request, names: list[str], seed: int) -> Graph:
    """Who talks to whom, by the file of the run, or by --graph."""
    if asked.spec is None:
        return graph(text, len(names), names, seed, asked.trust.reserve)
    if text != "auto":
        raise InputError("the file of a run says everything about it: leave out --graph, or change the file")
    return asked.spec.graph


def check_topology(text: str, hostile: str | None) -> None:
    """Refuses --graph and --hostile if no number of agents would allow them, before any long work."""
    if Path(text).suffix and not text.startswith("random:"):
        data.read_csv(text).require(["from", "to"])
    elif text != "auto" and not (text.startswith("random:") and text.removeprefix("random:").isdecimal()):
        graph(text, 3, [], 0)
    if hostile is not None:
        from tacit.simulation.hostile import kind_and_count  # slow to import

        kind_and_count(hostile)


def graph(text: str, agents: int, names: list[str], seed: int, reserve: Reserve | None = None) -> Graph:
    """auto, ring, star, path, complete, random:EDGES, or a CSV file with the columns `from` and `to` (agents by name).
    `reserve` is for auto, where members share their noise."""
    if text == "auto":
        from tacit.run.graphs import auto_graph  # slow to import

        return auto_graph(agents, reserve)
    if text.startswith("random:") or not Path(text).suffix:
        try:
            return Graph.named(text, agents, seed)
        except InputError as error:
            raise InputError(f"{error}; or auto, or name a CSV file") from None
    table = data.read_csv(text)
    table.require(["from", "to"])
    place = {name: i for i, name in enumerate(names)}
    pairs = []
    for row, ends in enumerate(zip(table.columns["from"], table.columns["to"], strict=True)):
        for end in ends:
            if end not in place:
                known = ", ".join(names[:20])
                raise InputError(f"{table.where(row)} names {str(end)!r}, which is not an agent; they are: {known}")
        pairs.append((place[ends[0]], place[ends[1]]))
    try:
        return Graph.from_edges(pairs, agents)
    except NotConnected as error:
        raise NotConnected(error.components, names) from None
