"""What a run will cost, before any data is read; and the noise for a cost that is given.

Nothing that a release costs may depend on the data. So the plan of a run is made by running it without data: `Facts`
takes the place of the problem. It knows what is public and answers every question about the data with zeros. The
events are those of the real run by construction: it is the same code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from tacit.core.algorithm import Algorithm
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
from tacit.privacy.events import Event, Gaussian, Pure
from tacit.privacy.laws import Budget, BudgetTooSmall
from tacit.privacy.noise import SecureNoise
from tacit.privacy.sensitivity import NoRoom
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

    events: Sequence[list[Event]]  # for every agent, in the order of its releases; equal agents share a list
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
    if graph.agents != facts.agents:
        raise InputError(f"the graph has {graph.agents} agents, the facts have {facts.agents}")
    whole("rounds", rounds, 0)
    if not isinstance(facts, Facts):
        facts = Facts.of(facts)
    schedule = algorithm.schedule(graph)
    try:
        return _plan_of_classes(algorithm, facts, graph, schedule, rounds)
    except _NotAlike:
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

    def of(self, ids: np.ndarray) -> tuple[Problem, View]:
        return self.problem, self.view


class _Total:
    """The sum of the rows of all agents, from one row for each class."""

    def __init__(self, members: np.ndarray) -> None:
        self._members, self.sent = members, {"messages": 0, "bytes": 0}

    def deliver(self, release: Release, turn: Turn, t: int) -> Inbox:
        count = len(release.value)
        total = self._members @ release.value
        return TotalInbox(np.tile(total, (count, 1)), np.full((count, 1), self._members.sum()))


def _plan_of_classes(algorithm: Algorithm, facts: Facts, graph: Graph, schedule: Schedule, rounds: int) -> Plan:
    """The plan in which one agent speaks for all of equal size, scale and degree. Costs depend on nothing else where
    all speak at every tick, if the method does not look at ids; and what is heard has no data in it."""
    which, first = numbered(facts.sizes, facts.scale, graph.degree)
    starts = np.concatenate([[0], np.cumsum(graph.degree[first])])
    senders = which[np.concatenate([graph.neighbours(i) for i in first])]
    all_of_them, nobody = np.arange(len(first)), np.arange(0)

    def turns() -> Iterator[Turn]:
        for t in range(rounds):
            turn = schedule.turn(t)
            if len(turn.speakers) < graph.agents or len(turn.listeners) not in (0, graph.agents):
                raise _NotAlike
            if len(turn.listeners) and not (turn.indptr is graph.indptr and turn.indices is graph.indices):
                raise _NotAlike
            quiet = Turn(all_of_them, nobody, np.zeros(1, dtype=int), nobody)
            yield Turn(all_of_them, all_of_them, starts, senders) if len(turn.listeners) else quiet

    heard = Inbox(np.zeros((len(first), facts.dimension)), starts, senders)
    link = _Total(np.bincount(which)) if getattr(algorithm, "totals", False) else PlainLink()
    found = _planned(algorithm, _Classes(facts, graph, first), heard, turns(), rounds, link)
    spent = shared(found.spent)
    return Plan(
        Alike(found.events, which),
        Alike(spent.items, spent.which[which]),
        None if found.paper is None else found.paper[which],
    )


def paper_total(algorithm: Algorithm, facts: Problem, view: View, rounds: int) -> np.ndarray | None:
    """The sum over the rounds of what the paper says each costs, (N,); None where the paper says nothing."""
    bound = getattr(algorithm, "paper_bound", None)
    if bound is None or getattr(algorithm, "alpha", None) is None:
        return None
    return sum((bound(facts, view, t)[:, 0] for t in range(rounds)), np.zeros(facts.agents))


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

    def worst(p: float) -> Counter[Event]:
        # Agents that differ in size or degree may differ in cost: the network's total is the largest of theirs.
        try:
            spent = plan(make(budget(p)), facts, graph, rounds).spent
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
        plan(make(best), facts, graph, rounds)
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
