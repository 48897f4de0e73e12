"""The noise for a cost that is given: the largest budget of a step with which the whole run keeps the total."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.privacy.accounting import gaussian_steps, largest_parameter, totals
from tacit.privacy.events import Event, Gaussian, Pure
from tacit.privacy.laws import Budget, BudgetTooSmall
from tacit.privacy.plan.planner import Planner
from tacit.privacy.sensitivity import NoRoom
from tacit.simulation.spent import shared

Method = TypeVar("Method", bound=Algorithm)

_TINY_BUDGET = 1e-12  # so small that the noise adds nothing to the cost
_APART = (
    "what is paid apart from it, such as the curvature of the loss, costs more (noise on the output, "
    'noise_on="output" of recycled ADMM, does not pay for that)'
)


class CannotKeep(InputError):  # noqa: N818 (a state of affairs, not a mistake)
    """No noise of the given law keeps the total."""


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
    >>> from tacit.core.facts import Facts
    >>> from tacit.privacy.plan import plan
    >>> facts = Facts(sizes=[8000] * 3, dimension=10, l2=0.1)
    >>> best = calibrate(lambda b: RecycledADMM(budget=b), facts, Graph.ring(3), 20, epsilon=1.0, delta=1e-5)
    >>> 0.99 < plan(best, facts, Graph.ring(3), 20).epsilon(1e-5) <= 1.0
    True
    """
    return make(
        largest_budget(make, facts, graph, rounds, epsilon=epsilon, delta=delta, law=law, before=before, shape=shape)
    )


def largest_budget(
    make: Callable[[Any], Algorithm],
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

    budget, planner = _budgets(law, shape), Planner(facts, graph, rounds)

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
            f"no noise keeps the total at or below epsilon = {epsilon:g}: {_APART}; raise l2, the penalty, the number "
            "of rows or epsilon"
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
            f"no noise that doubles can carry keeps the total at or below epsilon = {epsilon:g}: {_APART}; or {refusal}"
        ) from None
    return best


def _budgets(
    law: type[Pure] | type[Gaussian], shape: Sequence[float] | np.ndarray | None
) -> Callable[[float], Budget | tuple[Budget, ...]]:
    """The budgets among which the largest is searched: a larger number costs more."""
    if law not in (Pure, Gaussian):
        raise InputError(f"the law of the noise is Pure or Gaussian, not {law!r}")

    def one(p: float) -> Budget:
        return Pure(p) if law is Pure else Gaussian(1 / p)

    if shape is None:
        return one
    weights = _shape(shape)
    return lambda p: tuple(one(p / weight) for weight in weights)


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
