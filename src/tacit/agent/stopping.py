"""An agent that is told to stop ends soon, and says where it stood.

What has been committed is safe, and nothing else has left: an agent may end at any moment, even by `kill -9`. A signal
only makes it end in order, with a line and an exit code that a supervisor understands: from the first line of
`tacit.cli.main`, which has a handler of its own for the time before the agent is loaded, to the end of the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from tacit.agent.monitoring import systemd
from tacit.errors import NotNow

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE = 4.0  # seconds; a step that is being computed cannot be interrupted, and nothing of it has left


@contextmanager
def outside_of_the_loop() -> Iterator[None]:
    """Inside this context a signal raises `NotNow`, before `run` and after it: what the agent does there can be left at
    any point. If the error is lost on its way, as in a `__del__`, the process ends all the same."""
    timers: list[threading.Timer] = []

    def stop(number: int, frame: FrameType | None) -> None:
        why = f"stopped by {signal.Signals(number).name}; nothing is lost: start it again"
        timers.append(_at_the_latest(lambda why: None, why))
        raise NotNow(why)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()


def run(work: Coroutine[Any, Any, T], where: Callable[[], str], end: Callable[[str], None]) -> T:
    """Runs it, unless a signal ends it: then it is cancelled, and `NotNow` says what `where` says. If that takes too
    long, `end` is called with this line, in another thread, and the process ends."""
    why, timers = list[str](), list[threading.Timer]()
    old = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with asyncio.Runner() as runner:  # its end waits for a step that is being computed, too
            loop = runner.get_loop()
            task = loop.create_task(work)

            def stop(number: int) -> None:
                name = signal.Signals(number).name
                why.append(f"stopped by {name} {where()}; nothing is lost: the same command goes on")
                systemd.stopping(why[0])
                task.cancel()  # if it is done, nothing happens, and what it has given counts
                timers.append(_at_the_latest(end, why[0]))

            def told(number: int, frame: FrameType | None) -> None:
                with suppress(RuntimeError):  # the loop is closed: this function is about to return
                    loop.call_soon_threadsafe(stop, number)

            # Not by `loop.add_signal_handler`: the loop would put back the system's handlers before it is closed, and
            # from then on a signal would kill the process.
            for number in SIGNALS:
                signal.signal(number, told)
            return runner.run(_done(task, where, why))
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()


async def _done(task: asyncio.Task[T], where: Callable[[], str], why: list[str]) -> T:
    try:
        return await task
    except asyncio.CancelledError:  # by a signal; or a call was cancelled, and with it what waited for the call
        if not why:
            why.append(f"a connection was broken off {where()}; nothing is lost: the same command goes on")
        raise NotNow(why[0]) from None
    finally:
        systemd.stopping(why[0] if why else where())


def _at_the_latest(end: Callable[[str], None], why: str) -> threading.Timer:
    """Ends the process after some seconds, unless it has ended by then, or the timer is cancelled."""
    last = threading.Timer(_PATIENCE, _end, (end, why))
    last.daemon = True
    last.start()
    return last


def _end(end: Callable[[str], None], why: str) -> None:
    try:
        end(why)
    finally:
        os._exit(NotNow.exit_code)
