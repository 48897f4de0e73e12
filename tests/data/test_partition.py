"""Splits and partitions: every row exactly once, and the shapes that were asked for."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tacit.data import Dataset
from tacit.data.partition import by_column, dirichlet, equal
from tacit.errors import InputError

LABELS = np.repeat([-1.0, 1.0], [3000, 1000])


def dataset(rows: int = 20, sparse: bool = False) -> Dataset:
    X = np.arange(2.0 * rows).reshape(rows, 2)
    y = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    return Dataset(csr_array(X) if sparse else X, y, ("a", "b"), 100 + np.arange(rows))


def assert_partition(parts: list[np.ndarray], rows: int) -> None:
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(rows))
    assert all(len(part) for part in parts)


@pytest.mark.parametrize(("rows", "agents"), [(10, 1), (10, 10), (103, 7)])
def test_equal_covers_all_rows_in_sizes_that_differ_by_one(rows, agents):
    parts = equal(rows, agents)
    assert len(parts) == agents
    assert_partition(parts, rows)
    assert np.ptp([len(part) for part in parts]) <= 1


def test_equal_shuffles_by_its_seed():
    one, again, other = equal(1000, 3, seed=1), equal(1000, 3, seed=1), equal(1000, 3, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one[0], other[0])
    assert not np.array_equal(np.concatenate(one), np.arange(1000))


def test_by_column_gives_one_agent_a_value_sorted_by_name():
    values = np.array(["b", "a", "c", "a", "b"], dtype=object)
    parts, names = by_column(values)
    assert names == ["a", "b", "c"]
    assert [part.tolist() for part in parts] == [[1, 3], [0, 4], [2]]
    many = np.random.default_rng(0).choice(values, 1000)
    for part, name in zip(*by_column(many), strict=True):
        assert np.array_equal(part, np.flatnonzero(many == name))


@pytest.mark.parametrize("concentration", [0.1, 1.0, 1e6])
def test_dirichlet_covers_all_rows(concentration):
    parts = dirichlet(LABELS, 8, concentration)
    assert len(parts) == 8
    assert_partition(parts, len(LABELS))


def positive_shares(concentration: float) -> np.ndarray:
    return np.array([(LABELS[part] == 1).mean() for part in dirichlet(LABELS, 8, concentration)])


def test_large_concentration_mixes_labels_evenly_and_small_does_not():
    assert np.abs(positive_shares(1e6) - 0.25).max() < 0.01
    assert np.abs(positive_shares(0.1) - 0.25).max() > 0.3


def test_dirichlet_depends_on_its_seed_only():
    one, again, other = (dirichlet(LABELS, 4, 1.0, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: equal(5, 0), "at least one agent is needed; got agents=0"),
        (lambda: equal(5, 6), "6 agents share 5 rows"),
        (lambda: dirichlet(LABELS, -1, 1.0), "got agents=-1"),
        (lambda: dirichlet(LABELS[:3], 4, 1.0), "4 agents share 3 rows"),
        (lambda: dirichlet(LABELS, 4, 0.0), "concentration must be positive and finite; got 0.0"),
        (lambda: dirichlet(LABELS, 4, float("nan")), "got nan"),
        (lambda: dirichlet(LABELS, 4, 1e-300), "100 draws at concentration=1e-300 left one of 4 agents"),
    ],
)
def test_impossible_partitions_are_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize("sparse", [False, True])
def test_take_keeps_rows_labels_and_origin_together(sparse):
    data = dataset(sparse=sparse)
    taken = data.take([3, 0, 7])
    X = taken.X.toarray() if sparse else taken.X
    assert X.tolist() == [[6, 7], [0, 1], [14, 15]]
    assert taken.y.tolist() == [1, 1, -1]
    assert taken.kept.tolist() == [103, 100, 107]
    if sparse:
        assert isinstance(taken.X, csr_array)
        assert taken.X.indices.dtype == np.int32


def test_parts_are_the_taken_rows():
    data = dataset()
    rows = equal(len(data), 3)
    for (X, y), part in zip(data.parts(rows), rows, strict=True):
        assert np.array_equal(X, data.X[part])
        assert np.array_equal(y, data.y[part])


def test_split_parts_the_rows_at_random():
    data = dataset(1000)
    train, test = data.split(train=700, seed=3)
    assert (len(train), len(test)) == (700, 300)
    assert_partition([train.kept - 100, test.kept - 100], 1000)
    assert not np.array_equal(train.kept, data.kept[:700])
    assert not np.array_equal(train.kept, data.split(train=700, seed=4)[0].kept)


@pytest.mark.parametrize("train", [0, 20, 40_000])
def test_split_leaves_rows_on_both_sides(train):
    with pytest.raises(InputError, match=f"train={train} of 20 rows does not; choose train between 1 and 19"):
        dataset().split(train=train)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="X is 2 x 2, y has 1, kept 2, names 2"):
        Dataset(np.eye(2), np.ones(1), ("a", "b"), np.arange(2))
