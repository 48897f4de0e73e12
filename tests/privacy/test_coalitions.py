"""What a run costs against coalitions of every size."""

from collections import Counter

import pytest

from tacit.privacy.accounting import epsilon, rounded_up
from tacit.privacy.coalitions import guarantee
from tacit.privacy.events import Free, Gaussian, SharedGaussian

SHARED = SharedGaussian(4.0, members=6, colluders=2, dropouts=1)


def gaussian(shares, times=10):
    return epsilon(Counter({Gaussian(4.0 * shares**0.5): times}), 1e-5)


def test_the_curve_counts_the_shares_that_are_left():
    """With one member away, a coalition of t knows all but 5 - t of the shares; the last place is one share alone."""
    found = guarantee([Counter({SHARED: 10})], 1e-5, members=6)
    assert (found.colluders, found.dropouts) == (2, 1)
    assert [t for t, _ in found.curve] == [0, 1, 2, 3, 4]
    assert [e for _, e in found.curve] == [rounded_up(gaussian(5 - t)) for t in range(5)]
    assert found.epsilon == gaussian(3)
    first, last = "against any 2 of the 5 other members together, while at most 1 is away", rounded_up(gaussian(1))
    assert found.against == f"{first}; against 4: ({last:g}, 1e-05)"


def test_a_coalition_that_cuts_the_graph_leaves_one_share():
    """On a graph that three members cut, two colluders and the one that is away are three."""
    found = guarantee([Counter({SHARED: 10})], 1e-5, members=6, connectivity=3)
    assert [e for _, e in found.curve] == [rounded_up(gaussian(n)) for n in (5, 4, 1, 1, 1)]


@pytest.mark.parametrize(
    ("colluders", "whom"), [(0, "anybody who is no member"), (1, "any one of the 2 other members")]
)
def test_whoever_holds_the_record_is_no_colluder(colluders, whom):
    found = guarantee([Counter({SharedGaussian(4.0, members=3, colluders=colluders): 10})], 1e-5, members=3)
    assert found.against.startswith(f"against {whom}; against 2: (")
    found = guarantee([Counter({SharedGaussian(4.0, members=3, colluders=2): 10})], 1e-5, members=3)
    assert found.against == "against all other members together"


def test_local_noise_costs_the_same_against_all():
    found = guarantee([Counter({Gaussian(8.0): 5, Free("a mean"): 9})], 1e-5, members=4)
    assert found.colluders == 3
    assert not found.shared
    assert found.against == "against all other members together"
    assert [t for t, _ in found.curve] == [0, 1, 2, 3]
    assert len({e for _, e in found.curve}) == 1


def test_coalitions_that_are_alike_are_counted_once(monkeypatch):
    """A plan for a million members asked each of them, for coalitions of each size: 40 seconds."""
    asked = []
    monkeypatch.setattr("tacit.privacy.coalitions.against", lambda event, *given: asked.append(event) or event)
    alone = guarantee([Counter({Gaussian(8.0): 5})], 1e-5, members=4)
    del asked[:]
    found = guarantee([Counter({Gaussian(8.0): 5})] * 3, 1e-5, members=100_000)
    assert len(asked) <= 2
    assert found.epsilon == alone.epsilon
    assert [found.curve[0], len(found.curve), found.curve[-1]] == [alone.curve[0], 100_000, (99_999, alone.curve[0][1])]
    monkeypatch.undo()
    on_a_ring = guarantee([Counter({SHARED: 10})], 1e-5, members=6, connectivity=2)
    by_size = [rounded_up(gaussian(5 if t == 0 else 1)) for t in range(5)]
    assert [e for _, e in on_a_ring.curve] == by_size


def test_what_is_local_beside_shared_noise_is_paid_against_all():
    """A noisy count with local noise costs each coalition the same, on top of the rest."""
    both = guarantee([Counter({SHARED: 10, Gaussian(20.0): 1})], 1e-5, members=6)
    assert both.epsilon == pytest.approx(epsilon(Counter({SHARED.gaussian: 10, Gaussian(20.0): 1}), 1e-5), rel=1e-12)
    assert both.colluders == 2
    assert both.epsilon > gaussian(3)


def test_the_member_that_pays_most_decides():
    small = SharedGaussian(2.0, members=6, colluders=2, dropouts=1)
    both = guarantee([Counter({SHARED: 10}), Counter({small: 10})], 1e-5, members=6)
    assert both == guarantee([Counter({small: 10})], 1e-5, members=6)


def test_mixed_assumptions_hold_together_against_the_least_coalition():
    """Releases that assume 3 colluders, and others that assume 1 while 2 are away: together they hold against 1 while
    2 are away, and every larger coalition pays for both as it knows them."""
    few, many = SharedGaussian(4.0, members=7, colluders=1, dropouts=2), SharedGaussian(4.0, 7, 3)
    for both in ([Counter({few: 3, many: 5})], [Counter({few: 3}), Counter({many: 5})]):
        found = guarantee(both, 1e-5, members=7)
        assert (found.colluders, found.dropouts) == (1, 2)
        assert [t for t, _ in found.curve] == [0, 1, 2, 3, 4]
    at_once = [{Gaussian(4.0 * (5 - t) ** 0.5): 3, Gaussian(4.0 * (7 - t) ** 0.5): 5} for t in range(5)]
    together = guarantee([Counter({few: 3, many: 5})], 1e-5, members=7)
    assert [e for _, e in together.curve] == [rounded_up(epsilon(Counter(spent), 1e-5)) for spent in at_once]
    assert together.epsilon == pytest.approx(epsilon(Counter(at_once[1]), 1e-5), rel=1e-12)


def test_nobody_is_assumed_to_collude():
    assert (
        "anybody who is no member; against 4"
        in guarantee([Counter({SharedGaussian(4.0, members=5, colluders=0): 1})], 1e-5, members=5).against
    )
