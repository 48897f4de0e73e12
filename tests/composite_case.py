"""A small composite problem that several test files share, and noise and problems that watch what is done to them."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from conftest import make_parts

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import (
    graph_guided,
    public_graph,
)

ALONE = tacit.Graph.ring(1)
D = 8
((X, Y),) = make_parts(sizes=(80,), d=D, seed=3)
PROBLEM = tacit.Problem([(X, Y)])
W = public_graph(scipy.sparse.diags_array([np.ones(D - 1), np.ones(D - 1)], offsets=[-1, 1]))
FUSED = graph_guided(W, 0.02)
methods = pytest.mark.parametrize("method", [DPADMM, AcceleratedDPADMM])
G = tacit.Gaussian(5.0)


def run(algorithm, rounds, problem=PROBLEM, **settings):
    return tacit.simulate(algorithm, problem, ALONE, rounds=rounds, **settings)


class Curtain:
    """Noise that hides its value altogether: what comes out does not depend on what went in."""

    private, grid = True, 0.0

    def __init__(self):
        self.scales = []

    def add(self, law, value, scale, ids, t, onto=None):
        self.scales.append((law, np.array(scale)))
        return np.random.default_rng(t).normal(size=value.shape)

    def choose(self, rate, count, ids, t):
        return np.random.default_rng(t).random((len(ids), count)) < rate


class Watched(tacit.Problem):
    """Counts the looks at the data."""

    looks = 0

    def take(self, ids):
        return self

    def data_gradient(self, f):
        self.looks += 1
        return super().data_gradient(f)

    def sampled_data_gradient(self, f, chosen, rate):
        self.looks += 1
        return super().sampled_data_gradient(f, chosen, rate)
