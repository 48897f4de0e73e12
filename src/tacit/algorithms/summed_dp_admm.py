"""DP-ADMM for several organisations: the noisy gradient is a total, whose noise they share."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tacit.algorithms import summed
from tacit.algorithms.accelerated_dp_admm import AcceleratedDPADMM
from tacit.algorithms.dp_admm import DPADMM, State
from tacit.core.algorithm import Traits, given
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.exchange.total_bounds import TotalBounds
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import Noise

# What makes the noise of a DPADMM: here `deviation` does.
_OF_ONE_HOLDER: dict[str, Any] = {
    "budget": None,
    "noise_schedule": 1.0,
    "rate": 1.0,
    "as_printed": False,
    "exact": False,
}


@lru_cache
def _state() -> Any:
    return namedtuple("SummedState", (*State._fields, "radius"))


@dataclass(frozen=True, kw_only=True)
class SummedDPADMM:
    """DP-ADMM or DP-AccADMM (paper 001, Algorithms 2 and 3) of members that pool nothing.

    All that a round of `method` needs of the records is a noisy gradient of their mean objective,

        grad f(x_hat) + P_t = 1/N sum_i (grad O_i(x_hat) + e_i),   e_i normal with deviation `deviation`

    so the members exchange its total, and each computes (3), (7) and (5) from it: x, y and u are the same at all of
    them. So a composite term, such as a fused lasso, needs no centre. e_i is a member's share of the noise;
    `tacit.algorithms.summed` says what the sum of shares protects against. With scale_i = B_i/mean(B) the mean of the
    members' objectives is that of the pooled records.

    The `method` brings term, penalty, step, row_norm and average. The step must be given: a member does not know the
    others' scales. With scale_i = B_i/mean(B), that of the pooled records is 1/(L_f + rho ||A^T A||) with
    L_f = (largest curvature) row_norm^2 + l2. The method's budget, noise_schedule, rate, exact and as_printed are for
    one holder of all records, and are refused. So is a term that was learnt from private records: that has a cost.
    x stays within the problem's radius: a member that lies can move the total within its bounds, but x no farther.

    Without a deviation it is the method without noise.
    """

    traits: ClassVar[Traits] = Traits(totals=True, laws=(Gaussian,), draws=given("deviation"))

    method: DPADMM
    deviation: float | None = None  # of each member's share of the noise
    colluders: int = 1
    dropouts: int = 0
    name: str = field(init=False)  # of the method's class: parameters alone do not tell two methods apart

    def __post_init__(self) -> None:
        own = self.method
        if not isinstance(own, DPADMM):
            raise InputError(f"method is a DPADMM or an AcceleratedDPADMM, not {own!r}")
        if own.step is None:
            raise InputError("the method needs a step: a member cannot choose one for all by its own scale")
        for name, only in _OF_ONE_HOLDER.items():
            if not np.array_equal(getattr(own, name), only):
                raise InputError(f"{name} of the method must be {only}: it is for one holder of all records")
        if not own.term.cost.free:
            raise InputError("the term was learnt from records, which costs something: take a public one")
        summed.check(self)
        if isinstance(own, AcceleratedDPADMM) and own.restart is None:  # as there: with noise momentum never restarts
            object.__setattr__(self, "method", replace(own, restart=self.deviation is None))
        object.__setattr__(self, "name", type(own).__name__)

    @property
    def row_norm(self) -> float:
        """The norm that no record may exceed."""
        return self.method.row_norm

    def bounds(self, facts: Problem) -> TotalBounds | None:
        """Within which totals are used."""
        return summed.bounds(self, facts)

    def schedule(self, graph: Graph) -> Broadcast:
        """All members speak at every tick."""
        return summed.broadcast(self, graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """All ticks cost the same."""
        return np.zeros(rounds, dtype=int)

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> Any:
        """x_0 is the public start, u_0 = 0."""
        summed.check_start(start, heard)
        return _state()(*self.method.start(problem, start), summed.radius(self, problem))

    def speak(self, s: Any, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[Any, Release]:
        """The member's part of the gradient at x_hat."""
        return s, summed.said(self, s.x_hat, problem, view, noise, t)

    def listen(self, s: Any, inbox: Inbox, view: View, t: int) -> Any:
        """(3), (7) and (5), with the noisy gradient from the total."""
        gradient = summed.mean_gradient(inbox)
        step = np.full((len(gradient), 1), self.method.step)
        return type(s)(*self.method.advanced(State(*s[:-1]), gradient, step, t, s.radius), s.radius)

    def estimate(self, s: Any) -> np.ndarray:
        """x_t, or the mean of all so far: functions of totals."""
        return self.method.estimate(s)

    def residuals(self, s: Any, view: View) -> tuple[np.ndarray, np.ndarray]:
        """||A x - y - c|| and ||grad f + A^T w||, both relative."""
        return self.method.residuals(s, view)
