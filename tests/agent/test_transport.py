"""Callers that must not get in are refused, leave a line in the log, and stop nobody."""

import asyncio
import gc
import logging
import socket
import time

import agent_network
import agent_worker as worker
import grpc
import numpy as np
import pytest
from agent_network import Relay, assert_as_simulated
from agent_worker import D
from ports import free_ports
from speaking import Quiet, Speaker

import tacit
from tacit.agent import transport
from tacit.agent.identity import Identity
from tacit.agent.loop import AgentLoop
from tacit.agent.meeting import Meeting
from tacit.agent.store import Store
from tacit.agent.transport import Peer, Server, Signal, largest_answer
from tacit.agent.wire import BadMessage, packed_row, row_of, unpacked
from tacit.agent.wire_pb2 import Greeting, Message, Question
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, ELM = 0, 1, 2, 4


async def call(federation, caller, method, message, to=ALDER):
    """What a caller gets from an agent: an answer, or the error."""
    key, certificate = (None, None) if caller is None else (caller.key, caller.certificate.encode())
    credentials = grpc.ssl_channel_credentials(federation.members[to].certificate.encode(), key, certificate)
    options = [("grpc.ssl_target_name_override", federation.names[to])]
    async with grpc.aio.secure_channel(federation.members[to].address, credentials, options=options) as channel:
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        for _ in range(600):  # until its server is up
            try:
                return await channel.unary_unary(f"/tacit.Agent/{method}")(raw, timeout=30)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or "refused" not in error.details():
                    return error
                await asyncio.sleep(0.2)
    return None


def test_attackers_while_an_agent_waits(network, identities, tmp_path):
    net = network("recycled")
    net.start(0, 1, 2, 3)
    federation, run = net.federation, bytes.fromhex(net.federation.run)
    elm, cedar = (Identity.load(identities / name) for name in ("elm", "cedar"))
    mallory, false_birch = Identity.new("mallory", tmp_path), Identity.new("birch", tmp_path)
    speaker = Speaker(federation, elm)
    ask = speaker.question(tick=0)
    parts = {part: bytes(16) if part == "run.rounds" else value for part, value in federation.parts.items()}
    unavailable, code = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode

    async def attacks():
        assert b"run.rounds" in await call(federation, elm, "Greet", Greeting(name="elm", parts=parts))
        refused = {
            unavailable: [(None, ask), (mallory, ask), (cedar, ask), (false_birch, Question(run=run, sender=BIRCH))],
            code.PERMISSION_DENIED: [(elm, Question(run=run, sender=BIRCH)), (elm, Question(run=run, sender=99))],
            code.FAILED_PRECONDITION: [(elm, Question(run=bytes(32), sender=ELM))],
            code.INVALID_ARGUMENT: [(elm, speaker.question(tick=10**6)), (elm, b"\xff" * 50)],
            code.RESOURCE_EXHAUSTED: [(elm, Question(run=bytes(10**6), sender=ELM))],
        }
        for expected, attempts in refused.items():
            for caller, question in attempts:
                found = await call(federation, caller, "Ask", question)
                assert isinstance(found, grpc.aio.AioRpcError)
                assert found.code() == expected, found

    asyncio.run(attacks())
    address = ("127.0.0.1", int(federation.members[ALDER].address.split(":")[1]))
    idle = [socket.create_connection(address) for _ in range(100)]
    with socket.create_connection(address) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
    # gRPC notices late, and an agent that has ended logs nothing.
    for text in ("does not speak TLS correctly", "showed no certificate", "did not finish the handshake"):
        net.says(ALDER, f"tacit: a caller at 127.0.0.1 {text}: refused")
    net.says(ALDER, "refused (100 times)")
    with Ledger(net.folder / "elm.ledger", cost=filters.epsilon) as ledger:
        ledger.start(federation.run, bytes(16))  # its first process is the one that this test spoke for
    net.start(4)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    for each in idle:
        each.close()
    assert_as_simulated(net)
    lines = net.log(0).splitlines()
    for text, count in {
        "tacit: a caller at 127.0.0.1 showed no certificate: refused": 1,
        # mallory, cedar (not a neighbour of alder), and a false birch with a certificate of its own
        "tacit: a caller at 127.0.0.1 showed a certificate that none of our neighbours has: refused": 3,
        "tacit: a caller at 127.0.0.1 does not speak TLS correctly: refused": 1,
        "tacit: a caller at 127.0.0.1 did not finish the handshake: refused": 9,
        "tacit: a caller at 127.0.0.1 did not finish the handshake: refused (10 times)": 1,
        "tacit: a caller at 127.0.0.1 did not finish the handshake: refused (100 times)": 1,
        "tacit: elm: its Question is too long: refused": 1,
        "tacit: elm claims to be birch: refused": 1,
        "tacit: elm claims to be member 99: refused": 1,
        "tacit: elm: it sent bytes that are not a Question: refused": 1,
        "tacit: elm asks about another run: refused": 1,
        "tacit: elm: there is no message for elm at tick 1000000": 1,
        "tacit: elm: its federation file differs from ours in: run.rounds": 1,
    }.items():
        assert lines.count(text) == count, (text, net.log(0))


