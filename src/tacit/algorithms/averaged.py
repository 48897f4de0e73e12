"""A private method, and after its last tick some rounds in which the agents average their models."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.consensus import mixed
from tacit.core.algorithm import Algorithm, Traits, always, never
from tacit.core.algorithm import kinds as declared
from tacit.core.algorithm import traits as traits_of
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast, Schedule, Then
from tacit.errors import InputError, whole
from tacit.privacy.mechanisms import post_processed
from tacit.privacy.noise import Noise


@lru_cache
def _state(fields: tuple[str, ...]) -> Any:
    return namedtuple("State", fields)


@dataclass(frozen=True, kw_only=True)
class Averaged:
    """`method` for its first `ticks` ticks; from then on the agents average the models that it has left them with:

        f_i(t+1) = f_i(t) + mixing sum_j (f_j(t) - f_i(t))

    A private method ends with a different model at every agent, since each has noise of its own. The mean of them has
    less noise than any, and everybody should write the same model. A private method's estimate is a function of
    released values, so averaging it is post-processing: it costs messages, and no privacy. After k rounds the models
    lie within c^k of their distance from the mean at the beginning, c being the graph's (`Graph.mixing_rounds`).

    Only methods that declare this are taken (`Traits.released`), with a budget: what another one calls its estimate may
    never have been released. The rate is that of plain listening; members that listen robustly agree less exactly.
    """

    method: Algorithm
    ticks: int
    mixing: float
    name: str = field(init=False)  # of the method's class: parameters alone do not tell two methods apart

    def __post_init__(self) -> None:
        whole("ticks", self.ticks, 1)
        hyper.number("mixing", self.mixing, zero=True)
        if isinstance(self.method, Averaged):
            raise InputError("averaging at the end is once: give the method that is averaged, with more rounds")
        if isinstance(self.method, type) or not traits_of(self.method).released or self.budget is None:
            raise InputError(
                "averaging at the end is for a method with a budget that declares its estimate to be made of released "
                f"values alone, not for {self.method!r}"
            )
        object.__setattr__(self, "name", type(self.method).__name__)

    @property
    def traits(self) -> Traits:
        """Those of the method. The average adds up rows, and draws nothing; all noise is that of a budget."""
        own = traits_of(self.method)
        return replace(own, draws=always, sums=lambda _: own.sums(self.method), strides=never, paper_bound=never)

    @property
    def budget(self) -> Any:
        """What a noisy step of the method may cost."""
        return self.method.budget  # type: ignore[attr-defined]

    def schedule(self, graph: Graph) -> Schedule:
        """That of the method; then everybody speaks to all neighbours."""
        hyper.mixes(graph, self.mixing)
        first = self.method.schedule(graph)
        return first if isinstance(first, Broadcast) else Then(first, self.ticks, Broadcast(graph))

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray | None:
        """Those of the method, if it declares them; and all ticks of the average."""
        own = declared(self.method, problem, min(self.ticks, rounds))
        if own is None:
            return None
        return np.append(own, np.full(rounds - len(own), own.max(initial=0) + 1))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> Any:
        """The method's state, and two more fields of the average."""
        s = self.method.init(problem, view, start, heard)
        return _state((*s._fields, "average", "average_spread"))(
            *s, self.method.estimate(s), np.full((len(start), 1), np.nan)
        )

    def speak(self, s: Any, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[Any, Release]:
        """What the method says; then the average so far."""
        if t >= self.ticks:
            return s, post_processed(s.average)
        inner, release = self.method.speak(self._inner(s), problem, view, noise, t)
        return self._with(s, inner), release

    def listen(self, s: Any, inbox: Inbox, view: View, t: int) -> Any:
        """The method listens; then a step towards the neighbours' mean."""
        if t < self.ticks:
            return self._with(s, self.method.listen(self._inner(s), inbox, view, t))
        average, spread = mixed(s.average, inbox, view.degree, self.mixing)
        return s._replace(average=average, average_spread=spread)

    def estimate(self, s: Any) -> np.ndarray:
        """The average so far: a function of released values."""
        return np.asarray(s.average)

    def residuals(self, s: Any, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Disagreement: the method's own until its last tick, then what is left of it; and the method's other one."""
        primal, dual = self.method.residuals(self._inner(s), view)
        spread = s.average_spread[:, 0] * (view.degree[:, 0] > 0)
        return np.where(np.isnan(spread), primal, spread), dual

    def _inner(self, s: Any) -> Any:
        return _state(s._fields[:-2])(*s[:-2])

    def _with(self, s: Any, inner: Any) -> Any:
        return type(s)(*inner, self.method.estimate(inner), s.average_spread)
