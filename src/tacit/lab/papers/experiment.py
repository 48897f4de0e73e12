"""What the papers' experiments share: Adult divided among agents, repeated runs, figures and claims.

A paper's figure is a function from a `Lab` to a `PaperFigure`: panels of curves with the mean and the range over the
runs, and claims. Each claim says what was measured, and whether it is so with each seed: that alone decides its
verdict. Nothing here is private: the noise is seeded.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
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
MOST = 6  # curves on one axis

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
        """The test rows of this division."""
        return self._split(split)[1]

    def _problem(self, spec: ProblemSpec) -> Problem:
        return Problem(self.parts(spec), scale=spec.scale, l2=spec.l2)

    def graph(self, agents: int = 5) -> Graph:
        """A random connected graph: the papers do not say which. Five agents have the degrees 1, 3, 3, 2, 3."""
        return Graph.random(agents, edges=6 if agents == 5 else 2 * agents, seed=0)

    def runs(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int, repeats: int | None = None) -> Runs:
        """The experiment, repeated as often as the size or `repeats` says; once if there is no noise."""
        repeats = (repeats or self.size.runs) if _noisy(algorithm) else 1
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            key = (repr(algorithm), spec, rounds, repeats)
        return self.once(key, lambda: self._repeated(algorithm, spec, rounds, repeats))

    def _repeated(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int, repeats: int) -> Runs:
        one = partial(_run, algorithm, self.problem(spec), self.graph(spec.agents), rounds, self.test(spec.split))
        runs = self.map(f"runs of {type(algorithm).__name__}", one, range(repeats))
        return Runs(np.array([run.loss[0] for run in runs]), np.array([run.error[0] for run in runs]), runs[0].path)

    def plan(self, algorithm: Algorithm, spec: ProblemSpec, rounds: int) -> Plan:
        """What this experiment costs, by its plan."""
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
    method: str = ""  # whose colour it has (`tacit.lab.papers.drawing.COLOURS`), where the label does not name it

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
    def over_rounds(
        cls, label: str, values: Sequence[np.ndarray] | np.ndarray, style: str = "-", method: str = ""
    ) -> Series:
        """From (runs, rounds+1) or (rounds+1,), without the start, which is the same for all."""
        each = np.atleast_2d(np.asarray(values))
        return cls.of(label, np.arange(1, each.shape[1]), each[:, 1:], style, method)


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its curves."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    letter: str = ""  # of this panel in the paper, such as "a"; none for a panel that is not in the paper

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise ValueError(f"the panel {self.letter!r} of {self.y} has no title")
        if len(self.series) > MOST:
            raise ValueError(f"{self.title}: {len(self.series)} curves on one axis, where {MOST} can be told apart")

    @property
    def heading(self) -> str:
        """The title, with the paper's letter before it.

        >>> Panel("α = 1", "t", "loss", (), letter="b").heading, Panel("α = 1", "t", "loss", ()).heading
        ('(b) α = 1', 'α = 1')
        """
        return f"({self.letter}) {self.title}".rstrip() if self.letter else self.title


Verdicts = Sequence[bool | None] | np.ndarray  # of each seed; None: that seed cannot tell
Outcome = bool | None | Verdicts | Mapping[str, Verdicts]  # by a choice that the paper leaves open, such as "T = 50"


@dataclass(frozen=True)
class Claim:
    """What a paper or tacit says, what was measured, and whether that confirms it.

    `outcome` is whether it is so: one answer where there is no chance in what was measured; else one for each seed; or
    those for each choice that the paper leaves open. It decides the verdict: "holds" if it is so in every seed under
    every choice, "does not hold" if it is so in none; else, and where a seed cannot tell, "undecided".

    >>> Claim("Fig. 1", "paper", "a < b", "a 1, 3; b 2, 2", [True, False]).verdict
    'undecided'
    """

    where: str
    whose: str  # "paper", or "tacit" for a claim in the docs or errata of this project
    text: str
    measured: str
    outcome: Outcome

    @property
    def holds(self) -> bool | None:
        """None: what was measured cannot tell."""
        found = [answer for answers in self._by_choice().values() for answer in answers]
        return found[0] if len(set(found)) == 1 else None

    @property
    def verdict(self) -> str:
        """Whether the claim holds, in words."""
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"

    @property
    def agree(self) -> str:
        """How many of the seeds agree, under which choices; nothing where no chance is in it.

        >>> Claim("", "", "", "", {"T = 9": [True, True], "T = 99": [None, False]}).agree
        'T = 9: 2 of 2; T = 99: 0 of 2, 1 cannot tell'
        >>> Claim("", "", "", "", True).agree
        ''
        """
        if self.outcome is None or isinstance(self.outcome, bool | np.bool_):
            return ""
        return "; ".join(f"{choice}: {_share(a)}" if choice else _share(a) for choice, a in self._by_choice().items())

    def _by_choice(self) -> dict[str, list[bool | None]]:
        one = self.outcome is None or isinstance(self.outcome, bool | np.bool_)
        given = self.outcome if isinstance(self.outcome, Mapping) else {"": [self.outcome] if one else self.outcome}
        return {choice: [self._answer(a) for a in answers] for choice, answers in given.items()}  # type: ignore[union-attr]

    def _answer(self, answer: object) -> bool | None:
        """A number is no answer: `bool` would take NaN for a yes."""
        if answer is not None and not isinstance(answer, bool | np.bool_):
            raise TypeError(f"{self.where}: a seed answers True, False or None, not {answer!r}")
        return None if answer is None else bool(answer)


def _share(answers: Sequence[bool | None]) -> str:
    unknown = answers.count(None)
    return f"{answers.count(True)} of {len(answers)}" + (f", {unknown} cannot tell" if unknown else "")


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, reproduced."""

    title: str
    panels: Sequence[Panel]
    claims: Sequence[Claim] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)  # what was left out, what is unsafe


