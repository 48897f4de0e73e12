"""Composite problems: proximal operators, terms and graphs of features."""

import math
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from composite_case import ALONE, FUSED, PROBLEM, Curtain, D, G, W, X, Y, run
from conftest import make_parts

import tacit
from tacit.algorithms import DPADMM
from tacit.composite import (
    L1,
    Box,
    Composite,
    ElasticNet,
    GroupL1,
    Nothing,
    SquaredL2,
    Term,
    clipped,
    generalised_lasso,
    graph_as_printed,
    graph_from_public_sample,
    graph_guided,
    lasso,
    private_graph,
    public_graph,
    require_visible,
)
from tacit.composite.feature_graph import _pattern
from tacit.privacy.accounting import epsilon
from tacit.privacy.mechanisms import second_moment_perturbed

# Proximal operators

FUNCTIONS = [
    L1(0.7),
    SquaredL2(0.7),
    ElasticNet(0.3, 0.9),
    GroupL1(0.8, (0, 1, 0, -1, 1)),
    Box(-0.5, 0.4),
    Nothing(),
]
functions = pytest.mark.parametrize("g", FUNCTIONS, ids=lambda g: type(g).__name__)


@functions
def test_no_point_is_better_than_the_prox(g):
    rng = np.random.default_rng(0)
    v, step = rng.normal(size=(3, 5)), np.array([[0.2], [1.0], [3.0]])
    y = g.prox(v, step)

    def objective(z):
        return g.value(z) + ((z - v) ** 2).sum(axis=1) / (2 * step[:, 0])

    least = objective(y)
    assert np.all(np.isfinite(least))
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(200):
            other = y + size * rng.normal(size=y.shape) * (rng.random(y.shape) < 0.5)
            assert np.all(objective(other) >= least - 1e-14)


def test_values_of_the_functions():
    y = np.array([[3.0, -1.0, 4.0, 2.0, 0.0]])
    assert [float(g.value(y)[0]) for g in FUNCTIONS[:4]] == pytest.approx([7.0, 10.5, 3.0 + 13.5, 0.8 * (5 + 1)])
    assert Box(-1, 4).value(y)[0] == 0
    assert Box(0, 4).value(y)[0] == math.inf


# Terms


def test_terms_have_the_values_of_their_definitions():
    x = np.random.default_rng(1).normal(size=(1, 6))
    grid = x.reshape(2, 3)
    differences = np.abs(np.diff(grid, axis=0)).sum() + np.abs(np.diff(grid, axis=1)).sum()
    assert generalised_lasso((2, 3), 2.0).value(x)[0] == pytest.approx(2 * differences)
    assert generalised_lasso(6, 2.0).value(x)[0] == pytest.approx(2 * np.abs(np.diff(x)).sum())
    signed = np.zeros((6, 6))
    signed[0, 3] = signed[3, 0] = 1
    signed[2, 5] = signed[5, 2] = -1
    fused = abs(x[0, 0] - x[0, 3]) + abs(x[0, 2] + x[0, 5]) + 3 * np.abs(x).sum()
    assert graph_guided(public_graph(signed), 0.5, sparsity=3.0).value(x)[0] == pytest.approx(0.5 * fused)
    as_printed = graph_guided(public_graph(signed), 0.5, as_pattern=True).value(x)[0]
    assert as_printed == pytest.approx(0.5 * (np.abs(signed @ x[0]).sum() + np.abs(x).sum()))
    moved = Term(np.eye(6), L1(1.0), c=np.arange(6.0))
    assert moved.value(x)[0] == pytest.approx(np.abs(x - np.arange(6)).sum())


@pytest.mark.parametrize("d", [2, 40, 700])
def test_the_norm_is_the_spectral_norm(d):
    term = generalised_lasso(d, 1.0)  # eigenvalues of the path: 2 - 2 cos(pi k/d)
    exact = 2 - 2 * math.cos(math.pi * (d - 1) / d)
    assert exact * (1 - 1e-9) <= term.norm <= exact * (1 + 2e-6)


