"""Five agents that tests start, kill and start again: fixtures of the test_agent files."""

import asyncio
import json
import threading
from collections import Counter
from contextlib import suppress

import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, PROCESSES, SEED, SETTINGS, D
from conftest import SIZES, make_parts

import tacit
from tacit.agent.identity import Identity
from tacit.agent.store import Store, status
from tacit.agent.wire_pb2 import Message
from tacit.errors import InputError
from tacit.privacy import filters
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger_entries import canonical

PARTS = make_parts(d=D)


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    for name in NAMES:
        Identity.new(name, folder)
    return folder


class Network:
    """Five agents that can be started, killed and started again."""

    def __init__(self, folder, kind, identities):
        self.folder, self.kind, self.identities = folder, kind, identities
        self.federation = worker.federation(folder, kind, worker.free_ports(5), list(SIZES), identities)
        np.savez(
            folder / "data.npz", **{f"{v}{i}": part[k] for i, part in enumerate(PARTS) for k, v in enumerate("Xy")}
        )
        if kind in worker.PRIVATE:
            for name in NAMES:
                with Ledger.new(folder / f"{name}.ledger", dataset=name, cost=filters.epsilon) as ledger:
                    ledger.set_cap(Cap(10.0, 1e-5))
        self.lives = {}

    def start(self, *agents, fault=None, slow=0.0, life=0, listen=None):
        for i in agents:
            arguments = (self.folder, self.kind, i, self.identities, fault, slow, life, listen)
            self.lives[i] = PROCESSES.Process(target=worker.agent, args=arguments)
            self.lives[i].start()

    def ended(self, i, within=40):
        self.lives[i].join(within)
        code = self.lives[i].exitcode
        assert code is not None, f"{NAMES[i]} does not end:\n{self.log(i)}"
        return code

    def stop(self):
        for life in self.lives.values():
            life.kill()
            life.join()

    def log(self, i):
        path = self.folder / f"{NAMES[i]}.log"
        return path.read_text() if path.exists() else ""

    def models(self):
        return np.array([json.loads((self.folder / f"{name}.json").read_text()) for name in NAMES])

    def tick(self, i):
        """The last one in which an agent spoke; -1 before."""
        try:
            return status(self.folder / f"{NAMES[i]}.store").tick
        except InputError:  # it has not made its store yet
            return -1

    def store(self, i):
        return Store(self.folder / f"{NAMES[i]}.store", self.federation.run, NAMES[i], self.federation.rounds)

    def said(self):
        """{(tick, agent): row} of all that left."""
        rows = {}
        for i in range(5):
            for tick, raw, _ in self.store(i).releases():
                rows[tick, i] = np.frombuffer(Message.FromString(raw).payload)
        return rows

    def ledger(self, i):
        with Ledger(self.folder / f"{NAMES[i]}.ledger", cost=filters.epsilon) as ledger:
            ledger.verify()
            return [(entry.kind, entry.tick, entry.body) for entry in ledger.entries()]

    def versions(self):
        """How many different answers each (tick, agent) was ever given."""
        lines = {tuple(line.split()) for line in (self.folder / "sent").read_text().splitlines()}
        return Counter((tick, agent) for tick, agent, _ in lines)


class Relay:
    """A bad line in front of an agent: it can be cut, so that connections break and nobody answers; or held, so that
    connections stay but nothing passes. It is never faster than one piece in 20 ms."""

    def __init__(self, address, hidden):
        self._address, self._hidden, self._writers = address.split(":"), hidden.split(":"), set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._open())

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _open(self):
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server = await asyncio.start_server(self._connected, *self._address)

    async def _connected(self, reader, writer):
        try:
            there, back = await asyncio.open_connection(*self._hidden)
        except ConnectionRefusedError:  # the agent is not up yet
            writer.close()
            return
        self._writers |= {writer, back}
        await asyncio.gather(self._passed(reader, back), self._passed(there, writer))

    async def _passed(self, reader, writer):
        with suppress(ConnectionError):
            while raw := await reader.read(65536):
                await asyncio.sleep(0.02)
                await self._flowing.wait()
                writer.write(raw)
                await writer.drain()
        writer.close()

    async def _broken(self):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _held(self, held):
        self._flowing.clear() if held else self._flowing.set()

    def cut(self):
        self._run(self._broken())

    def mend(self):
        self._run(self._open())

    def hold(self):
        self._run(self._held(True))

    def let_go(self):
        self._run(self._held(False))

    async def _end(self):
        await self._broken()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def network(tmp_path, identities):
    made = []

    def make(kind, folder="net"):
        (tmp_path / folder).mkdir()
        made.append(Network(tmp_path / folder, kind, identities))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def simulated(kind):
    """The same in one process: models, all that was said, and what it cost."""
    algorithm, rounds = SETTINGS[kind]
    problem = tacit.Problem(PARTS, scale=3.0, l2=worker.L2)
    graph = worker_graph()
    said = {}

    def overheard(t, turn, release):
        said.update({(t, int(i)): row.copy() for i, row in zip(turn.speakers, release.value, strict=True)})

    run = tacit.simulate(algorithm, problem, graph, rounds=rounds, noise=tacit.SeededNoise(SEED), overheard=overheard)
    return run, said


def worker_graph():
    return tacit.Graph.from_edges([(NAMES.index(a), NAMES.index(b)) for a, b in worker.EDGES])


def assert_consistent(net):
    """No message had two versions, and every ledger holds what was planned, once, and what has left."""
    assert set(net.versions().values()) == {1}
    if net.kind in worker.PRIVATE:
        for i in range(5):
            releases = net.store(i).releases()
            reserved = [("reserve", tick, canonical(to_plain(event))) for tick, _, event in releases]
            payloads = [("payload", tick, message) for tick, message, _ in releases]
            assert net.ledger(i)[1:] == reserved + payloads  # after the cap


def assert_as_simulated(net):
    """Every model, every message and every ledger is what an undisturbed run would have given."""
    assert_consistent(net)
    run, said = simulated(net.kind)
    np.testing.assert_allclose(net.models(), run.estimate, rtol=0, atol=1e-9)
    heard = net.said()
    assert heard.keys() == said.keys()
    for key, row in said.items():
        if len(heard[key]):  # who keeps silent sends no row
            np.testing.assert_allclose(heard[key], row, rtol=0, atol=1e-9)
    silent = sum(len(row) == 0 for row in heard.values())
    assert silent == (15 if net.kind == "silent" else 0)
    return run
