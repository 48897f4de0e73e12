"""What systemd is told, at a socket of our own."""

import asyncio
import socket
from contextlib import suppress

import pytest

from tacit.agent import stopping
from tacit.agent.monitoring import systemd
from tacit.agent.monitoring.progress import Progress
from tacit.errors import NotNow


@pytest.fixture(params=["file", "abstract"])
def supervisor(request, tmp_path, monkeypatch):
    name = str(tmp_path / "notify") if request.param == "file" else f"@{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1) if request.param == "abstract" else name)
        listening.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listening


def test_every_heartbeat_says_ready_and_alive(supervisor):
    progress = Progress(systemd.alive)
    progress.enter("alder", "ab", 65)
    progress.show("waiting for birch", 3)
    progress.heartbeat()
    said = supervisor.recv(4096).decode().split("\n")
    assert said == ["READY=1", "WATCHDOG=1", "STATUS=round 3 of 65; waiting for birch"]


def test_a_signal_says_stopping(supervisor):
    async def told():
        asyncio.get_running_loop().call_soon(signal_now)
        await asyncio.sleep(60)

    def signal_now():
        stopping.signal.raise_signal(stopping.signal.SIGTERM)

    with pytest.raises(NotNow, match="stopped by SIGTERM in round 1"):
        stopping.run(told(), lambda: "in round 1", print)
    first, second = supervisor.recv(4096).decode().split("\n")
    assert first == "STOPPING=1"
    assert second.startswith("STATUS=stopped by SIGTERM in round 1")


def test_the_end_of_a_run_says_stopping(supervisor):
    async def work():
        return 3

    assert stopping.run(work(), lambda: "round 5 of 5", print) == 3
    assert supervisor.recv(4096) == b"STOPPING=1\nSTATUS=round 5 of 5"


def test_work_that_is_cancelled_without_a_signal_ends_in_a_line(supervisor):
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(NotNow, match="a connection was broken off in round 1"):
        stopping.run(cancelled(), lambda: "in round 1", print)


def test_a_signal_outside_of_the_event_loop():
    before = stopping.signal.getsignal(stopping.signal.SIGTERM)
    with pytest.raises(NotNow, match="stopped by SIGTERM; nothing is lost"), stopping.outside_of_the_loop():
        stopping.signal.raise_signal(stopping.signal.SIGTERM)
    assert stopping.signal.getsignal(stopping.signal.SIGTERM) is before


def test_a_supervisor_that_does_not_read_holds_up_nobody(supervisor, monkeypatch):
    for _ in range(2000):  # more than a socket keeps
        systemd.alive(Progress())
    supervisor.setblocking(False)
    said = []
    with suppress(BlockingIOError):
        while True:
            said.append(supervisor.recv(4096).split(b"\n")[:2])
    assert 0 < len(said) < 2000  # what the socket had no room for was not waited for
    assert said == [[b"READY=1", b"WATCHDOG=1"]] * len(said)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    systemd.alive(Progress())
    monkeypatch.delenv("NOTIFY_SOCKET")
    systemd.alive(Progress())
    with pytest.raises(BlockingIOError):
        supervisor.recv(4096)  # elsewhere, and nowhere
