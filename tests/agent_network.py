"""Five agents that tests start, kill and start again: fixtures for tests/agent."""

import asyncio
import itertools
import json
import pickle
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, PROCESSES, SEED, SETTINGS, D
from conftest import make_parts
from frames import Line, Serving
from patience import waited
from ports import free_ports

import tacit
from tacit.agent.certificate.examination import collected, examined
from tacit.agent.identity import Identity
from tacit.agent.store import Store, status
from tacit.agent.transport import sockets
from tacit.agent.transport.wire import bare
from tacit.agent.transport.wire_pb2 import Message
from tacit.errors import InputError
from tacit.exchange import SecretSharedSums
from tacit.privacy import filters
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger.entries import canonical
from tacit.run import recipes

PARTS = make_parts(d=D)


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    for name in NAMES:
        Identity.new(name, folder)
    return folder


class Loading(NamedTuple):
    """Agents that wait until all of them have loaded: a file that lets them begin, and who they are."""

    door: Path
    agents: list[int]


class Network:
    """Five agents that can be started, killed and started again."""

    def __init__(self, folder, kind, identities, parts=PARTS):
        self.folder, self.kind, self.identities = folder, kind, identities
        self.federation = worker.federation(folder, kind, free_ports(5), [len(y) for _, y in parts], identities)
        assert worker.loaded(folder, kind).setting.rounds  # calibrated here, once: `start` hands it on to the agents
        np.savez(
            folder / "data.npz", **{f"{v}{i}": part[k] for i, part in enumerate(parts) for k, v in enumerate("Xy")}
        )
        if kind in worker.PRIVATE:
            for name in NAMES:
                with Ledger.new(folder / f"{name}.ledger", population=name, cost=filters.epsilon) as ledger:
                    ledger.set_cap(Cap(10.0, 1e-5))
        self.lives, self._doors, self._loading = {}, itertools.count(), None

    def start(self, *agents, fault=None, slow=0.0, life=0, listen=None):
        """Starts agents, and returns when all of them have loaded what they need and begin."""
        # What this process has calibrated is calibrated for them, too: it would take a second in each of their lives.
        (draft := self.folder / "calibrated.new").write_bytes(pickle.dumps(recipes._CALIBRATED))
        draft.replace(self.folder / "calibrated")  # an agent that was started before may be reading
        with self.together():
            for i in agents:
                arguments = (self.folder, self.kind, i, self.identities, fault, slow, life, listen, self._loading.door)
                self.lives[i] = PROCESSES.Process(target=worker.agent, args=arguments)
                self.lives[i].start()
                self._loading.agents.append(i)

    @contextmanager
    def together(self):
        """Agents that are started in here begin at the same moment. A busy machine may take longer to load one of them
        than the others wait for it."""
        if self._loading is not None:
            yield
            return
        self._loading = loading = Loading(self.folder / f"door{next(self._doors)}", [])
        try:
            yield
        finally:
            self._loading = None
        for i in loading.agents:
            self.wait(partial(self._at_the_door, loading.door, i), 120, f"{NAMES[i]} does not load", i)
        loading.door.touch()

    def _at_the_door(self, door, i):
        return door.with_suffix(f".{NAMES[i]}").exists() or self.lives[i].exitcode is not None

    def restart(self, i, **options):
        """Kills an agent, and lets a new process, which has loaded by then, go on in its place."""
        old = self.lives[i]
        with self.together():
            self.start(i, **options)
            self.wait(partial(self._at_the_door, self._loading.door, i), 120, f"{NAMES[i]} does not load", i)
            old.kill()
            old.join()

    def ended(self, i, within=120):
        """The exit code of an agent. Fails if no agent makes progress for so many seconds: a busy machine is slow."""
        self.wait(lambda: self.lives[i].exitcode is not None, within, f"{NAMES[i]} does not end", i)
        return self.lives[i].exitcode

    def wait(self, condition, within, complaint, i):
        """Until a condition holds; fails if no agent speaks, says a line, loads or ends for so many seconds. Time in
        which the agents wait for a processor does not count."""
        before, moved, waited = None, 0.0, 0.0
        for look in itertools.count():
            if condition():
                return
            if look % 20 == 0 and (now := self._moved()) != before:  # it reads five stores
                before, moved, waited = now, time.monotonic(), self._waited()
            if time.monotonic() > moved + within:
                assert time.monotonic() <= moved + within + self._waited() - waited, f"{complaint}:\n{self.log(i)}"
            time.sleep(0.05)

    def _moved(self):
        ticks = {path: self._tick(path) for path in sorted(self.folder.glob("*.store"))}
        doors = sorted(self.folder.glob("door*"))
        return ticks, doors, [len(self.log(i)) for i in range(5)], [life.exitcode for life in self.lives.values()]

    def _waited(self):
        return waited(life.pid for life in self.lives.values() if life.exitcode is None)

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
        return self._tick(self.folder / f"{NAMES[i]}.store")

    def _tick(self, store):
        try:
            return status(store).tick
        except InputError:  # it has not made its store yet
            return -1

    def path(self, i, run=None):
        """Of an agent's store: of the agreed run, or of another that its federation has become."""
        if run is None or not run.absent:
            return self.folder / f"{NAMES[i]}.store"
        return next(self.folder.glob(f"{NAMES[i]}.*{run.run[:8]}.store"), self.folder / "none")

    def releases(self, i):
        path, run = self.folder / f"{NAMES[i]}.store", self.federation.run
        with closing(Store(path, run, NAMES[i], self.federation.rounds)) as store:
            return store.releases()

    def said(self):
        """{(tick, agent): row} of all that left."""
        rows = {}
        for i in range(5):
            for tick, raw, _ in self.releases(i):
                rows[tick, i] = np.frombuffer(Message.FromString(raw).payload)
        return rows

    def reaches(self, i, tick, run=None, within=120):
        """Waits until an agent has spoken at this tick, of the run or of another that its federation has become."""
        self.wait(lambda: self._tick(self.path(i, run)) >= tick, within, f"{NAMES[i]} does not reach tick {tick}", i)

    @contextmanager
    def held(self):
        """Agents that are slow get no further."""
        (self.folder / "hold").touch()
        yield
        (self.folder / "hold").unlink()

    def says(self, i, text, within=120):
        """Waits until a line of an agent's log has this text."""
        self.wait(lambda: text in self.log(i), within, f"{NAMES[i]} does not say {text!r}", i)

    def entries(self, i):
        with Ledger(self.folder / f"{NAMES[i]}.ledger", cost=filters.epsilon) as ledger:
            ledger.verify()
            return list(ledger.entries())

    def ledger(self, i):
        """What was reserved and marked."""
        kinds = ("reserve", "mark")
        return [(entry.kind, entry.tick, entry.body) for entry in self.entries(i) if entry.kind in kinds]

    def certificate_faults(self, without=()):
        """Of the reports of the others, if their noise is put aside: it is seeded, and they say so."""
        reports = [json.loads((self.folder / f"{n}.report.json").read_text()) for n in NAMES if n not in without]
        found = examined(collected(self.federation, reports)).faults
        return [fault for fault in found if not fault.where.endswith(".private")]

    def versions(self):
        """How many different answers each (tick, agent) was ever given."""
        lines = {tuple(line.split()) for line in (self.folder / "sent").read_text().splitlines()}
        return Counter((tick, agent) for tick, agent, _ in lines)


