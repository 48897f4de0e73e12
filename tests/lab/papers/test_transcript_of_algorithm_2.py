"""epsilon(X) of paper 003, (10), for Algorithm 2: against its definition, computed from what was released."""

import math

import numpy as np
import pytest
from conftest import make_parts
from scipy.integrate import quad

import tacit
from tacit.algorithms import Geometric, RandomAggregationGD
from tacit.privacy.transcript import epsilon_of_transcript

D, ROWS, ETA, RATE = 3, 40, 0.9, 6.0


@pytest.mark.parametrize("min_max", [False, True], ids=["Algorithm 2", "Algorithm 2*"])
def test_it_is_the_largest_log_ratio_over_all_that_a_record_can_move(min_max):
    """For each coordinate: the value before the noise is uniform between the ends that weights 0 and 1 lead to, and a
    record moves both by up to eta 2/B. All by hand: the neighbourhood, its farthest pair, the mean, two integrals."""
    problem = tacit.Problem(make_parts(sizes=(ROWS,) * 5, d=D), l2=0.2)
    graph = tacit.Graph.random(5, 7, seed=1)
    method = RandomAggregationGD(step=Geometric(ETA, ETA), beta=RATE, min_max=min_max)
    run = tacit.simulate(method, problem, graph, rounds=3, noise=tacit.SeededNoise(0), record=True)
    found, worst = epsilon_of_transcript(method, problem, graph, run)
    for k in (1, 2):
        for i in range(5):
            x = run.trajectory[k]
            near = [i, *graph.neighbours(i)]
            if min_max:
                ends = x[near].min(axis=0), x[near].max(axis=0)
                at = x[i]
            else:
                pairs = [(np.abs(x[a] - x[b]).sum(), a, b) for a in near for b in near if a < b]
                _, a, b = max(pairs)
                rest = x[near].sum(axis=0) - x[a] - x[b]
                ends = (2 * x[a] + rest) / len(near), (2 * x[b] + rest) / len(near)
                at = x[near].mean(axis=0)
            step = ETA ** (k + 1)
            moved = step * problem.take([i]).gradient(at[None])[0]
            total = 0.0
            for c in range(D):
                low, high = sorted(end[c] - moved[c] for end in ends)
                total += largest_log_ratio(run.trajectory[k + 1, i, c], low, high, step * 2 / ROWS)
            assert found.look()[k, i] == pytest.approx(total, rel=1e-6)
            assert total <= worst[k, i] * (1 + 1e-9)
    assert found.look().sum() < 0.99 * worst.sum()  # the weights do help


def largest_log_ratio(value, low, high, shift):
    def density(by):
        a, b = low + by, high + by
        return quad(lambda y: math.exp(-RATE * abs(value - y)), a, b, points=[np.clip(value, a, b)], epsabs=0)[0]

    here = density(0.0)
    return max(abs(math.log(here / density(by))) for by in np.linspace(-shift, shift, 21))
