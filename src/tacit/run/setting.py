"""A run with all its numbers. Whichever front asked for it, it is planned, paid for and simulated here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tacit.algorithms.averaged import Averaged
from tacit.core.algorithm import Algorithm, traits
from tacit.core.alike import distinct
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Loss
from tacit.core.multinomial import Multinomial
from tacit.core.problem import ROUNDING, Problem
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.privacy.coalitions import Guarantee, guarantee
from tacit.privacy.events import Event
from tacit.privacy.noise import Noise
from tacit.privacy.plan import Plan, plan
from tacit.run.share import NoisyShare, noisy_share, share_event
from tacit.run.spec import RunSpec
from tacit.run.spending import paid, require_as_planned, worst
from tacit.run.trust import Reserve
from tacit.simulation.result import Run
from tacit.simulation.simulate import simulate

if TYPE_CHECKING:
    from tacit.engines import Ray
    from tacit.privacy.ledger import About
    from tacit.run.recipes import Recipe

NOISE = ("alpha", "beta", "budget", "deviation")  # fields of methods that say how much noise there is
Parts = Sequence[tuple[Any, Any]]  # rows and labels of each member
_FAR = 2.0**12  # how far from zero a lying member goes where exact values are exchanged


class Liars(Protocol):
    """Members of a simulation that lie."""

    @property
    def honest(self) -> np.ndarray: ...
    def against(self, schedule: Any, radius: float, robust: str | None) -> Any: ...


@dataclass(frozen=True)
class Done:
    """What a simulation of a setting gives."""

    setting: Setting  # with the share of positives, if one was measured
    run: Run
    weights: np.ndarray  # of the model; where members lie, the honest members' mean
    count: NoisyShare | None

    @property
    def leaves(self) -> bytes:
        """What leaves of it, for a ledger."""
        offset = np.asarray(self.setting.facts.loss.offset)
        return json.dumps({"weights": self.run.model.tolist(), "offset": offset.tolist()}).encode()

    @property
    def messages(self) -> int:
        """Of the run, and of the count."""
        return int(self.run.history["messages"][-1]) + (0 if self.count is None else self.count.messages)


@dataclass(frozen=True)
class Setting:
    """A spec, and what is public of the problem that it is for."""

    spec: RunSpec
    facts: Facts
    recipe: Recipe | None = None  # that chose the numbers, if one did
    row_norm: float = 1.0  # no record that can be encoded is longer

    @classmethod
    def of(cls, spec: RunSpec, sizes: Sequence[int] | np.ndarray, dimension: int, row_norm: float = 1.0) -> Setting:
        """For members with these numbers of rows, none longer than `row_norm`, and models of this dimension. Refuses a
        run that costs more than its budget."""
        found = cls(spec, spec.facts(sizes, dimension), row_norm=row_norm)
        found.check()
        return found

    @property
    def name(self) -> str:
        """Of the method."""
        return self.spec.name

    @property
    def algorithm(self) -> Algorithm:
        """The method, with all its parameters."""
        return self.spec.method

    @property
    def rounds(self) -> int:
        """How many ticks there are."""
        return self.spec.rounds

    @property
    def graph(self) -> Graph:
        """Who talks to whom."""
        return self.spec.graph

    @property
    def draws(self) -> bool:
        """Whether agents draw random numbers."""
        return traits(self.algorithm).draws(self.algorithm)

    @cached_property
    def plan(self) -> Plan:
        """What every release will cost."""
        return plan(self.algorithm, self.facts, self.graph, self.rounds)

    @property
    def before(self) -> tuple[Event, ...]:
        """What a noisy count of the positives costs, if there is one."""
        budget = self.spec.budget
        return (share_event(budget.epsilon, budget.delta),) if self.spec.count and budget is not None else ()

    @property
    def events(self) -> list[Event]:
        """What it will cost, at most, for a record of any member: what a ledger is asked for."""
        return [*self.before, *worst(self.plan.events)]

    def guarantee(self, delta: float, spent: Sequence[Mapping[Event, int]] | None = None) -> Guarantee:
        """What the plan costs, or what was spent, against coalitions of every size."""
        every = distinct(self.plan.spent if spent is None else spent)
        each = [Counter(counter) + Counter(self.before) for counter in every]
        connectivity = None if self.spec.trust.reserve is None else self.graph.connectivity
        return guarantee(each, delta, members=self.graph.agents, connectivity=connectivity)

    def check(self) -> None:
        """Refuses a run that costs more than its budget, and one that trusts others than its method does."""
        check_trust(self.spec)
        budget = self.spec.budget
        if budget is not None or any(getattr(self.algorithm, name, None) is not None for name in NOISE):
            check_classes(self.name, self.algorithm, self.facts.loss)
        if budget is None:
            return
        budget.check(int(self.facts.sizes.sum()))
        if self.row_norm > (most := _row_norm(self.algorithm)) * (1 + ROUNDING):
            raise InputError(
                f"the noise is for rows of norm {most:g} at most, and there may be rows of norm {self.row_norm:g}: "
                "whether one is longer would show when the run stops at it; raise row_norm of the method to that"
            )
        # A member that drops out leaves a tick in doubt, which is said once more: the budget pays for that, too.
        more = self.spec.trust.dropouts
        longer = self if not more else replace(self, spec=replace(self.spec, rounds=self.rounds + more))
        cost = longer.guarantee(budget.delta).epsilon
        if not cost <= budget.epsilon:
            raise InputError(
                f"the run costs epsilon = {cost:.10g} at delta = {budget.delta:g}, and its budget is "
                f"{budget.epsilon:g}: give it more noise, or fewer rounds"
            )

    def pay(self, ledger: Any, about: About | None) -> AbstractContextManager[Callable[[bytes], None]]:
        """Pays before any noise is drawn (`tacit.run.spending.paid`)."""
        return paid(ledger, about, self.events if ledger is not None else [])

    def problem(self, parts: Parts, solved: float | None = None) -> Problem:
        """The problem that the members solve together, with their records; `solved` is the gradient norm to which."""
        facts = self.facts
        more = {} if solved is None else {"tolerance": solved}
        return Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius, **more)

    def simulate(
        self,
        parts: Parts,
        noise: Noise | None,
        *,
        hostile: Any = None,
        engine: Ray | None = None,
        solved: float | None = None,
        prepared: Callable[[int], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Done:
        """Runs it on records. Refuses a result that cost anything else than was planned.

        parts : rows and labels of each member
        noise : where the noise comes from; None for a method that draws none
        hostile : members that lie
        engine : where the agents are, if not in this process
        solved : the gradient norm to which the members' own problems are solved
        prepared : called with the number of ticks when the settings are known
        progress : called after each tick, with the number of ticks done
        """
        setting, count = self, None
        if self.spec.count:
            budget = self.spec.budget
            assert budget is not None
            assert noise is not None
            count = noisy_share([y for _, y in parts], self.graph, budget.epsilon, budget.delta, noise)
            setting = self.centred(count.share)
        if prepared is not None:
            prepared(setting.rounds)
        robust, every = setting.spec.trust.robust, setting.ticks_a_round
        if hostile is not None:
            far = _FAR if self.spec.budget is None else setting.facts.radius
            hostile = hostile.against(setting.algorithm.schedule(self.graph), far, robust)
            parts = hostile.parts(parts)
        tolerance = setting.spec.tolerance
        run = simulate(
            setting.algorithm,
            setting.problem(parts, solved),
            self.graph,
            rounds=setting.rounds,
            tolerance=tolerance,
            # What is measured on the way is not protected, and a private run does not use it.
            measure_every=setting.rounds if setting.spec.budget is not None else every,
            noise=noise,
            robust=robust,
            exchange=hostile,
            engine=engine,
            progress=progress,
        )
        if setting.spec.budget is not None:
            require_as_planned(run.spent, setting.plan.spent)
            require_as_planned(run.spent, self.plan.spent)
        weights = run.model if hostile is None else run.estimate[hostile.honest].mean(axis=0)
        return Done(setting, run, weights, count)

    def centred(self, share: float) -> Setting:
        """The same for a measured share of positives."""
        assert isinstance(self.spec.loss, HuberHinge)
        loss, spec, facts = self.spec.loss.centred(share), self.spec, self.facts
        if self.recipe is not None:
            assert spec.budget is not None
            recipe, known = replace(self.recipe, loss=loss), (facts.sizes, facts.dimension, self.graph)
            return recipe.setting(*known, spec.budget, spec.trust, count=spec.count, schema=spec.schema)
        spec = replace(spec, loss=loss)
        return replace(self, spec=spec, facts=spec.facts(facts.sizes, facts.dimension))

    @property
    def ticks_a_round(self) -> int:
        """How many ticks make a round: one if all agents speak at once; one for each agent if they hand on a token."""
        return ticks_a_round(self.algorithm, self.graph)

    @property
    def full_rounds(self) -> int:
        """How many rounds it has: in each of them every agent speaks once."""
        method = self.algorithm
        if isinstance(method, Averaged):
            noisy = method.ticks // ticks_a_round(method.method, self.graph)
            return noisy + self.rounds - method.ticks
        return self.rounds // self.ticks_a_round


def reserve_of(algorithm: Any) -> Reserve | None:
    """Whose share of the noise a method does not count on; None if its members do not share noise."""
    shared = traits(algorithm).totals and algorithm.deviation is not None
    return Reserve(algorithm.colluders, algorithm.dropouts) if shared else None


def _row_norm(algorithm: Any) -> float:
    """How long the rows are that the proof of a method's noise allows: 1, unless it says another number."""
    if isinstance(algorithm, Averaged):
        algorithm = algorithm.method
    return float(getattr(algorithm, "row_norm", 1.0))


