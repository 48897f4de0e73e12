"""Compare private methods at the same total budget with the usual alternatives, on the same records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from tacit.core.graph import Graph
from tacit.data import Schema, Target
from tacit.engines import Local, Workers
from tacit.engines.work import Tell
from tacit.errors import GraphError
from tacit.lab.comparison.lines import Line, methods
from tacit.lab.comparison.results import Achieved, MethodResult
from tacit.lab.comparison.trials import Trial, same_answer
from tacit.privacy.plan import CannotKeep
from tacit.run.budget import Budget
from tacit.run.setting import Setting
from tacit.run.trust import LOCAL, Reserve, Trust


def on_records(
    trials: list[Trial],
    graph: Graph,
    *,
    budget: Budget,
    trust: Trust = LOCAL,
    hostile: str | None = None,
    shared: Mapping[Reserve, Graph] | None = None,
    only: Collection[str] | None = None,
    more: Mapping[str, Line] | None = None,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> list[MethodResult]:
    """Runs every method in every trial, or `only` those of these names. It leaves out a method that

    - cannot keep the budget,
    - is not proved for several classes, if the label has them,
    - needs a cycle for its token and finds none in the graph,
    - shares its noise on a graph that so many colluders can cut in two,
    - hands a token on, if members listen robustly: a member then has only one message to listen to.

    trials, graph : the divisions of the records, and who talks to whom
    budget : the total of every agent
    trust, hostile : how members listen, and which of them lie
    shared : for which numbers of colluders to show shared noise, and on which graph
    only : the names of recipes and of `ALTERNATIVES`, in place of the usual ones
    more : methods that are no recipes, by name
    workers : where the runs happen; by default in this process
    tell : called with what is being done, how much of it is done, and of how much
    """
    found = methods(graph, budget, trust, hostile, shared, only) | dict(more or {})
    results = run_lines(list(found.items()), trials, graph.agents, workers, tell)
    constant = constant_answer(trials, graph.agents, budget.delta)
    return [*(r for r in results if r is not None), *([constant] if only is None or constant.name in only else [])]


def run_lines(
    lines: Sequence[tuple[str, Line]],
    trials: list[Trial],
    members: int,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> list[MethodResult | None]:
    """What each method achieves, over all trials; None for a method that cannot run here. First all settings are
    computed, one for each method and division into sizes: runs share them, wherever they happen."""
    schema = trials[0].schema
    able = [k for k, (_, line) in enumerate(lines) if line.suits(schema.label)]
    each = [line for _, line in lines]
    with Local(1).open() if workers is None else nullcontext(workers) as at:
        sizes = list(dict.fromkeys((k, each[k].sizes(trial)) for k in able for trial in trials))
        prepared = at.map(_Prepare(each, schema), sizes, None if tell is None else partial(tell, "settings"))
        settings = dict(zip(sizes, prepared, strict=True))
        failed = {k for (k, _), (able_to_run, _) in settings.items() if not able_to_run}
        todo = [(k, number) for k in able if k not in failed for number in range(len(trials))]
        found = at.map(_RunOne(each, settings, trials), todo, None if tell is None else partial(tell, "runs"))
    achieved: dict[int, list[Achieved | None]] = {}
    for (k, _), one in zip(todo, found, strict=True):
        achieved.setdefault(k, []).append(one)
    return [_result(*lines[k], achieved.get(k, [None]), members) for k in range(len(lines))]


@dataclass(frozen=True)
class _Prepare:
    lines: list[Line]
    schema: Schema

    def __call__(self, what: tuple[int, tuple[int, ...]]) -> tuple[bool, Setting | None]:
        """Whether the method can run, and its setting, if it needs one."""
        k, sizes = what
        try:
            return True, self.lines[k].setting(sizes, self.schema)
        except (CannotKeep, GraphError):
            return False, None


@dataclass(frozen=True)
class _RunOne:
    lines: list[Line]
    settings: dict[tuple[int, tuple[int, ...]], tuple[bool, Setting | None]]
    trials: list[Trial]

    def __call__(self, what: tuple[int, int]) -> Achieved | None:
        k, number = what
        line, trial = self.lines[k], self.trials[number]
        try:
            _, setting = self.settings[k, line.sizes(trial)]
            found = line.run(trial, setting)
        except (CannotKeep, GraphError):
            return None
        return found.measured(trial)


def _result(name: str, line: Line, achieved: list[Achieved | None], members: int) -> MethodResult | None:
    found = [one for one in achieved if one is not None]
    if len(found) < len(achieved):
        return None
    return MethodResult(name, line.title, found, line.delta, members, not line.pooled, line.trust.reserve)


def constant_answer(trials: list[Trial], members: int, delta: float) -> MethodResult:
    """The same answer for every record, the best one for the training rows: "majority", or "mean" of numbers."""
    name, title = "majority", "always the most frequent answer"
    if isinstance(trials[0].schema.label, Target):
        name, title = "mean", "always the mean label"
    return MethodResult(name, title, list(map(same_answer, trials)), delta, members, decentralised=False)
