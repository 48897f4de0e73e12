"""Methods at several budgets: the rows are those of comparisons, one by one."""

import sys

import numpy as np
import pytest

from tacit.core.graph import Graph
from tacit.data import Classes, Dataset, Number, Schema, partition
from tacit.errors import InputError
from tacit.lab.comparison.on_records import on_records
from tacit.lab.comparison.sweep import sweep
from tacit.lab.comparison.trials import trial
from tacit.run.budget import Budget

RING = Graph.ring(3)
SCHEMA = Schema(
    label=Classes("y", positive=("yes",), negative=("no",)),
    columns=tuple(Number(name, bounds=(-1.0, 1.0)) for name in ("a", "b", "c")),
    row_norm=1.0,
)


def records(rows=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, SCHEMA.model_dimension)) / 2
    y = np.where(X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=rows) > 0, 1.0, -1.0)
    return Dataset(X, y, SCHEMA.feature_names, np.arange(rows))


@pytest.fixture(scope="module")
def found():
    said = []
    names = ["dvp", "central", "majority"]
    result = sweep(
        names, [0.05, 50.0], [3, 4], data=records(), schema=SCHEMA, graph=RING, tell=lambda *told: said.append(told)
    )
    assert ("settings", 4, 4) in said  # two methods at two budgets
    assert said[-1] == ("runs", 8, 8)  # each with two seeds
    return result


def test_rows_are_those_of_comparisons(found):
    assert len(found.rows) + 2 * len(found.left_out) == 3 * 2 * 2
    trials = [trial(records(), SCHEMA, lambda train, seed: partition.equal(len(train), 3, seed), s) for s in (3, 4)]
    for result in on_records(trials, RING, budget=Budget(50.0, 1e-5), only=["dvp", "majority"]):
        mine = [row for row in found.rows if row["method"] == result.name and row["epsilon"] == 50.0]
        assert [row["seed"] for row in mine] == [3, 4]
        assert [row["error"] for row in mine] == result.errors
        assert [row["loss"] for row in mine] == result.losses
        assert {row["spent"] for row in mine} == {result.epsilon}
        assert [row["auc"] for row in mine] == [models[0].auc for models in result.measured]
    private = [row for row in found.rows if row["method"] != "majority"]
    assert all(0.99 * row["epsilon"] < row["spent"] <= row["epsilon"] for row in private)


def test_a_larger_budget_has_a_smaller_error(found):
    def error(epsilon):
        return np.mean([r["error"] for r in found.rows if r["method"] == "central" and r["epsilon"] == epsilon])

    assert error(50.0) < 0.1 < error(0.05)


def test_a_frame_has_a_line_for_each_row(found, monkeypatch):
    frame = found.to_frame()
    assert len(frame) == len(found.rows)
    assert list(frame.columns) == list(found.rows[0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(found.to_frame()).__module__.startswith("polars")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="needs pandas or polars"):
        found.to_frame()


def test_it_can_be_drawn(found, tmp_path):
    charts = pytest.importorskip("tacit.lab.charts")
    charts.sweep(found, tmp_path / "sweep.png", "three methods")
    assert (tmp_path / "sweep.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"names": ["best"]}, "there is no method 'best' to sweep; there are dp-admm, "),
        ({"names": []}, "at least one method"),
        ({"seeds": []}, "one seed"),
        ({"seeds": [-1]}, "a seed"),
        ({"budgets": [0.0]}, "epsilon must be a positive number"),
        ({"delta": 0.5}, "delta = 0.5 is not below"),
    ],
)
def test_sweeps_that_are_none(change, match):
    how = {"names": ["dvp"], "budgets": [1.0], "seeds": [0], "delta": 1e-5} | change
    with pytest.raises(InputError, match=match):
        sweep(**how, data=records(40), schema=SCHEMA, graph=RING)


def test_a_method_that_cannot_run_is_named():
    """A path has no cycle for a token."""
    found = sweep(["pi-admm", "majority"], [1.0], [0], data=records(40), schema=SCHEMA, graph=Graph.path(3))
    assert found.left_out == [("pi-admm", 1.0)]
    assert {row["method"] for row in found.rows} == {"majority"}
