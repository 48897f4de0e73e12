"""What a run costs against coalitions: members that put together all that they know.

Where every member adds all of its noise (*local noise*), the cost is the same for every coalition, up to all others
together. Where members share the noise of a sum, it holds for as many colluders as was assumed, and grows with more of
them: the *curve* says how. It takes the dropouts that were allowed for as used up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from tacit.core.alike import distinct
from tacit.privacy.accounting import epsilon, rounded_up, times
from tacit.privacy.events import Event, against, known

__all__ = ["Coalition", "Guarantee", "guarantee"]


class Coalition(NamedTuple):
    """So many members together have learnt at most so much about one record, at the delta of the curve."""

    colluders: int
    epsilon: float  # rounded up


class Guarantee(NamedTuple):
    """What a whole run costs, and against whom."""

    epsilon: float  # against the largest coalition that was assumed
    delta: float
    members: int
    colluders: int  # how many that coalition has: all other members, if noise is local
    dropouts: int  # so many members may be away besides
    curve: list[Coalition]  # of 0, 1, ... members, up to all but one of those that are there

    @property
    def shared(self) -> bool:
        """Whether members share the noise: then other coalitions pay another epsilon."""
        return self.curve[-1].epsilon > self.curve[0].epsilon

    def __str__(self) -> str:
        """The pair alone: "(1, 1e-05)"."""
        return f"({rounded_up(self.epsilon):g}, {self.delta:g})"

    @property
    def against(self) -> str:
        """Against whom it holds, and what holds against the largest coalition, and all others that can do as much: on a
        graph that few members can cut in two, a coalition just above the assumed one may be as strong as the largest.

        >>> curve = [Coalition(0, 0.7), Coalition(1, 0.8), Coalition(2, 1.0), Coalition(3, 1.4), Coalition(4, 2.3)]
        >>> Guarantee(1.0, 1e-5, 5, 2, 0, curve).against
        'against any 2 of the 4 other members together; against 4: (2.3, 1e-05)'
        """
        if not self.shared:
            return "against all other members together"
        others = f"of the {self.members - 1} other members"  # than the one that holds the record
        whom = f"any one {others}" if self.colluders == 1 else f"any {self.colluders} {others} together"
        if self.colluders == 0:
            whom = "anybody who is no member"
        elif self.colluders == self.members - 1:
            whom = "all other members together"
        if self.dropouts:
            whom += f", while at most {self.dropouts} {'is' if self.dropouts == 1 else 'are'} away"
        largest = self.curve[-1]
        as_strong = next(size for size, cost in self.curve if cost == largest.epsilon)
        if as_strong <= self.colluders:
            return f"against {whom}"
        more = f"{as_strong}{' or more' * (as_strong < largest.colluders)}"
        return f"against {whom}; against {more}: ({largest.epsilon:g}, {self.delta:g})"

    def as_plain(self) -> dict[str, Any]:
        """Data that JSON can carry: the assumption, and the whole curve."""
        return {
            "colluders": self.colluders,
            "dropouts": self.dropouts,
            "coalitions": [
                {"colluders": t, "epsilon": cost if math.isfinite(cost) else None} for t, cost in self.curve
            ],
        }


def guarantee(
    spent: Iterable[Counter[Event]], delta: float, *, members: int, connectivity: int | None = None
) -> Guarantee:
    """What these events cost together against the coalition that was assumed, and against every other.

    spent : for every member, how often it releases at which cost; the guarantee is that of the member that pays most
    delta : the same for all coalitions
    members : how many there are
    connectivity : of the graph on which shares of noise travel; None if it is complete

    A coalition of no member is somebody outside who hears every sum.

    >>> from tacit.privacy.events import SharedGaussian
    >>> spent = [Counter({SharedGaussian(4.0, members=5, colluders=2): 10})]
    >>> found = guarantee(spent, 1e-5, members=5)
    >>> [cost for _, cost in found.curve]
    [1.357, 1.535, 1.801, 2.259, 3.342]
    >>> found.colluders, str(found)
    (2, '(1.801, 1e-05)')
    """
    every = [Counter(dict(key)) for key in {frozenset(each.items()) for each in distinct(spent)}]
    assumed = [found for each in every for event in each if (found := known(event).shared)]
    colluders = min((found.colluders for found in assumed), default=members - 1)
    dropouts = max((found.dropouts for found in assumed), default=0)
    costs: dict[frozenset[tuple[Event, int]], float] = {}

    def cost(each: Counter[Event], size: int) -> float:
        faced: Counter[Event] = Counter()
        for event, n in each.items():
            faced[against(event, size, connectivity)] += times(n)
        key = frozenset(faced.items())
        if key not in costs:
            costs[key] = epsilon(faced, delta)
        return costs[key]

    def worst(size: int) -> float:
        return max(cost(each, size) for each in every)

    # From so many colluders on all coalitions are alike (`against`), of which there may be a million.
    alike = 0 if not assumed else members if connectivity is None else connectivity
    costs_of = [rounded_up(worst(size)) for size in range(min(alike + 1, members - dropouts))]
    curve = [Coalition(size, costs_of[min(size, len(costs_of) - 1)]) for size in range(members - dropouts)]
    return Guarantee(worst(colluders), delta, members, colluders, dropouts, curve)
