"""Outsiders keep no member out, whatever they do at the door, and nobody gets in with an older TLS.

`python tests/door.py 2000` does more of it, and prints what a member waits and the memory that outsiders take.
"""

import asyncio
import ssl
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path

import door
import pytest
from frames import Line, Serving
from speaking import Quiet

from tacit.agent.identity import Identity
from tacit.agent.monitoring.progress import Traffic
from tacit.agent.transport import door as limits
from tacit.agent.transport.door import CONNECTIONS, Door
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.refusals import _MOST_CALLERS, Callers
from tacit.agent.transport.server import Server, Signal
from tacit.agent.transport.sockets import Network, plain
from tacit.agent.transport.tls import PROTOCOL, context
from tacit.agent.transport.tls_streams import ASK
from tacit.errors import InputError, MachineError

SOFT, OUTSIDERS = 128, 300  # more outsiders than files that the process may have open when it starts, or than may stay
STRANGER, NEIGHBOUR = "127.0.0.2", "127.0.0.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door")
    with door.served(folder, SOFT, 4096) as (federation, server):
        yield federation, server, folder


def version(federation, folder, wanted):
    """The TLS version that birch and alder agree on if birch speaks this one only."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = made.maximum_version = wanted
    made.load_cert_chain(folder / "birch" / "certificate.pem", folder / "birch" / "key.pem")
    made.set_alpn_protocols([PROTOCOL])
    host, port = federation.members[0].address.split(":")
    with (
        door.socket.create_connection((host, int(port)), timeout=30) as there,
        made.wrap_socket(there) as connection,
    ):
        assert connection.recv(1)  # with TLS 1.3 a server refuses after the client believes that it is in
        return connection.version()


def test_only_tls_1_3(served):
    federation, _, folder = served
    assert version(federation, folder, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        version(federation, folder, ssl.TLSVersion.TLSv1_2)
    line, log = "a caller at 127.0.0.1 does not speak TLS 1.3: refused", folder / "log"
    until = time.monotonic() + 60
    while line not in log.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert line in log.read_text()


def test_outsiders_that_hold_connections_keep_no_member_out(served):
    federation, server, folder = served
    found = door.measured(federation, server, folder, OUTSIDERS)
    assert found["seconds"] is not None
    assert 0 < found["still open"] < limits._NEW < OUTSIDERS  # the member has one
    assert found["MB"] - found["MB before"] < OUTSIDERS * 0.2  # 50 KB each, in larger runs


def test_outsiders_that_flood_handshakes_keep_no_member_out(served):
    federation, server, folder = served
    found = door.flooded(federation, server, folder, 1.0, STRANGER, processes=1)
    assert found["seconds"] is not None
    assert found["let in"] > 0


def test_a_member_that_begins_questions_and_does_not_end_them_holds_up_no_other(served):
    federation, server, folder = served
    found = door.slowed(federation, server, folder, 2 * CONNECTIONS)
    assert found["seconds"] is not None
    assert found["closed"] == CONNECTIONS


def test_a_member_that_asks_for_much_and_reads_nothing_holds_up_no_other(served):
    federation, server, folder = served
    found = door.greedy(federation, server, folder, 2 * CONNECTIONS, to_the_end=False)
    assert found["seconds"] is not None
    assert found["MB"] - found["MB before"] < 60  # an answer has 8


# The door by itself


@asynccontextmanager
async def opened(files=8192, known=lambda caller: None):
    """A function that connects, the callers that were refused, and the door: behind it, somebody who sends back what he
    gets. `known` may say whose connection one is."""
    refused, made, writers = [], Door(files), []

    class Caller(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, address = transport, plain(transport.get_extra_info("peername")[0])
            if not made.admits(self, address):
                refused.append(address)
                transport.abort()
            elif name := known(self):
                made.known(self, name)

        def data_received(self, data):
            self.transport.write(data)

        def connection_lost(self, error):
            made.gone(self)

        def end(self):
            self.transport.abort()

    async def connect(source=NEIGHBOUR):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        writers.append(writer)
        return reader, writer

    server = await Network().listen("127.0.0.1:0", Caller)
    await made.expect(f"{NEIGHBOUR}:1", Network().look_up)
    port = server.sockets[0].getsockname()[1]
    try:
        yield connect, refused, made
    finally:
        await Network().stop_listening(server)
        for writer in writers:
            writer.transport.abort()


def in_a_loop(test):
    @wraps(test)
    def called(*arguments, **fixtures):
        asyncio.run(test(*arguments, **fixtures))

    return called


async def answers(connection):
    """Whether somebody inside answers."""
    reader, writer = connection
    try:
        writer.write(b"?")
        return await asyncio.wait_for(reader.read(1), 30) == b"?"
    except ConnectionError:
        return False


@in_a_loop
async def test_strangers_use_up_nothing_that_neighbours_need(monkeypatch):
    monkeypatch.setattr(limits, "_AT_ONCE", 2.0)
    monkeypatch.setattr(limits, "_RATE", 0.0)
    async with opened() as (connect, refused, _):
        held = [await connect(STRANGER) for _ in range(4)]
        assert [await answers(each) for each in held] == [True, True, False, False]
        assert refused == [STRANGER] * 2
        assert await answers(await connect())


@in_a_loop
async def test_whoever_comes_too_often_may_come_later(monkeypatch):
    monkeypatch.setattr(limits, "_AT_ONCE", 1.0)
    monkeypatch.setattr(limits, "_RATE", 50.0)
    async with opened() as (connect, refused, _):
        until = time.monotonic() + 60
        let_in = 0
        while let_in < 5 or not refused:
            let_in += await answers(await connect())
            assert time.monotonic() < until


@in_a_loop
async def test_the_oldest_of_too_many_new_connections_makes_room(monkeypatch):
    monkeypatch.setattr(limits, "_NEW", 3)
    async with opened() as (connect, _, _):
        held = [await connect() for _ in range(2)]
        assert [await answers(each) for each in held] == [True, True]
        held += [await connect() for _ in range(3)]
        assert [await answers(each) for each in held] == [False, False, True, True, True]


@in_a_loop
async def test_fewer_may_be_new_where_there_are_few_files():
    async with opened(files=2 * limits._FILES) as (connect, _, _):
        held = [await connect() for _ in range(3)]
        assert [await answers(each) for each in held] == [False, True, True]


@in_a_loop
async def test_connections_of_members_stay_up_to_a_number_for_each(monkeypatch):
    monkeypatch.setattr(limits, "_NEW", 2)
    names = iter(["birch", "elm"] + ["birch"] * CONNECTIONS)
    async with opened(known=lambda caller: next(names)) as (connect, refused, made):
        held = [await connect() for _ in range(CONNECTIONS + 2)]
        assert [await answers(each) for each in held] == [False] + [True] * (CONNECTIONS + 1)
        assert not refused
        made.ends("birch")
        assert [await answers(each) for each in held[1:]] == [True] + [False] * CONNECTIONS
        held[1][1].close()
        until = time.monotonic() + 60
        while any(made._members.values()):  # who has gone does not count
            assert time.monotonic() < until
            await asyncio.sleep(0.01)


@in_a_loop
async def test_a_name_with_many_addresses_has_few_shares():
    made = Door(8192)

    async def looked_up(host):
        return [f"192.0.2.{k}" for k in range(100)]

    await made.expect("alder.example:7001", looked_up)
    assert len(made._shares) == 1 + limits._ADDRESSES


@in_a_loop
async def test_a_name_is_looked_up_once_for_each_address_and_may_be_unknown(monkeypatch):
    many = [(None, None, None, "", (f"192.0.2.{k // 2}", 0)) for k in range(6)]

    async def looked_up(*_, **__):
        return many

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up)
    assert await Network().look_up("alder.example") == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]

    async def unknown(*_, **__):
        raise OSError

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    assert await Network().look_up("alder.example") == []


def test_callers_from_many_addresses_fill_neither_log_nor_memory(caplog):
    callers, traffic = Callers(made := Traffic()), made
    for k in range(2 * _MOST_CALLERS):
        callers.failed(f"2001:db8::{k:x}", "does not speak TLS correctly")
    told = [record.message for record in caplog.records]
    assert _MOST_CALLERS < len(told) < _MOST_CALLERS + 20
    assert len(callers._seen) <= _MOST_CALLERS + 1
    assert traffic.refused == {"a caller does not speak TLS correctly": 2 * _MOST_CALLERS}
    assert told[0] == "a caller at 2001:db8::0 does not speak TLS correctly: refused"
    assert told[-1] == "a caller at one more address does not speak TLS correctly: refused (1000 times)"


@in_a_loop
async def test_a_port_in_use_and_a_strange_address():
    async with opened() as (connect, _, _):
        _, writer = await connect()
        port = writer.get_extra_info("peername")[1]
        for kind, listen in (
            (MachineError, f"127.0.0.1:{port}"),
            (InputError, "127.0.0.1:99999"),
            (MachineError, "192.0.2.1:0"),
            (InputError, "nonsense"),
        ):
            with pytest.raises(kind, match=f"cannot listen at {listen}"):
                await Network().listen(listen, asyncio.Protocol)


# Behind the door


def test_a_key_is_in_no_file_but_its_own(served, monkeypatch, tmp_path):
    """Python reads keys from files only."""
    _, _, folder = served
    identity, read = Identity.load(folder / "alder"), []
    load = ssl.SSLContext.load_cert_chain

    def noted(self, file, **options):
        read.append(Path(file).read_bytes())
        load(self, file, **options)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    context(identity, [], called=True)
    assert b"ENCRYPTED PRIVATE KEY" in read[0]
    assert identity.key not in read[0]
    assert not list(tmp_path.iterdir())


class Echo(Quiet):
    def __init__(self):
        self.changed = Signal()

    def find(self, question):
        return b"".join(question.shares)


@in_a_loop
async def test_bytes_pass_as_they_are_and_a_server_that_has_stopped_has_no_socket_open(served, monkeypatch):
    federation, _, folder = served
    data = bytes(range(256)) * 20_000  # more than all buffers on the way
    birch, elm = (Identity.load(folder / name) for name in ("birch", "elm"))

    async def echo(method, caller, raw):
        return raw

    there = await Serving(federation.members[1].address, birch, [elm.certificate], echo).open()
    peer = Peer(federation, 4, 1, elm, Quiet())
    peer._most = 1 << 24
    trusted = federation.accepted("birch")
    assert (await peer._asked(trusted, ASK, data))[1] == data
    assert (await peer._asked(trusted, ASK, b""))[1] == b""  # on the same connection
    assert len(peer._streams) == 1
    await peer.close()
    await there.close()

    server = Server(federation, 1, birch, Echo())
    server._most = 1 << 24
    await server.start(federation.members[1].address)
    lines = [await Line.to(federation.members[1].address, elm) for _ in range(3)]
    question = door.Question(run=bytes.fromhex(federation.run), sender=4, shares=[data]).SerializeToString()
    assert await lines[0].asks("Ask", question) == data
    sockets = [caller.transport.get_extra_info("socket") for caller in server._open]
    assert len(sockets) == 3
    for each in sockets:
        assert each.getsockopt(door.socket.IPPROTO_TCP, door.socket.TCP_NODELAY)
    await server.stop()
    assert {each.fileno() for each in sockets} == {-1}
    for line in lines:
        assert await line.reader.read() == b""
        line.close()


@pytest.mark.parametrize("turns", range(6))
@in_a_loop
async def test_a_caller_that_was_accepted_just_before_the_server_stopped_has_no_socket_open(served, turns):
    federation, _, folder = served
    server = Server(federation, 1, Identity.load(folder / "birch"), Quiet())
    await server.start(federation.members[1].address)
    host, port = federation.members[1].address.split(":")
    callers = [door.socket.create_connection((host, int(port)), timeout=60) for _ in range(3)]
    for _ in range(turns):  # asyncio tells of a connection some turns after it has accepted it
        await asyncio.sleep(0)
    await server.stop()
    for caller in callers:
        with caller, suppress(ConnectionResetError):
            assert await asyncio.to_thread(caller.recv, 1) == b""
    assert not server._open
