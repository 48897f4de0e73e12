"""Plants every mutant in a copy of the sources, and runs the tests that must fail there.

    python tests/mutants/run.py [WORD ...] [--jobs 2] [--json FILE]

tries the mutants that have one of the words in their file or name; by default all, and then
docs/evidence/mutants.md keeps the table. This process imports numpy, numba and the other large libraries once, and
forks for each mutant: the child imports tacit from the copy, and so does every process that a test starts. First the
tests run on a copy without a mutant, where all must pass. A mutant is

    killed     if one of its tests fails: not if it cannot be collected or set up, and not if the process dies
    survives   if they pass
    broken     in all other cases, also if the tests do not end

The exit code is 1 if a mutant survives or is broken, or if one that is listed as equivalent is killed.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import listed
from listed import ROOT, SOURCES, Mutant

PAGE = ROOT / "docs" / "evidence" / "mutants.md"
LIMIT = 600.0  # seconds for the tests of one mutant
LARGE = (  # what takes long to import; nothing of it starts a thread
    "numpy scipy.sparse.linalg scipy.optimize scipy.special scipy.stats networkx numba flint dp_accounting.pld sklearn "
    "cryptography.x509 google.protobuf typer rich pytest"
)


class Tried(NamedTuple):
    """What has become of one mutant, or of tests without one."""

    outcome: str  # killed, survives or broken
    test: str  # the first that failed
    says: str  # its failure, in one line
    seconds: float  # of all processors


class Wanted(NamedTuple):
    """Tests that are to run with some sources."""

    what: Any  # how the caller knows them
    sources: Callable[[Path], Path]  # makes them in a folder
    tests: Iterable[str]


class FirstFailure:
    """A plugin of pytest: which test failed first, and how."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.found:
            crash = getattr(report.longrepr, "reprcrash", None)
            says = report.longreprtext if crash is None else crash.message
            says = next((line.strip() for line in says.splitlines() if line.strip()), "")
            self.found = {"test": report.nodeid, "when": report.when, "says": says}


def _run(sources: Path, tests: Iterable[str], folder: Path) -> None:
    """In the child of a fork: runs tests with these sources, writes down what happened, and ends the process."""
    code = 99
    try:
        os.setsid()  # so that all that the tests start can be ended with this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with open(folder / "log", "wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.chdir(ROOT)
        sys.path.insert(0, str(sources))
        os.environ |= {
            "PYTHONPATH": str(sources),
            "OMP_NUM_THREADS": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples"),
        }
        import pytest

        seen = FirstFailure()
        options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={folder / 't'}"]
        code = int(pytest.main([*options, *(f"tests/{test}" for test in tests)], plugins=[seen]))
        import tacit

        assert Path(tacit.__file__ or "").is_relative_to(sources), "other sources than those with the mutant"
        (folder / "found").write_text(json.dumps(seen.found))
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        os._exit(code)


def tried(wanted: Iterable[Wanted], jobs: int) -> Iterator[tuple[Any, Tried]]:
    """Runs the tests of each, so many at a time."""
    waiting, running, number = iter(wanted), {}, 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as home, ending(running):
        while True:
            while len(running) < jobs and (each := next(waiting, None)) is not None:
                folder, number = Path(home) / str(number), number + 1
                folder.mkdir()
                sources = each.sources(folder)
                sys.stdout.flush()
                if (pid := os.fork()) == 0:
                    _run(sources, each.tests, folder)
                running[pid] = each.what, folder, time.monotonic()
            if not running:
                return
            for pid, (what, folder, began) in list(running.items()):
                ended, status, used = os.wait4(pid, os.WNOHANG)
                hangs = not ended and time.monotonic() > began + LIMIT
                if hangs:
                    _kill(pid)
                    _, status, used = os.wait4(pid, 0)
                if ended or hangs:
                    del running[pid]
                    _kill(pid)  # what the tests have left
                    yield what, _judged(folder, status, used.ru_utime + used.ru_stime, hangs)
                    shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.02)


