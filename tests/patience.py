"""Waits that hold on a busy machine: time in which a process waits for a processor does not count. Not a test."""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def waited(pids: Iterable[int | None]) -> float:
    """For how many seconds the process that waited longest has waited for a processor, where the system says so."""
    found = [0]
    for pid in pids:
        with suppress(OSError):  # the process has ended
            for thread in list(Path(f"/proc/{pid}/task").iterdir()):
                with suppress(OSError):  # this thread has
                    found.append(int((thread / "schedstat").read_text().split()[1]))
    return max(found) / 1e9


def all_ended(processes: Iterable[Any], within: float) -> bool:
    """Waits until these processes have ended, but no longer than so many seconds in which they could run."""
    processes, began, lost = list(processes), time.monotonic(), 0.0
    while running := [each for each in processes if _code(each) is None]:
        lost = max(lost, waited(each.pid for each in running))
        if time.monotonic() > began + within + lost:
            return False
        time.sleep(0.05)
    return True


def _code(process: Any) -> int | None:
    """The exit code of a process of subprocess or multiprocessing; None as long as it runs."""
    return process.poll() if hasattr(process, "poll") else process.exitcode
