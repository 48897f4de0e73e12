"""Callers that must not get in are refused, leave a line in the log, and stop nobody."""

import asyncio
import gc
import logging
import socket
import time
import weakref

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import Relay, assert_as_simulated
from agent_worker import D
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from frames import Line, NotYet, Refused, Serving, call, framed, tls
from ports import free_ports
from speaking import Quiet, Rehearsed, Speaker, unpacked

import tacit
from tacit.agent.identity import Identity
from tacit.agent.loop import AgentLoop
from tacit.agent.membership.meeting import Meeting
from tacit.agent.store import Store
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.server import Server, _Caller
from tacit.agent.transport.sizes import largest_answer
from tacit.agent.transport.tls import PROTOCOL
from tacit.agent.transport.tls_streams import ASK
from tacit.agent.transport.wire import BadMessage, packed_row, row_of
from tacit.agent.transport.wire_pb2 import Greeting, Message, Question
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, ELM = 0, 1, 2, 4


def test_attackers_while_an_agent_waits(network, identities, tmp_path):
    net = network("recycled")
    net.start(0, 1, 2, 3)
    federation, run = net.federation, bytes.fromhex(net.federation.run)
    elm, cedar = (Identity.load(identities / name) for name in ("elm", "cedar"))
    mallory, false_birch = Identity.new("mallory", tmp_path), Identity.new("birch", tmp_path)
    speaker = Speaker(federation, elm)
    ask = speaker.question(tick=0)
    parts = {part: bytes(16) if part == "run.rounds" else value for part, value in federation.parts.items()}

    async def attacks():
        assert b"run.rounds" in await call(federation, elm, "Greet", Greeting(name="elm", parts=parts))
        for caller, question in [
            (None, ask),
            (mallory, ask),
            (cedar, ask),
            (false_birch, Question(run=run, sender=BIRCH)),
        ]:
            assert isinstance(await call(federation, caller, "Ask", question), ConnectionError)
        for question, why in [
            (Question(run=run, sender=BIRCH), "elm claims to be birch: refused"),
            (Question(run=run, sender=99), "elm claims to be member 99: refused"),
            (Question(run=bytes(32), sender=ELM), "elm asks about another run: refused"),
            (speaker.question(tick=10**6), "elm: there is no message for elm at tick 1000000"),
            (b"\xff" * 50, "elm: it sent bytes that are not a Question: refused"),
            (Question(run=bytes(10**5), sender=ELM), "elm: its Question is too long: refused"),
        ]:
            found = await call(federation, elm, "Ask", question)
            assert isinstance(found, Refused)
            assert str(found) == why

    asyncio.run(attacks())
    address = ("127.0.0.1", int(federation.members[ALDER].address.split(":")[1]))
    idle = [socket.create_connection(address) for _ in range(100)]
    with socket.create_connection(address) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
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


async def asked_by_alder(federation, identities, lie, enough=lambda: False, listen=None, protocol=PROTOCOL):
    """What alder reads in the answers of birch's server, which an attacker runs; None if it is `enough` before that."""

    async def answer(method, caller, raw):
        return await lie(raw)

    birch, trusted = Identity.load(identities / "birch"), [federation.members[ALDER].certificate]
    server = await Serving(listen or federation.members[BIRCH].address, birch, trusted, answer, protocol).open()
    peer = Peer(federation, ALDER, BIRCH, Identity.load(identities / "alder"), Quiet())
    asking = asyncio.create_task(peer.ask(5, lambda message: row_of(message, D)))
    try:
        while not (asking.done() or enough()):
            await asyncio.sleep(0.01)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()
        await peer.close()
        await server.close()


def test_a_connection_that_takes_seconds_to_open(network, identities):
    """On a slow link, or on a machine that has little time for a neighbour, the handshake alone takes longer than the
    pause between two attempts."""
    federation, hidden = network("broadcast").federation, f"127.0.0.1:{free_ports(1)[0]}"
    row = np.arange(D) / 8

    async def honest(question):
        return packed_row(federation.run, BIRCH, 5, row)

    with Relay(federation.members[BIRCH].address, hidden, pace=0.8):
        heard = asyncio.run(asked_by_alder(federation, identities, honest, listen=hidden))
    np.testing.assert_array_equal(heard, row)


@pytest.mark.parametrize("refusal", [NotYet, Refused, ConnectionError])
def test_a_neighbour_that_says_not_yet_at_once_keeps_nobody_busy(network, identities, refusal):
    asked = []

    async def not_yet(question):
        asked.append(time.monotonic())
        raise refusal("not yet")

    asyncio.run(asked_by_alder(network("broadcast").federation, identities, not_yet, lambda: len(asked) == 5))
    assert np.diff(asked).min() > 0.09  # seconds, however long a busy machine takes


