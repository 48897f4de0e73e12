"""Outsiders keep no member out, whatever they do at the door, and nobody gets in with an older TLS.

`python tests/door.py 2000` does more of it, and prints what a member waits and the memory that outsiders take.
"""

import asyncio
import os
import re
import ssl
import sys
import time
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from threading import Thread

import door
import pytest

from tacit.agent import door as limits
from tacit.agent import handshakes
from tacit.agent.door import Door
from tacit.errors import InputError

SOFT, OUTSIDERS = 128, 300  # more outsiders than files that the process may have open when it starts, or than may stay
STRANGER, NEIGHBOUR = "127.0.0.2", "127.0.0.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door")
    with door.served(folder, SOFT, 4096) as (federation, server):
        yield federation, server, folder


def version(federation, folder, wanted):
    """The TLS version that birch and alder agree on if birch speaks this one only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = wanted
    context.load_cert_chain(folder / "birch" / "certificate.pem", folder / "birch" / "key.pem")
    context.set_alpn_protocols(["h2"])
    host, port = federation.members[0].address.split(":")
    with (
        door.socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain) as connection,
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


def test_a_member_that_opens_calls_and_sends_nothing_holds_up_no_other(served):
    federation, server, folder = served
    found = door.slowed(federation, server, folder, 2)
    assert found["seconds"] is not None
    assert found["refused"] == 32  # of 64


# The door by itself, with a server inside that sends back what it gets


@asynccontextmanager
async def opened(inside=None, handshake=10.0, files=8192, kind=Door):
    """A function that connects, and the callers that were refused."""
    refused, writers = [], []
    made = kind(handshake, files, lambda address, why: refused.append((address, why)))

    async def echo(reader, writer):
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(source=NEIGHBOUR):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        writers.append(writer)
        return reader, writer

    server = await asyncio.start_unix_server(inside or echo, made.inside)
    await made.open("127.0.0.1:0", [f"{NEIGHBOUR}:1"])
    while made._tasks:  # names are being looked up
        await asyncio.sleep(0)
    port = made._server.sockets[0].getsockname()[1]
    try:
        yield connect, refused
    finally:
        made.close()
        await made.leave()
        server.close()
        for writer in writers:
            writer.close()
        for writer in writers:
            with suppress(ConnectionError):
                await writer.wait_closed()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)


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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a socket cannot be reached without its name")
@in_a_loop
async def test_an_open_door_leaves_no_file_behind():
    places = []

    class Noted(Door):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            places.append(self.inside.parent)
            assert places[0].exists()

    async with opened(kind=Noted) as (connect, _):
        assert not places[0].exists()
        assert await answers(await connect())


@in_a_loop
async def test_bytes_pass_as_they_are():
    data = bytes(range(256)) * 20_000  # more than all buffers on the way
    async with opened() as (connect, _):
        reader, writer = await connect()
        writer.write(data)
        assert await asyncio.wait_for(reader.readexactly(len(data)), 60) == data
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 60) == b""


@in_a_loop
async def test_strangers_use_up_nothing_that_neighbours_need(monkeypatch):
    monkeypatch.setattr(limits, "_AT_ONCE", 2.0)
    monkeypatch.setattr(limits, "_RATE", 0.0)
    async with opened() as (connect, refused):
        held = [await connect(STRANGER) for _ in range(4)]
        assert [await answers(each) for each in held] == [True, True, False, False]
        assert refused == [(STRANGER, "comes too often")] * 2
        assert await answers(await connect())


@in_a_loop
async def test_whoever_comes_too_often_may_come_later(monkeypatch):
    monkeypatch.setattr(limits, "_AT_ONCE", 1.0)
    monkeypatch.setattr(limits, "_RATE", 50.0)
    async with opened() as (connect, refused):
        until = time.monotonic() + 60
        let_in = 0
        while let_in < 5 or not refused:
            let_in += await answers(await connect())
            assert time.monotonic() < until


@in_a_loop
async def test_the_oldest_of_too_many_new_connections_makes_room(monkeypatch):
    monkeypatch.setattr(limits, "_NEW", 3)
    async with opened() as (connect, _):
        held = [await connect() for _ in range(2)]
        assert [await answers(each) for each in held] == [True, True]
        held += [await connect() for _ in range(3)]
        assert [await answers(each) for each in held] == [False, False, True, True, True]


@in_a_loop
async def test_fewer_may_be_new_where_there_are_few_files():
    async with opened(files=24) as (connect, _):
        held = [await connect() for _ in range(3)]
        assert [await answers(each) for each in held] == [False, True, True]


@in_a_loop
async def test_connections_that_outlive_a_handshake_stay(monkeypatch):
    monkeypatch.setattr(limits, "_NEW", 2)
    monkeypatch.setattr(limits, "_OPEN", 4)
    async with opened(handshake=0.0) as (connect, refused):  # all are old at once
        held = [await connect() for _ in range(5)]
        assert [await answers(each) for each in held] == [True] * 4 + [False]
        assert refused == [(NEIGHBOUR, "has too many connections open")]
        held[0][1].close()
        until = time.monotonic() + 60
        while not await answers(await connect()):
            assert time.monotonic() < until


@in_a_loop
async def test_a_server_that_hangs_up_ends_the_connection():
    async def hang_up(reader, writer):
        writer.close()

    async with opened(hang_up) as (connect, _):
        reader, _ = await connect()
        assert await asyncio.wait_for(reader.read(), 60) == b""


@in_a_loop
async def test_a_door_that_was_left_has_no_socket_open():
    doors = []

    def kept(*arguments):
        doors.append(Door(*arguments))
        return doors[0]

    async with opened(kind=kept) as (connect, _):
        for _ in range(3):
            assert await answers(await connect())
        sockets = [end.transport.get_extra_info("socket") for end in doors[0].ends]
        assert len(sockets) == 6
        await doors[0].leave()
        assert {each.fileno() for each in sockets} == {-1}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a socket has no name without a file")
@in_a_loop
async def test_nobody_on_the_machine_can_guess_the_next_name():
    async with opened() as (connect, _):
        for _ in range(3):
            assert await answers(await connect())
        found = re.findall(r"@tacit-(\w+)-127", Path("/proc/net/unix").read_text())
        assert len(set(found)) == len(found) >= 3


@in_a_loop
async def test_a_name_with_many_addresses_has_few_shares(monkeypatch):
    made = Door(10.0, 8192, lambda address, why: None)
    many = [(None, None, None, "", (f"192.0.2.{k // 2}", 0)) for k in range(200)]

    async def looked_up(*_, **__):
        return many

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up)
    await made._expect("alder.example")
    assert len(made._shares) == 1 + limits._ADDRESSES
    await made.leave()


def test_callers_from_many_addresses_fill_neither_log_nor_memory(caplog):
    reading, writing = os.pipe()
    line = "I1118 00:00:00.0 1 x.cc:1] CallNextHandshakerLocked: error=UNKNOWN endpoint_peer_address=unix-abstract:"
    watching = Thread(target=handshakes._read, args=(reading, 2, lambda reason: None))
    watching.start()
    with open(writing, "w") as trace:
        for k in range(2 * handshakes._MOST):
            trace.write(f"{line}tacit-0a1b-2001:db8::{k:x}, server_credentials\n")
    watching.join()
    told = [record.message for record in caplog.records]
    assert handshakes._MOST < len(told) < handshakes._MOST + 20
    assert told[0] == "a caller at 2001:db8::0 does not speak TLS correctly: refused"
    assert told[-1] == "a caller at one more address does not speak TLS correctly: refused (1000 times)"


@in_a_loop
async def test_a_port_in_use_and_a_strange_address():
    async with opened() as (connect, _):
        _, writer = await connect()
        port = writer.get_extra_info("peername")[1]
        for listen in (f"127.0.0.1:{port}", "127.0.0.1:99999", "192.0.2.1:0", "nonsense"):
            with pytest.raises(InputError, match=f"cannot listen at {listen}"):
                await Door(1.0, 99, lambda address, why: None).open(listen, [])


def test_a_folder_too_deep_for_a_socket(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(InputError, match="set TMPDIR to a shorter one"):
        Door(1.0, 99, lambda address, why: None)
    assert not list(deep.iterdir())
