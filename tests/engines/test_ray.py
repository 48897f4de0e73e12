"""Tasks on a real Ray cluster, which has one node here: what the processes of `Local` give, by other means."""

import os
import sys

import engine_tasks as tasks
import numpy as np
import pytest

from tacit.algorithms import DualPerturbedADMM
from tacit.core.graph import Graph
from tacit.data import Classes, Dataset, Number, Schema, partition
from tacit.engines import Local, Ray
from tacit.errors import EngineError, InputError, NotConverged
from tacit.lab.audit.named import audit_named
from tacit.lab.comparison.on_records import on_records
from tacit.lab.comparison.trials import trial
from tacit.lab.papers.experiment import Lab, ProblemSpec, Size
from tacit.run.budget import Budget


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # its workers import `engine_tasks`
        with Ray(jobs=2).open() as workers:
            yield workers


@pytest.fixture(scope="module")
def two():
    with Local(jobs=2).open() as workers:
        yield workers


def test_results_are_in_the_order_of_the_items(cluster):
    done = []
    assert cluster.jobs == 2
    assert cluster.map(tasks.slowest_first, range(6), lambda k, of: done.append((k, of))) == list(range(6))
    assert done == [(k, 6) for k in range(7)]


def test_results_are_those_of_one_process_to_the_last_bit(cluster):
    here = [value for value, _ in Local(jobs=1).map(tasks.Sum(tasks.ROWS), range(20))]
    found = cluster.map(tasks.Sum(tasks.ROWS), range(20))
    assert [value for value, _ in found] == here
    assert len({count for _, count in found}) <= 2  # the function was unpickled once in each process


def test_every_task_has_one_core(cluster):
    assert cluster.map(tasks.threads, range(4)) == [("1", {1})] * 4


def test_an_error_comes_back_as_it_was_and_ends_the_rest(cluster):
    with pytest.raises(NotConverged, match=r"^agent 3 stopped at a gradient norm of 0\.5$") as caught:
        cluster.map(tasks.refuse, range(2))  # the other would take an hour
    assert caught.value.reached == 0.5


def test_a_second_engine_works_in_the_same_cluster(cluster):
    assert Ray().map(tasks.square, [3]) == [9]
    assert cluster.map(tasks.square, [4]) == [16]


def test_a_machine_with_another_version_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("tacit.engines.ray.__version__", "9.9")
    with pytest.raises(
        EngineError, match=r"a machine of the cluster has tacit \S+, this one has 9.9: install the same"
    ):
        cluster.map(tasks.square, [3])


def test_what_is_not_there_is_told_in_one_line(monkeypatch):
    with pytest.raises(InputError, match="leave out jobs, or address"):
        Ray(jobs=2, address="auto")
    with pytest.raises(InputError, match="shards must be a whole number, 1 or more, not 0"):
        Ray(shards=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^this needs Ray: pip install 'tacit-learn\[ray\]'$"):
        Ray().map(tasks.square, [3])


def test_an_address_where_nobody_answers_is_refused(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # whether or not the cluster of the other tests runs
    with pytest.raises(EngineError, match=r"^no Ray cluster at 127.0.0.1:1: .*refused"):
        Ray(address="127.0.0.1:1").map(tasks.square, [3])


def compared(workers):
    """Lines with and without noise, shared noise and one record holder, on dense rows, whose sums are those of BLAS."""
    schema = Schema(
        label=Classes("y", positive=("yes",), negative=("no",)),
        columns=tuple(Number(name, bounds=(-1.0, 1.0)) for name in "abcdefgh"),
        row_norm=1.0,
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, schema.model_dimension)) / 3
    data = Dataset(X, np.where(X @ rng.normal(size=X.shape[1]) > 0, 1.0, -1.0), schema.feature_names, np.arange(900))
    trials = [trial(data, schema, lambda train, seed: partition.equal(len(train), 3, seed), k) for k in range(2)]
    names = ["one-shot", "alone", "central", "no-privacy", "majority", "pi-admm"]
    return on_records(trials, Graph.path(3), budget=Budget(1.0, 1e-5), only=names, workers=workers)


def audited(workers):
    found = audit_named("pvp", 4.0, rounds=1, samples=1000, workers=workers)
    return found, [each.tolist() for each in found.scores]


def repeated(workers):
    lab = Lab(Size("tiny", runs=2, rounds=2, train=400), workers=workers)
    runs = lab.runs(DualPerturbedADMM(penalty=1.0, alpha=1.0), ProblemSpec(), 2)
    return [each.tolist() for each in (runs.loss, runs.error, runs.path)]


@pytest.mark.parametrize("work", [compared, audited, repeated])
def test_results_do_not_depend_on_the_engine_or_the_number_of_jobs(work, cluster, two):
    here = work(None)
    assert work(two) == here
    assert work(cluster) == here


def test_a_comparison_leaves_out_what_cannot_run_wherever_it_runs(cluster):
    """A token finds no cycle on a path: no worker's error ends the comparison."""
    names = [result.name for result in compared(cluster)]
    assert names == ["one-shot", "alone", "central", "no-privacy", "majority"]
