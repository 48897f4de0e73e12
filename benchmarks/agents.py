"""The cost of communication: a round without computation against a bare ping-pong over the same TLS.

    python benchmarks/speed.py agents

The processes are on a ring, on one machine and one disk. A round is what `tacit agent run` does at a tick: speak, one
commit that reaches the disk, ask both neighbours, listen. In the bare ping-pong the same processes ask the same
neighbours for as many bytes, by the streams and the TLS of asyncio, without a store, a schedule or an algorithm. Both
times are medians over rounds of the slowest process, one after the other. A commit is the time of one
synchronous SQLite transaction alone. A relay in front of one agent counts bytes in a separate run, from its tenth round
on: everything in both directions, including TLS, frames and the questions.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from timing import Figure, interleaved

from tacit.agent.federation import SUMS, Federation, Member
from tacit.agent.identity import Identity
from tacit.agent.store import status
from tacit.algorithms import ConsensusADMM
from tacit.core.graph import Graph, View
from tacit.core.losses import Logistic
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.data import Classes, Dataset, Number, Schema
from tacit.errors import InputError
from tacit.privacy.mechanisms import post_processed
from tacit.run.spec import RunSpec

DIMENSION, ROUNDS, TURNS = 104, 150, 3


class State(NamedTuple):
    """The sum of the messages heard."""

    f: np.ndarray


@dataclass(frozen=True)
class Talk:
    """A method that only talks."""

    def schedule(self, graph: Graph) -> Broadcast:
        return Broadcast(graph)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        return State(start)

    def speak(self, state: State, problem: Problem, view: View, noise: Any, t: int) -> tuple[State, Release]:
        return state, post_processed(state.f)

    def listen(self, state: State, inbox: Inbox, view: View, t: int) -> State:
        return State(inbox.mean() + 1.0)

    def estimate(self, state: State) -> np.ndarray:
        return state.f

    def residuals(self, state: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(1), np.zeros(1)


def made(folder: Path, agents: int) -> Federation:
    """A federation of this many, on a ring."""
    sockets = [socket.socket() for _ in range(agents)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    members = []
    for k, each in enumerate(sockets):
        name = f"agent-{k:02d}"
        members.append(Member(name, f"127.0.0.1:{each.getsockname()[1]}", 2, Identity.new(name, folder).certificate))
        each.close()
    schema = Schema(
        label=Classes("y", positive=("1",), negative=("0",)),
        columns=tuple(Number(f"x{k}", bounds=(0, 1)) for k in range(DIMENSION)),
    )
    spec = RunSpec(ConsensusADMM(), ROUNDS, Logistic(), Graph.ring(agents), l2=1.0)
    return Federation("talk", tuple(members), spec, schema)


def talk(federation: Federation, folder: Path, me: int, stores: Path, listen: str | None = None) -> list[float]:
    """One agent; the times of its rounds."""
    from tacit.agent.participant import Participant
    from tacit.agent.run import take_part
    from tacit.agent.store import Store
    from tacit.privacy.noise import SecureNoise

    setting = federation.setting  # no file can say what this method is
    federation.__dict__["setting"] = replace(setting, spec=replace(federation.spec, method=Talk()))
    name = federation.names[me]
    data = Dataset(np.zeros((2, DIMENSION)), np.array([1.0, -1.0]), federation.schema.feature_names, np.arange(2))
    store = Store(stores / f"{name}.store", federation.run, name, ROUNDS)
    participant = Participant(federation, me, Identity.load(folder / name), data, store, None, SecureNoise())
    begun: dict[int, float] = {}

    def watch(doing: str, t: int, rounds: int) -> None:
        begun.setdefault(t, time.perf_counter())

    asyncio.run(take_part(participant, listen=listen, watch=watch))
    return list(np.diff([begun[t] for t in range(10, ROUNDS)]))


def ping(federation: Federation, folder: Path, me: int, together: Any) -> list[float]:
    """The same traffic by asyncio alone; the times of its rounds."""
    from tacit.agent.transport.tls import context

    identity, members = Identity.load(folder / federation.names[me]), federation.members
    near = federation.graph.neighbours(me).tolist()
    payload, trusted = bytes(8 * DIMENSION), [members[j].certificate for j in near]

    async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes) -> None:
        writer.write(struct.pack(">I", len(raw)) + raw)
        await writer.drain()

    async def heard(reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(struct.unpack(">I", await reader.readexactly(4))[0])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while await heard(reader):
                await said(reader, writer, payload)
        writer.close()

    async def connected(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = address.split(":")
        tls = context(identity, trusted, called=False)
        while True:
            with suppress(ConnectionRefusedError):  # it is not up yet
                reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, server_hostname="")
                return reader, writer
            await asyncio.sleep(0.05)

    async def go() -> list[float]:
        host, port = members[me].address.split(":")
        tls = context(identity, trusted, called=True)
        server = await asyncio.start_server(answer, host, int(port), ssl=tls)
        lines = [await connected(members[j].address) for j in near]
        for _, writer in lines:
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await said(reader, writer, b"x" * 40)
            await heard(reader)

        await asyncio.to_thread(together.wait)
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await asyncio.gather(*(call(*line) for line in lines))
            times.append(time.perf_counter() - begin)
        await asyncio.to_thread(together.wait)  # the neighbours may still be asking
        for _, writer in lines:
            writer.transport.abort()
        server.close()
        return times[10:]

    return asyncio.run(go())


def measured(federation: Federation, folder: Path, me: int, stores: Path, together: Any, results: Any) -> None:
    """Ping-pong, a run, and ping-pong again, in one process: the speed of the machine may change over time."""
    bare = ping(federation, folder, me, together)
    took = talk(federation, folder, me, stores)
    together.wait()
    bare += ping(federation, folder, me, together)
    results.put((float(np.median(took)), float(np.median(bare))))


def alone(federation: Federation, folder: Path, me: int, stores: Path, listen: str | None, results: Any) -> None:
    """A run, and nothing else."""
    results.put((float(np.median(talk(federation, folder, me, stores, listen))),))


async def relay(source: str, target: str, counted: Counter[str]) -> asyncio.Server:
    """Passes bytes on, and counts them."""

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while raw := await reader.read(65536):
            counted["bytes"] += len(raw)
            writer.write(raw)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*target.split(":"))
        except ConnectionRefusedError:  # the agent has not started yet: the caller will try again
            writer.close()
            return
        await asyncio.gather(passed(reader, back), passed(there, writer))

    return await asyncio.start_server(connected, *source.split(":"))


def network(context: Any, federation: Federation, work: Any, arguments: list[tuple[Any, ...]]) -> list[float]:
    """All agents at once; the slowest one's times."""
    results = context.Queue()
    processes = [context.Process(target=work, args=(federation, *each, results)) for each in arguments]
    for process in processes:
        process.start()
    times = [results.get(timeout=100) for _ in processes]
    for process in processes:
        process.join()
    return np.max(times, axis=0).tolist()


