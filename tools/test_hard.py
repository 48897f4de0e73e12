"""The test suite on other processors, in other orders, with other threads and on a busy machine.

    make test-hard [CASES="WORD ..."]

runs the cases below whose names contain one of the words (by default all) and prints a table for
docs/evidence/reliability.md. The exit code is 1 if a test has failed. OpenBLAS, numpy and numba are told to use their
code for older processors. How many tests run at a time, make says (PYTEST_ADDOPTS).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BUSY = 10  # processes that never wait, while the tests run
SIMD = " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"])  # type: ignore[index]


class Case(NamedTuple):
    """One way to run the test suite."""

    environment: dict[str, str]
    shuffled: bool = False
    busy: int = 0


CASES = {
    "Haswell, two threads": Case({"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "2"}),
    "Sandybridge, in random order": Case({"OPENBLAS_CORETYPE": "Sandybridge"}, shuffled=True),
    "Nehalem everywhere": Case(
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": SIMD,
            "NUMBA_CPU_NAME": "nehalem",
            "NUMBA_CPU_FEATURES": "+sse4.2",
        }
    ),
    "Prescott, two threads, in random order": Case(
        {"OPENBLAS_CORETYPE": "Prescott", "OMP_NUM_THREADS": "2"}, shuffled=True
    ),
    f"{BUSY} busy processes": Case({}, busy=BUSY),
}
if "avx512f" in Path("/proc/cpuinfo").read_text():
    CASES["SkylakeX"] = Case({"OPENBLAS_CORETYPE": "SkylakeX"})


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that use a core each."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def run(case: Case) -> tuple[int, str]:
    """The exit code of pytest, and its last line."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command += [] if case.shuffled else ["-p", "no:randomly"]
    with busy(case.busy), tempfile.TemporaryDirectory() as kernels:
        environment = os.environ | {"NUMBA_CACHE_DIR": kernels} | case.environment
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    print(ended.stdout, file=sys.stderr)
    return ended.returncode, ended.stdout.strip().splitlines()[-1].strip("= ")


def main() -> int:
    """Runs the cases and prints the table; gives the exit code."""
    wanted = [name for name in CASES if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    worst = 0
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} cores\n")
    print("| case | set | result | minutes |\n|---|---|---|---|")
    for name in wanted:
        began = time.monotonic()
        code, line = run(CASES[name])
        worst = max(worst, code)
        settings = " ".join(f"{key}={value}" for key, value in CASES[name].environment.items())
        print(f"| {name} | {settings} | {line} | {(time.monotonic() - began) / 60:.0f} |", flush=True)
    return min(worst, 1)


if __name__ == "__main__":
    sys.exit(main())
