"""What a run will cost, before any data is read; and the noise for a cost that is given.

Nothing that a release costs may depend on the data. So the plan of a run is made by running it without data: `Facts`
takes the place of the problem. It knows what is public and answers every question about the data with zeros. The
events are those of the real run by construction: it is the same code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from tacit.core.algorithm import Algorithm, kinds, traits
from tacit.core.alike import Alike, numbered
from tacit.core.graph import Graph, View
from tacit.core.losses import Logistic, Loss, Multinomial
from tacit.core.problem import RADIUS, Problem, check_radius
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Schedule, Turn
from tacit.errors import InputError, whole
from tacit.exchange import Link, usual_exchange
from tacit.exchange.plain import PlainLink
from tacit.exchange.totals import TotalInbox
from tacit.privacy.accounting import Totals, gaussian_steps, largest_parameter, rounded_up, totals
from tacit.privacy.events import MOST_ROUNDS, Event, Gaussian, Pure
from tacit.privacy.laws import Budget, BudgetTooSmall
from tacit.privacy.noise import SecureNoise
from tacit.privacy.sensitivity import NoRoom
from tacit.simulation.sequences import Stretch, sequences, stretches
from tacit.simulation.spent import Spending, Spent, shared
from tacit.simulation.tick import Blocks, tick

Method = TypeVar("Method", bound=Algorithm)

_DELTA, _SHOWN = 1e-5, 20  # a plan in a notebook: the delta of its totals, and the most agents
_TINY_BUDGET = 1e-12  # so small that the noise adds nothing to the cost


class CannotKeep(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """No noise of the given law keeps the total."""


class Facts(Problem):
    """What is public of a problem: how many rows each agent has, the dimension, the loss and the constants.

    >>> Facts(sizes=[8000] * 5, dimension=104, l2=0.01)
    Facts(5 agents, 40000 rows, dimension 104, Logistic())
    """

    def __init__(
        self,
        *,
        sizes: Sequence[int] | np.ndarray,
        dimension: int,
        loss: Loss | None = None,
        scale: float | np.ndarray = 1.0,
        l2: float = 0.0,
        tolerance: float = 1e-9,
        radius: float = RADIUS,
    ) -> None:
        rows = np.asarray(sizes)
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 1:
            raise InputError(f"sizes are the agents' numbers of rows, 1 or more each, not {sizes}")
        if dimension < 1:
            raise InputError(f"the dimension is 1 or more, not {dimension}")
        if isinstance(loss, Multinomial) and dimension % loss.classes:
            raise InputError(
                f"a model of {loss.classes} classes has a row of weights for each: its dimension is "
                f"{loss.classes} times the number of features, not {dimension}"
            )
        scales = np.asarray(scale, dtype=float)
        if scales.shape not in ((), rows.shape) or not np.all((scales > 0) & np.isfinite(scales)):
            raise InputError(f"scale must be a positive number, or one for each of {len(rows)} agents, not {scale}")
        if not (l2 >= 0 and math.isfinite(l2)):
            raise InputError(f"l2 must be zero or a positive number, not {l2}")
        if not (tolerance > 0 and math.isfinite(tolerance)):
            raise InputError(f"tolerance must be a positive gradient norm, not {tolerance}")
        check_radius(radius)
        self._sizes, self._dimension = rows, dimension
        self.loss, self.l2, self.tolerance = Logistic() if loss is None else loss, float(l2), tolerance
        self.radius = float(radius)
        self.scale = np.broadcast_to(scales, rows.shape).copy()

    @classmethod
    def of(cls, problem: Problem) -> Facts:
        """The public facts of a problem with data."""
        return cls(
            sizes=problem.sizes,
            dimension=problem.dimension,
            loss=problem.loss,
            scale=problem.scale,
            l2=problem.l2,
            tolerance=problem.tolerance,
            radius=problem.radius,
        )

    def __repr__(self) -> str:
        return super().__repr__().replace("Problem", "Facts")

    @property
    def agents(self) -> int:
        return len(self._sizes)

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def take(self, ids: Sequence[int] | np.ndarray) -> Facts:
        places = np.asarray(ids)
        return Facts(
            sizes=self._sizes[places],
            dimension=self._dimension,
            loss=self.loss,
            scale=self.scale[places],
            l2=self.l2,
            tolerance=self.tolerance,
            radius=self.radius,
        )

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def data_gradient(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return self.gradient(f)

    def sampled_data_gradient(self, f: np.ndarray, chosen: np.ndarray, rate: float) -> np.ndarray:
        """Zeros: there is no data."""
        return self.gradient(f)

    def smoothness(self) -> np.ndarray:
        """The smoothness of rows of zeros."""
        return np.full(self.agents, self.l2)

    def value(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros(self.agents)

    def second_moment(self) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension, self._dimension))

    def argmin(self, linear: Any, weight: Any, centre: Any, start: Any = 0.0) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def sure_argmin(self, b: Any, rho: Any, start: Any, sure: Any) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def require_row_norm(self, bound: float) -> None:
        """Nothing: there are no rows; the real run checks them."""


class _NoNoise:
    """Stands in for the noise of a run without data."""

    private, grid = False, SecureNoise().grid

    def choose(self, rate: float, count: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.zeros((len(ids), count), dtype=bool)

    def draw(self, law: str, scale: Any, dimension: int, ids: np.ndarray, t: int) -> np.ndarray:
        return np.zeros((len(ids), dimension))

    def perturb(
        self, law: str, value: np.ndarray, factor: Any, scale: Any, ids: np.ndarray, t: int, grid: Any
    ) -> np.ndarray:
        return value

    def add(
        self, law: str, value: np.ndarray, scale: Any, ids: np.ndarray, t: int, onto: np.ndarray | None = None
    ) -> np.ndarray:
        return value if onto is None else onto + value

    def mask(self, law: str, value: np.ndarray, scale: Any, ids: np.ndarray, t: int) -> np.ndarray:
        return value


@dataclass(frozen=True)
class Plan:
    """What every agent of a run will release at which cost."""

    events: Sequence[Sequence[Event]]  # for every agent, in the order of its releases; equal agents share a sequence
    spent: Spent  # for every agent, how often it will release at which cost
    paper: np.ndarray | None  # (N,) the paper's own bound on the total of pure epsilons, where it has one

    def _repr_html_(self) -> str:
        from tacit import html  # for notebooks alone

        totals = self.totals(_DELTA)
        rows: list[tuple[object, ...]] = []
        for k, spent in enumerate(self.spent[:_SHOWN]):
            kinds: Counter[str] = Counter()
            for event, count in spent.items():
                kinds[type(event).__name__] += count
            rows.append((k, ", ".join(f"{n} {kind}" for kind, n in kinds.items()), f"{rounded_up(totals[k].best):g}"))
        head = ("agent", "releases", f"epsilon at delta = {_DELTA:g}")
        rest = len(self.events) - len(rows)
        return html.card("Plan", [("agents not shown", rest)] if rest else [], html.table(head, rows))

    def totals(self, delta: float) -> Alike[Totals]:
        """For every agent, the epsilon of the whole run under each accountant."""
        return per_agent_totals(self.spent, delta)

    def epsilon(self, delta: float) -> float:
        """The network's epsilon: the largest of the agents'."""
        return max(t.best for t in self.totals(delta).items)


def plan(algorithm: Algorithm, facts: Problem, graph: Graph, rounds: int) -> Plan:
    """The events of `rounds` rounds, from public facts alone.

    >>> from tacit.algorithms import DualPerturbedADMM
    >>> facts = Facts(sizes=[8000] * 3, dimension=10, l2=0.1)
    >>> p = plan(DualPerturbedADMM(penalty=0.1, budget=Pure(0.1)), facts, Graph.ring(3), rounds=100)
    >>> round(p.epsilon(delta=1e-5), 4)
    4.3068
    """
    return _planner(facts, graph, rounds).plan(algorithm)


def _planner(facts: Problem, graph: Graph, rounds: int) -> _Planner:
    if graph.agents != facts.agents:
        raise InputError(f"the graph has {graph.agents} agents, the facts have {facts.agents}")
    whole("rounds", rounds, 0)
    if rounds > MOST_ROUNDS:
        raise InputError(
            f"a run has at most {MOST_ROUNDS:,} rounds, not {rounds:,}: its plan says what each of them costs"
        )
    if not isinstance(facts, Facts):
        facts = Facts.of(facts)
    return _Planner(facts, graph, rounds)


def _walked(algorithm: Algorithm, facts: Facts, graph: Graph, schedule: Schedule, rounds: int) -> Plan:
    """The plan for which all agents take every tick."""
    everybody, link = Blocks(facts, graph.view()), usual_exchange(algorithm).open(graph)
    heard = Inbox(np.zeros((graph.agents, facts.dimension)), graph.indptr, graph.indices)
    return _planned(algorithm, everybody, heard, map(schedule.turn, range(rounds)), rounds, link)


def _planned(
    algorithm: Algorithm, blocks: Blocks, heard: Inbox, turns: Iterable[Turn], rounds: int, link: Link
) -> Plan:
    """The plan of the agents of some blocks."""
    facts, view = blocks.problem, blocks.view
    state = algorithm.init(facts, view, heard.rows, heard)
    events: list[list[Event]] = [[] for _ in range(facts.agents)]
    spending = Spending(facts.agents)
    for t, turn in enumerate(turns):
        state, release = tick(algorithm, state, blocks, _NoNoise(), turn, t, link)
        spending.add(turn.speakers, release.events)
        for agent, event in zip(turn.speakers.tolist(), release.events, strict=True):
            events[agent].append(event)
    return Plan(events, spending.all(), paper_total(algorithm, facts, view, rounds))


class _NotAlike(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """Equal agents need not have equal plans: the method tells them apart, or they speak at different ticks."""


class _Unnamed:
    """Stands for the ids of agents of which nothing may depend but their number: a method that looks at them ends the
    attempt to plan for classes of agents."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _NotAlike

    __getattr__ = __getitem__ = __iter__ = __eq__ = __array__ = __contains__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __and__ = __lshift__ = __rshift__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class _Classes(Blocks):
    """One agent of each class in place of a network."""

    def __init__(self, facts: Facts, graph: Graph, first: np.ndarray) -> None:
        self.problem = facts.take(first)
        self.view = View(_Unnamed(len(first)), graph.view(first).degree, graph.agents)  # type: ignore[arg-type]

    def of(self, places: np.ndarray) -> tuple[Problem, View]:
        if len(places) == self.problem.agents:
            return self.problem, self.view
        ids: Any = _Unnamed(len(places))
        return self.problem.take(places), View(ids, self.view.degree[places], self.view.network)


