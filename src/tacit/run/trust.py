"""Whom the members of a run count on."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import NamedTuple

from tacit.core.graph import Graph
from tacit.errors import InputError, whole
from tacit.exchange.listening import check_robust
from tacit.run.option import check_types, option

_COLLUDERS = (
    "Share the noise, for a better model: every member adds only a part of it, and only the sum over all is ever seen. "
    "T is how many members (hospitals) may secretly put together what they know: the guarantee holds against any T of "
    "them, and is weaker against more. A member that adds no noise counts as one of the T. Without this option every "
    "member adds all of its noise, and need not trust the others."
)
_DROPOUTS = "With --colluders: how many members may go away in the middle of the run, besides. Costs as much noise."
_ROBUST = (
    "Protect against one lying member by how the others listen: clipping (costs least), trimmed or median. Every "
    "member needs two neighbours; more edges protect better."
)


class Reserve(NamedTuple):
    """Whose share of the noise cannot be counted on, where members share it."""

    colluders: int
    dropouts: int = 0

    def shares(self, members: int) -> int:
        """How many shares are left."""
        whole("colluders", self.colluders, 0)
        whole("dropouts", self.dropouts, 0)
        if self.colluders + self.dropouts >= members:
            raise InputError(
                f"of {members} members, {self.colluders} colluders and {self.dropouts} dropouts leave none whose noise "
                f"hides the others: together at most {members - 1}"
            )
        return members - self.colluders - self.dropouts


@dataclass(frozen=True)
class Trust:
    """How much the members trust each other."""

    colluders: int | None = option(None, _COLLUDERS, metavar="T")
    dropouts: int = option(0, _DROPOUTS, metavar="Q")
    robust: str | None = option(None, _ROBUST)

    def __post_init__(self) -> None:
        if self.colluders is not None:
            object.__setattr__(self, "colluders", whole("colluders", self.colluders, 0))
        object.__setattr__(self, "dropouts", whole("dropouts", self.dropouts, 0))
        if self.colluders is None and self.dropouts:
            raise InputError("dropouts are of members that share their noise: give colluders, too")
        check_types(self, robust=(str, NoneType))
        check_robust(self.robust)
        if self.robust is not None and self.colluders is not None:
            raise InputError(
                "robust listening compares rows, and members that share their noise see sums alone: leave out robust, "
                "or colluders"
            )

    def check(self, graph: Graph) -> None:
        """Refuses a graph on which the members cannot trust each other so: a reserve that leaves nobody, or that can
        cut the graph in two; a member with too few neighbours to listen robustly."""
        if self.reserve is not None:
            self.reserve.shares(graph.agents)
            from tacit.algorithms.summed import check_graph

            check_graph(graph, *self.reserve)
        check_robust(self.robust, int(graph.degree.min()))

    @classmethod
    def of(cls, reserve: Reserve | None, robust: str | None = None) -> Trust:
        """With shared noise, if there is a reserve."""
        return cls(robust=robust) if reserve is None else cls(*reserve, robust)

    @property
    def reserve(self) -> Reserve | None:
        """Whose share of the noise is not counted on; None if nobody's has to be."""
        return None if self.colluders is None else Reserve(self.colluders, self.dropouts)


LOCAL = Trust()  # every member adds all of its noise, and takes the average of what it hears
