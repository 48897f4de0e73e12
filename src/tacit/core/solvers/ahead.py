"""The first training on a machine waits for the compiler. A second process runs it while the first reads the data.

The second process, `python -P -m tacit.core.solvers.ahead`, solves a tiny problem. numba keeps the compiled kernel in
its cache on disk, where the first process finds it. That is the kernel of most trainings: sparse rows, more of them
than features. If another one is needed, or if the second process fails, the first process compiles for itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tacit.core.solvers import quasi_newton

_compiling: list[subprocess.Popen[bytes]] = []  # one, or none


def start() -> None:
    """Begins to compile, if this machine has never compiled the kernel and has a second processor."""
    folder = quasi_newton.minimise.stats.cache_path
    if folder is None or _compiling or len(os.sched_getaffinity(0)) < 2:
        return
    if not any(Path(folder).glob("quasi_newton.minimise-*.nbc")):
        nothing = subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", "tacit.core.solvers.ahead"]  # -P: imports nothing from this folder
        _compiling.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))


def running() -> bool:
    """Whether the other process compiles just now."""
    return bool(_compiling)


def wait() -> None:
    """Waits until the other process has ended."""
    while _compiling:
        _compiling.pop().wait()


def main() -> None:
    """Solves the tiny problem."""
    import numpy as np
    import scipy.sparse

    from tacit.core.problem import Problem

    rows = scipy.sparse.csr_array(np.array([[1.0], [0.5]]))
    Problem([(rows, np.array([1.0, -1.0]))], l2=0.5).argmin(linear=0, weight=0, centre=0)


if __name__ == "__main__":
    main()
