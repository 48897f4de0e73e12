"""Mutants that an audit must catch (`tests/mutants`) are caught: some here, all of them by `make audit`. By the
confidence of an audit, what ships would be "caught" once in a thousand times; seeds are fixed."""

import re

import pytest
from audit_runs import BUGS, run_audit
from mutants.listed import ROOT, plant


def test_the_docs_have_a_row_for_every_bug():
    """`make audit` writes them, with what was found."""
    text = (ROOT / "docs" / "evidence" / "audits.md").read_text(encoding="utf-8")
    assert len(BUGS) >= 17
    for bug in BUGS:
        assert re.search(rf"^\| {re.escape(bug.name)} \|.*`{re.escape(bug.audit)}`.* yes", text, re.MULTILINE), bug.name


@pytest.mark.parametrize(
    "name",
    [
        "noise reused between rounds",
        pytest.param("an even step that reads data", marks=pytest.mark.slow),
        pytest.param("a share drawn once and reused, steered", marks=pytest.mark.slow),
    ],
)
def test_a_planted_bug_is_caught(name, tmp_path):
    (bug,) = (bug for bug in BUGS if bug.name == name)
    found = run_audit(bug.audit, plant(bug, tmp_path), samples=1000)
    assert found["caught"]
    assert found["lower_bound"] > 2 * found["claim"]


def test_noise_that_is_reused_is_caught_because_it_tells_too_little(tmp_path):
    (bug,) = (bug for bug in BUGS if bug.name == "a share drawn once and reused")
    found = run_audit(bug.audit, plant(bug, tmp_path), samples=1000)
    assert not found["caught"]
    assert found["short"]
