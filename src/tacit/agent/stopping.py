"""An agent that is told to stop ends soon, and says where it stood.

What has been committed is safe, and nothing else has left: an agent may end at any moment, even by `kill -9`. A signal
only makes it end in order, with a line and an exit code that a supervisor understands.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from tacit.agent import notify
from tacit.errors import NotNow

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE = 4.0  # seconds; a step that is being computed cannot be interrupted, and nothing of it has left


@contextmanager
def before() -> Iterator[None]:
    """Inside this context a signal raises `NotNow`: what the agent does before its event loop runs can be left at any
    point."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise NotNow(f"stopped by {signal.Signals(number).name} before it began; nothing is lost: start it again")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def run(work: Coroutine[Any, Any, T], where: Callable[[], str], end: Callable[[str], None]) -> T:
    """Runs it, unless a signal ends it: then it is cancelled, and `NotNow` says what `where` says. If that takes too
    long, `end` is called with this line, in another thread, and the process ends."""
    timers: list[threading.Timer] = []
    try:
        return asyncio.run(_until_told(work, where, end, timers))  # it waits for a step that is being computed, too
    finally:
        for timer in timers:
            timer.cancel()


async def _until_told(
    work: Coroutine[Any, Any, T], where: Callable[[], str], end: Callable[[str], None], timers: list[threading.Timer]
) -> T:
    task, why = asyncio.create_task(work), list[str]()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        why.append(f"stopped by {number.name} {where()}; nothing is lost: the same command goes on")
        notify.stopping(why[0])
        task.cancel()
        last = threading.Timer(_PATIENCE, _end, (end, why[0]))
        last.daemon = True
        last.start()
        timers.append(last)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:  # by a signal; or gRPC has cancelled a call, and with it what waited for the call
        if not why:
            why.append(f"a connection was broken off {where()}; nothing is lost: the same command goes on")
        raise NotNow(why[0]) from None
    finally:
        notify.stopping(why[0] if why else where())
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _end(end: Callable[[str], None], why: str) -> None:
    try:
        end(why)
    finally:
        os._exit(NotNow.exit_code)
