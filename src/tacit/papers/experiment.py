"""What the papers' experiments share: Adult divided among agents, repeated runs, figures and claims.

A paper's figure is a function from a `Lab` to a `PaperFigure`: panels of curves with the mean and the range over the
runs, and claims. Each claim says what was measured and whether it holds. Nothing here is private: the noise is seeded.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import Part, Problem
from tacit.data import Dataset, adult, partition
from tacit.engines import Local, Workers
from tacit.engines.work import Tell
from tacit.files import replacing
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import Plan, plan
from tacit.simulation.simulate import simulate

DELTA = 1e-5  # of the tight totals that we print beside the papers' own

Found = TypeVar("Found")


@dataclass(frozen=True)
class Size:
    """How much work to do."""

    name: str
    runs: int  # of every experiment with noise
    rounds: int  # of the experiments with noise
    train: int = 40_000  # training rows in all

    @property
    def quick(self) -> bool:
        """Whether this is less than the papers did."""
        return self != FULL


FULL = Size("full", runs=10, rounds=100)
QUICK = Size("quick", runs=3, rounds=40)


class ProblemSpec(NamedTuple):
    """A problem of the papers: how many agents, and which constants."""

    agents: int = 5
    scale: float = 1750.0  # C
    l2: float = 0.0  # rho/N in paper 000, rho in paper 004
    split: int = 0  # the seed of training and test rows


@dataclass(frozen=True)
class Runs:
    """The same experiment, repeated with other noise."""

    loss: np.ndarray  # (runs, rounds+1) L(t): the average over agents of each one's loss on its own rows
    error: np.ndarray  # (runs, rounds+1) of the average model on the test rows
    path: np.ndarray  # (rounds+1, d) the average model of the first run


class Lab:
    """Runs the experiments: Adult with the papers' scaling, 5 or 20 agents on random graphs. It keeps all runs.

    The runs of one problem differ in their noise only (seeds 0, 1, ...): the split of the rows and the graph stay.
    `data_dir` is the folder of the data sets that are not shipped with tacit. `workers` is where runs happen: in this
    process by default. `tell` is called with what is being done, how much of it is done, and of how much.
    """

    def __init__(
        self,
        size: Size = FULL,
        tell: Tell | None = None,
        data_dir: Path | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.size, self.data_dir = size, data_dir
        self._tell, self._workers = tell or (lambda *told: None), workers
        self._split = lru_cache(2)(lambda seed: self._data.split(size.train, seed))
        self.problem = lru_cache(8)(self._problem)  # Fig. 2 of paper 000 has ninety
        self._done: dict[Any, Any] = {}

    @cached_property
    def _data(self) -> Dataset:
        return adult("paper")

    def tell(self, what: str) -> None:
        """Says what is being done."""
        self._tell(what, 0, 1)

    def map(self, what: str, function: Callable[[Any], Found], items: Iterable[Any]) -> list[Found]:
        """The results of a function that can be pickled, in the order of the items, from wherever runs happen."""
        with Local(1).open() if self._workers is None else nullcontext(self._workers) as workers:
            return workers.map(function, items, partial(self._tell, what))

    def once(self, key: Any, make: Callable[[], Found]) -> Found:
        """The result of `make`, which is called the first time only."""
        if key not in self._done:
            self._done[key] = make()
        found: Found = self._done[key]
        return found

    def parts(self, spec: ProblemSpec) -> list[Part]:
        """The rows of each agent."""
        train, _ = self._split(spec.split)
        return train.parts(partition.equal(len(train), spec.agents, spec.split))

    def test(self, split: int) -> Dataset:
        """The test rows."""
        return self._split(split)[1]

    def _problem(self, spec: ProblemSpec) -> Problem:
        return Problem(self.parts(spec), scale=spec.scale, l2=spec.l2)

    def graph(self, agents: int = 5) -> Graph:
        """A random connected graph: the papers do not say which. Five agents have the degrees 1, 3, 3, 2, 3."""
        return Graph.random(agents, edges=6 if agents == 5 else 2 * agents, seed=0)

    def runs(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int) -> Runs:
        """The experiment, repeated as often as the size says; once if there is no noise."""
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            key = (repr(algorithm), spec, rounds)
        return self.once(key, lambda: self._repeated(algorithm, spec, rounds))

    def _repeated(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int) -> Runs:
        repeats = self.size.runs if _noisy(algorithm) else 1
        one = partial(_run, algorithm, self.problem(spec), self.graph(spec.agents), rounds, self.test(spec.split))
        runs = self.map(f"runs of {type(algorithm).__name__}", one, range(repeats))
        return Runs(np.array([run.loss[0] for run in runs]), np.array([run.error[0] for run in runs]), runs[0].path)

    def plan(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int) -> Plan:
        """What that experiment costs."""
        return plan(algorithm, self.problem(spec), self.graph(spec.agents), rounds)

    def spending(self, algorithm: Any, spec: ProblemSpec, rounds: int) -> np.ndarray:
        """P(t), (rounds+1,): the paper's own bound on the largest total of an agent after t rounds."""
        problem, view = self.problem(spec), self.graph(spec.agents).view()
        steps = np.array([algorithm.paper_bound(problem, view, t)[:, 0] for t in range(rounds)])
        return np.concatenate([[0.0], np.cumsum(steps, axis=0).max(axis=1)])