Figures = dict[str, Callable[[Lab], PaperFigure]]

CLAIM_COLUMNS = ("where", "whose claim", "what is claimed", "what was measured", "seeds that agree", "verdict")
RULE = (
    "A claim holds if it is so with every seed, under every choice that the paper leaves open and that was tried. It "
    "does not hold if it is so with none. Else, and where a seed cannot tell, it is undecided. Where no seeds are "
    "named there is no chance in it, or it is about the mean of the runs, which has to lie three standard errors to "
    "one side."
)
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
    lines = [f"# {title}", "", f"Made by `{command}`.", "", RULE, ""]
    lines += [*(f"- {note}" for note in notes), ""] if notes else []
    lines += ["| " + " | ".join(CLAIM_COLUMNS) + " |", "| " + " | ".join("---" for _ in CLAIM_COLUMNS) + " |"]
    for c in claims:
        verdict = c.verdict if c.holds else f"**{c.verdict}**"
        cells = (c.where, c.whose, c.text, c.measured, c.agree, verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def listed(values: Sequence[float] | np.ndarray, form: str = ".3g") -> str:
    """Numbers, for a sentence.

    >>> listed([0.5, 0.25])
    '0.5, 0.25'
    """
    return ", ".join(f"{value:{form}}" for value in np.asarray(values, dtype=float))


def together(table: np.ndarray) -> list[bool | None]:
    """Of rows of answers, one for each seed: whether it is so in all columns, or in none; None where it depends.

    >>> together(np.array([[True, True], [False, False], [True, False]]))
    [True, False, None]
    """
    return [True if row.all() else None if row.any() else False for row in np.asarray(table)]


def falling(values: Sequence[float] | np.ndarray) -> Any:
    """Whether every value is below the one before; of the rows of a table, one for each seed, each.

    >>> bool(falling([3, 2, 1])), falling([[2, 1], [1, 1]]).tolist()
    (True, [True, False])
    """
    return np.all(np.diff(np.asarray(values, dtype=float), axis=-1) < 0, axis=-1)
