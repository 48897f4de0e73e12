"""Composite problems: a smooth loss plus a term g(A x - c), for `DPADMM` and `AcceleratedDPADMM`.

>>> import numpy as np, tacit
>>> from tacit.composite import clipped, lasso
>>> rng = np.random.default_rng(0)
>>> X = clipped(rng.normal(size=(200, 5)), 1.0)
>>> problem = tacit.Problem([(X, np.where(X[:, 0] > 0, 1, -1))])
>>> make = lambda budget: tacit.algorithms.DPADMM(term=lasso(5, 0.01), penalty=0.1, budget=budget)
>>> alone = tacit.Graph.ring(1)
>>> method = tacit.calibrate(make, problem, alone, 30, epsilon=1.0, delta=1e-5)
>>> run = tacit.simulate(method, problem, alone, rounds=30, noise=tacit.SecureNoise())
>>> run.private, run.model.shape
(True, (5,))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.composite.composite import Composite
    from tacit.composite.feature_graph import (
        FeatureGraph,
        graph_as_printed,
        graph_from_public_sample,
        private_graph,
        public_graph,
        require_visible,
    )
    from tacit.composite.prox import L1, Box, ElasticNet, GroupL1, Nothing, Proximable, SquaredL2, Stacked
    from tacit.composite.term import Term, constrained, generalised_lasso, graph_guided, lasso
    from tacit.data.clipping import clipped

__all__ = [
    "L1",
    "Box",
    "Composite",
    "ElasticNet",
    "FeatureGraph",
    "GroupL1",
    "Nothing",
    "Proximable",
    "SquaredL2",
    "Stacked",
    "Term",
    "clipped",
    "constrained",
    "generalised_lasso",
    "graph_as_printed",
    "graph_from_public_sample",
    "graph_guided",
    "lasso",
    "private_graph",
    "public_graph",
    "require_visible",
]

if not TYPE_CHECKING:
    _names = {
        "tacit.composite.feature_graph": (
            "FeatureGraph",
            "graph_as_printed",
            "graph_from_public_sample",
            "private_graph",
            "public_graph",
            "require_visible",
        ),
        "tacit.composite.composite": ("Composite",),
        "tacit.composite.prox": ("L1", "Box", "ElasticNet", "GroupL1", "Nothing", "Proximable", "SquaredL2", "Stacked"),
        "tacit.composite.term": ("Term", "constrained", "generalised_lasso", "graph_guided", "lasso"),
        "tacit.data.clipping": ("clipped",),
    }
    __getattr__ = lazily(__name__, _names)