def test_clipped_rows_are_short_enough_and_keep_their_direction():
    rows = np.random.default_rng(0).normal(size=(50, 7)) * np.geomspace(0.01, 100, 50)[:, None]
    short = clipped(rows, 0.3)
    np.testing.assert_allclose(clipped(scipy.sparse.csr_array(rows), 0.3).toarray(), short, rtol=1e-15)
    assert np.linalg.norm(short, axis=1).max() <= 0.3
    np.testing.assert_allclose(short[0], rows[0])
    np.testing.assert_allclose(
        short / np.linalg.norm(short, axis=1, keepdims=True), rows / np.linalg.norm(rows, axis=1, keepdims=True)
    )
    tacit.Problem([(short, np.ones(50))]).require_row_norm(0.3)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e200, 3e307])
def test_rows_of_any_size_are_clipped(sparse, size):
    rows = np.array([[3.0, 4.0], [3.0 / size, 4.0 / size], [0.0, 0.0], [1e-310, 0.0]]) * [[size], [0.1], [1], [1]]
    expected = [[0.6, 0.8], [0.3 / size, 0.4 / size], [0.0, 0.0], [1e-310, 0.0]]
    with np.errstate(all="raise", under="ignore"):
        short = clipped(scipy.sparse.csr_array(rows) if sparse else rows, 1.0)
    np.testing.assert_allclose(short.toarray() if sparse else short, expected, rtol=1e-14)
    far = clipped(rows, 2.0 * size)[0] / size
    np.testing.assert_allclose(far, [1.2, 1.6], rtol=1e-14)


# Graphs of features


def test_a_private_graph_is_charged_to_the_run():
    budget = tacit.Gaussian(30.0)
    graph = private_graph(PROBLEM, tacit.SeededNoise(0), budget, 0.3)
    make = lambda b: DPADMM(term=graph_guided(graph, 0.01), budget=b)  # noqa: E731
    best = tacit.calibrate(make, PROBLEM, ALONE, 11, epsilon=1.0, delta=1e-5)
    done = run(best, 11, noise=tacit.SeededNoise(1))
    assert done.spent[0] == Counter({budget: 1, best.budget: 10})
    assert 0.9999 < epsilon(done.spent[0], 1e-5) <= 1.0
    with pytest.raises(tacit.InputError, match="does not protect"):
        run(best, 2, noise=tacit.SecureNoise())
    with pytest.raises(tacit.InputError, match="what is paid apart from it"):
        tacit.calibrate(make, PROBLEM, ALONE, 2, epsilon=0.01, delta=1e-5)


