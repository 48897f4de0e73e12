"""Arb's precision, for one thread at a time.

flint has one precision for the whole process. A thread that ends its work with 128 bits would leave another one in the
middle of its own with 53. Balls stay true at any precision, but numbers that are read off their middles do not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flint import ctx

_lock = threading.Lock()


def _unlock() -> None:
    """In the child of a fork, the thread that held the lock is not there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Inside this context balls are computed with so many bits, and in no other thread."""
    with _lock, ctx.workprec(bits):
        yield
