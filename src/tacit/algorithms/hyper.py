"""Hyper-parameters that change from step to step and from agent to agent.

A method takes a number, a `Geometric`, a list or an array with one value for each noisy step or of shape (noisy steps,
agents), a function of the step k = 0, 1, ..., or an object with `.at(k, ids)`. What it was given is frozen, so that a
run does what its plan has counted: arrays are copied, functions must be stateless, and a value that was given once is
not asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Protocol

import numpy as np

from tacit.core.alike import numbered
from tacit.core.graph import Graph
from tacit.core.multinomial import Multinomial
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.errors import number as number  # a hyper-parameter that stays the same, for methods of others, too
from tacit.privacy.events import Event, Gaussian, Pure
from tacit.privacy.laws import Budget


@dataclass(frozen=True)
class Geometric:
    """first * ratio^k at step k = 0, 1, ..., never above `cap`; first and ratio are numbers, or one for each agent.

    Without a cap a growing penalty freezes the iterates before they reach the optimum.

    >>> Geometric(1.0, ratio=1.5, cap=2.0).at(1, np.array([0])), Geometric(1.0, ratio=1.5, cap=2.0).at(9, np.array([0]))
    (array([[1.5]]), array([[2.]]))
    """

    first: Any
    ratio: Any
    cap: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("first", "ratio", "cap"):
            value = getattr(self, name)
            x = np.asarray(1.0 if name == "cap" and value is None else value)
            if x.dtype.kind not in "iuf" or not (np.all(x > 0) and np.all(np.isfinite(x))):  # a text is no number
                raise InputError(f"a geometric schedule needs a positive, finite {name}, not {value}")

    def at(self, k: int, ids: np.ndarray) -> np.ndarray:
        """The value of step k for each of the agents, (n, 1)."""
        first, ratio = (of(x, ids) for x in (self.first, self.ratio))
        with np.errstate(over="ignore"):
            value = np.minimum(first * ratio**k, np.inf if self.cap is None else self.cap)
        if not np.all(np.isfinite(value)):
            raise InputError(f"{self} is too large for a number at step {k + 1}; give it a cap")
        return value


class HasAt(Protocol):
    """A schedule of one's own: a frozen dataclass whose `at` depends on nothing but its fields, k and ids."""

    def at(self, k: int, ids: np.ndarray, /) -> Any:
        """The value of step k: one number, or one for each of the agents."""
        ...


class FrozenSchedule:
    """A function or an object of one's own, frozen: see `frozen`. It is known by a digest of the function's code, or by
    the object's fields."""

    def __init__(self, name: str, source: Callable[[int], Any] | HasAt, growing: bool) -> None:
        self._name, self._source, self._growing = name, source, growing
        self._given: dict[tuple[int, int], float] = {}
        if not hasattr(source, "at"):
            from tacit.core.function_digest import digest

            self._known_by = f"function {digest([source])}"  # refuses what has a state
        elif is_dataclass(source) and type(source).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            self._known_by = repr(source)
        else:
            raise InputError(f"{name}: a schedule with .at must be a frozen dataclass, not {type(source).__name__}")

    def __repr__(self) -> str:
        return self._known_by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenSchedule) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self._known_by)

    def __deepcopy__(self, memo: object) -> FrozenSchedule:
        return self

    def at(self, k: int, ids: np.ndarray) -> np.ndarray:
        """The value of step k for each of the agents, (n, 1), as it was given first."""
        for step in range(k + 1) if self._growing else (k,):
            if any((step, i) not in self._given for i in ids.tolist()):
                self._ask(step, ids)
        return np.array([[self._given[k, i]] for i in ids.tolist()])

    def _ask(self, k: int, ids: np.ndarray) -> None:
        value, again = self._asked(k, ids), self._asked(k, ids)
        if not np.array_equal(value, again):
            raise InputError(f"{self._name} at step {k + 1} is {value} once and {again} the next time")
        if not (np.all(value > 0) and np.all(np.isfinite(value))):
            raise InputError(f"{self._name} must be positive and finite, not {value} at step {k + 1}")
        for i, x in zip(ids.tolist(), value.tolist(), strict=True):
            if self._growing and x < self._given.get((k - 1, i), 0.0):
                raise InputError(f"{self._name} must not decrease from step to step, as it does at step {k + 1}")
            self._given.setdefault((k, i), x)

    def _asked(self, k: int, ids: np.ndarray) -> np.ndarray:
        if hasattr(self._source, "at"):
            value = np.asarray(self._source.at(k, ids), dtype=float).ravel()
            if value.size not in (1, len(ids)):
                raise InputError(f"{self._name} has {value.size} values at step {k + 1} for {len(ids)} agents")
            return np.broadcast_to(value, len(ids))
        return np.broadcast_to(of(self._source(k), ids)[:, 0], len(ids))


