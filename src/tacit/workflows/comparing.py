"""`tacit.compare`: methods side by side, built-in ones and your own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.data import Dataset, Schema, Table, as_table, partition
from tacit.engines import Workers
from tacit.engines.work import Tell
from tacit.errors import InputError, whole
from tacit.run.limits import Budget
from tacit.workflows.compared import Comparison
from tacit.workflows.comparison import ALTERNATIVES, TRUSTING, Divide, Line, MethodResult, Trust, lines, trial
from tacit.workflows.comparison import compare as on_trials
from tacit.workflows.contenders import Contender, ExactLine, Own
from tacit.workflows.exact import ALGORITHMS
from tacit.workflows.gaps import on_problem
from tacit.workflows.graphs import auto_graph
from tacit.workflows.recipes import RECIPES, Reserve

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_AGENTS = 5  # where neither a graph nor a column says how many


def compare(
    methods: Sequence[str | Contender] | None,
    records: Problem | Dataset | Table | IntoFrame,
    graph: Graph | None = None,
    *,
    schema: Schema | None = None,
    divide: str | Divide | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    seeds: int = 5,
    trust: Trust = TRUSTING,
    reserves: Sequence[Reserve] | None = None,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> Comparison:
    """Runs all methods with the same seeds: the same records, divisions and graph. **Nothing in the result is
    private**: errors are exact, and the noise is seeded. Compare on public or made-up records.

    methods : a `Contender` for a method of your own; the name of a private method, such as "mr-admm", which runs at
        the total budget (epsilon, delta); the name of an exact one, such as "admm"; on records also what you might do
        instead ("alone", "central", "no-privacy", "majority"). The first is what the others are compared with. None:
        all private methods that serve most users, and all alternatives
    records : a `Problem`, where a method is measured by how far its objective ends above the minimum (a private method
        that is given by its name minimises it with equal weights for all records); or a data frame or a `Dataset` with
        its schema, where it is measured by its error on rows held out
    graph : who talks to whom; by default what suits the number of agents
    schema : what the records are
    divide : the column that says whose a record is; or a function from training rows and a seed to the rows of each
        agent; by default equal parts, one for each agent of the graph, or five
    epsilon, delta : the total budget of every agent, for methods that are given by name or made for a budget
    seeds : how many runs of each method. A seed is one division of the records and one draw of the noise
    trust : how members listen, and which of them lie
    reserves : how many members may collude, for methods that share the noise, a line for each; by default one, and
        the most that are less than half
    workers : where the runs happen, such as `with tacit.engines.Local(jobs=8).open() as workers`; by default here.
        Other processes must be able to import a method of your own: a lambda runs only here
    tell : called with what is being done, how much of it is done, and of how much

    >>> from tacit.algorithms import ConsensusADMM
    >>> parts = [([[1.0], [0.5]], [1, -1]), ([[-1.0], [0.1]], [-1, 1])]
    >>> mine = [Contender(f"{n} rounds", ConsensusADMM(penalty=0.2), rounds=n) for n in (50, 5)]
    >>> found = compare(mine, Problem(parts, l2=0.1), seeds=2)
    >>> [result.name for result in found.results], found.difference("5 rounds").mean > 0
    (['50 rounds', '5 rounds'], True)
    """
    whole("seeds", seeds, 1)
    if epsilon is not None:
        Budget(epsilon, delta)  # refuses one that is none
    _check_methods(methods, epsilon, isinstance(records, Problem))
    if isinstance(records, Problem):
        if schema is not None or divide is not None or trust != TRUSTING:
            raise InputError("a Problem says what its records are, and whose: leave out schema, divide and trust")
        assert methods is not None
        talk = auto_graph(records.agents) if graph is None else graph
        found = on_problem(
            methods,
            records,
            talk,
            epsilon=epsilon,
            delta=delta,
            seeds=seeds,
            shared=_shared(graph, records.agents, reserves, trust),
            workers=workers,
            tell=tell,
        )
        return _compared(found, methods)
    data, share_out, agents = _records(records, schema, divide, graph)
    assert schema is not None
    talk = auto_graph(agents) if graph is None else graph
    if talk.agents != agents:
        raise InputError(f"the graph has {talk.agents} agents, and the records are divided among {agents}")
    trials = [trial(data, schema, share_out, seed) for seed in range(seeds)]
    more = _more(methods or (), talk, epsilon, delta, trust)
    names = None if methods is None else [each for each in map(_name, methods) if each not in more]
    results = on_trials(
        trials,
        talk,
        epsilon=1.0 if epsilon is None else epsilon,  # then no method asks for it
        delta=delta,
        trust=trust,
        shared=_shared(graph, agents, reserves, trust),
        only=names,
        more=more,
        workers=workers,
        tell=tell,
    )
    return _compared(results, methods)


def _name(method: str | Contender) -> str:
    return method if isinstance(method, str) else method.name


def _check_methods(methods: Sequence[str | Contender] | None, epsilon: float | None, problem: bool) -> None:
    if methods is None:
        if problem or epsilon is None:
            raise InputError("name the methods to compare; without names it needs records and epsilon")
        return
    if not methods or isinstance(methods, str):
        raise InputError("a comparison needs a list of methods, one at least")
    for each in methods:
        if not isinstance(each, str | Contender):
            raise InputError(f"a method is a name or a tacit.Contender(name, algorithm, rounds), not {each!r}")
    twice = [name for name, count in Counter(map(_name, methods)).items() if count > 1]
    if twice:
        raise InputError(f"every method needs a name of its own; {twice[0]!r} is there twice")
    known = [*RECIPES, *ALGORITHMS, *([] if problem else ALTERNATIVES)]
    for each in methods:
        if isinstance(each, str) and each not in known:
            raise InputError(
                f"there is no method {each!r} to compare here; there are {', '.join(dict.fromkeys(known))}"
            )
        if isinstance(each, Contender) and each.name in known:
            raise InputError(f"{each.name!r} is the name of a built-in method: call yours something else")
        needs = isinstance(each, str) and each not in ALGORITHMS and each not in ("no-privacy", "majority", "mean")
        if needs and epsilon is None:
            raise InputError(f"{each} is private: give epsilon, the total budget of every agent")


def _shared(graph: Graph | None, agents: int, reserves: Sequence[Reserve] | None, trust: Trust) -> dict[Reserve, Graph]:
    """For which numbers of colluders methods share their noise, and on which graph."""
    if reserves is None:
        reserves = lines(agents) if trust == TRUSTING else []  # robust listening is about single rows, not sums
    return {each: auto_graph(agents, each) if graph is None else graph for each in reserves}


def _records(
    records: Any, schema: Schema | None, divide: str | Divide | None, graph: Graph | None
) -> tuple[Dataset, Divide, int]:
    """The encoded records, how to divide their training rows, and among how many agents."""
    if schema is None:
        raise InputError("records need a schema: see tacit.data.Schema")
    table = None if isinstance(records, Dataset) else as_table(records)
    data = records if table is None else schema.encode(table)
    if isinstance(divide, str):
        if table is None:
            raise InputError(f"a Dataset has no column {divide!r}: give the frame, or a function")
        table.require([divide])
        parts, names = partition.by_column(table.strings(divide)[data.kept])
        place = np.empty(len(table), dtype=int)
        for agent, rows in enumerate(parts):
            place[data.kept[rows]] = agent
        return data, lambda train, _: partition.by_place(place[train.kept], names), len(names)
    if divide is not None:
        return data, divide, graph.agents if graph is not None else len(divide(data, 0))
    agents = _AGENTS if graph is None else graph.agents
    return data, lambda train, seed: partition.equal(len(train), agents, seed), agents


def _more(
    methods: Sequence[str | Contender], graph: Graph, epsilon: float | None, delta: float, trust: Trust
) -> dict[str, Line]:
    """The methods that are no recipes at this budget."""
    found: dict[str, Line] = {}
    for each in methods:
        if isinstance(each, Contender):
            found[each.name] = Own(each, graph, epsilon, delta, trust)
        elif each in ALGORITHMS and (epsilon is None or each not in RECIPES):
            found[each] = ExactLine(each, graph, delta, trust)
    return found


def _compared(results: list[MethodResult], methods: Sequence[str | Contender] | None) -> Comparison:
    """In the order in which the methods were named."""
    if not results:
        raise InputError("no method can keep this budget, or run here: raise epsilon, or bring more records")
    if methods is None:
        return Comparison(results, results[0].name)
    names = list(map(_name, methods))

    def asked(result: MethodResult) -> int:
        name = result.name
        return names.index(name if name in names else name.partition(":")[0])

    ordered = sorted(results, key=asked)
    there = {asked(result) for result in results}
    left_out = tuple(name for k, name in enumerate(names) if k not in there)
    return Comparison(ordered, ordered[0].name, left_out)
