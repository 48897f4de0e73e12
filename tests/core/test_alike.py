"""Sequences that keep equal items once: they read like the sequences that they stand for."""

import numpy as np

from tacit.core.alike import Alike, distinct, numbered


def test_it_reads_like_a_list():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 4, 50).astype(float)
    plain = [str(x) for x in numbers]
    kept = Alike.by(str, numbers)
    assert kept == plain
    assert plain == kept
    assert list(kept) == plain
    assert [kept[k] for k in range(-50, 50)] == plain + plain
    assert kept[3:40:7] == plain[3:40:7]
    assert kept[:0] == []
    assert sorted(kept.items) == sorted(set(plain))
    assert kept.items == list(dict.fromkeys(plain))  # in the order of their first appearance
    assert kept == Alike.gather(plain, hash)
    assert kept != plain[:-1]
    assert kept != Alike.gather([*plain[:-1], "another"], hash)
    assert kept != "text"
    assert kept.map(float) == numbers.tolist()
    assert set(distinct(kept)) == set(distinct(plain)) == set(plain)
    assert repr(kept) == repr(tuple(plain))
    assert repr(Alike.same(1, 1000)) == "(1, 1, 1, ... 1000 in all)"
    assert len(Alike.same(1, 0)) == 0


def test_what_is_equal_is_made_once():
    made = []
    kept = Alike.by(lambda x, y: made.append((x, y)), np.array([1.0, 1.0, 2.0, 1.0]), np.array([5.0, 6.0, 5.0, 5.0]))
    assert made == [(1.0, 5.0), (1.0, 6.0), (2.0, 5.0)]
    assert all(type(x) is float for pair in made for x in pair)
    assert kept.which.tolist() == [0, 1, 2, 0]


def test_numbers_of_rows_are_those_of_a_dictionary():
    rng = np.random.default_rng(1)
    for _ in range(20):
        columns = [rng.integers(0, 3, 30) for _ in range(3)]
        rows = list(zip(*(c.tolist() for c in columns), strict=True))
        order = list(dict.fromkeys(rows))
        which, first = numbered(*columns)
        assert which.tolist() == [order.index(row) for row in rows]
        assert [rows[k] for k in first] == order
    assert [found.tolist() for found in numbered(np.empty(0))] == [[], []]
