"""Mutants: bugs of one changed place each, and the tests that must fail with each of them.

They are data: `tests/mutants/<package>.toml` has those of one package, each of them a table

    [[mutant]]
    name  = "what is wrong"
    why   = "what that breaks, for people"
    file  = "privacy/sensitivity.py"              # below src/tacit
    old   = "return 2 * problem.loss"             # what stands there, exactly once
    new   = "return problem.loss"                 # what stands there instead
    tests = ["privacy/test_plan.py::test_a_law"]  # below tests: one of them must fail

A mutant may have `audit`, the arguments of a `tacit audit` that must catch it, besides tests or in place of them; and
`equivalent`, the reason why no test can fail. `tests/mutants/run.py` plants those with tests (`make mutants`),
`tests/audit_runs.py` those with audits (`make audit`).

`tests/test_mutants.py` checks the list. Where files were moved, `python tests/mutants/listed.py` writes their new paths
into it: those of the one file that has the place, or the test.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "src"
LIST = Path(__file__).resolve().parent


class Mutant(NamedTuple):
    """One bug, and what must notice it."""

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    audit: str = ""
    equivalent: str = ""

    @property
    def package(self) -> str:
        """The package with the changed file, such as `privacy/ledger`; for a module beside the packages, `tacit`."""
        return self.file.rpartition("/")[0] or "tacit"


def read(folder: Path = LIST) -> list[Mutant]:
    """All mutants of the files in a folder, in the order of their packages."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            found.append(Mutant(**row | {"tests": tuple(row.get("tests", ()))}))
    return sorted(found, key=lambda each: each.package)


def changed(mutant: Mutant, text: str) -> str:
    """The text of the file with the bug; fails if the place is not there exactly once."""
    if (times := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} is {times} times in {mutant.file}, not once")
    return text.replace(mutant.old, mutant.new)


def plant(mutant: Mutant, folder: Path, sources: Path = SOURCES) -> Path:
    """A copy of the sources in the folder, with the bug. The compiled kernels come with it, which take a minute; where
    a kernel is changed, they are compiled again."""
    copy = folder / "src"
    shutil.copytree(sources, copy)
    file = copy / "tacit" / mutant.file
    file.write_text(changed(mutant, file.read_text(encoding="utf-8")), encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()  # it is known by the second of the change and the size, which may both be the same
    return copy


def has_test(text: str, test: str) -> bool:
    """Whether a file of tests has this one: a function, or a class that hypothesis makes."""
    return bool(test) and re.search(rf"^(?:(?:async )?def {test}\(|{test} = )", text, re.MULTILINE) is not None


def _moved(path: str, below: Path, files: Iterable[Path], has: Callable[[str], bool]) -> str:
    """The path below a folder of what stood at this path: the same, if it is there or nowhere or in several files."""
    if (below / path).exists() and has((below / path).read_text(encoding="utf-8")):
        return path
    found = [file for file in files if has(file.read_text(encoding="utf-8"))]
    return found[0].relative_to(below).as_posix() if len(found) == 1 else path


def mend() -> None:
    """Writes the new paths of what was moved into the list."""
    below, tests = SOURCES / "tacit", ROOT / "tests"
    code, files = sorted(below.rglob("*.py")), sorted(tests.rglob("test_*.py"))
    for listing in LIST.glob("*.toml"):
        first, *rows = re.split(r"^(?=\[\[mutant\]\])", listing.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for k, row in enumerate(rows):
            (mutant,) = tomllib.loads(row)["mutant"]
            new = {mutant["file"]: _moved(mutant["file"], below, code, partial(_has_place, mutant["old"]))}
            for path, _, test in (each.partition("::") for each in mutant.get("tests", ())):
                new[path] = _moved(path, tests, files, partial(has_test, test=test))
            for before, after in new.items():
                row = row.replace(f"'{before}", f"'{after}")
            rows[k] = row
        listing.write_text("".join([first, *rows]), encoding="utf-8")


def _has_place(old: str, text: str) -> bool:
    return text.count(old) == 1


if __name__ == "__main__":
    mend()
