"""Runs the tests that are nearest to what was changed, for as long as `--seconds` allow: `make quick`.

    python tools/quick.py [--since REF] [--seconds 40] [--list]

Changed is what differs from the commit REF, new files included. Without REF this is the last commit, or the one before
if nothing was changed since. A test is near if it imports what was changed, itself or through one other module. A file
that is not Python is near the tests that name it. What is not reached in time is counted: `make test` runs everything.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import layers
import pytest

ROOT = layers.ROOT
TESTS = ROOT / "tests"


def changed(since: str | None) -> list[Path]:
    """The files that differ from a commit, and those that git does not know yet."""
    if since is None:
        since = "HEAD" if _git("status", "--porcelain") else "HEAD~1"
    names = {*_git("diff", "--name-only", since), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(ROOT / name for name in names)


def _git(*command: str) -> list[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def importers() -> dict[Path, set[Path]]:
    """For each file of src and tests: the files that import it."""
    known = layers.modules()
    helpers = {path.stem: path for folder in (TESTS, ROOT / "tools") for path in folder.glob("*.py")}
    found: dict[Path, set[Path]] = {}
    for path in [*known.values(), *TESTS.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        used = [known.get(name) for name in layers.imports(text, known)]
        for file in {*used, *(helpers.get(name) for name in _top_level(text))} - {None}:
            found.setdefault(file, set()).add(path)
    return found


def _top_level(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def nearest(files: list[Path], steps: int) -> dict[Path, int]:
    """The test files that reach one of these files in so many imports, the nearest first, and how many they are."""
    users, distance = importers(), dict.fromkeys(files, 0)
    tests = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    for file in files:
        if file.suffix != ".py":
            distance.update({test: 1 for test, text in tests.items() if file.name in text and test not in distance})
        elif file not in tests:  # tests/core/test_graph.py is about src/tacit/core/graph.py
            distance.update({test: 0 for test in tests if test.stem.startswith(f"test_{file.stem}")})
    wave = list(distance)
    while wave:
        file = wave.pop(0)
        for user in users.get(file, ()):
            further = distance[file] + (user.name != "__init__.py")  # what only hands on counts for nothing
            if further < distance.get(user, steps + 1):
                distance[user] = further
                wave.append(user)
    near = {test: distance[test] for test in tests if test in distance}
    return dict(sorted(near.items(), key=lambda pair: pair[1]))


class Deadline:
    """A plugin of pytest: no test begins after this many seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left, self.failed = 0, False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left = len(session.items)

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if time.monotonic() > self._end:
            item.session.shouldstop = "the time is over"
            return True  # nobody else runs it
        self.left -= 1
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed


def main(arguments: list[str] | None = None) -> int:
    """The exit code of pytest; 0 where no test is near."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--since", metavar="REF", help="compare with this commit, for example main")
    parser.add_argument("--seconds", type=float, default=40, help="no test begins later than this (default: 40)")
    parser.add_argument("--steps", type=int, default=2, help="no test that needs more imports than this (default: 2)")
    parser.add_argument("--list", action="store_true", help="show the test files, and run none")
    options = parser.parse_args(arguments)
    files = changed(options.since)
    tests = nearest(files, options.steps)
    print(f"{len(files)} changed files, {len(tests)} test files that reach them", flush=True)
    if options.list:
        print(*(f"{steps} {test.relative_to(ROOT)}" for test, steps in tests.items()), sep="\n")
        return 0
    if not tests:
        return 0
    deadline = Deadline(options.seconds)
    quick = ["-m", "not slow and not cluster and not pages", "-q", "-p", "no:cacheprovider"]
    code = pytest.main([*quick, *(str(test) for test in tests)], plugins=[deadline])
    if deadline.left:
        print(f"{deadline.left} tests were not reached in {options.seconds:g} s: make test runs all")
        code = 1 if deadline.failed else 0
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


if __name__ == "__main__":
    sys.exit(main())
