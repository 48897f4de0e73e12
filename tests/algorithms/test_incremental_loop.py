"""The compiled loop of plain token runs does what the loop does, tick by tick."""

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import IncrementalADMM, WalkADMM
from tacit.core.losses import Logistic, Squared

METHODS = {
    "exact": IncrementalADMM(penalty=4.0),
    "first order": IncrementalADMM(penalty=4.0, exact=False),
    "walk": WalkADMM(penalty=4.0),
}
GRAPH = tacit.Graph.random_with_cycle(5, 7, seed=3)


def nobody(t, turn, release):
    """An eavesdropper makes the loop go tick by tick."""


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
@pytest.mark.parametrize("algorithm", METHODS.values(), ids=list(METHODS))
def test_a_stride_equals_its_ticks(algorithm, loss, sparse):
    problem = tacit.Problem(make_parts(sparse=sparse), loss=loss, scale=2.0, l2=0.3)
    start = np.random.default_rng(1).normal(size=(5, problem.dimension))
    how = {"rounds": 57, "start": start, "record": True, "measure_every": 10}
    strides = tacit.simulate(algorithm, problem, GRAPH, **how)
    ticks = tacit.simulate(algorithm, problem, GRAPH, overheard=nobody, **how)
    np.testing.assert_allclose(strides.trajectory, ticks.trajectory, atol=1e-9)
    for a, b in zip(strides.state, ticks.state, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    assert strides.spent == ticks.spent
    for name in ("round", "messages", "bytes"):
        np.testing.assert_array_equal(strides.history[name], ticks.history[name])
    assert strides.history["round"].tolist() == [0, 10, 20, 30, 40, 50, 57]


def test_a_solver_that_gives_up_inside_the_loop_says_who():
    problem = tacit.Problem(make_parts(), loss=Logistic(), scale=2.0, tolerance=1e-30)
    with pytest.raises(tacit.NotConverged, match=r"agent [0-4]: the local minimiser reached gradient norm"):
        tacit.simulate(METHODS["exact"], problem, GRAPH, rounds=5)
