"""`make quick` finds the tests that a change touches, nearest first, and stops in time."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import quick

ROOT = quick.ROOT


def near(*names, steps=2):
    return {str(test.relative_to(ROOT)): far for test, far in quick.nearest([ROOT / n for n in names], steps).items()}


def test_a_module_has_the_tests_of_its_name_first():
    found = near("src/tacit/core/graph.py")
    assert next(iter(found)).startswith("tests/core/test_graph")
    assert list(found.values()) == sorted(found.values())


def test_what_a_package_hands_on_is_one_import_away():
    """The test imports `Ledger` from the package; the class stands in a module of it."""
    assert near("src/tacit/privacy/ledger/ledger.py")["tests/agent/membership/test_meeting.py"] == 1


def test_fewer_steps_find_fewer_tests():
    assert set(near("src/tacit/core/graph.py", steps=1)) < set(near("src/tacit/core/graph.py"))


def test_a_helper_of_tests_reaches_those_that_import_it():
    assert near("tests/speaking.py", steps=1)


def test_a_test_reaches_itself_and_a_file_that_is_no_python_the_tests_that_name_it():
    assert near("tests/test_layers.py") == {"tests/test_layers.py": 0}
    assert "tests/test_pages.py" in near("README.md")


def run_for(seconds, text, folder):
    """What pytest with a deadline prints for a file of this text; its clock jumps when a file `late` is there."""
    (folder / "test_it.py").write_text(text)
    script = f"""import pathlib, sys, types, pytest
sys.path.insert(0, {str(ROOT / "tools")!r})
import quick
quick.time = types.SimpleNamespace(monotonic=lambda: 100.0 * pathlib.Path("late").exists())
deadline = quick.Deadline({seconds})
pytest.main(["-q", "test_it.py"], plugins=[deadline])
print("left", deadline.left, "failed", deadline.failed)"""
    environment = os.environ | {"PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_no_test_begins_after_the_deadline(tmp_path):
    text = "import pathlib\ndef test_first(): pathlib.Path('late').touch()\n"
    text += "def test_second(): pathlib.Path('second').touch()\ndef test_third(): pass\n"
    assert "left 2 failed False" in run_for(60, text, tmp_path)
    assert (tmp_path / "late").exists()
    assert not (tmp_path / "second").exists()


def test_a_failure_is_known(tmp_path):
    assert "left 0 failed True" in run_for(60, "def test_wrong(): assert 0\n", tmp_path)