class Intermediary:
    """Stands between an agent and all others, with an event loop of its own: `_open` and `_close` are coroutines."""

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._open())
        return self

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _end(self):
        await self._close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for transport in list(self._loop._transports.values()):  # also of a caller that was not answered yet
            transport.abort()
        for _ in range(3):  # asyncio closes their sockets in a later turn
            await asyncio.sleep(0)

    def __exit__(self, *_):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Relay(Intermediary):
    """A bad connection to an agent. It can be cut, so that connections break and nobody answers; or held, so that
    connections stay but nothing passes. It is never faster than one piece in `pace` seconds. It records the first
    connection."""

    def __init__(self, address, hidden, pace=0.02):
        self._address, self._hidden, self._pace, self._writers = address.split(":"), hidden.split(":"), pace, set()
        self.recorded, self._recorder = b"", None

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
        self._recorder = self._recorder or reader
        await asyncio.gather(self._passed(reader, back), self._passed(there, writer))

    async def _passed(self, reader, writer):
        with suppress(ConnectionError):
            while raw := await reader.read(65536):
                self.recorded += raw if reader is self._recorder else b""
                await asyncio.sleep(self._pace)
                await self._flowing.wait()
                writer.write(raw)
                await writer.drain()
        writer.close()

    async def _broken(self):
        await sockets.Network().stop_listening(self._server)
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _held(self, held):
        self._flowing.clear() if held else self._flowing.set()

    def lead(self, hidden):
        """Another agent is reached from now on."""
        self._hidden = hidden.split(":")
        self.cut()
        self.reconnect()

    def cut(self):
        self._run(self._broken())

    def reconnect(self):
        self._run(self._open())

    def hold(self):
        self._run(self._held(True))

    def resume(self):
        self._run(self._held(False))

    _close = _broken


