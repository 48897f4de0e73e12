"""Hyper-parameters that change from step to step and from agent to agent.

A method takes a number, a `Geometric`, or an array of shape (noisy steps, agents) that it reads row by row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.errors import number as number  # a hyper-parameter that stays the same, for methods of others, too
from tacit.privacy.events import Gaussian, Pure
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
            x = np.asarray(1.0 if name == "cap" and value is None else value, dtype=float)
            if not (np.all(x > 0) and np.all(np.isfinite(x))):
                raise InputError(f"a geometric schedule needs a positive, finite {name}, not {value}")

    def at(self, k: int, ids: np.ndarray) -> np.ndarray:
        """The value of step k for each of the agents, (n, 1)."""
        first, ratio = (of(x, ids) for x in (self.first, self.ratio))
        with np.errstate(over="ignore"):
            value = np.minimum(first * ratio**k, np.inf if self.cap is None else self.cap)
        if not np.all(np.isfinite(value)):
            raise InputError(f"{self} is too large for a number at step {k + 1}; give it a cap")
        return value


Hyper = float | np.ndarray | Geometric


def checked(name: str, value: Hyper, *, growing: bool = False) -> None:
    """Refuses what is not positive and finite, has the wrong shape, or (if asked) ever decreases."""
    if isinstance(value, Geometric):
        if growing and np.any(np.asarray(value.ratio, dtype=float) < 1):
            raise InputError(f"{name} must not decrease from step to step, as it does with a ratio of {value.ratio}")
        return
    try:
        x = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, a Geometric, or an array (steps, agents), not {value!r}") from None
    if x.ndim not in (0, 2):
        raise InputError(f"{name} must be a number or an array (noisy steps, agents), not of shape {x.shape}")
    if not (np.all(x > 0) and np.all(np.isfinite(x))):
        raise InputError(f"{name} must be positive and finite everywhere, not {value}")
    if growing and x.ndim == 2 and np.any(np.diff(x, axis=0) < 0):
        raise InputError(f"{name} must not decrease from step to step, as it does for some agent")


def at(name: str, value: Hyper, k: int, ids: np.ndarray) -> np.ndarray:
    """The value at noisy step k for each of the agents, (n, 1)."""
    if isinstance(value, Geometric):
        return np.broadcast_to(value.at(k, ids), (len(ids), 1))
    x = np.asarray(value, dtype=float)
    if x.ndim == 0:
        return np.full((len(ids), 1), float(x))
    if k >= len(x):
        raise InputError(f"{name} is given for {len(x)} noisy steps; the run needs step {k + 1}")
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


def noise_checked(alpha: Hyper | None, budget: Budget | None, as_printed: bool = False, name: str = "alpha") -> None:
    """Refuses two ways of stating the noise at once, and bad values of either."""
    if as_printed and budget is not None:
        raise InputError("the printed versions take no budget; give them the paper's alpha")
    if alpha is not None and budget is not None:
        raise InputError(f"say how private a step is by {name} or by budget, not by both")
    if alpha is not None:
        checked(name, alpha)
    if budget is not None and not isinstance(budget, Pure | Gaussian):
        raise InputError(f"a step's budget is Pure(epsilon) or Gaussian(multiplier), not {budget!r}")


def paper_noise(method: str, alpha: Hyper | None, k: int, ids: np.ndarray) -> np.ndarray:
    """alpha at step k, (n, 1), for a bound that the paper states in it."""
    if alpha is None:
        raise InputError(f"the paper's bound for {method} is stated in alpha, which is not given")
    return at("alpha", alpha, k, ids)


def jacobian_condition(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """Whether 2 c1 < B_i/C mu_i, (n, 1): the papers' 1.4 in place of -ln(1 - x)/x is a bound only up to x = 1/2."""
    return np.asarray(2 * problem.loss.max_curvature * problem.row_weight < mu)