async def asked_by_alder(federation, identities, lie, enough=lambda: False, listen=None):
    """What alder reads in the answers of birch's server, which an attacker runs; None if it is `enough` before that."""
    birch, server = Identity.load(identities / "birch"), grpc.aio.server()
    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(lie)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tacit.Agent", handlers),))
    roots = federation.members[ALDER].certificate.encode()
    pair = [(birch.key, birch.certificate.encode())]
    address = listen or federation.members[BIRCH].address
    server.add_secure_port(address, grpc.ssl_server_credentials(pair, roots, True))
    await server.start()
    peer = Peer(federation, ALDER, BIRCH, Identity.load(identities / "alder"), Quiet())
    asking = asyncio.create_task(peer.ask(5, lambda message: row_of(message, D)))
    try:
        while not (asking.done() or enough()):
            await asyncio.sleep(0.01)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()
        await peer.close()
        await server.stop(0)


def test_a_connection_that_takes_seconds_to_open(network, identities):
    """On a slow link, or on a machine that has little time for a neighbour, the handshake alone takes longer than the
    pause between two attempts."""
    federation, hidden = network("broadcast").federation, f"127.0.0.1:{free_ports(1)[0]}"
    row = np.arange(D) / 8

    async def honest(question, context):
        return packed_row(federation.run, BIRCH, 5, row)

    with Relay(federation.members[BIRCH].address, hidden, pace=0.8):
        heard = asyncio.run(asked_by_alder(federation, identities, honest, listen=hidden))
    np.testing.assert_array_equal(heard, row)


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_a_neighbour_that_says_not_yet_at_once_keeps_nobody_busy(network, identities, code):
    asked = []

    async def not_yet(question, context):
        asked.append(time.monotonic())
        await context.abort(code, "not yet")

    asyncio.run(asked_by_alder(network("broadcast").federation, identities, not_yet, lambda: len(asked) == 10))
    assert np.diff(asked).min() > 0.09  # seconds, however long a busy machine takes


def test_what_a_neighbour_says_does_not_command_the_terminal(network, identities, caplog):
    asked = []

    async def rude(question, context):
        asked.append(question)
        await context.abort(grpc.StatusCode.INTERNAL, "\x1b[2J\nwarning: all is well" + "x" * 1000)

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        asyncio.run(asked_by_alder(network("broadcast").federation, identities, rude, lambda: len(asked) == 3))
    (line,) = (record.getMessage() for record in caplog.records if record.name == "tacit.agent")
    assert line.startswith("birch answers: ?[2J?warning: all is well")
    assert line.isprintable()
    assert len(line) == 400


@pytest.mark.parametrize("rude", [True, False])
def test_a_neighbour_that_says_something_else_each_time_has_one_line_of_the_log(
    network, identities, caplog, monkeypatch, rude
):
    monkeypatch.setattr(transport, "_BACK_OFF", (0.01, 0.01))
    federation, asked = network("broadcast").federation, []

    async def inventive(question, context):
        asked.append(question)
        n = len(asked) - 1
        if rude:
            await context.abort(grpc.StatusCode.INTERNAL, f"excuse {n}: {'x' * n}")
        return packed_row(federation.run, n, n, np.ones(n))

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        asyncio.run(asked_by_alder(federation, identities, inventive, lambda: len(asked) == 10))
    assert len([record for record in caplog.records if record.name == "tacit.agent"]) == 1


class Rehearsed(Quiet):
    """What the agent behind a server says: the same to everybody."""

    changed = Signal()

    def find(self, question):
        return b"" if question.tick == 0 else None

    def greeting(self, name):
        return Greeting()

    def greeted(self, name, greeting):
        pass

    def may_leave(self, name):
        return False