class Meddler(Intermediary):
    """Has everybody's keys and sits in front of an agent: every question is passed on twice, after delays that bring
    those of one neighbour out of order; and every third answer is first that of an earlier question."""

    def __init__(self, federation, name, hidden, identities, rng):
        self._federation, self._name, self._hidden, self._rng = federation, name, hidden, rng
        self._identities = {each: Identity.load(identities / each) for each in federation.names}
        self._before = {}
        self.repeated = self.replayed = 0

    async def _open(self):
        address = self._federation.members[self._federation.names.index(self._name)].address
        certificates = [identity.certificate for identity in self._identities.values()]
        self._server = await Serving(address, self._identities[self._name], certificates, self._passed).open()

    async def _passed(self, method, caller, raw):
        async def pass_on():
            await asyncio.sleep(self._rng.uniform(0.0, 0.05))
            while True:
                try:
                    line = await Line.to(self._hidden, self._identities[caller])
                except ConnectionError:  # it is not up yet
                    await asyncio.sleep(0.05)
                    continue
                try:
                    return await line.asks(method, raw)
                finally:
                    line.close()

        if method == "Leave":  # an agent that has left does not answer twice
            return await pass_on()
        answer, again = await asyncio.gather(pass_on(), pass_on())
        if method == "Greet":
            return answer
        assert bare(Message.FromString(answer)) == bare(Message.FromString(again))
        self.repeated += 1
        before = self._before.get(caller)
        self._before[caller] = answer
        if before is not None and before != answer and self._rng.random() < 1 / 3:
            self.replayed += 1
            return before
        return answer

    async def _close(self):
        await self._server.close()


@pytest.fixture
def network(tmp_path, identities):
    made = []

    def make(kind, folder="net", parts=PARTS):
        (tmp_path / folder).mkdir()
        made.append(Network(tmp_path / folder, kind, identities, parts))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def simulated(net):
    """The same in one process: models, all that was said, and what it cost."""
    setting, said = net.federation.setting, {}
    algorithm, rounds = SETTINGS[net.kind] if net.kind == "silent" else (setting.algorithm, setting.rounds)
    problem, graph = setting.problem(PARTS), setting.graph

    def overheard(t, turn, release):
        said.update({(t, int(i)): row.copy() for i, row in zip(turn.speakers, release.value, strict=True)})

    again = {"rounds": rounds, "noise": tacit.SeededNoise(SEED), "robust": setting.spec.trust.robust}
    run = tacit.simulate(algorithm, problem, graph, **again, overheard=overheard)
    if net.kind in worker.SHARED:
        run = tacit.simulate(algorithm, problem, graph, **again, exchange=SecretSharedSums())
    return run, said


def assert_consistent(net):
    """No message had two versions, and every ledger holds what was planned, once, and what has left."""
    assert set(net.versions().values()) == {1}
    assert not any("has heard other sums" in net.log(i) for i in range(5))
    if net.kind in worker.PRIVATE:
        for i in range(5):
            releases = net.releases(i)
            reserved = [("reserve", tick, canonical(to_plain(event))) for tick, _, event in releases]
            marks = [("mark", tick, sha256(message).digest()) for tick, message, _ in releases]
            assert net.ledger(i) == reserved + marks


def assert_as_simulated(net):
    """Every model, every message and every ledger is what an undisturbed run would have given."""
    assert_consistent(net)
    run, said = simulated(net)
    np.testing.assert_allclose(net.models(), run.estimate, rtol=0, atol=1e-9)
    heard = net.said()
    assert heard.keys() == said.keys()
    for key, row in said.items():
        if len(heard[key]):  # an agent that is silent sends no row
            np.testing.assert_allclose(heard[key], row, rtol=0, atol=1e-9)
    silent = sum(len(row) == 0 for row in heard.values())
    assert silent == (15 if net.kind == "silent" else 0)
    return run