def test_what_a_neighbour_says_does_not_command_the_terminal(network, identities, caplog):
    asked = []

    async def rude(question):
        asked.append(question)
        raise Refused("\x1b[2J\nwarning: all is well" + "x" * 1000)

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
    monkeypatch.setattr("tacit.agent.transport.peer._BACK_OFF", (0.01, 0.01))
    federation, asked = network("broadcast").federation, []

    async def inventive(question):
        asked.append(question)
        n = len(asked) - 1
        if rude:
            raise Refused(f"excuse {n}: {'x' * n}")
        return packed_row(federation.run, n, n, np.ones(n))

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        asyncio.run(asked_by_alder(federation, identities, inventive, lambda: len(asked) == 10))
    assert len([record for record in caplog.records if record.name == "tacit.agent"]) == 1


def test_a_connection_leaves_nothing_behind(network, identities, monkeypatch):
    """Also without the garbage collector, whether it was let in or not (cpython#109534)."""
    federation = network("broadcast").federation
    alder, birch, cedar = (Identity.load(identities / name) for name in ("alder", "birch", "cedar"))
    run = bytes.fromhex(federation.run)
    monkeypatch.setattr("tacit.agent.transport.server._HOLD", 0.01)
    asked = [
        (birch, "Ask", Question(run=run, sender=BIRCH), bytes),
        (birch, "Ask", Question(run=run, sender=BIRCH, tick=1), NotYet),
        (birch, "Leave", Question(run=bytes(32), sender=BIRCH), Refused),
        (birch, "Greet", Greeting(name="elm"), Refused),
        (birch, "Greet", b"\xff", Refused),
        (birch, "Ask", bytes(10**5), Refused),
        (cedar, "Ask", Question(run=run, sender=CEDAR), ConnectionError),
        (None, "Ask", Question(run=run, sender=BIRCH), ConnectionError),
    ]
    made = []

    class Noted(_Caller):
        def __init__(self, server):
            super().__init__(server)
            made.append(weakref.ref(self))

    monkeypatch.setattr("tacit.agent.transport.server._Caller", Noted)

    async def questions():
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(federation.members[ALDER].address)
        try:
            for who, method, message, expected in asked:
                for _ in range(3):
                    assert isinstance(await call(federation, who, method, message), expected)
            until = time.monotonic() + 60
            while any(each() is not None for each in made) and time.monotonic() < until:
                await asyncio.sleep(0.01)
            assert len(made) == 3 * len(asked)
            assert [each() for each in made] == [None] * len(made)
            assert not server._open
            assert not server._tasks
        finally:
            await server.stop()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(questions())
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
        await server.stop()
        gc.collect()  # a task whose error nobody reads says so when it goes

    asyncio.run(stopped())
    assert not failed


def test_agents_of_another_version_are_told_apart(network, identities, caplog):
    """Both sides of an agent of an earlier version: it names h2 in the handshake."""
    federation, alder, birch = (
        network("broadcast").federation,
        *(Identity.load(identities / n) for n in ("alder", "birch")),
    )
    line = "speaks to agents of another version of tacit: all members need the same one"

    async def called():
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(address := federation.members[ALDER].address)
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls(birch, protocol="h2"))
        assert await reader.read() == b""
        writer.close()
        await server.stop()

    async def never(question):
        raise AssertionError("it was asked")

    def told():
        return [each.getMessage() for each in caplog.records if each.name == "tacit.agent"]

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        asyncio.run(called())
        asyncio.run(asked_by_alder(federation, identities, never, lambda: len(told()) == 2, protocol="h2"))
    address = federation.members[BIRCH].address
    assert told() == [f"a caller at 127.0.0.1 {line}: refused", f"birch at {address} {line}; asking again"]