def test_an_answered_question_leaves_nothing_behind(network, identities, monkeypatch):
    """Also without the garbage collector: before gRPC 1.81 a server refuses questions when too much is left."""
    federation = network("broadcast").federation
    alder, birch = (Identity.load(identities / name) for name in ("alder", "birch"))
    run, kinds, admitted = bytes.fromhex(federation.run), set(), Server._admitted
    monkeypatch.setattr(transport, "_HOLD", 0.01)
    asked = {
        grpc.StatusCode.OK: ("Ask", Question(run=run, sender=BIRCH)),
        grpc.StatusCode.NOT_FOUND: ("Ask", Question(run=run, sender=BIRCH, tick=1)),
        grpc.StatusCode.FAILED_PRECONDITION: ("Leave", Question(run=bytes(32), sender=BIRCH)),
        grpc.StatusCode.PERMISSION_DENIED: ("Greet", Greeting(name="elm")),
        grpc.StatusCode.INVALID_ARGUMENT: ("Greet", b"\xff"),
        grpc.StatusCode.RESOURCE_EXHAUSTED: ("Ask", bytes(10**6)),
    }

    async def noted(self, kind, stream, context):
        kinds.update((type(stream), type(context)))
        return await admitted(self, kind, stream, context)

    monkeypatch.setattr(Server, "_admitted", noted)

    async def questions():
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(federation.members[ALDER].address)
        try:
            for code, (method, message) in asked.items():
                for _ in range(3):
                    found = await call(federation, birch, method, message)
                    assert (found.code() if isinstance(found, grpc.aio.AioRpcError) else grpc.StatusCode.OK) == code
        finally:
            await server.stop()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(questions())
        assert kinds
        assert [each for each in gc.get_objects() if type(each) in kinds] == []
    finally:
        gc.enable()


def test_a_server_that_is_stopped_while_it_starts_says_nothing(network, identities):
    federation, alder = network("broadcast").federation, Identity.load(identities / "alder")
    failed = []

    async def stopped():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        server = Server(federation, ALDER, alder, Quiet())
        starting = asyncio.create_task(server.start(federation.members[ALDER].address))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await server._server.stop(None)
        await server._door.leave()
        gc.collect()  # a task whose error nobody reads says so when it goes

    asyncio.run(stopped())
    assert not failed


def test_a_neighbour_that_leaves_again_and_again_writes_to_the_disk_once(network, identities, monkeypatch):
    net, written = network("broadcast"), []
    participant = worker.participant(net.folder, net.kind, ALDER, identities, tacit.SecureNoise())
    mark_finished = Store.mark_finished
    monkeypatch.setattr(Meeting, "complete", True)
    monkeypatch.setattr(Store, "mark_finished", lambda self, name: (written.append(name), mark_finished(self, name)))

    async def leaving():
        loop = AgentLoop(participant.started(), lambda doing, done, rounds: None)
        for name in ("birch", "birch", "elm", "birch"):
            loop.may_leave(name)

    asyncio.run(leaving())
    assert written == ["birch", "elm"]


def test_a_neighbour_that_answers_nonsense_is_named_and_asked_again(network, identities, caplog, monkeypatch):
    """birch is an impostor's server with birch's own key: it says one wrong thing after the other, then the truth."""
    monkeypatch.setattr(transport, "_BACK_OFF", (0.01, 0.01))
    federation = network("broadcast").federation
    row = np.arange(D) / 8
    run = federation.run
    nan = row.copy()
    nan[3] = np.nan
    answers = [
        packed_row(run, BIRCH, 5, nan),
        packed_row(run, BIRCH, 5, row[:-1]),
        packed_row(run, BIRCH, 6, row),
        packed_row(run, CEDAR, 5, row),
        packed_row("00" * 32, BIRCH, 5, row),
        packed_row(run, BIRCH, 5, np.ones(10 * largest_answer(federation))),
        b"\xff" * 40,
        packed_row(run, BIRCH, 5, row),
    ]

    given = iter(answers)

    async def lie(question, context):
        return next(given)

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        heard = asyncio.run(asked_by_alder(federation, identities, lie))
    np.testing.assert_array_equal(heard, row)
    lines = [record.getMessage() for record in caplog.records if record.name == "tacit.agent"]
    assert all(line.startswith("birch") for line in lines), lines
    number, shape, question, size, garbage = lines  # of three that answer another question, the first
    assert "number 3 of its row is not finite" in number
    assert "its shape is (14,) with 112 bytes; 15 numbers were expected" in shape
    assert "it answers another question: sender 1, tick 6, phase 0" in question
    assert "larger than max" in size
    assert "it sent bytes that are not a Message" in garbage


def test_a_message_is_read_as_it_was_written_or_refused():
    run, row = "ab" * 32, np.array([1.5, -0.0, 3e-308])
    raw = packed_row(run, 1, 7, row)
    assert row_of(unpacked(raw, run, 1, 7), 3).tobytes() == row.tobytes()
    assert row_of(unpacked(packed_row(run, 1, 7, None), run, 1, 7), 3) is None
    with pytest.raises(BadMessage, match="it answers another question"):
        unpacked(raw, run, 1, 7, phase=1)
    wrong = Message.FromString(raw)
    wrong.shape[:] = [3, 1]
    with pytest.raises(BadMessage, match="its shape is"):
        row_of(unpacked(wrong.SerializeToString(), run, 1, 7), 3)
    wrong.shape[:] = [2**31]
    with pytest.raises(BadMessage, match="its shape is"):
        row_of(unpacked(wrong.SerializeToString(), run, 1, 7), 3)
