"""How large a total can be, from public numbers alone; and what is done with one that is larger.

A member that lies can put any number into a total, and nobody sees whose it was. So a total is read within bounds, in
simulations and by every agent (`tacit.exchange.listening`). **One beyond its bounds is not used**: it is read as zero,
so that the method takes no step down that gradient. Cutting it back to the bounds would keep its direction, at the
largest length that an honest total can have, and momentum carries such a step on for many ticks: one false total would
still cost most of the model (docs/evidence/audits.md has the figures of both). Reading is a function of the total, so
it is post-processing.

A lie *within* the bounds is a possible total of honest members: no reader can tell it from one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.core.problem import ROUNDING, Problem
from tacit.core.release import Inbox
from tacit.exchange.totals import TotalInbox
from tacit.privacy.events import MOST_ROUNDS
from tacit.privacy.sensitivity import SHARE_GRID, gradient_reach

FALSE_ALARM = 1e-9  # the most probable it may be that an honest run, however long, has a total beyond its bounds


@dataclass(frozen=True)
class TotalBounds:
    """No total of honest members is longer than `largest`, and no mean over any of them than `mean`.

    *Proof.* Member i of N says g_i + e_i + r_i: a gradient at a point within the radius; a share of the noise, normal
    of deviation s in each of d coordinates; and what rounding to the grid does. Whatever the records, ||g_i|| is at
    most `gradient_reach` of i, and ||r_i|| at most sqrt(d) times half a step of the grid. The shares are independent,
    so their sum is s sqrt(N) Z with Z standard normal. ||z|| changes by no more than z moves, and E||Z|| <= sqrt(d), so
    by the concentration of Gaussian measure ||Z|| > sqrt(d) + u has a probability of at most exp(-u^2/2). For
    u = sqrt(2 ln(R/p)) that is p/R: summed over the R = `MOST_ROUNDS` ticks that a run may have, p = `FALSE_ALARM`.
    (All members hear the same total: it counts once.) So, but for p,

        ||total|| <= sum_i reach_i + s sqrt(N) (sqrt(d) + u) + N sqrt(d) step

    with a whole step for half of one, which is more than what rounding does to a computed norm. The mean over any n of
    the members is at most the largest reach and the noise of one share: both n-th parts of a sum of n.

    >>> from tacit.core.facts import Facts
    >>> bounds = TotalBounds.of(Facts(sizes=[8000] * 5, dimension=104, radius=512.0), deviation=0.004)
    >>> round(bounds.largest, 2), round(bounds.mean, 2)
    (5.16, 1.07)
    """

    largest: float
    mean: float

    @classmethod
    def of(cls, facts: Problem, deviation: float, row_norm: float = 1.0) -> TotalBounds:
        """From the public facts about all members, and the deviation of a share of the noise."""
        root = math.sqrt(facts.dimension)
        draw = root + math.sqrt(2 * math.log(MOST_ROUNDS / FALSE_ALARM))
        reach, noise, step = gradient_reach(facts, row_norm), deviation * draw, root * SHARE_GRID
        n = facts.agents
        return cls(
            float(reach.sum() + math.sqrt(n) * noise + n * step) * (1 + ROUNDING),
            float(reach.max() + noise + step) * (1 + ROUNDING),
        )

    def read(self, inbox: Inbox) -> Inbox:
        """The totals, each as it is, or zero if it lies beyond the bounds."""
        totals = inbox.sum()
        with np.errstate(over="ignore"):
            inside = np.linalg.norm(totals, axis=1, keepdims=True) <= self.largest
        return inbox if inside.all() else TotalInbox(np.where(inside, totals, 0.0), inbox.counts)
