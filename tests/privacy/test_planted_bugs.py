"""Bugs planted in a copy of the sources are caught by the audit, or by the test, that is named beside them: some here,
all of them by `make audit`. By the confidence of an audit, what ships would be "caught" once in a thousand times; seeds
are fixed."""

import re

import pytest
from planted_book_bugs import BOOK_BUGS, ROOT, caught
from planted_privacy_bugs import BUGS, SOURCES, plant, run_audit


def test_every_bug_changes_exactly_one_line_and_names_an_audit_or_a_test():
    from tacit.lab.audit.named import AUDITS

    for bug in (*BUGS, *BOOK_BUGS):
        text = (SOURCES / "tacit" / bug.file).read_text(encoding="utf-8")
        assert sum(bug.old in line for line in text.splitlines()) == 1, bug.name
        assert text.count(bug.old) == 1, bug.name
        assert bug.new != bug.old
        assert "\n" not in bug.new
    for bug in BUGS:
        assert bug.audit.split()[0] in AUDITS
    for bug in BOOK_BUGS:
        file, test = bug.test.split("::")
        assert f"\ndef {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), bug.name


def test_the_docs_have_a_row_for_every_bug():
    """`make audit` writes them, with what was found."""
    text = (ROOT / "docs" / "evidence" / "audits.md").read_text(encoding="utf-8")
    for bug in BUGS:
        assert re.search(rf"^\| {re.escape(bug.name)} \|.*`{re.escape(bug.audit)}`.* yes", text, re.MULTILINE), bug.name
    for bug in BOOK_BUGS:
        row = f"| {bug.kind} | {bug.name} | `{bug.file}` | `{bug.test}` | yes |"
        assert row in text, row


def test_a_line_that_is_gone_is_noticed(tmp_path):
    with pytest.raises(ValueError, match="is on 0 lines"):
        plant(BUGS[0]._replace(old="no such line"), tmp_path)


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


@pytest.mark.slow
def test_a_bug_of_bookkeeping_is_caught():
    """That the same test passes without the bug, the suite shows."""
    (bug,) = (bug for bug in BOOK_BUGS if bug.name == "the same, with secure noise only")
    assert caught(bug)
