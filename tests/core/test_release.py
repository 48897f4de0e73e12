"""What leaves an agent, and what arrives."""

import ast
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.release import Inbox
from tacit.errors import InputError, TacitError
from tacit.privacy.events import Free, Unprotected
from tacit.privacy.mechanisms import post_processed, unprotected

ROWS = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0], [2.0, 2.0]])
HEARD = [[1, 2, 3], [0], [0, 3], [2, 1]]
INBOX = Inbox(ROWS, np.cumsum([0, *map(len, HEARD)]), np.concatenate(HEARD))


def test_reductions_follow_their_definition():
    for name in ("sum", "mean", "min", "max"):
        expected = [getattr(ROWS[ids], name)(axis=0) for ids in HEARD]
        np.testing.assert_allclose(getattr(INBOX, name)(), expected)


def test_farthest_pair():
    a, b = INBOX.farthest_pair()
    spread = np.abs(a - b).sum(axis=1)
    expected = [max(np.abs(ROWS[i] - ROWS[j]).sum() for i in ids for j in ids) for ids in HEARD]
    np.testing.assert_allclose(spread, expected)
    # In the 1-norm (0,0) and (2,2) are farther apart than (0,0) and (3,0): not so in the largest coordinate.
    a, b = Inbox(np.array([[0.0, 0.0], [3.0, 0.0], [2.0, 2.0]]), [0, 3]).farthest_pair()
    assert {tuple(a[0]), tuple(b[0])} == {(0.0, 0.0), (2.0, 2.0)}


def test_one_agent_hears_what_it_hears_in_company():
    for k, ids in enumerate(HEARD):
        alone = Inbox(ROWS[ids], [0, len(ids)])
        for name in ("sum", "mean", "min", "max"):
            np.testing.assert_array_equal(getattr(alone, name)()[0], getattr(INBOX, name)()[k])


def test_a_listener_that_heard_nothing_has_only_a_sum():
    quiet = Inbox(ROWS, [0, 1, 1], [2])
    np.testing.assert_array_equal(quiet.sum(), [[5.0, 3.0], [0.0, 0.0]])
    for name in ("mean", "min", "max", "farthest_pair"):
        with pytest.raises(InputError, match="listener 1 heard nothing"):
            getattr(quiet, name)()


def test_every_row_carries_its_cost():
    assert unprotected(ROWS).events == (Unprotected(),) * 4
    assert all(isinstance(e, Free) and "post-processing" in e.reason for e in post_processed(ROWS).events)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_leave(bad):
    with pytest.raises(TacitError, match=r"row 2 .* diverged; nothing was sent"):
        unprotected(np.array([[0.0], [1.0], [bad]]))


def test_only_mechanisms_make_a_release():
    """A number leaves only through tacit.privacy.mechanisms: no other module calls Release."""
    root = Path(tacit.__file__).parent
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Release"
    }
    assert makers == {"privacy/mechanisms.py"}
