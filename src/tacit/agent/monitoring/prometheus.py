"""Metrics for Prometheus (`/metrics`) and a health check (`/healthz`), for the agent's own organisation.

No number here comes from records. But the seconds of a tick may depend on them, and whoever sees the metrics learns
when the agent does what. So this listens at a loopback address, unless another one is named. It runs in threads of its
own, for a few callers at a time: whoever asks, and however slowly, does not hold up the agent.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from tacit import __version__
from tacit.agent.monitoring.progress import Progress
from tacit.errors import InputError, TacitError, failed
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.file import last_charge

_CLIENTS = 8  # at a time
_PATIENCE = 5.0  # seconds for a question
_CONNECTED = 10.0  # seconds after its last sign of life for which a neighbour counts as connected
_STALLED = 30.0  # seconds without a heartbeat, after which an agent is not healthy


class Metrics:
    """A server of the metrics of one agent. `lost` gives the number of lines that the log has lost."""

    def __init__(
        self, where: str, progress: Progress, ledger: Path | None = None, lost: Callable[[], int] = lambda: 0
    ) -> None:
        host, port = address(where)
        registry = CollectorRegistry()
        registry.register(_AgentMetrics(progress, ledger, lost))
        self._progress, self._metrics = progress, make_wsgi_app(registry)
        self._local = is_local(where)
        kind = _ServerOfIPv6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, self._answer, kind, _Handler)
        except OSError as error:
            raise failed(
                error, f"--metrics: cannot listen at {where}: {error.strerror or error}; name another port"
            ) from None
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, asked: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._local and not _is_address(asked.get("HTTP_HOST", "")):  # a web page that has rebound its name
            return _said(start, HTTPStatus.FORBIDDEN, "call this server by its address")
        if asked["REQUEST_METHOD"] != "GET":
            return _said(start, HTTPStatus.METHOD_NOT_ALLOWED, "GET only")
        if asked["PATH_INFO"] == "/metrics":
            answer: Iterable[bytes] = self._metrics(asked, start)
            return answer
        if asked["PATH_INFO"] == "/healthz":
            well, line = health(self._progress)
            return _said(start, HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, line)
        return _said(start, HTTPStatus.NOT_FOUND, "there is /metrics and /healthz")


def health(progress: Progress) -> tuple[bool, str]:
    """Whether an agent makes progress, or waits for others; and one line about it."""
    if progress.beat is None:
        return False, "starting: it does not answer its neighbours yet"
    if (quiet := progress.clock.steady() - progress.beat) > _STALLED:
        return False, f"stalled: no heartbeat for {quiet:.0f} s; it was {progress.doing} in {progress.place}"
    return True, f"{progress.place}; {progress.doing} for {progress.seconds:.0f} s"


class _AgentMetrics(Collector):
    def __init__(self, progress: Progress, ledger: Path | None, lost: Callable[[], int]) -> None:
        self._progress, self._ledger, self._lost = progress, ledger, lost
        self._seen: tuple[int, dict[str, float]] = (-1, {})
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        return []  # nothing is looked at before somebody asks

    def collect(self) -> Iterator[Metric]:
        at, now = self._progress, self._progress.clock.wall()
        info = GaugeMetricFamily("tacit_agent", "The agent.", labels=["member", "run", "version"])
        info.add_metric([at.member, at.run[:16], __version__], 1)
        yield info
        yield GaugeMetricFamily("tacit_round", "The round in which the agent is.", value=at.tick)
        yield GaugeMetricFamily("tacit_rounds", "The rounds of the run.", value=at.rounds)
        doing = GaugeMetricFamily("tacit_doing_seconds", "For how long it does what it does.", labels=["doing"])
        doing.add_metric([at.doing.split(" for ")[0]], at.seconds)
        yield doing
        there = GaugeMetricFamily("tacit_neighbour_connected", "1 after a recent sign of life.", labels=["neighbour"])
        waits = GaugeMetricFamily("tacit_waiting_seconds", "For how long it waits for it.", labels=["neighbour"])
        quiet = GaugeMetricFamily("tacit_neighbour_quiet_seconds", "Since its last sign.", labels=["neighbour"])
        for name, last in at.contacts().items():
            there.add_metric([name], last is not None and now - last < _CONNECTED)
            waits.add_metric([name], at.seconds if name in at.waiting_for else 0.0)
            if last is not None:
                quiet.add_metric([name], max(now - last, 0.0))
        yield from (there, waits, quiet)
        ticks = SummaryMetricFamily("tacit_tick_seconds", "Ticks, and the seconds that they took.")
        ticks.add_metric([], at.ticks, at.tick_seconds)
        yield ticks
        yield CounterMetricFamily("tacit_commits", "Messages committed to the store.", value=at.commits)
        yield CounterMetricFamily("tacit_totals_beyond_bounds", "Sums over all members not used.", value=at.beyond)
        yield GaugeMetricFamily("tacit_totals_differ", "Neighbours that heard other sums.", value=len(at.differing))
        yield CounterMetricFamily("tacit_received_bytes", "Of questions and answers.", value=at.traffic.received)
        yield CounterMetricFamily("tacit_sent_bytes", "Of questions and answers.", value=at.traffic.sent)
        refused = CounterMetricFamily("tacit_refusals", "What was refused, by kind.", labels=["kind"])
        for kind, count in sorted(at.traffic.refused.copy().items()):
            refused.add_metric([kind], count)
        yield refused
        accused = GaugeMetricFamily(
            "tacit_accused", "1 for a member that has signed two versions of a tick.", labels=["member"]
        )
        for name in sorted(at.accused):
            accused.add_metric([name], 1)
        yield accused
        if at.beat is not None:
            age = at.clock.steady() - at.beat
            yield GaugeMetricFamily("tacit_heartbeat_age_seconds", "Since the event loop was seen to run.", value=age)
        yield CounterMetricFamily("tacit_log_lines_lost", "Lines that could not be written.", value=self._lost())
        for name, value in self._budget().items():
            yield GaugeMetricFamily(f"tacit_epsilon_{name}", f"Of the ledger's cap: {name}.", value=value)

    def _budget(self) -> dict[str, float]:
        """What the ledger has spent, and what is left. It is computed again only if the file has changed."""
        if self._ledger is None:
            return {}
        with self._lock:
            try:
                stamp = last_charge(self._ledger)  # other rows, such as the marks of every tick, change nothing
                if stamp != self._seen[0]:
                    with Ledger(self._ledger, cost=epsilon) as ledger:
                        spent, cap = ledger.epsilon(), ledger.cap()
                    self._seen = stamp, {}
                    if spent is not None and cap is not None:
                        self._seen = stamp, {"spent": spent, "left": max(cap.epsilon - spent, 0.0)}
            except (TacitError, OSError):
                return {}  # a ledger that cannot be read: the agent itself says so
            return self._seen[1]


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        pass  # callers do not fill the log


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(_CLIENTS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a caller that has gone, or speaks no HTTP


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


def _said(start: Callable[..., Any], status: HTTPStatus, line: str) -> list[bytes]:
    start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{line}\n".encode()]


def address(where: str) -> tuple[str, int]:
    """Host and port, from PORT or HOST:PORT. A port alone is one of this machine.

    >>> address("9464"), address("localhost:9464"), address("[::1]:9464")
    (('127.0.0.1', 9464), ('127.0.0.1', 9464), ('::1', 9464))
    """
    host, _, port = where.rpartition(":")
    host = "127.0.0.1" if host in ("", "localhost") else host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536 and _is_address(host)):
        raise InputError(f"--metrics is a PORT of this machine, such as 9464, or ADDRESS:PORT; not {where!r}")
    return host, int(port)


def is_local(where: str) -> bool:
    """Whether only this machine can ask there."""
    return ipaddress.ip_address(address(where)[0]).is_loopback


def _is_address(host: str) -> bool:
    """Whether a host, perhaps with a port, is named by its address, or is localhost."""
    name = host if host.count(":") != 1 and not host.startswith("[") else host.rpartition(":")[0]
    name = name.removeprefix("[").removesuffix("]")
    try:
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
