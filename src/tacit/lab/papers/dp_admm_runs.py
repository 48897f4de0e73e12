"""Paper 001's experiments: the data sets with their fused lassos, and runs on them (`tacit.lab.papers.dp_admm`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import Composite, clipped, graph_from_public_sample, graph_guided
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.data import Dataset, a9a, load
from tacit.lab.papers.experiment import Lab
from tacit.lab.theory.dp_admm import Optimum
from tacit.privacy.accounting import delta_warning, gaussian_steps
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.simulation.simulate import simulate

STRENGTH, RHO, THRESHOLD = 1e-5, 1.0, 0.5  # lambda and rho of the paper; the correlation above which W has an edge
PRINTED, SAFE = 1e-3, 1e-5  # delta
GRID = (0.01, 0.02, 0.03, 0.05, 0.07, 0.08, 0.1)  # epsilon
ENDS = (0.01, 0.1)  # of it, for which Fig. 1 needs whole paths
EPSILON, OBJECTIVE = "ε of the whole run", "objective"
ROWS = {  # the largest norm of a row
    "a9a": math.sqrt(14),  # one 1 for each of 14 attributes at most
    "a8a": math.sqrt(14),
    "ijcnn1": 2.0,
    "bio_train": 2.0,
}
LEAST = 3000  # rounds of the run that finds the least value
PLAIN, FAST = "ADMM", "AccADMM"
METHODS: dict[str, Callable[..., DPADMM]] = {PLAIN: DPADMM, FAST: partial(AcceleratedDPADMM, restart=False)}
ALONE = Graph.ring(1)


class FusedLasso(NamedTuple):
    """A data set with its fused lasso."""

    composite: Composite
    row_norm: float
    test: Dataset

    def method(self, name: str, budget: Gaussian | None = None, length: float = 1.0) -> DPADMM:
        """The method of that name, with noise if a budget is given; its step is `length` times the default."""
        method = METHODS[name](term=self.composite.term, penalty=RHO, row_norm=self.row_norm, budget=budget)
        if length == 1:
            return method
        return replace(method, step=length * float(method.step_size(self.composite.problem)[0, 0]))

    @property
    def rows(self) -> int:
        """The number of training rows, n."""
        return int(self.composite.problem.sizes[0])

    @property
    def smoothness(self) -> float:
        """The bound L_f on the curvature of the smooth part."""
        return self.composite.problem.loss.max_curvature * self.row_norm**2


class CompositeRuns(NamedTuple):
    """One experiment, repeated with other noise."""

    objective: np.ndarray  # (runs,) at the end
    accuracy: np.ndarray  # (runs,) on the test rows
    path: np.ndarray  # (runs, rounds+1) the objective after each round, for Fig. 1
    constant: np.ndarray  # (runs,) whether the classifier puts all test rows into one class


def table(found: Sequence[CompositeRuns], what: str = "objective") -> np.ndarray:
    """(seeds, settings) what each run has in the end."""
    return np.stack([getattr(each, what) for each in found], axis=1)


def names(lab: Lab) -> list[str]:
    """The data sets at hand. Refuses a folder that lacks one of them before any work is done."""
    at_hand = ["a9a"] if lab.data_dir is None else list(ROWS)
    for name in reversed(at_hand):
        fused_lasso(lab, name)
    return at_hand


def runs(
    lab: Lab, name: str, method: str, rounds: int, eps: float | None = None, delta: float = PRINTED
) -> CompositeRuns:
    """The method on a data set, repeated as often as the size says; once and without noise if `eps` is None.

    lab, name, method : the lab, and the names of the data set and of the method
    rounds : T
    eps, delta : the budget of the whole run
    """
    lasso = fused_lasso(lab, name)
    path = rounds == lab.size.rounds and eps in (None, *ENDS) and delta == PRINTED  # Fig. 1 needs it
    budget = None if eps is None else step_budget(lab, rounds, eps, delta)
    what = f"{name}, {'' if eps is None else 'DP-'}{method}" + ("" if eps is None else f", ε = {eps:g}, δ = {delta:g}")
    return lab.once((name, method, rounds, budget), lambda: repeated(lab, lasso, method, rounds, budget, path, what))


def repeated(
    lab: Lab,
    lasso: FusedLasso,
    method: str,
    rounds: int,
    budget: Gaussian | None,
    path: bool,
    what: str,
    length: float = 1.0,
    few: int | None = None,
) -> CompositeRuns:
    repeats, algorithm = 1 if budget is None else few or lab.size.runs, lasso.method(method, budget, length)
    one = partial(_repetition, lasso, algorithm, rounds, 1 if path else rounds)
    values, accuracy, constant = zip(*lab.map(f"runs of {what}", one, range(repeats)), strict=True)
    return CompositeRuns(np.array([v[-1] for v in values]), np.array(accuracy), np.array(values), np.array(constant))


def _repetition(
    lasso: FusedLasso, algorithm: DPADMM, rounds: int, every: int, seed: int
) -> tuple[np.ndarray, float, bool]:
    """The objective on the way, the accuracy in the end, and whether all test rows get the same answer."""
    noise, problem = SeededNoise(seed), lasso.composite.problem
    run = simulate(algorithm, problem, ALONE, rounds=rounds, noise=noise, record=True, measure_every=every)
    assert lasso.test.y is not None
    assert run.trajectory is not None
    values = run.history["loss"] + lasso.composite.term.value(run.trajectory[:, 0])  # l2 = 0, scale = 1
    positive = np.asarray(lasso.test.X @ run.model > 0)
    accuracy = float(np.mean(positive == (lasso.test.y > 0)))
    return values, accuracy, bool(positive.all() or not positive.any())


def step_budget(lab: Lab, rounds: int, eps: float, delta: float) -> Gaussian:
    """The noise of one of so many steps."""
    return lab.once(("budget", rounds, eps, delta), lambda: gaussian_steps(rounds, eps, delta))


def fused_lasso(lab: Lab, name: str, row_norm: float | None = None) -> FusedLasso:
    """The data set of that name; with a `row_norm`, every row has that norm."""
    return lab.once(("fused lasso", name, row_norm), lambda: _made(lab, name, row_norm))


def _made(lab: Lab, name: str, row_norm: float | None) -> FusedLasso:
    train, test = _data(lab, name)
    if lab.size.quick:
        train = train.take(np.arange(min(len(train), lab.size.train)))
    term = graph_guided(graph_from_public_sample(test.X, THRESHOLD), STRENGTH)
    bound = ROWS[name] if row_norm is None else row_norm
    rows = clipped(train.X, bound) if row_norm is None else clipped(1e6 * train.X, bound)
    return FusedLasso(Composite(Problem([(rows, train.y)]), term), bound, test)


def _data(lab: Lab, name: str) -> tuple[Dataset, Dataset]:
    """Training and test rows; bio_train is split at random, its columns divided by their largest test value."""
    if name == "a9a":
        return a9a()
    train, test = load(name, lab.data_dir)
    if test is not None:
        return train, test
    train, test = train.split((len(train) + 1) // 2)  # Table I
    scale = 1 / np.abs(test.X).max(axis=0)
    return _scaled(train, scale), _scaled(test, scale)


def _scaled(data: Dataset, scale: np.ndarray) -> Dataset:
    return Dataset(data.X * scale, data.y, data.names, data.kept)


def least_value(lab: Lab, name: str) -> tuple[float, Optimum]:
    """The least value that a long run without noise finds, with restart and long steps; and where."""

    def find() -> tuple[float, Optimum]:
        lab.tell(f"{name}, the least value")
        lasso, rounds = fused_lasso(lab, name), LEAST if not lab.size.quick else 10 * lab.size.rounds
        far = AcceleratedDPADMM(term=lasso.composite.term, penalty=RHO / 100, row_norm=lasso.row_norm)
        run = simulate(far, lasso.composite.problem, ALONE, rounds=rounds, measure_every=rounds)
        w = far.penalty * run.state.u[0]
        return lasso.composite.value(run.model), Optimum(run.model, lasso.composite.term.A @ run.model, w)

    return lab.once(("least", name), find)


def epsilons(lab: Lab) -> tuple[float, ...]:
    """The budgets of the whole run."""
    return ENDS if lab.size.quick else GRID


def delta_note(lab: Lab, name: str) -> list[str]:
    """That the printed delta is too large for this data set, if it is."""
    text = delta_warning(PRINTED, fused_lasso(lab, name).rows)
    return [] if text is None else [f"{name}: {text}"]
