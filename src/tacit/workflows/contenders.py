"""Methods for a comparison that are no recipes: your own, and those that exchange exact values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.core.problem import Problem
from tacit.data import Label, Schema
from tacit.errors import InputError, whole
from tacit.privacy.events import Gaussian
from tacit.privacy.plan import Facts, calibrate, plan
from tacit.workflows.comparison import TRUSTING, Outcome, Trial, Trust, run_setting
from tacit.workflows.exact import ALGORITHMS, L2, ROUNDS, TOLERANCE, usual_penalty
from tacit.workflows.losses import exact_loss
from tacit.workflows.recipes import RECIPES, Reserve, Setting
from tacit.workflows.training import ticks_a_round

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

    def made(self, facts: Problem, graph: Graph, epsilon: float | None, delta: float) -> Algorithm:
        """The instance that runs on such a problem."""
        made: Any = self.algorithm
        if hasattr(made, "speak"):
            return made
        if epsilon is None:
            raise InputError(f"{self.name} is made for a budget: give epsilon, or give an instance as it is")
        return calibrate(made, facts, graph, self.rounds, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class Own:
    """A contender as a line of a comparison on records."""

    contender: Contender
    graph: Graph
    epsilon: float | None
    delta: float
    trust: Trust = TRUSTING
    pooled: bool = False
    reserve: Reserve | None = None

    @property
    def title(self) -> str:
        """Which class it is of, if that is known before a budget is."""
        made = self.contender.algorithm
        return type(made).__name__ if hasattr(made, "speak") else "made for the budget"

    def suits(self, label: Label) -> bool:
        """It says itself what it refuses."""
        return True

    def sizes(self, trial: Trial) -> tuple[int, ...]:
        """How many rows each agent has."""
        return trial.sizes

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """It minimises what the built-in methods of its kind do, private or exact."""
        private = _facts(sizes, schema, RECIPES["pvp"].loss_for(schema.label), _PRIVATE_L2)
        made, rounds = self.contender.made(private, self.graph, self.epsilon, self.delta), self.contender.rounds
        if math.isfinite(plan(made, private, self.graph, rounds).epsilon(self.delta)):
            return Setting(made, rounds, private)
        return Setting(made, rounds, _facts(sizes, schema, exact_loss(None, schema.label), L2))

    def run(self, trial: Trial, setting: Setting | None) -> Outcome:
        """One run."""
        assert setting is not None
        return run_setting(trial, self.graph, setting, self.delta, trust=self.trust)


@dataclass(frozen=True)
class ExactLine:
    """A method that exchanges exact values, with the settings of `tacit train`, on records."""

    name: str
    graph: Graph
    delta: float
    trust: Trust = TRUSTING
    pooled: bool = False
    reserve: Reserve | None = None

    @property
    def title(self) -> str:
        """In words."""
        return f"{ALGORITHMS[self.name].title}, no privacy"

    def suits(self, label: Label) -> bool:
        """Members that listen robustly need more than one message."""
        return not (self.trust.robust and ALGORITHMS[self.name].token)

    def sizes(self, trial: Trial) -> tuple[int, ...]:
        """How many rows each agent has."""
        return trial.sizes

    def setting(self, sizes: tuple[int, ...], schema: Schema) -> Setting:
        """Until the agents agree, or for the usual number of rounds."""
        loss = exact_loss(None, schema.label)
        penalty = usual_penalty(self.name, loss, l2=L2, row_norm=schema.longest_row, sizes=sizes)
        made = ALGORITHMS[self.name].make(penalty, self.graph)
        return Setting(made, ROUNDS * ticks_a_round(made, self.graph), _facts(sizes, schema, loss, L2))

    def run(self, trial: Trial, setting: Setting | None) -> Outcome:
        """One run."""
        assert setting is not None
        with as_usual():
            return run_setting(trial, self.graph, setting, self.delta, trust=self.trust, tolerance=TOLERANCE)


@contextmanager
def as_usual() -> Iterator[None]:
    """Without warnings that a theorem's conditions do not hold: the default penalty works without them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _facts(sizes: tuple[int, ...], schema: Schema, loss: Loss, l2: float) -> Facts:
    rows = np.array(sizes)
    return Facts(sizes=rows, dimension=schema.model_dimension, loss=loss, scale=rows / rows.mean(), l2=l2)