Hyper = float | Sequence[float] | np.ndarray | Geometric | Callable[[int], Any] | HasAt
_KINDS = "a number, a Geometric, a list, an array (steps,) or (steps, agents), a function of the step, or have .at"


def freeze(method: Any, *names: str, growing: Sequence[str] = ()) -> None:
    """Checks these fields of a (frozen) method and replaces each by what `frozen` makes of it; None stays."""
    for name in names:
        value = getattr(method, name)
        if value is not None:
            object.__setattr__(method, name, frozen(name, value, growing=name in growing))


def frozen(name: str, value: Hyper, *, growing: bool = False) -> Any:
    """The value as a number, a `Geometric`, an array of one's own or a `FrozenSchedule`. Refuses what is not positive
    and finite, has the wrong shape, or (if asked) ever decreases; of a function or an object, when it is asked."""
    if isinstance(value, Geometric):
        if growing and np.any(np.asarray(value.ratio, dtype=float) < 1):
            raise InputError(f"{name} must not decrease from step to step, as it does with a ratio of {value.ratio}")
        return value
    if isinstance(value, FrozenSchedule):
        return FrozenSchedule(name, value._source, growing)
    if callable(value) or hasattr(value, "at"):
        return FrozenSchedule(name, value, growing)
    try:
        x = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {_KINDS}, not {value!r}") from None
    if x.ndim > 2 or not x.size:
        raise InputError(f"{name} must be {_KINDS}, not of shape {x.shape}")
    if not (np.all(x > 0) and np.all(np.isfinite(x))):
        raise InputError(f"{name} must be positive and finite everywhere, not {value}")
    if growing and x.ndim and np.any(np.diff(x, axis=0) < 0):
        raise InputError(f"{name} must not decrease from step to step, as it does for some agent")
    x.setflags(write=False)
    return x if x.ndim else value


def checked(name: str, value: Hyper, *, growing: bool = False) -> None:
    """Refuses what `frozen` refuses, for methods that keep what they were given; `freeze` is better."""
    frozen(name, value, growing=growing)


def at(name: str, value: Hyper, k: int, ids: np.ndarray) -> np.ndarray:
    """The value at noisy step k for each of the agents, (n, 1)."""
    if callable(value) or (hasattr(value, "at") and not isinstance(value, Geometric | FrozenSchedule)):
        value = frozen(name, value)
    if isinstance(value, Geometric | FrozenSchedule):
        return np.broadcast_to(value.at(k, ids), (len(ids), 1))
    x = np.asarray(value, dtype=float)
    if x.ndim == 0:
        return np.full((len(ids), 1), float(x))
    if k >= len(x):
        raise InputError(f"{name} is given for {len(x)} noisy steps; the run needs step {k + 1}")
    if x.ndim == 1:
        return np.full((len(ids), 1), x[k])
    if ids.max(initial=0) >= x.shape[1]:
        raise InputError(f"{name} is given for {x.shape[1]} agents; there is an agent {ids.max()}")
    return x[k, ids][:, None]


def of(x: Any, ids: np.ndarray) -> np.ndarray:
    """One value for all agents or one for each, as a column for the agents `ids`."""
    values = np.asarray(x, dtype=float)
    if values.ndim == 0:
        return values.reshape(1, 1)
    if values.ndim != 1 or ids.max(initial=0) >= len(values):
        raise InputError(f"a schedule has one value for all agents or one for each, not {x}")
    return values[ids][:, None]


def each(name: str, value: Any) -> None:
    """Refuses what is neither one positive, finite number nor a tuple of those, one for each agent."""
    for x in value if isinstance(value, tuple) else (value,):
        number(name, x)


def fits_each(graph: Graph, name: str, value: Any) -> None:
    """Refuses a tuple for another number of agents than the graph has."""
    if isinstance(value, tuple) and len(value) != graph.agents:
        raise InputError(f"{name} is given for {len(value)} agents, the graph has {graph.agents}")


def fits(graph: Graph, **values: Hyper | None) -> None:
    """Refuses arrays for another number of agents than the graph has."""
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] != graph.agents:
            raise InputError(f"{name} is given for {value.shape[1]} agents, the graph has {graph.agents}")


def mixes(graph: Graph, mixing: float) -> None:
    """Refuses an averaging step f_i += mixing sum_j (f_j - f_i) so large that models diverge."""
    most = graph.degree.max(initial=0)
    if mixing * most > 2:
        raise InputError(
            f"a mixing of {mixing:g} makes models diverge where an agent has {most} neighbours: at most {2 / most:g}; "
            f"{graph.mixing:g} is best for this graph"
        )