def test_a_graph_from_private_rows_is_unprotected():
    with pytest.raises(tacit.InputError, match="as_printed"):
        graph_as_printed(PROBLEM, 0.3)
    graph = graph_as_printed(PROBLEM, 0.3, as_printed=True)
    np.testing.assert_array_equal(graph.W.toarray(), graph_from_public_sample(X, 0.3).W.toarray())
    done = run(DPADMM(term=graph_guided(graph, 0.01), budget=G), 3, noise=Curtain())
    assert not done.private
    assert epsilon(done.spent[0], 1e-5) == math.inf
    assert run(DPADMM(term=FUSED, budget=G), 3, noise=Curtain()).private


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_second_moments_and_their_sensitivity(sparse):
    problem = tacit.Problem([(scipy.sparse.csr_array(X) if sparse else X, Y)])
    np.testing.assert_allclose(problem.second_moment()[0], X.T @ X / len(Y), atol=1e-14)
    quiet = tacit.RecordedNoise(np.zeros((1, 1, D * (D + 1) // 2)))
    release = second_moment_perturbed(problem, quiet, G, ids=np.array([0]), t=0)
    np.testing.assert_allclose(release.value[0], (X.T @ X / len(Y))[np.triu_indices(D)], atol=1e-14)
    # Two orthogonal records attain the sensitivity, in the norm in which the noise is spherical.
    noise, shared = Curtain(), 2.0 * np.eye(3)[[0] * 4]
    second_moment_perturbed(tacit.Problem([(shared, np.ones(4))]), noise, G, row_norm=2.0, ids=np.array([0]), t=0)
    one, other = ((M.T @ M / 4) for M in (shared, np.vstack([shared[:3], 2.0 * np.eye(3)[[1]]])))
    assert float(noise.scales[0][1][0, 0]) == pytest.approx(5 * np.linalg.norm(one - other))


def test_a_graph_finds_signed_pairs():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4))
    rows[:, 2] = -rows[:, 0] + 0.1 * rng.normal(size=500)
    rows = clipped(rows, 1.0)
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = -1
    np.testing.assert_array_equal(graph_from_public_sample(rows, 0.5).W.toarray(), expected)
    problem = tacit.Problem([(rows, np.ones(500))])
    private = private_graph(problem, tacit.SeededNoise(0), tacit.Gaussian(4.0), 0.5)
    np.testing.assert_array_equal(private.W.toarray(), expected)
    np.testing.assert_array_equal(private.differences().toarray(), [[1, 0, 1, 0]])


def test_a_private_graph_has_no_edge_that_noise_alone_could_make():
    """With 95% probability no edge is false: in 20 draws at most 9 have one, or the bound is wrong (false alarm 1e-6,
    in truth much less). Rare features have tiny moments, where noise looks like correlation."""
    d = 40
    rows = np.eye(d)[np.random.default_rng(0).choice(d, size=4000, p=np.r_[0.6, np.full(d - 1, 0.4 / (d - 1))])]
    problem, budget = tacit.Problem([(rows, np.ones(4000))]), tacit.Gaussian(20.0)
    graphs = [private_graph(problem, tacit.SeededNoise(seed), budget, 0.3) for seed in range(20)]
    assert sum(graph.W.nnz > 0 for graph in graphs) <= 9
    noisy = second_moment_perturbed(problem, tacit.SeededNoise(0), budget, ids=np.array([0]), t=0).value[0]
    moment = np.zeros((d, d))
    moment[np.triu_indices(d)] = noisy
    assert _pattern(moment + np.triu(moment, 1).T, 0.3).nnz > d  # without the doubt nearly all pairs are edges


@pytest.mark.parametrize("threshold", [0.1, 0.5])
@pytest.mark.parametrize("row_norm", [1.0, 3.0])
def test_a_private_graph_is_refused_where_not_even_two_equal_features_would_have_an_edge(threshold, row_norm):
    rows = np.zeros((100, 5))
    rows[:, :2] = row_norm / math.sqrt(2)  # they have all of the second moment: no pair can do better
    problem, quiet = tacit.Problem([(rows, np.ones(100))]), tacit.RecordedNoise(np.zeros((1, 1, 15)))
    found = set()
    for multiplier in np.geomspace(0.5, 500, 60):
        budget = tacit.Gaussian(float(multiplier))
        edges = len(private_graph(problem, quiet, budget, threshold, row_norm=row_norm).edges())
        refused = edges == 0
        with pytest.raises(tacit.InputError, match="100 rows with 5 features") if refused else nullcontext():
            require_visible(100, 5, budget, threshold, row_norm=row_norm)
        found.add(refused)
    assert found == {False, True}


# Bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "strength"),
        (lambda: ElasticNet(1.0, math.nan), "l2"),
        (lambda: GroupL1(1.0, ()), "labels"),
        (lambda: Box(1.0, 0.0), "lower <= upper"),
        (lambda: Term([1.0, 2.0], L1(1.0)), "matrix"),
        (lambda: Term([["a"]], L1(1.0)), "numbers"),
        (lambda: Term([[math.inf]], L1(1.0)), "finite"),
        (lambda: Term(np.eye(2), L1(1.0), c=[1.0]), "c has shape"),
        (lambda: Term(np.eye(3), GroupL1(1.0, (0, 1))), "2 coordinates, but A has 3"),
        (lambda: lasso(0, 1.0), "whole number"),
        (lambda: generalised_lasso((1, 1), 1.0), "2 points"),
        (lambda: FUSED.value(np.zeros(3)), "length 3"),
        (lambda: public_graph(np.ones((2, 3))), "square"),
        (lambda: public_graph([[0, 1], [0, 0]]), "symmetric"),
        (lambda: graph_from_public_sample(X, 1.5), "threshold"),
        (lambda: graph_guided(W, 1.0, sparsity=-1.0), "sparsity"),
        (lambda: clipped(X, 0.0), "positive norm"),
        (lambda: Composite(PROBLEM, lasso(3, 1.0)), "dimension 8, the term 3"),
        (lambda: Composite(tacit.Problem(make_parts(sizes=(5, 5), d=3)), lasso(3, 1.0)), "one agent"),
    ],
)
def test_bad_input_is_refused_in_one_line(make, message):
    with pytest.raises(tacit.InputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
