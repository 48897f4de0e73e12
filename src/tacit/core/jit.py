"""How kernels are compiled: without the interpreter lock, and with IEEE division (by zero: infinity, not an error)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Reordered sums let the compiler use vector instructions; NaN and infinity keep their meaning.
VECTORISED: Any = {"reassoc", "contract", "nsz"}

# The first run on a machine waits for the compiler. So kernels that only kernels call get no wrapper for Python, and
# those that are called from one place become part of their caller.
PLAIN: Any = {"nogil": True, "error_model": "numpy"}
_INNER: Any = {**PLAIN, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
kernel = numba.njit(**_INNER)
vectorised = numba.njit(**_INNER, fastmath=VECTORISED)
inlined = numba.njit(**PLAIN, inline="always")


def entry(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls. Only these are cached on disk by numba; what they call is compiled into them."""
    try:
        return numba.njit(**PLAIN, cache=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile in every process
        return numba.njit(**PLAIN)(function)


@intrinsic
def call_at(typing_context, address, which, z, y):  # type: ignore[no-untyped-def]
    """What the compiled C function double(int64, double, double) at the address returns. The address is data, so
    kernels that call it are cached on disk like all others."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        real = ir.DoubleType()
        function = ir.FunctionType(real, [ir.IntType(64), real, real]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

    return types.float64(types.int64, types.int64, types.float64, types.float64), generate


def drop_stale_kernels(entries: list[Any], sources: list[Path]) -> None:
    """Deletes cached kernels if any source has changed: numba itself looks at the entry point's own file only."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.read_bytes())
    for folder in {entry.stats.cache_path for entry in entries} - {None}:
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
