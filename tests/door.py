"""At an agent's door: how long a member waits while others do their worst, and the memory that they take.

    python tests/door.py [OUTSIDERS] [SOFT] [HARD]

starts the server of an agent in a process with these limits on open files, lets a member greet meanwhile, and prints
what was measured, three times:

- held: so many connections of outsiders are open, of three kinds (idle; the beginning of a handshake and no more; byte
  by byte), all from the member's own address;
- flood: two processes of outsiders begin handshakes without a certificate, one after the other, for ten seconds; first
  from another address, then from the member's own;
- slow: another member has opened a hundred connections, with 32 calls on each, and sends nothing.
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

from speaking import Quiet

HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(100)  # the beginning of a ClientHello


def serve(folder, soft, hard):
    """In a process of its own: an agent's server, and nothing else."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    from tacit.agent import handshakes

    handshakes.trace()
    import agent_worker as worker

    from tacit.agent.identity import Identity
    from tacit.agent.transport import Server, Signal
    from tacit.agent.wire_pb2 import Greeting

    class Answers(Quiet):
        changed = Signal()
        greeting = staticmethod(lambda name: Greeting(name="alder"))
        greeted = staticmethod(lambda name, greeting: None)

    async def main():
        federation = worker.loaded(folder, "broadcast")
        server = Server(federation, 0, Identity.load(folder / "alder"), Answers())
        await server.start(federation.members[0].address)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the parent closes it
        await server.stop()

    with handshakes.watched():
        asyncio.run(main())


def memory(pid):
    """The most that a process has had, in MB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


@contextlib.contextmanager
def served(folder, soft, hard):
    """A federation in this folder, and the process of alder's server; at the end its log is in the file `log`."""
    import agent_worker as worker
    from conftest import SIZES
    from ports import free_ports

    from tacit.agent.identity import Identity

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
    from tacit.agent.identity import Identity
    from tacit.agent.transport import Peer
    from tacit.agent.wire_pb2 import Greeting

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


def measured(federation, server, folder, outsiders):
    """What a member finds while outsiders hold connections."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, outsiders + 500)), most))
    before, over = memory(server.pid), threading.Event()
    host, port = federation.members[0].address.split(":")
    with contextlib.ExitStack() as stack:
        stack.callback(over.set)
        held = []
        for k in range(outsiders):
            held.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=10)))
            if k % 3:
                held[-1].sendall(HELLO[: 60 if k % 3 == 1 else 1])
        threading.Thread(target=_drip, args=(held[2::3], over), daemon=True).start()
        waited = greeted(federation, folder)
        kept = sum(map(_open, held))
        peak = memory(server.pid)
    return {"outsiders": outsiders, "still open": kept, "seconds": waited, "MB before": before, "MB": peak}


def _flood(address, source, seconds):
    """Handshakes without a certificate, one after the other, for so long and until one was let in; how many, and how
    many of them were let in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
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


def slowed(federation, server, folder, connections, calls=32):
    """What elm finds while birch has calls open on which it sends nothing."""
    import grpc

    from tacit.agent.identity import Identity

    birch, alder = Identity.load(folder / "birch"), federation.members[0]
    credentials = grpc.ssl_channel_credentials(alder.certificate.encode(), birch.key, birch.certificate.encode())
    options = [("grpc.ssl_target_name_override", alder.name), ("grpc.use_local_subchannel_pool", 1)]

    async def hold():
        async with contextlib.AsyncExitStack() as stack:
            held = []
            for _ in range(connections):
                channel = await stack.enter_async_context(
                    grpc.aio.secure_channel(alder.address, credentials, options=options)
                )
                await asyncio.wait_for(channel.channel_ready(), 60)
                held += [channel.stream_unary("/tacit.Agent/Greet")(timeout=30) for _ in range(calls)]
            await asyncio.sleep(0.5)  # some calls are refused by now, others wait
            waited = await asyncio.to_thread(greeted, federation, folder, "elm")
            refused = sum(call.done() for call in held)
            for call in held:
                call.cancel()
        return waited, refused

    before = memory(server.pid)
    waited, refused = asyncio.run(hold())
    return {
        "calls": connections * calls, "refused": refused, "seconds": waited, "MB before": before,
        "MB": memory(server.pid),
    }  # fmt: skip


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
            for source in ("127.0.0.2", "127.0.0.1"):
                print(json.dumps(flooded(federation, server, Path(home), 10.0, source)))
            print(json.dumps(slowed(federation, server, Path(home), 100)))
