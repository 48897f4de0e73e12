"""Processes on this machine: the results of one process, in order, and a clean end of every kind."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import engine_tasks as tasks
import pytest

from tacit.engines import Local
from tacit.errors import Dropout, EngineError, InputError, NotConnected, NotConverged


@pytest.fixture(scope="module")
def two():
    with Local(jobs=2).open() as workers:
        yield workers


def test_results_are_in_the_order_of_the_items(two):
    done = []
    assert two.map(tasks.slowest_first, range(6), lambda k, of: done.append((k, of))) == list(range(6))
    assert done == [(k, 6) for k in range(7)]


def test_results_are_those_of_one_process_to_the_last_bit(two):
    """A matrix product whose last bits depend on the number of threads, if BLAS has several."""
    here = [value for value, _ in Local(jobs=1).map(tasks.Sum(tasks.ROWS), range(20))]
    assert [value for value, _ in two.map(tasks.Sum(tasks.ROWS), range(20))] == here


def test_the_function_travels_once_to_each_process(two):
    loads = {count for _, count in two.map(tasks.Sum(tasks.ROWS), range(20))}
    assert len(loads) <= 2  # a number for each process


def test_cores_are_divided_among_the_processes(two):
    cores = len(os.sched_getaffinity(0))
    assert two.map(tasks.threads, range(4)) == [(str(max(1, cores // 2)), {1})] * 4


def test_one_job_is_this_process(monkeypatch):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert Local(jobs=1).map(lambda k: os.getpid(), [0]) == [os.getpid()]
    assert Local(jobs=1).map(tasks.threads, [0]) == [(None, {1})]  # all threads of the solver, as ever


def test_an_error_comes_back_as_it_was_and_ends_the_rest():
    with pytest.raises(NotConverged, match="agent 3 stopped") as caught:
        Local(jobs=2).map(tasks.refuse, range(4))  # the others would take an hour each
    assert caught.value.reached == 0.5


@pytest.mark.parametrize("error", [NotConnected([[0], [1, 2]]), Dropout([3], "agent 3 is away"), EngineError("x")])
def test_errors_survive_the_way(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_worker_that_is_killed_is_told_in_one_line():
    with pytest.raises(EngineError, match=r"a worker process was killed, perhaps because memory ran out: .*--jobs 1"):
        Local(jobs=2).map(tasks.killed, range(3))


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True])
def test_jobs_are_a_whole_number(jobs):
    with pytest.raises(InputError, match="jobs must be a whole number, 1 or more"):
        Local(jobs=jobs)


PATIENCE = 300  # seconds, for a machine that is very busy; the workers would take an hour
PARENT = """
import sys
from pathlib import Path
import engine_tasks
from tacit.engines import Local
if __name__ == "__main__":
    try:
        Local(jobs=2).map(engine_tasks.sleep, [Path(sys.argv[1])] * 3)
    except KeyboardInterrupt:
        sys.exit("stopped")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(how, tmp_path):
    """Ctrl-C ends everything at once, without a traceback of any worker; so does any other end of the parent."""
    script, folder = tmp_path / "parent.py", tmp_path / "pids"
    script.write_text(PARENT)
    folder.mkdir()
    path = os.pathsep.join(sys.path)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit = time.monotonic() + PATIENCE
    while len(pids := [int(file.name) for file in folder.iterdir()]) < 2:
        assert time.monotonic() < limit
        time.sleep(0.02)
    if how is signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal does
    else:
        parent.send_signal(how)
    _, said = parent.communicate(timeout=PATIENCE)
    if how is signal.SIGINT:
        assert said == "stopped\n"
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < limit
        time.sleep(0.02)