@pytest.mark.parametrize("usage", [True, False])
def test_a_certificate_that_a_member_has_signed_is_refused(network, identities, usage):
    """At both ends: a server does not let it in, and a caller does not believe it; whatever the certificate says that
    it may be used for."""
    federation = network("broadcast").federation
    alder, birch = (Identity.load(identities / name) for name in ("alder", "birch"))
    signed = Identity("birch", *_signed_by(birch, usage))

    async def answer(method, caller, raw):
        return b"an answer"

    async def both():
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(federation.members[ALDER].address)
        asked = Question(run=bytes.fromhex(federation.run), sender=BIRCH)
        found = [await call(federation, who, "Ask", asked) for who in (birch, signed)]
        await server.stop()
        for who in (birch, signed):
            there = await Serving(federation.members[BIRCH].address, who, [alder.certificate], answer).open()
            peer = Peer(federation, ALDER, BIRCH, alder, Quiet())
            try:
                found.append((await peer._asked(federation.accepted("birch"), ASK, b""))[1])
            except ConnectionError as error:
                found.append(error)
            await peer.close()
            await there.close()
        return [isinstance(each, bytes) for each in found]

    assert asyncio.run(both()) == [True, False, True, False]


def _signed_by(issuer, usage):
    """A key, and a certificate for it with the issuer's signature, followed by the issuer's own."""
    of = x509.load_pem_x509_certificate(issuer.certificate.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateBuilder(of.subject, of.subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(of.not_valid_before_utc).not_valid_after(of.not_valid_after_utc)
    for each in of.extensions if usage else ():
        made = made.add_extension(each.value, each.critical)
    signed = made.sign(serialization.load_pem_private_key(issuer.key, None), hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, signed.public_bytes(pem).decode() + issuer.certificate


class Huge(Rehearsed):
    """Every answer is long, and a new one."""

    def find(self, question):
        return bytes(8 << 20)


def test_a_neighbour_that_does_not_read_has_one_answer_at_a_time_and_is_ended(network, identities, monkeypatch, caplog):
    deadline = "tacit.agent.transport.server.DEADLINE"
    monkeypatch.setattr(deadline, None)  # until there are more connections than there may be
    federation = network("broadcast").federation
    alder, birch, elm = (Identity.load(identities / name) for name in ("alder", "birch", "elm"))

    async def greedy():
        server, made = Server(federation, ALDER, alder, huge := Huge()), []
        monkeypatch.setattr(huge, "find", lambda question: made.append(question) or bytes(8 << 20))
        await server.start(address := federation.members[ALDER].address)
        ask = framed(ASK, Question(run=bytes.fromhex(federation.run), sender=BIRCH).SerializeToString())
        lines, most = [], 0
        for k in range(40):
            if k == 24:
                monkeypatch.setattr(deadline, 1.0)
            lines.append(await Line.to(address, birch, room=1 << 16))
            lines[-1].writer.transport.pause_reading()
            lines[-1].writer.write(ask)
            most = max(most, server._unwritten["birch"])
        assert isinstance(await call(federation, elm, "Greet", Greeting(name="elm")), bytes)
        until = time.monotonic() + 120
        while server._open and time.monotonic() < until:
            most = max(most, server._unwritten["birch"])
            await asyncio.sleep(0.01)
        assert not server._open
        assert not server._unwritten["birch"]
        assert most == 8 << 20
        await server.stop()
        for line in lines:
            line.close()

    with caplog.at_level(logging.WARNING, "tacit.agent"):
        asyncio.run(greedy())
    assert {each.getMessage() for each in caplog.records if each.name == "tacit.agent"} == {
        "birch has too many connections open: the oldest is closed",
        "birch does not read what it asks for: its connections are closed",
    }


def test_a_neighbour_that_leaves_again_and_again_writes_to_the_disk_once(network, identities, monkeypatch):
    net, written = network("broadcast"), []
    participant = worker.participant(net.folder, net.kind, ALDER, identities, tacit.SecureNoise())
    mark_finished = Store.mark_finished
    monkeypatch.setattr(Meeting, "complete", True)
    monkeypatch.setattr(Store, "mark_finished", lambda self, name: (written.append(name), mark_finished(self, name)))

    async def leaving():
        loop = AgentLoop(participant.started(), lambda doing, done, rounds: None)
        for name in ("birch", "birch", "elm", "birch"):
            loop.conversation.may_leave(name)

    asyncio.run(leaving())
    assert written == ["birch", "elm"]


def test_a_neighbour_that_answers_nonsense_is_named_and_asked_again(network, identities, caplog, monkeypatch):
    """birch is an impostor's server with birch's own key: it says one wrong thing after the other, then the truth."""
    monkeypatch.setattr("tacit.agent.transport.peer._BACK_OFF", (0.01, 0.01))
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

    async def lie(question):
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
    assert "its answer is too long" in size
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
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(BadMessage, match="number 2 of its row is not finite"):
            row_of(unpacked(packed_row(run, 1, 7, np.array([1.5, 0.0, bad])), run, 1, 7), 3)