def kinds(steps: np.ndarray, *values: Any) -> np.ndarray:
    """Which of these noisy steps k, (n,), have the same values of all these hyper-parameters for every agent, as
    numbers: equal ones for steps that are alike. Of a value that only a formula or a function gives, all differ.

    >>> kinds(np.array([0, 1, 2, 3]), 0.5, np.array([1.0, 1.0, 2.0, 1.0]), None).tolist()
    [0, 0, 1, 0]
    """
    return numbered(np.zeros(len(steps), dtype=int), *(_kinds(steps, value) for value in values))[0]


def _kinds(steps: np.ndarray, value: Any) -> np.ndarray:
    """The same of one of them."""
    if isinstance(value, Geometric):
        return _kinds_of_geometric(steps, value)
    if isinstance(value, FrozenSchedule):
        return steps
    if isinstance(value, tuple):  # of budgets
        known: dict[Event, int] = {}
        given = np.array([known.setdefault(budget, len(known)) for budget in value])
    elif np.ndim(value):
        given = numbered(*np.reshape(value, (len(value), -1)).T)[0]
    else:
        return np.zeros(len(steps), dtype=int)
    beyond = steps >= len(given)  # where there is no value, which the method refuses
    return np.where(beyond, steps, given[np.where(beyond, 0, steps)])


def _kinds_of_geometric(steps: np.ndarray, value: Geometric) -> np.ndarray:
    """Steps differ until all agents have reached the cap, by more than rounding."""
    first, ratio = np.asarray(value.first, dtype=float), np.asarray(value.ratio, dtype=float)
    if np.all(ratio == 1):
        return np.zeros(len(steps), dtype=int)
    if value.cap is None or np.any(ratio < 1) or not len(steps):
        return steps
    with np.errstate(over="ignore", divide="ignore"):
        needed = np.where(first >= value.cap * 1.001, 0, np.log(value.cap * 1.001 / first) / np.log(ratio))
    return np.minimum(steps, np.ceil(min(np.max(needed), steps.max())).astype(int))


Budgets = Budget | tuple[Budget, ...]  # of every noisy step, or one for each


def budget_at(budget: Any, k: int) -> Any:
    """What noisy step k may cost.

    >>> budget_at(Gaussian(2.0), 7), budget_at((Gaussian(2.0), Gaussian(1.0)), 1)
    (Gaussian(multiplier=2.0), Gaussian(multiplier=1.0))
    """
    if not isinstance(budget, tuple):
        return budget
    if k >= len(budget):
        raise InputError(f"a budget is given for {len(budget)} noisy steps; the run needs step {k + 1}")
    return budget[k]


def is_budget(budget: Any, kinds: Any) -> bool:
    """Whether it is an event of these kinds, or a tuple of them."""
    each = budget if isinstance(budget, tuple) else (budget,)
    return len(each) > 0 and all(isinstance(one, kinds) for one in each)


def noise_checked(
    alpha: Hyper | None, budget: Budgets | None, as_printed: bool = False, name: str = "alpha", *, varies: bool = False
) -> None:
    """Refuses two ways of stating the noise at once, and budgets that are none; `varies` allows one for each step."""
    if as_printed and budget is not None:
        raise InputError("the printed versions take no budget; give them the paper's alpha")
    if alpha is not None and budget is not None:
        raise InputError(f"say how private a step is by {name} or by budget, not by both")
    if alpha is not None:
        checked(name, alpha)
    if budget is not None and not (is_budget(budget, Pure | Gaussian) and (varies or not isinstance(budget, tuple))):
        several = ", or a tuple with one for each noisy step" if varies else ""
        raise InputError(f"a step's budget is Pure(epsilon) or Gaussian(multiplier){several}, not {budget!r}")


def paper_noise(method: str, alpha: Hyper | None, k: int, ids: np.ndarray) -> np.ndarray:
    """alpha at step k, (n, 1), for a bound that the paper states in it."""
    if alpha is None:
        raise InputError(f"the paper's bound for {method} is stated in alpha, which is not given")
    return at("alpha", alpha, k, ids)


def jacobian_condition(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """Whether 2 c1 < B_i/C mu_i, (n, 1): the papers' 1.4 in place of -ln(1 - x)/x is a bound only up to x = 1/2. Of
    several classes they prove nothing: there a record's Hessian is not of rank one."""
    if isinstance(problem.loss, Multinomial):
        return np.zeros_like(mu, dtype=bool)
    return np.asarray(2 * problem.loss.max_curvature * problem.row_weight < mu)
