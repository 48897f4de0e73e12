"""An event loop on a virtual clock, for many processes in one.

A *process* is whatever `HERE` holds in the context of a callback. Callbacks of one process run in their order, as
asyncio promises; which process is next, the seed decides. When nothing is left to do now, time jumps to the next timer.
A process that is dead runs nothing more: not its `finally`, either. One that is frozen runs nothing for a while.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakSet


class Process:
    """What callbacks belong to."""

    def __init__(self) -> None:
        self.alive, self.frozen = True, False
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.left, self.struck = 0, lambda: None  # so many callbacks until something happens to it; 0: nothing
        self.kept: list[Any] = []  # what a dead process holds: nothing of it may be finalised while the world runs
        self.slow: Callable[[], float] = lambda: 0.0  # seconds that its work in threads takes
        self.context = copy_context()
        self.context.run(HERE.set, self)


HERE: ContextVar[Process | None] = ContextVar("process", default=None)


class WorldLoop(asyncio.base_events.BaseEventLoop):
    """Whatever asyncio needs of a loop, and no more."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng, self._now, self._number = rng, 0.0, 0
        self._outside = Process()  # the world itself
        self._runnable: list[Process] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self.steps = 0

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._put(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False
        if (process := (context or copy_context()).get(HERE)) is not None:
            process.tasks.add(task)
        return task

    def run_in_executor(self, executor: Any, work: Any, *args: Any) -> asyncio.Future[Any]:
        """Inline; what comes of it is known some virtual time later."""
        future, process = self.create_future(), HERE.get()
        try:
            settle, found = future.set_result, work(*args)
        except Exception as error:
            settle, found = future.set_exception, error

        def done() -> None:
            if not future.done():
                settle(found)

        self.call_later(0.0 if process is None else process.slow(), done)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors that nobody fetches: of ghosts, and of tasks that were cancelled."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    # Processes

    def kill(self, process: Process) -> None:
        """Nothing of it runs any more. What it holds is kept, so that nothing is finalised."""
        process.alive = False
        process.kept += [*process.tasks, *process.ready]
        process.ready.clear()
        with suppress(ValueError):
            self._runnable.remove(process)

    def freeze(self, process: Process, seconds: float) -> None:
        """As SIGSTOP, and SIGCONT later."""
        process.frozen = True
        with suppress(ValueError):
            self._runnable.remove(process)
        self.call_later(seconds, self._thaw, process, context=self._outside.context)

    def _thaw(self, process: Process) -> None:
        process.frozen = False
        if process.alive and process.ready and process not in self._runnable:
            self._runnable.append(process)

    def later(self, seconds: float, what: Callable[..., None], *args: Any) -> None:
        """Something that the world does."""
        self.call_later(seconds, what, *args, context=self._outside.context)

    def close(self) -> None:
        self._timers.clear()
        super().close()

    # Running

    def _put(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(HERE) or self._outside
        if not process.alive:
            process.kept.append(handle)
            return
        if not process.ready and not process.frozen:
            self._runnable.append(process)
        process.ready.append(handle)

    def run(self, over: Callable[[], bool], until: float) -> bool:
        """Runs until it is over; False if time is up, or nothing is left to do."""
        events._set_running_loop(self)
        try:
            while not over():
                if not self._runnable:
                    while self._timers and self._timers[0][2]._cancelled:
                        heapq.heappop(self._timers)
                    if not self._timers or self._timers[0][0] > until:
                        return False
                    self._now = max(self._now, self._timers[0][0])
                    while self._timers and self._timers[0][0] <= self._now:
                        handle = heapq.heappop(self._timers)[2]
                        if not handle._cancelled:
                            self._put(handle)
                    continue
                self._one()
            return True
        finally:
            events._set_running_loop(None)

    def _one(self) -> None:
        self.steps += 1
        runnable = self._runnable
        place = int(self._rng.random() * len(runnable))
        process = runnable[place]
        handle = process.ready.popleft()
        if not process.ready:
            runnable[place] = runnable[-1]
            runnable.pop()
        if process.left:
            process.left -= 1
            if not process.left:
                process.struck()
                if not process.alive:
                    process.kept.append(handle)
                    self.kill(process)
                    return
        if not handle._cancelled:
            handle._run()
            if not process.alive:  # it was killed in the middle of what it did
                self.kill(process)