class _Total:
    """The sum of the rows of all agents, from one row for each class."""

    def __init__(self, members: np.ndarray) -> None:
        self._members, self.sent = members, {"messages": 0, "bytes": 0}

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        count = len(release.value)
        total = self._members @ release.value
        return TotalInbox(np.tile(total, (count, 1)), np.full((count, 1), self._members.sum()))


class _Planner:
    """Plans for one network. What follows from who speaks when is computed once for methods that speak at the same
    ticks: calibration plans several times."""

    def __init__(self, facts: Facts, graph: Graph, rounds: int) -> None:
        self._facts, self._graph, self._rounds = facts, graph, rounds
        self._who: tuple[Schedule, list[Stretch]] | None = None
        self._spoken: tuple[list[Stretch], np.ndarray, Alike[np.ndarray], Alike[np.ndarray]] | None = None

    def plan(self, algorithm: Algorithm) -> Plan:
        """For classes of agents, if they differ in nothing else; for every agent; or, where nothing is declared, by
        taking every tick."""
        facts, graph, rounds = self._facts, self._graph, self._rounds
        schedule = algorithm.schedule(graph)
        if self._who is None or self._who[0] != schedule:
            self._who = schedule, stretches(schedule, graph.agents, rounds)
        who, alike = self._who[1], kinds(algorithm, facts, rounds)
        if alike is None and all(stretch.ticks is None for stretch in who):
            tries = [(self._classes, np.arange(rounds))]
        else:
            tries = [] if alike is None else [(self._classes, alike), (self._singles, alike)]
        for speakers, ticks in tries:
            try:
                return self._of_kinds(algorithm, schedule, who, ticks, speakers)
            except _NotAlike:
                pass
        return _walked(algorithm, facts, graph, schedule, rounds)

    @cached_property
    def _classes(self) -> _Speakers:
        """One agent for all of equal size, scale and degree."""
        facts, graph = self._facts, self._graph
        which, first = numbered(facts.sizes, facts.scale, graph.degree)
        starts = np.concatenate([[0], np.cumsum(graph.degree[first])])
        senders = which[np.concatenate([graph.neighbours(i) for i in first])]
        return _Speakers(which, first, starts, senders, _Classes(facts, graph, first), unnamed=True)

    @cached_property
    def _singles(self) -> _Speakers:
        """Every agent speaks for itself."""
        facts, graph, agents = self._facts, self._graph, np.arange(self._graph.agents)
        return _Speakers(agents, agents, graph.indptr, graph.indices, Blocks(facts, graph.view()), unnamed=False)

    def _of_kinds(
        self, algorithm: Algorithm, schedule: Schedule, who: list[Stretch], alike: np.ndarray, speakers: _Speakers
    ) -> Plan:
        """The plan for which the method speaks at the first tick of every kind of ticks, `alike`, (rounds,)."""
        ticks, starts = numbered(alike)
        times = np.zeros(len(starts), dtype=int)
        order: list[int] = []  # of the kinds of ticks at which all agents speak
        for stretch in who:
            if stretch.ticks is None:
                here = ticks[stretch.first : stretch.stop]
                new = [at for at in numbered(here)[1].tolist() if not times[here[at]]]
                order += here[new].tolist()
                starts[here[new]] = stretch.first + np.array(new, dtype=int)
                times += np.bincount(here, minlength=len(starts))
        costs, events = self._costs(algorithm, schedule, speakers, starts, times, _of_some(who, ticks, speakers.which))
        spoken, alone = self._sequences(who, ticks)
        which = speakers.which
        merged, _ = numbered(np.zeros(costs.shape[1], dtype=int), *costs)  # classes that pay alike
        group, first = numbered(merged[which], spoken.which)
        paid = costs[:, which[first]]  # (kinds, groups of agents that pay the same in the same order)
        in_order = _in_order(events, paid, spoken.which[first].tolist(), spoken.items)
        spending = Spending(len(first))
        for kind in order:
            spending.add(np.arange(len(first)), _named(events, paid[kind]), int(times[kind]))
        for g, agent in enumerate(first.tolist()):
            for kind, count in Counter(alone[agent].tolist()).items():
                spending.add_alone(g, events[paid[kind, g]], count)
        spent = spending.all()
        paper = _paper_total(algorithm, speakers.blocks.problem, speakers.blocks.view, starts[ticks].tolist())
        return Plan(
            Alike(in_order, group),
            Alike(spent.items, spent.which[group]),
            None if paper is None else paper[which],
        )

    def _costs(
        self,
        algorithm: Algorithm,
        schedule: Schedule,
        speakers: _Speakers,
        starts: np.ndarray,
        times: np.ndarray,
        some: dict[int, np.ndarray],
    ) -> tuple[np.ndarray, list[Event]]:
        """What a tick of every kind costs every class, as the number of an event, (kinds, classes), and the events;
        -1 where a class does not speak."""
        blocks, near, senders = speakers.blocks, speakers.near, speakers.senders
        heard = Inbox(np.zeros((blocks.problem.agents, self._facts.dimension)), near, senders)
        state = algorithm.init(blocks.problem, blocks.view, heard.rows, heard)
        everybody, nobody = np.arange(blocks.problem.agents), np.arange(0)
        link: Link = usual_exchange(algorithm).open(self._graph)
        if speakers.unnamed:
            link = _Total(np.bincount(speakers.which)) if traits(algorithm).totals else PlainLink()
        known: dict[Event, int] = {}
        costs = np.full((len(starts), len(everybody)), -1, dtype=np.int32)
        for kind in np.argsort(starts, kind="stable").tolist():
            t = int(starts[kind])
            if not times[kind]:  # what some say comes back to themselves
                here = some[kind]
                turn = Turn(here, here, np.arange(len(here) + 1), np.arange(len(here)))
            else:
                turn = schedule.turn(t)
                if speakers.unnamed and len(turn.listeners):
                    all_hear = len(turn.listeners) == self._graph.agents
                    if not (all_hear and turn.indptr is self._graph.indptr and turn.indices is self._graph.indices):
                        raise _NotAlike
                    turn = Turn(everybody, everybody, near, senders)
                elif speakers.unnamed:
                    turn = Turn(everybody, nobody, np.zeros(1, dtype=int), nobody)
            state, release = tick(algorithm, state, blocks, _NoNoise(), turn, t, link)
            found = Alike.gather(release.events, lambda event: event)
            numbers = np.array([known.setdefault(event, len(known)) for event in found.items], dtype=np.int32)
            costs[kind, turn.speakers] = numbers[found.which]
        return costs, list(known)

    def _sequences(self, who: list[Stretch], ticks: np.ndarray) -> tuple[Alike[np.ndarray], Alike[np.ndarray]]:
        """For every agent the kinds of the ticks at which it speaks; and of those at which not all speak."""
        if self._spoken is None or self._spoken[0] is not who or not np.array_equal(self._spoken[1], ticks):
            alone = [stretch for stretch in who if stretch.ticks is not None]
            both = (sequences(each, ticks, self._graph.agents) for each in (who, alone))
            self._spoken = (who, ticks, *both)  # type: ignore[assignment]
        assert self._spoken is not None
        return self._spoken[2], self._spoken[3]


