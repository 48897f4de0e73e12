"""How kernels are compiled: without the interpreter lock, and with IEEE division (by zero: infinity, not an error).

A kernel is compiled, or read from the cache on disk, when it is first called. Nothing imports numba before: with its
compiler it takes half a second and 60 MB, which an agent that waits for its neighbours does not need.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

# Reordered sums let the compiler use vector instructions; NaN and infinity keep their meaning.
VECTORISED: Any = {"reassoc", "contract", "nsz"}

# The first run on a machine waits for the compiler. So kernels that only kernels call get no wrapper for Python, and
# those that are called from one place become part of their caller.
PLAIN: Any = {"nogil": True, "error_model": "numpy"}
_INNER: Any = {**PLAIN, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_lock = threading.RLock()  # of several threads that call a kernel first, one gets it ready
_waiting: list[Callable[[], None]] = []  # what has to be done before numba compiles or reads anything


class Kernel:
    """A function that numba compiles. To numba, which meets it in other kernels, it is what `numba.njit` gives: it has
    its type, and what is needed to make it a part of its caller (`py_func`, `targetoptions`)."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], cached: bool = False) -> None:
        self.py_func, self.targetoptions, self._cached = function, options, cached
        self._compiled: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled)(*arguments)

    @property
    def compiled(self) -> Any:
        """The compiled function, as `numba.njit` gives it."""
        with _lock:
            while _waiting:
                _waiting.pop(0)()
            if self._compiled is None:
                self._compiled = self._made()
        return self._compiled

    def _made(self) -> Any:
        import numba

        if self._cached:
            try:
                return numba.njit(**self.targetoptions, cache=True)(self.py_func)
            except RuntimeError:  # nowhere to write a cache: compile in every process
                pass
        return numba.njit(**self.targetoptions)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self.compiled._numba_type_


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel that only kernels call."""
    return Kernel(function, _INNER)


def vectorised(function: Callable[..., Any]) -> Any:
    """The same, with sums in any order."""
    return Kernel(function, {**_INNER, "fastmath": VECTORISED})


def inlined(function: Callable[..., Any]) -> Any:
    """The same, as a part of its caller."""
    return Kernel(function, {**PLAIN, "inline": "always"})


def entry(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls. Only these are cached on disk by numba; what they call is compiled into them."""
    return Kernel(function, PLAIN, cached=True)


def overload(function: Callable[..., Any], options: Any) -> Callable[..., Any]:
    """As `numba.extending.overload`: what is decorated gives the implementation of the function, by types."""

    def remember(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def tell() -> None:
            from numba.extending import overload

            overload(function, jit_options=options)(implementation)

        _waiting.append(tell)
        return implementation

    return remember


def call_at(address, which, z, y):  # type: ignore[no-untyped-def]
    """What the compiled C function double(int64, double, double) at the address returns. The address is data, so
    kernels that call it are cached on disk like all others."""
    raise TypeError("compiled code only")


@overload(call_at, PLAIN)
def _call_at(address, which, z, y):  # type: ignore[no-untyped-def]
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def call(typing_context, address, which, z, y):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            real = ir.DoubleType()
            function = ir.FunctionType(real, [ir.IntType(64), real, real]).as_pointer()
            return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

        return types.float64(types.int64, types.int64, types.float64, types.float64), generate

    return lambda address, which, z, y: call(address, which, z, y)


def drop_stale_kernels(entries: list[Any], sources: list[Path]) -> None:
    """Deletes cached kernels, before one is read, if any source has changed: numba itself looks at the entry point's
    own file only."""
    _waiting.append(partial(_drop_stale, entries, sources))


def _drop_stale(entries: list[Any], sources: list[Path]) -> None:
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.read_bytes())
    # Made for this alone: as long as stale ones are there, no other thread may have a kernel to call.
    for folder in {entry._made().stats.cache_path for entry in entries} - {None}:
        stamp = Path(folder) / "tacit-kernels.sha256"
        try:
            if stamp.exists() and stamp.read_text() == digest.hexdigest():
                continue
            stamp.parent.mkdir(parents=True, exist_ok=True)
            for cached in stamp.parent.glob("*.nb[ci]"):
                cached.unlink(missing_ok=True)
            stamp.write_text(digest.hexdigest())
        except OSError:
            continue  # a cache that cannot be written to does not change under us either
