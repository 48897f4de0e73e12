"""An agent that is told to stop ends soon, and says where it stood.

What has been committed is safe, and nothing else has left: an agent may end at any moment, even by `kill -9`. A signal
only makes it end in order, with a line and an exit code that a supervisor understands.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tacit.errors import NotNow

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE = 4.0  # seconds; a step that is being computed cannot be interrupted, and nothing of it has left


def run(work: Coroutine[Any, Any, T], where: Callable[[], str]) -> T:
    """Runs it, unless a signal ends it: then it is cancelled, and `NotNow` says what `where` says."""
    return asyncio.run(_until_told(work, where))


async def _until_told(work: Coroutine[Any, Any, T], where: Callable[[], str]) -> T:
    task, why = asyncio.create_task(work), list[str]()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        why.append(f"stopped by {number.name} {where()}; nothing is lost: the same command goes on")
        task.cancel()
        last = threading.Timer(_PATIENCE, _end, (why[0],))
        last.daemon = True
        last.start()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not why:
            raise
        raise NotNow(why[0]) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _end(why: str) -> None:
    """As `tacit.cli.main` would end it."""
    print(f"tacit: error: {why}", file=sys.stderr, flush=True)
    os._exit(NotNow.exit_code)