@contextmanager
def ending(running: Iterable[int]) -> Iterator[None]:
    """Nothing that was started is left when this process ends."""
    try:
        yield
    finally:
        for pid in running:
            _kill(pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _judged(folder: Path, status: int, seconds: float, hangs: bool) -> Tried:
    file = folder / "found"
    found = json.loads(file.read_text()) if file.exists() else {}
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return Tried("survives", "", "", seconds)
    test = found.get("test", "").removeprefix("tests/")
    if code == 1 and found["when"] == "call":
        return Tried("killed", test, found["says"], seconds)
    log = (folder / "log").read_text(errors="replace").strip().splitlines()
    says = f"no end in {LIMIT:g} s" if hangs else found.get("says") or " / ".join(log[-3:])
    return Tried("broken", test, f"exit code {code}: {says}", seconds)


def _planted(mutant: Mutant, base: Path, folder: Path) -> Path:
    return listed.plant(mutant, folder, base)


def _base(folder: Path) -> Path:
    """A copy of the sources as they are."""
    copy = folder / "src"
    shutil.copytree(SOURCES, copy)
    compileall.compile_dir(copy, quiet=2)
    return copy


def main() -> int:
    """Tries the mutants, prints what became of them and gives the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("words", nargs="*", metavar="WORD", help="only mutants with one of these in file or name")
    options.add_argument("--jobs", type=int, default=2, help="so many at a time (default: 2)")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write what was found to a file")
    options.add_argument("--list", type=Path, default=listed.LIST, help="the folder with the list")
    options.add_argument("--unchecked", action="store_true", help="do not run the tests without a mutant first")
    given = options.parse_args()
    mutants = [each for each in listed.read(given.list) if each.tests and _is_picked(each, given.words)]
    if not mutants:
        options.error("no mutant has one of these words")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["OMP_NUM_THREADS"] = "1"  # before numpy comes
    for name in LARGE.split():
        importlib.import_module(name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        base, wrong = _base(Path(folder)), 0
        if not given.unchecked:
            files: dict[str, list[str]] = {}
            for test in sorted({test for each in mutants for test in each.tests}):
                files.setdefault(test.split("::")[0], []).append(test)
            # In the copy that the mutants are made of: what kernels the tests compile, all of them find.
            unchanged = (Wanted(file, lambda _: base, tests) for file, tests in files.items())
            for file, found in tried(unchanged, given.jobs):
                if found.outcome != "survives":
                    wrong += 1
                    print(f"FAILS WITHOUT A MUTANT: {file}: {found.test} {found.says}", flush=True)
            print(f"{len(files)} test files without a mutant: {time.monotonic() - began:.0f} s", flush=True)
        results: dict[Mutant, Tried] = {}
        planted = (Wanted(each, partial(_planted, each, base), each.tests) for each in mutants)
        for mutant, found in tried(planted, given.jobs):
            results[mutant] = found
            good = found.outcome == ("survives" if mutant.equivalent else "killed")
            wrong += not good
            word = found.outcome if good else found.outcome.upper()
            print(f"{word:9}{found.seconds:5.0f} s  {mutant.file}: {mutant.name}", flush=True)
            print(f"{'':19}{found.test} {found.says[:200]}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"\n{_table(results)}\n\n{minutes:.0f} minutes; {wrong} wrong")
    for mutant, found in results.items():
        if found.outcome != "killed" and not mutant.equivalent:
            print(f"{found.outcome.upper()}: {mutant.file}: {mutant.name}")
    if given.json:
        plain = [each._asdict() | {"package": each.package} | found._asdict() for each, found in results.items()]
        given.json.write_text(json.dumps({"minutes": minutes, "mutants": plain}, indent=1) + "\n")
    if not given.words:
        _keep(_table(results), results)
    return 1 if wrong else 0


def _is_picked(mutant: Mutant, words: list[str]) -> bool:
    return not words or any(word in f"{mutant.file}: {mutant.name}" for word in words)


def _table(results: dict[Mutant, Tried]) -> str:
    """By package: how many mutants, and what became of them."""
    counts: dict[str, Counter[str]] = {}
    for mutant, found in results.items():
        outcome = "equivalent" if mutant.equivalent and found.outcome == "survives" else found.outcome
        for package in (mutant.package, "all"):
            counts.setdefault(package, Counter())[outcome] += 1
            counts[package]["seconds"] += round(found.seconds)
    lines = ["| package | mutants | killed | equivalent | not killed | seconds |", f"|{' --- |' * 6}"]
    for package in [*sorted(counts.keys() - {"all"}), "all"]:
        n = counts[package]
        killed, alike, rest = n["killed"], n["equivalent"], n["survives"] + n["broken"]
        lines.append(f"| {package} | {killed + alike + rest} | {killed} | {alike} | {rest} | {n['seconds']} |")
    return "\n".join(lines)


def _keep(table: str, mutants: Iterable[Mutant]) -> None:
    """Writes what was found into the page of the docs."""
    alike = ["| in `src/tacit/` | what is changed | why no test can notice it |", "| --- | --- | --- |"]
    alike += [f"| `{each.file}` | {each.name} | {each.equivalent} |" for each in mutants if each.equivalent]
    text = PAGE.read_text(encoding="utf-8")
    for name, content in (("kills", table), ("equivalent", "\n".join(alike))):
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda marks, content=content: f"{marks[1]}{content}\n{marks[2]}",
            text,
            flags=re.DOTALL,
        )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
