"""The list of mutants (`tests/mutants`) cannot rot: every place is found once, every test exists; and the runner tells
a mutant that is killed from one that survives. `make mutants` tries all of them."""

import json
import subprocess
import sys
from functools import cache

import pytest
from mutants import listed
from mutants.listed import ROOT, SOURCES, Mutant

MUTANTS = listed.read()


@cache
def text(path):
    return path.read_text(encoding="utf-8")


def test_every_mutant_changes_one_place():
    for mutant in MUTANTS:
        listed.changed(mutant, text(SOURCES / "tacit" / mutant.file))
        assert mutant.new != mutant.old, mutant.name
    assert len({(mutant.file, mutant.name) for mutant in MUTANTS}) == len(MUTANTS)


def test_every_mutant_says_what_must_notice_it():
    from tacit.lab.audit.named import AUDITS

    for mutant in MUTANTS:
        assert mutant.name, mutant
        assert mutant.why, mutant
        assert mutant.tests or mutant.audit, mutant.name
        assert not mutant.audit or mutant.audit.split()[0] in AUDITS, mutant.name
        for test in mutant.tests:
            file, _, function = test.partition("::")
            assert listed.has_test(text(ROOT / "tests" / file), function), test


def test_every_package_has_mutants():
    """Also the folders of a package that has some."""
    packages = {str(path.parent.relative_to(SOURCES / "tacit")) for path in (SOURCES / "tacit").rglob("*.py")}
    with_code = packages - {".", "html", "lab", "lab/cli", "lab/papers", "report/document"}
    assert with_code <= {mutant.package for mutant in MUTANTS}
    assert len(MUTANTS) >= 150


def test_a_place_that_is_gone_is_noticed():
    with pytest.raises(ValueError, match="is 0 times"):
        listed.changed(MUTANTS[0]._replace(old="no such place"), "some text")
    with pytest.raises(ValueError, match="is 2 times"):
        listed.changed(MUTANTS[0]._replace(old="twice"), "twice twice")


LAW = "privacy/test_meaning.py::test_a_mechanism_reaches_the_bound"


def row(**changed):
    known = Mutant("", "", "privacy/meaning.py", "(1 + delta * less) / (1 + less)", "", (LAW,))
    return known._replace(**changed)


def test_the_runner_plants_them_in_a_copy(tmp_path):
    """One of the list is killed; what changes nothing survives; what cannot be imported is broken. Before that, the
    law passes on a copy without any of them."""
    made = [
        row(name="killed", new="1 / (1 + less)"),
        row(name="survives", new="(1 + less * delta) / (1 + less)"),
        row(name="broken", old="import math\n", new="import no_such_module\n"),
        row(name="alike", new="(1 + less * delta) / (1 + less)", equivalent="a product is the same in both orders"),
    ]
    (tmp_path / "some.toml").write_text("".join(map(in_toml, made)), encoding="utf-8")
    command = [sys.executable, ROOT / "tests/mutants/run.py", "meaning", "--jobs", "1", "--list", tmp_path]
    ended = subprocess.run([*command, "--json", tmp_path / "found"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "FAILS WITHOUT A MUTANT" not in ended.stdout
    assert "SURVIVES: privacy/meaning.py: survives" in ended.stdout
    found = {each["name"]: each for each in json.loads((tmp_path / "found").read_text())["mutants"]}
    outcomes = {name: each["outcome"] for name, each in found.items()}
    assert outcomes == {"killed": "killed", "survives": "survives", "broken": "broken", "alike": "survives"}
    assert found["killed"]["test"].startswith(LAW)
    assert text(SOURCES / "tacit/privacy/meaning.py").count("(1 + delta * less) / (1 + less)") == 1


def in_toml(mutant):
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in mutant._asdict().items()}
    return "[[mutant]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in plain.items())
