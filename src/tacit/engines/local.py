"""Workers that are processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tacit.engines.work import Done, Item, Result, Workers, limited
from tacit.errors import EngineError, InputError, whole

_MOST_JOBS = 1024  # all processes start at once


@dataclass(frozen=True)
class Local:
    """So many processes on this machine; if `jobs` is not given, as many as the environment variable TACIT_JOBS says,
    or one for each core. One job is this process itself.

    The cores are divided among the processes: no more threads run than there are cores.

    >>> Local(jobs=1).map(abs, [-2, 3])
    [2, 3]
    """

    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            whole("jobs", self.jobs, 1)

    @contextmanager
    def open(self) -> Iterator[Workers]:
        """Processes start with the first items, and end with the block."""
        jobs = _usual() if self.jobs is None else self.jobs
        if jobs > _MOST_JOBS:
            raise InputError(f"at most {_MOST_JOBS} jobs can run on one machine, not {jobs}")
        if jobs == 1:
            yield _Here()
            return
        with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
            # A copy of this process would have its locks, but not the threads that hold them: start new ones.
            executor = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), end_with_parent)
            try:
                yield _Processes(jobs, executor, Path(folder))
            except BaseException:  # an error, or Ctrl-C: nobody waits for what still runs
                for process in list((executor._processes or {}).values()):  # Python 3.14: executor.kill_workers()
                    process.kill()
                raise
            finally:
                executor.shutdown(cancel_futures=True)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """`Workers.map`, with workers for this map alone."""
        with self.open() as workers:
            return workers.map(function, items, done)


def _usual() -> int:
    said = os.environ.get("TACIT_JOBS") or str(len(os.sched_getaffinity(0)))
    if not said.isdecimal() or int(said) < 1:
        raise InputError(f"TACIT_JOBS must be a whole number, 1 or more, not {said!r}")
    return int(said)


class _Here:
    """This process, with all its threads."""

    jobs = 1

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """One after the other; nothing is pickled."""
        todo: list[Item] = list(items)
        found: list[Result] = []
        done = done or (lambda k, of: None)
        done(0, len(todo))
        for item in todo:
            found.append(limited(function, item))
            done(len(found), len(todo))
        return found


class _Processes:
    def __init__(self, jobs: int, executor: ProcessPoolExecutor, folder: Path) -> None:
        self.jobs, self._executor, self._folder, self._maps = jobs, executor, folder, 0

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """Each process reads the function from a file, once."""
        file, self._maps = self._folder / f"{self._maps}.pickle", self._maps + 1
        file.write_bytes(pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL))
        threads = max(1, len(os.sched_getaffinity(0)) // self.jobs)
        with _without_interrupts():  # processes that start here inherit this: Ctrl-C reaches this process alone
            futures: list[Future[Result]] = [self._executor.submit(_work, str(file), item, threads) for item in items]
        done = done or (lambda k, of: None)
        try:
            done(0, len(futures))
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                done(number, len(futures))
        except BrokenProcessPool as broken:
            raise EngineError(
                "a worker process was killed, perhaps because memory ran out: try again with fewer jobs (--jobs 1)"
            ) from broken
        finally:
            for future in futures:
                future.cancel()
            file.unlink()
        return [future.result() for future in futures]


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C waits for the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """In a child process: it must not outlive the process that it works for, however that one ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(1)
def _read(file: str) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = pickle.loads(Path(file).read_bytes())
    return found


def _work(file: str, item: Any, threads: int) -> Any:
    return limited(_read(file), item, threads)
