"""Small problems that several tests share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tacit

SIZES = (7, 40, 23, 61, 12)  # fewer and more rows than features: both solvers take part


def make_parts(sizes=SIZES, d=15, seed=0, sparse=False):
    """Rows of norm at most 1 with noisy labels, agents of different size."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    parts = []
    for n in sizes:
        X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        y = np.where(X @ truth + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
        parts.append((scipy.sparse.csr_array(X) if sparse else X, y))
    return parts


@pytest.fixture(params=["dense", "csr"])
def parts(request):
    return make_parts(sparse=request.param == "csr")


@pytest.fixture
def problem(parts):
    return tacit.Problem(parts, scale=3.0, l2=0.5)
