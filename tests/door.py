"""At an agent's door: how long a member waits while others do their worst, and the memory that they take.

    python tests/door.py [OUTSIDERS] [SOFT] [HARD]

starts the server of an agent in a process with these limits on open files, lets a member greet meanwhile, and prints
what was measured:

- held: so many connections of outsiders are open, of three kinds (idle; the beginning of a handshake and no more; byte
  by byte), all from the member's own address;
- flood: two processes of outsiders begin handshakes without a certificate, one after the other, for ten seconds; first
  from another address, then from the member's own;
- idle, half-open: 600 connections say nothing; 200 have begun a handshake and do not go on;
- slow: another member opens a hundred connections, begins a question on each, and does not end it;
- greedy: it asks for 8 MB on each, and reads nothing. All are closed in the end.
"""

import asyncio
import contextlib
import json
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from frames import Line, framed, tls
from speaking import Quiet

from tacit.agent.identity import Identity
from tacit.agent.transport.tls_streams import ASK
from tacit.agent.transport.wire_pb2 import Question

HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(100)  # the beginning of a ClientHello


def serve(folder, soft, hard):
    """In a process of its own: an agent's server, and nothing else."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    import agent_worker as worker

    from tacit.agent.transport.server import Server, Signal
    from tacit.agent.transport.wire_pb2 import Greeting

    class Answers(Quiet):
        changed = Signal()
        find = staticmethod(lambda question: bytes(8 << 20))
        greeting = staticmethod(lambda name: Greeting(name="alder"))
        greeted = staticmethod(lambda name, greeting: None)

    async def main():
        federation = worker.loaded(folder, "broadcast")
        server = Server(federation, 0, Identity.load(folder / "alder"), Answers())
        await server.start(federation.members[0].address)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the parent closes it
        await server.stop()

    asyncio.run(main())


def memory(pid, field="VmHWM"):
    """The most that a process has had, in MB; or what it has (VmRSS)."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


