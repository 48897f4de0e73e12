"""Small problems that several tests share."""

from __future__ import annotations

import csv
import gc
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # many processes import the same modules: each is compiled once
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy comes: threads of BLAS fight over the small cases of tests
os.environ.setdefault("TACIT_JOBS", "1")  # commands run in the process of their test, unless it says otherwise
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else Ctrl-C would end no process of a test
import numpy as np
import pytest
import scipy.sparse

import tacit
from tacit import cli
from tacit.run.recipes import RECIPES

gc.set_threshold(50_000)  # thousands of tests and modules are there for good: look through them less often


def pytest_sessionstart(session):
    """Compiles the kernels once, before several workers would each do so."""
    if getattr(session.config.option, "numprocesses", None) and not hasattr(session.config, "workerinput"):
        script = Path(__file__).parent / "compile_kernels.py"
        for each in [subprocess.Popen([sys.executable, script, kind]) for kind in ("dense", "csr")]:
            assert each.wait() == 0


# Tests that take long, or wait for agents: the longest first.
SLOW = (
    "test_demo",
    "test_every_figure",
    "test_store.py",
    "test_the_demonstration",
    "test_compare",
    "test_absence.py",
    "test_audit.py",
    "tests/agent/",
    "test_the_deployment",
    "test_a_comparison",
    "test_the_audit",
    "test_agents",
    "test_the_page_of_a_federation",
    "test_types.py",
)


def pytest_itemcollected(item):
    """Before -m selects."""
    if "cluster" in getattr(item, "fixturenames", ()):
        item.add_marker("cluster")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Several workers start with the slow tests, each with its share: none of them is left for the end."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    rank = {item: next((k for k, name in enumerate(SLOW) if name in item.nodeid), len(SLOW)) for item in items}
    slow = sorted((item for item in items if rank[item] < len(SLOW)), key=rank.__getitem__)
    rest = [item for item in items if rank[item] == len(SLOW)]
    share = -(-len(rest) // workers)  # of neighbours: they have fixtures in common
    items[:] = [item for w in range(workers) for item in (*slow[w::workers], *rest[w * share : (w + 1) * share])]


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


COLUMNS = ["age", "ward", "hospital", "died"]


@pytest.fixture(name="tacit")
def tacit_command(monkeypatch, capsys, tmp_path):
    """Runs `tacit ARGS` in an empty folder; gives (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, args)])
        signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with pytest.raises(SystemExit) as stop:
                cli.main()
        finally:
            for number, handler in signals.items():  # this process does not end with the command
                signal.signal(number, handler)
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def short_recipes(monkeypatch):
    """Private methods with an eighth of their noisy steps, for what does not depend on how well they learn: it takes
    long to calibrate and run all of them."""
    for name, recipe in list(RECIPES.items()):
        monkeypatch.setitem(RECIPES, name, replace(recipe, solves=max(1, recipe.solves // 8)))


@pytest.fixture
def patients(tmp_path):
    """120 made-up patients of three hospitals of different size."""
    rng = np.random.default_rng(0)
    lines = [COLUMNS]
    for _ in range(120):
        age, ward = rng.integers(20, 90), rng.choice(["surgery", "medicine"])
        hospital = rng.choice(["alder", "birch", "cedar"], p=[0.6, 0.3, 0.1])
        died = "yes" if age + 20 * (ward == "surgery") + 15 * rng.normal() > 70 else "no"
        lines.append([age, ward, hospital, died])
    with (tmp_path / "patients.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return "patients.csv"
