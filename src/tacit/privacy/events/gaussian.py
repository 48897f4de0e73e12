"""Events of Gaussian noise: by itself, on a secret sample, and in shares."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.privacy.events.forms import Forms, finite, positive, square, whole

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    from tacit.privacy.events import Event


@dataclass(frozen=True, slots=True)
class Gaussian(Forms):
    """A vector leaves with independent noise N(0, sigma^2) on each entry, where its Euclidean distance between
    neighbours is at most Delta; `multiplier` is sigma/Delta."""

    loss = "normal"

    multiplier: float

    def __post_init__(self) -> None:
        positive(self, "multiplier")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return n * (order * square(1 / self.multiplier) / 2)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * square(1 / self.multiplier) / 2, 0.0

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            self.multiplier, value_discretization_interval=interval
        )

    def precision(self, n: int = 1) -> float:
        return n * square(1 / self.multiplier)

    @classmethod
    def dominating(cls, events: Collection[Gaussian]) -> Event | None:
        return Gaussian(min(event.multiplier for event in events))

    def in_words(self) -> str:
        return f"Gaussian noise {self.multiplier:.4g} times what a record can move"


@dataclass(frozen=True, slots=True)
class SampledGaussian(Forms):
    """As `Gaussian`, of a vector made of a secret sample, which every record joins with probability `rate`,
    independently of the others. Given the rest of the sample, taking a record out moves the vector by at most
    Delta/2, so replacing one that has joined by at most Delta; `multiplier` is sigma/Delta."""

    loss = "cut"

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        if not (finite(self.rate) and 0 < self.rate <= 1):
            raise InputError(f"SampledGaussian needs a rate above 0 and at most 1, not {self.rate}")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return Gaussian(self.multiplier).renyi(order, n)  # the divergence is quasi-convex: a sample costs no more

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return Gaussian(self.multiplier).zcdp(n)

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from tacit.privacy.formulas import sampling

        return sampling.loss_distribution(self, interval, largest)

    def largest_loss(self, tail: float) -> float:
        from tacit.privacy.formulas import sampling

        return sampling.largest_loss(self, tail)

    def spread(self) -> float:
        from tacit.privacy.formulas import sampling

        return sampling.spread(self)


@dataclass(frozen=True, slots=True)
class SharedGaussian(Forms):
    """A sum of `members` vectors leaves, one of each member, and nothing else of them. Every member has added its share
    of the noise to its own vector: independent noise N(0, s^2) on each entry. One member's vector moves by at most
    Delta between neighbours, in the Euclidean norm; `multiplier` is s/Delta, that of one share.

    Members that collude know their own vectors and shares of the noise, and up to `dropouts` members may be away. At
    most `colluders` members collude, so at least members - colluders - dropouts shares of the noise are unknown to
    them. For them the sum is a `Gaussian` release with the multiplier of so many shares together."""

    loss = "normal"

    multiplier: float
    members: int
    colluders: int
    dropouts: int = 0

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        whole(self, "members")
        for name in ("colluders", "dropouts"):
            value = getattr(self, name)
            if not (type(value) is int and value >= 0):
                raise InputError(f"SharedGaussian needs a whole number of {name}, 0 or more, not {value}")
        if self.shares < 1:
            raise InputError(
                f"of {self.members} members with {self.colluders} colluders and {self.dropouts} dropouts nobody is "
                "left to hide among; there must be one at least"
            )

    @property
    def shares(self) -> int:
        """How many shares of the noise no coalition knows."""
        return self.members - self.colluders - self.dropouts

    @property
    def gaussian(self) -> Gaussian:
        """The same for the largest coalition that is assumed, as an event of one Gaussian mechanism."""
        return Gaussian(self.multiplier * math.sqrt(self.shares))

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return self.gaussian.renyi(order, n)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return self.gaussian.zcdp(n)

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        return self.gaussian.loss_distribution(interval, largest)

    def precision(self, n: int = 1) -> float:
        return self.gaussian.precision(n)

    @property
    def shared(self) -> SharedGaussian:
        return self

    def against(self, colluders: int, connectivity: int | None = None) -> Event:
        most = self.members - self.dropouts - 1  # then one share is left
        cut = connectivity is not None and colluders + self.dropouts >= connectivity
        return replace(self, colluders=most if cut else min(colluders, most))

    def faced(self) -> Event:
        return self.gaussian

    @classmethod
    def dominating(cls, events: Collection[SharedGaussian]) -> Event | None:
        alike = len({replace(event, multiplier=1.0) for event in events}) == 1
        return min(events, key=lambda event: event.multiplier) if alike else None

    def in_words(self) -> str:
        return (
            f"a share of {self.multiplier:.4g} times what a record can move, in a sum with {self.shares} such "
            "shares or more"
        )