@contextlib.contextmanager
def served(folder, soft, hard):
    """A federation in this folder, and the process of alder's server; at the end its log is in the file `log`."""
    import agent_worker as worker
    from conftest import SIZES
    from ports import free_ports

    for name in worker.NAMES:
        Identity.new(name, folder)
    federation = worker.federation(folder, "broadcast", free_ports(5), list(SIZES), folder)
    arguments = [sys.executable, __file__, "serve", str(folder), str(soft), str(hard)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout.readline() == "ready\n"
            yield federation, server
        finally:
            server.stdin.close()
            server.wait(30)


def greeted(federation, folder, name="birch"):
    """How many seconds a member waits until alder has answered its greeting; None if it waits for a minute in vain."""
    from tacit.agent.transport.peer import Peer
    from tacit.agent.transport.wire_pb2 import Greeting

    async def greet():
        me = federation.names.index(name)
        peer = Peer(federation, me, 0, Identity.load(folder / name), Quiet())
        begin = time.monotonic()
        try:
            async with asyncio.timeout(60):
                await peer.greet(lambda: Greeting(name=name), lambda answer: answer)
            return time.monotonic() - begin
        except TimeoutError:
            return None
        finally:
            await peer.close()

    return asyncio.run(greet())


def hello():
    """A whole ClientHello."""
    context, out = tls(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def measured(federation, server, folder, outsiders, begin=(b"", HELLO[:60], HELLO[:1])):
    """What a member finds while outsiders hold connections, on which they have sent one of these beginnings."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, outsiders + 500)), most))
    before, over = memory(server.pid), threading.Event()
    host, port = federation.members[0].address.split(":")
    with contextlib.ExitStack() as stack:
        stack.callback(over.set)
        held = []
        for k in range(outsiders):
            held.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=10)))
            held[-1].sendall(begin[k % len(begin)])
        threading.Thread(
            target=_drip, args=(held[2 :: len(begin)] if len(begin) > 2 else [], over), daemon=True
        ).start()
        waited = greeted(federation, folder)
        kept = sum(map(_open, held))
        peak = memory(server.pid)
    return {
        "outsiders": outsiders, "still open": kept, "seconds": waited, "MB before": before, "MB": peak,
        "MB after": _after(server, folder, federation),
    }  # fmt: skip


def _after(server, folder, federation):
    """What the server has when its connections are closed."""
    greeted(federation, folder)
    return memory(server.pid, "VmRSS")


def _flood(address, source, seconds):
    """Handshakes without a certificate, one after the other, for so long and until one was let in; how many, and how
    many of them were let in."""
    context = tls()
    host, port = address.split(":")
    tried = let_in = 0
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until or (not let_in and now < until + 60):
        tried += 1
        with contextlib.suppress(OSError):
            there = socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))
            with there, context.wrap_socket(there):
                let_in += 1
    return tried, let_in


def flooded(federation, server, folder, seconds, source, processes=2):
    """What a member finds while outsiders begin handshakes as fast as they can."""
    address, before = federation.members[0].address, memory(server.pid)
    arguments = [sys.executable, __file__, "flood", address, source, str(seconds)]
    outsiders = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    waited = []
    while not waited or any(outsider.poll() is None for outsider in outsiders):
        waited.append(greeted(federation, folder))
        if waited[-1] is None:
            break
        time.sleep(0.05)
    counts = [json.loads(outsider.communicate()[0]) for outsider in outsiders]
    tried, let_in = (sum(each) for each in zip(*counts, strict=True))
    longest = None if None in waited else max(waited)
    return {
        "flood from": source, "handshakes": tried, "let in": let_in, "greetings": len(waited), "seconds": longest,
        "MB before": before, "MB": memory(server.pid),
    }  # fmt: skip


def _held(federation, server, folder, connections, question, to_the_end):
    """What elm finds while birch has sent this on each of its connections, and reads nothing; and how many of them are
    closed then, or how long it takes until all are."""
    birch, address = Identity.load(folder / "birch"), federation.members[0].address

    async def hold():
        lines = []
        for _ in range(connections):
            lines.append(await Line.to(address, birch, room=1 << 16))
            lines[-1].writer.transport.pause_reading()
            lines[-1].writer.write(question)
        await asyncio.sleep(0.5)  # some connections are closed by now
        waited, began = await asyncio.to_thread(greeted, federation, folder, "elm"), time.monotonic()
        while (closed := sum(map(_ended, lines))) < connections and to_the_end and time.monotonic() < began + 90:
            await asyncio.sleep(0.5)
        for line in lines:
            line.close()
        return waited, closed, time.monotonic() - began

    before = memory(server.pid)
    waited, closed, took = asyncio.run(hold())
    return {
        "connections": connections, "closed": closed, "after": round(took, 1), "seconds": waited, "MB before": before,
        "MB": memory(server.pid), "MB after": _after(server, folder, federation),
    }  # fmt: skip


def _ended(line):
    """Whether the other side has ended a connection; what has arrived stays unread."""
    if line.writer.transport.is_closing() or (connection := line.writer.get_extra_info("socket")) is None:
        return True
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1  # TCP_ESTABLISHED


def slowed(federation, server, folder, connections):
    """What elm finds while birch has begun questions that it does not end."""
    return _held(federation, server, folder, connections, framed(ASK, bytes(100))[:50], to_the_end=False)


def greedy(federation, server, folder, connections, to_the_end=True):
    """What elm finds while birch asks for 8 MB on each connection, and reads nothing."""
    question = Question(run=bytes.fromhex(federation.run), sender=1).SerializeToString()
    return _held(federation, server, folder, connections, framed(ASK, question), to_the_end)


def _open(held):
    """Whether the server has not closed a connection."""
    held.setblocking(False)
    try:
        return held.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _drip(sockets, over):
    for at in range(1, len(HELLO)):
        for each in sockets:
            with contextlib.suppress(OSError):
                each.send(HELLO[at : at + 1])
        if over.wait(0.5):
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1:2] == ["flood"]:
        print(json.dumps(_flood(sys.argv[2], sys.argv[3], float(sys.argv[4]))))
    else:
        outsiders, soft, hard = (
            int(given) for given in (*sys.argv[1:], *("2000", "1024", "16384")[len(sys.argv) - 1 :])
        )
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        with tempfile.TemporaryDirectory() as home, served(Path(home), soft, hard) as (federation, server):
            print(json.dumps(measured(federation, server, Path(home), outsiders)))
            print(json.dumps(measured(federation, server, Path(home), 600, [b""])))
            print(json.dumps(measured(federation, server, Path(home), 200, [hello()])))
            for source in ("127.0.0.2", "127.0.0.1"):
                print(json.dumps(flooded(federation, server, Path(home), 10.0, source)))
            print(json.dumps(slowed(federation, server, Path(home), 100)))
            print(json.dumps(greedy(federation, server, Path(home), 100)))
