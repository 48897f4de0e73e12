"""What users rely on: the public names, and their types, as their own type checker sees them."""

import importlib
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONSUMER = ROOT / "tests" / "consumer" / "consumer.py"
STABLE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
PUBLIC = re.findall(r"^\| `(tacit[\w.]*)` \|", STABLE, flags=re.MULTILINE)
PYRIGHT = shutil.which("pyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """A folder with the consumer's script, and with the code of the page about Python as another one."""
    folder = tmp_path_factory.mktemp("consumer")
    shutil.copy(CONSUMER, folder)
    page = (ROOT / "docs" / "how-to" / "use-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 5
    (folder / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    return folder


def test_the_consumers_script_runs(capsys):
    runpy.run_path(str(CONSUMER), run_name="__main__")
    said = capsys.readouterr().out
    assert "HeavyBall True 2.0" in said
    assert "Problem(5 agents, 40000 rows" in said


@pytest.mark.slow
def test_mypy_strict_finds_nothing(scripts):
    """Errors inside tacit are silenced, as mypy silences those of any installed package."""
    kept = ROOT / ".mypy_cache" / "consumer"  # the next run reads there what has not changed since
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={kept}"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "consumer.py", "page.py"],
        cwd=scripts,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout == "Success: no issues found in 2 source files\n", checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed: make types")
def test_pyright_finds_nothing(scripts):
    (scripts / "pyrightconfig.json").write_text(
        json.dumps({"include": ["*.py"], "typeCheckingMode": "basic", "extraPaths": [str(ROOT / "src")]})
    )
    checked = subprocess.run(
        [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "--project", str(scripts)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(checked.stdout)
    assert found["summary"]["filesAnalyzed"] == 2
    assert [d["message"] for d in found["generalDiagnostics"] if d["severity"] == "error"] == []


def test_the_modules_that_are_called_stable():
    assert {"tacit", "tacit.algorithms", "tacit.extend", "tacit.privacy.ledger", "tacit.estimators"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_exist_and_say_what_they_are(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__) > 0
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
            assert thing.__doc__, f"{name}.{public} has no docstring"
            assert not thing.__doc__.startswith(f"{public}("), f"{name}.{public} has a generated docstring only"


def test_the_versions_of_files_are_those_that_the_code_writes():
    from tacit.agent import federation_toml
    from tacit.agent.certificate import claims, examination
    from tacit.data import schema
    from tacit.privacy.ledger import sqlite_tables
    from tacit.run import model
    from tacit.simulation import result

    said = dict(re.findall(r"^\| (\w[\w ]*) \(\w+\) \|[^|]*\| (.*) \|$", STABLE, flags=re.MULTILINE))
    assert said == {
        "schema": f"{schema._VERSION}",
        "model": f"`{model._FORMAT}`, {model._VERSION}",
        "saved run": f"{result._FORMAT}",
        "ledger": f"{sqlite_tables.FORMAT}",
        "federation file": f"{federation_toml.VERSION}",
        "report": f"`{claims.FORMAT}`",
        "certificate": f"`{examination.FORMAT}`, {examination.VERSION}",
    }


def test_the_version_to_cite_is_this_one():
    import tacit

    assert f"\nversion: {tacit.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'\nversion = "{tacit.__version__}"\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