class _Speakers(NamedTuple):
    """The agents that speak in a plan, each for a class of agents."""

    which: np.ndarray  # (N,) the class of every agent
    first: np.ndarray  # (classes,) the agent that speaks for it
    near: np.ndarray  # (classes+1,) whom each of them hears (CSR)
    senders: np.ndarray
    blocks: Blocks
    unnamed: bool  # whether they have no ids


def _of_some(who: list[Stretch], ticks: np.ndarray, which: np.ndarray) -> dict[int, np.ndarray]:
    """Which classes speak at ticks of a kind at which not everybody does."""
    pairs = [(ticks[stretch.ticks], which[stretch.agents]) for stretch in who if stretch.ticks is not None]
    if not pairs:
        return {}
    kind, place = (np.concatenate(column) for column in zip(*pairs, strict=True))
    size = int(which.max()) + 1
    found: dict[int, list[int]] = {}
    for code in np.unique(kind.astype(np.int64) * size + place).tolist():
        found.setdefault(code // size, []).append(code % size)
    return {kind: np.array(places) for kind, places in found.items()}


def _named(known: list[Event], numbers: np.ndarray) -> Alike[Event]:
    """The events with these numbers."""
    which, first = numbered(numbers)
    return Alike([known[number] for number in numbers[first].tolist()], which)


def _in_order(
    known: list[Event], paid: np.ndarray, mine: list[int], spoken: Sequence[np.ndarray]
) -> list[Alike[Event]]:
    """The events of each group of agents, in the order of their ticks: `paid`, (kinds, groups), has their numbers,
    `mine` says which of the sequences of kinds is a group's."""
    once = [(*numbered(sequence), sequence) for sequence in spoken]  # mostly one for all
    found = []
    for g, k in enumerate(mine):
        order, first, sequence = once[k]
        named = _named(known, paid[sequence[first], g])
        found.append(Alike(named.items, order if len(named.items) == len(named) else named.which[order]))
    return found


def paper_total(algorithm: Algorithm, facts: Problem, view: View, rounds: int) -> np.ndarray | None:
    """The sum over the rounds of what the paper says each costs, (N,); None where the paper says nothing."""
    return _paper_total(algorithm, facts, view, range(rounds))


def _paper_total(algorithm: Algorithm, facts: Problem, view: View, ticks: Iterable[int]) -> np.ndarray | None:
    """The same, for ticks each of which may stand for later ones that are like it."""
    if not traits(algorithm).paper_bound(algorithm):
        return None
    method: Any = algorithm
    known: dict[int, np.ndarray] = {}
    total = np.zeros(facts.agents)
    for t in ticks:
        if t not in known:
            known[t] = method.paper_bound(facts, view, t)[:, 0]
        total = total + known[t]
    return total


@overload
def calibrate(
    make: Callable[[Gaussian], Method],
    facts: Problem,
    graph: Graph,
    rounds: int,
    *,
    epsilon: float,
    delta: float,
    law: type[Gaussian] = Gaussian,
    before: Sequence[Event] = (),
) -> Method: ...


@overload
def calibrate(
    make: Callable[[Any], Method],
    facts: Problem,
    graph: Graph,
    rounds: int,
    *,
    epsilon: float,
    delta: float,
    law: type[Pure] | type[Gaussian] = Gaussian,
    before: Sequence[Event] = (),
    shape: Sequence[float] | np.ndarray,
) -> Method: ...


@overload
def calibrate(
    make: Callable[[Pure], Method],
    facts: Problem,
    graph: Graph,
    rounds: int,
    *,
    epsilon: float,
    delta: float,
    law: type[Pure],
    before: Sequence[Event] = (),
) -> Method: ...


def calibrate(
    make: Callable[..., Method],
    facts: Problem,
    graph: Graph,
    rounds: int,
    *,
    epsilon: float,
    delta: float,
    law: type[Pure] | type[Gaussian] = Gaussian,
    before: Sequence[Event] = (),
    shape: Sequence[float] | np.ndarray | None = None,
) -> Method:
    """The algorithm `make(budget)` with the largest budget for a noisy step such that no agent's total passes
    (epsilon, delta).

        make            gives the algorithm for a budget of one noisy step, or with a shape for a tuple of them
        facts           what is public of the problem; a `Problem` will do, its data are not read
        graph           which agents are neighbours
        rounds          how many rounds the run has
        epsilon, delta  what the whole run may cost each agent
        law             which noise: `Gaussian`, or the papers' `Pure`
        before          what every agent has released before, out of the same total
        shape           a positive number for each noisy step, to which its noise is in proportion: step k may cost
                        `Gaussian(c shape[k])`, or `Pure(c/shape[k])`, and c is what is found

    >>> from tacit.algorithms import RecycledADMM
    >>> facts = Facts(sizes=[8000] * 3, dimension=10, l2=0.1)
    >>> best = calibrate(lambda b: RecycledADMM(budget=b), facts, Graph.ring(3), 20, epsilon=1.0, delta=1e-5)
    >>> 0.99 < plan(best, facts, Graph.ring(3), 20).epsilon(1e-5) <= 1.0
    True
    """
    return make(
        largest_budget(make, facts, graph, rounds, epsilon=epsilon, delta=delta, law=law, before=before, shape=shape)
    )


def largest_budget(
    make: Callable[..., Algorithm],
    facts: Problem,
    graph: Graph,
    rounds: int,
    *,
    epsilon: float,
    delta: float,
    law: type[Pure] | type[Gaussian] = Gaussian,
    before: Sequence[Event] = (),
    shape: Sequence[float] | np.ndarray | None = None,
) -> Any:
    """The budget with which `calibrate` makes its algorithm; the arguments are the same."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"epsilon must be a positive number, not {epsilon}")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not at {delta}")

    if law not in (Pure, Gaussian):
        raise InputError(f"the law of the noise is Pure or Gaussian, not {law!r}")

    weights = None if shape is None else _shape(shape)

    def one(p: float) -> Budget:
        return Pure(p) if law is Pure else Gaussian(1 / p)

    def budget(p: float) -> Budget | tuple[Budget, ...]:
        return one(p) if weights is None else tuple(one(p / weight) for weight in weights)

    planner = _planner(facts, graph, rounds)

    def worst(p: float) -> Counter[Event]:
        # Agents that differ in size or degree may differ in cost: the network's total is the largest of theirs.
        try:
            spent = planner.plan(make(budget(p))).spent
        except (BudgetTooSmall, NoRoom):
            return Counter(before)  # p has to be larger: so much noise leaves no digits for the rest
        return max(
            (counter + Counter(before) for counter in shared(spent).items),
            key=lambda counter: totals(counter, delta).best,
        )

    least = worst(_TINY_BUDGET)
    if totals(least, delta).best > epsilon:
        raise CannotKeep(
            f"no noise keeps the total at or below epsilon = {epsilon:g}: what is paid apart from it, such as the "
            "curvature of the loss, costs more; raise l2, the penalty, the number of rows or epsilon"
        )
    near = None
    if law is Gaussian:  # as many Gaussian steps cost about as much: the search then takes half as many plans
        steps = sum(n for event, n in (least or worst(1.0)).items() if not event.free)
        near = 1 / gaussian_steps(max(steps, 1), epsilon, delta).multiplier
    best = budget(_rounded_down(largest_parameter(worst, epsilon, delta, near=near)))
    try:
        planner.plan(make(best))
    except BudgetTooSmall as refusal:
        raise CannotKeep(str(refusal)) from None
    except NoRoom as refusal:
        raise CannotKeep(
            f"no noise that doubles can carry keeps the total at or below epsilon = {epsilon:g}: what is paid apart "
            f"from it, such as the curvature of the loss, costs more; or {refusal}"
        ) from None
    return best


def _shape(shape: Sequence[float] | np.ndarray) -> list[float]:
    try:
        weights = np.asarray(shape, dtype=float)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.ndim != 1 or not weights.size or not np.all((weights > 0) & np.isfinite(weights)):
        raise InputError(f"a shape has one positive number for each noisy step, not {shape!r}")
    return weights.tolist()


def _rounded_down(p: float) -> float:
    """A little less, in ten digits. The last bits of a search may differ between processes, but what agents have agreed
    upon, reserved and reported is compared to the last bit.

    >>> _rounded_down(0.0819581101234567) == _rounded_down(0.0819581101234569) < 0.0819581101234567
    True
    """
    unit = 10.0 ** (math.floor(math.log10(p)) - 9)
    return (math.floor(p / unit) - 1) * unit


def per_agent_totals(spent: Spent, delta: float) -> Alike[Totals]:
    """Every agent's totals, computed once for agents that spend the same."""
    return shared(spent).map(lambda counter: totals(counter, delta))
