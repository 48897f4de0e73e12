"""The command `tacit federation demo`."""

from __future__ import annotations

import csv
import multiprocessing
import os
import random
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit.cli import names, options
from tacit.cli.console import err
from tacit.cli.console import out as screen
from tacit.cli.expand import Without, expanded
from tacit.core.graph import Graph
from tacit.data import Dataset, Schema, Table, adult_schema, adult_table, partition
from tacit.engines.local import end_with_parent
from tacit.errors import InputError, TacitError
from tacit.privacy.noise import SecureNoise
from tacit.run.budget import Budget
from tacit.run.graphs import auto_graph
from tacit.run.model import Model
from tacit.run.request import Request
from tacit.run.trust import LOCAL, Trust

if TYPE_CHECKING:
    from tacit.agent.federation import Federation
    from tacit.agent.monitoring.page import Look

_TRAIN, _DELTA, _EXACT_ROUNDS = 40_000, 1e-5, 50
_LINES = 100  # of a log, on the page
_PORTS = range(20_000, 32_000)
_RING, _NEIGHBOURS = 5, 4  # so many agents talk on a ring; of more, each has so many neighbours
_PATIENCE = 600.0  # seconds that an agent waits for a neighbour in one tick: a busy machine is slow, but it moves


@expanded
def demo(
    agents: Annotated[int, typer.Option(help="How many organisations.")] = 5,
    epsilon: Annotated[float, typer.Option(help="The total epsilon of the private run.")] = 1.0,
    trust: Annotated[Trust, Without("dropouts", "robust")] = LOCAL,
    out: Annotated[Path, typer.Option(help="A new folder for keys, data, ledgers, models.")] = Path("out/federation"),
    page: options.Page = None,
) -> None:
    """Run a federation on this machine: each organisation is a process, and they talk over mutually authenticated TLS.

    The demo divides the embedded census data (UCI Adult) among the organisations. Up to five talk on a ring; of more,
    each has four neighbours. The first run exchanges exact values and must give the same model as a simulation. The
    second run is private; the demo compares it with a simulation that has other noise. With --colluders the
    members of the second run share their noise.

    With --page you can watch all organisations in a browser on this machine.

    Example: `tacit federation demo --agents 3 --out out/federation`

    Example: `tacit federation demo --page 127.0.0.1:8642`
    """
    names.require_agent()
    private = Request(budget=Budget(epsilon, _DELTA), trust=trust)
    if agents < 2:
        raise InputError(f"a federation needs two agents or more, not {agents}")
    if out.exists():
        raise InputError(f"{out} exists: the demo creates a new folder; name another one, or delete it")
    from tacit.agent.monitoring.page import Page

    watched = None if page is None else Page(page, lambda: {"title": "preparing", "members": []})
    names.folder(out)
    if watched is not None:
        err.print(f"watch it at {watched.address}", markup=False, soft_wrap=True)

    schema = replace(adult_schema(), missing="refuse")
    table = _complete(adult_table(), schema)
    data = schema.encode(table)
    order = np.random.default_rng(0).permutation(len(data))
    test = data.take(order[_TRAIN:])
    parts = [order[:_TRAIN][rows] for rows in partition.equal(_TRAIN, agents)]
    failure: str | None = "stopped"
    try:
        for title, asked in (("exact", Request(rounds=_EXACT_ROUNDS)), ("private", private)):
            home = out / title
            home.mkdir()
            federation = _prepared(home, title, asked, schema, table, parts)
            simulated = _simulated(federation, data, parts)  # first: on a new machine it compiles the solver for all
            if watched is not None:
                watched.show(_look(home, federation))
            _compare(federation, _run(home, federation), simulated, test)
        failure = None
    except TacitError as error:
        failure = str(error)
        raise
    finally:
        if watched is not None:
            watched.close(failure)
    err.print(f"wrote {out}", markup=False, soft_wrap=True)


def _look(home: Path, federation: Federation) -> Look:
    """What the page shows of a run: all members, from the files that their processes write."""
    from tacit.agent.monitoring.status import Watched, store_name

    members = []
    for name in federation.names:
        store, ledger = home / name / store_name(federation), home / f"{name}.ledger"
        log = partial(_last_lines, home / f"{name}.log")
        members.append(Watched(name, federation, store, ledger if federation.private else None, log))
    return lambda: {"title": f"{federation.title} run", "members": [member.look() for member in members]}


def _last_lines(log: Path) -> list[str]:
    """Of a log that a process may be writing."""
    lines = log.read_text(errors="replace").splitlines()[-_LINES:] if log.exists() else []
    return [line for line in lines if line.strip()]


def _complete(table: Table, schema: Schema) -> Table:
    """The complete records, and the columns that the schema uses. Which records of Adult are complete is public."""
    kept = adult_schema().encode(table).kept
    used = [*dict.fromkeys(column.name for column in schema.columns), schema.label.column]
    return Table({name: table.columns[name][kept] for name in used}, "adult")


