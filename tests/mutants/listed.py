"""Mutants: bugs of one changed place each, and the tests that must fail with each of them.

They are data: `tests/mutants/<package>.toml` has those of one package, each of them a table

    [[mutant]]
    name  = "what is wrong"
    why   = "what that breaks, for people"
    file  = "privacy/sensitivity.py"              # below src/tacit
    old   = "return 2 * problem.loss"             # what stands there, exactly once
    new   = "return problem.loss"                 # what stands there instead
    tests = ["privacy/test_mechanism_laws.py::test_the_charge_is_what_a_record_can_move"]  # below tests: one of them fails

A mutant may have `audit`, the arguments of a `tacit audit` that must catch it, besides tests or in place of them; and
`equivalent`, the reason why no test can fail. `tests/mutants/run.py` plants those with tests (`make mutants`),
`tests/audit_runs.py` those with audits (`make audit`).
"""

from __future__ import annotations

import shutil
import tomllib
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
