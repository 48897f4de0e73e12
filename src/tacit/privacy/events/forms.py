"""What all events have: the forms in which their cost can be added up, and the checks of their parameters."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from tacit.errors import InputError

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    from tacit.privacy.events import Event
    from tacit.privacy.events.gaussian import SharedGaussian


class Forms:
    """What all events have: forms, each of which bounds what n releases cost, and infinite ones where none is stated.

    A privacy-loss distribution is composed in one of three ways:

        normal  the loss is that of a Gaussian mechanism: all of these together are one, exactly (`precision`)
        grid    it lies on a grid, rounded up
        cut     the same, and losses above a largest one, which has to be chosen, count as infinite
    """

    __slots__ = ()  # so that no event, however it was made, has a form or a mark of its own beside its parameters

    free: ClassVar[bool] = False  # whether it costs nothing
    protected: ClassVar[bool] = True  # whether any form may be finite
    loss: ClassVar[Literal["normal", "grid", "cut"] | None] = None  # None: no distribution of it is known

    def __post_init__(self) -> None:
        """Refuses parameters that no release has. It is asked again wherever an event is taken (`known`)."""

    def pure(self, n: int = 1) -> float:
        """The pure epsilon of n such releases; infinite if there is none."""
        return math.inf

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        """An upper bound on the Renyi divergence of each order > 1 between neighbours."""
        return math.inf * order

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        """rho and xi: the Renyi divergence of every order a > 1 is at most xi + rho a."""
        return math.inf, math.inf

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        """Of one loss, on a grid of this interval, rounded up; n releases have `losses(n)` such losses."""
        from dp_accounting.pld import common, privacy_loss_distribution

        everything = common.DifferentialPrivacyParameters(0.0, 1.0)
        return privacy_loss_distribution.from_privacy_parameters(everything, value_discretization_interval=interval)

    def largest_loss(self, tail: float) -> float:
        """If the distribution is cut: a loss above which there is at most so much of it."""
        return math.inf

    def spread(self) -> float:
        """If the distribution is cut: roughly the variance of the loss."""
        return math.inf

    def losses(self, n: int = 1) -> int:
        """How many independent losses n releases have."""
        return n

    def roundings(self, n: int = 1) -> int:
        """How often the grid rounds the loss by up to an interval; otherwise it is fitted to second order."""
        return 0

    def precision(self, n: int = 1) -> float:
        """If the loss is normal: 1/multiplier^2 of the one Gaussian mechanism that n releases are."""
        return 0.0

    def alone(self, delta: float, n: int = 1) -> float | None:
        """The epsilon of n releases and nothing else, where a formula gives it."""
        return None

    @property
    def shared(self) -> SharedGaussian | None:
        """The event, if members share its noise: it holds against so many of them. None if it holds against all."""
        return None

    def against(self, colluders: int, connectivity: int | None = None) -> Event:
        """This event for another coalition: see the function `against`."""
        return cast("Event", self)

    def faced(self) -> Event:
        """What it is for the largest coalition that it assumes: an event that assumes none."""
        return cast("Event", self)

    @classmethod
    def dominating(cls, events: Collection[Self]) -> Event | None:
        """One event whose losses dominate those of each of these; None if none does."""
        return None

    def in_words(self) -> str:
        """What a release costs, for people."""
        return str(self)


def whole(event: Any, name: str, least: int = 1) -> None:
    value = getattr(event, name)
    if not (isinstance(value, int) and finite(value) and value >= least):
        raise InputError(f"{type(event).__name__} needs a whole number of {name}, {least} or more, not {value}")


def positive(event: Any, name: str) -> None:
    value = getattr(event, name)
    if not (finite(value) and value > 0):
        raise InputError(f"{type(event).__name__} needs a positive, finite {name}, not {value}")


def finite(value: Any) -> bool:
    """Whether it is a number, and no larger than a float can be."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def square(x: float) -> float:
    """x^2: infinity, not an exception, where x is too large."""
    return x * x