def _noisy(algorithm: Any) -> bool:
    return getattr(algorithm, "alpha", None) is not None or getattr(algorithm, "budget", None) is not None


def _run(algorithm: Algorithm, problem: Problem, graph: Graph, rounds: int, test: Dataset, seed: int) -> Runs:
    run = simulate(algorithm, problem, graph, rounds=rounds, noise=SeededNoise(seed), record=True)
    assert run.trajectory is not None
    assert test.y is not None
    path = run.trajectory.mean(axis=1)
    wrong = (test.X @ path.T > 0) != (test.y > 0)[:, None]
    return Runs(run.history["loss"][None], wrong.mean(axis=0)[None], path)


@dataclass(frozen=True)
class Series:
    """A curve: the mean and the range over runs."""

    label: str
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: int
    style: str = "-"
    method: str = ""  # whose colour it has (`tacit.report.plots.COLOURS`), where the label does not name it

    @classmethod
    def of(cls, label: str, x: Any, values: Any, style: str = "-", method: str = "") -> Series:
        """From values of shape (runs, points), or (points,) of one run.

        >>> s = Series.of("loss", [0, 1], [[1.0, 2.0], [3.0, 2.0]])
        >>> s.mean.tolist(), s.low.tolist(), s.high.tolist(), s.runs
        ([2.0, 2.0], [1.0, 2.0], [3.0, 2.0], 2)
        """
        y = np.atleast_2d(np.asarray(values, dtype=float))
        x = np.asarray(x, dtype=float)
        return cls(label, x, y.mean(axis=0), y.min(axis=0), y.max(axis=0), len(y), style, method)

    @classmethod
    def over_rounds(cls, label: str, values: np.ndarray, style: str = "-", method: str = "") -> Series:
        """From (runs, rounds+1) or (rounds+1,), without the start, which is the same for all."""
        values = np.atleast_2d(values)
        return cls.of(label, np.arange(1, values.shape[1]), values[:, 1:], style, method)


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    letter: str = ""  # of this panel in the paper, such as "a"; none for a panel that is not in the paper

    @property
    def heading(self) -> str:
        """The title, with the paper's letter before it.

        >>> Panel("α = 1", "t", "loss", (), letter="b").heading, Panel("α = 1", "t", "loss", ()).heading
        ('(b) α = 1', 'α = 1')
        """
        return f"({self.letter}) {self.title}".rstrip() if self.letter else self.title


@dataclass(frozen=True)
class Claim:
    """What a paper or tacit says, what was measured, and whether that confirms it."""

    where: str
    whose: str  # "paper", or "tacit" for a claim in the docs or errata of this project
    text: str
    measured: str
    holds: bool | None  # None: what was measured cannot tell

    @property
    def verdict(self) -> str:
        """In words."""
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, reproduced."""

    title: str
    panels: Sequence[Panel]
    claims: Sequence[Claim] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)  # what was left out, what is unsafe


Figures = dict[str, Callable[[Lab], PaperFigure]]

_COLUMNS = ["panel", "series", "x_name", "x", "y_name", "mean", "min", "max", "runs"]


def write_csv(figure: PaperFigure, path: str | os.PathLike[str]) -> None:
    """All curves, one line for each point."""
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(_COLUMNS)
        for panel in figure.panels:
            for s in panel.series:
                for x, *values in zip(s.x, s.mean, s.low, s.high, strict=True):
                    numbers = [f"{value:.6g}" for value in values]
                    out.writerow(
                        [panel.heading.replace("\n", " "), s.label, panel.x, f"{x:.6g}", panel.y, *numbers, s.runs]
                    )


def claims_page(claims: Sequence[Claim], title: str, command: str, notes: Sequence[str] = ()) -> str:
    """The claims as a Markdown page, with the command that checks them and the notes."""
    lines = [f"# {title}", "", f"Made by `{command}`.", ""]
    lines += [*(f"- {note}" for note in notes), ""] if notes else []
    lines += ["| where | whose claim | what is claimed | what was measured | |", "| --- | --- | --- | --- | --- |"]
    for c in claims:
        verdict = c.verdict if c.holds else f"**{c.verdict}**"
        lines.append(
            "| "
            + " | ".join(cell.replace("|", "\\|") for cell in (c.where, c.whose, c.text, c.measured, verdict))
            + " |"
        )
    return "\n".join(lines) + "\n"


def listed(values: Sequence[float] | np.ndarray, form: str = ".3g") -> str:
    """Numbers, for a sentence.

    >>> listed([0.5, 0.25])
    '0.5, 0.25'
    """
    return ", ".join(f"{value:{form}}" for value in np.asarray(values, dtype=float))


def less(first: np.ndarray, second: np.ndarray) -> bool | None:
    """Whether the first is smaller in the mean over runs with the same seeds; None within two standard errors.

    >>> less(np.array([1.0, 1.1]), np.array([2.0, 2.2])), less(np.array([1.0, 2.0]), np.array([2.0, 1.1]))
    (True, None)
    """
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.inf
    return None if abs(difference.mean()) <= 2 * error else bool(difference.mean() < 0)


def falling(values: Sequence[float] | np.ndarray) -> bool:
    """Whether every value is below the one before.

    >>> falling([3, 2, 1]), falling([1, 1])
    (True, False)
    """
    return bool(np.all(np.diff(np.asarray(values, dtype=float)) < 0))
