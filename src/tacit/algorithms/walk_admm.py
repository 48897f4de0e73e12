"""Incremental ADMM whose token goes to a random neighbour."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.algorithms.incremental_admm import IncrementalADMM
from tacit.core.schedule import RandomWalk
from tacit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class WalkADMM(IncrementalADMM):
    """W-ADMM: Yin, Mao, Yuan, Gu, Sayed (2018; paper 002's [17]): the steps of `IncrementalADMM` on a random walk."""

    order: RandomWalk = RandomWalk()  # noqa: RUF009 (it is frozen)

    traits = IncrementalADMM.traits
    kinds = IncrementalADMM.kinds

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, RandomWalk):
            raise InputError(f"the order of a walk is a RandomWalk, not {self.order!r}")