def _prepared(
    home: Path, title: str, asked: Request, schema: Schema, table: Table, parts: list[np.ndarray]
) -> Federation:
    """Writes keys, records, ledgers and the federation file."""
    from tacit.agent.federation import Member, agreement
    from tacit.agent.identity import Identity
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Cap, Ledger

    called = [f"agent-{i:02d}" for i in range(len(parts))]
    members = []
    for name, rows, port in zip(called, parts, _free_ports(len(parts)), strict=True):
        made = Identity.new(name, home)
        with (home / f"{name}.csv").open("w", newline="", encoding="utf-8") as sheet:
            csv.writer(sheet).writerows(
                [list(table.columns), *zip(*(c[rows] for c in table.columns.values()), strict=True)]
            )
        if asked.budget is not None:
            file = home / f"{name}.ledger"
            with Ledger.new(file, population=f"records of {name}", cost=epsilon) as ledger:
                ledger.set_cap(Cap(asked.budget.epsilon, asked.budget.delta))
        members.append(Member(name, f"127.0.0.1:{port}", len(rows), made.certificate))
    reserve = asked.trust.reserve
    graph = _talk(len(called)) if reserve is None else auto_graph(len(called), reserve)
    federation = agreement(title, members, graph, asked, schema)
    (home / "federation.toml").write_text(federation.to_toml(), encoding="utf-8")
    return federation


def _talk(agents: int) -> Graph:
    """Who talks to whom: on a ring, fifty agents would need 900 rounds to agree."""
    return Graph.ring(agents) if agents <= _RING else Graph.regular(agents, _NEIGHBOURS)


def _run(home: Path, federation: Federation) -> np.ndarray:
    """Runs all agents, each in its own process, and gives their models."""
    failed = list[str]()
    # Forks of a server that has loaded what agents need: one by one, fifty processes would take minutes to start.
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tacit.cli.agent_ready"])
    processes = [
        forks.Process(target=_agent, name=name, args=(home.resolve(), name, federation.private))
        for name in federation.names
    ]
    with err.status(f"{federation.title}: {len(processes)} processes, {federation.rounds} rounds"):
        try:
            for one in processes:
                one.start()
            running = {one.sentinel: one for one in processes}
            while running and not failed:
                for ended in wait(list(running)):
                    one = running.pop(ended)  # type: ignore[arg-type]
                    one.join()
                    failed += [one.name] if one.exitcode else []
        finally:
            for one in processes:
                if one.pid is not None:
                    one.kill()
                    one.join()
    if failed:
        last = _last_lines(home / f"{failed[0]}.log")[-1:]
        raise InputError(f"{failed[0]} failed: {' '.join(last)}; see {home / failed[0]}.log")
    return np.array([Model.load(home / f"{name}.json").weights for name in federation.names])


def _agent(home: Path, name: str, private: bool) -> None:
    """In a process of its own: `tacit agent run`, with its output in a log."""
    from tacit.cli.agent import run

    end_with_parent()
    os.chdir(home)
    with open(f"{name}.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    own: dict[str, Any] = {"ledger": Path(f"{name}.ledger")} if private else {"exact": True}
    try:
        run(Path("federation.toml"), Path(name), f"{name}.csv", out=Path(f"{name}.json"), patience=_PATIENCE, **own)
    except typer.Exit as end:
        sys.exit(end.exit_code)


def _simulated(federation: Federation, data: Dataset, parts: list[np.ndarray]) -> np.ndarray:
    """The agents' models, if this process simulates all of them."""
    with err.status(f"{federation.title}: the simulation (on a new machine this compiles the solver: half a minute)"):
        return federation.setting.simulate(data.parts(parts), SecureNoise()).run.estimate


def _compare(federation: Federation, models: np.ndarray, simulated: np.ndarray, test: Dataset) -> None:
    """Prints how far the models are from the simulated ones, and the errors of both."""
    from tacit.agent.guarantee import statement

    setting, budget = federation.setting, federation.spec.budget

    def error(weights: np.ndarray) -> float:
        return Model(weights, federation.schema, setting.facts.loss).measured(test).miss

    own, there = (np.mean([error(f) for f in rows]) for rows in (models, simulated))
    target = "" if budget is None else f" at ({budget.epsilon:g}, {budget.delta:g})"
    screen.print(f"{federation.title}: {setting.name}{target}, {setting.rounds} rounds, {len(models)} processes")
    screen.print(
        f"  error on {len(test):,} held-out records, mean over the agents: {own:.4f}; in a simulation: {there:.4f}"
    )
    if federation.reserve is not None:
        screen.print(f"  {statement(federation)}", soft_wrap=True)
    if budget is not None:
        mean = models.mean(axis=0)
        apart = float(np.linalg.norm(models - mean, axis=1).max() / np.linalg.norm(mean))
        screen.print(f"  the agents' models lie within {apart:.1e} of their mean, relative to its norm")
    else:
        apart = float(np.abs(models - simulated).max())
        screen.print(f"  largest difference between a weight and the simulation's: {apart:.1e}")


def _free_ports(count: int) -> list[int]:
    """Ports that nobody uses. Below those of outgoing connections, one of which could take a port before its agent
    does."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found
