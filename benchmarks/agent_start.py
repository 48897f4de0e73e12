"""What an agent takes: CPU time and memory until it answers a neighbour, and memory in the middle of its run.

    python benchmarks/agent_start.py [METHOD ...]

Three organisations with 400, 250 and 150 records of five columns take part in a private run, each by `tacit agent run`
in a process of its own. "Answers": a neighbour has come through the TLS handshake, and the agent has sent it a byte.
Memory is what is resident, pages that the processes of a machine share included. Kernels are compiled before.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tacit.agent.federation import ROWS, TOTALS, Federation, Member, agreement
from tacit.agent.identity import Identity
from tacit.agent.transport.tls import PROTOCOL
from tacit.core.graph import Graph
from tacit.data import Classes, Number, Schema
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Cap, Ledger
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.request import Request
from tacit.run.trust import LOCAL, Trust

NAMES, ROWS_OF, COLUMNS = ("alder", "birch", "cedar"), (400, 250, 150), 5
_TICKS = os.sysconf("SC_CLK_TCK")


def prepared(home: Path, method: str) -> Federation:
    """Writes keys, records, ledgers and the federation file."""
    rng, shared = np.random.default_rng(0), RECIPES[method].traits.totals
    columns = tuple(Number(f"x{k}", bounds=(-3, 3)) for k in range(COLUMNS))
    schema = Schema(label=Classes("y", positive=("1",), negative=("0",)), columns=columns, row_norm=1.0)
    members = []
    for name, rows in zip(NAMES, ROWS_OF, strict=True):
        identity = Identity.new(name, home)
        X = rng.normal(size=(rows, COLUMNS))
        y = (X[:, 0] + rng.normal(size=rows) > 0).astype(int)
        lines = [",".join([*(f"{v:.4f}" for v in x), str(label)]) for x, label in zip(X, y, strict=True)]
        header = ",".join([*(f"x{k}" for k in range(COLUMNS)), "y"])
        (home / f"{name}.csv").write_text("\n".join([header, *lines, ""]))
        with Ledger.new(home / f"{name}.ledger", population=f"records of {name}", cost=epsilon) as ledger:
            ledger.set_cap(Cap(2.0, 1e-5))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            members.append(Member(name, f"127.0.0.1:{free.getsockname()[1]}", rows, identity.certificate))
    exchange = TOTALS if shared else ROWS
    asked = Request(method=method, budget=Budget(2.0, 1e-5), trust=Trust(1) if shared else LOCAL)
    federation = agreement("start", members, Graph.ring(3), asked, schema, exchange=exchange)
    (home / "federation.toml").write_text(federation.to_toml())
    return federation


def started(home: Path, name: str) -> subprocess.Popen[bytes]:
    """An agent in a process of its own."""
    command = [sys.executable, "-m", "tacit", "agent", "run", "--federation", "federation.toml", "--identity", name]
    command += ["--data", f"{name}.csv", "--ledger", f"{name}.ledger", "--out", f"{name}.json"]
    with (home / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, cwd=home, stdout=log, stderr=log)


def answers(federation: Federation, home: Path) -> bool:
    """Whether alder lets birch in."""
    alder = federation.members[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=alder.certificate)
    context.load_cert_chain(home / "birch" / "certificate.pem", home / "birch" / "key.pem")
    context.set_alpn_protocols([PROTOCOL])
    host, port = alder.address.split(":")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=alder.name) as connection,
        ):
            return connection.recv(1) != b""
    except OSError:
        return False


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has taken, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int, field: str = "VmRSS") -> float:
    """In MB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


def measured(method: str) -> None:
    """One run: prints what alder took."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        federation = prepared(home, method)
        agents = [started(home, "alder")]
        try:
            alder = agents[0].pid
            while not answers(federation, home):
                assert agents[0].poll() is None, (home / "alder.log").read_text()
                time.sleep(0.02)
            seconds, start, peak = cpu(alder), memory(alder), memory(alder, "VmHWM")
            agents += [started(home, name) for name in NAMES[1:]]
            middle = 0.0
            while agents[0].poll() is None:
                try:
                    middle = max(middle, memory(alder))
                    own = memory(alder, "RssAnon")
                except (OSError, KeyError):  # it has just ended
                    break
                time.sleep(0.05)
            assert not any(agent.wait(60) for agent in agents), (home / "alder.log").read_text()
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
    print(
        f"{method:16} answers after {seconds:.2f} s of CPU with {start:.0f} MB (at most {peak:.0f}); "
        f"at most {middle:.0f} MB in its run of {federation.rounds} rounds, {own:.0f} of them its own"
    )


if __name__ == "__main__":
    for each in sys.argv[1:] or ["pvp", "mr-admm", "shared-descent"]:
        measured(each)
