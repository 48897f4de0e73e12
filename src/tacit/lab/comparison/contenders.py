"""Lines of a comparison that are no recipes: your own methods, runs as data, and exact values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.data import Label, Schema
from tacit.errors import InputError, whole
from tacit.lab.comparison.lines import Line
from tacit.privacy.events import Gaussian
from tacit.privacy.plan import calibrate, plan
from tacit.run.budget import Budget
from tacit.run.exact import ALGORITHMS, L2
from tacit.run.label_losses import exact_loss
from tacit.run.recipes import RECIPES
from tacit.run.request import Request, specified
from tacit.run.setting import Setting
from tacit.run.spec import RunSpec

_PRIVATE_L2 = 1e-5  # of private methods; their noise asks for no more


@dataclass(frozen=True)
class Contender:
    """A method for `tacit.compare`: an instance of any algorithm, or a function that makes one.

        name       what the table calls it
        algorithm  an instance, which runs as it is, and the table says what that costs; or what `tacit.calibrate`
                   takes, a function from the budget of a noisy step to an instance: then it gets the noise with which
                   it costs as much as the comparison allows
        rounds     how many ticks of its schedule the run has, as in `tacit.simulate`

    >>> from tacit.algorithms import PrimalPerturbedADMM
    >>> mine = Contender("mine", lambda budget: PrimalPerturbedADMM(penalty=1.0, budget=budget), rounds=20)
    """

    name: str
    algorithm: Algorithm | Callable[[Gaussian], Algorithm]
    rounds: int

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1)
        if not (hasattr(self.algorithm, "speak") or callable(self.algorithm)) or isinstance(self.algorithm, type):
            raise InputError(
                f"{self.name}: algorithm is an instance of a method, or a function from a budget to one; not "
                f"{self.algorithm!r}"
            )

    @property
    def title(self) -> str:
        """Which class it is of, if that is known before a budget is."""
        return type(self.algorithm).__name__ if hasattr(self.algorithm, "speak") else "made for the budget"

    def made(self, facts: Problem, graph: Graph, budget: Budget | None) -> Algorithm:
        """The instance that runs on such a problem."""
        made: Any = self.algorithm
        if hasattr(made, "speak"):
            return made
        if budget is None:
            raise InputError(f"{self.name} is made for a budget: give epsilon, or give an instance as it is")
        return calibrate(made, facts, graph, self.rounds, epsilon=budget.epsilon, delta=budget.delta)


@dataclass(frozen=True, kw_only=True)
class OwnMethod(Line):
    """A contender as a line of a comparison on records."""

    contender: Contender

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """It minimises what the built-in methods of its kind do, private or exact."""
        loss, rounds, dimension = RECIPES["pvp"].loss_for(schema.label), self.contender.rounds, schema.model_dimension
        private = Facts(sizes=sizes, dimension=dimension, loss=loss, scale=_even(sizes), l2=_PRIVATE_L2)
        made = self.contender.made(private, self.graph, self.budget)
        spec = RunSpec(made, rounds, loss, self.graph, _PRIVATE_L2, trust=self.trust)
        if not math.isfinite(plan(made, private, self.graph, rounds).epsilon(self.delta)):
            spec = replace(spec, loss=exact_loss(None, schema.label), l2=L2)
        return Setting(spec, spec.facts(sizes, dimension))


@dataclass(frozen=True, kw_only=True)
class ExactMethod(Line):
    """A method that exchanges exact values, with the settings of `tacit train`, on records."""

    name: str

    def suits(self, label: Label) -> bool:
        """Members that listen robustly need more than one message."""
        return not (self.trust.robust and ALGORITHMS[self.name].traits.token)

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """Until the agents agree, or for the usual number of rounds."""
        asked, norm = Request(method=self.name, trust=self.trust), schema.longest_row
        return asked.resolved(schema.label, sizes, schema.model_dimension, self.graph, row_norm=norm)


def run_name(spec: RunSpec) -> str:
    """Of a run as data: the kind of its method and the beginning of its digest."""
    return f"{spec.name} {spec.digest[:8]}"


@dataclass(frozen=True, kw_only=True)
class Specified(Line):
    """A run that is given as data, on records."""

    spec: RunSpec

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """The setting that the spec describes."""
        norm, digest = schema.longest_row, schema.digest
        return specified(self.spec, schema.label, sizes, schema.model_dimension, digest, norm)


def _even(sizes: tuple[int, ...]) -> np.ndarray:
    rows = np.array(sizes)
    return np.asarray(rows / rows.mean())
