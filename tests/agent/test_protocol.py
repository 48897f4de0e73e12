"""The model of the protocol (docs/explanation/protocol.md) keeps its rules, and the explorer finds wrong ones.

`make protocol` explores all cases.
"""

import importlib
import re

import protocol_runs as runs
import pytest
from protocol_model.search import explore

BUGS = {bug.name: bug for bug in runs.BUGS}


@pytest.mark.parametrize(("model", "at_least"), [(runs.memory("crash", ticks=1), 1_000), (runs.absence("away"), 1_000)])
def test_no_rule_is_broken(model, at_least):
    found = explore(model)
    assert (found.broken, found.trace) == ("", [])
    assert found.states >= at_least


@pytest.mark.parametrize(
    ("name", "broken", "last"),
    [
        ("publish before commit", "the ledger is below what has left", "asks about tick 0"),
        ("quorum one short", "an honest member is left out by a liar alone", "greet each other"),
    ],
)
def test_a_wrong_rule_is_found(name, broken, last):
    bug = BUGS[name]
    found = explore(runs.planted(bug))
    assert found.broken == broken
    assert last in found.trace[-1]
    assert not explore(bug.where, most=10 * found.states).broken.startswith(broken)


def test_a_shortest_trace_is_found():
    """Nobody can pay in fewer steps: member 0 starts, is counted, greets two, and pays."""
    assert len(explore(runs.planted(BUGS["pays when it has met its own"])).trace) == 5


def test_members_that_differ_by_their_names_alone_are_one_state():
    model = runs.memory(ticks=1)
    one, other = [after for label, after in second(model) if label in ("0 greets 1", "0 greets 2")]
    assert one != other
    assert set(model.renamed(one)) == set(model.renamed(other))


def second(model):
    """What can follow once member 0 has started."""
    state = model.start()
    for label in ("0 is started", "0 counts its process"):
        state = dict(model.steps(state))[label]
    return model.steps(state)


def test_the_page_names_functions_that_exist():
    text = re.sub(r"<!-- (?!end).*?<!-- end -->", "", runs.PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text)) - {"tacit.agent"}
    assert len(names) > 20
    for name in names:
        found = importlib.import_module("tacit" if name.startswith("privacy.") else "tacit.agent")
        for part in name.split("."):
            if not hasattr(found, part):
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)
        assert callable(found) or isinstance(found, property), name
