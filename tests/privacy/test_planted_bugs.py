"""Bugs planted in a copy of the sources are caught by the audit that is named beside them: two here, all of them by
`make audit`. By the confidence of an audit, what ships would be "caught" once in a thousand times; seeds are fixed."""

import pytest
from planted_privacy_bugs import BUGS, SOURCES, plant, run_audit


def test_every_bug_changes_exactly_one_line_and_names_an_audit():
    from tacit.workflows.audits import AUDITS

    for bug in BUGS:
        text = (SOURCES / "tacit" / bug.file).read_text(encoding="utf-8")
        assert sum(bug.old in line for line in text.splitlines()) == 1, bug.name
        assert text.count(bug.old) == 1, bug.name
        assert bug.new != bug.old
        assert "\n" not in bug.new
        assert bug.audit.split()[0] in AUDITS


def test_a_line_that_is_gone_is_noticed(tmp_path):
    with pytest.raises(ValueError, match="is on 0 lines"):
        plant(BUGS[0]._replace(old="no such line"), tmp_path)


@pytest.mark.parametrize("name", ["an even step that reads data", "noise reused between rounds"])
def test_a_planted_bug_is_caught(name, tmp_path):
    (bug,) = (bug for bug in BUGS if bug.name == name)
    found = run_audit(bug.audit, plant(bug, tmp_path), samples=1000)
    assert found["caught"]
    assert found["lower_bound"] > 2 * found["claim"]