async def counted_run(context: Any, federation: Federation, folder: Path, hidden: str) -> float:
    """Another run, with a relay in front of agent 1; gives the bytes of a message."""
    counted, again, begun = Counter[str](), folder / "again", (0, 0)
    server = await relay(federation.members[1].address, hidden, counted)
    arguments = [(folder, i, again, hidden if i == 1 else None) for i in range(len(federation.members))]
    run = asyncio.create_task(asyncio.to_thread(network, context, federation, alone, arguments))
    while not run.done():
        await asyncio.sleep(0.01)
        with suppress(InputError):  # there is no store yet
            tick = status(again / f"{federation.names[1]}.store").tick
            if begun == (0, 0) and tick >= 10:
                begun = (tick, counted["bytes"])
            if tick == ROUNDS:
                break
    tick, before = begun
    each = (counted["bytes"] - before) / (2 * (ROUNDS - tick))  # both neighbours of agent 1 ask it, every round
    await run
    server.close()
    return each


def commit_alone(folder: Path) -> tuple[float, float]:
    """The median times of one transaction like an agent's, with the disk to itself, and of one write of as many bytes
    that reaches the disk."""
    from tacit.agent.store import Store
    from tacit.privacy.events import Unprotected

    store, rounds, state = Store(folder / "alone.store", "00" * 32, "alone", ROUNDS), count(), np.zeros((3, DIMENSION))

    def commit() -> None:
        store.commit(next(rounds), {"f": state}, bytes(8 * DIMENSION), Unprotected())

    with (folder / "plain").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(bytes(state.nbytes + 8 * DIMENSION))
            os.fsync(file.fileno())

        ours, plain = interleaved(ROUNDS, commit, write)
    return ours, plain


def turn(context: Any, federation: Federation, folder: Path, home: Path) -> list[float]:
    """Times of a round, and of a round of bare ping-pong."""
    together = context.Barrier(len(federation.members), timeout=100)
    home.mkdir()
    arguments = [(folder, i, home, together) for i in range(len(federation.members))]
    return network(context, federation, measured, arguments)


def figures() -> Iterator[Figure]:
    """A round, its bytes and a commit, for 5 and for 20 agents."""
    context = multiprocessing.get_context("spawn")
    for agents in (5, 20):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            federation = made(folder, agents)
            turns = [turn(context, federation, folder, folder / f"turn-{k}") for k in range(TURNS)]
            took, bare = (1e3 * float(np.median(each)) for each in zip(*turns, strict=True))
            commit, disk = (1e3 * seconds for seconds in commit_alone(folder))
            bound = "the same traffic by bare streams over the same TLS, and one synchronous write"
            yield Figure(f"{agents} agents, d = {DIMENSION}: a round", "ms", took, bare + disk, bound)
            (folder / "shared").mkdir()
            arguments = [(folder, i, folder / "shared", None) for i in range(agents)]
            (shared,) = network(context, replace(federation, exchange=SUMS), alone, arguments)
            name = f"{agents} agents, d = {DIMENSION}: a round of secret-shared sums"
            yield Figure(name, "ms", 1e3 * shared, bare + disk, bound)
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                hidden = f"127.0.0.1:{free.getsockname()[1]}"
            (folder / "again").mkdir()
            each = asyncio.run(counted_run(context, federation, folder, hidden))
            bound = "the numbers alone"
            yield Figure(f"{agents} agents, d = {DIMENSION}: a message", "bytes", each, 8.0 * DIMENSION, bound)
            yield Figure(f"a commit, d = {DIMENSION}", "ms", commit, disk, "one synchronous write of as many bytes")
