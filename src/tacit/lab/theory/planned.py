"""What a theorem is told about a plan, and what a theorem is here: a statement about some methods, with its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.core.graph import Graph
from tacit.core.multinomial import Multinomial
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.lab.theory.design import Measured

_MOST_AGENTS = 100  # for matrices with a row and a column for each agent


class Aim(NamedTuple):
    """Be within `accuracy` of the loss of a reference model, with probability 1 - `failure`.

    The loss is the mean loss of a record, without the scale C and without l2. Theorems that bound another quantity
    convert: one that bounds C times the loss is asked for C times the accuracy.
    """

    reference: float = 10.0  # the norm of the reference model; of the optimum, where a theorem starts from zero
    accuracy: float = 0.1
    failure: float = 0.05

    @property
    def in_words(self) -> str:
        """The promise, as a sentence."""
        return (
            f"to be within {self.accuracy:g} of the loss of a reference of norm {self.reference:g} with probability "
            f"{1 - self.failure:g}"
        )


_USUAL = Aim()


@dataclass(frozen=True)
class Planned:
    """A run that has been planned, and what is asked of it."""

    method: Any
    facts: Problem  # what is public of the problem: `Facts`, or the problem itself
    graph: Graph
    rounds: int
    aim: Aim = _USUAL
    total: tuple[float, float] | None = None  # epsilon and delta of the whole run, if they are given
    measured: Measured | None = None  # losses that were measured at some alphas

    def needs_two_classes(self) -> None:
        """Refuses what the theorems on sample sizes do not cover: they assume labels -1 and +1, and |L'| <= 1."""
        loss = self.facts.loss
        if isinstance(loss, Multinomial) or loss.numbers:
            raise InputError("it is about labels of two classes")
        if loss.max_slope > 1:
            raise InputError(f"it assumes that the slope of the loss is at most 1, not {loss.max_slope:g}")

    def needs_few_agents(self) -> None:
        """Refuses networks whose matrices are too large to try many of."""
        if self.graph.agents > _MOST_AGENTS:
            raise InputError(f"its matrices are computed for at most {_MOST_AGENTS} agents, not {self.graph.agents:,}")

    def needs_complete(self) -> None:
        """Refuses graphs on which some agents do not hear each other."""
        if self.graph.agents > 1 and self.graph.degree.min() < self.graph.agents - 1:
            raise InputError("it is about a complete graph; give --graph complete")

    def at(self, name: str, step: int) -> np.ndarray:
        """The hyper-parameter of that name at a step, (agents,)."""
        return hyper.at(name, getattr(self.method, name), step, np.arange(self.graph.agents))[:, 0]

    def extreme(self, name: str, steps: int, choose: Callable[..., Any]) -> np.ndarray:
        """The extreme of a hyper-parameter over the steps, for each agent: `choose` is np.min or np.max."""
        if isinstance(getattr(self.method, name), int | float):  # the same at every step
            steps = 1
        return np.asarray(choose(np.stack([self.at(name, k) for k in range(steps)]), axis=0))

    def noise(self, steps: int) -> np.ndarray:
        """The least alpha of each agent, by which the papers state the noise of a step."""
        if self.method.alpha is None:
            raise InputError("it is about the noise of the paper, which alpha states: set it, as in alpha=1")
        return self.extreme("alpha", steps, np.min)


@dataclass(frozen=True)
class Theorem:
    """A statement of a paper that can be computed for a plan."""

    paper: str  # as `tacit reproduce` calls it
    number: str
    about: tuple[type, ...]  # exactly these classes: one that is derived from them may do something else
    say: Callable[[Planned], str]  # an `InputError` where it says nothing about this plan
    when: Callable[[Any], bool] = lambda method: True  # the settings of the method that it is about
    of_a_run: tuple[Callable[..., Any], ...] = ()  # what it says of the states of a run, to be computed from Python


def raised_in_words(planned: Planned, raised: Callable[..., float], *agents: dict[str, Any]) -> str:
    """By how much the noise of one step raises the objective, in the unit of the loss, for the agent with the most.

    planned, raised : the plan, and one of the lemmas of `tacit.lab.theory.excess`
    agents : what it is told of each agent, with its C as `unit`
    """
    failure = planned.aim.failure
    stated, exact = (
        max(
            raised(**{k: v for k, v in each.items() if k != "unit"}, delta=failure, exact=exact) / each["unit"]
            for each in agents
        )
        for exact in (False, True)
    )
    return (
        f"the noise of one step raises the objective by at most {stated:.4g} in the unit of the loss with probability "
        f"{1 - failure:g}, and by at most {exact:.4g} by the exact law of its norm"
    )


def rows_in_words(rows: float, planned: Planned, what: str = "") -> str:
    """A sample size, with the promise that it keeps. The promise is about the limit of the iterations: Delta is not
    known before a run."""
    kept = f"{planned.aim.in_words}, and as much farther as the iterate is from its limit"
    return f"{rows:,.0f} rows times an unknown constant{what}, {kept}"
