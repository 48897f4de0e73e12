"""The default graph."""

import pytest

from tacit.core.graph import Graph
from tacit.errors import InputError
from tacit.run.graphs import auto_graph
from tacit.run.trust import Reserve


def test_local_noise_has_a_ring_of_few_and_a_few_neighbours_of_many():
    assert auto_graph(5) == Graph.ring(5)
    assert auto_graph(7) == Graph.complete(7)
    assert set(auto_graph(30).degree) == {6}


def test_few_members_all_talk_to_each_other():
    assert auto_graph(20, Reserve(3)) == Graph.complete(20)
    assert len(auto_graph(21, Reserve(3)).edges) == 42


@pytest.mark.parametrize("reserve", [Reserve(0), Reserve(5, 2), Reserve(10), Reserve(49)])
def test_no_reserve_can_cut_it_in_two(reserve):
    together = reserve.colluders + reserve.dropouts
    assert auto_graph(50, reserve).connectivity >= min(together + 1, 49)


def test_a_reserve_that_leaves_nobody_is_refused():
    with pytest.raises(InputError, match="50 colluders and 0 dropouts leave none"):
        auto_graph(50, Reserve(50))
