"""A quick start: help and version import nothing heavy, and the list of commands says what each command says."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit import cli

LABORATORY = ("tacit.lab",)
HEAVY = ("numba", "numpy", "scipy", "networkx", "matplotlib", "dp_accounting", "flint", "jinja2", "narwhals", "pyarrow")


def imported_by(*args, among=HEAVY, cwd=None):
    """The packages among these that the command `tacit ARGS` has imported when it ends."""
    script = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print(*(m for m in {among!r} if m in sys.modules), file=sys.stderr))\n"
        f"sys.argv = ['tacit', *{args!r}]\n"
        "from tacit.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, cwd=cwd)
    assert ended.returncode == 0 or not args, ended.stderr
    return ended.stderr.splitlines()[-1].split()  # older typers add an empty error to the help


@pytest.mark.parametrize("args", [["--version"], ["--help"], []])
def test_help_and_version_import_nothing_heavy(args):
    assert imported_by(*args) == []


def test_the_watch_for_heavy_imports_can_fail():
    assert "numpy" in imported_by("plan", "--help")


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["adult", "--rounds", "1"],
        ["adult", "--epsilon", "1", "--graph", "ring", "--agents", "5", "--holdout", "0"],
    ],
    ids=["help", "exact", "private"],
)
def test_training_loads_nothing_of_the_laboratory_and_no_templates(args, tmp_path):
    assert imported_by("train", *args, among=(*LABORATORY, "jinja2"), cwd=tmp_path) == []


def test_the_watch_for_the_laboratory_and_templates_can_fail(tmp_path):
    assert "tacit.lab" in imported_by("compare", "--help", among=LABORATORY)
    report = ["adult", "--rounds", "1", "--report", "report.html"]
    assert imported_by("train", *report, among=("jinja2",), cwd=tmp_path) == ["jinja2"]


def test_training_imports_few_modules():
    script = "import sys, tacit.cli.train; print(*(m for m in sys.modules if m.split('.')[0] == 'tacit'))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    found = ended.stdout.split()
    assert len(found) <= 110
    assert [m for m in found if m.startswith(LABORATORY)] == []


@pytest.mark.parametrize("folder", ["cli", "lab/cli"])
def test_no_function_of_a_command_has_many_parameters(folder):
    """A group of options is one parameter (`tacit.cli.expand`)."""
    found = {}
    for file in (Path(tacit.__file__).parent / folder).glob("*.py"):
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                given = each.args
                every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
                found[f"{file.stem}.{each.name}"] = len([one for one in every if one is not None])
    assert len(found) > 30
    assert {name: n for name, n in found.items() if n > 14} == {}


def test_gaussian_noise_is_planned_without_dp_accounting():
    imported = imported_by("plan", "mr-admm", "--rows", "800,800,800", "--epsilon", "1", "--delta", "1e-6")
    assert "numpy" in imported
    assert "dp_accounting" not in imported


def test_an_agent_loads_the_compiler_and_more_only_when_it_computes():
    """`python benchmarks/agent_start.py` measures what an agent takes until it answers: 120 MB at most."""
    large = ("numba", "llvmlite", "flint", "scipy.linalg", "scipy.optimize", "scipy.stats")
    large += ("dp_accounting", "networkx", "jinja2")
    script = (
        "import sys, scipy.sparse, scipy.special\n"  # from 1.18 on they import scipy.linalg themselves
        "there = set(sys.modules)\n"
        "import tacit.cli.agent, tacit.agent.run, tacit.agent.certificate.signed_report, tacit.core.graph as graph\n"
        "import numpy as np, tacit\n"
        "problem = tacit.Problem([(np.eye(2), [1, -1])])\n"
        "graph.Graph.ring(5).mixing_rounds()\n"
        f"print(*(name for name in {large!r} if name in set(sys.modules) - there), 'and then')\n"
        "problem.gradient(np.zeros((1, 2)))\n"
        "print('numba' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert ended.stdout.split("\n")[:2] == ["and then", "True"], ended.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(name):
    command = cli.load(name)
    assert command.name == name
    assert " ".join(command.help.split("\n\n")[0].split()) == cli.COMMANDS[name]


def test_help_lists_every_command_in_its_group():
    ended = subprocess.run([sys.executable, "-m", "tacit", "--help"], capture_output=True, text=True, timeout=600)
    _, *groups = ended.stdout.split("╭─ ")[1:]  # after the options
    found = {group.split(" ─")[0]: re.findall(r"^│ (\w+) ", group, flags=re.MULTILINE) for group in groups}
    assert found == {name: list(commands) for name, commands in cli.GROUPS.items()}
    assert {"train", "predict", "plan"} <= set(found["Everyday"])
    assert set(found["Organisations"]) == {"federation", "identity", "agent", "ledger", "certificate"}
    assert set(found["Laboratory"]) == {"reproduce", "audit", "attack", "compare", "coalition"}


def test_every_public_name_is_there():
    assert sorted(name for names in tacit._MODULES.values() for name in names) == tacit.__all__
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    assert set(tacit.__all__) <= set(dir(tacit))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tacit.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("words", "offered"), [("tacit le", "ledger"), ("tacit ledger ch", "check"), ("tacit train --ag", "--agents")]
)
def test_the_shell_completes_commands_and_options(words, offered):
    asked = {"_TACIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = "import sys; sys.argv = ['tacit']; from tacit.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True, timeout=600
    )
    assert offered in ended.stdout.split(), ended.stderr