def check_trust(spec: RunSpec) -> None:
    """Refuses members that trust others than their method does, or on a graph that does not allow it; and robust
    listening where they hear no rows that they could compare: else the simulation would, when it is paid for."""
    spec.trust.check(spec.graph)
    reserve = reserve_of(spec.method)
    if reserve != spec.trust.reserve:
        raise InputError(
            "its members do not share their noise: leave out colluders and dropouts"
            if reserve is None
            else f"the method shares its noise for colluders = {reserve.colluders} and dropouts = {reserve.dropouts}: "
            "say the same in trust"
        )
    if spec.trust.robust is None:
        return
    if traits(spec.method).totals or not isinstance(spec.method.schedule(spec.graph), Broadcast):
        raise InputError("robust listening compares rows: it is for methods in which all members speak at once")


def check_classes(name: str, method: Algorithm | type, loss: Loss) -> None:
    """Refuses several classes for a method whose proof is about two."""
    if isinstance(loss, Multinomial) and not traits(method).multiclass:
        from tacit.run.recipes import RECIPES  # which imports this module

        able = ", ".join(each for each, recipe in RECIPES.items() if recipe.traits.multiclass)
        raise InputError(
            f"{name}: its privacy proof does not cover a label of {loss.classes} classes; take one of: {able}"
        )


def ticks_a_round(algorithm: Algorithm, graph: Graph) -> int:
    """How many ticks make a round: one if all agents speak at once; one for each agent if they hand on a token."""
    return -(-graph.agents // len(algorithm.schedule(graph).turn(1).speakers))
