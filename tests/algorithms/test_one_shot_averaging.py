"""One-shot averaging: against minimisers and mixing by hand, and the targets that it can meet."""

import numpy as np
import pytest
from private_case import NOISE, ROUNDS, SCALE, START, each, minimiser, mixed, run

import tacit
from tacit.algorithms import OneShotAveraging
from tacit.core.facts import Facts
from tacit.privacy.events import Pure


def one_shot(mixing):
    f = each(lambda i: SCALE[i] * minimiser(i, NOISE[0, i], []))
    path = [START]
    for _ in range(ROUNDS):
        f = mixed(f, mixing)
        path.append(f)
    return np.array(path)


def test_trajectory_is_that_of_the_minimisers():
    method = OneShotAveraging(mixing=0.1, budget=Pure(1.0))
    np.testing.assert_allclose(run(method).trajectory, one_shot(0.1), rtol=0, atol=1e-8)


def test_a_pure_target_is_met_next_to_what_the_curvature_costs():
    """Steps too small to pay for the curvature are not the end of the search."""
    facts, graph = Facts(sizes=[50] * 3, dimension=3, l2=0.045), tacit.Graph.ring(3)

    def make(budget):
        return OneShotAveraging(mixing=0.1, budget=budget)

    found = tacit.calibrate(make, facts, graph, 1, epsilon=0.15, delta=1e-6, law=tacit.Pure)
    assert 0.149 < tacit.plan(found, facts, graph, 1).epsilon(1e-6) <= 0.15
    with pytest.raises(tacit.InputError, match="curvature"):
        tacit.calibrate(make, facts, graph, 1, epsilon=0.01, delta=1e-6, law=tacit.Pure)
    with pytest.raises(tacit.InputError, match="what is paid apart from it"):
        tacit.calibrate(make, facts, graph, 1, epsilon=0.01, delta=1e-6)
