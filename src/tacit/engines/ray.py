"""Tasks on a Ray cluster (https://docs.ray.io): one that runs already, or one on this machine for as long as needed."""

from __future__ import annotations

import logging
import os
import pickle
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from tacit import __version__
from tacit.engines.work import Done, Item, Result, Workers, limited
from tacit.errors import EngineError, InputError, whole


@dataclass(frozen=True)
class Ray:
    """A Ray cluster.

    shards : into how many actors `simulate` divides the agents of one run; by default one for each core
    address : of a cluster that runs, HOST:PORT, or "auto" for the one of this machine. By default one is started on
        this machine and stopped in the end; it answers only to processes that it has started itself.
    jobs : how many cores a cluster that is started here may use; by default all
    """

    shards: int | None = None
    address: str | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("shards", "jobs"):
            if (value := getattr(self, name)) is not None:
                whole(name, value, 1)
        if self.address is not None and self.jobs is not None:
            raise InputError("a cluster that runs already has its own number of jobs: leave out jobs, or address")

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Joins the cluster, or starts it, and gives the module `ray`. In the end it leaves the cluster, and stops what
        it has started. Within another such block it changes nothing."""
        ray = _imported(own=self.address is None)
        if ray.is_initialized():
            yield ray
            return
        how: dict[str, Any] = {"address": self.address}
        if self.address is None:
            cores = len(os.sched_getaffinity(0)) if self.jobs is None else self.jobs
            how = {"address": "local", "num_cpus": cores, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            if found := re.fullmatch(r"([^/:]+):(\d+)", self.address or ""):
                socket.create_connection((found[1], int(found[2])), timeout=10).close()  # Ray would try for minutes
            ray.init(**how, logging_level=logging.ERROR, log_to_driver=False)
        except Exception as error:  # Ray raises errors of all kinds here
            ray.shutdown()
            where = "on this machine" if self.address in (None, "auto") else f"at {self.address}"
            raise EngineError(f"no Ray cluster {where}: {_first_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()

    @contextmanager
    def open(self) -> Iterator[Workers]:
        """Joins the cluster, or starts it; ends it with the block, if it was started here."""
        # Ray tells of workers that die on standard output, where results go.
        with self.connected() as ray, redirect_stdout(sys.stderr):
            yield _Tasks(ray)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """`Workers.map`, with workers for this map alone."""
        with self.open() as workers:
            return workers.map(function, items, done)


class _Tasks:
    def __init__(self, ray: Any) -> None:
        self._ray, self.jobs = ray, max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._work = ray.remote(_work)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """A task for each item. Ray decides where it runs, and starts it again if its worker dies (`max_retries`)."""
        ray = self._ray
        # As bytes: arrays that come out of Ray's store as they are cannot be written to, which would be another type
        # for the compiled kernels.
        shared = ray.put(pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL))
        tasks = [self._work.remote([shared], item, __version__) for item in items]
        waiting, done = list(tasks), done or (lambda k, of: None)
        try:
            done(0, len(tasks))
            while waiting:
                (first, *_), waiting = ray.wait(waiting)
                ray.get(first)
                done(len(tasks) - len(waiting), len(tasks))
            return list(ray.get(tasks))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineError(f"Ray could not finish a task: {_first_line(error)}") from error
        finally:
            for task in waiting:
                ray.cancel(task, force=True)


def _imported(own: bool) -> Any:
    """The module, kept from sending reports about its use to its makers. Ray reads all of this once in a process."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do from its next version on
    if own and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        # Its processes listen on all addresses of the machine, and run what anybody sends who has this token.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise InputError("this needs Ray: pip install 'tacit-learn[ray]'") from error


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@lru_cache(1)
def _read(shared: Any) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = pickle.loads(import_module("ray").get(shared))
    return found


def _work(shared: list[Any], item: Any, version: str) -> Any:
    """In a worker of the cluster. A reference in a list comes as it is, so that its object is read only once."""
    if version != __version__:
        raise EngineError(f"a machine of the cluster has tacit {__version__}, this one has {version}: install the same")
    return limited(_read(*shared), item, threads=1)
