"""How kernels are compiled: without the interpreter lock, and with IEEE division (by zero: infinity, not an error)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

# Reordered sums let the compiler use vector instructions; NaN and infinity keep their meaning.
VECTORISED: Any = {"reassoc", "contract", "nsz"}

# The first run on a machine waits for the compiler. So kernels that only kernels call get no wrapper for Python, and
# those that are called from one place become part of their caller.
_PLAIN: Any = {"nogil": True, "error_model": "numpy"}
_INNER: Any = {**_PLAIN, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
kernel = numba.njit(**_INNER)
vectorised = numba.njit(**_INNER, fastmath=VECTORISED)
inlined = numba.njit(**_PLAIN, inline="always")


def entry(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls. Only these are cached on disk by numba; what they call is compiled into them."""
    try:
        return numba.njit(**_PLAIN, cache=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile in every process
        return numba.njit(**_PLAIN)(function)


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
