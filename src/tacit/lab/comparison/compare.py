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
from tacit.lab.comparison.comparison_table import Comparison
from tacit.lab.comparison.contenders import Contender, ExactMethod, OwnMethod, Specified, run_name
from tacit.lab.comparison.gaps import on_problem
from tacit.lab.comparison.lines import ALTERNATIVES, Line, usual_reserves
from tacit.lab.comparison.on_records import on_records
from tacit.lab.comparison.results import MethodResult
from tacit.lab.comparison.trials import Divide, trial
from tacit.run.budget import Budget
from tacit.run.exact import ALGORITHMS
from tacit.run.graphs import auto_graph
from tacit.run.recipes import RECIPES
from tacit.run.spec import RunSpec
from tacit.run.trust import LOCAL, Reserve, Trust

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

Compared = str | Contender | RunSpec
_AGENTS = 5  # where neither a graph nor a column says how many


def compare(
    methods: Sequence[Compared] | None,
    records: Problem | Dataset | Table | IntoFrame,
    graph: Graph | None = None,
    *,
    schema: Schema | None = None,
    divide: str | Divide | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    seeds: int = 5,
    trust: Trust = LOCAL,
    hostile: str | None = None,
    reserves: Sequence[Reserve] | None = None,
    workers: Workers | None = None,
    tell: Tell | None = None,
) -> Comparison:
    """Runs all methods with the same seeds: the same records, divisions and graph. **Nothing in the result is
    private**: errors are exact, and the noise is seeded. Compare on public or made-up records.

    methods : a `Contender` for a method of your own; a `RunSpec`, which runs as it is; the name of a private method,
        such as "mr-admm", which runs at the total budget (epsilon, delta); the name of an exact one, such as "admm"; on
        records also what you might do instead ("alone", "central", "no-privacy", "majority"). The first is what the
        others are compared with. None: all private methods that serve most users, and all alternatives
    records : a `Problem`, where a method is measured by how far its objective ends above the minimum (a private method
        that is given by its name minimises it with equal weights for all records); or a data frame or a `Dataset` with
        its schema, where it is measured by its error on rows held out
    graph : who talks to whom; by default what suits the number of agents
    schema : what the records are
    divide : the column that says whose a record is; or a function from training rows and a seed to the rows of each
        agent; by default equal parts, one for each agent of the graph, or five
    epsilon, delta : the total budget of every agent, for methods that are given by name or made for a budget
    seeds : how many runs of each method. A seed is one division of the records and one draw of the noise
    trust : how members listen
    hostile : which members lie, and how: KIND:COUNT
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
    budget = None if epsilon is None else Budget(epsilon, delta)
    _check_methods(methods, budget, isinstance(records, Problem))
    if isinstance(records, Problem):
        if schema is not None or divide is not None or trust != LOCAL or hostile is not None:
            raise InputError(
                "a Problem says what its records are, and whose: leave out schema, divide, trust and hostile"
            )
        assert methods is not None
        talk = auto_graph(records.agents) if graph is None else graph
        found = on_problem(
            methods,
            records,
            talk,
            budget=budget,
            delta=delta,
            seeds=seeds,
            shared=_shared(graph, records.agents, reserves, plain=True),
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
    more = _more(methods or (), talk, budget, delta, trust, hostile)
    names = None if methods is None else [each for each in map(_name, methods) if each not in more]
    results = on_records(
        trials,
        talk,
        budget=Budget(1.0, delta) if budget is None else budget,  # then no method asks for it
        trust=trust,
        hostile=hostile,
        # Robust listening and liars are about single rows, not sums.
        shared=_shared(graph, agents, reserves, plain=trust == LOCAL and hostile is None),
        only=names,
        more=more,
        workers=workers,
        tell=tell,
    )
    return _compared(results, methods)


def _name(method: Compared) -> str:
    if isinstance(method, RunSpec):
        return run_name(method)
    return method if isinstance(method, str) else method.name


def _check_methods(methods: Sequence[Compared] | None, budget: Budget | None, problem: bool) -> None:
    if methods is None:
        if problem or budget is None:
            raise InputError("name the methods to compare; without names it needs records and epsilon")
        return
    if not methods or isinstance(methods, str):
        raise InputError("a comparison needs a list of methods, one at least")
    for each in methods:
        if not isinstance(each, str | Contender | RunSpec):
            raise InputError(
                f"a method is a name, a RunSpec, or a tacit.Contender(name, algorithm, rounds), not {each!r}"
            )
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
        if needs and budget is None:
            raise InputError(f"{each} is private: give epsilon, the total budget of every agent")


def _shared(
    graph: Graph | None, agents: int, reserves: Sequence[Reserve] | None, *, plain: bool
) -> dict[Reserve, Graph]:
    """For which numbers of colluders methods share their noise, and on which graph."""
    if reserves is None:
        reserves = usual_reserves(agents) if plain else []
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
    methods: Sequence[Compared],
    graph: Graph,
    budget: Budget | None,
    delta: float,
    trust: Trust,
    hostile: str | None,
) -> dict[str, Line]:
    """The methods that are no recipes at this budget."""
    here, found = (graph, budget, delta, trust, hostile), dict[str, Line]()
    for each in methods:
        if isinstance(each, RunSpec):
            found[_name(each)] = Specified(each.name, each.graph, each.budget, delta, each.trust, hostile, spec=each)
        elif isinstance(each, Contender):
            found[each.name] = OwnMethod(each.title, *here, contender=each)
        elif each in ALGORITHMS and (budget is None or each not in RECIPES):
            found[each] = ExactMethod(f"{ALGORITHMS[each].title}, no privacy", *here, name=each)
    return found


def _compared(results: list[MethodResult], methods: Sequence[Compared] | None) -> Comparison:
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
